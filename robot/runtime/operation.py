"""What a robot on board does, step by step: limp, stand up, ready, walk, lie down, stopped.

`Operation` has neither a clock nor a wire: the same inputs give the same commands, in the control
loop and from a recording.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Any

import numpy as np

from pixelgait.robot.controller import Controller
from pixelgait.robot.gait import lying_pose, standing_targets
from pixelgait.robot.interface import DRIVER_TIMEOUT_S, FADE_S, STAND_S, JointCommand, Reading
from pixelgait.robot.low_level import CONTROL_DT_S, STAND
from pixelgait.robot.spec import Array

LIE_S = 1.5  # from the pose in which it stands to the ground; ours
REST_S = 1.0  # damped after a stall: what the driver let fall has come to lie; ours
# Ours. Each time the robot falls, rests and stands up: every 10 s, and it gets nowhere.
MOST_STALLS = 6  # within a minute of its own steps
LONGEST_STALL_S = 3.0  # then people may be at the robot, and do not expect it to stand up; ours
MINUTE = round(60.0 / CONTROL_DT_S)


class State(str, Enum):
    """What the robot does."""

    LIMP = "limp"  # damped, nothing is stiff
    STANDING_UP = "standing up"
    READY = "ready"  # stands in the default pose
    WALKING = "walking"
    LYING_DOWN = "lying down"
    STOPPED = "stopped"  # damped until the emergency stop is reset


class Goal(str, Enum):
    """What it shall come to."""

    LIMP = "limp"
    READY = "ready"
    WALKING = "walking"


STIFF = (State.STANDING_UP, State.READY, State.WALKING, State.LYING_DOWN)


@dataclass(frozen=True, slots=True)
class Orders:
    """What people want: nothing gets stiff before `armed`, nor while `stop` names a reason."""

    armed: bool = False
    goal: Goal = Goal.LIMP
    stop: str | None = None
    destination: tuple[float, float] | None = None  # x, y [m] in the odometry's frame
    destination_number: int = 0  # another each time, though the place be the same


class Operator:
    """Takes people's orders, from any thread; refuses those that do not fit the robot's state.

    `auto` arms, stands up and walks without being asked, but not after an emergency stop. `first`
    is where to go, x, y [m] in the odometry's frame, once somebody operates it. Every order returns
    (accepted, what follows or why not).
    """

    def __init__(self, auto: bool = False, first: tuple[float, float] | None = None) -> None:
        self.auto, self.first = auto, first
        self.orders = Orders()
        self.state: State | None = None  # set by who operates the robot; None if nobody does
        self._numbers = count(1)  # of destinations, also over a stop
        self._lock = threading.RLock()

    def begin(self) -> None:
        """Somebody is about to operate the robot: old orders are void, but not a stop."""
        with self._lock:
            if self.orders.stop is None:
                self.orders = Orders(True, Goal.WALKING) if self.auto else Orders()
            first, self.first = self.first, None
            if first is not None:
                self.go_to(first)

    def arm(self) -> tuple[bool, str]:
        """Allow that joints get stiff; nothing moves yet."""
        return self._order(Goal.LIMP, "armed", (State.LIMP,), armed=True)

    def disarm(self) -> tuple[bool, str]:
        """Take that back; the robot must lie."""
        return self._order(Goal.LIMP, "disarmed", (State.LIMP,), armed=False)

    def stand_up(self) -> tuple[bool, str]:
        """Stand in the default pose, from wherever the joints are, or from walking."""
        return self._order(Goal.READY, "standing up")

    def walk(self) -> tuple[bool, str]:
        """Let the policy walk; the robot must stand."""
        allowed = (State.READY, State.WALKING, State.STANDING_UP)
        return self._order(Goal.WALKING, "walking", allowed)

    def lie_down(self) -> tuple[bool, str]:
        """Fold the legs, then damp; the destination is void: who walks again is told anew."""
        return self._order(Goal.LIMP, "lying down", destination=None)

    def go_to(self, destination: tuple[float, float] | None) -> tuple[bool, str]:
        """Where to walk, x, y [m] in the odometry's frame; None: nowhere, stand."""
        with self._lock:
            if destination is not None and (stop := self.orders.stop) is not None:
                return False, f"stopped by {stop}: reset the emergency stop first"
            before, self.first = self.orders.destination or self.first, None
            number = next(self._numbers)
            self.orders = replace(self.orders, destination=destination, destination_number=number)
        if destination is None:
            return before is not None, "stands" if before else "had no goal"
        return True, "on the way as soon as it walks"

    def emergency_stop(self, cause: str) -> tuple[bool, str]:
        """Damp within a control step, in every state, until reset; then disarmed."""
        with self._lock:
            self.orders, self.first = Orders(stop=self.orders.stop or cause), None
        return True, f"stopped by {self.orders.stop}"

    def reset_stop(self) -> tuple[bool, str]:
        """After an emergency stop: limp, disarmed."""
        with self._lock:
            if self.orders.stop is None or self.state not in (None, State.STOPPED):
                return False, "not stopped"  # or not yet: the next step stops it
            self.orders = Orders()
        return True, "limp and disarmed"

    def _order(
        self, goal: Goal, answer: str, instead_of: tuple[State, ...] = tuple(State), **also: Any
    ) -> tuple[bool, str]:
        with self._lock:
            before = self.orders
            if before.stop is not None:
                return False, f"stopped by {before.stop}: reset the emergency stop first"
            if "armed" not in also and not before.armed:
                return False, "not armed"
            if self.state is None:
                return False, "nobody operates the robot: the node is not active"
            if self.state not in instead_of:
                return False, f"the robot is {self.state.value}"
            self.orders = replace(before, goal=goal, **also)
        return True, answer


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a step depends on."""

    reading: Reading
    ages: Mapping[str, float]  # of the sensors [s]
    orders: Orders
    gap_s: float = 0.0  # since the last command went out
    latent: Array | None = None  # somebody else's instead of the policy's high level


class Operation:
    """Runs a controller as it is told to.

    `state` and `cause` say what the robot does and why. Nothing is stiff that was damped for longer
    than `driver_timeout_s`, unless it has stood up from there: `MOST_STALLS` times within a minute
    are a fault, and so is one longer than `LONGEST_STALL_S`. A policy that `needs_destination`
    stands until it is told one.
    """

    def __init__(
        self,
        controller: Controller,
        driver_timeout_s: float = DRIVER_TIMEOUT_S,
        needs_destination: bool = False,
    ) -> None:
        self.controller, self.needs_destination = controller, needs_destination
        self.supervisor = controller.supervisor
        self.driver_timeout_s = driver_timeout_s
        self.state, self.cause = State.LIMP, "started"
        self.stalls = 0  # of the loop itself, while something was stiff
        self._stalled: tuple[int, ...] = ()  # the newest, by the number of steps before
        self._taken = 0  # steps
        spec = controller.supervisor.spec
        self._standing, self._lying = standing_targets(spec), lying_pose(spec)
        self._from = self._last = self._standing  # targets (12,) [rad]
        self._steps = 0  # in this state
        self._firm = 0  # stiff steps since it began to stand up
        self._rest = 0  # steps until it may stand up
        self._told: tuple[float, ...] = ()  # number and place of the destination

    def step(self, inputs: Inputs) -> JointCommand:
        """The command of a control step; `supervisor.fault` says when there is no going on."""
        self._advance(inputs)
        command = self._command(inputs)
        self._steps += 1
        self._taken += 1
        if command.kp.any():
            self._last = command.targets
        return command

    def _advance(self, inputs: Inputs) -> None:
        """Into the state that orders, time and a stall of our own lead to."""
        orders = inputs.orders
        if orders.stop is not None:
            self._enter(State.STOPPED, f"emergency stop by {orders.stop}")
        elif self.state is State.STOPPED:
            self._enter(State.LIMP, "emergency stop was reset")
        elif self.state in STIFF and inputs.gap_s > self.driver_timeout_s:
            self._enter(State.LIMP, f"no command for {inputs.gap_s:.2f} s: the robot has let go")
            self._rest_or_give_up(inputs.gap_s)
        else:
            self._follow(orders, inputs.reading)

    @property
    def recent_stalls(self) -> int:
        """Of the last minute, by its own steps; from any thread."""
        return sum(self._taken - before < MINUTE for before in self._stalled)

    def _rest_or_give_up(self, gap_s: float) -> None:
        """After a stall: what the driver let fall comes to lie, then stands up, unless in vain."""
        self.stalls += 1
        self._stalled = (*self._stalled[1 - MOST_STALLS :], self._taken)
        self._rest = round(REST_S / CONTROL_DT_S)
        if (times := self.recent_stalls) >= MOST_STALLS:
            self.supervisor.fault = f"held up {times} times within a minute: it would fall again"
        if gap_s > LONGEST_STALL_S:
            self.supervisor.fault = f"held up for {gap_s:.0f} s: somebody may be at the robot"

    def _follow(self, orders: Orders, reading: Reading) -> None:
        wanted, state = orders.goal, self.state
        if state is State.LIMP:
            rested = self._rest == 1
            self._rest = max(0, self._rest - 1)
            rises = orders.armed and wanted is not Goal.LIMP and not self._rest
            if self.supervisor.watch(reading, rises) and rises:
                self.supervisor.rise()
                self.controller.begin()
                self._from, self._firm = reading.joint_angles, 0
                self._enter(State.STANDING_UP, "has rested" if rested else "ordered")
        elif state is State.LYING_DOWN:
            if self._steps * CONTROL_DT_S >= LIE_S:
                self._enter(State.LIMP, "lies")
        elif wanted is Goal.LIMP:
            self._from = self._last
            self._enter(State.LYING_DOWN, "ordered")
        elif state is State.STANDING_UP:
            if self._steps * CONTROL_DT_S >= STAND_S:
                self._enter(State.READY, "stands")
        elif wanted is Goal.WALKING and state is State.READY:
            self.controller.begin()
            self._enter(State.WALKING, "ordered")
        elif wanted is Goal.READY and state is State.WALKING:
            self._enter(State.READY, "ordered")

    def _enter(self, state: State, cause: str) -> None:
        if state is not self.state:
            self.state, self.cause, self._steps = state, cause, 0

    def _command(self, inputs: Inputs) -> JointCommand:
        reading, ages = inputs.reading, inputs.ages
        if self.state not in STIFF:
            return self.supervisor.damp(reading.time_s)
        if self.state is State.WALKING:
            latent = inputs.latent
            if latent is None and self.needs_destination:
                latent = self._towards(inputs.orders)
            if latent is None:
                return self.controller.step(reading, ages)
            return self.controller.follow(latent, reading, ages)
        command = self.supervisor.review(reading, self._targets(), ages)
        self._firm += 1
        share = min(1.0, self._firm * CONTROL_DT_S / FADE_S)  # also of who lies down at once
        return replace(command, kp=share * command.kp)

    def _towards(self, orders: Orders) -> Array | None:
        """Tell the controller where to; what to do instead of walking there, if it is nowhere."""
        if orders.destination is None:
            self.controller.go_to(None)
            return STAND
        # The place as well: recordings from before destinations had numbers replay by it.
        before, self._told = self._told, (orders.destination_number, *orders.destination)
        if self.controller.destination is None or self._told != before:
            self.controller.go_to(np.array(orders.destination))
        return None

    def _targets(self) -> Array:
        """Joint targets (12,) [rad] of a robot that stands up, stands, or lies down."""
        elapsed_s = self._steps * CONTROL_DT_S
        if self.state is State.STANDING_UP:
            last = STAND_S - CONTROL_DT_S  # the last step is the pose itself
            return self._from + min(1.0, elapsed_s / last) * (self._standing - self._from)
        if self.state is State.LYING_DOWN:
            return self._from + min(1.0, elapsed_s / LIE_S) * (self._lying - self._from)
        return self._standing
