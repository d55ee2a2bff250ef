"""Batched robots: each moves as it does alone, bit for bit; suspect readings are flagged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import Job, RolloutWorker
from pixelgait.robot.control.controller import HeadingHold
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel, act, features
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, ROBOTS, RobotSpec
from pixelgait.sim.batched import controller as control
from pixelgait.sim.batched.controller import BatchHeadingHold, BatchSupervisor, stacked
from pixelgait.sim.batched.mujoco_batch import BatchReading, MuJoCoBatch
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.tasks.episode import Episode
from tests.conftest import gentle_weights, trotting_weights
from tests.helpers import no_image

STEPS = 260  # commands change at 100 and 200, the push is at 250
SEEDS = [3, 4]
Change = Callable[[BatchReading], BatchReading]


def candidates() -> list[np.ndarray]:
    """Weights of low levels, from one that walks to one that flails and falls."""
    noise = np.random.default_rng(1).standard_normal(LOW_LEVEL_WEIGHTS)
    weights = [np.zeros(LOW_LEVEL_WEIGHTS), trotting_weights(0.5), gentle_weights()]
    return [*weights, gentle_weights() + 0.1 * noise, 0.5 * noise]


def episodes_of(
    task: str, at_once: bool, robot: str = A1.name, randomisation: Randomisation | None = None
) -> list[list[Episode]]:
    plan = Plan(task=task, steps=STEPS, robot=robot, body="mujoco", randomisation=randomisation)  # type: ignore[arg-type]
    assert plan.batched
    worker = RolloutWorker(plan)
    jobs = [Job(weights, Normaliser.empty(), SEEDS, STEPS) for weights in candidates()]
    ran = worker.run_all(jobs) if at_once else [worker._run_alone(job) for job in jobs]
    worker.close()
    return ran


def assert_equal(one: Episode, other: Episode) -> None:
    for field in fields(Episode):
        values = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_equal(*values, err_msg=field.name)


@pytest.mark.parametrize(
    ("task", "robot"),
    [("walk", "a1"), ("follow", "a1"), pytest.param("follow", "go2", marks=pytest.mark.slow)],
)
def test_an_episode_is_the_same_alone_and_among_others(task: str, robot: str) -> None:
    together, alone = episodes_of(task, True, robot), episodes_of(task, False, robot)
    flat = [episode for each in together for episode in each]
    assert {episode.fell for episode in flat} == {True, False}
    for one, other in zip(flat, (e for each in alone for e in each), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("robot", ["a1", pytest.param("go2", marks=pytest.mark.slow)])
def test_a_randomised_robot_walks_the_same_alone_and_among_others(robot: str) -> None:
    late = replace(Randomisation(), imu_delay_s=(0.0, 0.035), heading_drift_rad_per_s=(-0.1, 0.1))
    together, alone = (episodes_of("follow", at_once, robot, late) for at_once in (True, False))
    flat = [episode for each in together for episode in each]
    assert {episode.fell for episode in flat} == {True, False}
    for one, other in zip(flat, (e for each in alone for e in each), strict=True):
        assert_equal(one, other)


def test_a_flagged_robot_is_run_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = episodes_of("walk", False)
    monkeypatch.setattr(control, "MIN_UP_Z", float(np.cos(0.4)))  # robots that fall lean further
    again: list[Job] = []

    def run_alone(
        worker: RolloutWorker, job: Job, really: Callable[..., Any] = RolloutWorker._run_alone
    ) -> Any:
        again.append(job)
        return really(worker, job)

    monkeypatch.setattr(RolloutWorker, "_run_alone", run_alone)
    together = episodes_of("walk", True)
    assert 0 < len(again) < len(SEEDS) * len(candidates())
    for one, other in zip(together, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)


def row(reading: BatchReading, robot: int) -> Reading:
    """The reading of one robot."""
    return Reading(
        reading.time_s,
        reading.joint_angles[robot],
        reading.joint_velocities[robot],
        reading.orientation[robot],
        reading.angular_velocity[robot],
        no_image,
    )


def spoiled(
    reading: BatchReading, name: str, robot: int, value: float, at: int = 0
) -> BatchReading:
    values = getattr(reading, name).copy()
    values[robot, at] = value
    return replace(reading, **{name: values})


SUSPECT: dict[str, Change] = {
    "not finite": lambda reading: spoiled(reading, "joint_angles", 1, np.nan),
    "huge": lambda reading: spoiled(reading, "joint_velocities", 1, 1e200),
    "beyond its limit": lambda reading: spoiled(reading, "joint_angles", 1, 3.0),
    "too fast": lambda reading: spoiled(reading, "joint_velocities", 1, 200.0),
    "no unit quaternion": lambda reading: spoiled(reading, "orientation", 1, 0.5),
    "tilted": lambda reading: replace(
        reading, orientation=np.array(((0, 0, 0, 1), (1, 0, 0, 0), (0, 0, 0, 1)), dtype=float)
    ),
    "IMU turns by itself": lambda reading: spoiled(reading, "angular_velocity", 1, 90.0),
}


@pytest.mark.parametrize("what", SUSPECT)
def test_only_the_robot_with_a_suspect_reading_is_flagged(what: str) -> None:
    supervisor = BatchSupervisor(A1, 3)
    singles = [Supervisor(A1) for _ in range(3)]
    rng = np.random.default_rng(0)
    targets = np.tile(A1.default_pose_rad, (3, 1))
    with np.errstate(all="ignore"):
        for step in range(5):
            noise = 0.01 * rng.standard_normal((3, 12))
            upright = np.tile((0.0, 0.0, 0.0, 1.0), (3, 1)) + 1e-9 * noise[:, :4]
            reading = BatchReading(
                step * CONTROL_DT_S,
                A1.default_pose_rad + noise,
                noise,
                upright,
                noise[:, :3],
            )
            if step == 4:
                reading = SUSPECT[what](reading)
            limited = supervisor.review(reading, targets)
            for robot in (0, 2):
                sent = singles[robot].review(row(reading, robot), targets[robot])
                np.testing.assert_array_equal(limited[robot], sent.targets)
            assert supervisor.flagged.tolist() == [False, step == 4, False]


def test_a_robot_with_a_stuck_joint_is_flagged() -> None:
    supervisor = BatchSupervisor(A1, 2)
    for step in range(60):
        angles = np.tile(A1.default_pose_rad, (2, 1)) + 1e-3 * np.sin(step)
        angles[1, 4] = A1.default_pose_rad[4]
        still = np.tile((0.0, 0.0, 0.0, 1.0), (2, 1))
        still[:, 0] = 1e-6 * np.sin(step)
        targets = np.tile(A1.default_pose_rad + 0.3 * np.sin(0.2 * step), (2, 1))
        nothing = np.zeros((2, 12))
        rates = nothing[:, :3]
        reading = BatchReading(step * CONTROL_DT_S, angles, nothing, still, rates)
        supervisor.review(reading, targets)
    assert supervisor.flagged.tolist() == [False, True]


def test_each_robot_holds_its_own_heading() -> None:
    holds, singles = BatchHeadingHold(2), [HeadingHold(), HeadingHold()]
    for step in range(20):
        yaws = 0.01 * step * np.array((1.0, -2.0)) / 2.0
        orientations = np.column_stack((np.zeros((2, 2)), np.sin(yaws), np.cos(yaws)))
        latents = np.array(((0.5, 0.1), (0.2, 0.0)))
        corrected = holds.corrected(latents, orientations)
        for i, hold in enumerate(singles):
            np.testing.assert_array_equal(corrected[i], hold.corrected(latents[i], orientations[i]))


@pytest.mark.parametrize("spec", [A1, ROBOTS["laikago"]], ids=lambda spec: spec.name)
def test_stacked_low_levels_round_as_single_ones(spec: RobotSpec) -> None:
    rng = np.random.default_rng(0)
    each = [
        LinearLowLevel.from_weights(spec, w) for w in 0.3 * rng.normal(size=(5, LOW_LEVEL_WEIGHTS))
    ]
    together, phases = stacked(each), np.zeros((5, 1))
    for _ in range(30):
        inputs = rng.uniform(-1, 1, (5, 2)), rng.normal(size=(5, 4)), rng.normal(size=(5, 12))
        expected = []
        for i, low in enumerate(each):
            latent, imu, angles, phase = (x[i] for x in (*inputs, phases))
            action = low.action(features(latent, imu, angles, phase))
            expected.append(act(spec, latent, action, phase, angles))
        targets, phases = together(*inputs, phases)
        np.testing.assert_array_equal(targets, [target for target, _ in expected])
        np.testing.assert_array_equal(phases, [phase for _, phase in expected])


def test_a_robot_that_has_left_is_not_simulated_further() -> None:
    body = MuJoCoBatch(A1, 2)
    reading = body.reset()
    supervisor = BatchSupervisor(A1, 2)
    body.leave(np.array((False, True)))
    before = body.positions[1].copy()
    for _ in range(10):
        body.apply(supervisor.review(reading, np.tile(A1.default_pose_rad, (2, 1))))
        reading = body.read()
    np.testing.assert_array_equal(body.positions[1], before)
    assert not np.array_equal(body.positions[0], before)
