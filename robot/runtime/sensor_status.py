"""Tells people how far every sensor can be relied on, whenever that changes, and why."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from pixelgait.robot.safety.supervisor import Patience, Stage

RECOVERED_S = 0.5  # so long it must be better before that is told: a limit case says little; ours
FOLLOWS = {
    Stage.FRESH: "is fresh",
    Stage.AGEING: "is ageing, the last decision holds",
    Stage.STALE: "is stale, the robot slows to a stand",
    Stage.DEAD: "is dead, the robot is damped",
}


class StageWatch:
    """Follows the ages of all sensors; `changes` are lines for people, oldest first.

    The first look tells of every sensor. What gets worse is told at once, what gets better when it
    has been so for `RECOVERED_S`. For control the ages count as they are.
    """

    def __init__(self, patience: Mapping[str, Patience]) -> None:
        self._patience = patience
        self.stages: dict[str, Stage] = {}  # as told
        self.changes: deque[tuple[Stage, str]] = deque(maxlen=100)
        self._better_since_s: dict[str, float] = {}

    def look(self, ages: Mapping[str, float], doubts: Mapping[str, str], now_s: float) -> None:
        """Ages [s] of this step, what is odd about them, and the time on any clock [s]."""
        for sensor, age_s in ages.items():
            stage, told = self._patience[sensor].stage(age_s), self.stages.get(sensor)
            if told is None:
                cause = "it sends" if stage is Stage.FRESH else _cause(age_s, doubts.get(sensor))
                self._tell(sensor, stage, cause)
                continue
            if stage >= told:
                self._better_since_s.pop(sensor, None)
            if stage > told:
                self._tell(sensor, stage, _cause(age_s, doubts.get(sensor)))
            elif stage < told:
                since_s = self._better_since_s.setdefault(sensor, now_s)
                if now_s - since_s > RECOVERED_S:
                    self._better_since_s.pop(sensor)
                    self._tell(sensor, stage, f"was {told.name.lower()}")

    def _tell(self, sensor: str, stage: Stage, cause: str) -> None:
        self.stages[sensor] = stage
        self.changes.append((stage, f"{sensor} {FOLLOWS[stage]}: {cause}"))


def _cause(age_s: float, doubt: str | None) -> str:
    silent = "never sent" if math.isinf(age_s) else f"nothing new for {age_s:.2f} s"
    return f"{silent}; {doubt}" if doubt else silent
