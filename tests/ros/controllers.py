"""Controllers of ros2_control, as far as they can be seen from outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ros.support import Client

NAME = "forward_position_controller"
TRAJECTORY = "joint_trajectory_controller"
# A link, and where its commands go.
LINKS = [
    ("ros2-control", f"{NAME}/commands"),
    ("joint-trajectory", f"{TRAJECTORY}/joint_trajectory"),
]


class Controller:
    """A forward_command_controller as far as it can be seen from outside."""

    def __init__(self, client: Client, name: str, joints: list[str], interface: str) -> None:
        from rclpy.node import Node

        self.client, self.node = client, Node(name, context=client.context)
        self.node.declare_parameter("joints", joints)
        self.node.declare_parameter("interface_name", interface)
        self.heard = hear(client, f"{name}/commands")
        client.executor.add_node(self.node)


def hear(client: Client, topic: str) -> list[np.ndarray]:
    """The commands from now on, each (12,) [rad]."""
    from std_msgs.msg import Float64MultiArray
    from trajectory_msgs.msg import JointTrajectory

    heard: list[np.ndarray] = []
    trajectories = topic.endswith("joint_trajectory")

    def keep(message: Any) -> None:
        heard.append(np.array(message.points[0].positions if trajectories else message.data))

    kind = JointTrajectory if trajectories else Float64MultiArray
    client.node.create_subscription(kind, topic, keep, 100)
    return heard
