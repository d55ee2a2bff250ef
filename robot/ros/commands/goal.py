"""`goal_pose`, where people want the robot to be, and `odom`, where it believes it is."""

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

from pixelgait.robot.control.controller import ARRIVAL_M
from pixelgait.robot.control.low_level import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.control.observation import goal_vector
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DISTANCE, ODOMETRY
from pixelgait.robot.rotation import heading, is_unit, wrap_angle
from pixelgait.robot.runtime.operator_commands import Operator, RobotState
from pixelgait.robot.safety.sensor_age import Freshness, Seen
from pixelgait.robot.safety.supervisor import SensorHealth
from pixelgait.robot.spec import Array

GOAL = "goal_pose"
# How far a goal's stamp may be off: computers are not always synchronised, and what a recording
# tells is older; ours.
GOAL_OFF_S = 5.0
TWICE_S = 0.1  # within which two subscriptions hear one message; ours
# From its goal, of a robot that had arrived: noise of a few centimetres has not moved it; ours.
MOVED_AWAY_M = 2.0 * ARRIVAL_M
FOOTPRINT = "base_footprint"  # REP 120: the base's place on the floor; x, y, heading are the same


class GoalCommand:
    """Hands goals to the operator and odometry to the loop; all in the control thread.

    A goal stands in the odometry's own frame (REP 105: `odom`): whoever has a map transforms it.
    Odometry that is silent for `timeout_s()` is as good as none: the robot stands. So is that of
    several publishers, none of whose poses is to be believed: `rivals` names them. It stands, too,
    when it has walked for `progress_timeout_s()`, if that is not 0, and come no nearer: then the
    goal is given up. A goal that is repeated while the robot walks there changes nothing: whoever
    repeats it every second would reset this time-out. `base_frame` is the robot's
    own, of which odometry should tell. `news` are lines for people, `warnings` those of what
    somebody should mend.

    Odometry that jumps is said, and walked by: the goal stays where it is in the odometry's frame.
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
        self.news: deque[str] = deque(maxlen=100)
        self.warnings: deque[str] = deque(maxlen=100)
        self._poses = ros2.subscribe(node, Odometry, ODOMETRY)
        # As of an emergency stop: whoever says it once shall be heard, and everybody be heard.
        self._goals = [
            ros2.subscribe(node, PoseStamped, GOAL, quality, event_callbacks=ros2.SILENT)
            for quality in (ros2.NEWEST_QOS, ros2.COMMAND_QOS)
        ]
        self._heard: tuple[Any, float, Any] = (None, 0.0, None)  # what, when [s], by which of them
        self.rivals: str | None = None
        self._freshness = Freshness(ODOMETRY)
        self._frame: str | None = None  # of the odometry
        self._pose: Array | None = None  # (3,)
        self._base_frame: str | None = base_frame  # None: said that odometry is of another
        self._jumps = Jumps()
        self._unusable: str | None = None  # why there is none, though odometry came
        self._known = True
        self._received = 0
        self._number = operator.commands.goal_number  # of the newest
        self._progress = Progress()
        self._arrived = False
        self._void: str | None = None  # why there is no destination any more, until the next
        # Whether there is one, or will be once there is odometry.
        self._wanted = operator.first is not None

    def take(self) -> None:
        """Hear what has arrived.

        Raises:
            UserError: the odometry has no stamp.
        """
        if (moved := ros2.take(self._poses)) is not None:
            self._moved(moved)
        for subscription in self._goals:
            asked = ros2.take(subscription)
            if asked is not None and not self._twice(asked, subscription):
                self._asked(asked)
        self._apply()

    def forget(self) -> None:
        """Treat odometry as never sent: since somebody heard it last the robot may have moved."""
        self._freshness.forget()
        self._jumps.forget()
        self._frame = self._pose = None

    def odometry(self) -> Array | None:
        """(3,): x, y [m], heading [rad]; None if that is not known, or not any more.

        Once in a control step: what is told of the way goes by the pose that the controller has.
        """
        self._watch()
        missing = self._missing()
        on_the_way = (
            self.operator.commands.goal_position and self.operator.state is RobotState.WALKING
        )
        if on_the_way and self._known != (missing is None):
            self._known = missing is None
            self.news.append(
                f"{ODOMETRY}: {missing}, the robot stands" if missing else f"{ODOMETRY}: back"
            )
        return None if missing else self._pose

    def status(self) -> tuple[bool, str]:
        """Whether all is well on the way, and in words how it stands; from any thread."""
        if self._void is not None:
            return False, self._void
        wanted = self.operator.commands.goal_position or self.operator.first
        if wanted and (missing := self._missing()):
            return False, f"{ODOMETRY}: {missing}"
        if jumped := self._jumps.recent(time.monotonic()):
            return False, f"{ODOMETRY}: {jumped}"
        if (remaining_m := self.distance_m()) is None:
            return True, "no goal"
        return True, "arrived" if self._arrived else f"{remaining_m:.2f} m to the goal"

    def seen(self) -> Seen:
        """The odometry as a sensor: fresh, or stale and the robot stands; never dead."""
        age_s = self._freshness.age_s(time.monotonic())
        stage = SensorHealth.STALE if self._missing() else SensorHealth.FRESH
        warning = self._freshness.warning or self.rivals or self._unusable
        return Seen(stage, age_s, warning, self._received)

    def distance_m(self) -> float | None:
        """To the destination; None without one."""
        wanted = self.operator.commands.goal_position
        pose = self._pose  # once: the control thread forgets one that is not to be believed
        if wanted is None or pose is None:
            return None
        return float(goal_vector(np.array(wanted), pose)[0])

    def _missing(self) -> str | None:
        """Why nobody knows where the robot is; None: it is known."""
        age_s, warning = self._freshness.age_s(time.monotonic()), self._freshness.warning
        if math.isinf(age_s):
            return warning or "never sent"
        if age_s > self._timeout_s():
            return f"silent for {age_s:.1f} s" + (f" ({warning})" if warning else "")
        return self.rivals or self._unusable

    def _watch(self) -> None:
        """Give the goal up if the robot walks and comes no nearer to it."""
        if (
            self.operator.commands.goal_position is None
            or self.operator.state is not RobotState.WALKING
        ):
            self._set_out_anew()  # as soon as it walks again
        elif self._missing() or (remaining_m := self.distance_m()) is None:
            self._progress.pause()
        elif self._arrived:
            return  # whatever becomes of the robot there
        elif remaining_m < ARRIVAL_M:
            self._arrived = True
            self.news.append(f"{GOAL}: arrived")
        else:
            waited_s = self._progress.waited_s(remaining_m, time.monotonic())
            if 0.0 < (timeout_s := self._progress_timeout_s()) < waited_s:
                nearest = f"no nearer than {self._progress.nearest_m:.1f} m for {timeout_s:g} s"
                self._give_up(f"{GOAL}: given up, {nearest}")

    def _set_out_anew(self) -> None:
        self._progress.begin()
        self._arrived = False

    def _moved(self, message: Any) -> None:
        self._received += 1
        stamp_s, now_s = ros2.seconds(message.header.stamp), ros2.now_s(self._node)
        if not self._freshness.arrived(stamp_s, now_s, time.monotonic()):
            return
        self._compare(message.child_frame_id)
        position, q = message.pose.pose.position, message.pose.pose.orientation
        quaternion = (q.x, q.y, q.z, q.w)
        self._unusable = _unusable(position.x, position.y, quaternion)
        frame = message.header.frame_id
        if self._frame is not None and frame != self._frame:
            self._jumps.forget()
            if self.operator.commands.goal_position is not None:
                self._give_up(f"{ODOMETRY}: its frame was '{self._frame}' and is '{frame}'")
        self._frame = frame
        place = np.array((position.x, position.y, heading(quaternion)))
        self._pose = place if self._unusable is None else None
        if self._pose is None:
            return
        if jumped := self._jumps.moved(stamp_s, self._pose, time.monotonic()):
            self.warnings.append(f"{ODOMETRY}: {jumped}")

    def _compare(self, frame: str) -> None:
        """Say once that odometry is of another frame than the base, as of a camera; "": unknown."""
        base = self._base_frame
        if base is not None and frame.lstrip("/") not in ("", base, FOOTPRINT):
            self._base_frame = None
            self.warnings.append(
                f"{ODOMETRY}: its child_frame_id is '{frame}', not the base '{base}': "
                "the robot goes on as if it were"
            )

    def _twice(self, message: Any, by: Any) -> bool:
        """Whether another subscription than this one has just heard the same."""
        place, now_s = message.pose.position, time.monotonic()
        said = (str(message.header), str(place.x), str(place.y))  # NaN is not like itself
        before, before_s, first = self._heard
        if before == said and now_s - before_s < TWICE_S and first is not by:
            return True
        self._heard = said, now_s, by
        return False

    def _asked(self, message: Any) -> None:
        frame, place = message.header.frame_id, message.pose.position
        if self.operator.state is None:
            self._refuse("nobody operates the robot: the node is not active")
        elif self._pose is None:
            self._refuse(f"nobody knows where the robot is: {ODOMETRY}: {self._missing()}")
        elif frame != self._frame:
            self._refuse(f"its frame is '{frame}', that of {ODOMETRY} is '{self._frame}'")
        elif not (math.isfinite(place.x) and math.isfinite(place.y)):
            self._refuse(f"x, y are {place.x}, {place.y}")
        elif self._pursues((place.x, place.y)):
            return
        elif missing := self._missing():
            self._refuse(f"nobody knows where the robot is: {ODOMETRY}: {missing}")
        elif reason := self._untimely(message.header.stamp):
            self._refuse(reason)
        else:
            accepted, reason = self.operator.go_to((place.x, place.y))
            if not accepted:
                self._refuse(reason)

    def _untimely(self, stamp: Any) -> str | None:
        """Why a goal was not given now, as one in a recording is not; who does not stamp it may."""
        if not ros2.nanoseconds(stamp):
            return None
        age_s = ros2.now_s(self._node) - ros2.seconds(stamp)
        if age_s > GOAL_OFF_S:
            return f"it was stamped {age_s:.1f} s ago"
        return f"it is stamped {-age_s:.1f} s in the future" if -age_s > GOAL_OFF_S else None

    def _pursues(self, place: tuple[float, float]) -> bool:
        """Whether the robot is on its way to a place x, y [m], or has come and is there still."""
        if place != self.operator.commands.goal_position:
            return False
        remaining_m = self.distance_m()
        return not self._arrived or (remaining_m is not None and remaining_m < MOVED_AWAY_M)

    def _apply(self) -> None:
        """Every new destination has all its time, wherever it was told; none is dropped unheard."""
        commands = self.operator.commands
        wanted = (commands.goal_position or self.operator.first) is not None
        if self._wanted and not wanted and self._void is None:
            self.news.append(f"{GOAL}: dropped")
        self._wanted = wanted
        if commands.goal_position is None or commands.goal_number == self._number:
            return
        self._number, self._known, self._void = commands.goal_number, True, None
        self._set_out_anew()
        x, y = commands.goal_position
        self.news.append(f"{GOAL}: on the way to ({x:.2f}, {y:.2f})")

    def _refuse(self, reason: str) -> None:
        """The robot goes on with what it was told before."""
        self.news.append(f"{GOAL}: refused, {reason}")

    def _give_up(self, reason: str) -> None:
        self.operator.go_to(None)
        self._void = reason
        self.news.append(f"{reason}: the destination is void, the robot stands")


def _unusable(x: float, y: float, quaternion: tuple[float, ...]) -> str | None:
    """Why odometry does not tell where the robot is, or None."""
    if not all(math.isfinite(value) for value in (x, y, *quaternion)):
        return "x, y or the orientation is not finite"
    if not is_unit(quaternion):  # all 0, as by default
        return "the orientation is no unit quaternion"
    return None


NEARER_M = 0.1  # so much nearer than ever before is progress; ours, more than a robot sways


class Progress:
    """How long a robot on its way has come no nearer; while it is not, no time counts."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Set out, to another place or anew."""
        self.nearest_m = math.inf
        self._waited_s = 0.0
        self.pause()

    def pause(self) -> None:
        """Do not count until the next place is known."""
        self._before_s: float | None = None

    def waited_s(self, distance_m: float, now_s: float) -> float:
        """For so long [s] it has come no nearer, being so far away at this time [s]."""
        if self._before_s is not None:
            self._waited_s += now_s - self._before_s
        self._before_s = now_s
        if distance_m < self.nearest_m - NEARER_M:
            self.nearest_m, self._waited_s = distance_m, 0.0
        return self._waited_s


# All ours. Three times as fast as it walks a robot is carried, pushed or slips; noise of 0.05 m and
# rad lets two messages differ by 0.5 at seven times its standard deviation.
TIMES, FAR_M, FAR_RAD = 3.0, 0.5, 0.5
TOLD_S = 10.0  # so long a jump is worth a word, and no other one is logged; ours


class Jumps:
    """Compares every pose with the one before: how far can it have come since?"""

    def __init__(self) -> None:
        self._newest: tuple[str, float] | None = None  # in words, and when it came [s]
        self._said_s = -math.inf
        self.forget()

    def forget(self) -> None:
        """Compare the next pose with none, as where the frame is another one."""
        self._before: tuple[float, Array] | None = None

    def moved(self, stamp_s: float, pose: Array, now_s: float) -> str | None:
        """A pose x, y [m], heading [rad] of this stamp has come now [s], by a monotonic clock.

        Returns:
            What is to be said of it, if it is a jump; of a flood only the first every `TOLD_S`.
        """
        before, self._before = self._before, (stamp_s, pose)
        if before is None or (far := _too_far(pose - before[1], abs(stamp_s - before[0]))) is None:
            return None
        line = f"jumped by {far}: REP 105 wants it continuous, the robot goes on by where it is now"
        self._newest = line, now_s
        if now_s - self._said_s < TOLD_S:
            return None
        self._said_s = now_s
        return line

    def recent(self, now_s: float) -> str | None:
        """The newest jump in words, for `TOLD_S`; from any thread."""
        newest = self._newest
        return newest[0] if newest is not None and now_s - newest[1] < TOLD_S else None


def _too_far(moved: Array, seconds: float) -> str | None:
    """How far a robot seems to have moved, x, y [m], heading [rad], if none can in that time."""
    x, y, turned = moved.tolist()
    path_length_m, turned_rad = math.hypot(x, y), abs(wrap_angle(turned))
    if path_length_m > FAR_M + TIMES * MAX_SPEED_M_PER_S * seconds:
        return f"{path_length_m:.3g} m"
    if turned_rad > FAR_RAD + TIMES * MAX_YAW_RATE_RAD_PER_S * seconds:
        return f"{turned_rad:.3g} rad"
    return None


class GoalReport:
    """Tells people how far it is (`~/distance_to_goal`), and logs what became of goals.

    A distance of NaN, once, says that there is no goal any more.
    """

    def __init__(self, node: Any) -> None:
        self._logger = node.get_logger()
        self._distance = node.create_publisher(Float64, f"~/{DISTANCE}", 1)
        self._told = False

    def publish(self, goal: GoalCommand) -> None:
        """From the executor's thread."""
        while goal.news:
            self._logger.info(goal.news.popleft())
        while goal.warnings:
            self._logger.warning(goal.warnings.popleft())
        distance_m = goal.distance_m()
        if distance_m is not None or self._told:
            self._distance.publish(Float64(data=math.nan if distance_m is None else distance_m))
        self._told = distance_m is not None
