"""Simulated robot behind ros2_control: joint_state_broadcaster and a position controller."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration, Time
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from pixelgait.robot.interface import JointCommand
from pixelgait.robot.ros.address import Ros2Control
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.ros2_control import kind_of
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.ros.joint_topics import SensorTopics, log_dropped
from pixelgait.sim.ros.motor_commands import stiff


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
