"""Gait generator: against its equations, against torch, and on a simulated robot."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pixelgait.policies.low_level import LinearGraph
from pixelgait.policies.normaliser import Normaliser
from pixelgait.robot.control import gait
from pixelgait.robot.control.controller import STAND, Controller, Decision, latent_for
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.control.low_level import (
    INPUT_SIZE,
    LOW_LEVEL_WEIGHTS,
    OUTPUT_SIZE,
    LinearLowLevel,
    features,
    step_scale,
)
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, GO2, LEGS, RobotSpec
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.task import planar_pose
from tests.helpers import felt_by

PARAMETERS = dict(
    frequency_hz=2.0,
    stride_m=0.0,
    turn_rad=0.0,
    lift_rad=0.5,
    height_rad=0.0,
    bank_rad=0.0,
    duty=0.5,
)


def parameters(**changes: float) -> np.ndarray:
    return np.array(list((PARAMETERS | changes).values()))


def test_legs_spend_the_duty_factor_in_stance_and_diagonal_legs_move_together() -> None:
    phases = np.linspace(0.0, 2 * np.pi, 1000, endpoint=False)
    legs = np.array([gait.leg_phases(np.array([p]), 0.6) for p in phases])
    assert (legs < np.pi).mean(0) == pytest.approx(0.6, abs=0.002)
    front_right, front_left, rear_right, rear_left = legs.T
    np.testing.assert_array_equal(front_right, rear_left)
    np.testing.assert_array_equal(front_left, rear_right)
    at_start = gait.leg_phases(np.zeros(1), 0.5)
    np.testing.assert_allclose(at_start, [0.0, np.pi, np.pi, 0.0])


def leg_poses(phase: float, **changes: float) -> np.ndarray:
    """Leg poses (4, 3) at step scale 1."""
    return np.asarray(gait.leg_poses(A1, np.array([phase]), parameters(**changes))).reshape(4, 3)


def test_poses_follow_the_published_equations() -> None:
    # Leg FR at a quarter of the stance: phi = pi/2, so swing is 0 and extension h + A_stance.
    poses = leg_poses(np.pi / 2, height_rad=0.1)
    np.testing.assert_allclose(poses[0], [0.0, 0.0, 0.1 + gait.A_STANCE_RAD], atol=1e-12)
    # Its diagonal opposite FL is in mid-swing: extension h - A_lift.
    np.testing.assert_allclose(poses[1], [0.0, 0.0, 0.1 - 0.5], atol=1e-12)
    # At the start of its stance FR stands half a stride ahead: A_s cos(0) = stride / leg length.
    poses = leg_poses(0.0, stride_m=0.05)
    assert poses[0, 1] == pytest.approx(0.05 / (0.4 * np.cos(0.9)))


def test_feet_leave_and_meet_the_ground_at_rest() -> None:
    """With the paper's sine the extension would change by 0.5 rad per rad of phase there."""
    step = 1e-3
    for end in (np.pi, 2 * np.pi):  # of FR's swing
        inside = end + step if end == np.pi else end - step
        moved = leg_poses(inside)[0, 2] - leg_poses(end)[0, 2]
        assert abs(moved) < 1e-3 * step


def test_a_stand_command_keeps_the_default_pose() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        low_level = LinearLowLevel.from_weights(A1, rng.standard_normal(LOW_LEVEL_WEIGHTS))
        phase = rng.uniform(0.0, 6.28, 1)
        targets, following = low_level(STAND, felt_by(rng), phase)
        np.testing.assert_array_equal(targets, A1.default_pose_rad)
        assert following != phase


def test_the_step_scale_grows_with_the_command() -> None:
    assert step_scale(STAND) == 0.0
    assert step_scale(latent_for(speed=0.06, yaw_rate=0.0)) == pytest.approx(1.0)
    assert step_scale(latent_for(speed=0.0, yaw_rate=-0.1)) == pytest.approx(1.0)
    assert step_scale(latent_for(speed=0.6, yaw_rate=1.0)) == 1.0
    half = step_scale(latent_for(speed=0.03, yaw_rate=0.05))
    assert half == pytest.approx(0.5)
    mirrored = step_scale(latent_for(speed=0.03, yaw_rate=-0.05))
    assert mirrored == half


def test_legs_in_stance_bear_the_weight() -> None:
    def shares(phase: float, duty: float, step: float = 1.0) -> list[float]:
        return gait.loads(np.array([phase]), duty, step).tolist()

    assert shares(np.pi / 2, 0.5) == pytest.approx([0.5, 0.0, 0.0, 0.5])  # FR and RL stand
    assert shares(3 * np.pi / 2, 0.5) == pytest.approx([0.0, 0.5, 0.5, 0.0])
    assert shares(np.pi / 2, 0.5, step=0.0) == [0.25] * 4  # all legs
    for phase in np.linspace(0.0, 2 * np.pi, 100):
        assert sum(shares(phase, 0.6)) == pytest.approx(1.0)  # some leg always does
        assert sum(shares(phase, 0.4)) <= 1.0  # none in between
    ends = [shares(phase, 0.5)[0] for phase in (1e-6, np.pi - 1e-6)]
    assert ends == pytest.approx([0.0, 0.0], abs=1e-5)  # gradually


def test_the_surplus_is_the_knees_error_beyond_the_weight() -> None:
    """A Go2's knee under all of 15.2 kg: 149 N at 0.167 m over 40 Nm/rad, 0.62 rad."""
    knees = np.arange(2, 12, 3)
    surplus, behind = np.zeros(1), np.zeros(12)
    behind[knees] = 1.2 * 15.2 * 9.81 * 0.213 * np.sin(0.9) / 40.0 * np.array([0.1, 0.4, 0.3, 0.2])
    for _ in range(300):
        surplus = gait.surplus(GO2, surplus, behind, 0.01)
    assert surplus == pytest.approx(0.2 * (1.0 - np.exp(-3.0)), abs=2e-3)  # after 3 time constants
    for lifted, bound in ((0.0, -0.5), (5.0, 1.0)):  # no weight, and far too much
        for _ in range(2000):
            surplus = gait.surplus(GO2, surplus, lifted * behind, 0.01)
        assert surplus == bound


def test_a_period_lasts_one_over_the_frequency() -> None:
    phase, seen = np.zeros(1), 0
    for _ in range(1000):  # 10 s at 1.7 Hz
        following = gait.next_phase(phase, 1.7, 0.01)
        assert 0.0 <= following[0] < 2 * np.pi
        seen += following[0] < phase[0]
        phase = following
    assert seen == 17


def test_swing_turns_the_leg_and_extension_changes_only_its_length() -> None:
    def foot(pose: tuple[float, float, float]) -> np.ndarray:
        """Foot from the hip, x forward and z up, by the A1's chain of two 0.2 m links."""
        _, hip, knee = A1.default_pose_rad[:3] + joint_map(A1)[:3, :3] @ pose
        angles = np.array((hip, hip + knee))
        return np.array((-0.2 * np.sin(angles).sum(), -0.2 * np.cos(angles).sum()))

    swung, extended, neutral = foot((0, 0.2, 0)), foot((0, 0, 0.2)), foot((0, 0, 0))
    assert np.linalg.norm(swung) == pytest.approx(np.linalg.norm(neutral))
    assert np.arctan2(swung[0], -swung[1]) == pytest.approx(0.2)
    assert extended[0] == pytest.approx(0.0, abs=1e-12)
    assert -extended[1] > -neutral[1]


@pytest.mark.parametrize("spec", [A1, GO2], ids=lambda spec: spec.name)
def test_torch_graph_equals_numpy_for_random_weights_and_inputs(spec: RobotSpec) -> None:
    rng = np.random.default_rng(0)
    low_level = LinearLowLevel.from_weights(spec, 0.3 * rng.standard_normal(LOW_LEVEL_WEIGHTS))
    graph = LinearGraph(low_level)
    for _ in range(100):
        latent, reading = rng.standard_normal(2), felt_by(rng)
        carried = [rng.uniform(0, 6.28, 1), rng.uniform(-0.5, 1.0, graph.state_size)]
        targets, after = low_level(latent, reading, np.concatenate(carried))
        given = graph.inputs(latent, reading, np.concatenate(carried)).values()
        torch_targets, *torch_after = graph(*(torch.tensor(x).float() for x in given))
        np.testing.assert_allclose(torch_targets.numpy(), targets, atol=2e-6)
        np.testing.assert_allclose(torch.cat(torch_after).numpy(), after, atol=2e-6)


def test_folded_normalisation_equals_normalising_first() -> None:
    rng = np.random.default_rng(1)
    samples = rng.normal(3.0, 2.0, (500, INPUT_SIZE))
    normaliser = Normaliser.empty().including(samples[:200]).including(samples[200:])
    low_level = LinearLowLevel.from_weights(A1, rng.standard_normal(LOW_LEVEL_WEIGHTS))
    folded = normaliser.fold_into(low_level)
    x = features(samples[0, :2], samples[0, 2:6], samples[0, 6:18], np.array([0.3]))
    mean, deviation = samples.mean(0), samples.std(0)
    mean[:2], deviation[:2] = 0.0, 1.0
    expected = low_level.matrix @ ((x - mean) / deviation) + low_level.bias
    np.testing.assert_allclose(folded.matrix @ x + folded.bias, expected)


@pytest.fixture(scope="module")
def body() -> PyBulletBody:
    return PyBulletBody(A1, FlatGround())


def walk(body: PyBulletBody, **changes: float) -> np.ndarray:
    """Open loop for 3 s with constant gait parameters; final x, y, yaw."""
    low, high = gait.PARAMETER_LOW, gait.PARAMETER_HIGH
    bias = np.zeros(OUTPUT_SIZE)
    bias[12:] = 2 * (parameters(**changes) - low) / (high - low) - 1
    low_level = LinearLowLevel(A1, np.zeros((OUTPUT_SIZE, INPUT_SIZE)), bias)
    controller = Controller(lambda *_: Decision(np.zeros(2), 800), low_level, Supervisor(A1))
    reading = body.reset(0)
    for _ in range(300):
        body.apply(controller.step(reading).command)
        reading = body.read()
    assert controller.supervisor.fault is None
    return planar_pose(body)


def test_the_a1_walks_and_turns_open_loop(body: PyBulletBody) -> None:
    assert walk(body, stride_m=0.07)[0] > 1.0  # 0.5 m/s was measured
    assert walk(body, stride_m=-0.05)[0] < -0.5
    left = walk(body, turn_rad=0.15)
    assert np.hypot(*left[:2]) < 0.3  # on the spot
    first = walk(body, turn_rad=0.05)[2]
    assert 0.6 < first < np.pi  # to the left, 0.45 rad/s measured
    assert -np.pi < walk(body, turn_rad=-0.05)[2] < -0.6


def test_the_a1_stands_still_on_its_default_pose(body: PyBulletBody) -> None:
    body.reset(0)
    zeros = np.zeros(12)
    command = JointCommand(0.0, A1.default_pose_rad, A1.kp_nm_per_rad, A1.kd_nms_per_rad, zeros)
    for _ in range(200):
        body.apply(command)
    (x, y, z), _ = body.pose()
    assert np.hypot(x, y) < 0.02
    assert z == pytest.approx(0.262, abs=0.01)


def test_legs_are_in_the_order_of_the_trot() -> None:
    assert LEGS == ("FR", "FL", "RR", "RL")
    assert [name[:2] for name in A1.joint_names[::3]] == list(LEGS)
