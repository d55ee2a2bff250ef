"""What people want of a robot on board, and what it does."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Any


class RobotState(str, Enum):
    """What the robot does."""

    LIMP = "limp"  # damped, nothing is stiff
    STANDING_UP = "standing up"
    READY = "ready"  # stands in the default pose
    WALKING = "walking"
    LYING_DOWN = "lying down"
    STOPPED = "stopped"  # damped until the emergency stop is reset


STIFF = (RobotState.STANDING_UP, RobotState.READY, RobotState.WALKING, RobotState.LYING_DOWN)


@dataclass(frozen=True, slots=True)
class OperatorCommands:
    """What people want: nothing gets stiff before `armed`, nor while `stop` names a reason."""

    armed: bool = False
    wanted: RobotState = RobotState.LIMP  # or READY, WALKING: what the robot shall come to
    stop: str | None = None
    goal_position: tuple[float, float] | None = None  # x, y [m] in the odometry's frame
    goal_number: int = 0  # another each time, though the place be the same


class Operator:
    """Takes people's orders, from any thread; refuses those that do not fit the robot's state.

    `auto` arms, stands up and walks without being asked, but not after an emergency stop. `first`
    is where to go, x, y [m] in the odometry's frame, once somebody operates it. Every order returns
    (accepted, what follows or why not).
    """

    def __init__(self, auto: bool = False, first: tuple[float, float] | None = None) -> None:
        self.auto, self.first = auto, first
        self.commands = OperatorCommands()
        self.state: RobotState | None = None  # set by who operates the robot; None if nobody does
        self._numbers = count(1)  # of destinations, also over a stop
        self._lock = threading.RLock()

    def begin(self) -> None:
        """Somebody is about to operate the robot: old orders are void, but not a stop."""
        with self._lock:
            if self.commands.stop is None:
                self.commands = (
                    OperatorCommands(True, RobotState.WALKING) if self.auto else OperatorCommands()
                )
            first, self.first = self.first, None
            if first is not None:
                self.go_to(first)

    def arm(self) -> tuple[bool, str]:
        """Allow that joints get stiff; nothing moves yet."""
        return self._order(RobotState.LIMP, "armed", (RobotState.LIMP,), armed=True)

    def disarm(self) -> tuple[bool, str]:
        """Take that back; the robot must lie."""
        return self._order(RobotState.LIMP, "disarmed", (RobotState.LIMP,), armed=False)

    def stand_up(self) -> tuple[bool, str]:
        """Stand in the default pose, from wherever the joints are, or from walking."""
        return self._order(RobotState.READY, "standing up")

    def walk(self) -> tuple[bool, str]:
        """Let the policy walk; the robot must stand."""
        allowed = (RobotState.READY, RobotState.WALKING, RobotState.STANDING_UP)
        return self._order(RobotState.WALKING, "walking", allowed)

    def lie_down(self) -> tuple[bool, str]:
        """Fold the legs, then damp; the destination is void: who walks again is told anew."""
        return self._order(RobotState.LIMP, "lying down", goal_position=None)

    def go_to(self, goal_position: tuple[float, float] | None) -> tuple[bool, str]:
        """Where to walk, x, y [m] in the odometry's frame; None: nowhere, stand."""
        with self._lock:
            if goal_position is not None and (stop := self.commands.stop) is not None:
                return False, f"stopped by {stop}: reset the emergency stop first"
            before, self.first = self.commands.goal_position or self.first, None
            number = next(self._numbers)
            self.commands = replace(self.commands, goal_position=goal_position, goal_number=number)
        if goal_position is None:
            return before is not None, "stands" if before else "had no goal"
        return True, "on the way as soon as it walks"

    def emergency_stop(self, cause: str) -> tuple[bool, str]:
        """Damp within a control step, in every state, until reset; then disarmed."""
        with self._lock:
            self.commands, self.first = OperatorCommands(stop=self.commands.stop or cause), None
        return True, f"stopped by {self.commands.stop}"

    def reset_stop(self) -> tuple[bool, str]:
        """After an emergency stop: limp, disarmed."""
        with self._lock:
            if self.commands.stop is None or self.state not in (None, RobotState.STOPPED):
                return False, "not stopped"  # or not yet: the next step stops it
            self.commands = OperatorCommands()
        return True, "limp and disarmed"

    def let_go(self) -> bool:
        """Disarm a robot that somebody may be at by now, unless it is `auto`; whether it was armed.

        Its destination is void, too.
        """
        with self._lock:
            armed = self.commands.armed and not self.auto
            if armed:
                self.commands = OperatorCommands()
        return armed

    def _order(
        self,
        wanted: RobotState,
        answer: str,
        allowed_in: tuple[RobotState, ...] = tuple(RobotState),
        **also: Any,
    ) -> tuple[bool, str]:
        with self._lock:
            before = self.commands
            if before.stop is not None:
                return False, f"stopped by {before.stop}: reset the emergency stop first"
            if "armed" not in also and not before.armed:
                return False, "not armed"
            if self.state is None:
                return False, "nobody operates the robot: the node is not active"
            if self.state not in allowed_in:
                return False, f"the robot is {self.state.value}"
            self.commands = replace(before, wanted=wanted, **also)
        return True, answer
