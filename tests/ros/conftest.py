"""Fixtures of the tests of ROS 2."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.starvation import STARVED
from tests.ros import tf2_msgs
from tests.ros.go2 import DOMAINS
from tests.ros.support import AUTO, Client, FakeRobot, Processes


def pytest_itemcollected(item: pytest.Item) -> None:
    """Try a test again if it fails and its error, or a process, says that a sensor was silent.

    On a busy machine a simulated driver may get no time for longer than a robot may wait. Such a
    time lasts, so that the next attempt waits a while; any other failure counts at once. A
    debugger cannot be combined with further attempts.
    """

    def starved(error: BaseException | None) -> bool:
        printed = (text for *_, text in item._report_sections)
        return any(STARVED.search(text) for text in (str(error), *printed))

    if not item.config.getoption("usepdb"):
        item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=10, condition=starved))


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
def run(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> subprocess.Popen[str]:
    """The node, which walks the robot."""
    process = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.wait_for_state("walking")
    return process


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


@pytest.fixture(scope="session")
def with_tf2(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that have tf2_msgs, built once for all workers."""
    if not shutil.which("gcc") or not shutil.which("g++"):
        pytest.skip("no gcc and g++, which build tf2_msgs")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-tf2"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "tf2").exists():
            tf2_msgs.build(folder / "building")
            (folder / "building").rename(folder / "tf2")
    return tf2_msgs.environment(folder / "tf2")


@pytest.fixture
def tf2_processes(processes: Processes, with_tf2: dict[str, str]) -> Processes:
    for name, value in with_tf2.items():
        there = processes.environment.get(name)
        processes.environment[name] = f"{there}:{value}" if there else value
    return processes
