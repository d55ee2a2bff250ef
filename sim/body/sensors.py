"""Sensor models: biased, noisy and late values, and a camera with its own frame rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.rotation import tilted, turned
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.camera_effects import AutomaticExposure, captured
from pixelgait.sim.body.delays import History
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.body.odometry import DriftingOdometry
from pixelgait.sim.body.randomisation import Sample
from pixelgait.sim.world.seeds import Stream

WIDEST_RAD = np.radians(179.0)  # a pinhole's field of view is below 180 degrees
Renderer = Callable[[Camera, BasePose], NDArray[Any]]  # image of a camera on a base


class Sensors:
    """One episode's sensors, parametrised by a sample, with noise drawn from a seed.

    Readings are stamped with the time of reading: a controller does not know their age. Images
    carry the time of their exposure.
    """

    def __init__(
        self, sample: Sample, camera: Camera, view: Renderer, seed: int, joints: int
    ) -> None:
        self.sample = sample
        self.camera = CameraStream(sample, camera, view, seed)
        self._rng = Stream.SENSORS.rng(seed)
        offset = sample.encoder_bias_rad
        self._encoder_bias = self._rng.uniform(-1.0, 1.0, joints) * offset
        self._rate_bias = self._rng.choice((-1.0, 1.0), 3) * sample.rate_bias_rad_per_s
        self._joints, self._imu = History(), History()
        self._orientation = np.zeros(4)
        self._odometry = DriftingOdometry(sample.odometry_scale, sample.odometry_turn_rad_per_m)

    def read(self, true: Reading, pose: BasePose) -> Reading:
        """A true reading as these sensors measure it, for a base at this pose."""
        sample, rng, now = self.sample, self._rng, true.time_s
        self._joints.add(now, np.concatenate((true.joint_angles, true.joint_velocities)))
        self._orientation = nearer_quaternion(true.orientation, self._orientation)
        self._imu.add(now, np.concatenate((self._orientation, true.angular_velocity)))
        self.camera.observe(now, pose)
        joints = self._joints.at(now - sample.encoder_delay_s)
        angles, velocities = joints[: self._encoder_bias.size], joints[self._encoder_bias.size :]
        imu = self._imu.at(now - sample.imu_delay_s)
        tilt = rng.normal(sample.imu_bias_rad, sample.imu_noise_rad, 2)
        rate_noise = rng.normal(0.0, sample.rate_noise_rad_per_s, 3)
        encoder_noise = rng.normal(0.0, sample.encoder_noise_rad, angles.size)
        return replace(
            true,
            joint_angles=angles + self._encoder_bias + encoder_noise,
            joint_velocities=velocities,
            orientation=tilted(turned(imu[:4], sample.heading_drift_rad_per_s * now), tilt),
            angular_velocity=imu[4:] + self._rate_bias + rate_noise,
            image=lambda: self.camera.newest(now),
            odometry=None if true.odometry is None else self._odometry.read(true.odometry),
        )


def nearer_quaternion(orientation: Array, last: Array) -> Array:
    """The quaternion (4,) or its negative, whichever is nearer to `last`: for interpolation."""
    return -orientation if orientation @ last < 0.0 else orientation


class CameraStream:
    """Frames at a camera's own rate, some lost, each late; rendered on demand.

    A frame shows the scene from the base's pose at its exposure, with swinging shapes at their
    present poses.
    """

    def __init__(self, sample: Sample, camera: Camera, view: Renderer, seed: int) -> None:
        self.sample, self.view, self.seed = sample, view, seed
        shift_m = sample.camera_ahead_m, sample.camera_left_m, sample.camera_up_m
        angles = sample.camera_pitch_rad, sample.camera_yaw_rad, sample.camera_roll_rad
        wide_rad = min(WIDEST_RAD, sample.camera_zoom * camera.mount.vertical_fov_rad)
        self.camera = camera.moved(shift_m, *angles).with_field_of_view(wide_rad)
        self._exposure_control = AutomaticExposure(
            sample.camera_exposure, sample.camera_exposure_lag_s
        )
        self._poses = History(2.0)  # for a latency of 1 s, lost frames and the shutter
        self._orientation = np.zeros(4)

    def observe(self, time_s: float, pose: BasePose) -> None:
        """Record the pose of the base at a time [s]."""
        self._orientation = nearer_quaternion(np.array(pose.orientation), self._orientation)
        self._poses.add(time_s, np.concatenate((pose.position, self._orientation)))

    def newest(self, now_s: float) -> Image:
        """The newest frame that has arrived by now, stamped with its exposure [s]."""
        time_s, rng = self._exposure(now_s)
        pose = self._poses.at(time_s)
        orientation = pose[3:] / np.linalg.norm(pose[3:])
        seen_from = BasePose(tuple(pose[:3].tolist()), tuple(orientation.tolist()))
        pixels = self.view(self.camera, seen_from)
        brightness = 1.0
        if pixels.dtype == np.uint8:
            brightness = self._exposure_control.factor(pixels[..., :3], time_s)
        motion = self._motion(time_s)
        focal = self.camera.focal_pixels
        return Image(captured(pixels, self.sample, focal, rng, motion, brightness), time_s)

    def _motion(self, time_s: float) -> tuple[float, float]:
        """Motion of the picture while the shutter is open [pixels], left and up."""
        if not self.sample.camera_shutter_s:
            return 0.0, 0.0
        opened_s = time_s - self.sample.camera_shutter_s
        now, before = self._poses.at(time_s)[3:], self._poses.at(opened_s)[3:]
        # The vector of the small rotation between them, in the base's frame.
        turn = now[3] * before[:3] - before[3] * now[:3] - np.cross(now[:3], before[:3])
        _, pitch, yaw = (2.0 * self.camera.focal_pixels * turn).tolist()
        return yaw, -pitch

    def _exposure(self, now_s: float) -> tuple[float, np.random.Generator]:
        """Time of exposure of the newest frame [s], and its random generator.

        The first frame, at 0 s, is never lost: a robot does not start without one.
        """
        latest_s = max(0.0, now_s - self.sample.camera_latency_s)
        period_s = self.sample.camera_period_s
        if not period_s:
            return latest_s, Stream.CAMERA.rng(self.seed, round(latest_s * 1e6))
        frame = int(latest_s / period_s + 1e-9)
        while True:
            rng = Stream.CAMERA.rng(self.seed, frame)
            if rng.random() >= self.sample.camera_dropout or not frame:
                return frame * period_s, rng
            frame -= 1
