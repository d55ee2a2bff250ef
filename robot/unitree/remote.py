"""Remote control of a Go2: buttons give orders, sticks steer."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    latent_for,
)
from pixelgait.robot.spec import Array

# Bits of the buttons in `wireless_remote`.
R1, L1, START, SELECT, R2, L2, F1, F2 = (1 << bit for bit in range(8))
A, B, X, Y, UP, RIGHT, DOWN, LEFT = (1 << bit for bit in range(8, 16))
# As in the vendor's programs for policies (unitree_rl_mjlab), where they have one.
STOP, ARM, STAND_UP, WALK, LIE_DOWN = L2 | B, START, L2 | UP, R2 | A, L2 | DOWN
# Offsets of sticks in `wireless_remote`, float32 -1 to 1; up and right are positive. The vendor's
# programs take ly as the speed ahead and -rx as the yaw rate; lx, sideways, is not used here.
SPEED_AT, TURN_AT = 20, 8
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
    ) -> None:
        self._commands, self._steer = commands, steer
        self._pressed = 0
        self._ahead = self._left = 0.0  # deflections of the sticks, -1 to 1

    def update(self, data: bytes) -> None:
        """Process the 40 bytes `wireless_remote` of a state."""
        pressed, before = int.from_bytes(data[2:4], "little"), self._pressed
        self._pressed = pressed
        for buttons, command in self._commands.items():
            if pressed & buttons == buttons and (buttons == STOP or before & buttons != buttons):
                command()
        self._ahead, self._left = _deflection(data, SPEED_AT), -_deflection(data, TURN_AT)
        if max(abs(self._ahead), abs(self._left)) > TAKE_OVER:
            self._steer()

    def latent(self) -> Array:
        """The latent command (2,) of the sticks; their ends are the contract's limits."""
        speed, turn = _beyond_dead_zone(self._ahead), _beyond_dead_zone(self._left)
        return latent_for(speed * MAX_SPEED_M_PER_S, turn * MAX_YAW_RATE_RAD_PER_S)


def _deflection(data: bytes, offset: int) -> float:
    """A stick's deflection, -1 to 1; 0 if it is not finite."""
    (value,) = struct.unpack_from("<f", data, offset)
    return min(max(float(value), -1.0), 1.0) if math.isfinite(value) else 0.0


def _beyond_dead_zone(deflection: float) -> float:
    """The deflection without the dead zone, again -1 to 1."""
    beyond = max(0.0, abs(deflection) - DEAD_ZONE) / (1.0 - DEAD_ZONE)
    return math.copysign(beyond, deflection)
