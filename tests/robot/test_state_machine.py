"""State machine: operator commands, stalls, emergency stop; sensor age and health."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest

from pixelgait.robot.control.controller import STAND, Controller, Decision
from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import (
    CONTROL_DT_S,
    DRIVER_TIMEOUT_S,
    STAND_S,
    Image,
    JointCommand,
    Reading,
)
from pixelgait.robot.runtime.state_machine import (
    LATE_S,
    LIE_S,
    MAX_STALLS,
    REST_S,
    WALKS_ON,
    Inputs,
    Operation,
    Operator,
    OperatorCommands,
    RobotState,
)
from pixelgait.robot.runtime.timing import RateKeeper
from pixelgait.robot.safety.sensor_age import Freshness, FrozenImageCheck, SensorStatus
from pixelgait.robot.safety.sensor_checks import MAX_BRIDGED
from pixelgait.robot.safety.supervisor import SENSOR_TIMEOUTS, SensorHealth, Supervisor
from pixelgait.robot.spec import A1, GO2, ROBOTS, RobotSpec
from tests.conftest import trotting_weights

WALK, READY, LIE = (
    OperatorCommands(True, each) for each in (RobotState.WALKING, RobotState.READY, RobotState.LIMP)
)
BLACK = Image(np.zeros((32, 32, 3), np.uint8), 0.0)


class Robot:
    """Joints that follow their targets, under an `Operation`."""

    def __init__(self, stride: float = 0.15, spec: RobotSpec = A1) -> None:
        low_level = LinearLowLevel.from_weights(spec, trotting_weights(stride))
        controller = Controller(lambda *_: Decision(np.zeros(2), 20), low_level, Supervisor(spec))
        self.operation = Operation(controller)
        self.angles = spec.default_pose_rad + 0.3
        self.velocities = np.zeros(12)
        self.sag_rad = np.zeros(12)  # below the targets
        self.off_rad = np.zeros(12)  # encoder offset
        self.caught: list[int] = []  # joints that do not move, though their encoders do
        self.tilt_rad = 0.0  # about x
        self.ages: dict[str, float] = {}
        self.odometry: np.ndarray | None = None
        self.steps = 0
        self.sent: list[JointCommand] = []
        self.fault: str | None = None  # expected

    def step(self, commands: OperatorCommands, gap_s: float = CONTROL_DT_S) -> JointCommand:
        latent = STAND if commands.steered else None  # with the sticks let go
        self.steps += 1
        reading = Reading(
            CONTROL_DT_S * self.steps,
            self.angles + 1e-4 * np.sin(self.steps + np.arange(12)) + self.off_rad,
            self.velocities,
            np.array((math.sin(self.tilt_rad / 2.0), 0.0, 0.0, math.cos(self.tilt_rad / 2.0))),
            1e-3 * np.sin([self.steps, 0.0, 0.0]),
            lambda: Image(BLACK.pixels, CONTROL_DT_S * self.steps),
            self.odometry,
        )
        command = self.operation.step(Inputs(reading, self.ages, commands, gap_s, latent)).command
        assert self.operation.supervisor.fault == self.fault
        motion = np.zeros(12)
        if command.kp.any():
            wanted = command.targets - self.sag_rad - self.angles
            motion = np.clip(wanted, -0.03, 0.03)  # in 3 rad/s
            motion[self.caught] = 0.0
        self.angles, self.velocities = self.angles + motion, motion / CONTROL_DT_S
        self.sent.append(command)
        return command

    def run(self, commands: OperatorCommands, seconds: float) -> list[JointCommand]:
        return [self.step(commands) for _ in range(round(seconds / CONTROL_DT_S))]

    @property
    def state(self) -> RobotState:
        return self.operation.state


def test_standing_up_begins_at_the_joint_angles_with_growing_gains() -> None:
    robot = Robot()
    lying = robot.angles.copy()
    assert not any(
        command.kp.any() for command in robot.run(OperatorCommands(wanted=RobotState.READY), 0.1)
    )
    commands = robot.run(READY, STAND_S)
    np.testing.assert_allclose(commands[0].targets, lying, atol=1e-3)
    share = np.array([command.kp[0] / A1.kp_nm_per_rad[0] for command in commands])
    assert share[0] < 0.05
    assert (np.diff(share) >= 0.0).all()
    assert share[-1] == 1.0
    robot.step(READY)
    assert robot.state is RobotState.READY
    np.testing.assert_allclose(robot.sent[-1].targets, A1.default_pose_rad)


@pytest.mark.parametrize("sag_rad", [-0.1, 0.1])
def test_targets_do_not_jump_between_standing_and_walking(sag_rad: float) -> None:
    """Joints are behind their targets, by their load."""
    robot = Robot(stride=1.0)
    robot.sag_rad[:] = sag_rad
    commands = [(READY, STAND_S + 0.1), (WALK, 1.0), (READY, 0.5), (WALK, 0.5)]
    sent = [command.targets for each, time_s in commands for command in robot.run(each, time_s)]
    assert robot.state is RobotState.WALKING
    most = A1.target_speed_limit_rad_per_s * CONTROL_DT_S
    assert np.max(np.abs(np.diff(sent, axis=0)) / most) <= 1.0 + 1e-9


def test_a_robot_that_was_lifted_is_where_it_is_when_it_begins_to_walk() -> None:
    """Without a goal; the collision guard needs its position."""
    robot = Robot()
    robot.run(WALK, STAND_S + 0.5)
    legs = robot.operation._legs
    legs._lifted = 1.0
    robot.step(WALK)
    robot.step(READY)
    assert legs.lost
    robot.step(WALK)
    assert not legs.lost


@pytest.mark.parametrize("off_rad", [30.0, -30.0, 2.0, np.nan])
def test_it_does_not_stand_up_from_impossible_joint_angles(off_rad: float) -> None:
    """One bad reading delays standing up by one step."""
    robot = Robot()
    robot.run(OperatorCommands(), 0.1)
    lying = robot.angles.copy()
    robot.off_rad[1] = off_rad
    assert not robot.step(READY).kp.any()
    assert robot.state is RobotState.LIMP
    robot.off_rad[1] = 0.0
    command = robot.step(READY)
    assert robot.state is RobotState.STANDING_UP
    np.testing.assert_allclose(command.targets, lying, atol=1e-3)
    path = np.array([each.targets for each in robot.run(READY, STAND_S)])
    assert np.abs(path - np.linspace(lying, A1.default_pose_rad, len(path))).max() < 0.02


@pytest.mark.parametrize(
    ("off_rad", "fault"), [(30.0, "FR_upper_joint reads"), (np.nan, "a sensor value is not finite")]
)
@pytest.mark.parametrize("lies_s", [0.0, 0.52], ids=["at once", "after a while"])
def test_impossible_joint_angles_are_a_fault_when_commanded_to_stand_up(
    off_rad: float, fault: str, lies_s: float
) -> None:
    robot = Robot()
    robot.off_rad[1] = off_rad
    robot.run(OperatorCommands(), lies_s)  # no fault without a command
    robot.fault = ANY
    robot.run(READY, CONTROL_DT_S * (MAX_BRIDGED + 1))
    assert (robot.operation.supervisor.fault or "").startswith(fault)
    assert robot.state is RobotState.LIMP
    assert not any(command.kp.any() for command in robot.sent)


def test_a_joint_that_does_not_reach_the_stand_is_a_fault() -> None:
    """A leg that is caught, a weak battery: the encoder moves, but not to the target."""
    robot = Robot()
    robot.angles = lying_pose(A1)
    robot.caught = [5]
    robot.run(WALK, STAND_S + 0.9 * LATE_S)
    assert robot.state is RobotState.STANDING_UP
    robot.fault = ANY
    robot.run(WALK, 0.2 * LATE_S)
    fault = "FL_lower_joint is 0.80 rad from where it should stand"
    assert robot.operation.supervisor.fault == fault
    assert not robot.sent[-1].kp.any()


def test_soft_legs_that_give_way_under_their_load_stand() -> None:
    """Rear knees of a heavy Go2 of little strength, below the targets that carry its usual load."""
    robot = Robot(spec=GO2)
    robot.sag_rad[[8, 11]] = 0.43
    robot.run(READY, STAND_S + 0.1)
    assert robot.state is RobotState.READY


def test_a_late_stand_delays_walking() -> None:
    robot = Robot()
    robot.caught = [5]
    robot.angles = lying_pose(A1)
    robot.run(WALK, STAND_S + 0.5 * LATE_S)
    robot.caught = []
    robot.run(WALK, 0.4 * LATE_S)
    assert robot.state is RobotState.WALKING


def test_a_rehearsal_without_motors_accepts_any_joint_angles() -> None:
    robot = Robot()
    robot.operation.supervisor.motors_enabled = False
    robot.angles, robot.caught = lying_pose(A1), list(range(12))
    robot.run(WALK, STAND_S + 0.5)
    assert robot.state is RobotState.WALKING


@pytest.mark.parametrize(("tilt_rad", "rises"), [(0.4, True), (0.8, False), (-0.8, False)])
def test_it_does_not_stand_up_from_its_side(tilt_rad: float, rises: bool) -> None:
    """It would push itself over; a ramp of 20 degrees is allowed."""
    robot = Robot()
    robot.tilt_rad = tilt_rad
    robot.run(OperatorCommands(True), 0.5)  # no fault without a command
    if not rises:
        robot.fault = "tilted by 0.80 rad: it cannot stand up from there"
    robot.run(READY, 0.1)
    assert robot.state is (RobotState.STANDING_UP if rises else RobotState.LIMP)
    assert robot.sent[-1].kp.any() == rises


@pytest.mark.parametrize("camera", ["camera", "camera/depth/image_rect_raw"])
def test_lying_down_needs_no_camera(camera: str) -> None:
    """An unplugged camera must not drop the robot."""
    robot = Robot()
    robot.run(WALK, STAND_S + 0.5)
    supervisor = robot.operation.supervisor
    supervisor.sensor_timeouts = {**SENSOR_TIMEOUTS, camera: SENSOR_TIMEOUTS["camera"]}
    robot.step(LIE)
    robot.ages = {"joints": 0.0, camera: 60.0}
    assert all(command.kp.any() for command in robot.run(LIE, LIE_S - 0.1))
    robot.ages = {"joints": 0.2, camera: 60.0}
    robot.fault = "joints is silent for 0.20 s, at most 0.1 s is allowed"
    assert not robot.step(LIE).kp.any()


def test_gains_keep_growing_when_lying_down_interrupts_standing_up() -> None:
    robot = Robot()
    robot.run(READY, 0.2)
    share = [each.kp[0] / A1.kp_nm_per_rad[0] for each in robot.run(LIE, 0.5)]
    assert share[0] == pytest.approx(0.42)
    assert np.diff(share).max() < 0.021
    assert share[-1] == 1.0


def test_it_lies_down_before_it_is_limp() -> None:
    robot = Robot()
    robot.run(WALK, STAND_S + 1.0)
    assert robot.state is RobotState.WALKING
    commands = robot.run(LIE, LIE_S)
    assert robot.state is RobotState.LYING_DOWN
    assert all(command.kp.any() for command in commands)
    np.testing.assert_allclose(commands[-1].targets, lying_pose(A1), atol=0.05)
    assert not robot.step(LIE).kp.any()
    assert robot.state is RobotState.LIMP


@pytest.mark.parametrize("commands", [READY, WALK, LIE], ids=["ready", "walking", "lying down"])
def test_a_stall_damps_rests_and_stands_up_again(commands: OperatorCommands) -> None:
    robot = Robot()
    robot.run(READY if commands is LIE else commands, STAND_S + 0.5)
    robot.step(commands)
    robot.step(commands, gap_s=0.9 * DRIVER_TIMEOUT_S)  # within the driver's time-out
    assert robot.sent[-1].kp.any()
    robot.step(commands, gap_s=1.1 * DRIVER_TIMEOUT_S)
    assert robot.operation.cause == "no command for 0.11 s: the driver has damped it"
    assert not any(command.kp.any() for command in robot.run(commands, REST_S - CONTROL_DT_S))
    robot.run(commands, 0.05)
    assert robot.state is (RobotState.LIMP if commands is LIE else RobotState.STANDING_UP)
    robot.run(commands, STAND_S)
    assert (
        robot.state
        is {READY: RobotState.READY, WALK: RobotState.WALKING, LIE: RobotState.LIMP}[commands]
    )
    assert robot.operation.stalls == 1


def stalls(robot: Robot, every_s: float, times: int) -> None:
    """A walk with repeated stalls."""
    for _ in range(times):
        robot.run(WALK, every_s)
        assert robot.state is RobotState.WALKING
        robot.step(WALK, gap_s=0.2)


@pytest.mark.slow
def test_rare_stalls_are_no_fault() -> None:
    robot = Robot()
    stalls(robot, 60.0 / (MAX_STALLS - 1), times=3 * MAX_STALLS)
    assert robot.operation.recent_stalls == MAX_STALLS - 1
    robot.run(WALK, 61.0)
    assert robot.state is RobotState.WALKING
    assert robot.operation.recent_stalls == 0


def test_frequent_stalls_are_a_fault() -> None:
    robot = Robot()
    stalls(robot, 3.0, times=MAX_STALLS - 1)
    robot.run(WALK, 3.0)
    robot.fault = "stalled 6 times within a minute: it would fall again"
    assert not robot.step(WALK, gap_s=0.2).kp.any()
    assert robot.state is RobotState.LIMP


def test_a_long_stall_is_a_fault() -> None:
    robot = Robot()
    robot.run(WALK, STAND_S + 0.5)
    robot.fault = "stalled for 600 s: people may be near the robot"
    assert not robot.step(WALK, gap_s=600.0).kp.any()
    assert robot.state is RobotState.LIMP


def test_an_emergency_stop_acts_at_once_and_outlasts_all_commands() -> None:
    robot = Robot()
    robot.run(WALK, STAND_S + 0.5)
    stop = OperatorCommands(True, RobotState.WALKING, stop="a person")
    assert not any(command.kp.any() for command in robot.run(stop, 0.5))
    assert robot.operation.cause == "emergency stop by a person"
    assert not robot.step(OperatorCommands()).kp.any()
    assert robot.state is RobotState.LIMP


def test_an_emergency_stop_outlasts_a_restart_of_the_loop() -> None:
    operator = Operator(auto=True)
    assert operator.arm() == (False, "the controller does not run")
    operator.emergency_stop("a person")
    operator.emergency_stop("another person")
    operator.begin()
    assert operator.commands == OperatorCommands(stop="a person")
    assert operator.reset_stop()[0]
    assert operator.commands == OperatorCommands()
    assert operator.reset_stop() == (False, "not stopped")
    operator.begin()
    assert operator.commands == WALK


def test_a_repeated_goal_is_a_new_one_and_lying_down_drops_it() -> None:
    operator = Operator()
    operator.begin()
    operator.state = RobotState.LIMP
    assert operator.go_to((1.0, 0.0))[0]
    first = operator.commands.goal_number
    assert operator.arm()[0]
    assert operator.stand_up()[0]
    assert (operator.commands.goal_position, operator.commands.goal_number) == ((1.0, 0.0), first)
    operator.go_to((1.0, 0.0))
    assert operator.commands.goal_number > first
    operator.emergency_stop("a person")
    refused = (False, "stopped by a person: reset the emergency stop first")
    assert operator.go_to((2.0, 0.0)) == refused
    assert operator.reset_stop() == (False, "not stopped")  # no step has executed it yet
    operator.state = RobotState.STOPPED
    assert operator.reset_stop()[0]
    operator.state = RobotState.LIMP
    operator.go_to((1.0, 0.0))
    assert operator.commands.goal_number > first + 1
    assert operator.lie_down() == (False, "not armed")
    assert operator.commands.goal_position == (1.0, 0.0)
    operator.arm()
    assert operator.lie_down() == (True, "lying down")
    assert operator.commands.goal_position is None
    assert operator.go_to(None) == (False, "had no goal")


@pytest.mark.parametrize("spec", ROBOTS.values(), ids=ROBOTS)
def test_every_robot_folds_its_legs_to_lie(spec: object) -> None:
    from pixelgait.robot.spec import RobotSpec

    assert isinstance(spec, RobotSpec)
    pose = lying_pose(spec)
    assert (spec.joint_lower_rad <= pose).all()
    assert (pose <= spec.joint_upper_rad).all()
    folded = np.abs(pose - spec.default_pose_rad).reshape(4, 3)[:, 2]
    assert (folded > 0.3).all()


def test_an_age_is_the_worse_of_stamp_and_arrival() -> None:
    sensor = Freshness("imu")
    assert sensor.age_s(10.0) == math.inf
    assert sensor.arrived(stamp_s=100.0, now_s=100.02, monotonic_s=10.0)
    assert sensor.age_s(10.03) == pytest.approx(0.05)
    assert not sensor.arrived(100.0, 100.12, 10.1)  # a repeated stamp
    assert sensor.age_s(10.1) == pytest.approx(0.12)
    assert "repeat" in str(sensor.warning)
    assert sensor.arrived(100.1, 100.62, 10.6)
    assert sensor.age_s(10.6) == pytest.approx(0.52)
    assert sensor.warning == "messages arrive 0.52 s late"
    assert not sensor.arrived(103.0, 100.7, 10.7)
    assert "2.30 s in the future" in str(sensor.warning)
    with pytest.raises(UserError, match="imu is not stamped"):
        sensor.arrived(0.0, 100.8, 10.8)


def test_sensor_health_is_reported_with_its_cause_and_does_not_flicker() -> None:
    watch = SensorStatus(SENSOR_TIMEOUTS)
    for step in range(300):  # an age that alternates around the limit, then stays
        age_s = 0.035 if step % 3 == 0 and step < 100 else 0.01
        watch.update({"imu": age_s, "camera": 0.0}, {}, CONTROL_DT_S * step)
    assert [line for _, line in watch.changes] == [
        "imu is ageing, the last decision holds: nothing new for 0.04 s",
        "camera is fresh: it sends",
        "imu is fresh: was ageing",
    ]
    watch.changes.clear()
    for step in range(120):
        watch.update({"camera": 0.02 * step}, {"camera": "malformed"}, CONTROL_DT_S * step)
    assert [stage for stage, _ in watch.changes] == [
        SensorHealth.AGEING,
        SensorHealth.STALE,
        SensorHealth.DEAD,
    ]
    assert watch.changes[1][1] == (
        "camera is stale, the robot slows to a stand: nothing new for 0.52 s; malformed"
    )


def test_a_repeated_image_is_a_warning_only_while_joints_move() -> None:
    watch, rng = FrozenImageCheck(), np.random.default_rng(0)
    still, moved = np.zeros(12), np.linspace(0.0, 0.3, 12)
    picture, other = (rng.integers(0, 256, 3072, dtype=np.uint8).tobytes() for _ in range(2))
    assert not any(watch.judge(picture, still + 1e-3 * step) for step in range(100))
    assert "the image is frozen" in str(watch.judge(picture, moved))
    assert "by 0.30 rad" in str(watch.judge(picture, still))  # a gait is periodic
    assert watch.judge(other, still) is None
    assert watch.judge(picture, moved) is None
    sensor = Freshness("camera")
    assert sensor.arrived(100.0, 100.0, 10.0)
    assert not sensor.arrived(100.5, 100.5, 10.5, warning="the same")
    assert (sensor.age_s(10.5), sensor.warning) == (0.5, "the same")


def test_setting_a_clock_costs_one_message() -> None:
    sensor = Freshness("imu")
    now_s = 100.0
    for step in range(100):
        now_s += 3600.0 if step == 50 else 0.01
        stamp_s = now_s - (3600.0 if step == 50 else 0.001)  # one was under way
        sensor.arrived(stamp_s, now_s, 10.0 + 0.01 * step)
        assert sensor.age_s(10.0 + 0.01 * step) < 0.03


def test_a_gap_counts_as_many_deadlines_as_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    monkeypatch.setattr("time.monotonic_ns", lambda: now_ns)
    monkeypatch.setattr("time.sleep", lambda _: None)
    rate = RateKeeper(0.01)
    now_ns += 4_000_000
    assert rate.wait() == 0
    now_ns = 342_000_000  # the step that was due at 10 ms ended 332 ms later
    assert rate.wait() == 33
    now_ns = 345_000_000
    assert rate.wait() == 0


@pytest.mark.parametrize("gives_up", [False, True])
def test_a_remote_control_ends_the_manoeuvre_of_a_blocked_robot(gives_up: bool) -> None:
    """Handed back minutes later, the policy walks: the robot does not step back first."""
    robot = Robot()
    robot.run(WALK, STAND_S + 0.5)
    blocked, steered = robot.operation.blocked, replace(WALK, steered=True)
    blocked._steps, blocked.given_up = 200, gives_up
    robot.step(WALK)
    assert blocked.manoeuvres
    robot.step(steered)
    assert not blocked.manoeuvres
    assert robot.operation.cause == WALKS_ON
    robot.step(WALK)
    assert robot.operation.controller.followed.tolist() == [0.0, 0.0]  # the policy's


@pytest.mark.parametrize("powered", [True, False])
def test_a_robot_without_motors_is_not_blocked(powered: bool) -> None:
    """In a dry run a person carries it, or stands still."""
    robot = Robot()
    robot.odometry = np.zeros(3)
    robot.operation.supervisor.motors_enabled = powered
    robot.run(WALK, STAND_S + 3.0)
    assert robot.state is RobotState.WALKING
    assert (robot.operation.blocked.tries > 0) is powered
