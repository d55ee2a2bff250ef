"""How a robot is reached, as said by --link."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pixelgait.robot.errors import UserError
from pixelgait.robot.unitree.address import Go2, parse_go2

CONTROLLER = "forward_position_controller"  # as ros2_control's own examples call it


@dataclass(frozen=True)
class Topics:
    """Topics of a driver: joint_states and imu/data, joint_command."""


@dataclass(frozen=True)
class Ros2Control:
    """joint_states and imu/data, and the commands of a controller of ros2_control by its name."""

    controller: str = CONTROLLER


Address = Topics | Ros2Control | Go2


def parse_link(text: str) -> Address:
    """`ros`, `ros2-control`, with the name of a controller behind a colon, or `go2:INTERFACE`.

    Raises:
        UserError: it is none of these, or what it takes is not installed.
    """
    kind, *parts = text.split(":")
    if kind == "ros" and not parts:
        return Topics()
    if kind == "ros2-control" and not parts:
        return Ros2Control()
    if kind == "ros2-control" and len(parts) == 1 and re.fullmatch(r"[A-Za-z]\w*", parts[0]):
        return Ros2Control(parts[0])
    if kind == "go2" and 1 <= len(parts) <= 2 and all(parts):
        return parse_go2(text, *parts)
    raise UserError(
        f"--link {text}: expected ros, ros2-control, ros2-control:CONTROLLER, "
        "or go2:INTERFACE as in go2:eth0"
    )
