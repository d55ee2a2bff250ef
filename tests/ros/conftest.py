"""Fixtures of the tests of ROS 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ros.go2 import DOMAINS
from tests.ros.support import Client, FakeRobot, Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    group = Processes(tmp_path)
    yield group
    group.stop_all()


@pytest.fixture
def client(processes: Processes) -> Iterator[Client]:
    """Joins when it is first used: start the node before."""
    client = Client(processes.domain)
    yield client
    client.close()


@pytest.fixture
def robot(client: Client) -> FakeRobot:
    return FakeRobot(client)


@pytest.fixture
def heights(client: Client) -> list[float]:
    """Heights of the simulated robot's base [m], as they arrive."""
    from nav_msgs.msg import Odometry
    from rclpy.qos import qos_profile_sensor_data

    found: list[float] = []

    def keep(message: Any) -> None:
        found.append(message.pose.pose.position.z)

    client.node.create_subscription(Odometry, "ground_truth/odom", keep, qos_profile_sensor_data)
    return found


@pytest.fixture
def link() -> str:
    """A simulated Go2's, in a domain of its own."""
    return f"go2:lo:{next(DOMAINS)}"


@pytest.fixture
def switcher(link: str) -> Iterator[Any]:
    """A client of the simulated Go2's motion switcher."""
    from pixelgait.robot.ros.address import parse_link
    from pixelgait.robot.unitree.dds import Bus
    from pixelgait.robot.unitree.services import MotionSwitcher

    bus = Bus(parse_link(link))  # type: ignore[arg-type]
    yield MotionSwitcher(bus)
    bus.close()
