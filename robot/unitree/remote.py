"""A Go2's remote control, of which every state message carries what is pressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

R1, L1, START, SELECT, R2, L2, F1, F2 = (1 << bit for bit in range(8))
A, B, X, Y, UP, RIGHT, DOWN, LEFT = (1 << bit for bit in range(8, 16))
# As in the vendor's own programs for policies (unitree_rl_mjlab), where they have one.
STOP, ARM, STAND_UP, WALK, LIE_DOWN = L2 | B, START, L2 | UP, R2 | A, L2 | DOWN


class Remote:
    """Gives orders when their buttons go down; others held meanwhile do not matter.

    Who holds those that stop wants the robot to stay stopped, whatever others order.
    """

    def __init__(self, commands: Mapping[int, Callable[[], object]]) -> None:
        self._orders = commands
        self._pressed = 0

    def hear(self, data: bytes) -> None:
        """The 40 bytes `wireless_remote` of a state."""
        pressed, before = int.from_bytes(data[2:4], "little"), self._pressed
        self._pressed = pressed
        for chord, order in self._orders.items():
            if pressed & chord == chord and (chord == STOP or before & chord != chord):
                order()
