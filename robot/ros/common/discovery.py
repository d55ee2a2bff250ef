"""Isolated discovery: ROS 2 domains and environments that stay on this computer."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

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


def private_environment(domain: int, log: Path) -> dict[str, str]:
    """An environment for processes on a domain of their own that stay on this computer.

    The shell's discovery range is dropped: a robot elsewhere may be on the same domain.
    """
    dropped = (*DISCOVERY_VARIABLES, *WHEEL_VARIABLES)
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return kept | {"ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(log)}
