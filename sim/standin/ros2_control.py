"""A stand-in behind ros2_control: a joint_state_broadcaster's topic, and a position controller."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray

from pixelgait.robot.interface import JointCommand
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.standin.motors import stiff
from pixelgait.sim.standin.topics import SensorTopics, tell_dropped


class Ros2ControlWire:
    """Publishes joint_states and imu/data; takes the commands of a forward_command_controller.

    That has a node of its own, which tells its joints. As with a real one, the last target holds
    for ever, and a message of another length is dropped; so is one that is not finite. Joint states
    and commands are each in an order of their own.
    """

    def __init__(self, node: Any, spec: RobotSpec, controller: str) -> None:
        self._spec = spec
        names = spec.joint_names
        # By name, as from a map.
        self.publish = SensorTopics(node, names, np.argsort(names).tolist()).publish
        joints = controller_joints(spec)
        self._places = ros.joint_order(joints, names)
        self._targets: Any = None
        self._node = Node(controller, namespace=node.get_namespace())
        self._node.declare_parameter("joints", joints, ignore_override=True)
        self._node.declare_parameter("interface_name", "position", ignore_override=True)
        self._node.create_subscription(Float64MultiArray, "~/commands", self._keep, ros.COMMAND_QOS)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, name="controller", daemon=True)
        self._thread.start()

    def command(self) -> JointCommand | None:
        """None before the first command: the hardware holds it as it stands."""
        return None if self._targets is None else stiff(self._spec, self._targets)

    def close(self) -> None:
        """End the controller."""
        self._executor.shutdown()
        self._thread.join()
        self._node.destroy_node()

    def _keep(self, message: Any) -> None:
        if len(message.data) != len(self._places):
            tell_dropped(
                self._node, f"it has {len(message.data)} values for {len(self._places)} joints"
            )
        elif not np.isfinite(message.data).all():
            tell_dropped(self._node, "a value is not finite")
        else:
            self._targets = np.asarray(message.data)[self._places]


def controller_joints(spec: RobotSpec) -> list[str]:
    """In the controller's order: legs from behind, as somebody may have written them down."""
    names = spec.joint_names
    return [name for leg in reversed(range(0, len(names), 3)) for name in names[leg : leg + 3]]
