"""Remote control of a Go2: buttons give orders, sticks steer."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping

import numpy as np

from pixelgait.robot.control.controller import GAIT_COMMAND, latent_within
from pixelgait.robot.spec import Array, Ranges

# Bits of the buttons in `wireless_remote`.
R1, L1, START, SELECT, R2, L2, F1, F2 = (1 << bit for bit in range(8))
A, B, X, Y, UP, RIGHT, DOWN, LEFT = (1 << bit for bit in range(8, 16))
# As in the vendor's programs for policies (unitree_rl_mjlab), where they have one.
STOP, ARM, STAND_UP, WALK, LIE_DOWN = L2 | B, START, L2 | UP, R2 | A, L2 | DOWN
# Offsets of sticks in `wireless_remote`, float32 -1 to 1; up and right are positive. The vendor's
# programs take ly as the speed ahead, -lx as that to the left, and -rx as the yaw rate.
SPEED_AT, SIDE_AT, TURN_AT = 20, 4, 8
# Deflections of sticks. Assumptions: a stick at rest is off by up to 0.05; one that is brushed by
# chance does not take over.
DEAD_ZONE, TAKE_OVER = 0.1, 0.3


class Remote:
    """Calls a command when its buttons go down, whatever else is pressed.

    The stop is repeated while its buttons are held. `steer` is called while a stick is deflected by
    more than `TAKE_OVER`.
    """

    def __init__(
        self,
        commands: Mapping[int, Callable[[], object]],
        steer: Callable[[], object] = lambda: None,
        ranges: Ranges = GAIT_COMMAND,
    ) -> None:
        self._commands, self._steer, self._ranges = commands, steer, ranges
        self._pressed = 0
        # Deflections of the sticks, -1 to 1: ahead, to the left, turn to the left.
        self._sticks = [0.0, 0.0, 0.0]

    def update(self, data: bytes) -> None:
        """Process the 40 bytes `wireless_remote` of a state."""
        pressed, before = int.from_bytes(data[2:4], "little"), self._pressed
        self._pressed = pressed
        for buttons, command in self._commands.items():
            if pressed & buttons == buttons and (buttons == STOP or before & buttons != buttons):
                command()
        ahead, right, turn = (_deflection(data, at) for at in (SPEED_AT, SIDE_AT, TURN_AT))
        self._sticks = [ahead, -right if any(self._ranges[1]) else 0.0, -turn]
        if max(map(abs, self._sticks)) > TAKE_OVER:
            self._steer()

    def latent(self) -> Array:
        """The latent command of the sticks; their ends are the contract's limits."""
        velocity = [
            share * (most if share > 0.0 else -least)
            for share, (least, most) in zip(
                map(_beyond_dead_zone, self._sticks), self._ranges, strict=True
            )
        ]
        return latent_within(self._ranges, np.array(velocity))


def _deflection(data: bytes, offset: int) -> float:
    """A stick's deflection, -1 to 1; 0 if it is not finite."""
    (value,) = struct.unpack_from("<f", data, offset)
    return min(max(float(value), -1.0), 1.0) if math.isfinite(value) else 0.0


def _beyond_dead_zone(deflection: float) -> float:
    """The deflection without the dead zone, again -1 to 1."""
    beyond = max(0.0, abs(deflection) - DEAD_ZONE) / (1.0 - DEAD_ZONE)
    return math.copysign(beyond, deflection)
