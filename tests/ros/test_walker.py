"""A walking policy of others, from its files to a walk: tried, driven, recorded, replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pixelgait.export.options import ExportConfig
from pixelgait.export.walker_exporter import export_walker
from pixelgait.export.walkers import trial
from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import velocity as velocity_of
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.replay import replay
from tests.export.walker_files import trotting_walker
from tests.ros.support import AUTO, Processes

# Drives back, to the left and to the right, ten times a second.
DRIVE = """
from pixelgait.robot.ros.common import ros2
from geometry_msgs.msg import Twist

stop = ros2.start()
node = ros2.rclpy.create_node("joystick")
publisher = node.create_publisher(Twist, "cmd_vel", 1)
message = Twist()
message.linear.x, message.linear.y, message.angular.z = -0.2, 0.3, -0.5
while not stop.wait(0.1):
    publisher.publish(message)
"""


@pytest.fixture
def short_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial of seconds: two commands, one push, one low kerb."""
    few = {name: trial.COMMANDS[name] for name in trial.MUST}
    changes = {
        "COMMANDS": few,
        "PARITY_OF": (),
        "PUSHES": 1,
        "CLIMBS": 1,
        "RANDOMISED": 1,
        "CLIMB_S": 4.0,
    }
    changes |= {"KERBS_M": (0.02,), "STAIRS": (0.02,), "CREEPS_M_PER_S": (), "MEASURE_S": 0.5}
    for name, value in changes.items():
        monkeypatch.setattr(trial, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("short_trial")
def test_a_walker_of_others_is_tried_driven_recorded_and_replayed_bit_for_bit(
    tmp_path: Path, processes: Processes
) -> None:
    policy, config = trotting_walker(tmp_path)
    folder, recording = tmp_path / "trot", tmp_path / "walk.mcap"
    export_walker(ExportConfig(folder, walker=policy, config=(config,), name="trot"))
    card = (folder / "README.md").read_text()
    assert "Observation: gait_phase, projected_gravity." in card
    assert "Falls: none." in card
    bundle = load_bundle(folder)
    reached = [each["reached"] for each in bundle.contract["low_level"]["trial"]["answers"]]
    assert all(np.hypot(*velocity[:2]) > 0.1 for velocity in reached)
    for engine in ("pybullet", "mujoco"):
        options = EvalConfig(str(folder), scene="flat", body=engine, episodes=1, seconds=2.0)
        figures = evaluate(options)
        assert figures["fall_rate"] == 0.0
        assert 0.0 <= figures["limited_share"] <= 1.0

    simulator = processes.start("pixelgait-sim", "--robot", "go2", "--seed", 9000)
    processes.script(DRIVE)
    run = processes.start("pixelgait-run", folder, "--duration", 1.0, "--record", recording, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert simulator.poll() is None
    walked = read_recording(recording)
    figures = replay(walked, bundle)
    assert figures["same_bundle"]
    assert not figures["different"]
    assert not figures["rounded"]
    walking = [step for step in walked.steps if step.state == "walking"]
    assert {step.kp[0] for step in walking} == {35.0}
    standing = [s.kp[0] for s in walked.steps if s.state in ("standing up", "ready") and s.kp[0]]
    assert standing[-1] == max(standing) == 40.0  # its stiffness has risen from 0
    told = [velocity_of(s.inputs.latent) for s in walking if s.inputs.latent is not None]
    assert any(np.allclose(command, (-0.2, 0.3, -0.5)) for command in told)
