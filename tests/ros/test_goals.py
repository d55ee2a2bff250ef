"""Goals that are repeated, that wait or are cancelled: `GoalCommand` without ROS communication."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    Controller,
    ControlResult,
    Decision,
    commanded,
    latent_for,
)
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.interface import CONTROL_DT_S, STAND_S, Image, JointCommand, Reading
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.writer import StepWriter
from pixelgait.robot.ros.commands.goal import JUMP_REPORT_S, OdometryJumps
from pixelgait.robot.ros.common.bounded_lines import LINES, BoundedLines
from pixelgait.robot.runtime.control_loop import ControlStep
from pixelgait.robot.runtime.state_machine import Inputs, Operation, Operator, RobotState
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1

GIVE_UP_S = 5.0
SETTLED_S = STAND_S + 0.2
NOTHING = latent_for(0.0, 0.0)
AHEAD = latent_for(0.5, 0.0)  # decided without a look at where the goal is: goals are ahead


class Wire:
    """A subscription that is fed by hand, and its handle."""

    def __init__(self) -> None:
        self.handle, self.msg_type, self.waiting = self, None, []

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def take_message(self, _: object, serialized: bool) -> Any:
        from rclpy.serialization import serialize_message

        if not self.waiting:
            return None
        message = self.waiting.pop(0)
        return (serialize_message(message) if serialized else message), None


class Robot:
    """A robot under a `GoalCommand`, on its own clock, that walks exactly as commanded."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, first: tuple[float, float] | None = None
    ) -> None:
        from pixelgait.robot.ros.commands import goal as goal_position

        self.now_s, self.x, self.latent, self.knows = 1000.0, 0.0, AHEAD, True
        self.w = 1.0  # of odometry's quaternion
        self.off_m, self.frame = 0.0, "odom"  # of the odometry's x
        self.child = ""  # odometry's child_frame_id
        monkeypatch.setattr(goal_position.time, "monotonic", lambda: self.now_s)
        self.wires: dict[str, list[Wire]] = {goal_position.GOAL: [], goal_position.ODOMETRY: []}
        self.operator = Operator(True, first)
        self.goals = self.hears()
        self.operation = self.operates()
        self.angles = A1.default_pose_rad
        self.velocities = np.zeros(12)
        self.said: list[str] = []
        self.steps: list[ControlStep] = []
        self.followed: list[np.ndarray] = []  # latent commands
        self.images = 0  # that the policy saw

    def hears(self) -> Any:
        """Anew at every configure."""
        from pixelgait.robot.ros.commands.goal import GoalCommand

        return GoalCommand(self, self.operator, half, lambda: GIVE_UP_S, "base_link")

    # The part of a node that `GoalCommand` uses.
    def get_clock(self) -> Robot:
        return self

    def now(self) -> Robot:
        return self

    @property
    def nanoseconds(self) -> int:
        return round(1e9 * self.now_s)

    def create_subscription(self, kind: type, topic: str, *_: object, **__: object) -> Wire:
        self.wires[topic].append(Wire())
        return self.wires[topic][-1]

    def operates(self) -> Operation:
        low_level = LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS))
        controller = Controller(lambda *_: Decision(self.latent, 10), low_level, Supervisor(A1))
        operation = Operation(controller, needs_goal=True)
        # This robot has no weight to judge the force of its legs by.
        operation.blocked._push.pushes = lambda *_: False  # type: ignore[method-assign]
        return operation

    def activate(self) -> Robot:
        """Stand up; walk if there is a goal."""
        self.operator.begin()
        self.operator.state = self.operation.state
        self.run(SETTLED_S)
        return self

    def tell(self, x: float, frame: str = "odom", stamp_s: float = 0.0) -> None:
        from geometry_msgs.msg import PoseStamped

        from pixelgait.robot.ros.common import ros2

        message = PoseStamped()
        message.header.stamp = ros2.stamp(round(1e9 * stamp_s))
        message.header.frame_id, message.pose.position.x = frame, x
        for wire in self.wires["goal_pose"]:
            wire.waiting.append(message)

    def run(self, seconds: float, told_every_s: float = np.inf, x: float = np.nan) -> None:
        """Run for so long [s], with the goal (x, 0) repeated."""
        for step in range(round(seconds / CONTROL_DT_S)):
            if told_every_s < np.inf and step % round(told_every_s / CONTROL_DT_S) == 0:
                self.tell(x)
            self.step()

    def step(self) -> None:
        self.now_s += CONTROL_DT_S
        if self.knows:
            self.sense()
        self.goals.take()
        inputs = Inputs(self._reading(), {}, self.operator.commands, CONTROL_DT_S)
        result = self.operation.step(inputs)
        assert self.operation.supervisor.fault is None
        self.operator.state = self.operation.state
        self.images += result.image is not None
        self._obey(result.command)
        self.steps.append(recorded(len(self.steps), inputs, result, self.operation))
        self.followed.append(self.operation.controller.followed)
        for lines in (self.goals.events, self.goals.warnings):
            while lines:
                self.said.append(lines.popleft())

    def sense(self) -> None:
        """Odometry arrives."""
        for wire in self.wires["odom"]:
            wire.waiting.append(self._odometry())

    def _odometry(self) -> Any:
        from nav_msgs.msg import Odometry

        from pixelgait.robot.ros.common import ros2

        message = Odometry()
        message.header.stamp, message.header.frame_id = ros2.stamp(self.nanoseconds), self.frame
        message.child_frame_id = self.child
        message.pose.pose.position.x = self.x + self.off_m
        message.pose.pose.orientation.w = self.w
        return message

    def _reading(self) -> Reading:
        n = len(self.steps)
        return Reading(
            CONTROL_DT_S * n,
            self.angles + 1e-4 * np.sin(n + np.arange(12)),
            self.velocities,
            np.array((0.0, 0.0, 0.0, 1.0)),
            1e-3 * np.sin([n, 0.0, 0.0]),
            lambda: Image(np.full((32, 32, 3), n % 255, np.uint8), CONTROL_DT_S * n),
            self.goals.odometry(),
        )

    def _obey(self, command: JointCommand) -> None:
        stiff = command.kp.any()
        # Knees behind their targets by the robot's weight, as leg odometry expects.
        wanted = command.targets - np.tile((0.0, 0.0, 0.05 * A1.extension_signs[0]), 4)
        moved = np.clip(wanted - self.angles, -0.03, 0.03) if stiff else np.zeros(12)
        self.angles, self.velocities = self.angles + moved, moved / CONTROL_DT_S
        if self.operation.state is RobotState.WALKING:
            self.x += CONTROL_DT_S * commanded(self.operation.controller.followed)[0]

    def arrives(self) -> bool:
        """Within 0.2 m of (1, 0), where it stands."""
        self.run(6.0)
        return self.operation.controller.arrived and self.x == pytest.approx(0.8, abs=0.02)


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch) -> Robot:
    return Robot(monkeypatch)


def half() -> float:
    return 0.5


def recorded(
    number: int, inputs: Inputs, result: ControlResult, operation: Operation
) -> ControlStep:
    settings = {
        "sensor_timeouts": {},
        "driver_timeout_s": operation.driver_timeout_s,
        "motors_enabled": True,
    }
    image = inputs.reading.image()
    return ControlStep(
        *(inputs, result.command, True, operation.state.value, operation.cause, None, image),
        *(result.decision, settings, 0.0, number),
    )


def lines(robot: Robot, words: str) -> int:
    return sum(words in line for line in robot.said)


def test_the_same_goal_again_after_arrival_is_a_new_one(robot: Robot) -> None:
    robot.activate()
    robot.tell(1.0)
    assert robot.arrives()
    robot.x = -1.0  # carried away: it stands, as there is no new goal
    robot.run(2.0)
    assert robot.x == -1.0
    robot.tell(1.0)
    assert robot.arrives()
    assert lines(robot, "on the way to (1.00, 0.00)") == 2


def test_a_goal_at_the_robots_own_place_is_reported_as_reached(robot: Robot) -> None:
    robot.activate()
    robot.tell(1.0)
    assert robot.arrives()
    robot.tell(0.9)
    robot.run(1.0)
    assert [line for line in robot.said if "arrived" in line] == 2 * ["goal_pose: arrived"]
    assert robot.said[-2:] == ["goal_pose: on the way to (0.90, 0.00)", "goal_pose: arrived"]


def test_the_same_goal_again_after_it_was_given_up_is_a_new_one(robot: Robot) -> None:
    robot.activate()
    robot.latent = NOTHING  # in front of a shut door
    robot.tell(1.0)
    robot.run(GIVE_UP_S + 1.0)
    assert lines(robot, "given up, no nearer than 1.0 m for 5 s") == 1
    assert not robot.goals.status()[0]
    robot.latent = AHEAD
    robot.tell(1.0)
    assert robot.arrives()


def test_the_same_goal_again_after_it_was_cancelled_is_a_new_one(robot: Robot) -> None:
    """Also where no control step has come in between."""
    robot.activate()
    robot.tell(1.0)
    robot.run(0.5)
    decided = robot.operation.controller.decision
    assert robot.operator.go_to(None) == (True, "stands")
    robot.tell(1.0)
    robot.step()
    assert robot.operation.controller.decision is not decided
    assert robot.arrives()
    assert lines(robot, "on the way") == 2


def test_the_same_goal_right_after_it_was_cancelled_is_accepted(robot: Robot) -> None:
    """Two subscriptions hear every goal, of which the second changes nothing."""
    robot.activate()
    robot.tell(1.0)
    robot.step()
    robot.operator.go_to(None)
    robot.tell(1.0)
    robot.step()
    assert robot.operator.commands.goal_position == (1.0, 0.0)
    robot.tell(float("nan"))
    robot.step()
    assert lines(robot, "refused, x, y are nan") == 1


def test_a_goal_repeated_on_the_way_is_logged_once_and_times_out(robot: Robot) -> None:
    robot.activate()
    robot.latent = NOTHING
    robot.run(GIVE_UP_S, told_every_s=1.0, x=3.0)
    robot.run(0.5)
    assert [line.partition(",")[0] for line in robot.said] == [
        "goal_pose: on the way to (3.00",
        "goal_pose: given up",
    ]


def test_a_repeated_goal_leaves_the_memory_as_it_is(robot: Robot) -> None:
    """A decision that holds for ten steps is not taken anew either."""
    robot.activate()
    robot.tell(9.0)
    robot.run(1.0)
    images = robot.images
    robot.run(1.0, told_every_s=CONTROL_DT_S, x=9.0)
    assert robot.images - images == 10
    robot.tell(9.5)
    robot.tell(9.0, frame="map")
    robot.run(0.1)
    assert lines(robot, "on the way to (9.50") == lines(robot, "its frame is 'map'") == 1


def test_a_goal_repeated_after_arrival_is_ignored_until_the_robot_has_left(robot: Robot) -> None:
    robot.activate()
    robot.run(6.0, told_every_s=1.0, x=1.0)
    assert robot.operation.controller.arrived
    assert lines(robot, "on the way") == 1
    robot.x = 0.3
    robot.run(3.0, told_every_s=1.0, x=1.0)
    assert robot.x == pytest.approx(0.8, abs=0.02)
    assert lines(robot, "on the way") == 2


@pytest.mark.parametrize(
    ("off_s", "reason"),
    [
        (-86400.0, "it was stamped 86400.0 s ago"),  # of a recording
        (-5.5, "it was stamped 5.5 s ago"),
        (5.5, "it is stamped 5.5 s in the future"),
        (-4.5, None),  # another computer's clock
        (4.5, None),
    ],
)
def test_a_goal_stamped_at_another_time_is_refused(
    robot: Robot, off_s: float, reason: str | None
) -> None:
    robot.now_s = 1e6
    robot.activate()
    robot.tell(3.0, stamp_s=robot.now_s + off_s)
    robot.run(1.0)
    assert (robot.x == 0.0) == (reason is not None)
    if reason is not None:
        assert robot.said == [f"goal_pose: refused, {reason}"]


def test_a_repeated_goal_with_its_old_stamp_keeps_the_robot_walking(robot: Robot) -> None:
    robot.activate()
    given_s = robot.now_s
    for _ in range(8):
        robot.tell(100.0, stamp_s=given_s)
        robot.run(1.0)
    assert robot.said == ["goal_pose: on the way to (100.00, 0.00)"]
    assert robot.x > 2.0
    robot.tell(50.0, stamp_s=given_s)  # an old one does not take its place
    robot.run(1.0)
    assert robot.operator.commands.goal_position == (100.0, 0.0)


@pytest.mark.parametrize(
    ("w", "why"),
    [
        (0.0, "the orientation is no unit quaternion"),
        (1e200, "the orientation is no unit quaternion"),
        (np.nan, "x, y or the orientation is not finite"),
    ],
)
def test_the_robot_stands_while_odometry_has_no_heading(robot: Robot, w: float, why: str) -> None:
    robot.activate()
    robot.tell(3.0)
    robot.run(1.0)
    robot.w, before = w, robot.x
    robot.run(1.0)
    assert robot.x == pytest.approx(before, abs=0.02)
    assert robot.goals.status() == (False, f"odom: {why}")
    robot.w = 1.0
    robot.run(1.0)
    assert robot.x > before + 0.1
    assert [line for line in robot.said if line.startswith("odom")] == [
        f"odom: {why}, the robot stands",
        "odom: back",
    ]


def test_odometry_that_jumps_is_logged_and_used(robot: Robot) -> None:
    """The goal stays where it is in the odometry's frame."""
    robot.activate()
    robot.tell(3.0)
    robot.run(1.0)
    robot.off_m = 2.0
    rule = "REP 105 requires continuity, the robot uses the new pose"
    jumped = f"odom: jumped by 2 m: {rule}"
    robot.run(0.1)
    assert robot.said == ["goal_pose: on the way to (3.00, 0.00)", jumped]
    assert robot.goals.status() == (False, jumped)
    robot.run(JUMP_REPORT_S + 1.0)
    assert robot.x == pytest.approx(0.8, abs=0.02)
    assert robot.goals.status() == (True, "arrived")
    assert lines(robot, "jumped") == 1


def test_odometry_after_invalid_values_is_compared_with_the_last_valid_pose(robot: Robot) -> None:
    robot.activate()
    robot.off_m = np.nan
    robot.run(0.1)
    robot.off_m = 4.0
    robot.run(0.1)
    assert lines(robot, "odom: jumped by 4 m") == len(robot.said) == 1


def test_odometry_that_changes_its_frame_drops_the_goal(robot: Robot) -> None:
    """The robot stands until it gets a goal in the new frame."""
    robot.activate()
    robot.tell(3.0)
    robot.run(1.0)
    robot.frame, robot.off_m = "map", 2.0  # in which the robot is elsewhere: no jump
    robot.run(0.1)
    before = robot.x
    robot.run(2.0)
    assert robot.x == before > 0.1
    changed = "odom: its frame was 'odom' and is 'map'"
    assert robot.goals.status() == (False, changed)
    robot.tell(3.0)
    robot.run(1.0)
    assert robot.x == before
    robot.tell(3.0, frame="map")
    robot.run(4.0)
    assert robot.x == pytest.approx(0.8, abs=0.02)
    assert robot.goals.status() == (True, "arrived")
    assert robot.said == [
        "goal_pose: on the way to (3.00, 0.00)",
        f"{changed}: the goal is dropped, the robot stands",
        "goal_pose: refused, its frame is 'odom', that of odom is 'map'",
        "goal_pose: on the way to (3.00, 0.00)",
        "goal_pose: arrived",
    ]


@pytest.mark.parametrize("child", ["", "base_link", "/base_link", "base_footprint"])
def test_odometry_of_the_base_causes_no_warning(robot: Robot, child: str) -> None:
    robot.child = child
    robot.activate()
    robot.tell(1.0)
    assert robot.arrives()
    assert lines(robot, "odom") == 0


def test_noise_after_arrival_does_not_restart_a_repeated_goal(robot: Robot) -> None:
    """It stands just inside of what counts as there, and noise carries it to and fro."""
    robot.activate()
    rng = np.random.default_rng(0)
    robot.tell(1.0)
    assert robot.arrives()
    for _ in range(30):
        for _ in range(10):
            robot.off_m = rng.normal(0.0, 0.05)
            robot.run(0.1)
        robot.tell(1.0)
    assert lines(robot, "on the way") == 1


def test_the_reported_arrival_is_the_controllers(robot: Robot) -> None:
    """Odometry may come several times within a control step, of which the last one counts."""
    robot.latent, robot.x = NOTHING, 0.79
    robot.activate()
    robot.tell(1.0)
    robot.run(0.1)
    robot.off_m = 0.02
    robot.sense()
    robot.goals.take()
    robot.off_m = 0.0
    robot.run(0.1)
    assert not robot.operation.controller.arrived
    assert robot.goals.status() == (True, "0.21 m to the goal")
    assert lines(robot, "arrived") == 0
    robot.run(GIVE_UP_S)
    assert lines(robot, "given up") == 1


def test_a_goal_is_refused_while_the_position_is_unknown(robot: Robot) -> None:
    """Odometry that ended, and odometry from before another operator."""
    robot.activate()
    robot.knows = False
    robot.run(1.0)
    robot.tell(1.0)
    robot.run(0.1)
    unknown = "goal_pose: refused, position unknown: odom: "
    assert robot.said == [f"{unknown}silent for 1.0 s"]
    robot.knows = True
    robot.run(0.1)
    robot.knows = False
    robot.goals.forget()  # as at activate
    robot.tell(1.0)
    robot.step()
    assert robot.said[1:] == [f"{unknown}never sent"]
    assert robot.operator.commands.goal_position is None


def test_the_robot_stands_while_two_nodes_publish_odometry(robot: Robot) -> None:
    robot.activate()
    robot.tell(9.0)
    robot.run(1.0)
    robot.goals.odometry_conflict = "2 publishers: /leg_odometry, /visual_odometry"
    robot.run(0.5)
    before = robot.x
    robot.run(1.0)
    assert robot.x == before
    assert robot.goals.status() == (False, f"odom: {robot.goals.odometry_conflict}")
    assert robot.goals.seen().warning == robot.goals.odometry_conflict
    robot.tell(8.0)
    robot.step()
    assert robot.said[1:] == [
        f"odom: {robot.goals.odometry_conflict}, the robot stands",
        f"goal_pose: refused, position unknown: odom: {robot.goals.odometry_conflict}",
    ]
    robot.goals.odometry_conflict = None
    robot.run(1.0)
    assert robot.x > before + 0.1
    assert robot.said[-1] == "odom: back"


def test_a_first_goal_that_was_cancelled_does_not_come_back_with_configure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = Robot(monkeypatch, first=(3.0, 0.0))
    assert robot.operator.go_to(None) == (True, "stands")
    robot.goals = robot.hears()
    robot.activate().run(2.0)
    assert robot.x == 0.0


def test_a_change_of_frame_without_a_goal_drops_nothing(robot: Robot) -> None:
    robot.activate()
    robot.frame = "map"
    robot.run(0.1)
    assert not robot.said
    assert robot.goals.status() == (True, "no goal")


def test_odometry_of_another_frame_than_the_base_is_named_once(robot: Robot) -> None:
    robot.child = "camera_link"
    robot.activate()
    robot.tell(1.0)
    assert robot.arrives()
    other = "its child_frame_id is 'camera_link', not the base 'base_link'"
    assert [line for line in robot.said if "odom" in line] == [
        f"odom: {other}: it is used as if it were"
    ]


def walked(seconds: float) -> np.ndarray:
    """For so long, as fast as it can, and turned meanwhile."""
    return seconds * np.array((MAX_SPEED_M_PER_S, 0.0, MAX_YAW_RATE_RAD_PER_S))


def test_noise_silence_and_a_set_clock_are_no_jumps() -> None:
    jumps, rng = OdometryJumps(), np.random.default_rng(3)
    for number in range(20_000):
        stamp_s = 0.02 * number
        said = jumps.moved(stamp_s, walked(stamp_s) + rng.normal(0.0, 0.05, 3), stamp_s)
        assert said is None
    for silent_s in (1.0, 10.0, 3600.0):
        stamp_s += silent_s
        assert jumps.moved(stamp_s, walked(stamp_s), stamp_s) is None
    now_s = stamp_s + 10.0
    assert jumps.moved(5.0, walked(now_s), now_s) is None  # the clock was set back
    assert jumps.recent(now_s) is None


@pytest.mark.parametrize(
    ("moved", "words"),
    [((0.0, -0.7, 0.0), "0.7 m"), ((0.0, 0.0, 2.0), "2 rad"), ((0.0, 0.0, 2 * np.pi), None)],
)
def test_a_jump_is_of_position_or_heading(moved: tuple[float, ...], words: str | None) -> None:
    jumps = OdometryJumps()
    pose = np.array((5.0, 5.0, -3.0))
    assert jumps.moved(10.0, pose, 1.0) is None
    said = jumps.moved(10.02, pose + moved, 1.02)
    assert said is None if words is None else f"jumped by {words}:" in str(said)


def test_frequent_jumps_are_logged_rarely() -> None:
    """Odometry that alternates between two places; the status shows a jump all the time."""
    jumps, said = OdometryJumps(), []
    for number in range(round(2.5 * JUMP_REPORT_S / 0.02)):
        pose = np.array((2.0 * (number % 2), 0.0, 0.0))
        said.append(jumps.moved(0.02 * number, pose, 0.02 * number))
        assert number == 0 or jumps.recent(0.02 * number) is not None
    assert sum(line is not None for line in said) == 3


def test_a_first_goal_is_that_of_odometry_which_came_before_the_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = Robot(monkeypatch, (1.0, 0.0))
    robot.knows = False
    robot.goals.legs = lambda: robot.operation.motion
    robot.operator.begin()
    robot.run(0.5)
    assert robot.operation.state is RobotState.STANDING_UP
    robot.knows = True
    robot.run(SETTLED_S)
    assert robot.arrives()
    assert lines(robot, "on the way to (1.00, 0.00)") == 1


def cancelled(robot: Robot) -> None:
    assert robot.operator.go_to(None) == (True, "stands")
    assert robot.operator.go_to(None) == (False, "had no goal")


def stopped(robot: Robot) -> None:
    robot.operator.emergency_stop("somebody")
    robot.run(0.1)
    robot.operator.reset_stop()
    robot.run(0.1)


def laid_down(robot: Robot) -> None:
    assert robot.operator.lie_down()[0]
    robot.run(2.0)


def raised(robot: Robot) -> None:
    """Whatever it did before, it walks again, if it has somewhere to go."""
    robot.operator.arm()
    assert robot.operator.stand_up()[0]
    robot.run(SETTLED_S)
    assert robot.operator.walk()[0]


@pytest.mark.parametrize("voids", [cancelled, stopped, laid_down])
@pytest.mark.parametrize("knows", [True, False], ids=["odometry", "no odometry"])
def test_a_dropped_goal_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, voids: Callable[[Robot], None], knows: bool
) -> None:
    robot = Robot(monkeypatch, (1.0, 0.0))
    robot.knows = knows
    robot.activate()
    voids(robot)
    robot.knows, robot.x = True, 0.0
    robot.run(0.1)
    raised(robot)
    robot.run(3.0)
    assert (robot.operation.state, robot.x) == (RobotState.WALKING, 0.0)
    assert robot.goals.status() == (True, "no goal")
    assert lines(robot, "goal_pose: dropped") == 1
    robot.tell(1.0)
    assert robot.arrives()
    assert lines(robot, "dropped") == 1


def test_a_goal_during_an_emergency_stop_is_refused_with_a_message(robot: Robot) -> None:
    robot.activate()
    robot.operator.emergency_stop("somebody")
    robot.run(0.1)
    robot.tell(1.0)
    robot.run(0.1)
    assert lines(robot, "refused, stopped by somebody: reset the emergency stop first") == 1
    robot.operator.reset_stop()
    robot.run(0.1)
    raised(robot)
    robot.run(3.0)
    assert (robot.operation.state, robot.x) == (RobotState.WALKING, 0.0)


@pytest.mark.parametrize("stops", [False, True], ids=["cancelled", "stopped"])
def test_a_first_goal_may_be_dropped_before_activation(
    monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """All the while that a node waits for its sensors."""
    robot = Robot(monkeypatch, (1.0, 0.0))
    robot.goals.take()
    if stops:
        robot.operator.emergency_stop("somebody")
        robot.operator.reset_stop()
    else:
        cancelled(robot)
    robot.activate()
    robot.run(3.0)
    assert (robot.operation.state, robot.x) == (RobotState.WALKING, 0.0)


def test_a_walk_with_a_repeated_goal_replays_bit_for_bit(robot: Robot, tmp_path: Path) -> None:
    robot.activate()
    robot.tell(1.0)
    assert robot.arrives()
    robot.x = -1.0
    robot.tell(1.0)
    assert robot.arrives()
    file = tmp_path / "walk.mcap"
    with file.open("wb") as stream:
        writer = StepWriter(stream)
        writer.begin({}, {}, A1.joint_names)
        for step in robot.steps:
            writer.step(step)
        writer.finish()
    operation, followed = robot.operates(), []
    read = read_recording(file).steps
    assert len({step.inputs.commands.goal_number for step in read}) == 3  # none, one, two
    for step, wanted in zip(read, robot.steps, strict=True):
        command = operation.step(step.inputs).command
        assert command.targets.tobytes() == wanted.command.targets.tobytes()
        assert command.kp.tobytes() == wanted.command.kp.tobytes()
        followed.append(operation.controller.followed)
    assert np.array_equal(followed, robot.followed)


def test_a_flood_of_goals_costs_a_bounded_number_of_decisions_and_lines(robot: Robot) -> None:
    """Random goals at 100 Hz once cost a decision and a log line in every control step."""
    from pixelgait.robot.ros.commands.goal import GOALS_AT_ONCE, GOALS_PER_S

    robot.activate()
    rng = np.random.default_rng(0)
    lines, logged, seconds = BoundedLines(lambda: robot.now_s), [], 5.0
    robot.tell(50.0)
    robot.run(0.1)
    images, said = robot.images, len(robot.said)
    for step in range(round(seconds / CONTROL_DT_S)):
        robot.tell(x := float(rng.uniform(20.0, 100.0)))
        robot.step()
        if step % 10 == 0:
            logged += lines.take(deque(robot.said[said:]))
            said = len(robot.said)
    passed_on = GOALS_AT_ONCE + seconds * GOALS_PER_S
    assert robot.images - images <= passed_on + seconds / 0.1
    assert len(robot.said) <= passed_on + 1
    assert 0 < len(logged) <= (seconds + 1) * LINES
    robot.run(0.2)
    assert robot.operator.commands.goal_position == (x, 0.0)  # the newest is not lost
    assert robot.x > 1.0  # and it walks


def test_a_goal_that_waits_is_void_after_it_was_cancelled(robot: Robot) -> None:
    robot.activate()
    for number in range(6):
        robot.tell(10.0 + number)
        robot.step()
    assert robot.operator.commands.goal_position != (15.0, 0.0)
    robot.operator.go_to(None)
    robot.run(1.0)
    assert robot.operator.commands.goal_position is None


def test_log_lines_are_bounded_and_the_newest_is_not_lost() -> None:
    now_s = [0.0]
    lines = BoundedLines(lambda: now_s[0])
    assert lines.take(deque(map(str, range(20)))) == ["0", "1", "2", "3", "4"]
    now_s[0] = 0.5
    assert lines.take(deque(["x"])) == []
    now_s[0] = 1.0
    assert lines.take(deque(["y"])) == ["x (15 lines before it were left out)", "y"]
    assert lines.rest() == []


def test_legs_count_until_another_odometry_begins(robot: Robot) -> None:
    """Whose frame is another: a goal on the way is void."""
    robot.knows = False
    robot.goals.legs = lambda: robot.operation.motion
    robot.activate()
    robot.tell(3.0, frame="map")
    robot.tell(3.0)
    robot.run(0.5)
    assert robot.operator.commands.goal_position == (3.0, 0.0)
    assert robot.goals.distance_m() == pytest.approx(3.0, abs=0.1)
    assert robot.goals.status()[0]
    assert robot.goals.seen() is None
    assert robot.operation.by_legs
    assert lines(robot, "refused, its frame is 'map', that of odom is 'odom'") == 1
    robot.knows = True
    robot.run(0.1)
    assert robot.operator.commands.goal_position is None
    assert lines(robot, "another node's begins, its frame is not that of the legs") == 1
    assert not robot.operation.by_legs
    robot.tell(3.0)
    robot.run(0.5)
    robot.knows = False
    robot.run(1.0)
    assert robot.goals.status() == (False, "odom: silent for 1.0 s")  # and it stands
    assert np.isnan(robot.goals.odometry()).all()


def test_a_goal_for_a_robot_that_was_lifted_is_from_where_it_stands(robot: Robot) -> None:
    robot.knows = False
    robot.goals.legs = lambda: robot.operation.motion
    robot.activate()
    robot.tell(3.0)
    robot.run(0.5)
    robot.operation._legs._lifted = 1.0  # and put down
    robot.step()
    assert robot.operation.lost
    robot.operator.go_to(None)  # as the control loop does
    robot.step()
    before = robot.x
    robot.tell(4.0)
    robot.run(0.5)
    assert robot.operator.commands.goal_position == (4.0, 0.0)
    assert not robot.operation.lost
    assert robot.x > before + 0.1
    assert lines(robot, "refused") == lines(robot, "the robot stands") == 0
