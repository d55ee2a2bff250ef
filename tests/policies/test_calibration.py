"""Calibration: a low level that walks too slowly or too fast ends at the speeds it is asked for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Checkpoint, Run
from pixelgait.policies.runs.trained import trained_low_level
from pixelgait.policies.training.calibration import CalibrateConfig, calibrate_run
from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.gait import LIFT, STRIDE
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, RESIDUAL_SIZE, LinearLowLevel
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import locked
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.manoeuvres import walk
from pixelgait.sim.tasks.task import planar_pose
from tests.conftest import write_run


def low_level_run(folder: Path, stride: float, body: str = "pybullet") -> Path:
    """A run whose low level drives the gait open loop, with a stride in proportion to speed."""
    weights = np.zeros(LOW_LEVEL_WEIGHTS)
    part = LinearLowLevel.from_weights(A1, weights)  # views
    part.matrix[RESIDUAL_SIZE + STRIDE, 0] = part.bias[RESIDUAL_SIZE + STRIDE] = stride
    part.bias[RESIDUAL_SIZE + LIFT] = -0.3
    run = Run.create(folder, {"task": "follow", "mirror": True, "body": body})
    run.save(Checkpoint.first(weights, Normaliser.empty()), "best")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulator", "stride"),  # 0.3 would be about right
    [
        ("pybullet", 0.4),
        ("mujoco", 0.18),
        pytest.param("pybullet", 0.18, marks=pytest.mark.long),
        pytest.param("mujoco", 0.4, marks=pytest.mark.long),
    ],
)
def test_both_speeds_are_reached_and_the_rest_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stride: float, simulator: str
) -> None:
    folder = low_level_run(tmp_path / "low", stride, simulator)
    before = trained_low_level(folder)
    calibrate_run(CalibrateConfig(folder))
    first, *_, last = re.findall(r"reached (\S+), (\S+) m/s", capsys.readouterr().out)
    assert abs(float(first[1]) - 0.6) > 0.1
    assert [float(speed) for speed in last] == pytest.approx([0.2, 0.6], abs=0.03)
    after = trained_low_level(folder)
    changed = after.matrix != before.matrix
    assert set(zip(*changed.nonzero(), strict=True)) == {(RESIDUAL_SIZE + STRIDE, 0)}
    body = make_body(simulator, A1, FlatGround())
    controller = Controller(lambda *_: Decision(np.zeros(2), 1), after, Supervisor(A1))
    assert walk(controller, body, 0.6, 0.0, 2.0).speed == pytest.approx(0.6, abs=0.03)
    body.close()


@pytest.mark.long
def test_the_learning_curve_stays_beyond_the_best(tmp_path: Path) -> None:
    run = Run(low_level_run(tmp_path / "low", 0.18))
    best = run.load("best")
    run.save(replace(best, iteration=2, curve=[{"iteration": 1.0}, {"iteration": 2.0}]))
    calibrate_run(CalibrateConfig(run.folder))
    assert len(json.loads((run.folder / "curve.json").read_text())) == 2


@pytest.mark.long
def test_in_a_mixture_speeds_are_reached_on_average(tmp_path: Path) -> None:
    folder = low_level_run(tmp_path / "low", 0.4, "mixture")
    calibrate_run(CalibrateConfig(folder))
    speeds = []
    for simulator in BODIES:
        body = make_body(simulator, A1, FlatGround())
        low_level = trained_low_level(folder)
        controller = Controller(lambda *_: Decision(np.zeros(2), 1), low_level, Supervisor(A1))
        speeds.append(walk(controller, body, 0.6, 0.0, 4.0).speed)
        body.close()
    assert np.mean(speeds) == pytest.approx(0.6, abs=0.03)


def test_a_low_level_that_does_not_walk_faster_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = low_level_run(tmp_path / "low", 0.02)
    before = Run(folder).load("best").weights
    with pytest.raises(UserError, match="expected a low level that walks faster"):
        calibrate_run(CalibrateConfig(folder))
    np.testing.assert_array_equal(Run(folder).load("best").weights, before)


def test_a_low_level_that_falls_at_once_gets_a_line_and_is_left_alone(tmp_path: Path) -> None:
    folder = low_level_run(tmp_path / "low", 0.2)
    run = Run(folder)
    wild = np.random.default_rng(0).normal(0.0, 5.0, LOW_LEVEL_WEIGHTS)
    run.save(Checkpoint.first(wild, Normaliser.empty()), "best")
    with pytest.raises(UserError, match=r"the robot fell within 1\.5 s"):
        calibrate_run(CalibrateConfig(folder))
    np.testing.assert_array_equal(run.load("best").weights, wild)


def test_a_low_level_that_falls_later_is_left_alone_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The speed and stride until then are none that it can go on with."""
    folder = low_level_run(tmp_path / "low", 0.4)
    before = Run(folder).load("best").weights
    pushed = []

    def pushed_over(body: SimulatedBody, start: float = 2.0) -> Array:
        pose = planar_pose(body)
        pushed.append(pose)
        if len(pushed) == round(start / CONTROL_DT_S):
            body.push(np.array((0.0, 9.0, 0.0)))
        return pose

    monkeypatch.setattr("pixelgait.sim.tasks.manoeuvres.planar_pose", pushed_over)
    with pytest.raises(UserError, match=r"the robot fell at 0\.20 m/s"):
        calibrate_run(CalibrateConfig(folder))
    np.testing.assert_array_equal(Run(folder).load("best").weights, before)


def test_the_low_level_that_a_camera_policy_has_learned_on_is_not_calibrated(
    tmp_path: Path,
) -> None:
    """It is part of what the run is continued with."""
    low_level_run(tmp_path / "course" / "low_level", 0.2)
    before = Run(tmp_path / "course" / "low_level").load("best").weights
    with pytest.raises(UserError, match="its low level is a copy: calibrate the run it is of"):
        calibrate_run(CalibrateConfig(tmp_path / "course"))
    after = Run(tmp_path / "course" / "low_level").load("best").weights
    np.testing.assert_array_equal(after, before)


def test_a_run_that_is_being_written_is_not_calibrated(tmp_path: Path) -> None:
    folder = low_level_run(tmp_path / "low", 0.2)
    with locked(folder), pytest.raises(UserError, match=f"{folder} is in use by another process"):
        calibrate_run(CalibrateConfig(folder))


@pytest.mark.long
def test_a_stride_at_its_limit_stays_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A speed out of reach is reported, and does not make the weights diverge."""
    folder = low_level_run(tmp_path / "low", 0.4)
    monkeypatch.setattr("pixelgait.policies.training.calibration.SPEEDS", (0.4, 1.6))
    calibrate_run(CalibrateConfig(folder))
    assert "1.60 m/s is out of reach" in capsys.readouterr().out
    low_level = trained_low_level(folder)
    row = RESIDUAL_SIZE + STRIDE
    assert low_level.matrix[row, 0] + low_level.bias[row] < 2.0


def test_a_run_without_a_low_level_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "high", "imitate", np.zeros(LOW_LEVEL_WEIGHTS))
    with pytest.raises(UserError, match="trains no low level"):
        calibrate_run(CalibrateConfig(tmp_path / "high"))
