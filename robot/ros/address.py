"""How a robot is reached, as said by --link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common.topic_names import BODY, JOINT_STATES
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.unitree.address import Go2, parse_go2

LONGEST_WAIT_S = 10.0  # that anybody may say of a driver; ours
# By the words that --link has for them: as ros2_control's own examples call controllers.
CONTROLLERS = {
    "ros2-control": "forward_position_controller",
    "joint-trajectory": "joint_trajectory_controller",
}


@dataclass(frozen=True)
class Topics:
    """Topics of a driver: joint_states and imu/data, joint_command."""

    sensors: ClassVar[Mapping[str, str]] = BODY
    robot: ClassVar[RobotSpec | None] = None
    longest_wait_s: ClassVar[float] = LONGEST_WAIT_S
    answered: ClassVar[str | None] = JOINT_STATES
    hardware: ClassVar[bool] = False  # but a driver, which decides whom it commands


@dataclass(frozen=True)
class Ros2Control:
    """joint_states and imu/data, and the commands of a controller of ros2_control by its name."""

    controller: str
    trajectories: bool  # is what it takes, not arrays
    sensors: ClassVar[Mapping[str, str]] = BODY
    robot: ClassVar[RobotSpec | None] = None
    longest_wait_s: ClassVar[float] = LONGEST_WAIT_S
    answered: ClassVar[str | None] = None
    hardware: ClassVar[bool] = True  # whether it is simulated cannot be seen


# Each says which sensors it has besides a camera, and what a contract calls them; which robot is
# there, if it can be but one; for how long at most its driver may wait for a command before it
# damps by itself; which sensor's stamp its commands bear, if any, so that to the driver they are as
# old as that; and whether real motors may be there, with nobody between who decides.
Address = Topics | Ros2Control | Go2


def parse_link(text: str) -> Address:
    """`ros`, `ros2-control`, `joint-trajectory`, or `go2:INTERFACE`.

    Those of ros2_control may have the name of a controller behind a colon.

    Raises:
        UserError: it is none of these, or what it takes is not installed.
    """
    kind, *parts = text.split(":")
    if kind == "ros" and not parts:
        return Topics()
    if kind in CONTROLLERS:
        controller, *more = parts or [CONTROLLERS[kind]]
        if not more and re.fullmatch(r"[A-Za-z]\w*", controller):
            return Ros2Control(controller, trajectories=kind == "joint-trajectory")
    if kind == "go2" and 1 <= len(parts) <= 2 and all(parts):
        return parse_go2(text, *parts)
    raise UserError(
        f"--link {text}: expected ros, ros2-control, ros2-control:CONTROLLER, joint-trajectory, "
        "joint-trajectory:CONTROLLER, or go2:INTERFACE as in go2:eth0"
    )
