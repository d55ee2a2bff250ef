"""Omnidirectional low level: generator, sizes, symmetry; episodes on flat ground and a kerb."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.low_level import searched_low_level, widened
from pixelgait.policies.mirror import mirrored_inputs, mirrored_outputs
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.trained import trained_low_level
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import Job, RolloutWorker
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control import gait
from pixelgait.robot.control.controller import latent_for, latent_of
from pixelgait.robot.control.low_level import (
    COMMAND,
    LOW_LEVEL_WEIGHTS,
    OMNI,
    LinearLowLevel,
    act,
    carried_size,
    features,
    velocity_command,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.interface import Reading
from pixelgait.robot.spec import A1, GO2, RobotSpec
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.uneven_ground import Kerb
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.follow import drawn_velocity
from pixelgait.sim.tasks.manoeuvres import walk
from tests.helpers import no_image

STEPS = 120
FLAT, KERB = 3, 4  # seeds


def feet(spec: RobotSpec, phase: float, *command: float) -> np.ndarray:
    """Feet (4, 3) [m] of untrained legs under a velocity command (4,)."""
    legs = LinearLowLevel.from_weights(spec, np.zeros(OMNI.weights))
    asked, angles, at = np.array(command), spec.default_pose_rad, np.array([phase])
    action = legs.action(features(asked, np.zeros(4), angles, at))
    targets, _ = act(spec, asked, action, at, angles)
    return np.array([foot.position for foot in LegKinematics(spec).feet(targets.tolist())])


@pytest.mark.parametrize("spec", [A1], ids=lambda spec: spec.name)
@pytest.mark.parametrize(
    ("command", "axis"), [((0.6, 0.0, 0.0, 0.0), 0), ((0.0, 0.3, 0.0, 0.0), 1)]
)
def test_feet_in_stance_move_back_by_the_commanded_velocity_and_stay_level(
    spec: RobotSpec, command: tuple[float, ...], axis: int
) -> None:
    stance_s = 0.25  # at 2 Hz, half of a cycle
    down, up = feet(spec, 0.01, *command), feet(spec, np.pi - 0.01, *command)
    moved = (up - down)[[0, 3], axis]  # the pair that stands in this half
    np.testing.assert_allclose(moved, -max(command) * stance_s, rtol=0.06)
    heights = [feet(spec, phase, *command)[[0, 3], 2] for phase in np.linspace(0.0, np.pi, 9)]
    assert np.ptp(heights) < 0.012  # without a level map 34 mm sideways


def apex_m(*command: float) -> float:
    """The highest place of a foot in its swing, without weights [m]."""
    swing = np.linspace(np.pi, 2 * np.pi, 9)
    return max(float(feet(A1, phase, *command)[0, 2]) for phase in swing)


def test_climbing_and_speed_lift_the_feet_higher() -> None:
    usual = apex_m(0.3, 0.0, 0.0, 0.0)
    assert apex_m(0.3, 0.0, 0.0, 1.0) - usual > 0.08
    for fast in (1.0, 0.0, 0.0), (-0.6, 0.0, 0.0), (0.0, 0.6, 0.0):
        assert 0.005 < apex_m(*fast, 0.0) - apex_m(0.05, 0.0, 0.0, 0.0) < 0.05


def test_a_command_of_5_cm_a_second_steps_fully_and_none_stands() -> None:
    phase = 1.5 * np.pi
    assert np.ptp(feet(A1, phase, 0.05, 0.0, 0.0, 0.0)[:, 2]) > 0.04
    assert np.ptp(feet(A1, phase, 0.0, 0.0, 0.0, 1.0)[:, 2]) < 1e-9


def test_a_velocity_command_and_its_latent_are_each_others_inverse() -> None:
    command = np.array([high for _, _, high in COMMAND])
    np.testing.assert_allclose(velocity_command(latent_of(command)), command, atol=1e-12)


def test_a_velocity_command_changes_by_so_much_a_second_at_most() -> None:
    """A robot that walks ahead at 0.9 m/s is commanded to stand, and to climb."""
    legs = LinearLowLevel.from_weights(GO2, np.zeros(OMNI.weights))
    reading = Reading(
        0.0,
        GO2.default_pose_rad,
        np.zeros(12),
        np.array((0.0, 0.0, 0.0, 1.0)),
        np.zeros(3),
        no_image,
    )
    carried = np.array((1.0, 0.0, 0.9, 0.0, -0.4))
    for left in (0.87, 0.84, 0.81):
        _, carried = legs(latent_of(np.array((0.0, 0.0, 0.0, 1.0))), reading, carried)
        assert carried[2] == pytest.approx(left)
    assert carried[4] == pytest.approx(-0.16)


def test_the_mirrored_robot_acts_as_the_mirror_image() -> None:
    rng = np.random.default_rng(0)
    legs = searched_low_level(A1, rng.normal(size=OMNI.weights), Normaliser.empty(OMNI), True)
    x, (mirror, shift) = 0.1 * rng.normal(size=OMNI.inputs), mirrored_inputs(A1, OMNI)
    np.testing.assert_allclose(
        legs.action(mirror @ x + shift), mirrored_outputs(OMNI) @ legs.action(x), atol=1e-12
    )


def test_widened_weights_take_residuals_and_gait_as_the_planar_ones_do_at_half_speed() -> None:
    rng = np.random.default_rng(0)
    weights = 0.05 * rng.normal(size=LOW_LEVEL_WEIGHTS)
    planar = LinearLowLevel.from_weights(A1, weights)
    omni = LinearLowLevel.from_weights(A1, widened(weights, Normaliser.empty(), A1)[0])
    half, felt = latent_for(0.3, 0.0), (rng.normal(size=4), rng.normal(size=12), np.ones(1))
    command = np.array((0.3, 0.1, -0.5, 0.0))
    old, new = planar.action(features(half, *felt)), omni.action(features(command, *felt))
    same = np.arange(19) != 12 + gait.STRIDE  # which the generator takes from the command
    np.testing.assert_allclose(new[:19][same], old[same], atol=1e-12)


def test_drawn_commands_are_within_their_ranges() -> None:
    rng = np.random.default_rng(0)
    commands = np.array([velocity_command(drawn_velocity(rng)) for _ in range(300)])
    low, high = np.array([each[1:] for each in COMMAND]).T
    assert (commands > low - 1e-9).all()
    assert (commands < high + 1e-9).all()
    assert (np.abs(commands[:, 1]) > 0.1).mean() > 0.2
    assert 0.1 < (commands[:, 3] > 0.0).mean() < 0.4


def test_a_kerb_is_as_high_as_the_difficulty_says() -> None:
    scene = Kerb(0.8)
    assert [scene.ground_m(x, 0.0) for x in (0.0, 1.2, 2.5)] == pytest.approx([0.0, 0.08, 0.0])


@pytest.mark.parametrize("spec", [A1, pytest.param(GO2, marks=pytest.mark.slow)], ids=["a1", "go2"])
def test_an_episode_is_the_same_alone_and_among_others(spec: RobotSpec) -> None:
    plan = Plan(task="follow", steps=STEPS, robot=spec.name, body="mujoco", omni=True)
    worker = RolloutWorker(plan)
    rng = np.random.default_rng(0)
    jobs = [
        Job(scale * rng.normal(size=OMNI.weights), Normaliser.empty(OMNI), [FLAT, KERB], STEPS, 1.0)
        for scale in (0.02, 0.4)
    ]
    together = worker.run_all(jobs)
    for job, batched in zip(jobs, together, strict=True):
        for one, other in zip(batched, worker._run_alone(job), strict=True):
            for field in fields(Episode):
                values = getattr(one, field.name), getattr(other, field.name)
                np.testing.assert_equal(*values, err_msg=field.name)
    assert [episode.success for episode in together[0]] == [None, False]
    assert together[0][0].decisions.shape[1] == OMNI.command + 1
    worker.close()


SHIPPED = pytest.mark.parametrize("name", ["walk-omni", "walk-omni-go2"])


@SHIPPED
def test_the_shipped_graph_takes_the_command_and_climb_of_a_latent(name: str) -> None:
    bundle = load_bundle(name)
    legs = trained_low_level(bundle.folder / "low_level")
    assert bundle.legs.command == tuple((low, high) for _, low, high in COMMAND[:3])
    rng, upright = np.random.default_rng(0), np.array((0.0, 0.0, 0.0, 1.0))
    angles = bundle.spec.default_pose_rad + 0.1 * rng.normal(size=12)
    reading = Reading(0.0, angles, np.zeros(12), upright, rng.normal(size=3), no_image)
    for command in ((0.5, -0.3, 0.2, 1.0), (-0.4, 0.0, 1.3, 0.0)):  # 1.3: with a heading hold
        latent, carried = (
            latent_of(np.array(command)),
            0.5 * np.ones(carried_size(bundle.spec, OMNI)),
        )
        expected, given = (low(latent, reading, carried) for low in (legs, bundle.low_level))
        np.testing.assert_allclose(given[0], expected[0], atol=1e-5)
        np.testing.assert_allclose(given[1], expected[1], atol=1e-5)


def test_a_climb_command_is_refused_where_it_has_no_effect() -> None:
    config = EvalConfig("walk", task="climb", scene="kerb", climb=0.5)
    config.check_bundle(load_bundle("walk-omni"))
    with pytest.raises(UserError, match="--climb has no effect: this low level is 'gait', not"):
        config.check_bundle(load_bundle("walk"))


@SHIPPED
def test_shipped_ones_walk_to_the_side_and_backwards(name: str) -> None:
    bundle = load_bundle(name)
    body, controller = make_body("mujoco", bundle.spec, FlatGround()), bundle.controller()
    side = walk(controller, body, 0.0, 0.0, 1.5, left=0.3, omni=True)
    back = walk(controller, body, -0.4, 0.0, 1.5, omni=True)
    body.close()
    assert not side.fell
    assert side.left == pytest.approx(0.3, abs=0.08)
    assert back.speed == pytest.approx(-0.4, abs=0.1)
