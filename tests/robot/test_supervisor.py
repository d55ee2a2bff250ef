"""Supervisor and sensor checks under wrong readings: bridged, or a fault that names the sensor."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import Controller, Decision, latent_for
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.interface import CONTROL_DT_S, Image, JointCommand, Reading
from pixelgait.robot.rotation import turned
from pixelgait.robot.runtime.state_machine import Inputs, Operation, OperatorCommands, RobotState
from pixelgait.robot.safety.sensor_checks import ImuMonitor
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, ROBOTS, RobotSpec
from pixelgait.sim.body.faults import parse_faults
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from tests.conftest import trotting_weights

LEVEL = np.array((0.0, 0.0, 0.0, 1.0))
JOINT = A1.joint_names.index("FR_upper_joint")
OTHERS = ("laikago", "mini_cheetah")
PER_KIND = 25_000  # random steps of each robot


def no_image() -> Image:
    raise AssertionError("no image is needed")


def walking(step: float, spec: RobotSpec = A1) -> Reading:
    """Reading of a walking robot: joints swing at 2 Hz by 0.3 rad, the base rolls by 0.02 rad."""
    phase = 2.0 * np.pi * 2.0 * CONTROL_DT_S * step + np.arange(12)
    half = 0.01 * np.sin(phase[0])
    return Reading(
        time_s=CONTROL_DT_S * step,
        joint_angles=spec.default_pose_rad + 0.3 * np.sin(phase),
        joint_velocities=0.3 * 2.0 * np.pi * 2.0 * np.cos(phase),
        orientation=np.array((np.sin(half), 0.0, 0.0, np.cos(half))),
        angular_velocity=np.array((0.02 * 2.0 * np.pi * 2.0 * np.cos(phase[0]), 0.0, 0.0)),
        image=no_image,
    )


def is_damping(command: JointCommand, spec: RobotSpec = A1) -> bool:
    """Whether a command is without stiffness; otherwise it must have the full gains."""
    if command.kp.any():
        assert np.all(command.kp == spec.kp_nm_per_rad)
        return False
    assert np.all(command.kd == spec.damping_nms_per_rad)
    assert not command.feed_forward.any()
    return True


Wrong = Callable[
    [Reading, int], Reading
]  # a reading becomes another, that many steps after the start


def with_joint(reading: Reading, name: str, value: float) -> Reading:
    values = getattr(reading, name).copy()
    values[JOINT] = value
    return replace(reading, **{name: values})


def degrees(reading: Reading, _: int) -> Reading:
    angles, velocities = reading.joint_angles, reading.joint_velocities
    return replace(
        reading, joint_angles=np.degrees(angles), joint_velocities=np.degrees(velocities)
    )


def offset(reading: Reading, _: int) -> Reading:
    return with_joint(reading, "joint_angles", reading.joint_angles[JOINT] + 2.0)


def stuck(reading: Reading, _: int) -> Reading:
    return with_joint(with_joint(reading, "joint_angles", 0.9), "joint_velocities", 0.0)


def fast(reading: Reading, _: int) -> Reading:
    return replace(reading, joint_velocities=1000.0 * reading.joint_velocities)


def one_fast(reading: Reading, _: int) -> Reading:
    return with_joint(reading, "joint_velocities", 100.0)


def drifting(reading: Reading, _: int) -> Reading:
    return with_joint(reading, "joint_velocities", 15.0)


ALL = [
    (degrees, 0.06, r"_joint reads -?\d+\.\d\d rad, limits are .* to .*: degrees instead of rad"),
    (offset, 0.06, r"^FR_upper_joint jumps by [12]\.\d\d rad in 50 ms$"),
    (stuck, 0.3, r"^FR_upper_joint stuck at 0.90 rad while its target moves$"),
    (fast, 0.06, r"_joint turns at \d+\.\d rad/s, at most (28.6|52.4) is possible$"),
    (one_fast, 0.06, r"^FR_upper_joint turns at 100.0 rad/s, at most 28.6 is possible$"),
    (drifting, 0.12, r"^FR_upper_joint moves by -?\d.\d\d rad where its velocity says [01].\d\d$"),
]


def run(wrong: Wrong, start: int, steps: int) -> tuple[Supervisor, list[JointCommand]]:
    """Walk; readings are wrong from step `start` on, for that many steps."""
    supervisor = Supervisor(A1)
    commands = []
    for step in range(start + steps):
        reading = walking(step)
        read = wrong(reading, step - start) if step >= start else reading
        commands.append(supervisor.review(read, reading.joint_angles))
    return supervisor, commands


@pytest.mark.parametrize(
    ("wrong", "within_s", "line", "start"),
    [
        (*each, start)
        for each, start in itertools.product(ALL, [0, 100, 117, 131])
        if (each[0], start) != (offset, 0)  # visible only at its start
    ],
)
def test_joints_that_stay_wrong_are_a_fault_that_names_them(
    wrong: Wrong, within_s: float, line: str, start: int
) -> None:
    supervisor, commands = run(wrong, start, round(within_s / CONTROL_DT_S) + 1)
    assert re.search(line, str(supervisor.fault)), supervisor.fault
    assert is_damping(commands[-1])
    assert "\n" not in str(supervisor.fault)
    assert not any(is_damping(command) for command in commands[:start])


@pytest.mark.parametrize("wrong", [degrees, offset, fast, one_fast])
@pytest.mark.parametrize("bad", [1, 2, 3, 4])
def test_a_few_bad_readings_are_bridged_and_counted(wrong: Wrong, bad: int) -> None:
    def passing(reading: Reading, step: int) -> Reading:
        return wrong(reading, step) if step < bad else reading

    supervisor, commands = run(passing, 100, 50)
    truth, expected = run(lambda reading, _: reading, 100, 50)
    assert supervisor.fault is None
    assert (supervisor.bridged, truth.bridged) == (bad, 0)
    for command, calm in zip(commands, expected, strict=True):
        np.testing.assert_allclose(command.targets, calm.targets, atol=0.02)
    supervisor.reset()
    assert supervisor.bridged == 0


def test_a_joint_that_is_bad_more_often_than_not_is_a_fault() -> None:
    supervisor, _ = run(lambda reading, i: offset(reading, i) if i % 3 else reading, 100, 20)
    assert "FR_upper_joint jumps by" in str(supervisor.fault)
    supervisor, _ = run(lambda reading, i: reading if i % 3 else offset(reading, i), 100, 2000)
    assert supervisor.fault is None
    assert supervisor.bridged == 667


def test_before_the_first_trusted_reading_it_damps_without_a_fault() -> None:
    supervisor = Supervisor(A1)
    for step in range(3):
        assert is_damping(supervisor.review(degrees(walking(step), 0), A1.default_pose_rad))
        assert supervisor.fault is None
    reading = walking(3)
    first = supervisor.review(reading, reading.joint_angles + 1.0)
    assert not is_damping(first)
    reach = np.minimum(0.21, A1.joint_upper_rad - reading.joint_angles)
    assert np.all(first.targets - reading.joint_angles <= reach + 1e-12)  # from the joint angles
    assert supervisor.bridged == 0


@pytest.mark.parametrize(
    "stamp_s",
    [
        lambda step: CONTROL_DT_S * step + 0.002 * (step % 3),  # a sensor faster than the loop
        lambda step: CONTROL_DT_S * (step - step % 2),  # one half as fast: every stamp twice
        lambda step: CONTROL_DT_S * (step - 2 * (step % 7 == 0)),  # sometimes an older one
        lambda step: CONTROL_DT_S * step + 1e6 * (step > 50),  # the clock was set
        lambda step: CONTROL_DT_S * step - 1e6 * (step > 50),
    ],
)
def test_readings_at_irregular_stamps_are_trusted(stamp_s: Callable[[int], float]) -> None:
    supervisor = Supervisor(A1)
    for step in range(200):
        at_s = stamp_s(step)
        in_walk = round(at_s % 1e6 / CONTROL_DT_S, 6) if abs(at_s) < 1e5 else step
        reading = replace(walking(in_walk), time_s=at_s)
        assert not is_damping(supervisor.review(reading, reading.joint_angles))
    assert (supervisor.fault, supervisor.bridged) == (None, 0)


def test_readings_without_stamps_are_trusted() -> None:
    supervisor = Supervisor(A1)
    for step in range(200):
        reading = replace(walking(step), time_s=0.0)
        assert not is_damping(supervisor.review(reading, reading.joint_angles))
    assert (supervisor.fault, supervisor.bridged) == (None, 0)


def test_a_joint_may_rest_at_its_target() -> None:
    supervisor = Supervisor(A1)
    for step in range(200):
        reading = replace(walking(0), time_s=CONTROL_DT_S * step, joint_velocities=np.zeros(12))
        assert not is_damping(supervisor.review(reading, reading.joint_angles))
    assert (supervisor.fault, supervisor.bridged) == (None, 0)


def nonsense(spec: RobotSpec, rng: np.random.Generator) -> Iterator[tuple[Reading, np.ndarray]]:
    """Endless readings and targets, wrong in runs of random length."""
    values = (0.0, 1.0, 57.3, -100.0, 1e3, 1e300, -1.7e308, 5e-324, np.nan, np.inf, -np.inf)
    walk, clock_s = [walking(step, spec) for step in range(1000)], 0.0
    while True:
        kind, length = rng.integers(8), int(rng.integers(1, 12))
        joints, value = rng.random(12) < rng.choice((0.1, 1.0)), rng.choice(values)
        targets_kind = rng.integers(12)
        step_s = rng.choice((0.01, 0.01, 0.01, 0.002, 0.0, -0.01, 1e6, -1e6, np.nan, np.inf))
        if not np.isfinite(clock_s):
            clock_s = 0.0
        for _ in range(length):
            reading = walk[int(rng.integers(1000)) if kind == 7 else round(clock_s * 100) % 1000]
            name = "joint_angles" if length % 2 else "joint_velocities"
            wrong = getattr(reading, name).copy()
            if kind == 1:
                wrong[joints] = value
            elif kind == 2:
                wrong[joints] *= -1.0
            elif kind == 3:
                wrong[joints] = np.degrees(wrong[joints])
            elif kind == 4:
                wrong[joints] = rng.permutation(wrong[joints])
            elif kind == 5:
                wrong = rng.normal(0.0, 10.0 ** rng.integers(-3, 9), 12)
            targets = reading.joint_angles + rng.normal(0.0, 1.0, 12)
            if targets_kind == 0:
                targets[joints] = value
            elif targets_kind == 1:
                targets *= 1e6
            orientation = LEVEL if rng.random() < 0.999 else rng.normal(0.0, 1.0, 4)
            reading = replace(reading, time_s=clock_s, orientation=orientation, **{name: wrong})
            yield reading, targets
            clock_s += step_s if length % 3 == 0 else 0.01
            clock_s = clock_s if abs(clock_s) < 1e12 else 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name", ["a1", "go2", *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_commands_keep_joint_and_speed_limits_whatever_is_read(name: str) -> None:
    spec, rng = ROBOTS[name], np.random.default_rng(0)
    supervisor = Supervisor(spec)
    most = spec.target_speed_limit_rad_per_s * CONTROL_DT_S + 1e-12
    last, stiff, bridged, faults = None, 0, 0, set()
    stream = nonsense(spec, rng)
    for _ in range(PER_KIND):
        command = supervisor.review(*next(stream))
        if is_damping(command, spec):
            if supervisor.fault is not None and rng.random() < 0.5:
                faults.add(re.sub(r"^.*_j\w*? |-?\d[\d.e+]*", "", supervisor.fault).split(",")[0])
                supervisor.reset()
                last = None
            continue
        assert supervisor.fault is None
        bridged = max(bridged, supervisor.bridged)  # since the last fault
        assert np.all(command.targets >= spec.joint_lower_rad)
        assert np.all(command.targets <= spec.joint_upper_rad)
        if last is not None:
            assert np.all(np.abs(command.targets - last) <= most)
        last, stiff = command.targets, stiff + 1
    assert stiff > PER_KIND / 10  # not always damped
    assert bridged > 10  # nor were all readings right
    assert len(faults) > 5


def walk(wrong: Wrong | None, *faults: str, steps: int = 200) -> tuple[float, Supervisor]:
    """Time [s] at which a simulated robot is damped; its joint readings are wrong from 1 s on."""
    body = make_body("pybullet", A1, FlatGround(), faults=parse_faults(faults))
    reading = body.reset(0)
    trots = LinearLowLevel.from_weights(A1, trotting_weights())
    controller = Controller(lambda *_: Decision(np.zeros(2), 10), trots, Supervisor(A1))
    damped_s = np.inf
    last = reading.joint_angles
    for step in range(steps):
        if wrong is not None and step >= 100:
            reading = wrong(reading, step - 100)
        command = controller.follow(np.zeros(2), reading).command
        if is_damping(command):
            damped_s = min(damped_s, CONTROL_DT_S * step)
        else:
            assert np.all(np.abs(command.targets - last) <= 0.21 + 1e-12)
            assert np.all(command.targets >= A1.joint_lower_rad)
            assert np.all(command.targets <= A1.joint_upper_rad)
            last = command.targets
        body.apply(command)
        reading = body.read()
    body.close()
    return damped_s, controller.supervisor


@pytest.mark.parametrize(
    ("wrong", "faults", "within_s", "line"),
    [
        (None, ("joints-degrees:at=1,for=9",), 0.06, r"_joint reads .* degrees instead of"),
        (
            None,
            ("joints-offset:at=1,for=9",),
            0.06,
            r"^.._upper_joint jumps by [12].\d\d rad in 50",
        ),
        (None, ("joints-stuck:at=1,for=9",), 0.3, r"^.._upper_joint stuck at .* rad while its"),
        (fast, (), 0.06, r"_joint turns at .* rad/s, at most"),
        (one_fast, (), 0.06, r"^FR_upper_joint turns at 100.0 rad/s, at most 28.6 is possible$"),
        (None, ("joints-frozen:at=1,for=1",), 0.3, r"_joint (stuck at|moves by)"),
    ],
)
def test_a_walking_robot_with_wrong_joint_readings_is_damped(
    wrong: Wrong | None, faults: tuple[str, ...], within_s: float, line: str
) -> None:
    damped_s, supervisor = walk(wrong, *faults)
    assert 1.0 < damped_s <= 1.0 + within_s + 1e-9
    assert re.search(line, str(supervisor.fault)), supervisor.fault


def test_a_walking_robot_with_right_readings_has_no_fault() -> None:
    damped_s, supervisor = walk(None)
    assert damped_s == np.inf
    assert (supervisor.fault, supervisor.bridged) == (None, 0)


@pytest.mark.parametrize(("late", "every"), [(1, 1), (4, 1), (0, 2), (2, 2)])
def test_a_robot_at_rest_may_move_as_late_as_in_training(late: int, every: int) -> None:
    """Commands arrive `late` steps after they were sent, joints send in one step of `every`.

    Encoders have steps: of a robot that stands they show exactly the same for ever.
    """
    bundle = load_bundle("walk")
    operation = Operation(bundle.controller())
    body = make_body("pybullet", bundle.spec, FlatGround())
    reading = body.reset(0)
    sent: list[JointCommand] = []
    shown = []
    for step in range(500):
        if step % every == 0:
            read = replace(reading, joint_angles=np.round(reading.joint_angles, 4))
        shown.append(read.joint_angles)
        forward = latent_for(0.6 if step >= 400 else 0.0, 0.0)
        commands = OperatorCommands(True, RobotState.WALKING)
        sent.append(operation.step(Inputs(read, {}, commands, CONTROL_DT_S, forward)).command)
        assert operation.supervisor.fault is None
        body.apply(sent[max(0, step - late)])
        reading = body.read()
    body.close()
    assert (np.ptp(shown[370:400], 0) == 0.0).any()  # it stood
    assert operation.state is RobotState.WALKING


@pytest.mark.parametrize("noise_rad", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("robot", ["a1", "go2"])
def test_a_robot_whose_motors_lose_power_is_damped_once_it_lies(
    robot: str, noise_rad: float
) -> None:
    """Encoder noise goes on, so no joint counts as stuck; with power back it would jump up."""
    spec, rng = ROBOTS[robot], np.random.default_rng(0)
    body = make_body("pybullet", spec, FlatGround())
    reading = body.reset(0)
    trots = LinearLowLevel.from_weights(spec, trotting_weights())
    controller = Controller(lambda *_: Decision(np.zeros(2), 10), trots, Supervisor(spec))
    for step in range(300):
        command = controller.follow(np.zeros(2), reading).command
        powered = step < 100
        assert is_damping(command, spec) is False or not powered
        friction = controller.supervisor.damp(reading.time_s)
        body.apply(command if powered else replace(friction, kd=0.1 * friction.kd))
        reading = body.read()
        noise = rng.normal(0.0, noise_rad, 12)
        reading = replace(reading, joint_angles=reading.joint_angles + noise)
    body.close()
    still = "^no joint turns, though targets move by |stuck at .* while its target moves$"
    assert re.search(still, str(controller.supervisor.fault)), controller.supervisor.fault
    assert is_damping(command, spec)


@pytest.mark.parametrize("news_every", [1, 2, 100])
def test_missing_joint_states_do_not_trigger_the_motion_check(news_every: int) -> None:
    """The robot's motion is unknown while a driver stalls."""
    supervisor, rng = Supervisor(A1), np.random.default_rng(0)
    still = walking(0)
    faults = []
    for step in range(60):
        if step % news_every == 0:
            noisy = still.joint_angles + rng.normal(0.0, 1e-3, 12)
            reading = replace(walking(step), joint_angles=noisy, joint_velocities=np.zeros(12))
        supervisor.review(reading, A1.default_pose_rad + 0.3 * np.sin(0.1 * step))
        faults.append(supervisor.fault or "")
    if news_every < 100:
        assert faults[-1].startswith("no joint turns, though targets move by 0.")
        assert not any(faults[:25])
    else:
        assert not any(faults)


@pytest.mark.parametrize("at_s", [1.0, 1.07, 1.13])
@pytest.mark.parametrize("fault", ["frozen:for=0.05", "late:for=0.05,by=0.03"])
def test_a_walking_robot_survives_joints_that_stop_or_lag_for_a_moment(
    fault: str, at_s: float
) -> None:
    damped_s, supervisor = walk(None, f"joints-{fault},at={at_s}")
    assert damped_s == np.inf, supervisor.fault


def test_a_spiking_orientation_is_bridged_and_one_that_stays_wrong_damps() -> None:
    supervisor = Supervisor(A1)
    first = supervisor.review(walking(0), A1.default_pose_rad).targets
    elsewhere = A1.default_pose_rad + 0.2
    for bridged in (1, 2, 3, 4):
        spike = replace(walking(bridged), orientation=np.full(4, 3.0))
        held = supervisor.review(spike, elsewhere)
        np.testing.assert_array_equal(held.targets, first)  # not `elsewhere`
        assert (supervisor.fault, supervisor.bridged) == (None, bridged)
    supervisor.review(walking(5), elsewhere)
    for step in range(6, 11):
        last = supervisor.review(replace(walking(step), orientation=np.full(4, 3.0)), elsewhere)
    assert supervisor.fault == "the IMU's orientation is no unit quaternion"
    assert not last.kp.any()


def turning(reading: Reading, step: int) -> Reading:
    """The robot turns left by 1 rad/s, by orientation and rate."""
    half = 0.5 * CONTROL_DT_S * step
    orientation = np.array((0.0, 0.0, np.sin(half), np.cos(half)))
    return replace(reading, orientation=orientation, angular_velocity=np.array((0.0, 0.0, 1.0)))


def frozen_imu(reading: Reading, _: int) -> Reading:
    return replace(reading, orientation=LEVEL, angular_velocity=np.array((0.1, 0.0, 0.0)))


def rate_in_degrees(reading: Reading, step: int) -> Reading:
    reading = turning(reading, step)
    return replace(reading, angular_velocity=np.degrees(reading.angular_velocity))


def rate_of_another_sign(reading: Reading, step: int) -> Reading:
    reading = turning(reading, step)
    return replace(reading, angular_velocity=-reading.angular_velocity)


def rate_that_is_dead(reading: Reading, step: int) -> Reading:
    return replace(turning(reading, step), angular_velocity=np.zeros(3))


@pytest.mark.parametrize(
    ("wrong", "reason", "within_s"),
    [
        (frozen_imu, "the IMU shows the same for", 0.4),
        (rate_in_degrees, "than its rate says", 0.1),
        (rate_of_another_sign, "than its rate says", 0.5),
        (rate_that_is_dead, "than its rate says", 1.0),
    ],
)
def test_an_imu_whose_orientation_contradicts_its_rate_damps(
    wrong: Callable[[Reading, int], Reading], reason: str, within_s: float
) -> None:
    supervisor = Supervisor(A1)
    for step in range(200):  # consistent turning is no fault
        supervisor.review(turning(walking(step), step), A1.default_pose_rad)
        assert supervisor.fault is None
    for step in range(200, 200 + round(within_s / CONTROL_DT_S)):
        supervisor.review(wrong(walking(step), step), A1.default_pose_rad)
    assert reason in str(supervisor.fault)


def about(axis: int, reading: Reading) -> Reading:
    """What turns about the vertical turns about this axis of its own, from some tilt on.

    Its rate has a bias of -0.1 rad/s.
    """
    orientation = reading.orientation
    for _ in range(axis + 4):  # permute the axes, rotate the world
        orientation = turned(np.array((*np.roll(orientation[:3], 1), orientation[3])), 0.7)
    rate = np.roll(reading.angular_velocity, axis + 1) - 0.1
    return replace(reading, orientation=orientation, angular_velocity=rate)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("wrong", "within_s"),
    [(rate_in_degrees, 0.1), (rate_of_another_sign, 0.5), (rate_that_is_dead, 1.0)],
)
def test_the_imu_check_is_the_same_about_every_axis(
    wrong: Callable[[Reading, int], Reading], within_s: float, axis: int
) -> None:
    """Tests the monitor alone: the supervisor damps at such a tilt."""
    watch = ImuMonitor()
    for step in range(500):
        assert watch.judge(about(axis, turning(walking(step), step))) is None
    for step in range(500, 500 + round(within_s / CONTROL_DT_S)):
        fault = watch.judge(about(axis, wrong(walking(step), step)))
    assert "than its rate says" in str(fault)


def newest(of: Callable[[float], Reading], step: int, joints_hz: float, imu_hz: float) -> Reading:
    """The newest values in a control step, from sensors of these rates."""
    joints, imu = (
        of(math.floor(step * CONTROL_DT_S * hz + 1e-9) / hz / CONTROL_DT_S)
        for hz in (joints_hz, imu_hz)
    )
    return replace(joints, orientation=imu.orientation, angular_velocity=imu.angular_velocity)


@pytest.mark.parametrize("joints_hz", [50.0, 60.0, 90.0, 100.0, 200.0])
@pytest.mark.parametrize("imu_hz", [50.0, 60.0, 90.0, 100.0, 200.0])
@pytest.mark.parametrize(
    ("shown", "found"), [(turning, False), (rate_that_is_dead, True), (frozen_imu, True)]
)
def test_the_imu_check_is_the_same_at_all_rates_of_imu_and_joints(
    shown: Callable[[Reading, float], Reading], found: bool, joints_hz: float, imu_hz: float
) -> None:
    watch = ImuMonitor()
    judged = [
        watch.judge(newest(lambda at: shown(walking(at), at), step, joints_hz, imu_hz))
        for step in range(100)
    ]
    assert any(judged) == found
