"""Simulated robot in real time, behind the topics or the DDS of a real one."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo

from pixelgait.robot.frames import TF_STATIC
from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.static_transforms import MAX_MESSAGES, TFMessage
from pixelgait.robot.rotation import heading, upright
from pixelgait.robot.runtime.timing import RateKeeper
from pixelgait.robot.spec import Array, CameraMount, RobotSpec
from pixelgait.sim.body.interface import PHYSICS_DT_S, SimulatedBody
from pixelgait.sim.body.leg_odometry import Accelerometer
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.body.sensors import DriftingOdometry
from pixelgait.sim.ros.camera_memory import CameraWriter
from pixelgait.sim.ros.depth_camera import DepthCamera
from pixelgait.sim.ros.joint_topics import BASE
from pixelgait.sim.world.seeds import Stream

CAMERA_STEPS = round(1.0 / 30.0 / PHYSICS_DT_S)  # 30 Hz
CAMERA_FRAME = "camera_optical_frame"  # REP 103
ODOMETRY_STEPS = round(0.02 / PHYSICS_DT_S)  # 50 Hz


class Wire(Protocol):
    """Interface of a simulated robot's joints, IMU and motors."""

    def command(self) -> JointCommand | None:
        """The motors' current command; None before the first one."""

    def publish(self, now_ns: int, reading: Reading, lost: Container[str]) -> None:
        """Publish a reading after a physics step, without the sensors `lost` to a fault."""

    def close(self) -> None: ...


class SimulatedRobot(Node):
    """Publishes joints and IMU after every physics step, images at 30 Hz, ground truth at 50 Hz.

    Colour and depth show the same instant; images are rendered only for subscribers, and for
    readers of their `memory`. `make_wire` creates the interface of joints, IMU and motors for this
    node. The PD loop is closed in every physics step, as in a motor driver.
    """

    def __init__(
        self,
        body: SimulatedBody,
        seed: int,
        odometry: DriftingOdometry | None,
        record: bool,
        make_wire: Callable[[Any, RobotSpec], Wire],
    ) -> None:
        super().__init__("pixelgait_sim")
        self.body = body
        self.record = record
        self._wire = make_wire(self, body.spec)
        self.memory: CameraWriter | None = None
        quality = ros2.DRIVER_QOS
        self._colour = self.create_publisher(ros2.Image, ros2.COLOUR, quality)
        self._depth = self.create_publisher(ros2.Image, ros2.DEPTH, quality)
        self._infos = {
            topic: self.create_publisher(CameraInfo, f"{topic.rpartition('/')[0]}/camera_info", 1)
            for topic in (ros2.COLOUR, ros2.DEPTH)
        }
        publish_mount(self, BASE, CAMERA_FRAME, body.spec.camera)
        self._truth = self.create_publisher(Odometry, "ground_truth/odom", quality)
        self._drifting = odometry  # None: not published
        self._odometry = self.create_publisher(Odometry, "odom", quality) if odometry else None
        self._pose: Array | None = None  # (3,), by odometry
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="physics")
        body.reset(seed)
        self.depth_camera = DepthCamera(body, seed)
        self._accelerometer = Accelerometer(Stream.SENSORS.rng(seed, 2))
        self.seen = (body.time_s, body.pose(), body.joint_angles())  # the newest, without faults
        self.fault: str | None = None
        self.late = 0  # number of physics steps that began late
        self.path: list[tuple[float, ...]] = []  # time [s], base pose (7), joint angles (12)
        self.simulated_s: list[float] = []  # since the reset, of each row

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._wire.close()
        if self.memory is not None:
            self.memory.close()

    def recording(self) -> bytes:
        """Time, base pose and joint angles at 50 Hz, as a numpy archive."""
        buffer = io.BytesIO()
        path = np.array(self.path).reshape(-1, 20)
        np.savez_compressed(buffer, path=path, simulated_s=np.array(self.simulated_s))
        return buffer.getvalue()

    def _run(self) -> None:
        try:
            self._simulate()
        except Exception as error:  # the node must not continue without physics
            self.fault = f"{type(error).__name__}: {error}"

    def _simulate(self) -> None:
        rate = RateKeeper(PHYSICS_DT_S)
        step = 0
        # Until the first command it stands, like a real robot after its own stand-up.
        at_first = standing(self.body.spec)
        while not self._stop.is_set():
            self.body.step(self._wire.command() or at_first)
            pose = self.body.pose()
            force = self._accelerometer(pose, PHYSICS_DT_S)
            reading = replace(self.body.read(), specific_force=force)
            self.seen = (self.body.time_s, pose, self.body.joint_angles())
            self._publish(step, reading)
            step += 1
            self.late += rate.wait()

    def _publish(self, step: int, reading: Reading) -> None:
        now = int(self.get_clock().now().nanoseconds)
        lost = self.body.ages()  # sensors that are silent, by a fault
        self._wire.publish(now, replace(reading, odometry=self._pose), lost)
        if step % CAMERA_STEPS == 0 and "camera" not in lost:
            self._publish_images(now, reading)
        if step % ODOMETRY_STEPS == 0:
            position, orientation = self.body.pose()
            self._truth.publish(_odometry(now, "map", position, orientation))
            if self._drifting is not None and self._odometry is not None:
                true = np.array((*position[:2], heading(orientation)))
                self._pose = self._drifting.read(true)
                x, y, yaw = self._pose.tolist()
                drifted = _odometry(now, "odom", (x, y, position[2]), upright(yaw))
                rates = drifted.twist.twist.angular
                rates.x, rates.y, rates.z = reading.angular_velocity.tolist()
                self._odometry.publish(drifted)
            if self.record:
                self.path.append((now / 1e9, *position, *orientation, *self.body.joint_angles()))
                self.simulated_s.append(self.body.time_s)

    def _publish_images(self, now: int, reading: Reading) -> None:
        """Publish images. Camera faults act only if colour alone is subscribed: on the reading."""
        colour, depth = (p.get_subscription_count() > 0 for p in (self._colour, self._depth))
        if self.memory is not None:
            depth_read, colour_read = self.memory.wanted()
            colour, depth = colour or colour_read, depth or depth_read
        metres = pixels = None
        if depth and colour:
            pixels, metres = self.depth_camera.render_both()
        elif depth:
            metres = self.depth_camera.render()
        elif colour:
            image = reading.image()
            pixels, now = image.pixels, now - round((self.body.time_s - image.time_s) * 1e9)
        if self.memory is not None and (depth or colour):
            self.memory.write(now, metres, pixels)
        for publisher, topic, shown in (
            (self._depth, ros2.DEPTH, metres),
            (self._colour, ros2.COLOUR, pixels),
        ):
            if shown is not None and publisher.get_subscription_count():
                publisher.publish(ros2.image_message(now, CAMERA_FRAME, shown))
                height, width = shown.shape[:2]
                lens = camera_info(now, CAMERA_FRAME, height, width, self.body.spec.camera)
                self._infos[topic].publish(lens)


def _odometry(
    now: int, frame: str, position: tuple[float, ...], orientation: tuple[float, ...]
) -> Any:
    message = Odometry()
    message.header.stamp = ros2.stamp(now)
    message.header.frame_id, message.child_frame_id = frame, BASE
    pose = message.pose.pose
    pose.position.x, pose.position.y, pose.position.z = map(float, position)
    q = pose.orientation
    q.x, q.y, q.z, q.w = map(float, orientation)
    return message


def camera_info(time_ns: int, frame: str, height: int, width: int, mount: CameraMount) -> Any:
    """The CameraInfo of a camera without distortion, with square pixels."""
    info = CameraInfo(height=height, width=width, distortion_model="plumb_bob", d=[0.0] * 5)
    info.header.stamp, info.header.frame_id = ros2.stamp(time_ns), frame
    focal = height / 2.0 / math.tan(mount.vertical_fov_rad / 2.0)
    x, y = (width - 1) / 2.0, (height - 1) / 2.0  # pixel centres are at integer coordinates
    info.k = [focal, 0.0, x, 0.0, focal, y, 0.0, 0.0, 1.0]
    info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    info.p = [focal, 0.0, x, 0.0, 0.0, focal, y, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info


def publish_mount(node: Any, base_frame: str, frame: str, mount: CameraMount) -> None:
    """Publish the pose of the camera's optical frame, latched; nothing without tf2_msgs."""
    if TFMessage is None:
        return
    half = mount.pitch_down_rad / 2.0
    c, s = math.cos(half), math.sin(half)
    sent = TransformStamped(child_frame_id=frame)
    sent.header.frame_id, sent.header.stamp = base_frame, node.get_clock().now().to_msg()
    t, q = sent.transform.translation, sent.transform.rotation
    t.x, t.y, t.z = mount.position_m
    # A pitch about the base's y axis, then the rotation to an optical frame: (-1, 1, -1, 1) / 2.
    q.x, q.y, q.z, q.w = (-c - s) / 2.0, (c + s) / 2.0, (s - c) / 2.0, (c - s) / 2.0
    publisher = node.create_publisher(TFMessage, TF_STATIC, ros2.latched(MAX_MESSAGES))
    publisher.publish(TFMessage(transforms=[sent]))
