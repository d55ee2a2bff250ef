"""Processes that talk over ROS 2 among themselves alone."""

from __future__ import annotations

import os
from pathlib import Path

# How far a ROS process reaches, where somebody has chosen.
REACH = (
    *("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS"),
    *("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE", "ROS_DISCOVERY_SERVER"),
)
# What keeps it on this computer, which ours are anyway.
HERE = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_LOCALHOST_ONLY": "1"}
# ROS wheels set these for the process that has imported them; a child must set its own.
OF_WHEELS = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH")


def stays_here() -> bool:
    """Whether nobody has chosen how far ROS reaches, or this computer alone."""
    return all(os.environ[name] == HERE.get(name) for name in REACH if name in os.environ)


def private_environment(domain: int, log: Path) -> dict[str, str]:
    """For processes on a ROS domain of their own, which stay on this computer whatever the shell
    has chosen: a robot elsewhere may be on the same domain."""
    kept = {key: value for key, value in os.environ.items() if key not in (*REACH, *OF_WHEELS)}
    return kept | {"ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(log)}
