"""The fault table: rows are measured, and unexpected outcomes are reported."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.ros.common.discovery import OwnDomain, private_environment
from pixelgait.robot.ros.common.distributions import profile_variables
from pixelgait.robot.ros.common.ros2 import LOOPBACK
from pixelgait.robot.spec import A1
from tests.faults.cases import GROUPS, IMUS, JOINTS
from tests.faults.driver import ReceivedCommand
from tests.faults.events import judge, survive
from tests.faults.go2 import GO2_FAULTS
from tests.faults.robot import STANDS
from tests.faults.ros2_control import yielding
from tests.faults.table import FaultsConfig, groups_of, page, report, written
from tests.faults.trial import DAMPS, ENDS, SILENT, SINKS, WALK_S, WALKS, Trial, within_limit, worst


def test_a_row_is_measured_and_written(tmp_path: Path) -> None:
    page, figures = tmp_path / "faults.md", tmp_path / "faults.json"
    report(FaultsConfig(only="velocities 1000 times", page=page, json=figures))
    (row,) = json.loads(figures.read_text())
    assert row["passed"]
    assert row["happened"] == "damps"
    assert row["reaction_ms"] > 0.0
    assert row["outside_rad"] == 0.0
    assert "turns at" in page.read_text()


def test_single_rows_of_a_page_are_renewed(tmp_path: Path) -> None:
    page = tmp_path / "faults.md"
    page.write_text(
        "## Joints\n\n| fault | says |\n|---|---|\n| velocities 1000 times | as it was |\n"
        "| all positions 0 | as it was |\n\n## IMU\n\n| rate that is NaN | as it was |\n"
        "\n## IMU, own\n\n| fault | what happens | reaction | beyond | step | says |\n"
        "|---|---|---|---|---|---|\n| rate in degrees/s | as it was |\n"
    )
    report(FaultsConfig(only="velocities 1000 times", page=page))
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert rows[0].startswith("| fault | what happens")
    assert rows[1].startswith("| velocities 1000 times | damps")
    assert rows[2] == "| all positions 0 | as it was |"
    assert rows[4:] == [
        "| rate that is NaN | as it was |",
        rows[0],
        "| rate in degrees/s | as it was |",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Camera: depth that is NaN where the policy looks",
        pytest.param("Camera: mirrored images", marks=pytest.mark.long),
        pytest.param("Camera: images frozen but for noise", marks=pytest.mark.long),
        pytest.param("Camera: depth in millimetres as 32FC1", marks=pytest.mark.long),
        "Processes and operators: --out on a full disk",
        pytest.param("Processes and operators: --record on a full disk", marks=pytest.mark.long),
        "Joints: positions and velocities in degrees",
        "Joints: one encoder stuck",
        "Joints: one encoder 2 rad off",
        "Joints: spikes in half of the readings",
        pytest.param("IMU: IMU at 50 Hz, turning", marks=pytest.mark.long),
        "IMU: frozen IMU, joints at 50 Hz",
        "Mixed up from the start: IMU turned by 180 deg",
        "Mixed up from the start: names of two thighs swapped",
        "simulated robot: a position that is NaN",
        "simulated robot: fewer efforts than names",
        "simulated robot: names of another robot",
        "Silence and stamps: joints stamped 3 s ahead",
        "Silence and stamps: joints that repeats a stamp",
        "At the start: no robot",
        pytest.param(
            "Other nodes on the network: a second publisher of IMU data", marks=pytest.mark.long
        ),
        pytest.param("Other nodes on the network: a second controller", marks=pytest.mark.long),
        "Unitree Go2 over DDS: SIGINT",
        pytest.param("Unitree Go2 over DDS: states end, motors follow", marks=pytest.mark.long),
        pytest.param("Unitree Go2 over DDS: states of a wrong checksum", marks=pytest.mark.long),
        pytest.param("ros2_control: the controller is unloaded", marks=pytest.mark.long),
        pytest.param("ros2_control: another node can command", marks=pytest.mark.long),
        pytest.param("ros2_control: without --arm", marks=pytest.mark.long),
    ],
)
def test_faults_that_were_once_mishandled(name: str) -> None:
    report(FaultsConfig(only=name))


@pytest.mark.long
def test_an_unexpected_outcome_is_reported() -> None:
    case = next(each for each in JOINTS if each.name == "a velocity that is inf")
    assert not replace(case, expected=WALKS).run(load_bundle("iap")).passed
    assert not replace(case, says="something else").run(load_bundle("iap")).passed
    with pytest.raises(UserError, match="no fault is called 'nowhere'"):
        report(FaultsConfig(only="nowhere"))


@pytest.mark.long
def test_a_walk_that_ends_before_its_fault_is_repeated() -> None:
    """A stall of the machine has stopped the controller."""
    trials = []

    class Stalled(Trial):
        def spin(self, seconds: float, until: Callable[[], object]) -> None:
            super().spin(seconds, until)
            if seconds == WALK_S:
                trials.append(self)
                if len(trials) == 1:
                    self.alter(joints=lambda _: None)
                    super().spin(0.3, self.ended)
                    self.alter()

    case = next(each for each in JOINTS if each.name == "velocities 1000 times")
    assert replace(case, trial=Stalled).run(load_bundle("iap")).passed
    *ended, last = [trial.injected for trial in trials]
    assert ended  # once by us; the machine may stall as well
    assert not any(ended)
    assert last


@pytest.mark.long
def test_a_different_reaction_on_another_link_is_reported() -> None:
    """With and without any command."""
    cases = {case.name: case for case in GO2_FAULTS}
    other = cases["a bundle of another robot"]
    outcome = replace(other, expected=DAMPS).run(load_bundle("iap"))
    assert (outcome.happened, outcome.passed) == (SILENT, False)
    assert "made for robot 'a1'" in outcome.says
    killed = replace(cases["kill -9"], expected=DAMPS + SINKS).run(load_bundle("iap"))
    assert (killed.happened, killed.passed) == (ENDS + SINKS, False)
    assert killed.jump > 0.0
    assert killed.outside_rad == 0.0


def test_yielding_targets_are_distinguished_from_walking_ones() -> None:
    """Several yielding targets in a row follow the joints, or hold."""
    times = np.arange(0.0, 0.5, 0.01)
    hanging = [(time_s, POSE - 0.3) for time_s in times]

    def yields(positions: list[Any], joints: list[Any] = hanging) -> list[bool]:
        targets = [ReceivedCommand(t, t, each) for t, each in zip(times, positions, strict=True)]
        return [each.damps for each in yielding(targets, joints)]

    count = len(times)
    walks = [POSE + 0.1 * np.sin(step) for step in range(count)]
    sinks = walks[:20] + [walks[19] - 0.01 * step for step in range(1, count - 19)]
    assert not any(yields(walks))
    assert yields(sinks) == [False] * 20 + [True] * (count - 20)
    assert not any(yields(sinks, [(time_s, POSE + 0.3) for time_s in times]))  # away from them
    assert all(yields([POSE] * count, [(time_s, POSE * np.nan) for time_s in times])[1:])
    assert not any(yields(walks[:45] + [walks[44]] * 5))  # too few
    late = [ReceivedCommand(times[-1], t, each) for t, each in zip(times, sinks, strict=True)]
    assert [each.damps for each in yielding(late, hanging)] == yields(sinks)  # received all at once


def test_faults_are_many_and_named_once() -> None:
    names = [f"{group}: {case.name}" for group, cases in GROUPS.items() for case in cases]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_a_bundle_that_is_asked_for_has_the_faults_that_it_can_have(tmp_path: Path) -> None:
    """In groups of its own, which the page keeps beside the others."""
    bundle = load_bundle("iap-depth-go2")
    found = groups_of(bundle)
    assert {case.bundle for cases in found.values() for case in cases} == {str(bundle.folder)}
    go2 = "Unitree Go2 over DDS, iap-depth-go2"
    assert len(found[go2]) == len(GO2_FAULTS) - 1  # all but that of another robot's bundle
    camera = groups_of(load_bundle("iap-rgbd"))["Camera, iap-rgbd"]
    assert {"black images", "depth upside down"} <= {case.name for case in camera}
    assert not {each.partition(",")[0] for each in found} & {"Goals", "ros2_control"}
    assert not any(each.startswith("Unitree") for each in groups_of(load_bundle("iap")))
    rows = {("IMU", IMUS[0].name): f"| {IMUS[0].name} | a |", (go2, "SIGINT"): "| SIGINT | b |"}
    (tmp_path / "page.md").write_text(page(rows))
    assert rows.items() <= written(tmp_path / "page.md").items()


def test_the_page_has_a_row_of_every_fault_with_its_words() -> None:
    rows = written(Path(__file__).resolve().parents[2] / "docs/faults.md")
    for group, cases in GROUPS.items():
        for case in cases:
            row = rows[group, case.name]
            assert case.says.replace("|", "/") in row
            assert getattr(case, "expected", STANDS) in row


def test_events_are_judged_by_the_commands_received(tmp_path: Path) -> None:
    figures = survive(load_bundle("iap"), count=1, seed=2, folder=tmp_path)
    assert sum(figures["events"].values()) == 1
    assert not figures["wrong"]


POSE = A1.default_pose_rad
CLOCKS_S = 1e6  # between that of stamps and that of arrivals


def commands(
    since_s: float, count: int, position: Any = POSE, late_s: float = 0.001
) -> list[ReceivedCommand]:
    """Commands 10 ms apart, received some time after their stamps."""
    times = [since_s + 0.01 * step for step in range(count)]
    return [ReceivedCommand(time_s, time_s - late_s + CLOCKS_S, position) for time_s in times]


def judged(received: list[ReceivedCommand], must_damp: bool = False) -> str | None:
    """Judgement right after the newest command, of an event before the second one."""
    driver, now_s = SimpleNamespace(received=received), received[-1].time_s
    trial = SimpleNamespace(driver=driver, bundle=load_bundle("iap"), ended=lambda: False)
    return judge(trial, 1, now_s - 1.0, now_s, must_damp)  # type: ignore[arg-type]


def test_a_robot_that_stays_stiff_is_reported() -> None:
    received = commands(99.0, 100)
    assert judged(received) is None
    assert "still stiff" in str(judged(received, must_damp=True))
    received[50] = replace(received[50], position=POSE + 3.0)
    assert "outside limits" in str(judged(received))


def test_a_robot_that_is_stiff_again_after_the_driver_timeout_is_reported() -> None:
    before = commands(10.0, 100)  # the last at 10.99 s
    under_way = commands(11.49, 1, late_s=0.5)
    again = "stiff again after 0.51 s without a command"
    assert judged(before + commands(11.5, 20)) == again
    assert judged(before + under_way + commands(11.5, 20)) == again
    assert judged(before[:1] + commands(10.51, 20)) == again  # it began with the event
    assert judged(before + commands(11.5, 5, position=None) + commands(11.55, 20)) is None
    assert judged(before + under_way + commands(11.5, 5, None) + commands(11.55, 20)) is None


def test_gaps_within_the_driver_timeout_are_no_fault() -> None:
    before = commands(10.0, 100)
    assert judged(before + commands(11.08, 20)) is None  # held up for 0.09 s
    limp = commands(10.0, 100, position=None)
    assert judged(limp + commands(11.5, 20)) is None  # it stands up from where it lies
    late = [replace(each, time_s=11.5) for each in commands(11.0, 50)]  # received all at once
    assert judged(before + late + commands(11.51, 20)) is None


def test_processes_of_a_trial_stay_on_this_computer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regardless of the environment: a real robot may use the same domain."""
    monkeypatch.setenv("ROS_STATIC_PEERS", "10.0.0.1")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    environment = private_environment(7, tmp_path)
    names = ("ROS_DOMAIN_ID", "ROS_STATIC_PEERS", *profile_variables())
    code = "import os; from pixelgait.robot.ros.common import ros2; "
    code += f"print([os.environ.get(name) for name in {names}])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(["7", None, str(LOOPBACK)])


def test_a_domain_belongs_to_one_process_until_it_ends() -> None:
    code = "import itertools; from pixelgait.robot.ros.common.discovery import OwnDomain; "
    code += "held = OwnDomain(itertools.count(300)); print(held.number, flush=True); input()"
    line = [sys.executable, "-c", code]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        ours = OwnDomain(itertools.count(theirs))
        assert ours.number > theirs
        other.kill()
    again = OwnDomain(itertools.count(theirs))
    assert again.number == theirs
    again.close()
    ours.close()


def test_a_lost_command_is_no_jump() -> None:
    """A command just after a late one may be lost; jumps count among those on time."""
    bundle, most = load_bundle("iap"), A1.target_speed_limit_rad_per_s * CONTROL_DT_S

    def jump(last: float) -> float:
        steps = {0.00: 0.0, 0.01: 1.0, 0.029: 2.0, 0.04: 4.0, 0.05: last}  # that of 0.03 s is lost
        return worst(
            [ReceivedCommand(t, t, POSE + each * most) for t, each in steps.items()], bundle
        )[1]

    assert jump(5.0) == pytest.approx(1.0)
    assert jump(5.5) == pytest.approx(1.5)


def test_a_hand_over_of_gains_moves_a_target_by_what_keeps_the_torque_and_few_times() -> None:
    """A knee that sags by 0.15 rad under 40 Nm/rad: twice as far under 20."""
    bundle = load_bundle("walk-go2")
    spec = bundle.spec
    soft = replace(bundle, legs=replace(bundle.legs, kp_nm_per_rad=spec.kp_nm_per_rad / 2.0))
    most = spec.target_speed_limit_rad_per_s[2] * CONTROL_DT_S

    def within(*steps: float, own: bool = False) -> bool:
        knees = itertools.accumulate(steps, initial=0.0)
        targets = [spec.default_pose_rad + most * each * (np.arange(12) == 2) for each in knees]
        sent = [
            ReceivedCommand(t, t, each)
            for t, each in zip(
                0.01 * np.arange(-1, len(targets)), (targets[0], *targets), strict=False
            )
        ]
        return within_limit(sent, bundle if own else soft)

    handover = 1.0 + 0.15 / most
    assert within(1.0, 1.0, own=True)
    assert not within(1.01, own=True)
    assert within(1.0, -handover, 1.0, handover)
    assert not within(handover + 0.01)
    assert not within(1.01, -1.01, 1.01)
