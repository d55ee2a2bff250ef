"""Velocity controller: the high level drives a robot that walks by a gait of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.control.controller import (
    NO_STOPWATCH,
    Controller,
    HeadingHold,
    HighLevel,
    Stopwatch,
    velocity,
)
from pixelgait.robot.control.policy_map import PolicyMap
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, read_json
from pixelgait.robot.interface import Reading, VelocityCommand
from pixelgait.robot.safety.velocity import VelocitySupervisor
from pixelgait.robot.spec import Array

RESPONSE = "response.json"  # in a recording
LONGEST_DELAY_S, GAINS = 2.0, (0.3, 3.0)  # of a response that can be used; assumptions


@dataclass(frozen=True, slots=True)
class AxisResponse:
    """How a robot answers commands of one velocity: it follows gain times the command, later."""

    delay_s: float = 0.0
    gain: float = 1.0
    least: float = 0.0  # command [m/s or rad/s]; it does not answer smaller ones

    def command(self, wanted: float) -> float:
        """The command for a wanted velocity [m/s or rad/s]: at least `least`, or none."""
        size = abs(wanted) / self.gain
        if size < self.least / 2.0 or size == 0.0:
            return 0.0
        return math.copysign(max(size, self.least), wanted)

    @property
    def usable(self) -> bool:
        """Whether all numbers are within their limits."""
        low, high = GAINS
        within = 0.0 <= self.delay_s <= LONGEST_DELAY_S and low <= self.gain <= high
        return within and 0.0 <= self.least < 1.0


@dataclass(frozen=True, slots=True)
class Response:
    """How a robot with its own gait answers velocity commands."""

    speed: AxisResponse = field(default_factory=AxisResponse)
    yaw_rate: AxisResponse = field(default_factory=AxisResponse)

    def command(self, wanted: Array) -> Array:
        """The command (3,) x, y [m/s], yaw rate [rad/s] for a wanted velocity (3,)."""
        axes = self.speed, self.speed, self.yaw_rate
        return np.array(
            [axis.command(each) for axis, each in zip(axes, wanted.tolist(), strict=True)]
        )

    def to_json(self) -> bytes:
        """The content of a file for `--response`."""
        return json_bytes(asdict(self))


def response_of(content: Mapping[str, Any]) -> Response:
    """The response in such a file's content.

    Raises:
        KeyError, TypeError: it has other keys.
    """
    return Response(*(AxisResponse(**content[name]) for name in ("speed", "yaw_rate")))


def read_response(path: Path) -> Response:
    """The response in a file.

    Raises:
        UserError: it is none, or one that cannot be used.
    """
    content = read_json(path)
    try:
        response = response_of(content)
        if response.speed.usable and response.yaw_rate.usable:
            return response
    except (KeyError, TypeError):
        pass
    low, high = GAINS
    raise UserError(
        f"{path}: expected speed and yaw_rate, each with a delay_s of 0 to {LONGEST_DELAY_S:g}, "
        f"a gain of {low:g} to {high:g}, and a least below 1"
    )


class OdometryHeadingHold(HeadingHold):
    """Heading hold by odometry, which comes at 5 Hz or faster, and for a robot that lags."""

    FASTEST_RAD_PER_S = 20.0  # change within a control step: the turn of 0.2 s at 1 rad/s

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.LAG_S = max(HeadingHold.LAG_S, delay_s)
        self.GAIN_PER_S = min(HeadingHold.GAIN_PER_S, 0.5 / self.LAG_S)  # does not overshoot


class VelocityController(Controller):
    """The high level, whose commands the robot follows by a gait of its own: no low level.

    The supervisor has the last word on every command.
    """

    supervisor: VelocitySupervisor

    def __init__(
        self,
        high_level: HighLevel,
        supervisor: VelocitySupervisor,
        response: Response,
        stopwatch: Stopwatch = NO_STOPWATCH,
        around: PolicyMap | None = None,
    ) -> None:
        super().__init__(high_level, _no_low_level, supervisor, stopwatch, around=around)
        self.response = response
        self.heading_hold = OdometryHeadingHold(response.yaw_rate.delay_s)

    def shadow(self) -> VelocityController:
        supervisor = VelocitySupervisor(self.supervisor.spec)
        return VelocityController(self.high_level, supervisor, self.response)

    def _command(
        self, latent: Array, reading: Reading, felt: Reading, ages: Mapping[str, float]
    ) -> VelocityCommand:
        command = self.response.command(velocity(latent))
        self.stopwatch.lap("low_level")
        sent = self.supervisor.review_velocity(reading, command, ages)
        self.stopwatch.lap("safety")
        return sent


def _no_low_level(*_: object) -> tuple[Array, Array]:
    raise AssertionError
