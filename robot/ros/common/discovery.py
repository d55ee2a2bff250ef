"""Isolated discovery: ROS 2 domains and environments that stay on this computer."""

from __future__ import annotations

import itertools
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pixelgait.robot.errors import UserError

# Variables of Fast DDS up to version 2 (Jazzy), and from 3 on (Kilted).
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
# Variables that choose the discovery range of a ROS process.
DISCOVERY_VARIABLES = (
    *("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS"),
    *(*PROFILES, "ROS_DISCOVERY_SERVER"),
)
# Values that keep it on this computer, the default of this package.
LOCAL_VALUES = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_LOCALHOST_ONLY": "1"}
# Set by ROS wheels for the importing process; a child process must set its own.
WHEEL_VARIABLES = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH")

DOMAIN, MAX_DOMAIN = "ROS_DOMAIN_ID", 232  # the last with valid DDS ports
MIDDLEWARE, SHIPPED_MIDDLEWARE = "RMW_IMPLEMENTATION", "rmw_fastrtps_cpp"
# rcl ends its process while it is imported, by exit(), if the middleware is missing.
_IMPORTS = "__import__('rclpy')"

# UDP ports of DDS (RTPS 9.6.1.1): of each participant's discovery, two apart, from FIRST on.
PORT_BASE, PORTS_PER_DOMAIN, FIRST_PORT = 7400, 250, 10
UDP_SOCKETS = Path("/proc/net/udp")

# Domains above 101 may use ports of Linux's ephemeral range.
DOMAINS = itertools.cycle(random.sample(range(1, 102), 101))


class OwnDomain:
    """A DDS domain reserved on this computer, until `close` or the end of this process."""

    def __init__(self, numbers: Iterator[int] = DOMAINS) -> None:
        """Take the next free number: a domain in which a process was killed stays busy for long."""
        for self.number in numbers:
            # A name in Linux's abstract namespace is valid in the network namespace, as loopback
            # is; it leaves no file and ends with its process.
            self._held = socket.socket(socket.AF_UNIX)
            try:
                self._held.bind(f"\0pixelgait-domain-{self.number}")
                return
            except OSError:
                self._held.close()

    def close(self) -> None:
        """Release the domain."""
        self._held.close()


def is_local() -> bool:
    """Whether the environment keeps ROS on this computer, or chooses no range."""
    there = (name for name in DISCOVERY_VARIABLES if name in os.environ)
    return all(os.environ[name] == LOCAL_VALUES.get(name) for name in there)


def participants(domain: int, sockets: str) -> int:
    """Number of DDS participants of a domain on this computer, by the ports they listen on.

    Args:
        domain: its number.
        sockets: content of /proc/net/udp, which lists the UDP sockets of this network namespace.
    """
    first = PORT_BASE + PORTS_PER_DOMAIN * domain + FIRST_PORT
    addresses = (line.split()[1] for line in sockets.splitlines()[1:])
    bound = {int(address.rpartition(":")[2], 16) for address in addresses}
    return len(bound.intersection(range(first, first - FIRST_PORT + PORTS_PER_DOMAIN, 2)))


def check_environment() -> None:
    """Check what would end this process with a message of the middleware, before rclpy is imported.

    Raises:
        UserError: ROS_DOMAIN_ID is no domain, or RMW_IMPLEMENTATION is not installed.
    """
    domain = os.environ.get(DOMAIN, "")
    if domain and not (domain.isdecimal() and int(domain) <= MAX_DOMAIN):
        raise UserError(f"{DOMAIN} is '{domain}', expected a number from 0 to {MAX_DOMAIN}")
    middleware = os.environ.get(MIDDLEWARE, "")
    if middleware in ("", SHIPPED_MIDDLEWARE):
        return
    tried = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, check=False)
    if tried.returncode and b"Traceback" not in tried.stderr:
        raise UserError(
            f"{MIDDLEWARE} is '{middleware}', which is not installed beside this rclpy: unset it, "
            f"or install ros-$ROS_DISTRO-{middleware.replace('_', '-')}"
        )


def private_environment(domain: int, log: Path) -> dict[str, str]:
    """An environment for processes on a domain of their own that stay on this computer.

    The shell's discovery range is dropped: a robot elsewhere may be on the same domain.
    """
    dropped = (*DISCOVERY_VARIABLES, *WHEEL_VARIABLES)
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return kept | {"ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(log)}
