"""Address of a Go2: a network interface and a DDS domain, as in go2:eth0."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from pixelgait.robot.errors import UserError
from pixelgait.robot.safety.velocity import ODOMETRY
from pixelgait.robot.spec import GO2, RobotSpec

LOOPBACK = "lo"
# Real robots use domain 0; simulated ones another, so that they never mix (unitree_mujoco).
DOMAIN, SIMULATED_DOMAIN = 0, 1
MAX_DOMAIN = 232  # the last with valid DDS ports
SENSOR, SPORT_SENSOR = "lowstate", "sportmodestate"
# A command is repeated for so long when none follows. The robot has a time-out of its own, which
# is not published: a longer hold could take a lying robot for a standing one. Assumption.
HOLD_S = 0.1


@dataclass(frozen=True)
class Go2:
    """A Go2 on a network interface, in a DDS domain."""

    interface: str
    domain: int
    sensors: ClassVar[Mapping[str, str]] = {SENSOR: "joints"}
    robot: ClassVar[RobotSpec | None] = GO2
    max_driver_timeout_s: ClassVar[float] = HOLD_S
    stamp_source: ClassVar[str | None] = None  # LowCmd has no stamp
    own_gait: ClassVar[bool] = False

    @property
    def hardware(self) -> bool:
        """Whether the robot may be real: simulated ones are in another domain."""
        return self.domain == DOMAIN

    @property
    def simulated(self) -> bool:
        """Whether it can only be a simulator: no robot is on this computer's loopback interface."""
        return self.interface == LOOPBACK and not self.hardware


@dataclass(frozen=True)
class Go2Sport(Go2):
    """A Go2 whose own program walks it, in its sport mode."""

    sensors: ClassVar[Mapping[str, str]] = {SPORT_SENSOR: ODOMETRY, SENSOR: ODOMETRY}
    robot: ClassVar[RobotSpec | None] = None  # whatever the high level was made for
    max_driver_timeout_s: ClassVar[float] = 1.0  # a move is followed for so long
    own_gait: ClassVar[bool] = True


def parse_go2(text: str, interface: str, domain: str = "", sport: bool = False) -> Go2:
    """The address of an interface and an optional domain; `text` is the value of --link.

    Raises:
        UserError: the interface or domain does not exist, or cyclonedds is not installed.
    """
    domain = domain or str(SIMULATED_DOMAIN if interface == LOOPBACK else DOMAIN)
    if not domain.isdecimal() or int(domain) > MAX_DOMAIN:
        raise UserError(f"--link {text}: a domain is 0 to {MAX_DOMAIN}")
    if interface not in (name for _, name in socket.if_nameindex()):
        raise UserError(f"--link {text}: there is no network interface {interface}")
    if find_spec("cyclonedds") is None:
        raise UserError(f"--link {text} needs cyclonedds: pip install 'pixelgait[go2]'")
    return (Go2Sport if sport else Go2)(interface, int(domain))
