"""The stand-in robot, watched: its window neither holds it up nor outlives it."""

from __future__ import annotations

import signal

import pytest

from tests.conftest import alive, children
from tests.ros.support import Client, Processes


@pytest.mark.parametrize(
    ("simulator", "number"), [("pybullet", signal.SIGINT), ("mujoco", signal.SIGTERM)]
)
def test_a_stand_in_is_watched_until_a_signal_ends_it(
    display: str, processes: Processes, simulator: str, number: signal.Signals
) -> None:
    sim = processes.start("pixelgait-sim", "--body", simulator, "--scene", "flat", "--gui")
    client = Client(processes.domain)
    from pixelgait.robot.ros.wire import common as ros

    heard: list[object] = []
    client.node.create_subscription(ros.JointState, ros.JOINT_STATES, heard.append, ros.SENSOR_QOS)
    client.spin(lambda: len(heard) > 100, timeout=60.0)  # it opens its window first
    client.close()
    (window,) = children(sim.pid)
    sim.send_signal(number)
    output, _ = sim.communicate(timeout=10)
    assert sim.returncode == 0, output
    assert not alive(window)
    assert all("warning" in line for line in output.splitlines()), output  # a busy machine is slow
