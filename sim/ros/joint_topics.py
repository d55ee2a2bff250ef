"""Joints, IMU and motors of a simulated robot on ROS 2 topics, or behind ros2_control."""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration, Time
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Float64MultiArray

from pixelgait.robot.interface import DRIVER_TIMEOUT_S, JointCommand, Reading
from pixelgait.robot.ros.address import Ros2Control
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.ros2_control import kind_of
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.legged_body import damped, stiff

LOG_PERIOD_S = 10.0  # of dropped commands
BASE = "base_link"  # REP 105; the IMU measures in it


class SensorTopics:
    """Publishes joint_states, in a given order of joints, and imu/data."""

    def __init__(self, node: Any, names: Sequence[str], order: Sequence[int]) -> None:
        self._names, self._order = [names[i] for i in order], list(order)
        self._joints = node.create_publisher(ros2.JointState, ros2.JOINT_STATES, ros2.DRIVER_QOS)
        self._imu = node.create_publisher(ros2.Imu, ros2.IMU, ros2.DRIVER_QOS)

    def publish(self, now_ns: int, reading: Reading, lost: Container[str]) -> None:
        """Publish after a physics step."""
        if "joints" not in lost:
            message = ros2.JointState()
            message.header.stamp = ros2.stamp(now_ns)
            message.name = self._names
            message.position = reading.joint_angles[self._order].tolist()
            message.velocity = reading.joint_velocities[self._order].tolist()
            self._joints.publish(message)
        if "imu" not in lost:
            imu = reading.orientation, reading.angular_velocity, reading.specific_force
            self._imu.publish(ros2.imu_message(now_ns, BASE, *imu))


class TopicWire:
    """Publishes joint_states and imu/data, takes joint_command.

    The motors are stiff if the command has positions. They damp if it has none, answers an old
    reading, or is missing. An invalid command is dropped and logged.
    """

    def __init__(self, node: Any, spec: RobotSpec) -> None:
        self._node, self._spec = node, spec
        names = spec.joint_names
        self.publish = SensorTopics(node, names, range(len(names))).publish
        node.create_subscription(ros2.JointState, ros2.JOINT_COMMAND, self._keep, ros2.COMMAND_QOS)
        latched = QoSProfile(depth=1, durability=ros2.LATCHED)
        node.create_subscription(Float64MultiArray, ros2.JOINT_GAINS, self._keep_gains, latched)
        self._gains = spec.kp_nm_per_rad, spec.kd_nms_per_rad
        self._newest: tuple[float, Any] | None = None

    def command(self) -> JointCommand | None:
        """The motors' command for the newest message; None before the first."""
        if self._newest is None:
            return None
        spec = self._spec
        received, message = self._newest
        age = (
            self._node.get_clock().now().nanoseconds - ros2.nanoseconds(message.header.stamp)
        ) / 1e9
        old = max(age, time.monotonic() - received) > DRIVER_TIMEOUT_S  # sent late, or delayed
        if not message.position or old:
            return damped(spec)
        order = ros2.joint_order(list(message.name), spec.joint_names)
        effort = np.asarray(message.effort)[order] if message.effort else None
        kp, kd = self._gains
        return replace(stiff(spec, np.asarray(message.position)[order], effort), kp=kp, kd=kd)

    def close(self) -> None:
        """Nothing: the node destroys its own topics."""

    def _keep_gains(self, message: Any) -> None:
        values = np.asarray(message.data)
        if values.size == 2 * len(self._spec.joint_names) and (values >= 0.0).all():
            kp, kd = np.split(values, 2)
            self._gains = kp, kd
        else:
            log_dropped(self._node, "joint_gains needs stiffness and damping of every joint")

    def _keep(self, message: Any) -> None:
        if problem := unusable(message, self._spec.joint_names):
            log_dropped(self._node, problem)
        else:
            self._newest = (time.monotonic(), message)


def log_dropped(node: Any, problem: str) -> None:
    """Log that a command was dropped, at most every `LOG_PERIOD_S`."""
    line = f"a command was dropped: {problem}"
    node.get_logger().error(line, throttle_duration_sec=LOG_PERIOD_S)


def unusable(message: Any, wanted: Sequence[str]) -> str | None:
    """Why a JointState is no valid command for these joints, or None."""
    lengths = {len(message.name), len(message.position), len(message.effort)}
    if not lengths <= {0, len(message.name)}:
        return "it needs one position, one effort or none for every name"
    if message.position and (missing := [name for name in wanted if name not in message.name]):
        return f"it lacks {', '.join(missing)}"
    if repeated := ros2.duplicates(message.name, wanted):
        return f"it names {', '.join(repeated)} twice"
    if not np.isfinite((*message.position, *message.effort)).all():
        return "a value is not finite"
    return None


class Ros2ControlWire:
    """Publishes joint_states and imu/data; takes commands like a position controller.

    The controller has a node of its own, with a parameter for its joints. As with a real one, the
    last target holds for ever and a message of another length is dropped. Values that are not
    finite are dropped, too, unlike there. Joint states and commands have different joint orders.
    """

    interfaces: Any = "position"  # the controller's command interfaces

    def __init__(self, node: Any, spec: RobotSpec, address: Ros2Control) -> None:
        self._spec, kind = spec, kind_of(address.trajectories)
        names = spec.joint_names
        # Sorted by name.
        self.publish = SensorTopics(node, names, np.argsort(names).tolist()).publish
        joints = controller_joints(spec)
        self._order = ros2.joint_order(joints, names)
        self._targets: Any = None
        self._node = Node(address.controller, namespace=node.get_namespace())
        self._node.declare_parameter("joints", joints, ignore_override=True)
        self._node.declare_parameter(kind.interfaces, self.interfaces, ignore_override=True)
        self._node.create_subscription(
            kind.message_type, f"~/{kind.topic}", self._keep, ros2.COMMAND_QOS
        )
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, name="controller", daemon=True)
        self._thread.start()

    def command(self) -> JointCommand | None:
        """The motors' command; None before the first one: the hardware holds the robot standing."""
        return None if self._targets is None else stiff(self._spec, self._targets)

    def close(self) -> None:
        """End the controller."""
        self._executor.shutdown()
        self._thread.join()
        self._node.destroy_node()

    def _keep(self, message: Any) -> None:
        try:
            targets = self._parse(message)
        except ValueError as why:
            log_dropped(self._node, str(why))
        else:
            self._targets = targets

    def _parse(self, message: Any) -> Array:
        """The targets (12,) [rad] of a message, in the robot's order.

        Raises:
            ValueError: the message is no valid command.
        """
        return self._in_order(message.data, self._order)

    def _in_order(self, values: Any, places: Any) -> Array:
        if len(values) != len(places):
            raise ValueError(f"it has {len(values)} values for {len(places)} joints")
        if not np.isfinite(values).all():
            raise ValueError("a value is not finite")
        ordered: Array = np.asarray(values)[places]
        return ordered


class TrajectoryWire(Ros2ControlWire):
    """A joint_trajectory_controller that takes trajectories of one point, due at once.

    A real one takes others, too, and holds its joints from its activation on.
    """

    interfaces = ("position",)

    def _parse(self, message: Any) -> Array:
        names = self._spec.joint_names
        if sorted(message.joint_names) != sorted(names):
            raise ValueError(f"it names {', '.join(message.joint_names) or 'no joint'}")
        if message.header.stamp != Time():
            raise ValueError("it is stamped")
        if [point.time_from_start for point in message.points] != [Duration()]:
            raise ValueError("it has not one point, due at once")
        places = ros2.joint_order(list(message.joint_names), names)
        return self._in_order(message.points[0].positions, places)


def wire_of(address: Ros2Control, node: Any, spec: RobotSpec) -> Ros2ControlWire:
    """The wire with the controller of this address."""
    wire = TrajectoryWire if address.trajectories else Ros2ControlWire
    return wire(node, spec, address)


def controller_joints(spec: RobotSpec) -> list[str]:
    """The joints in the controller's order: the legs reversed, to differ from the robot's."""
    names = spec.joint_names
    return [name for leg in reversed(range(0, len(names), 3)) for name in names[leg : leg + 3]]
