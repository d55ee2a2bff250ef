"""A recording as the `Link` of a control loop: the same sensors once more, in real time."""

from __future__ import annotations

import math
from dataclasses import replace

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.recording.steps import RecordedStep, Recording
from pixelgait.robot.supervisor import Patience


class RecordedLink:
    """Steps of a recording, `period_s` apart; when they are over, all sensors fall silent.

    `sent` are the commands. For the same commands in every bit see `replay`, which feeds the
    recorded orders and gaps as well.
    """

    pulse: tuple[str, ...] = ()  # every take is a step

    def __init__(self, recording: Recording, period_s: float) -> None:
        self._steps, self._period_s = recording.steps, period_s
        self.patience: dict[str, Patience] = self._steps[0].patience
        self.sensors = tuple(self._steps[0].inputs.ages)
        self.sent: list[JointCommand] = []
        self._taken = 0
        self._first_image = next((i for i, s in enumerate(self._steps) if s.looked), None)

    def take(self) -> None:
        self._taken += 1

    def forget(self) -> None:
        self._taken = 0

    def read(self) -> Reading:
        return replace(self._step().inputs.reading, image=self._image)

    def _image(self) -> Image:
        """What the policy saw last; before it had looked, what it saw first."""
        first = self._first_image
        step = self._step() if first is None or self._taken > first else self._steps[first]
        return step.inputs.reading.image()

    def ages(self) -> dict[str, float]:
        if not self._taken:
            return dict.fromkeys(self.sensors, math.inf)
        return {name: age + self._over_s() for name, age in self._step().inputs.ages.items()}

    def doubts(self) -> dict[str, str]:
        return {}

    def stamps(self) -> dict[str, float]:
        return {name: self.now_s() - age for name, age in self.ages().items()}

    def send(self, command: JointCommand) -> None:
        self.sent.append(command)

    def now_s(self) -> float:
        return self.read().time_s + self._over_s()

    def _step(self) -> RecordedStep:
        return self._steps[max(0, min(self._taken, len(self._steps)) - 1)]

    def _over_s(self) -> float:
        """Since the recording was over [s]."""
        return self._period_s * max(0, self._taken - len(self._steps))
