"""What controllers of ros2_control take: targets of positions, as an array or as a trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint


class Controller(Protocol):
    """A kind of controller: how it is recognised, and what it is told."""

    what: str
    message_type: type
    topic: str  # in the controller's own namespace
    interfaces: str  # its parameter that says what it commands, beside `joints`

    def positions(self, interfaces: Any) -> bool:
        """Whether it commands positions and nothing else, by the value of that parameter."""

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        """Its parameters by which it may refuse to obey; each must be 0."""

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        """Targets [rad] of these joints, all of them and in the controller's order, from now on."""


class ForwardController:
    """forward_command_controller, or position_controllers/JointGroupPositionController."""

    what = "forward_command_controller"
    message_type: type = Float64MultiArray
    topic = "commands"
    interfaces = "interface_name"

    def positions(self, interfaces: Any) -> bool:
        return bool(interfaces.string_value == "position")

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        return []

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        return Float64MultiArray(data=targets)


class TrajectoryController:
    """joint_trajectory_controller.

    Each trajectory has one point, due at once: the controller neither interpolates, which a policy
    has not been trained with, nor goes on with what an emergency stop has ended. The stamp is 0,
    which means now: any other is past when it arrives, and drops the trajectory, or, by a clock
    that is ahead, delays it.
    """

    what = "joint_trajectory_controller"
    message_type: type = JointTrajectory
    topic = "joint_trajectory"
    interfaces = "command_interfaces"

    def positions(self, interfaces: Any) -> bool:
        return list(interfaces.string_array_value) == ["position"]

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        """A leg that is farther from its target is held where it is: soft ones would freeze."""
        return [f"constraints.{joint}.trajectory" for joint in joints]

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        points = [JointTrajectoryPoint(positions=targets)]
        return JointTrajectory(joint_names=joints, points=points)


def kind_of(trajectories: bool) -> Controller:
    """A controller that takes trajectories, or one that takes arrays."""
    return TrajectoryController() if trajectories else ForwardController()
