"""Differences between ROS 2 distributions: what Humble's rclpy lacks, with both ways.

Jazzy and Kilted are tested. Humble's way is written from its published sources (rclpy 3.3,
rmw_fastrtps 6.2) and was not tried. Its differences, of what this package uses:

* `rclpy.event_handler` is called `rclpy.qos_event` (renamed in rclpy 4.0);
* a node has no `add_post_set_parameters_callback` (new in rclpy 3.7);
* the middleware does not know ROS_AUTOMATIC_DISCOVERY_RANGE, but ROS_LOCALHOST_ONLY alone.

Kilted's Fast DDS reads its profile from a variable of another name, and warns of the former one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Any

from pixelgait.robot.ros.common.discovery import PROFILES

HUMBLE, JAZZY = 3, 7  # major versions of rclpy; Kilted's is 9
RANGE, LOCALHOST_ONLY = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"
Changed = Callable[[list[Any]], None]


def rclpy_version() -> int:
    """Major version of the rclpy that would be imported; 0 if it is unknown."""
    try:
        return int(metadata.version("rclpy").split(".")[0])
    except (metadata.PackageNotFoundError, ValueError):
        return 0


def profile_variables() -> Sequence[str]:
    """Variables from which this distribution's Fast DDS reads its profile."""
    older, newer = PROFILES
    version = rclpy_version()
    return PROFILES if not version else (older,) if version <= JAZZY else (newer,)


def stay_local() -> None:
    """Keep any middleware on this computer, by the environment; call it before rclpy is imported.

    Later distributions warn of Humble's variable.
    """
    os.environ[RANGE] = "LOCALHOST"
    if rclpy_version() == HUMBLE:
        os.environ[LOCALHOST_ONLY] = "1"


def silent_events() -> Any:
    """Subscription events without a warning about publishers of another quality of service."""
    try:
        module = import_module("rclpy.event_handler")
    except ModuleNotFoundError:  # Humble
        module = import_module("rclpy.qos_event")
    return module.SubscriptionEventCallbacks(use_default_callbacks=False)


def after_parameters_are_set(node: Any, changed: Changed) -> None:
    """Call `changed` after parameters were set, with those: they have their values then."""
    if hasattr(node, "add_post_set_parameters_callback"):
        node.add_post_set_parameters_callback(changed)
        return
    set_atomically = node.set_parameters_atomically  # Humble: its services call no other method

    def set_and_report(parameters: list[Any]) -> Any:
        result = set_atomically(parameters)
        if result.successful:
            changed(parameters)
        return result

    node.set_parameters_atomically = set_and_report
