"""How a Go2's motors come from the robot's own programs to us, and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.robot.unitree.dds import Bus
from pixelgait.robot.unitree.services import SPORT, STAND_DOWN, Client, MotionSwitcher

KNEES = slice(2, None, 3)  # of the joints
LOOK_S = 0.3  # from one look for who else commands to the next; ours
ALONE_S = 15.0  # for whoever commanded the motors to be gone: one that was killed is seen for 10 s
DOWN_S = 5.0  # for the robot's own program to lay it down, once it has said that it will; ours
SETTLE_S = 0.5  # from folded legs to the ground; ours


class Handover:
    """Takes the motors from whoever has them, of a robot that lies.

    `angles` looks anew at the joints [rad], `others` says who else could command the motors, as a
    sentence, empty if nobody.
    """

    def __init__(
        self, bus: Bus, spec: RobotSpec, angles: Callable[[], Array], others: Callable[[], str]
    ) -> None:
        self._bus, self._spec, self._angles, self._others = bus, spec, angles, others
        self._switcher: MotionSwitcher | None = None

    def take(self, stop: Event) -> None:
        """Until neither the robot's own programs have the motors nor anybody else.

        Raises:
            UserError: they keep them, or do not answer, or do not lay the robot down, or somebody
                else goes on to command it, or `stop` came first.
        """
        self._switcher = switcher = self._switcher or MotionSwitcher(self._bus)
        deadline = time.monotonic() + ALONE_S
        while (name := switcher.mode(stop)) or (others := self._others()):
            if name:
                self._lay_down(name, stop)
                switcher.release(stop)
                deadline = time.monotonic() + ALONE_S  # its writer may be seen as long
            elif time.monotonic() > deadline:
                raise UserError(others)
            else:
                stop.wait(LOOK_S)

    def give_back(self) -> None:
        """To the program that had them.

        Raises:
            UserError: the service does not answer, or refuses.
        """
        if self._switcher is not None:
            self._switcher.give_back()

    def _lay_down(self, name: str, stop: Event) -> None:
        """By the robot's own program: when that lets the motors go, a robot that stands falls."""
        if self._lies():
            return
        try:
            # As often as the vendor's samples do, until it answers.
            Client(self._bus, SPORT).call(STAND_DOWN, stop=stop, again=True)
            self._wait_until_it_lies(stop)
        except UserError as error:
            raise UserError(
                f"the robot stands, and '{name}' does not lay it down ({error}): "
                "do so by its remote"
            ) from None
        stop.wait(SETTLE_S)

    def _wait_until_it_lies(self, stop: Event) -> None:
        deadline = time.monotonic() + DOWN_S
        while not self._lies():
            if time.monotonic() > deadline:
                raise UserError(f"its legs are not folded after {DOWN_S:.0f} s")
            if stop.wait(0.05):
                raise UserError("stopped")

    def _lies(self) -> bool:
        """Whether all knees are nearer to where they are folded than to where the robot stands."""
        knees = self._angles()[KNEES]
        folded, standing = lying_pose(self._spec)[KNEES], self._spec.default_pose_rad[KNEES]
        return bool(knees.size and (abs(knees - folded) < abs(knees - standing)).all())
