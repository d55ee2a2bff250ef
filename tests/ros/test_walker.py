"""A walking policy of others, from its files to a walk: tried, driven, recorded, replayed."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.export.options import ExportConfig
from pixelgait.export.walker_exporter import export_walker
from pixelgait.export.walkers import trial
from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.control.controller import velocity as velocity_of
from pixelgait.robot.files import read_json
from pixelgait.robot.recording.reader import Recording, read_recording
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import GO2
from tests.export import own_walker
from tests.ros.support import AUTO, Client, Processes
from tests.ros.test_go2 import AUTO_GO2, listened_poses

# Velocity commands, and the motion ahead, left [m] or the turn [rad] that shows that one is obeyed.
DIRECTIONS = {(-0.4, 0.0, 0.0): -0.15, (0.0, 0.3, 0.0): 0.15, (0.0, 0.0, -0.8): -0.5}
FEW_COMMANDS = {name: trial.COMMANDS[name] for name in trial.MUST}
SHORT_TRIAL = {  # two commands, one push, one low kerb: seconds
    **{"COMMANDS": FEW_COMMANDS, "PARITY_OF": (), "CREEPS_M_PER_S": (), "MEASURE_S": 0.5},
    **{"PUSHES": 1, "CLIMBS": 1, "RANDOMISED": 1, "CLIMB_S": 4.0},
    **{"KERBS_M": (0.02,), "STAIRS": (0.02,)},
}


@pytest.fixture(
    scope="module",
    params=[
        name if name == "isaac_lab" else pytest.param(name, marks=pytest.mark.slow)
        for name in own_walker.FORMATS
    ],
)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the walker from the files of one program, after a short trial."""
    folder = tmp_path_factory.mktemp(request.param)
    files = own_walker.files(folder, request.param)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT_TRIAL.items():
            patch.setattr(trial, name, value)
        export_walker(ExportConfig(folder / "own", name="own", **files))
    return folder / "own"


def test_a_walker_is_evaluated_in_both_engines_and_profiled(
    bundle: Path, processes: Processes
) -> None:
    assert "Falls: none." in (bundle / "README.md").read_text()
    for engine in ("pybullet", "mujoco"):
        short: dict[str, Any] = {"episodes": 1, "workers": 1, "seconds": 3.0}
        figures = evaluate(EvalConfig(str(bundle), scene="flat", body=engine, **short))
        assert figures["fall_rate"] == 0.0
        assert figures["distance_m"] > 0.5
        assert figures["limited_share"] < 0.5
    report = bundle.parent / "latency.json"
    line = ("pixelgait-profile", bundle, "--seconds", 0.5, "--json", report)
    profiled = processes.start(*line)
    assert profiled.wait(60) == 0
    assert read_json(report)["stages"]["low_level"]["count"] > 0


@pytest.mark.parametrize("over", ["ros", pytest.param("go2", marks=pytest.mark.slow)])
def test_a_walker_is_driven_recorded_and_replayed_bit_for_bit(
    bundle: Path, over: str, link: str, processes: Processes, client: Client
) -> None:
    walked = driven_every_way(bundle, "ros" if over == "ros" else link, processes, client)
    walking = [step for step in walked.steps if step.state == "walking"]
    assert {step.kp[0] for step in walking} == {own_walker.KP}
    standing = [s.kp[0] for s in walked.steps if s.state in ("standing up", "ready") and s.kp[0]]
    assert standing[-1] == max(standing) == GO2.kp_nm_per_rad[0]  # it has risen from 0


@pytest.mark.slow
def test_a_go2s_own_low_level_is_driven_every_way(
    link: str, processes: Processes, client: Client
) -> None:
    driven_every_way("walk-omni-go2", link, processes, client)


def driven_every_way(
    bundle: Path | str, link: str, processes: Processes, client: Client
) -> Recording:
    """Drive a Go2 along `DIRECTIONS`; returns what was recorded, which replays bit for bit."""
    auto, recording = AUTO if link == "ros" else AUTO_GO2, processes.folder / "walk.mcap"
    processes.start("pixelgait-sim", "--robot", "go2", "--scene", "flat", "--link", link)
    poses = listened_poses(client)
    client.spin(lambda: poses)  # a busy machine starts it late
    run = processes.start("pixelgait-run", bundle, "--link", link, "--record", recording, *auto)
    client.wait_for_state("walking")
    for command, least in DIRECTIONS.items():
        drive(client, command, least)
    run.send_signal(signal.SIGINT)
    assert run.wait(30) == 0
    replayed = processes.start("pixelgait-replay", recording)
    assert replayed.wait(60) == 0
    assert replayed.stdout is not None
    assert "bit for bit" in replayed.stdout.read()
    walked = read_recording(recording)
    walking = [step for step in walked.steps if step.state == "walking"]
    told = [velocity_of(s.inputs.latent) for s in walking if s.inputs.latent is not None]
    for command in DIRECTIONS:
        assert any(np.allclose(each, command) for each in told)
    return walked


def drive(client: Client, command: tuple[float, float, float], least: float) -> None:
    """Publish a velocity until the robot has moved so far along its one axis."""
    from geometry_msgs.msg import Twist

    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = command
    (axis,) = np.flatnonzero(command)
    publisher = client.node.create_publisher(Twist, "cmd_vel", 1)
    timer = client.node.create_timer(0.1, lambda: publisher.publish(message))
    poses = listened_poses(client)
    client.spin(lambda: poses and moved(poses[0], poses[-1])[axis] / least > 1.0)
    client.node.destroy_timer(timer)


def moved(start: tuple[float, ...], end: tuple[float, ...]) -> tuple[float, float, float]:
    """Motion ahead, left [m] and turn [rad] between two poses, in the frame of the first."""
    dx, dy, yaw = end[0] - start[0], end[1] - start[1], start[2]
    ahead = dx * math.cos(yaw) + dy * math.sin(yaw)
    left = dy * math.cos(yaw) - dx * math.sin(yaw)
    return ahead, left, wrap_angle(end[2] - yaw)
