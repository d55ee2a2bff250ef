"""What a robot on board does, step by step: limp, stand up, ready, walk, lie down, stopped.

`Operation` has neither a clock nor a wire: the same inputs give the same commands, in the control
loop and from a recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pixelgait.robot.control.controller import Controller, ControlResult
from pixelgait.robot.control.gait import lying_pose, standing_targets
from pixelgait.robot.control.low_level import STAND
from pixelgait.robot.interface import (
    CONTROL_DT_S,
    DRIVER_TIMEOUT_S,
    FADE_S,
    STAND_S,
    JointCommand,
    Reading,
)
from pixelgait.robot.runtime.operator_commands import STIFF, OperatorCommands, RobotState
from pixelgait.robot.safety.supervisor import without_camera
from pixelgait.robot.spec import Array

LIE_S = 1.5  # from the pose in which it stands to the ground; ours
REST_S = 1.0  # damped after a stall: what the driver let fall has come to lie; ours
# Ours. Each time the robot falls, rests and stands up: every 10 s, and it gets nowhere.
MOST_STALLS = 6  # within a minute of its own steps
LONGEST_STALL_S = 3.0  # then people may be at the robot, and do not expect it to stand up; ours
MINUTE = round(60.0 / CONTROL_DT_S)
# How far a joint may be from where it should stand when the robot has stood up, and how much later
# it may be there. Simulated robots are up to 0.45 rad off at the end of the way, laden and on
# slippery ground, 0.23 rad half a second later; a joint that stayed where it lay, 0.4 to 1. Ours.
FAR_RAD, LATE_S = 0.35, 1.0


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a step depends on."""

    reading: Reading
    ages: Mapping[str, float]  # of the sensors [s]
    commands: OperatorCommands
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
        needs_goal: bool = False,
    ) -> None:
        self.controller, self.needs_goal = controller, needs_goal
        self.supervisor = controller.supervisor
        self.driver_timeout_s = driver_timeout_s
        self.state, self.cause = RobotState.LIMP, "started"
        self.stalls = 0  # of the loop itself, while something was stiff
        self._stalled: tuple[int, ...] = ()  # the newest, by the number of steps before
        self._taken = 0  # steps
        spec = controller.supervisor.spec
        self._standing, self._lying = standing_targets(spec), lying_pose(spec)
        self._from = self._last = self._standing  # targets (12,) [rad]
        self._steps = 0  # in this state
        self._firm = 0  # stiff steps since it began to stand up
        self._rest = 0  # steps until it may stand up
        self._told = 0  # number of the destination

    def step(self, inputs: Inputs) -> ControlResult:
        """One control step; after a `supervisor.fault` the robot stays damped."""
        self._advance(inputs)
        walking = self.state is RobotState.WALKING
        result = self._walk(inputs) if walking else ControlResult(self._pose_command(inputs))
        self._steps += 1
        self._taken += 1
        if result.command.kp.any():
            self._last = result.command.targets
        return result

    def _advance(self, inputs: Inputs) -> None:
        """Into the state that orders, time and a stall of our own lead to."""
        commands = inputs.commands
        if commands.stop is not None:
            self._enter(RobotState.STOPPED, f"emergency stop by {commands.stop}")
        elif self.state is RobotState.STOPPED:
            self._enter(RobotState.LIMP, "emergency stop was reset")
        elif self.state in STIFF and inputs.gap_s > self.driver_timeout_s:
            self._enter(
                RobotState.LIMP, f"no command for {inputs.gap_s:.2f} s: the robot has let go"
            )
            self._rest_or_give_up(inputs.gap_s)
        else:
            self._follow(commands, inputs.reading)

    @property
    def recent_stalls(self) -> int:
        """Of the last minute, by its own steps; from any thread."""
        return sum(self._taken - before < MINUTE for before in self._stalled)

    def _rest_or_give_up(self, gap_s: float) -> None:
        """After a stall: what the driver let fall comes to lie, then stands up, unless in vain."""
        self.stalls += 1
        self._stalled = (*self._stalled[1 - MOST_STALLS :], self._taken)
        self._rest = round(REST_S / CONTROL_DT_S)
        if gap_s > LONGEST_STALL_S:
            self.supervisor.fail(f"held up for {gap_s:.0f} s: somebody may be at the robot")
        elif (times := self.recent_stalls) >= MOST_STALLS:
            self.supervisor.fail(f"held up {times} times within a minute: it would fall again")

    def _follow(self, commands: OperatorCommands, reading: Reading) -> None:
        wanted, state = commands.wanted, self.state
        if state is RobotState.LIMP:
            rested = self._rest == 1
            self._rest = max(0, self._rest - 1)
            rises = commands.armed and wanted is not RobotState.LIMP and not self._rest
            if self.supervisor.watch(reading, rises) and rises:
                self.supervisor.rise()
                self.controller.begin()
                self._from, self._firm = reading.joint_angles, 0
                self._enter(RobotState.STANDING_UP, "has rested" if rested else "ordered")
        elif state is RobotState.LYING_DOWN:
            if self._steps * CONTROL_DT_S >= LIE_S:
                self._enter(RobotState.LIMP, "lies")
        elif wanted is RobotState.LIMP:
            self._from = self._last
            self._enter(RobotState.LYING_DOWN, "ordered")
        elif state is RobotState.STANDING_UP:
            self._check_the_stand(reading)
        elif wanted is RobotState.WALKING and state is RobotState.READY:
            self.controller.begin()
            self._enter(RobotState.WALKING, "ordered")
        elif wanted is RobotState.READY and state is RobotState.WALKING:
            self._enter(RobotState.READY, "ordered")

    def _check_the_stand(self, reading: Reading) -> None:
        """Of a robot that stands up: whether it has, or never will."""
        late_s = self._steps * CONTROL_DT_S - STAND_S
        if late_s < 0.0:
            return
        off = np.abs(reading.joint_angles - self._standing)
        if (
            not off.max() > FAR_RAD or not self.supervisor.motors_enabled
        ):  # nan is somebody else's fault
            self._enter(RobotState.READY, "stands")
        elif late_s >= LATE_S:
            name = self.supervisor.spec.joint_names[int(off.argmax())]
            self.supervisor.fail(f"{name} is {off.max():.2f} rad from where it should stand")

    def _enter(self, state: RobotState, cause: str) -> None:
        if state is not self.state:
            self.state, self.cause, self._steps = state, cause, 0

    def _walk(self, inputs: Inputs) -> ControlResult:
        latent = inputs.latent
        if latent is None and self.needs_goal:
            latent = self._towards(inputs.commands)
        if latent is None:
            return self.controller.step(inputs.reading, inputs.ages)
        return self.controller.follow(latent, inputs.reading, inputs.ages)

    def _pose_command(self, inputs: Inputs) -> JointCommand:
        """Command of a robot that stands up, stands, lies down or is limp."""
        reading, ages = inputs.reading, inputs.ages
        if self.state not in STIFF:
            return self.supervisor.damp(reading.time_s)
        if self.state is RobotState.LYING_DOWN:  # who needs no eyes is not dropped for want of them
            ages = without_camera(ages)
        command = self.supervisor.review(reading, self._targets(), ages)
        self._firm += 1
        share = min(1.0, self._firm * CONTROL_DT_S / FADE_S)  # also of who lies down at once
        return replace(command, kp=share * command.kp)

    def _towards(self, commands: OperatorCommands) -> Array | None:
        """Tell the controller where to; what to do instead of walking there, if it is nowhere."""
        if commands.goal_position is None:
            self.controller.go_to(None)
            return STAND
        before, self._told = self._told, commands.goal_number
        if self.controller.goal_position is None or self._told != before:
            self.controller.go_to(np.array(commands.goal_position))
        return None

    def _targets(self) -> Array:
        """Joint targets (12,) [rad] of a robot that stands up, stands, or lies down."""
        elapsed_s = self._steps * CONTROL_DT_S
        if self.state is RobotState.STANDING_UP:
            last = STAND_S - CONTROL_DT_S  # the last step is the pose itself
            return self._from + min(1.0, elapsed_s / last) * (self._standing - self._from)
        if self.state is RobotState.LYING_DOWN:
            return self._from + min(1.0, elapsed_s / LIE_S) * (self._lying - self._from)
        return self._standing
