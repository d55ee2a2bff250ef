"""Where a Go2 is: a network interface and a DDS domain, as in go2:eth0."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from importlib.util import find_spec

from pixelgait.robot.errors import UserError

ROS, GO2 = "ros", "go2"
LOOPBACK = "lo"
# The robot's own domain; simulated ones use another, so that they never mix (unitree_mujoco).
DOMAIN, SIMULATED_DOMAIN = 0, 1
MOST_DOMAIN = 232  # of DDS: ports end there


@dataclass(frozen=True)
class Address:
    """A network interface and a domain."""

    interface: str
    domain: int


def parse_link(text: str) -> Address | None:
    """`go2:INTERFACE` or `go2:INTERFACE:DOMAIN`; None for `ros`.

    Raises:
        UserError: it is neither, or what it takes is not installed.
    """
    kind, *parts = text.split(":")
    if kind == ROS and not parts:
        return None
    if kind != GO2 or not 1 <= len(parts) <= 2 or not all(parts):
        raise UserError(f"--link {text}: expected ros, or go2:INTERFACE as in go2:eth0")
    domain = str(SIMULATED_DOMAIN if parts[0] == LOOPBACK else DOMAIN)
    domain = parts[1] if len(parts) == 2 else domain
    if not domain.isdecimal() or int(domain) > MOST_DOMAIN:
        raise UserError(f"--link {text}: a domain is 0 to {MOST_DOMAIN}")
    if parts[0] not in (name for _, name in socket.if_nameindex()):
        raise UserError(f"--link {text}: there is no network interface {parts[0]}")
    if find_spec("cyclonedds") is None:
        raise UserError(f"--link {text} needs cyclonedds: in the checkout, pip install '.[go2]'")
    return Address(parts[0], int(domain))
