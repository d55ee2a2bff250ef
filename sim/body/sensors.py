"""Sensor models: joints, IMU, drifting odometry, and a camera with its own frame rate."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_RANGE_M, rgbd
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.rotation import tilted, turned, wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.body.randomisation import Sample
from pixelgait.sim.body.sampling import Renderer
from pixelgait.sim.world.seeds import Stream

T = TypeVar("T")
# Assumptions. Blur is the mean of this many pictures; at the fastest turn a picture of 32 pixels
# moves by less than one.
BLUR_TAPS = 5
UNSEEN_PIXELS = 0.1  # motion below the resolution of bytes
MOST_EXPOSED = 2.0  # largest error of automatic exposure: one stop
# Assumptions. Neighbours whose inverse depths [1/m] differ by more have an edge between them:
# 0.11 m beyond 1 m, 1.3 m beyond 3 m.
EDGE_STEP = 0.1
PATCHES = 8  # side of the grid on which shiny and dark patches are drawn
WIDEST_RAD = np.radians(179.0)  # a pinhole's field of view is below 180 degrees


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
        self.rng = Stream.SENSORS.rng(seed)
        offset = sample.encoder_bias_rad
        self.encoder_bias = self.rng.uniform(-1.0, 1.0, joints) * offset
        self.rate_bias = self.rng.choice((-1.0, 1.0), 3) * sample.rate_bias_rad_per_s
        self._joints, self._imu = History(), History()
        self._orientation = np.zeros(4)
        self._odometry = DriftingOdometry(sample.odometry_scale, sample.odometry_turn_rad_per_m)

    def read(self, true: Reading, pose: BasePose) -> Reading:
        """A true reading as these sensors measure it, for a base at this pose."""
        sample, rng, now = self.sample, self.rng, true.time_s
        self._joints.add(now, np.concatenate((true.joint_angles, true.joint_velocities)))
        self._orientation = nearer_quaternion(true.orientation, self._orientation)
        self._imu.add(now, np.concatenate((self._orientation, true.angular_velocity)))
        self.camera.observe(now, pose)
        joints = self._joints.at(now - sample.encoder_delay_s)
        angles, velocities = joints[: self.encoder_bias.size], joints[self.encoder_bias.size :]
        imu = self._imu.at(now - sample.imu_delay_s)
        tilt = rng.normal(sample.imu_bias_rad, sample.imu_noise_rad, 2)
        rate_noise = rng.normal(0.0, sample.rate_noise_rad_per_s, 3)
        encoder_noise = rng.normal(0.0, sample.encoder_noise_rad, angles.size)
        return replace(
            true,
            joint_angles=angles + self.encoder_bias + encoder_noise,
            joint_velocities=velocities,
            orientation=tilted(turned(imu[:4], sample.heading_drift_rad_per_s * now), tilt),
            angular_velocity=imu[4:] + self.rate_bias + rate_noise,
            image=lambda: self.camera.newest(now),
            odometry=None if true.odometry is None else self._odometry.read(true.odometry),
        )


def nearer_quaternion(orientation: Array, last: Array) -> Array:
    """The quaternion (4,) or its negative, whichever is nearer to `last`: for interpolation."""
    return -orientation if orientation @ last < 0.0 else orientation


class Poses(Protocol):
    """Poses of a base over time."""

    def at(self, time_s: float) -> Array:
        """Position [m] and orientation xyzw (7,) at a time [s]."""


class CameraStream:
    """Frames at a camera's own rate, some lost, each late; rendered on demand.

    A frame shows the scene from the base's pose at its exposure, with moving shapes at their
    present poses.
    """

    def __init__(
        self,
        sample: Sample,
        camera: Camera,
        view: Renderer,
        seed: int,
        poses: Poses | None = None,
    ) -> None:
        """`poses` of the base over time; None: those that are observed."""
        self.sample, self.view, self.seed = sample, view, seed
        shift_m = sample.camera_ahead_m, sample.camera_left_m, sample.camera_up_m
        angles = sample.camera_pitch_rad, sample.camera_yaw_rad, sample.camera_roll_rad
        wide_rad = min(WIDEST_RAD, sample.camera_zoom * camera.mount.vertical_fov_rad)
        self.camera = camera.moved(shift_m, *angles).with_field_of_view(wide_rad)
        self._exposure_control = AutomaticExposure(
            sample.camera_exposure, sample.camera_exposure_lag_s
        )
        self._observed = History(2.0)  # for a latency of 1 s, lost frames and the shutter
        self._poses = poses or self._observed
        self._orientation = np.zeros(4)

    def observe(self, time_s: float, pose: BasePose) -> None:
        """Record the pose of the base at a time [s]."""
        self._orientation = nearer_quaternion(np.array(pose.orientation), self._orientation)
        self._observed.add(time_s, np.concatenate((pose.position, self._orientation)))

    def newest(self, now_s: float) -> Image:
        """The newest frame that has arrived by now, stamped with its exposure [s]."""
        time_s, rng = self._exposure(now_s)
        pose = self._poses.at(time_s)
        orientation = pose[3:] / np.linalg.norm(pose[3:])
        seen_from = BasePose(tuple(pose[:3].tolist()), tuple(orientation.tolist()))
        pixels = self.view(self.camera, seen_from)
        brightness, motion = 1.0, (0.0, 0.0)
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


def with_drawn_eye(camera: Camera, sample: Sample, stand_height_m: float) -> Camera:
    """The camera at the height above the ground and the pitch of a sample, if it has them."""
    mount = camera.mount
    x, y, z = mount.position_m
    z = z if sample.eye_height_m is None else sample.eye_height_m - stand_height_m
    pitch = mount.pitch_down_rad if sample.eye_pitch_rad is None else sample.eye_pitch_rad
    return replace(camera, mount=replace(mount, position_m=(x, y, z), pitch_down_rad=pitch))


def captured(
    pixels: NDArray[Any],
    sample: Sample,
    focal_pixels: float,
    rng: np.random.Generator,
    motion: tuple[float, float] = (0.0, 0.0),
    brightness: float = 1.0,
) -> NDArray[Any]:
    """An ideal frame as a randomised camera captures it.

    Colours are blurred, tinted, darker in the corners and noisy; depth has the errors of a stereo
    camera, with its holes filled.

    Args:
        pixels: The ideal frame, see `Camera`.
        sample: The camera's parameters.
        focal_pixels: Focal length.
        rng: Source of noise.
        motion: Motion of the picture during the exposure [pixels], left and up.
        brightness: Factor of automatic exposure.
    """
    if pixels.dtype == np.float32:  # depth [m]
        return _filled(apply_stereo(pixels, sample, focal_pixels, rng))
    colours = apply_camera(pixels[..., :3], sample, motion, brightness, rng)
    if pixels.shape[2] == 3:
        return colours
    # Bytes saturate at their range: those pixels count as measured.
    far = pixels[..., 3] == 255
    depth = np.where(far, FAR_M, pixels[..., 3] * (DEPTH_RANGE_M / 255.0))
    return rgbd(colours, _filled(apply_stereo(depth, sample, focal_pixels, rng, cuts=False)))


def _filled(depth: NDArray[np.float32]) -> NDArray[np.float32]:
    """Depth (H, W) [m] with its holes filled in place, as `observation.fill_holes` does."""
    from pixelgait.sim.body.depth_kernels import fill

    fill(depth)
    return depth


def apply_camera(
    pixels: NDArray[np.uint8],
    sample: Sample,
    motion: tuple[float, float],
    exposure: float,
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """An ideal frame (H, W, 3) with the effects of a camera.

    `motion` is that of the picture while the shutter is open [pixels], right and down; `exposure` a
    factor on the brightness in addition to the sample's gain.
    """
    values: Array = _blurred(pixels.astype(np.float32), *motion).astype(np.float64)
    tint = np.array((sample.camera_red, 1.0, sample.camera_blue)) * sample.camera_gain * exposure
    values = values * (tint * _vignette(sample.camera_vignetting, *pixels.shape[:2])[..., None])
    values = values + sample.camera_noise * rng.standard_normal(pixels.shape)
    return np.asarray(values.round().clip(0, 255), dtype=np.uint8)


class AutomaticExposure:
    """Automatic exposure: follows the brightness of the scene with a lag.

    The first frame is exposed correctly; `strength` 0 is a fixed exposure, 1 undoes all changes.
    """

    def __init__(self, strength: float, lag_s: float) -> None:
        self.strength, self.lag_s = strength, lag_s
        self._first = self._level = 0.0  # mean brightness: of the first frame, and as followed
        self._time_s = -math.inf
        self._factor = 1.0

    def factor(self, pixels: NDArray[np.uint8], time_s: float) -> float:
        """Factor on the brightness of a frame; repeated calls for a frame return the same."""
        if time_s == self._time_s:
            return self._factor
        mean = max(
            1.0, float(pixels.mean())
        )  # assumption: at least 1 of 255, black has no exposure
        if self._first == 0.0:
            self._first = self._level = mean
        else:
            share = 1.0 - math.exp(-(time_s - self._time_s) / max(self.lag_s, 1e-6))
            self._level += share * (mean - self._level)
        self._time_s = time_s
        factor = (self._first / self._level) ** self.strength
        self._factor = min(max(factor, 1.0 / MOST_EXPOSED), MOST_EXPOSED)
        return self._factor


def apply_stereo(
    depth: NDArray[Any],
    sample: Sample,
    focal_pixels: float,
    rng: np.random.Generator,
    cuts: bool = True,
) -> NDArray[np.float32]:
    """Measured depth (H, W) [m] of a true one, NaN where there is none; inf is an empty pixel.

    Depth beyond the sample's range is not measured, or without `cuts` measured badly.
    """
    from pixelgait.sim.body.depth_kernels import measure

    draws = rng.random((4, *depth.shape))
    measured = np.empty(depth.shape, np.float32)
    measure(
        depth.astype(np.float64),
        draws,
        rng.random((PATCHES, PATCHES)),
        sample.depth_holes,
        sample.depth_patches,
        focal_pixels * sample.depth_baseline_m,
        EDGE_STEP,
        sample.depth_flying,
        sample.depth_error_per_m,
        sample.depth_step_per_m,
        sample.depth_nearest_m,
        max(sample.depth_range_m, 1e-3),
        cuts,
        measured,
    )
    return measured


def _vignette(strength: float, height: int, width: int) -> Array:
    """Share of the light (H, W); falls with the squared distance to the middle, about as cos^4."""
    v = np.linspace(-1.0, 1.0, height)[:, None]
    u = np.linspace(-1.0, 1.0, width)
    return np.asarray(1.0 - strength * (u * u + v * v) / 2.0)


def _blurred(values: NDArray[np.float32], right: float, down: float) -> NDArray[np.float32]:
    """The mean of the picture along a motion [pixels]."""
    if math.hypot(right, down) < UNSEEN_PIXELS:
        return values
    height, width = values.shape[:2]
    total = np.zeros_like(values)
    for share in np.linspace(-0.5, 0.5, BLUR_TAPS):
        shift = np.array(((1.0, 0.0, share * right), (0.0, 1.0, share * down)))
        total += cv2.warpAffine(values, shift, (width, height), borderMode=cv2.BORDER_REPLICATE)
    return total / np.float32(BLUR_TAPS)


class DriftingOdometry:
    """Integrates the true motion, scaled and turned by a constant angle per metre.

    It begins at the true pose, so its frame is the world's at first. Every reading has noise of a
    standard deviation of `noise_m` [m] in x and y, and of the same number [rad] in the heading,
    drawn from `rng`.
    """

    def __init__(
        self,
        scale: float = 1.0,
        turn_rad_per_m: float = 0.0,
        noise_m: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.scale, self.turn_rad_per_m, self.noise_m = scale, turn_rad_per_m, noise_m
        self._rng = rng or np.random.default_rng(0)
        self._true: Array | None = None
        self._estimate = np.zeros(3)

    def read(self, true: Array) -> Array:
        """Estimated pose (3,) x, y [m], heading [rad], given the true one."""
        if self._true is None:
            self._estimate = true
        else:
            x, y = _turned(true[:2] - self._true[:2], -self._true[2])
            step = self.scale * np.array((x, y))
            bent = self.turn_rad_per_m * np.hypot(x, y)
            heading = self._estimate[2] + wrap_angle(true[2] - self._true[2]) + bent
            moved = self._estimate[:2] + _turned(step, self._estimate[2])
            self._estimate = np.array((*moved, wrap_angle(heading)))
        self._true = true
        if self.noise_m == 0.0:
            return self._estimate
        x, y, yaw = self._estimate + self._rng.normal(0.0, self.noise_m, 3)
        return np.array((x, y, wrap_angle(yaw)))


def _turned(vector: Array, angle: float) -> Array:
    """A vector (2,) rotated by an angle [rad]."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array((cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]))


class DelayLine(Generic[T]):
    """Outputs items in order, `delay_s` after their input; `first` is available at once."""

    def __init__(self, first: T, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self._arrived = first
        self._pending: deque[tuple[float, T]] = deque()  # due times [s] and items

    def put(self, time_s: float, item: T) -> None:
        self._pending.append((time_s + self.delay_s, item))

    def at(self, time_s: float) -> T:
        """The newest item that has arrived by a time [s]."""
        while self._pending and self._pending[0][0] <= time_s:
            _, self._arrived = self._pending.popleft()
        return self._arrived


class History:
    """A measured vector over the last `kept_s` at least, linear between samples."""

    def __init__(self, kept_s: float = 1.0) -> None:
        self.kept_s = kept_s
        self._times_s: list[float] = []
        self._values: list[Array] = []

    @property
    def empty(self) -> bool:
        """Whether there is no sample yet."""
        return not self._times_s

    def add(self, time_s: float, value: Array) -> None:
        """Add the newest sample; one with the time of the last replaces it."""
        times_s = self._times_s
        if times_s and times_s[-1] == time_s:
            self._values[-1] = value
            return
        times_s.append(time_s)
        self._values.append(value)
        if times_s[0] < time_s - 2.0 * self.kept_s:  # seldom, since dropping the oldest takes time
            old = bisect_right(times_s, time_s - self.kept_s) - 1
            del times_s[:old], self._values[:old]

    def at(self, time_s: float) -> Array:
        """The vector at a time [s]; outside the samples' range the nearest one."""
        later = bisect_right(self._times_s, time_s)
        if later in (0, len(self._times_s)):
            return self._values[max(later - 1, 0)]
        earlier_s, later_s = self._times_s[later - 1 : later + 1]
        share = (time_s - earlier_s) / (later_s - earlier_s)
        before, after = self._values[later - 1 : later + 1]
        return before + share * (after - before)
