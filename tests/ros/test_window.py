"""The simulator's window: it neither delays the simulation nor outlives it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.conftest import alive, children
from tests.ros.support import Client, Processes


def listen(processes: Processes) -> None:
    """Wait for the simulated robot, which opens its window first."""
    client = Client(processes.domain)
    from pixelgait.robot.ros.common import ros2

    heard: list[object] = []
    client.node.create_subscription(
        ros2.JointState, ros2.JOINT_STATES, heard.append, ros2.SENSOR_QOS
    )
    client.spin(lambda: len(heard) > 100, timeout=60.0)
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulator", "number"),
    [
        ("pybullet", signal.SIGINT),
        pytest.param("mujoco", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_a_simulators_window_stays_until_a_signal(
    display: str, processes: Processes, simulator: str, number: signal.Signals
) -> None:
    sim = processes.start("pixelgait-sim", "--body", simulator, "--scene", "flat", "--gui")
    listen(processes)
    (window,) = children(sim.pid)
    sim.send_signal(number)
    output, _ = sim.communicate(timeout=30)
    assert sim.returncode == 0, output
    assert not alive(window)
    others = [line for line in output.splitlines() if "a1 stands in 'flat'" not in line]
    assert all("warning" in line for line in others), output  # a busy machine is slow


def test_closing_the_window_keeps_the_film(
    display: str, processes: Processes, tmp_path: Path
) -> None:
    film = tmp_path / "film.gif"
    sim = processes.start("pixelgait-sim", "--scene", "flat", "--gui", "--video", film)
    listen(processes)
    (window,) = children(sim.pid)
    os.kill(window, signal.SIGTERM)
    output, _ = sim.communicate(timeout=60)
    assert sim.returncode == 130, output
    assert output.endswith(f"wrote {film}\nerror: interrupted, the window was closed\n")
    assert film.read_bytes().startswith(b"GIF")
