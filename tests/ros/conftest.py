"""Fixtures of the tests of ROS 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
