"""Goals from `goal_pose` and the odometry `odom` that measures progress to them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from std_msgs.msg import Float64

from pixelgait.robot.control.controller import ARRIVAL_M, MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.control.observation import goal_vector
from pixelgait.robot.estimation.leg_odometry import LOST, UNKNOWN, Motion
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.bounded_lines import BoundedLines
from pixelgait.robot.ros.common.topic_names import DISTANCE, ODOMETRY
from pixelgait.robot.rotation import heading, is_unit, wrap_angle
from pixelgait.robot.runtime.goal_progress import Progress
from pixelgait.robot.runtime.state_machine import NOWHERE, Operator, RobotState
from pixelgait.robot.safety.sensor_age import Freshness, SensorReport
from pixelgait.robot.safety.supervisor import SensorHealth
from pixelgait.robot.spec import Array

GOAL = "goal_pose"
# Largest difference of a goal's stamp from now: clocks differ, goals of a recording are older.
# Assumption.
MAX_STAMP_OFFSET_S = 5.0
DUPLICATE_S = 0.1  # within which two subscriptions receive the same message; assumption
# From a goal that was reached: more than the noise of odometry; assumption.
MOVED_AWAY_M = 2.0 * ARRIVAL_M
# Goals that are passed on: each costs a decision at once. A program that sends them at 100 Hz took
# 5 % of the control steps' deadlines. Assumptions: as often as a policy decides, several at once.
GOALS_PER_S, GOALS_AT_ONCE = 10.0, 3.0
FOOTPRINT = "base_footprint"  # REP 120: the base projected on the floor, same x, y and heading
# A jump is larger than JUMP_M, JUMP_RAD, 7 standard deviations of a noise of 0.05 m and rad between
# two messages, plus three times the distance that the robot can walk: it may be pushed or slip.
# Assumptions.
JUMP_SPEED_FACTOR, JUMP_M, JUMP_RAD = 3.0, 0.5, 0.5
JUMP_REPORT_S = 10.0  # a jump stays in the status for so long, and the next is not logged before


class OdometryJumps:
    """Detects jumps: two poses further apart than the robot can have moved (REP 105)."""

    def __init__(self) -> None:
        self._newest: tuple[str, float] | None = None  # description, time [s]
        self._reported_s = -math.inf
        self.forget()

    def forget(self) -> None:
        """Do not compare the next pose, as after a change of the frame."""
        self._before: tuple[float, Array] | None = None

    def moved(self, stamp_s: float, pose: Array, now_s: float) -> str | None:
        """Check a pose x, y [m], heading [rad] with its stamp, at this time [s] (monotonic).

        Returns:
            A description of the jump, at most one every `JUMP_REPORT_S`; None if there is none.
        """
        before, self._before = self._before, (stamp_s, pose)
        if before is None or (size := _jump(pose - before[1], abs(stamp_s - before[0]))) is None:
            return None
        line = f"jumped by {size}: REP 105 requires continuity, the robot uses the new pose"
        self._newest = line, now_s
        if now_s - self._reported_s < JUMP_REPORT_S:
            return None
        self._reported_s = now_s
        return line

    def recent(self, now_s: float) -> str | None:
        """Description of the newest jump within `JUMP_REPORT_S`; from any thread."""
        newest = self._newest
        return newest[0] if newest is not None and now_s - newest[1] < JUMP_REPORT_S else None


def _jump(moved: Array, seconds: float) -> str | None:
    """Size of a jump by x, y [m], heading [rad] within so long [s]; None if it is no jump."""
    x, y, turned = moved.tolist()
    path_length_m, turned_rad = math.hypot(x, y), abs(wrap_angle(turned))
    if path_length_m > JUMP_M + JUMP_SPEED_FACTOR * MAX_SPEED_M_PER_S * seconds:
        return f"{path_length_m:.3g} m"
    if turned_rad > JUMP_RAD + JUMP_SPEED_FACTOR * MAX_YAW_RATE_RAD_PER_S * seconds:
        return f"{turned_rad:.3g} rad"
    return None


class GoalCommand:
    """Passes goals to the operator and odometry to the control loop, in the control thread.

    * Goals are in the odometry's frame (REP 105: `odom`); goals on a map must be transformed.
    * `legs` is the robot's own odometry, which counts until one arrives on the topic. Goals on the
      way are void then: its frame is another.
    * The robot stands while odometry is silent for `timeout_s()` or has several publishers
      (`odometry_conflict` names them). Odometry that jumps is logged and used.
    * Of goals that come faster than `GOALS_PER_S` the newest is passed on.
    * A goal is given up after `progress_timeout_s()` (0: never) of walking without progress. The
      same goal repeated on the way does not restart that time.
    * `base_frame` is the frame that odometry should describe.
    * `events` and `warnings` are lines for the log.
    """

    def __init__(
        self,
        node: Any,
        operator: Operator,
        timeout_s: Callable[[], float],
        progress_timeout_s: Callable[[], float],
        base_frame: str,
    ) -> None:
        self.operator = operator
        self._timeout_s, self._progress_timeout_s = timeout_s, progress_timeout_s
        self._node = node
        self.legs: Callable[[], Motion | None] = lambda: None
        # Whether what arrives on the topic is published by this node.
        self.is_own: Callable[[], bool] = lambda: False
        self.events: deque[str] = deque(maxlen=100)
        self.warnings: deque[str] = deque(maxlen=100)
        self._poses = ros2.subscribe(node, Odometry, ODOMETRY)
        # As for the emergency stop: best effort receives every publisher, reliable loses nothing.
        self._goals = [
            ros2.subscribe(node, PoseStamped, GOAL, quality, event_callbacks=ros2.SILENT)
            for quality in (ros2.NEWEST_QOS, ros2.COMMAND_QOS)
        ]
        self._newest_goal: tuple[Any, float, Any] = (None, 0.0, None)  # content, time, subscription
        # A goal that waits to be passed on, and the number of the one that it follows.
        self._waiting: tuple[tuple[float, float], int] | None = None
        self._allowed, self._allowed_s = GOALS_AT_ONCE, -math.inf  # goals, at this time
        self.odometry_conflict: str | None = None
        self._freshness = Freshness(ODOMETRY)
        self._frame: str | None = None  # of the odometry
        self._pose: Array | None = None  # (3,)
        self._base_frame: str | None = base_frame  # None after the warning about another frame
        self._jumps = OdometryJumps()
        self._heard = False  # whether a message has arrived, usable or not
        self._unusable: str | None = None  # why the newest pose cannot be used
        self._position_known = True
        self._received = 0
        self._number = operator.commands.goal_number  # of the newest goal
        self._progress = Progress()
        self._arrived = False
        self._dropped: str | None = None  # why the last goal was dropped, until the next one
        # Whether there is a goal, or will be with the first odometry.
        self._has_goal = operator.first is not None

    def take(self) -> None:
        """Process the messages that have arrived.

        Raises:
            UserError: the odometry has no stamp.
        """
        if (odometry := ros2.take(self._poses)) is not None and not self.is_own():
            self._take_odometry(odometry)
        for subscription in self._goals:
            goal = ros2.take(subscription)
            if goal is not None and not self._is_duplicate(goal, subscription):
                self._take_goal(goal)
        self._pass_on()
        self._follow_operator()

    def forget(self) -> None:
        """Treat odometry as never sent: the robot may have been moved since the last message."""
        self._freshness.forget()
        self._jumps.forget()
        self._frame = self._pose = None
        self._heard = False

    @property
    def by_legs(self) -> bool:
        """Whether no message has arrived on the topic: then legs are the odometry."""
        return not self._heard

    @property
    def _motion(self) -> Motion | None:
        """The motion by the robot's legs while they are the odometry, else None."""
        return self.legs() if self.by_legs else None

    @property
    def frame(self) -> str | None:
        """The frame of the odometry; None without one."""
        return self._frame if self._motion is None else ODOMETRY

    @property
    def pose(self) -> Array | None:
        """The newest pose (3,): x, y [m], heading [rad]; None without one. From any thread."""
        if (motion := self._motion) is None:
            return self._pose
        return np.array((motion.x, motion.y, motion.heading))

    def odometry(self) -> Array | None:
        """Pose (3,) as it arrived: x, y [m], heading [rad]; nan if it is unknown, None if none
        arrived so far. Called once a control step.
        """
        self._check_progress()
        missing = self._missing()
        known = missing in (None, LOST)  # a goal for a robot that was lifted is from where it is
        if self._walks_to_goal and self._position_known != known:
            self._position_known = known
            self.events.append(
                f"{ODOMETRY}: back" if known else f"{ODOMETRY}: {missing}, the robot stands"
            )
        if self.by_legs:
            return None
        return NOWHERE if missing or self._pose is None else self._pose

    @property
    def _walks_to_goal(self) -> bool:
        walks = self.operator.state is RobotState.WALKING
        return walks and self.operator.commands.goal_position is not None

    def status(self) -> tuple[bool, str]:
        """For the diagnostics: whether all is well, and a description; from any thread."""
        if self._dropped is not None:
            return False, self._dropped
        goal = self.operator.commands.goal_position or self.operator.first
        if goal and (missing := self._missing()):
            return False, f"{ODOMETRY}: {missing}"
        if jumped := self._jumps.recent(time.monotonic()):
            return False, f"{ODOMETRY}: {jumped}"
        if (remaining_m := self.distance_m()) is None:
            return True, "no goal"
        return True, "arrived" if self._arrived else f"{remaining_m:.2f} m to the goal"

    def seen(self) -> SensorReport | None:
        """The topic's sensor health: fresh, or stale (the robot stands), never dead; None while
        the robot goes by its legs.
        """
        if self._motion is not None:
            return None
        age_s = self._freshness.age_s(time.monotonic())
        health = SensorHealth.STALE if self._missing() else SensorHealth.FRESH
        warning = self._freshness.warning or self.odometry_conflict or self._unusable
        return SensorReport(health, age_s, warning, self._received)

    def distance_m(self) -> float | None:
        """Distance to the goal [m]; None without a goal or a pose. From any thread."""
        goal = self.operator.commands.goal_position
        pose = self.pose  # read once: the control thread may replace it
        if goal is None or pose is None:
            return None
        return float(goal_vector(np.array(goal), pose)[0])

    def _missing(self) -> str | None:
        """Why the robot's position is unknown; None if it is known."""
        if (motion := self._motion) is not None:
            return motion.problem if motion.problem in UNKNOWN else None
        age_s, warning = self._freshness.age_s(time.monotonic()), self._freshness.warning
        if math.isinf(age_s):
            return warning or "never sent"
        if age_s > self._timeout_s():
            return f"silent for {age_s:.1f} s" + (f" ({warning})" if warning else "")
        return self.odometry_conflict or self._unusable

    def _check_progress(self) -> None:
        """Note the arrival; give the goal up if the robot walks without coming nearer."""
        if (
            self.operator.commands.goal_position is None
            or self.operator.state is not RobotState.WALKING
        ):
            self._restart_progress()
        elif (
            self.operator.commands.steered  # by a remote control: the goal waits
            or self._missing()
            or (remaining_m := self.distance_m()) is None
        ):
            self._progress.pause()
        elif self._arrived:
            return
        elif remaining_m < ARRIVAL_M:
            self._arrived = True
            self.events.append(f"{GOAL}: arrived")
        else:
            waited_s = self._progress.waited_s(remaining_m, time.monotonic())
            if 0.0 < (timeout_s := self._progress_timeout_s()) < waited_s:
                nearest = f"no nearer than {self._progress.nearest_m:.1f} m for {timeout_s:g} s"
                self._give_up(f"{GOAL}: given up, {nearest}")

    def _restart_progress(self) -> None:
        self._progress.begin()
        self._arrived = False

    def _take_odometry(self, message: Any) -> None:
        self._received += 1
        first, self._heard = not self._heard, True
        if first and self.legs() is not None and self._walks_to_goal:
            self._give_up(f"{ODOMETRY}: another node's begins, its frame is not that of the legs")
        stamp_s, now_s = ros2.seconds(message.header.stamp), ros2.now_s(self._node)
        if not self._freshness.arrived(stamp_s, now_s, time.monotonic()):
            return
        self._check_frame(message.child_frame_id)
        position, q = message.pose.pose.position, message.pose.pose.orientation
        quaternion = (q.x, q.y, q.z, q.w)
        self._unusable = _unusable(position.x, position.y, quaternion)
        frame = message.header.frame_id
        if self._frame is not None and frame != self._frame:
            self._jumps.forget()
            if self.operator.commands.goal_position is not None:
                self._give_up(f"{ODOMETRY}: its frame was '{self._frame}' and is '{frame}'")
        self._frame = frame
        pose = np.array((position.x, position.y, heading(quaternion)))
        self._pose = pose if self._unusable is None else None
        if self._pose is None:
            return
        if jump := self._jumps.moved(stamp_s, self._pose, time.monotonic()):
            self.warnings.append(f"{ODOMETRY}: {jump}")

    def _check_frame(self, frame: str) -> None:
        """Warn once of odometry that describes another frame than the base, as a camera's."""
        base = self._base_frame
        if base is not None and frame.lstrip("/") not in ("", base, FOOTPRINT):
            self._base_frame = None
            self.warnings.append(
                f"{ODOMETRY}: its child_frame_id is '{frame}', not the base '{base}': "
                "it is used as if it were"
            )

    def _is_duplicate(self, message: Any, subscription: Any) -> bool:
        """Whether another subscription has just received the same message."""
        position, now_s = message.pose.position, time.monotonic()
        content = (str(message.header), str(position.x), str(position.y))  # text: NaN is not NaN
        before, before_s, first = self._newest_goal
        if before == content and now_s - before_s < DUPLICATE_S and first is not subscription:
            return True
        self._newest_goal = content, now_s, subscription
        return False

    def _take_goal(self, message: Any) -> None:
        frame, position = message.header.frame_id, message.pose.position
        if self.operator.state is None:
            self._refuse("the node is not active")
        elif self.pose is None:
            self._refuse(f"position unknown: {ODOMETRY}: {self._missing()}")
        elif frame != self.frame:
            self._refuse(f"its frame is '{frame}', that of {ODOMETRY} is '{self.frame}'")
        elif not (math.isfinite(position.x) and math.isfinite(position.y)):
            self._refuse(f"x, y are {position.x}, {position.y}")
        elif self._is_current((position.x, position.y)):
            return
        elif (missing := self._missing()) not in (None, LOST):  # from where it stands now
            self._refuse(f"position unknown: {ODOMETRY}: {missing}")
        elif reason := self._untimely(message.header.stamp):
            self._refuse(reason)
        else:
            self._waiting = (position.x, position.y), self.operator.commands.goal_number

    def _pass_on(self) -> None:
        """Pass the goal that waits to the operator, unless there were too many or it is void."""
        if self._waiting is None:
            return
        now_s, (position, number) = time.monotonic(), self._waiting
        since_s, self._allowed_s = now_s - self._allowed_s, now_s
        self._allowed = min(GOALS_AT_ONCE, self._allowed + GOALS_PER_S * since_s)
        if self._allowed < 1.0 and number == self.operator.commands.goal_number:
            return
        self._waiting = None
        if number != self.operator.commands.goal_number:  # cancelled, or given another way
            return
        self._allowed -= 1.0
        accepted, reason = self.operator.go_to(position)
        if not accepted:
            self._refuse(reason)

    def _untimely(self, stamp: Any) -> str | None:
        """Why a goal's stamp is not of now, as in a recording; None also for a goal without one."""
        if not ros2.nanoseconds(stamp):
            return None
        age_s = ros2.now_s(self._node) - ros2.seconds(stamp)
        if age_s > MAX_STAMP_OFFSET_S:
            return f"it was stamped {age_s:.1f} s ago"
        return (
            f"it is stamped {-age_s:.1f} s in the future" if -age_s > MAX_STAMP_OFFSET_S else None
        )

    def _is_current(self, position: tuple[float, float]) -> bool:
        """Whether the robot walks to this goal x, y [m], or has arrived there and not left."""
        if position != self.operator.commands.goal_position:
            return False
        remaining_m = self.distance_m()
        return not self._arrived or (remaining_m is not None and remaining_m < MOVED_AWAY_M)

    def _follow_operator(self) -> None:
        """Note a new or dropped goal of the operator, from wherever it was given."""
        commands = self.operator.commands
        has_goal = (commands.goal_position or self.operator.first) is not None
        if self._has_goal and not has_goal and self._dropped is None:
            self.events.append(f"{GOAL}: dropped")
        self._has_goal = has_goal
        if commands.goal_position is None or commands.goal_number == self._number:
            return
        self._number, self._position_known, self._dropped = commands.goal_number, True, None
        self._restart_progress()
        x, y = commands.goal_position
        self.events.append(f"{GOAL}: on the way to ({x:.2f}, {y:.2f})")

    def _refuse(self, reason: str) -> None:
        """Keep the previous goal."""
        self.events.append(f"{GOAL}: refused, {reason}")

    def _give_up(self, reason: str) -> None:
        self.operator.go_to(None)
        self._dropped = reason
        self.events.append(f"{reason}: the goal is dropped, the robot stands")


def _unusable(x: float, y: float, quaternion: tuple[float, ...]) -> str | None:
    """Why a pose cannot be used, or None."""
    if not all(math.isfinite(value) for value in (x, y, *quaternion)):
        return "x, y or the orientation is not finite"
    if not is_unit(quaternion):  # all 0 by default
        return "the orientation is no unit quaternion"
    return None


class GoalReport:
    """Publishes the distance to the goal (`~/distance_to_goal`) and logs what happens to goals.

    A single NaN says that there is no goal any more.
    """

    def __init__(self, node: Any) -> None:
        self._logger, self._lines = node.get_logger(), BoundedLines()
        self._distance = node.create_publisher(Float64, f"~/{DISTANCE}", 1)
        self._published = False

    def publish(self, goal: GoalCommand) -> None:
        """Called in the executor's thread."""
        for line in self._lines.take(goal.events):
            self._logger.info(line)
        while goal.warnings:
            self._logger.warning(goal.warnings.popleft())
        distance_m = goal.distance_m()
        if distance_m is not None or self._published:
            self._distance.publish(Float64(data=math.nan if distance_m is None else distance_m))
        self._published = distance_m is not None
