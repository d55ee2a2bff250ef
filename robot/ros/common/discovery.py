"""Processes that talk over ROS 2 among themselves alone."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

# Fast DDS's, up to version 2 (Jazzy) and from 3 on (Kilted).
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
# How far a ROS process reaches, where somebody has chosen.
REACH = (
    *("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS"),
    *(*PROFILES, "ROS_DISCOVERY_SERVER"),
)
# What keeps it on this computer, which ours are anyway.
HERE = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_LOCALHOST_ONLY": "1"}
# ROS wheels set these for the process that has imported them; a child must set its own.
OF_WHEELS = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH")

# Of DDS: above 101 its ports may be those that Linux lends to others.
DOMAINS = itertools.cycle(random.sample(range(1, 102), 101))


class OwnDomain:
    """A DDS domain that no other of our processes is on, until `close` or the end of this one."""

    def __init__(self, numbers: Iterator[int] = DOMAINS) -> None:
        """Take the next of these without end: of who was killed in one, others know for a while."""
        for self.number in numbers:
            # A name in Linux's abstract namespace reaches as far as the loopback interface, leaves
            # no file, and goes with its process.
            self._held = socket.socket(socket.AF_UNIX)
            try:
                self._held.bind(f"\0pixelgait-domain-{self.number}")
                return
            except OSError:
                self._held.close()

    def close(self) -> None:
        """Leave it to others."""
        self._held.close()


def stays_here() -> bool:
    """Whether nobody has chosen how far ROS reaches, or this computer alone."""
    return all(os.environ[name] == HERE.get(name) for name in REACH if name in os.environ)


def private_environment(domain: int, log: Path) -> dict[str, str]:
    """For processes on a ROS domain of their own, which stay on this computer whatever the shell
    has chosen: a robot elsewhere may be on the same domain."""
    kept = {key: value for key, value in os.environ.items() if key not in (*REACH, *OF_WHEELS)}
    return kept | {"ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(log)}
