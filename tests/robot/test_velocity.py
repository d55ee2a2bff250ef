"""Robot with a gait of its own: velocities instead of joint targets, and its measured response."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import Decision, commanded, latent_for
from pixelgait.robot.control.velocity import (
    AxisResponse,
    Response,
    VelocityController,
    read_response,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import (
    CONTROL_DT_S,
    NO_JOINTS,
    Image,
    Posture,
    Reading,
    VelocityCommand,
)
from pixelgait.robot.recording.reader import RecordedStep, Recording, read_recording
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.recording.replay import format_figures, recorded_bundle, replay
from pixelgait.robot.rotation import upright
from pixelgait.robot.runtime.control_loop import ControlStep
from pixelgait.robot.runtime.response_trial import MEASURED, ResponseTrial
from pixelgait.robot.runtime.state_machine import Inputs, OperatorCommands, RobotState
from pixelgait.robot.runtime.velocity_operation import VelocityOperation, operation_of
from pixelgait.robot.safety.velocity import MOST, MOST_CHANGE, STILL, VelocitySupervisor
from pixelgait.robot.spec import A1
from tests.helpers import no_image
from tests.robot.test_state_machine import LIE, READY, WALK

AHEAD = latent_for(0.4, 0.0)


class Robot:
    """A robot that follows velocities `gain` times and `lag` steps late, under an operation."""

    def __init__(self, response: Response = Response(), gain: float = 1.0, lag: int = 1) -> None:  # noqa: B008
        controller = VelocityController(
            lambda *_: Decision(AHEAD, 20), VelocitySupervisor(A1), response
        )
        self.operation = operation_of(controller)
        assert isinstance(self.operation, VelocityOperation)
        self.gain, self.pending = gain, [STILL] * lag
        self.least, self.drift = 0.0, 0.0  # command that it does not answer; of the yaw rate
        self.pose = np.zeros(3)
        self.held = self.lies = False
        self.ages: dict[str, float] = {}
        self.orientation: np.ndarray | None = None
        self.steps = 0

    def step(self, commands: OperatorCommands, latent: np.ndarray | None = None) -> VelocityCommand:
        self.steps += 1
        time_s = CONTROL_DT_S * self.steps
        orientation = np.array(upright(self.pose[2]))
        reading = Reading(
            time_s,
            NO_JOINTS,
            NO_JOINTS,
            orientation if self.orientation is None else self.orientation,
            np.zeros(3),
            lambda: Image(np.zeros((8, 8, 3), np.uint8), time_s),
            self.pose,
            self.lies,
        )
        command = self.operation.step(Inputs(reading, self.ages, commands, latent=latent)).command
        assert isinstance(command, VelocityCommand)
        self.pending.append(command.velocity)
        self._move(self.pending.pop(0))
        return command

    def _move(self, velocity: np.ndarray) -> None:
        answered = np.where(np.abs(velocity) < self.least, 0.0, self.gain * velocity)
        speed, _, yaw_rate = (0.0 if self.held else 1.0) * answered
        heading = self.pose[2]
        turn = yaw_rate + (self.drift if speed else 0.0)
        self.pose = self.pose + CONTROL_DT_S * np.array(
            (speed * math.cos(heading), speed * math.sin(heading), turn)
        )

    def run(self, commands: OperatorCommands, seconds: float) -> list[VelocityCommand]:
        return [self.step(commands) for _ in range(round(seconds / CONTROL_DT_S))]

    @property
    def state(self) -> RobotState:
        return self.operation.state


def walking(**options: float) -> Robot:
    robot = Robot(**options)  # type: ignore[arg-type]
    robot.run(WALK, 3.0)
    assert robot.state is RobotState.WALKING
    return robot


def test_the_high_level_walks_the_robot_through_its_states() -> None:
    robot = Robot()
    assert {each.posture for each in robot.run(OperatorCommands(), 0.1)} == {Posture.IDLE}
    rising = robot.run(WALK, 1.9)
    assert robot.state is RobotState.STANDING_UP
    assert all(each.posture is Posture.UP and not each.velocity.any() for each in rising)
    velocities = np.array([each.velocity for each in robot.run(WALK, 2.0)])
    assert (np.abs(np.diff(velocities, axis=0)) <= MOST_CHANGE * CONTROL_DT_S + 1e-12).all()
    np.testing.assert_allclose(velocities[-1], (0.4, 0.0, 0.0), atol=1e-6)
    stands = robot.step(READY)
    assert (stands.posture, stands.velocity.any()) == (Posture.UP, False)
    assert {each.posture for each in robot.run(LIE, 1.0)} == {Posture.DOWN}
    robot.run(LIE, 1.0)
    assert (robot.state, robot.step(LIE).posture) == (RobotState.LIMP, Posture.IDLE)


def test_a_robot_that_still_lies_is_not_ready() -> None:
    robot = Robot()
    robot.lies = True
    assert not any(each.velocity.any() for each in robot.run(WALK, 5.0))
    assert robot.state is RobotState.STANDING_UP
    robot.lies = False
    robot.run(WALK, 0.02)
    assert robot.state is RobotState.WALKING


def test_an_emergency_stop_is_the_robots_own_at_zero_velocity_whatever_the_sensors_say() -> None:
    robot = walking()
    robot.ages = {"camera": math.inf}
    stopped = robot.step(OperatorCommands(stop="test"))
    assert (stopped.posture, stopped.velocity.tolist()) == (Posture.STOP, [0.0] * 3)


@pytest.mark.parametrize("sensor", ["joints", "camera"])
def test_a_sensor_that_ages_slows_the_robot_and_a_dead_one_stops_it(sensor: str) -> None:
    robot = walking()
    timeouts = robot.operation.supervisor.sensor_timeouts[sensor]
    robot.ages = {sensor: timeouts.ageing_s + 1e-3}
    assert robot.step(WALK).velocity[0] > 0.3
    robot.ages = {sensor: timeouts.stale_s + 1e-3}
    assert not robot.run(WALK, 0.4)[-1].velocity.any()
    robot.ages = {sensor: timeouts.dead_s + 1e-3}
    command = robot.step(WALK)
    assert (command.posture, command.velocity.any()) == (Posture.IDLE, False)
    assert f"{sensor} is silent for" in str(robot.operation.supervisor.fault)


@pytest.mark.parametrize(
    ("orientation", "fault"),
    [
        ((math.nan, 0.0, 0.0, 1.0), "a sensor value is not finite"),
        ((0.0, 0.0, 0.0, 0.0), "the odometry's orientation is no unit quaternion"),
        ((math.sin(0.7), 0.0, 0.0, math.cos(0.7)), "tilted by 1.40 rad"),
    ],
)
def test_odometry_that_is_impossible_is_a_fault(orientation: tuple[float, ...], fault: str) -> None:
    robot = walking()
    robot.orientation = np.array(orientation)
    assert not robot.step(WALK).velocity.any()
    assert robot.operation.supervisor.fault == fault


def test_a_robot_that_drifts_aside_walks_straight_ahead() -> None:
    robot = walking(lag=20)
    robot.drift = 0.1
    robot.run(WALK, 10.0)
    assert abs(robot.pose[2]) < 0.1


def test_a_robot_that_is_held_steps_back() -> None:
    robot = walking()
    robot.held = True
    speeds = [each.velocity[0] for each in robot.run(WALK, 5.0)]
    assert min(speeds) == pytest.approx(-0.25, abs=0.01)
    assert robot.operation.blocked.tries == 1


@pytest.mark.parametrize(("lag", "delay_s"), [(250, 0.0), (400, 1.5)])
def test_a_robot_that_answers_late_is_not_blocked(lag: int, delay_s: float) -> None:
    robot = Robot(Response(AxisResponse(delay_s)), lag=lag)
    robot.run(WALK, 8.0)
    assert robot.pose[0] > 0.3
    assert robot.operation.blocked.tries == 0


def test_no_velocity_is_beyond_the_limits() -> None:
    robot = Robot(Response(AxisResponse(gain=0.3)))
    assert max(each.velocity[0] for each in robot.run(WALK, 4.0)) == pytest.approx(MOST[0])


def test_commands_make_up_for_a_robots_response() -> None:
    axis = AxisResponse(delay_s=0.2, gain=0.5, least=0.2)
    assert [axis.command(wanted) for wanted in (0.0, 0.04, 0.06, -0.06, 0.3)] == [
        0.0, 0.0, 0.2, -0.2, 0.6,
    ]  # fmt: skip


def test_a_trial_measures_delay_gain_and_least_speed(tmp_path: Path) -> None:
    robot = Robot(MEASURED, gain=0.8, lag=25)
    robot.least = 0.18
    trial = ResponseTrial(lambda: robot.pose, lambda: robot.state is RobotState.WALKING)
    while not trial.done:
        carried = 1650 < robot.steps < 1700  # while 0.6 m/s are measured
        robot.step(READY if carried else WALK, trial())
        robot.pose = np.add(robot.pose, (0.02 * carried, 0.0, 0.0))
        assert robot.steps < 10_000
    response = trial.response()
    for axis, least in ((response.speed, 0.2), (response.yaw_rate, 0.3)):
        assert axis.gain == pytest.approx(0.8, abs=0.02)
        assert axis.delay_s == pytest.approx(0.3, abs=0.1)  # the change of velocities is limited
        assert axis.least == least
    assert "0.10 m/s   commanded,   0.00 measured\n" in trial.table()
    file = tmp_path / "response.json"
    file.write_bytes(response.to_json())
    assert read_response(file) == response


def test_a_trial_of_a_robot_that_does_not_follow_says_so() -> None:
    robot = Robot(MEASURED)
    robot.held = True
    trial = ResponseTrial(lambda: robot.pose, lambda: True)
    while not trial.done:
        robot.step(WALK, trial())
    with pytest.raises(UserError, match=r"does not follow 0.6 m/s ahead: see cmd_vel and odom"):
        trial.response()


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"speed": {}, "yaw_rate": 3},
        {"speed": {"gain": 0.0}, "yaw_rate": {}},
        {"speed": {"gain": None}, "yaw_rate": {}},
        {"speed": {"factor": 1.0}, "yaw_rate": {}},
        {"speed": {"delay_s": 3.0}, "yaw_rate": {}},
    ],
)
def test_a_file_that_is_no_response_is_refused(content: object, tmp_path: Path) -> None:
    file = tmp_path / "response.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=rf"^{file}: expected speed and yaw_rate"):
        read_response(file)


NOT_SENT = 225  # a step, in which it turns


def recorded(folder: Path, response: Response) -> Recording:
    """A recorded walk of `rover`'s high level on a robot that follows."""
    bundle = load_bundle("rover")
    operation = operation_of(bundle.velocity_controller(response))
    recorder = Recorder(folder / "walk.mcap")
    recorder.begin(bundle, response)
    rng = np.random.default_rng(0)
    for number in range(300):
        time_s = number * CONTROL_DT_S
        image = Image(rng.integers(0, 255, bundle.image_shape, np.uint8), time_s)
        pose = np.array((0.001 * number, 0.0, 0.001 * number))
        orientation, rates = np.array(upright(pose[2])), np.zeros(3)
        reading = Reading(time_s, NO_JOINTS, NO_JOINTS, orientation, rates, lambda i=image: i, pose)
        inputs = Inputs(reading, {"camera": 0.0}, WALK)
        result = operation.step(inputs)
        settings = {
            "sensor_timeouts": {}, "driver_timeout_s": 0.5, "motors_enabled": True,
        }  # fmt: skip
        decision = result.decision if result.image else None
        state = operation.state.value
        inputs = replace(inputs, reading=replace(reading, image=no_image))
        recorder.step(
            ControlStep(
                inputs,
                result.command,
                number != NOT_SENT,
                state,
                operation.cause,
                None,
                result.image,
                decision,
                settings,
                100.0,
                number,
            )
        )
    recorder.end("deactivated")
    recorder.close()
    assert recorder.problem is None
    return read_recording(folder / "walk.mcap")


def test_a_recorded_walk_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    response = Response(AxisResponse(0.1, 0.7, 0.05), AxisResponse(0.2, 0.9, 0.1))
    recording = recorded(tmp_path, response)
    figures = replay(recording, recorded_bundle(recording))
    assert (figures["compared"], figures["different"], figures["rounded"]) == (300, 0, 0)
    assert figures["decisions"] > 3
    assert "rover commands the same, bit for bit" in format_figures(figures)
    last: RecordedStep = recording.steps[-1]
    assert last.state == "walking"
    assert last.targets.shape == (3,)
    assert any(step.targets.any() for step in recording.steps)
    with (tmp_path / "walk.mcap").open("rb") as file:
        found = make_reader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages(
            topics=["cmd_vel"]
        )
        sent = [(message.twist.linear.x, message.twist.angular.z) for *_, message in found]
    decided = [(step.targets[0], step.targets[2]) for step in recording.steps]
    assert decided[NOT_SENT] == (0.0, 0.1)
    decided[NOT_SENT] = 0.0, 0.0
    assert sent == decided
    recording.files["response.json"] = Response().to_json()
    assert replay(recording, recorded_bundle(recording))["different"] > 10


def test_what_is_commanded_is_what_was_decided() -> None:
    robot = walking()
    assert robot.step(WALK).velocity[0] == pytest.approx(commanded(AHEAD)[0])
