"""Where a Go2 is: a network interface and a DDS domain, as in go2:eth0."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import GO2, RobotSpec

LOOPBACK = "lo"
# The robot's own domain; simulated ones use another, so that they never mix (unitree_mujoco).
DOMAIN, SIMULATED_DOMAIN = 0, 1
MOST_DOMAIN = 232  # of DDS: ports end there
SENSOR = "lowstate"
# For which a command is repeated when none follows. The robot lets go by itself as well, after a
# time that is not published: whoever waited longer would take for standing what lies. Ours.
HOLD_S = 0.1


@dataclass(frozen=True)
class Go2:
    """A network interface and a domain."""

    interface: str
    domain: int
    sensors: ClassVar[Mapping[str, str]] = {SENSOR: "joints"}
    robot: ClassVar[RobotSpec | None] = GO2
    max_driver_timeout_s: ClassVar[float] = HOLD_S
    stamp_source: ClassVar[str | None] = None  # LowCmd has no stamp

    @property
    def hardware(self) -> bool:
        """Whether a real robot may be there."""
        return self.domain == DOMAIN


def parse_go2(text: str, interface: str, domain: str = "") -> Go2:
    """Of `text`, which stands behind --link, the interface and the domain, if there is one.

    Raises:
        UserError: there is no such interface or domain, or what it takes is not installed.
    """
    domain = domain or str(SIMULATED_DOMAIN if interface == LOOPBACK else DOMAIN)
    if not domain.isdecimal() or int(domain) > MOST_DOMAIN:
        raise UserError(f"--link {text}: a domain is 0 to {MOST_DOMAIN}")
    if interface not in (name for _, name in socket.if_nameindex()):
        raise UserError(f"--link {text}: there is no network interface {interface}")
    if find_spec("cyclonedds") is None:
        raise UserError(f"--link {text} needs cyclonedds: in the checkout, pip install -e '.[go2]'")
    return Go2(interface, int(domain))
