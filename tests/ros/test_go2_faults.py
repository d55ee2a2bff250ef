"""Faults on a Go2's own DDS: each ends in damping, or before anything was sent."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from pixelgait.robot.unitree.services import MotionSwitcher
from tests.faults.go2 import BENT, MEDDLE
from tests.ros.go2 import DOMAINS, Heard, Listener, tell
from tests.ros.support import Client, Processes
from tests.ros.test_go2 import ACTIVATE, AUTO_GO2, CONFIGURE, DEACTIVATE

FLAT = ("--robot", "go2", "--scene", "flat")
SUNK_M = 0.2  # of a base that walks at 0.3


def last_line(run: subprocess.Popen[str]) -> str:
    """The output of a node that ended with a fault."""
    assert run.wait(60) == 1
    assert run.stdout is not None
    return run.stdout.read().splitlines()[-1]


def assert_damped(heard: Heard, client: Client, heights: list[float]) -> None:
    """The walk ended in damping, and the robot sank before its own program came.

    Heights [m] of its base since it walked, which a busy simulator may publish late; not every
    command is heard.
    """
    assert heard.stiff > 0
    assert heard.damping > 20
    client.spin(lambda: min(heights) < SUNK_M)


@pytest.mark.long
def test_a_simulated_go2_that_is_killed_damps_the_controller(
    processes: Processes, client: Client, link: str
) -> None:
    sim = processes.start("pixelgait-sim", *FLAT, "--link", link)
    run = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    client.wait_for_state("walking")
    listener = Listener(processes, link)
    sim.kill()
    assert "lowstate" in last_line(run)
    heard = listener.heard()
    assert heard.heard == heard.right
    assert heard.stiff > 0
    assert heard.damping > 20


@pytest.mark.slow
def test_missing_states_damp_the_motors(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    robot = processes.script(BENT, *FLAT, "--link", link)
    run = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    client.wait_for_state("walking")
    listener = Listener(processes, link)
    tell(robot, "silent 1")
    client.spin(lambda: run.poll() is not None)
    assert "lowstate is silent" in last_line(run)
    assert_damped(listener.heard(), client, heights)


@pytest.mark.slow
def test_states_with_a_wrong_checksum_are_ignored(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    """Before that, valid states report battery and motors."""
    robot = processes.script(BENT, *FLAT, "--link", link)
    run = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    motors = diagnostics(client)
    client.wait_for_state("walking")
    client.spin(lambda: motors)
    assert (motors[-1].level, motors[-1].message) == (b"\0", "")
    values = {each.key: each.value for each in motors[-1].values}
    assert int(values.pop("late_commands")) >= 0
    assert values == {
        **{"battery_percent": "80", "battery_v": "28.8"},
        **{"hottest_motor_deg_c": "30", "lost_packets": "0"},
    }
    tell(robot, "heat 75")
    client.spin(lambda: motors[-1].message == "FL_thigh_joint has 75 deg C")
    tell(robot, "charge 19")
    client.spin(lambda: motors[-1].message == "battery at 19 %, FL_thigh_joint has 75 deg C")
    assert motors[-1].level == b"\1"
    listener = Listener(processes, link)
    tell(robot, "damage 1")
    client.spin(lambda: run.poll() is not None)
    last = last_line(run)
    assert "lowstate is silent" in last
    assert "what arrives has a wrong checksum" in last
    assert_damped(listener.heard(), client, heights)


def diagnostics(client: Client) -> list[Any]:
    """Diagnostic statuses of the motors, as they arrive."""
    from diagnostic_msgs.msg import DiagnosticArray

    found: list[Any] = []

    def keep(message: Any) -> None:
        found.extend(each for each in message.status if each.name == "pixelgait: motors")

    client.node.create_subscription(DiagnosticArray, "/diagnostics", keep, 10)
    return found


@pytest.mark.long
def test_another_program_that_starts_commanding_is_a_fault(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    processes.start("pixelgait-sim", *FLAT, "--link", link)
    run = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    client.wait_for_state("walking")
    listener = Listener(processes, link)
    meddler = processes.script(MEDDLE, link, 0.01)
    client.spin(lambda: run.poll() is not None)
    last = last_line(run)
    assert "another program commands the motors on rt/lowcmd: " in last
    assert f"(process {meddler.pid} on " in last
    assert_damped(listener.heard(), client, heights)


@pytest.mark.slow
def test_a_restarted_robot_is_not_commanded_before_activation(
    processes: Processes, client: Client, link: str, switcher: MotionSwitcher
) -> None:
    """Its own program has the motors, and a writer of commands, as at first."""
    robot = ("pixelgait-sim", *FLAT, "--link", link)
    sim = processes.start(*robot)
    processes.start("pixelgait-run", "walk-go2", "--link", link, "--no-autostart", *AUTO_GO2)
    assert client.transition(CONFIGURE)
    assert client.transition(ACTIVATE)
    client.wait_for_state("walking")
    assert client.transition(DEACTIVATE)
    sim.kill()
    sim.wait()
    processes.start(*robot)
    listener = Listener(processes, link)
    assert switcher.mode() == "normal"
    client.spin_for(1.0)
    assert listener.heard().heard == 0
    client.states.clear()
    assert client.transition(ACTIVATE)
    assert switcher.mode() == ""
    client.wait_for_state("walking")


@pytest.mark.long
def test_the_cause_of_a_failed_start_is_reported(processes: Processes) -> None:
    """By nodes beside each other, of which most wait; and nothing is sent."""
    nobody, denied, shared, unused = (f"go2:lo:{next(DOMAINS)}" for _ in range(4))
    tell(processes.script(BENT, *FLAT, "--link", denied), "stubborn 1")
    meddler = processes.script(MEDDLE, shared, 1000)
    processes.start("pixelgait-sim", *FLAT, "--link", shared)
    listeners = [Listener(processes, each) for each in (nobody, denied, shared)]
    lines = {
        "no message on lowstate for 15 s": ("walk-go2", nobody),
        "'normal' keeps the motors (motion_switcher: call 1003 failed, 7008)": ("walk-go2", denied),
        # A writer that has not commanded so far.
        f"(process {meddler.pid} on ": ("walk-go2", shared),
        # Its gait and gains would be wrong, but applied.
        "contract.json: made for robot 'a1', not for 'go2'": ("walk", unused),
        # A loop that was held up for so long would go on stiff on a robot that lies.
        "error: parameter: ": ("walk-go2", unused, "--ros-args", "-p", "driver_timeout_s:=2.0"),
    }
    runs = {
        reason: processes.start(
            *("pixelgait-run", bundle, "--link", link, *options),
            *("--ros-args", "-r", f"__ns:=/robot{number}"),  # of one name one alone may start
        )
        for number, (reason, (bundle, link, *options)) in enumerate(lines.items())
    }
    for reason, run in runs.items():
        assert reason in last_line(run)
    assert [listener.heard().heard for listener in listeners] == [0, 0, 0]
