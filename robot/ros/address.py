"""Robot addresses: the values of --link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common.topic_names import BODY, JOINT_STATES, ODOMETRY
from pixelgait.robot.safety import velocity as safety
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.unitree.address import Go2, parse_go2

MAX_DRIVER_TIMEOUT_S = 10.0  # assumption
# Default controller by --link value, named as in ros2_control's examples.
CONTROLLERS = {
    "ros2-control": "forward_position_controller",
    "joint-trajectory": "joint_trajectory_controller",
}


@dataclass(frozen=True)
class Topics:
    """A driver on ROS 2 topics: joint_states and imu/data, joint_command."""

    sensors: ClassVar[Mapping[str, str]] = BODY
    robot: ClassVar[RobotSpec | None] = None
    max_driver_timeout_s: ClassVar[float] = MAX_DRIVER_TIMEOUT_S
    stamp_source: ClassVar[str | None] = JOINT_STATES
    hardware: ClassVar[bool] = False  # the driver decides whether motors move
    own_gait: ClassVar[bool] = False


@dataclass(frozen=True)
class Velocity:
    """A robot that walks by a gait of its own, on topics: odom in, cmd_vel out."""

    sensors: ClassVar[Mapping[str, str]] = {ODOMETRY: safety.ODOMETRY}
    robot: ClassVar[RobotSpec | None] = None
    max_driver_timeout_s: ClassVar[float] = MAX_DRIVER_TIMEOUT_S
    stamp_source: ClassVar[str | None] = None
    hardware: ClassVar[bool] = False  # its own program decides whether it walks
    own_gait: ClassVar[bool] = True


@dataclass(frozen=True)
class Ros2Control:
    """joint_states and imu/data, and a ros2_control controller, by its name."""

    controller: str
    trajectories: bool  # whether it takes trajectories, else arrays
    sensors: ClassVar[Mapping[str, str]] = BODY
    robot: ClassVar[RobotSpec | None] = None
    max_driver_timeout_s: ClassVar[float] = MAX_DRIVER_TIMEOUT_S
    stamp_source: ClassVar[str | None] = None
    hardware: ClassVar[bool] = True  # a simulated robot looks the same
    own_gait: ClassVar[bool] = False


# Attributes of every address:
#   sensors: its sensors besides a camera, with their names in a contract
#   robot: the only robot that it can be, or None
#   max_driver_timeout_s: upper limit of driver_timeout_s
#   stamp_source: the sensor whose stamp its commands carry, or None
#   hardware: whether commands may move real motors directly, so that --arm is needed
#   own_gait: whether the robot walks by a gait of its own, and takes velocities
Address = Topics | Velocity | Ros2Control | Go2


def parse_link(text: str) -> Address:
    """Parse ros, velocity, ros2-control, joint-trajectory, go2:INTERFACE or go2-sport:INTERFACE.

    The ros2_control links may be followed by a colon and the name of a controller.

    Raises:
        UserError: it is none of these, or a library that it needs is not installed.
    """
    kind, *parts = text.split(":")
    if kind == "ros" and not parts:
        return Topics()
    if kind == "velocity" and not parts:
        return Velocity()
    if kind in CONTROLLERS:
        controller, *more = parts or [CONTROLLERS[kind]]
        if not more and re.fullmatch(r"[A-Za-z]\w*", controller):
            return Ros2Control(controller, trajectories=kind == "joint-trajectory")
    if kind in ("go2", "go2-sport") and 1 <= len(parts) <= 2 and all(parts):
        interface, *domain = parts
        return parse_go2(text, interface, "".join(domain), sport=kind == "go2-sport")
    raise UserError(
        f"--link {text}: expected ros, velocity, ros2-control, ros2-control:CONTROLLER, "
        "joint-trajectory, joint-trajectory:CONTROLLER, go2:INTERFACE or "
        "go2-sport:INTERFACE as in go2:eth0"
    )
