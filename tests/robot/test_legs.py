"""Legs of a bundle: a walker's gains, pose and commands, beside the robot's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.bundle.low_level_graph import fed, walker_velocity
from pixelgait.robot.control.controller import (
    STAND,
    Controller,
    Decision,
    HeadingHold,
    latent_for,
    latent_of,
    slower,
    velocity,
)
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.control.observation import base_velocity
from pixelgait.robot.estimation.kinematics import posed
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import gravity, product, to_base_frame
from pixelgait.robot.runtime.state_machine import (
    HALT_S,
    Inputs,
    Operation,
    OperatorCommands,
    RobotState,
)
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import GO2, Array, Legs, per_leg
from tests.helpers import felt_by, no_image

POSE = per_leg(0.0, 0.8, -1.5)
LEGS = Legs(
    per_leg(20.0, 20.0, 20.0),
    per_leg(0.5, 0.5, 0.5),
    POSE,
    ((-1.0, 1.5), (-0.4, 0.4), (-1.0, 1.0)),
    gait=False,
)
SPEC = posed(GO2, POSE)
# As stiff as those of a robot that stands, and fast: `walk-omni-go2`.
EVERY_WAY = replace(
    LEGS, kp_nm_per_rad=SPEC.kp_nm_per_rad, kd_nms_per_rad=SPEC.kd_nms_per_rad, gait=True
)


def reading(step: int, angles: Array, velocities: Array | None = None) -> Reading:
    speeds = np.zeros(12) if velocities is None else velocities
    level = np.array((0.0, 0.0, 0.0, 1.0))
    return Reading(step * CONTROL_DT_S, angles, speeds, level, np.zeros(3), no_image)


def torque(command: JointCommand, now: Reading) -> Array:
    return command.kp * (command.targets - now.joint_angles) - command.kd * now.joint_velocities


def test_a_robot_stands_by_its_own_gains_and_walks_by_its_legs_without_a_jump_of_torque() -> None:
    """Knees of a soft walker are told far beyond where they are: under stiffer gains the same
    targets would double the torque."""
    wanted = POSE + per_leg(0.0, 0.1, 0.6)
    supervisor = Supervisor(SPEC, legs=LEGS)
    controller = Controller(
        lambda *_: Decision(STAND, 10), lambda _, __, carried: (wanted, carried), supervisor
    )
    operation, own = Operation(controller), (SPEC.kp_nm_per_rad, SPEC.kd_nms_per_rad)
    angles, commands, torques = standing_targets(SPEC), {}, []
    speeds, rest = np.zeros(12), angles
    halts = round(HALT_S / CONTROL_DT_S)
    orders = [RobotState.READY] * 110 + [RobotState.WALKING] * 30 + [RobotState.LIMP] * (halts + 30)
    for step, order in enumerate(orders):
        now = reading(step, angles + 1e-5 * (step % 2), speeds)  # encoders never stand quite still
        given = Inputs(now, {}, OperatorCommands(True, order), latent=STAND)
        command = operation.step(given).command
        assert supervisor.fault is None
        commands.setdefault(operation.state, []).append(command)
        torques.append(torque(command, now))
        speeds = 0.1 * (rest + 0.3 * (command.targets - rest) - angles) / CONTROL_DT_S  # it yields
        angles = angles + speeds * CONTROL_DT_S
    for state, gains in (
        (RobotState.READY, own),
        (RobotState.WALKING, (LEGS.kp_nm_per_rad, LEGS.kd_nms_per_rad)),
        (RobotState.LYING_DOWN, own),
    ):
        for command in commands[state]:
            assert (command.kp == gains[0]).all()
            assert (command.kd == gains[1]).all()
    # A target moves by 0.157 rad a step at most, which is 6.3 Nm under the knees' own gains.
    lying = 110 + 30 + halts
    np.testing.assert_allclose(torques[lying], torques[lying - 1], atol=1.0)
    assert np.abs(torques[lying - 1]).max() > 5.0
    assert controller.limited_share > 0.0
    assert commands[RobotState.WALKING][-1].targets == pytest.approx(wanted)


@pytest.mark.parametrize("legs", [LEGS, EVERY_WAY], ids=["soft", "every way"])
@pytest.mark.parametrize("order", [RobotState.LIMP, RobotState.READY])
def test_a_walker_slows_to_a_stand_before_it_stands_or_lies_down_by_other_gains(
    order: RobotState,
    legs: Legs,
) -> None:
    """Stiffer gains in mid-stride tip it over, and so does a stop at 1.0 m/s. An order to walk on
    ends that.
    """
    asked: list[Array] = []

    def walk(latent: Array, _: Reading, carried: Array) -> tuple[Array, Array]:
        asked.append(velocity(latent))
        return POSE, carried

    controller = Controller(lambda *_: Decision(STAND, 10), walk, Supervisor(SPEC, legs=legs))
    operation, pose = Operation(controller), standing_targets(SPEC)
    halts, fast = round(HALT_S / CONTROL_DT_S), latent_of(np.array((0.6, 0.2, 0.5)))

    def step(wanted: RobotState) -> RobotState:
        now = reading(len(asked), pose + 1e-5 * (len(asked) % 2))
        operation.step(Inputs(now, {}, OperatorCommands(True, wanted), latent=fast))
        return operation.state

    while not asked or asked[-1][0] < 0.5:
        step(RobotState.WALKING)
    for _ in range(halts // 2):
        assert step(order) is RobotState.WALKING
    assert 0.0 <= asked[-1][0] < 0.1
    step(RobotState.WALKING)
    assert asked[-1][0] > 0.5
    states = [step(order) for _ in range(halts + 1)]
    assert states[:-1] == [RobotState.WALKING] * halts
    assert states[-1] in (RobotState.LYING_DOWN, RobotState.READY)
    np.testing.assert_allclose(asked[-1], 0.0, atol=1e-9)


def test_targets_of_a_soft_walker_reach_as_far_as_its_gains_need() -> None:
    supervisor = Supervisor(GO2, legs=LEGS)
    at = GO2.default_pose_rad
    targets = at + per_leg(0.0, 0.9, 0.0)  # 18 Nm by 20 Nm/rad, 36 by 40: the limit is 23.7
    for step in range(20):
        soft = supervisor.review(reading(step, at + 1e-5 * step), targets, gains=supervisor.walking)
    np.testing.assert_allclose(soft.targets, targets, atol=1e-9)
    for step in range(20, 40):
        stiff = supervisor.review(reading(step, at + 1e-5 * step), targets)
    assert (torque(stiff, reading(40, at + 1e-5 * 39)) <= GO2.torque_limit_nm + 1e-9).all()
    assert stiff.targets[1] < targets[1]


@pytest.mark.parametrize(("moved", "fault"), [(0.3, False), (0.6, True)])
def test_a_soft_joint_may_rest_while_its_target_moves_further(moved: float, fault: bool) -> None:
    """By half the stiffness a target moves twice as far before a joint must answer."""
    supervisor, at = Supervisor(GO2, legs=LEGS), GO2.default_pose_rad
    for step in range(80):
        targets = at + per_leg(0.0, moved * min(1.0, step / 20), 0.0)
        now = reading(step, at + 1e-5 * (step % 2))
        supervisor.review(now, targets, gains=supervisor.walking)
    assert (supervisor.fault is not None) == fault


def test_a_speed_that_no_joint_can_have_is_not_fed_to_a_walker() -> None:
    """It would stay in the walker's history."""
    supervisor, at = Supervisor(GO2, legs=LEGS), GO2.default_pose_rad
    supervisor.review(reading(0, at), at)
    wrong = np.zeros(12)
    wrong[3], wrong[7] = 500.0, 5.0
    felt = supervisor.filtered(reading(1, at, wrong))
    assert felt.joint_velocities[3] == 0.0
    assert felt.joint_velocities[7] == 5.0


def test_a_graph_is_fed_what_it_names_and_what_it_carries() -> None:
    given, carried = felt_by(np.random.default_rng(0)), np.arange(5.0)
    names = ("command", "angular_velocity", "gravity", "joint_angles", "joint_velocities")
    inputs = {name: {"shape": [3]} for name in names} | {"state": {"shape": [5]}}
    found = fed(inputs, LEGS, latent_of(np.array((0.5, -0.2, 0.3))), given, carried)
    assert set(found) == {*names, "state"}
    np.testing.assert_allclose(found["command"], (0.5, -0.2, 0.3), atol=1e-6)
    np.testing.assert_allclose(found["angular_velocity"], given.angular_velocity, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found["gravity"]), 1.0, rtol=1e-6)
    assert found["state"].tolist() == carried.tolist()
    first = fed(inputs, LEGS, STAND, given, np.zeros(1))
    assert first["state"].tolist() == [0.0] * 5


def test_gravity_points_down_in_the_base() -> None:
    assert gravity((0.0, 0.0, 0.3, 0.9)) == pytest.approx((0.0, 0.0, -1.0))  # turned, level
    half = np.sqrt(0.5)
    assert gravity((half, 0.0, 0.0, half)) == pytest.approx((0.0, -1.0, 0.0))  # on its left side
    assert gravity((0.0, half, 0.0, half)) == pytest.approx((1.0, 0.0, 0.0))  # nose down
    assert gravity((0.0, 0.0, 0.0, 0.0)) == (0.0, 0.0, -1.0)


def test_commands_stay_within_a_walkers_ranges_and_it_creeps_to_turn() -> None:
    assert walker_velocity(LEGS, latent_of(np.array((3.0, -2.0, 5.0)))).tolist() == [1.5, -0.4, 1.0]
    creeps = replace(LEGS, least_turning_speed_m_per_s=0.2)
    assert walker_velocity(creeps, latent_for(0.0, 0.5)) == pytest.approx((0.2, 0.0, 0.5))
    assert walker_velocity(creeps, latent_for(0.0, 0.05)) == pytest.approx((0.0, 0.0, 0.05))
    assert walker_velocity(creeps, latent_of(np.array((-0.5, 0.0, 0.5))))[0] == pytest.approx(-0.5)


def test_a_command_to_the_side_survives_heading_hold_and_fades_when_sensors_are_stale() -> None:
    latent, hold = latent_of(np.array((0.0, 0.3, 0.0))), HeadingHold()
    hold.corrected(latent, np.array((0.0, 0.0, 0.0, 1.0)))
    turned = hold.corrected(latent, np.array((0.0, 0.0, 0.01, 1.0)))
    assert velocity(turned)[1] == pytest.approx(0.3)
    assert velocity(turned)[2] < 0.0  # it is held although no speed ahead is commanded
    for _ in range(31):
        latent = slower(latent)
    assert velocity(latent).tolist() == [0.0, 0.0, 0.0]


def test_the_pose_of_a_walker_changes_height_and_load() -> None:
    assert posed(GO2, GO2.default_pose_rad) is GO2
    assert SPEC.stand_height_m == pytest.approx(0.3333, abs=1e-3)  # 2 x 0.213 m, less bent
    assert SPEC.load_levers_m[1] == pytest.approx(0.213 * np.sin(0.7), abs=1e-6)
    same = posed(replace(GO2, default_pose_rad=np.zeros(12)), GO2.default_pose_rad)
    assert same.stand_height_m == pytest.approx(GO2.stand_height_m, abs=1e-3)
    np.testing.assert_allclose(same.feet_m, GO2.feet_m, atol=1e-3)


def moving(**changes: Any) -> Motion:
    """A motion with 0.5 m/s ahead, 0.2 m/s to the right."""
    return Motion(0, 0, 0.4, 0.3, 0.5, -0.2, 0, (0, 0, 0), 0, 0, None, (0.0, 0.0, 1.0))._replace(
        **changes
    )


def test_a_velocity_ahead_and_to_the_left_is_turned_into_a_tilted_base() -> None:
    np.testing.assert_allclose(base_velocity(moving()), (0.5, -0.2, 0.0))
    half = 0.5 * np.array((0.2, -0.3))
    roll, pitch = (np.sin(half[0]), 0, 0, np.cos(half[0])), (0, np.sin(half[1]), 0, np.cos(half[1]))
    up = to_base_frame((0.0, 0.0, 1.0), product(pitch, roll))
    level = to_base_frame((0.5, -0.2, 0.0), product(pitch, roll))
    np.testing.assert_allclose(base_velocity(moving(up=up)), level, atol=1e-12)
