"""Contradictions between joints and IMU: by equation, and on a simulated robot that walks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import latent_for
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, product, to_base_frame
from pixelgait.robot.runtime.state_machine import Inputs, Operation, OperatorCommands, RobotState
from pixelgait.robot.safety.consistency import (
    CONTRADICTION,
    ImuAxes,
    JointConsistency,
    Motion,
    OrientationConsistency,
    RateConsistency,
    StandingTilt,
)
from pixelgait.robot.spec import A1, ROBOTS, Array, RobotSpec
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from tests.robot.test_supervisor import no_image

LEVEL = np.array((0.0, 0.0, 0.0, 1.0))
WALK = OperatorCommands(True, RobotState.WALKING)
LATENT = latent_for(speed=0.4, yaw_rate=0.2)
LIES_STEPS, WALKS_STEPS, SEED = 80, 400, 90_000
ReadingFault = Callable[[Reading], Reading]
CommandFault = Callable[[JointCommand], JointCommand]


def stance(spec: RobotSpec, rate: Array) -> tuple[Reading, Array]:
    """A robot on its first pair of legs, turning at a rate (3,) [rad/s], and targets that push."""
    angles = spec.default_pose_rad.copy()
    angles[[5, 8]] -= 0.4 * spec.extension_signs[0]  # FL and RR are lifted
    velocities = np.zeros(12)
    kinematics = LegKinematics(spec)
    for leg, foot in enumerate(kinematics.feet(angles.tolist())):
        stays = -np.cross(rate, foot.position)  # relative to the base
        velocities[3 * leg : 3 * leg + 3] = np.linalg.solve(
            kinematics.jacobians(angles)[leg], stays
        )
    reading = Reading(0.0, angles, velocities, LEVEL, rate, no_image)
    return reading, angles + 0.05 * spec.extension_signs[0]


@pytest.mark.parametrize("spec", ROBOTS.values(), ids=ROBOTS)
@pytest.mark.parametrize(
    ("mount", "says"),
    [
        ((1.0, 0.0, 0.0, 1.0), None),
        ((-1.0, 0.0, 0.0, -1.0), "turned by 180 deg"),
        ((0.0, 1.0, -1.0, 0.0), "turned by 90 deg"),
        ((0.0, -1.0, 1.0, 0.0), "turned by 270 deg"),
        ((1.0, 0.0, 0.0, -1.0), "its pitch has the other sign"),
        ((-1.0, 0.0, 0.0, 1.0), "its roll has the other sign"),
        ((0.0, 0.0, 0.0, 0.0), "the name or sign of another"),
    ],
)
def test_the_imus_axes_are_compared_with_legs_that_stand(
    spec: RobotSpec, mount: tuple[float, float, float, float], says: str | None
) -> None:
    """`mount` (4,) gives the measured rates x, y from the true ones; all 0: they are unrelated."""
    axes, found = ImuAxes(spec), None
    rng = np.random.default_rng(0)
    for _ in range(400):
        rate = rng.normal(0.0, 0.3 if any(mount) else 0.1, 3)
        reading, sent = stance(spec, rate)
        measured = np.array(mount).reshape(2, 2) @ rate[:2]
        if not any(mount):
            measured = rng.normal(0.0, 0.5, 2)
        turned = replace(reading, angular_velocity=np.array((*measured, rate[2])))
        joints = Motion(0.0, reading.joint_angles, reading.joint_velocities)
        found = found or axes.judge(turned, joints, sent)
    if says is None:
        assert found is None
        assert axes.sums.max() == 0.0
    else:
        assert found is not None
        assert found.startswith("the IMU contradicts the legs that stand: ")
        assert says in found


def test_legs_that_do_not_push_say_nothing_about_the_imu() -> None:
    axes = ImuAxes(A1)
    for _ in range(300):
        reading, sent = stance(A1, np.array((0.5, 0.5, 0.0)))
        joints = Motion(0.0, reading.joint_angles, reading.joint_velocities)
        wrong = replace(reading, angular_velocity=-reading.angular_velocity)
        assert axes.judge(wrong, joints, 2.0 * reading.joint_angles - sent) is None
    assert axes.sums.max() == 0.0


def test_a_rate_may_stay_the_same_if_it_is_true() -> None:
    """A slow turn, quantised; then the same rate without the turn's end."""
    check, rate = RateConsistency(), 0.3

    def read(yaw_rad: float, time_s: float) -> str | None:
        orientation = np.array((0.0, 0.0, math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0)))
        reading = Reading(time_s, np.zeros(12), np.zeros(12), orientation, np.zeros(3), no_image)
        return check.judge(replace(reading, angular_velocity=np.array((0.0, 0.0, rate))))

    times = CONTROL_DT_S * np.arange(200)
    assert not any(read(rate * time_s, time_s) for time_s in times)
    said = [read(rate * times[-1], times[-1] + time_s) for time_s in times]
    assert "the IMU's rate is the same for " in str(next(each for each in said if each))


def test_a_heading_may_drift_by_less_than_a_gyroscope_shows() -> None:
    """A robot stands for two minutes; its IMU gives 0 for slow turns."""
    check = RateConsistency()
    for time_s in np.arange(0.0, 120.0, 0.05):
        half_rad = math.radians(0.1) * time_s / 2.0
        orientation = np.array((0.0, 0.0, math.sin(half_rad), math.cos(half_rad)))
        reading = Reading(time_s, np.zeros(12), np.zeros(12), orientation, np.zeros(3), no_image)
        assert check.judge(reading) is None


def test_an_orientation_may_stay_the_same_while_nothing_turns() -> None:
    """A robot stands for two minutes, with a gyroscope that is off; then it tips over."""
    check, rng = OrientationConsistency(), np.random.default_rng(0)

    def read(time_s: float, roll_rad_per_s: float) -> str | None:
        rate = np.array((roll_rad_per_s, 0.0, 0.0)) + rng.normal(0.01, 0.02, 3)
        return check.judge(Reading(time_s, np.zeros(12), np.zeros(12), LEVEL, rate, no_image))

    times = CONTROL_DT_S * np.arange(12_000)
    assert not any(read(time_s, 0.0) for time_s in times)
    said = [read(times[-1] + CONTROL_DT_S * (1 + step), 0.5) for step in range(20)]
    assert "the IMU's orientation is the same for " in str(next(each for each in said if each))


def test_an_imu_that_says_the_same_of_everything_is_left_to_the_check_of_frozen_ones() -> None:
    check = OrientationConsistency()
    rate = np.array((0.5, 0.0, 0.0))
    for step in range(200):
        reading = Reading(CONTROL_DT_S * step, np.zeros(12), np.zeros(12), LEVEL, rate, no_image)
        assert check.judge(reading) is None


def test_joints_are_compared_with_their_targets() -> None:
    """Legs trot: a sign, names of two legs, and a lag that is none of both."""
    wrong_names, wrong_sign = np.arange(12), np.ones(12)
    wrong_names[[1, 4]], wrong_sign[7] = (4, 1), -1.0
    late = np.arange(12)
    for order, signs, says in (
        (wrong_names, 1.0, "FR_upper_joint and FL_upper_joint move as each other's target"),
        (late, wrong_sign, "RR_upper_joint moves against its target: is its sign, or its name"),
        (late, 1.0, None),
    ):
        check, found = JointConsistency(A1), None
        for step in range(200):
            angles, velocities = trot(CONTROL_DT_S * step - 0.06)
            now = Motion(CONTROL_DT_S * step, signs * angles[order], signs * velocities[order])
            found = found or check.judge(now, trot(CONTROL_DT_S * step)[0], powered=True)
        assert (found or "").startswith(says or "")
        assert (found is None) == (says is None)


def test_a_velocity_may_spike_in_one_reading() -> None:
    """A foot hits the ground: the reading catches the moment, the joint has hardly moved."""
    check = JointConsistency(A1)
    for step in range(200):
        angles, velocities = (0.4 * each for each in trot(CONTROL_DT_S * step))
        velocities[2] += 27.0 * (step == 112)
        now = Motion(CONTROL_DT_S * step, angles, velocities)
        assert check.judge(now, 0.4 * trot(CONTROL_DT_S * step)[0], powered=True) is None


@pytest.mark.parametrize("factor", [-1.0, 0.0, 3.0, 5.0])
def test_velocities_that_are_wrong_for_good_are_found(factor: float) -> None:
    """Also where legs swing so fast that each reading alone could be an impact."""
    for fast in (1.0, 2.0):
        check, found = JointConsistency(A1), None
        for step in range(200):
            angles, velocities = trot(fast * CONTROL_DT_S * step)
            now = Motion(CONTROL_DT_S * step, angles, factor * fast * velocities)
            found = found or check.judge(now, trot(fast * CONTROL_DT_S * step)[0], powered=True)
        assert "moves otherwise than its velocity says" in (found or "")


def trot(time_s: float) -> tuple[Array, Array]:
    """Joint angles and velocities (12,) of hips and knees that swing at 2 Hz."""
    phases = 4.0 * math.pi * time_s + np.repeat((0.0, math.pi, math.pi, 0.0), 3)
    swing = np.tile((0.0, 0.2, 0.3), 4)
    phases = phases + np.tile((0.0, 0.0, 1.0), 4)
    return swing * np.sin(phases), 4.0 * math.pi * swing * np.cos(phases)


def turned_imu(yaw_rad: float) -> ReadingFault:
    mount: Quaternion = (0.0, 0.0, math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0))

    def change(reading: Reading) -> Reading:
        x, y, z, w = reading.orientation.tolist()
        rate = to_base_frame(reading.angular_velocity.tolist(), mount)
        orientation = np.array(product((x, y, z, w), mount))
        return replace(reading, orientation=orientation, angular_velocity=np.array(rate))

    return change


def renamed(one: int, two: int) -> ReadingFault:
    order = np.arange(12)
    order[[one, two]] = two, one

    def change(reading: Reading) -> Reading:
        angles, velocities = reading.joint_angles[order], reading.joint_velocities[order]
        return replace(reading, joint_angles=angles, joint_velocities=velocities)

    return change


def flipped(joint: int) -> ReadingFault:
    signs = np.ones(12)
    signs[joint] = -1.0

    def change(reading: Reading) -> Reading:
        angles, velocities = signs * reading.joint_angles, signs * reading.joint_velocities
        return replace(reading, joint_angles=angles, joint_velocities=velocities)

    return change


def motor_flipped(joint: int) -> CommandFault:
    signs = np.ones(12)
    signs[joint] = -1.0
    return lambda command: replace(command, targets=signs * command.targets)


def walked(
    engine: str,
    name: str = "walk",
    fault: ReadingFault = lambda reading: reading,
    motors: CommandFault = lambda command: command,
    steps: int = WALKS_STEPS,
) -> tuple[str | None, Operation, float]:
    """The fault of a randomised robot that lies, stands up and walks; its largest tilt, as up z."""
    bundle = load_bundle(name)
    body = make_body(engine, bundle.spec, FlatGround(), randomisation=Randomisation())
    operation = Operation(bundle.controller())
    reading, up = body.reset(SEED), 1.0
    for _ in range(LIES_STEPS):
        body.apply(operation.supervisor.damp(0.0))
    for _ in range(steps):
        reading = body.read()
        inputs = Inputs(fault(reading), {}, WALK, CONTROL_DT_S, LATENT)
        command = operation.step(inputs).command
        if operation.supervisor.fault is not None:
            assert not command.kp.any()
            break
        body.apply(motors(command) if command.kp.any() else command)
        x, y, _, _ = body.pose().orientation
        up = min(up, 1.0 - 2.0 * (x * x + y * y))
    body.close()
    return operation.supervisor.fault, operation, up


@pytest.mark.parametrize(
    ("engine", "name"), [("pybullet", "walk"), ("mujoco", "walk"), ("mujoco", "walk-go2")]
)
def test_a_healthy_robot_is_far_from_every_contradiction(engine: str, name: str) -> None:
    fault, operation, _ = walked(engine, name)
    assert fault is None
    assert operation.state is RobotState.WALKING
    assert operation._consistency.axes.sums.max() < CONTRADICTION / 2.0


BEFORE, WALKING = RobotState.STANDING_UP, RobotState.WALKING


@pytest.mark.parametrize(
    ("fault", "state", "says"),
    [
        (turned_imu(math.pi), WALKING, "they agree if it is turned by 180 deg"),
        (turned_imu(math.pi / 2.0), WALKING, "they agree if it is turned by 90 deg"),
        (renamed(1, 4), WALKING, "FR_upper_joint "),
        (flipped(7), BEFORE, "RR_upper_joint "),
        (
            lambda reading: replace(reading, joint_velocities=np.zeros(12)),
            BEFORE,
            "_joint moves otherwise than its velocity says",
        ),
        (
            lambda reading: replace(reading, angular_velocity=np.zeros(3)),
            BEFORE,
            "the IMU's rate is the same for ",
        ),
        (
            lambda reading: replace(reading, orientation=LEVEL),
            BEFORE,
            "the IMU's orientation is the same for ",
        ),
    ],
    ids=["imu-180", "imu-90", "names", "sign", "velocities", "rates", "orientation"],
)
def test_a_contradiction_damps_by_name_before_the_robot_falls(
    fault: ReadingFault, state: RobotState, says: str
) -> None:
    found, operation, up = walked("pybullet", fault=fault)
    assert found is not None
    assert says in found
    assert operation.state is state
    assert up > math.cos(0.6)


def test_a_joint_whose_motor_and_encoder_have_another_sign_is_refused() -> None:
    """The leg follows its targets, but folds: the robot stands askew."""
    found, operation, _ = walked("pybullet", fault=flipped(1), motors=motor_flipped(1))
    assert found is not None
    assert "which its legs do not explain: has a joint the name or sign of another?" in found
    assert operation.state is RobotState.STANDING_UP


@pytest.mark.parametrize(
    ("tilt_rad", "loads_rad", "lay", "fault"),
    [
        (0.30, (0.07, 0.07, 0.08, 0.06), False, False),  # two feet on a kerb
        (0.30, (0.05, 0.05, 0.06, 0.01), False, False),  # one foot, across
        (0.30, (0.03, 0.12, 0.18, 0.03), False, True),  # the thigh of the lower leg turns otherwise
        (0.30, (0.03, 0.12, 0.18, 0.03), True, False),  # the ground was as tilted before
        (0.60, (0.07, 0.07, 0.08, 0.06), False, True),
    ],
)
def test_a_robot_that_stands_on_a_kerb_has_no_joint_of_another_sign(
    tilt_rad: float, loads_rad: tuple[float, ...], lay: bool, fault: bool
) -> None:
    """Its nose and its right side are down, so FR is lowest; loads of FR, FL, RR, RL."""
    half, standing = tilt_rad / 2.0, StandingTilt(A1)
    axis = np.array((0.3, 1.0, 0.0)) / np.hypot(0.3, 1.0)
    reading = stance(A1, np.zeros(3))[0]
    tilted = np.array((*(math.sin(half) * axis), math.cos(half)))
    standing.begin(replace(reading, orientation=tilted if lay else LEVEL))
    targets = A1.default_pose_rad.copy()
    targets[2::3] += np.array(A1.extension_signs) * loads_rad
    reading = replace(reading, joint_angles=A1.default_pose_rad, orientation=tilted)
    assert (standing.judge(reading, targets) is not None) is fault


def test_a_dry_run_is_not_compared_with_its_targets() -> None:
    """The robot is somebody else's; its velocities still have to fit its angles."""
    bundle = load_bundle("walk")
    for velocities, says in ((True, None), (False, "moves otherwise than its velocity says")):
        operation, found = Operation(bundle.controller()), None
        operation.supervisor.motors_enabled = False
        pose = standing_targets(A1)
        for step in range(300):
            phase = 2.0 * math.pi * 2.0 * CONTROL_DT_S * step
            angles = pose - 0.2 * math.sin(phase)
            turns = -0.2 * 4.0 * math.pi * math.cos(phase) * np.ones(12) * velocities
            rate = np.array((1e-3 * math.sin(phase), 0.0, 0.0))
            reading = Reading(CONTROL_DT_S * step, angles, turns, LEVEL, rate, no_image)
            operation.step(Inputs(reading, {}, WALK, CONTROL_DT_S, LATENT))
            found = found or operation.supervisor.fault
        assert (says is None) == (found is None), found
        assert says is None or says in str(found)
