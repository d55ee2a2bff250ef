"""Trial of a robot's own gait: how it answers velocity commands, by odometry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pixelgait.robot.control.controller import STAND, latent_for
from pixelgait.robot.control.velocity import GAINS, AxisResponse, Response
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array

SPEEDS_M_PER_S = (0.1, 0.2, 0.3, 0.6)
YAW_RATES_RAD_PER_S = (0.15, -0.3, 0.6, -1.0)
STAND_S, MOVE_S = 1.0, 3.0  # before each command; of each command
STEADY_S = 1.5  # at its end, in which the velocity counts as steady; two or three gait cycles
MOVES = 0.3  # share of a command from which on a robot moves, more than swaying; assumption
# While it is measured nothing corrects the heading: that of a robot with such a delay.
MEASURED = Response(yaw_rate=AxisResponse(delay_s=1e9))


@dataclass(frozen=True, slots=True)
class Answer:
    """A command [m/s or rad/s], the steady velocity that followed, and after what delay."""

    command: float
    velocity: float
    delay_s: float

    @property
    def moves(self) -> bool:
        """Whether the robot moves as commanded, however slowly."""
        return self.velocity / self.command > MOVES


class ResponseTrial:
    """Pilot that commands speeds, then yaw rates, and measures what odometry shows of them.

    `pose` returns x, y [m] and heading [rad] (3,), empty if unknown; `walks`, whether the robot is
    commanded by the latent commands of this pilot. Called once a control step. A command during
    which it ceased to walk is tried anew.
    """

    def __init__(self, pose: Callable[[], Array], walks: Callable[[], bool]) -> None:
        self._pose, self._walks = pose, walks
        self._steps = 0  # of walking, since it began
        self._poses: list[Array] = []  # since the present command
        self._answers: list[Answer] = []
        speeds = [(speed, 0.0) for speed in SPEEDS_M_PER_S]
        self._commands = [*speeds, *((0.0, rate) for rate in YAW_RATES_RAD_PER_S)]

    @property
    def done(self) -> bool:
        """Whether all commands were tried."""
        return len(self._answers) == len(self._commands)

    def __call__(self) -> Array:
        """The latent command (2,) of this step."""
        if self.done:
            return STAND
        if not self._walks():
            self._steps, self._poses = 0, []
            return STAND
        self._steps += 1
        part = self._steps % round((STAND_S + MOVE_S) / CONTROL_DT_S)
        speed, yaw_rate = self._commands[len(self._answers)]
        if 0 < part <= round(STAND_S / CONTROL_DT_S):
            return STAND
        self._poses.append(self._pose())
        if part == 0:
            self._answers.append(_answer(speed, yaw_rate, np.array(self._poses)))
            self._poses = []
        return latent_for(speed, yaw_rate)

    def response(self) -> Response:
        """The measured response.

        Raises:
            UserError: the robot has not moved, or by far too little or too much.
        """
        number = len(SPEEDS_M_PER_S)
        parts = {"m/s ahead": self._answers[:number], "rad/s of turn": self._answers[number:]}
        return Response(*(_axis(answers, unit) for unit, answers in parts.items()))

    def table(self) -> str:
        """The answers, a line for each."""
        units = ("m/s  ",) * len(SPEEDS_M_PER_S) + ("rad/s",) * len(YAW_RATES_RAD_PER_S)
        return "\n".join(
            f"{each.command:6.2f} {unit} commanded, {each.velocity:6.2f} measured"
            + (f", after {each.delay_s:.2f} s" if each.moves else "")
            for each, unit in zip(self._answers, units, strict=True)
        )


def _answer(speed: float, yaw_rate: float, poses: Array) -> Answer:
    """The answer to a command by the poses (n, 3) since."""
    (x, y, heading), steady = poses[0], round(STEADY_S / CONTROL_DT_S)
    if yaw_rate:
        way = np.array([wrap_angle(each - heading) for each in poses[:, 2].tolist()])
    else:
        way = (poses[:, 0] - x) * math.cos(heading) + (poses[:, 1] - y) * math.sin(heading)
    command, velocity = yaw_rate or speed, float(way[-1] - way[-1 - steady]) / STEADY_S
    # At a constant velocity from then on it would have come as far.
    delay_s = MOVE_S - float(way[-1]) / velocity if velocity else math.inf
    return Answer(command, velocity, min(max(0.0, delay_s), MOVE_S))


def _axis(answers: list[Answer], unit: str) -> AxisResponse:
    moving = [each for each in answers if each.moves]
    fastest = max(abs(each.command) for each in answers)
    if fastest not in (abs(each.command) for each in moving):
        raise UserError(f"the robot does not follow {fastest:g} {unit}: see cmd_vel and odom")
    gain = sum(each.command * each.velocity for each in moving) / sum(
        each.command**2 for each in moving
    )
    low, high = GAINS
    if not low <= gain <= high:
        raise UserError(
            f"the robot follows {gain:.2f} times the command in {unit}, "
            f"expected {low:g} to {high:g}: units of cmd_vel or odom?"
        )
    delay_s = float(np.median([each.delay_s for each in moving]))
    return AxisResponse(delay_s, gain, min(abs(each.command) for each in moving))
