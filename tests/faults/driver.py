"""Fake driver for faults on the wire: simulated joints follow commands, messages can be altered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from nav_msgs.msg import Odometry

from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.interface import DRIVER_TIMEOUT_S
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import ODOMETRY
from pixelgait.robot.rotation import turned
from pixelgait.robot.runtime.camera_images import camera_topics
from pixelgait.robot.runtime.realtime import freeze_collector
from pixelgait.robot.runtime.timing import RateKeeper
from pixelgait.robot.spec import Array, RobotSpec

PERIOD_S = 0.005
FOLLOW_S = 0.03  # lag of joints behind their targets
SINK_S = 0.5  # time constant of damped joints towards the lying pose
IMAGE_EVERY = 6  # periods: 33 Hz
SWING_RAD, SWING_HZ = 0.6, 0.2  # of the heading, when it turns
PANORAMA = 400  # columns of the world around it, ahead in the middle
NOISE = 2.0  # of colours, in bytes; of depth as a RealSense's [1/m]
DEPTH_NOISE_PER_M, WALL_M, THINGS_M = 0.0089, 2.8, (0.8, 2.5)
# Roll that the IMU reports: too slow for a contradiction to the legs.
ROCK_RAD, ROCK_HZ = 0.06, 0.5
STILL_S, STILL_RAD = 0.5, 0.02  # at rest: no target has moved by more for so long

Alter = Callable[[str, Any], Any]  # topic, message -> message, or None to send nothing


@dataclass(frozen=True, slots=True)
class ReceivedCommand:
    """A joint command as it was received."""

    time_s: float  # of its arrival, monotonic
    sent_s: float  # by its stamp
    position: Array | None  # (12,) [rad]; None: damp
    yields: bool = False  # the position only follows the joint, instead of damping

    @property
    def damps(self) -> bool:
        """Whether the robot is damped by it, or follows its joints."""
        return self.position is None or self.yields


def at_rest(received: Sequence[ReceivedCommand]) -> bool:
    """Whether no stiff target has moved at the end."""
    last = [each.position for each in received if each.time_s > received[-1].time_s - STILL_S]
    return bool(np.ptp(np.array(last), axis=0).max() < STILL_RAD)


def parse_command(command: Any) -> ReceivedCommand:
    """A command from a `JointState` that arrives now."""
    position = np.array(command.position) if command.position else None
    return ReceivedCommand(time.monotonic(), ros2.seconds(command.header.stamp), position)


def take_all(subscription: Any, kind: Any) -> Iterator[tuple[Any, dict[str, int]]]:
    """All messages that have arrived, with their time stamps, which executors do not pass on."""
    while True:
        with subscription.handle:
            found = subscription.handle.take_message(kind, False)
        if found is None:
            return
        yield found


def panorama(spec: RobotSpec, height: int) -> dict[str, Any]:
    """The world around a standing robot, as high as its images: colours, and inverse depth [1/m].

    Level ground, a wall, and things before it.
    """
    rng = np.random.default_rng(0)
    colours = cv2.GaussianBlur(rng.random((height, PANORAMA, 3)).astype(np.float32), (0, 0), 3.0)
    colours = 255.0 * (colours - colours.min()) / np.ptp(colours)
    mount, half = spec.camera, np.tan(spec.camera.vertical_fov_rad / 2.0)
    down = (2.0 * (np.arange(height) + 0.5) / height - 1.0) * half
    ground = np.sin(mount.pitch_down_rad) + down * np.cos(mount.pitch_down_rad)
    ground = ground / (spec.stand_height_m + mount.position_m[2])
    inverse = np.maximum(np.full((height, PANORAMA), 1.0 / WALL_M), ground[:, None])
    for first in range(0, PANORAMA, 20):
        thing = inverse[height // 4 :, first : first + rng.integers(3, 10)]
        np.maximum(thing, 1.0 / rng.uniform(*THINGS_M), out=thing)
    return {ros2.COLOUR: colours, ros2.DEPTH: inverse.astype(np.float32)}


class FakeDriver:
    """Publishes joint states, IMU, odometry and images in a thread of its own; keeps all commands.

    The robot never leaves its place; it swings its heading while `turns`. `alter` is applied to
    every message. The caller spins `node`.
    """

    def __init__(self, node: Any, spec: RobotSpec, image_shape: tuple[int, int, int]) -> None:
        self.spec, self.image_shape, self._node = spec, image_shape, node
        self.alter: Alter = lambda topic, message: message
        self.turns = False
        self._sent_ns = 0  # stamp of the newest joint states
        self._time_s = self._turned_s = 0.0  # since it began; of turning
        self.also: Callable[[], None] = lambda: None  # called with every image
        self.received: list[ReceivedCommand] = []
        self._angles = spec.default_pose_rad.copy()
        self._lying = lying_pose(spec)
        self._rng = np.random.default_rng(0)
        self._cameras = camera_topics(image_shape)
        self._world = panorama(spec, image_shape[0])
        kinds = {ros2.JOINT_STATES: ros2.JointState, ros2.IMU: ros2.Imu}
        kinds |= {ODOMETRY: Odometry, **dict.fromkeys(self._cameras, ros2.Image)}
        self._publishers = {
            topic: node.create_publisher(kind, topic, ros2.SENSOR_QOS)
            for topic, kind in kinds.items()
        }
        # Taken by hand: an executor does not pass on the time of arrival.
        self._listener = ros2.quiet_node(node, "observer")
        self._commands = self._listener.create_subscription(
            ros2.JointState, ros2.JOINT_COMMAND, lambda _: None, 100
        )
        freeze_collector()  # of all that tests have imported a collection takes 0.1 s: silence
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driver")
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._listener.destroy_node()

    def _run(self) -> None:
        rate, tick = RateKeeper(PERIOD_S), 0
        while not self._stop.is_set():
            self._listen()
            self._publish(tick)
            tick += 1
            rate.wait()

    def _listen(self) -> None:
        for message, _ in take_all(self._commands, ros2.JointState):
            self.received.append(parse_command(message))

    def _publish(self, tick: int) -> None:
        now = self._node.get_clock().now().nanoseconds
        # On a busy machine more than a period has passed, and joints must move as they say.
        step_s = min((now - self._sent_ns) / 1e9, DRIVER_TIMEOUT_S) if tick else PERIOD_S
        self._sent_ns = now
        velocities = self._velocities(step_s)
        self._angles = self._angles + step_s * velocities
        joints = ros2.JointState(name=list(self.spec.joint_names))
        joints.header.stamp = ros2.stamp(now)
        noise = self._rng.normal(0.0, 2e-4, self._angles.size)
        joints.position, joints.velocity = (self._angles + noise).tolist(), velocities.tolist()
        turn = 2.0 * np.pi * ROCK_HZ
        self._time_s, self._turned_s = self._time_s + step_s, self._turned_s + self.turns * step_s
        phase = turn * self._time_s
        roll = ROCK_RAD * np.sin(phase)
        swing = 2.0 * np.pi * SWING_HZ
        yaw = SWING_RAD * np.sin(swing * self._turned_s)
        yaw_rate = self.turns * SWING_RAD * swing * np.cos(swing * self._turned_s)
        orientation = turned(np.array((np.sin(roll / 2.0), 0.0, 0.0, np.cos(roll / 2.0))), yaw)
        rate = np.array((ROCK_RAD * turn * np.cos(phase), 0.0, 0.0)) + yaw_rate * np.array(
            (0.0, np.sin(roll), np.cos(roll))
        )
        self._send(ros2.JOINT_STATES, joints)
        self._send(ros2.IMU, ros2.imu_message(now, "imu", orientation, rate))
        odometry = Odometry()
        odometry.header.stamp, odometry.header.frame_id = ros2.stamp(now), "odom"
        odometry.pose.pose.orientation.w = 1.0
        self._send(ODOMETRY, odometry)
        if tick % IMAGE_EVERY == 0:
            for topic in self._cameras:
                self._send(topic, ros2.image_message(now, "camera", self._picture(topic, yaw)))
            self.also()

    def _picture(self, topic: str, yaw: float) -> Any:
        """The camera's view, noisy: colours (H, W, 3) uint8, or depth (H, W) float32 [m]."""
        height, width, _ = self.image_shape
        focal = height / 2.0 / np.tan(self.spec.camera.vertical_fov_rad / 2.0)
        seen_at = (PANORAMA - width) / 2.0 - focal * yaw + np.arange(width)
        x, y = np.meshgrid(seen_at, np.arange(height))
        world = self._world[topic]
        seen = cv2.remap(world, x.astype(np.float32), y.astype(np.float32), cv2.INTER_LINEAR)
        if topic == ros2.DEPTH:
            noise = self._rng.normal(0.0, DEPTH_NOISE_PER_M, seen.shape)
            return (1.0 / np.maximum(seen + noise, 0.01)).astype(np.float32)
        noise = self._rng.normal(0.0, NOISE, seen.shape)
        return np.clip(seen + noise, 0.0, 255.0).astype(np.uint8)

    def _velocities(self, step_s: float) -> Array:
        """Joint velocities (12,) [rad/s], towards the targets or the lying pose, for a step [s]."""
        last = self.received[-1] if self.received else None
        current = last is not None and time.monotonic() - last.time_s < DRIVER_TIMEOUT_S
        if last is not None and current and last.position is not None:
            wanted = (last.position - self._angles) / max(FOLLOW_S, step_s)
        elif last is not None:
            wanted = (self._lying - self._angles) / SINK_S
        else:
            wanted = np.zeros_like(self._angles)
        most = 0.8 * self.spec.velocity_limit_rad_per_s
        return np.asarray(np.clip(wanted, -most, most))

    def _send(self, topic: str, message: Any) -> None:
        altered = self.alter(topic, message)
        if altered is not None:
            self._publishers[topic].publish(altered)
