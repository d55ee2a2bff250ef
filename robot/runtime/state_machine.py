"""State machine of a robot on board: limp, standing up, ready, walking, lying down, stopped.

An operator commands it (`Operator`), `Operation` executes it step by step. `Operation` has neither
a clock nor a link: the same inputs give the same commands, in the control loop and in a replay.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Any

import numpy as np

from pixelgait.robot.control.blocked import Blocked
from pixelgait.robot.control.controller import STAND, Controller, ControlResult, slower
from pixelgait.robot.control.gait import lying_pose, standing_targets
from pixelgait.robot.control.slow_walk import SlowWalk
from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.estimation.leg_odometry import UNKNOWN, LegOdometry, Motion
from pixelgait.robot.interface import (
    CONTROL_DT_S,
    DRIVER_TIMEOUT_S,
    FADE_S,
    STAND_S,
    JointCommand,
    Reading,
)
from pixelgait.robot.safety.consistency import Consistency
from pixelgait.robot.safety.supervisor import without_camera
from pixelgait.robot.spec import Array

LIE_S = 1.5  # assumption: duration of lying down, from the standing pose
REST_S = 1.0  # assumption: damped after a stall, until the robot has come to rest on the ground
# Assumption: in each stall the robot falls, rests and stands up again, which takes 10 s.
MAX_STALLS = 6  # within a minute of the loop's own steps
LONGEST_STALL_S = 3.0  # assumption: then people may be at the robot
STEPS_A_MINUTE = round(60.0 / CONTROL_DT_S)
# Assumptions: the largest error of a joint, from the default pose, when the robot has stood up, and
# how much later it must be met. Simulated robots, laden and on slippery ground, are up to 0.45 rad
# off at the end of the motion, 0.26 rad a second later; a joint that stayed where it lay is off by
# 0.4 to 1 rad.
FAR_RAD, LATE_S = 0.35, 1.0
HALT_S = 0.6  # to a stand, before it stands stiff or lies down; two steps of 3 Hz; assumption


class RobotState(str, Enum):
    """States of the robot."""

    LIMP = "limp"  # damped, no stiffness
    STANDING_UP = "standing up"
    READY = "ready"  # stands in the default pose
    WALKING = "walking"
    LYING_DOWN = "lying down"
    STOPPED = "stopped"  # damped until the emergency stop is reset


NOWHERE = np.full(3, np.nan)  # odometry of an unknown place
WALKS_ON = "walks on after it was blocked"
UP = (RobotState.STANDING_UP, RobotState.READY, RobotState.WALKING)
STIFF = (*UP, RobotState.LYING_DOWN)


@dataclass(frozen=True, slots=True)
class OperatorCommands:
    """Commands of the operator: no stiffness before `armed`, nor while `stop` names a reason."""

    armed: bool = False
    wanted: RobotState = RobotState.LIMP  # or READY, WALKING
    stop: str | None = None
    goal_position: tuple[float, float] | None = None  # x, y [m] in the odometry's frame
    goal_number: int = 0  # changes with each goal, even if the position does not
    because: str = "ordered"  # cause of lying down, or of standing
    steered: bool = False  # while it walks: by a remote control, not by policy or cmd_vel


class Operator:
    """Accepts operator commands from any thread; refuses those that do not fit the robot's state.

    Every command returns (accepted, what follows or why not).

    Args:
        auto: arm, stand up and walk without a command, but not after an emergency stop.
        first: initial goal position, x, y [m] in the odometry's frame.
    """

    def __init__(self, auto: bool = False, first: tuple[float, float] | None = None) -> None:
        self.auto, self.first = auto, first
        self.commands = OperatorCommands()
        self.state: RobotState | None = None  # set by the control loop; None: there is none
        self.unfit: str | None = None  # why the robot must not stand, see `keep_down`
        self._numbers = count(1)  # of goals; continues after a stop
        self._lock = threading.RLock()

    def begin(self) -> None:
        """A control loop starts: earlier commands are void, except for an emergency stop."""
        with self._lock:
            if self.commands.stop is None:
                self.commands = (
                    OperatorCommands(True, RobotState.WALKING) if self.auto else OperatorCommands()
                )
            first, self.first = self.first, None
            if first is not None:
                self.go_to(first)

    def orders(self, source: str) -> dict[str, Callable[[], tuple[bool, str]]]:
        """Orders by their names; an emergency stop names its source."""
        return {
            "arm": self.arm,
            "disarm": self.disarm,
            "stand_up": self.stand_up,
            "walk": self.walk,
            "lie_down": self.lie_down,
            "cancel_goal": lambda: self.go_to(None),
            "emergency_stop": lambda: self.emergency_stop(source),
            "reset_emergency_stop": self.reset_stop,
        }

    def arm(self) -> tuple[bool, str]:
        """Permit stiff joints; nothing moves yet."""
        return self._command(RobotState.LIMP, "armed", (RobotState.LIMP,), armed=True)

    def disarm(self) -> tuple[bool, str]:
        """Revoke `arm`; the robot must lie."""
        return self._command(RobotState.LIMP, "disarmed", (RobotState.LIMP,), armed=False)

    def stand_up(self) -> tuple[bool, str]:
        """Stand in the default pose, from any joint angles or from walking."""
        return self._command(RobotState.READY, "standing up")

    def walk(self) -> tuple[bool, str]:
        """Let the policy walk, also instead of a remote control; the robot must stand."""
        allowed = (RobotState.READY, RobotState.WALKING, RobotState.STANDING_UP)
        return self._command(RobotState.WALKING, "walking", allowed)

    def stand(self, because: str) -> None:
        """Stand instead of walking, for this reason, until an order."""
        with self._lock:
            if self.commands.wanted is RobotState.WALKING:
                self.commands = replace(self.commands, wanted=RobotState.READY, because=because)

    def steer(self) -> None:
        """Let the remote control steer a robot that walks, until an order; the goal is kept."""
        if self.state is not RobotState.WALKING or self.commands.steered:
            return
        with self._lock:
            if self.commands.wanted is RobotState.WALKING:  # not about to stand or to lie down
                self.commands = replace(self.commands, steered=True)

    def lie_down(self) -> tuple[bool, str]:
        """Fold the legs, then damp; the goal is void."""
        return self._command(RobotState.LIMP, "lying down", goal_position=None)

    def keep_down(self, reason: str | None) -> None:
        """Lie down, and do not stand up, for this reason, as an empty battery; None: it may stand.

        The goal is void.
        """
        with self._lock:
            self.unfit = reason
            if reason is not None and self.commands.wanted is not RobotState.LIMP:
                self.commands = replace(
                    self.commands,
                    wanted=RobotState.LIMP,
                    goal_position=None,
                    because=reason,
                    steered=False,
                )

    def go_to(self, goal_position: tuple[float, float] | None) -> tuple[bool, str]:
        """Set the goal position x, y [m] in the odometry's frame; None: stand."""
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
        """Damp within a control step, in every state, until `reset_stop`."""
        with self._lock:
            self.commands, self.first = OperatorCommands(stop=self.commands.stop or cause), None
        return True, f"stopped by {self.commands.stop}"

    def reset_stop(self) -> tuple[bool, str]:
        """End an emergency stop: the robot is limp and disarmed."""
        with self._lock:
            if self.commands.stop is None or self.state not in (None, RobotState.STOPPED):
                return False, "not stopped"  # or not yet: the next step stops it
            self.commands = OperatorCommands()
        return True, "limp and disarmed"

    def revoke(self) -> bool:
        """Disarm and drop the goal, unless `auto`; returns whether the robot was armed."""
        with self._lock:
            armed = self.commands.armed and not self.auto
            if armed:
                self.commands = OperatorCommands()
        return armed

    def _command(
        self,
        wanted: RobotState,
        answer: str,
        allowed_in: tuple[RobotState, ...] = tuple(RobotState),
        **changes: Any,
    ) -> tuple[bool, str]:
        with self._lock:
            before = self.commands
            if before.stop is not None:
                return False, f"stopped by {before.stop}: reset the emergency stop first"
            if "armed" not in changes and not before.armed:
                return False, "not armed"
            if self.state is None:
                return False, "the controller does not run"
            if self.state not in allowed_in:
                return False, f"the robot is {self.state.value}"
            if self.unfit is not None and wanted is not RobotState.LIMP:
                return False, self.unfit
            ordered = replace(before, wanted=wanted, because="ordered", steered=False)
            self.commands = replace(ordered, **changes)
        return True, answer


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a control step."""

    reading: Reading
    ages: Mapping[str, float]  # of the sensors [s]
    commands: OperatorCommands
    gap_s: float = 0.0  # since the last command was sent
    latent: Array | None = None  # velocity command that replaces the high level
    free_m: float = math.inf  # of the way that was wanted last, by a collision guard


class Operation:
    """Executes operator commands: a controller while walking, poses otherwise, damping when limp.

    `state` and `cause` are the robot's state and why it was entered.

    `motion` is that of the robot by its legs, in a frame that began where this did. It is the
    odometry of a policy with `needs_goal`, until another odometry comes: that one then stays.

    A gap between two commands beyond `driver_timeout_s` is a stall: the motors' driver has damped
    the robot. It rests, then stands up from there. `MAX_STALLS` within a minute are a fault, and so
    is one of more than `LONGEST_STALL_S`. A policy with `needs_goal` stands until there is a goal.
    """

    STALLED = "the driver has damped it"

    def __init__(
        self,
        controller: Controller,
        driver_timeout_s: float = DRIVER_TIMEOUT_S,
        needs_goal: bool = False,
    ) -> None:
        self.controller, self.needs_goal = controller, needs_goal
        self.supervisor = controller.supervisor
        legs, creep = controller.supervisor.legs, controller.supervisor.spec.creep_m_per_s
        self._every_way = legs is not None and not legs.planar
        self._slow_walk = None if self._every_way else SlowWalk(creep)
        self.driver_timeout_s = driver_timeout_s
        self.state, self.cause = RobotState.LIMP, "started"
        self.stalls = 0  # of the loop, while the robot was stiff
        self._stalled: tuple[int, ...] = ()  # step numbers of the newest stalls
        self._step_number = 0
        spec = controller.supervisor.spec
        self._standing, self._lying = standing_targets(spec), lying_pose(spec)
        self._from = self._last = self._standing  # targets (12,) [rad]
        self._steps = 0  # in this state
        self._stiff_steps = 0  # since it began to stand up
        self._rest_steps = 0  # until it may stand up
        self._halted_steps = 0  # since a soft walker was told to stand or to lie down
        self._goal_number = 0  # of the controller's goal
        kinematics = LegKinematics(spec)  # one for all, which remembers the feet of a reading
        self.blocked = Blocked(spec, self.supervisor.walking, kinematics=kinematics)
        self._commanded = False  # whether the last step had a latent command that was given
        self._consistency = Consistency(spec, kinematics)
        self._legs = LegOdometry(spec, kinematics)
        self._command: JointCommand | None = None  # of the last step
        self.motion: Motion | None = None
        self._other_odometry = False  # whether there ever was one

    def step(self, inputs: Inputs) -> ControlResult:
        """Execute a control step; after a `supervisor.fault` all commands damp."""
        inputs = self._locate(inputs)
        self._advance(inputs)
        self.controller.free_m, self.controller.motion = inputs.free_m, self.motion
        walking = self.state is RobotState.WALKING
        result = self._walk(inputs) if walking else ControlResult(self._pose_command(inputs))
        if self._contradiction(inputs.reading, walking):
            result = replace(result, command=self.supervisor.damp(inputs.reading.time_s))
        self._steps += 1
        self._step_number += 1
        if np.count_nonzero(result.command.kp):
            self._last = result.command.targets
        self._command = result.command
        return result

    def _locate(self, inputs: Inputs) -> Inputs:
        """The inputs with the odometry of the legs, if it is needed and there is no other."""
        reading = inputs.reading
        self.motion = motion = self._legs.update(reading, self._command)
        self._other_odometry = self._other_odometry or reading.odometry is not None
        if not self.by_legs:
            return inputs
        known = motion.problem not in UNKNOWN
        pose = np.array((motion.x, motion.y, motion.heading)) if known else NOWHERE
        return replace(inputs, reading=replace(reading, odometry=pose))

    @property
    def by_legs(self) -> bool:
        """Whether the robot walks to goals by its legs' odometry: there was no other so far."""
        return self.needs_goal and not self._other_odometry

    @property
    def lost(self) -> bool:
        """Whether the goal is void: the robot, which walks to it by its legs, was lifted."""
        walks = self.state is RobotState.WALKING and not self._commanded  # by a remote control
        return self.by_legs and self._legs.lost and walks

    def _advance(self, inputs: Inputs) -> None:
        """Enter the next state: by emergency stop, stall, operator command or time."""
        commands = inputs.commands
        if commands.stop is not None:
            self._enter(RobotState.STOPPED, f"emergency stop by {commands.stop}")
        elif self.state is RobotState.STOPPED:
            self._enter(RobotState.LIMP, "emergency stop was reset")
        elif self.state in STIFF and inputs.gap_s > self.driver_timeout_s:
            self._enter(RobotState.LIMP, f"no command for {inputs.gap_s:.2f} s: {self.STALLED}")
            self._count_stall(inputs.gap_s)
        else:
            self._follow_commands(commands, inputs.reading)

    @property
    def recent_stalls(self) -> int:
        """Stalls of the last minute, counted by steps; from any thread."""
        return sum(self._step_number - step < STEPS_A_MINUTE for step in self._stalled)

    def _count_stall(self, gap_s: float) -> None:
        """Rest before standing up again; too long or too frequent stalls are a fault."""
        self.stalls += 1
        self._stalled = (*self._stalled[1 - MAX_STALLS :], self._step_number)
        self._rest_steps = round(REST_S / CONTROL_DT_S)
        if gap_s > LONGEST_STALL_S:
            self.supervisor.fail(f"stalled for {gap_s:.0f} s: people may be near the robot")
        elif (times := self.recent_stalls) >= MAX_STALLS:
            self.supervisor.fail(f"stalled {times} times within a minute: it would fall again")

    def _follow_commands(self, commands: OperatorCommands, reading: Reading) -> None:
        wanted, state = commands.wanted, self.state
        if wanted is RobotState.WALKING:
            self._halted_steps = 0
        if state is RobotState.LIMP:
            rested = self._rest_steps == 1
            self._rest_steps = max(0, self._rest_steps - 1)
            rises = commands.armed and wanted is not RobotState.LIMP and not self._rest_steps
            if self.supervisor.check_limp(reading, rises) and rises:
                self._rise(reading)
                self._enter(RobotState.STANDING_UP, "has rested" if rested else "ordered")
        elif state is RobotState.LYING_DOWN:
            if self._steps * CONTROL_DT_S >= LIE_S:
                self._enter(RobotState.LIMP, "lies")
        elif state is RobotState.WALKING and wanted is not state and self._must_halt:
            self._halted_steps += 1
        elif wanted is RobotState.LIMP:
            self._from = self._last
            if state is RobotState.WALKING:  # by the legs' gains until now
                self._from = self._handed_over()
            self._enter(RobotState.LYING_DOWN, commands.because)
        elif state is RobotState.STANDING_UP:
            self._check_the_stand(reading)
        elif wanted is RobotState.WALKING and state is RobotState.READY:
            self.controller.begin()
            self.blocked.begin()
            if not self.needs_goal:
                self._legs.settle()
            self._enter(RobotState.WALKING, "ordered")
        elif wanted is RobotState.READY and state is RobotState.WALKING:
            self._enter(RobotState.READY, commands.because)

    @property
    def _must_halt(self) -> bool:
        """Whether it slows to a stand first: stiffer gains in mid-stride tip a walker over, and
        legs that go every way may be fast.
        """
        soft = self.supervisor.walking is not self.supervisor.standing
        return (soft or self._every_way) and self._halted_steps * CONTROL_DT_S < HALT_S

    def _handed_over(self) -> Array:
        """The last targets (12,) [rad], under the gains of a robot that stands."""
        sent = self.supervisor.hand_over(self.supervisor.standing)
        return self._last if sent is None else sent

    def _rise(self, reading: Reading) -> None:
        """Begin to stand up, from the joint angles of this reading."""
        self.supervisor.rise()
        self._consistency.begin(reading)
        self.controller.begin()
        self._from, self._stiff_steps = reading.joint_angles, 0

    def _check_the_stand(self, reading: Reading) -> None:
        """End standing up once the robot stands as it should; too late is a fault."""
        late_s = self._steps * CONTROL_DT_S - STAND_S
        if late_s < 0.0:
            return
        wrong = self._wrong_stand(reading) if self.supervisor.motors_enabled else None
        if wrong is None:
            self._enter(RobotState.READY, "stands")
        elif late_s >= LATE_S:
            self.supervisor.fail(wrong)

    def _wrong_stand(self, reading: Reading) -> str | None:
        """Reason why a robot does not stand although it should by now; None: it stands."""
        error = np.abs(reading.joint_angles - self.supervisor.spec.default_pose_rad)
        if error.max() > FAR_RAD:
            name = self.supervisor.spec.joint_names[int(error.argmax())]
            return f"{name} is {error.max():.2f} rad from where it should stand"
        # The sensor checks report values that are not finite.
        return self._consistency.standing.judge(reading, self._last)

    def _contradiction(self, reading: Reading, walking: bool) -> bool:
        """Whether joints and IMU of a robot that is up contradict each other: a fault."""
        supervisor = self.supervisor
        if self.state not in UP or supervisor.fault is not None:
            return False
        joints, powered = supervisor.trusted_joints, supervisor.motors_enabled
        if walking and supervisor.walking is not supervisor.standing:
            powered = False  # soft legs are moved by their loads as much as by their targets
        wrong = self._consistency.judge(reading, *joints, self._last, walking, powered)
        if wrong is not None:
            supervisor.fail(wrong)
        return wrong is not None

    def _enter(self, state: RobotState, cause: str) -> None:
        if state is not self.state:
            self.state, self.cause, self._steps = state, cause, 0

    def _walk(self, inputs: Inputs) -> ControlResult:
        if self._halted_steps:
            slowed = slower(self.controller.followed)
            return self.controller.follow(slowed, inputs.reading, inputs.ages)
        latent, before, self._commanded = inputs.latent, self._commanded, inputs.latent is not None
        if before and latent is None:
            self.controller.go_to(None)  # after a remote control the policy decides anew
        if latent is not None and not before:
            self._free()  # also of a manoeuvre, which would go on after the remote control
        if latent is not None:
            if self._slow_walk is not None:
                latent = self._slow_walk(latent, float(self.controller.phase[0]))
        elif self.needs_goal:
            latent = self._set_goal(inputs.commands)
        if latent is None and self.blocked.manoeuvres:
            latent = self.blocked.latent()
            self._walks_on(self.blocked.manoeuvres)
        if latent is None:
            return self._follow_policy(inputs)
        return self.controller.follow(latent, inputs.reading, inputs.ages)

    def _follow_policy(self, inputs: Inputs) -> ControlResult:
        """A step of the policy; if the robot is found blocked, the next one is a manoeuvre's."""
        last = self._last
        result = self.controller.step(inputs.reading, inputs.ages)
        if result.latent is None or not self.supervisor.motors_enabled:  # a person carries it
            return result
        if self.blocked.noticed(inputs.reading, result.latent, last):
            self.cause = self.blocked.cause
        return result

    def _walks_on(self, manoeuvres: bool) -> None:
        """After the last step of a manoeuvre the policy looks anew."""
        if not manoeuvres:
            self.cause = WALKS_ON
            self.controller.look_again()

    def _free(self) -> None:
        """A new goal, or a remote control that steers: the robot does not count as blocked."""
        if self.blocked.manoeuvres:
            self.cause = WALKS_ON
        self.blocked.begin()

    def _set_goal(self, commands: OperatorCommands) -> Array | None:
        """Pass the goal to the controller; returns the latent command (2,) if there is none."""
        if commands.goal_position is None:
            self.controller.go_to(None)
            return STAND
        before, self._goal_number = self._goal_number, commands.goal_number
        if self._goal_number != before:
            self._legs.settle()
        if self.controller.goal_position is None or self._goal_number != before:
            self._free()
            self.controller.go_to(np.array(commands.goal_position))
        return None

    def _pose_command(self, inputs: Inputs) -> JointCommand:
        """Command of a robot that stands up, stands, lies down or is limp."""
        reading, ages = inputs.reading, inputs.ages
        if self.state not in STIFF:
            return self.supervisor.damp(reading.time_s)
        if self.state is RobotState.LYING_DOWN:  # goes on without a camera
            ages = without_camera(ages)
        command = self.supervisor.review(reading, self._targets(), ages)
        self._stiff_steps += 1
        share = min(1.0, self._stiff_steps * CONTROL_DT_S / FADE_S)  # also if it lies down at once
        return replace(command, kp=share * command.kp)

    def _targets(self) -> Array:
        """Joint targets (12,) [rad] of a robot that stands up, stands, or lies down."""
        elapsed_s = self._steps * CONTROL_DT_S
        if self.state is RobotState.STANDING_UP:
            last = STAND_S - CONTROL_DT_S  # the last step is the pose itself
            return self._from + min(1.0, elapsed_s / last) * (self._standing - self._from)
        if self.state is RobotState.LYING_DOWN:
            return self._from + min(1.0, elapsed_s / LIE_S) * (self._lying - self._from)
        return self._standing
