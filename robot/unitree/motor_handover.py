"""Motor handover of a Go2: from the robot's own programs to this node, and back."""

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
POLL_S = 0.3  # between two checks for other writers; assumption
ALONE_S = 15.0  # for other writers to disappear; a killed one stays visible for 10 s
DOWN_S = 5.0  # for the robot's own program to lay it down after it has agreed; assumption
SETTLE_S = 0.5  # from folded legs to the ground; assumption


class MotorHandover:
    """Takes the motors of a robot that lies from the program that has them.

    `angles` returns the current joint angles (12,) [rad]. `others` describes other writers of
    commands, empty if there are none.
    """

    def __init__(
        self, bus: Bus, spec: RobotSpec, angles: Callable[[], Array], others: Callable[[], str]
    ) -> None:
        self._bus, self._spec, self._angles, self._others = bus, spec, angles, others
        self._switcher: MotionSwitcher | None = None

    def take(self, stop: Event) -> None:
        """Wait until neither the robot's own programs nor another writer have the motors.

        Raises:
            UserError: those programs keep the motors, do not answer or do not lay the robot down,
                another process keeps commanding it, or `stop` was set first.
        """
        self._switcher = switcher = self._switcher or MotionSwitcher(self._bus)
        deadline = time.monotonic() + ALONE_S
        while (name := switcher.mode(stop)) or (others := self._others()):
            if name:
                self._lay_down(name, stop)
                switcher.release(stop)
                deadline = time.monotonic() + ALONE_S  # its writer may stay visible as long
            elif time.monotonic() > deadline:
                raise UserError(others)
            else:
                stop.wait(POLL_S)

    def give_back(self) -> None:
        """Give the motors back to the program that had them.

        Raises:
            UserError: the service does not answer, or refuses.
        """
        if self._switcher is not None:
            self._switcher.give_back()

    def _lay_down(self, name: str, stop: Event) -> None:
        """Have the robot's own program lay it down: a standing robot would fall at the release."""
        if self._lies():
            return
        try:
            # Repeated until it answers, as in the vendor's samples.
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
        """Whether all knees are nearer to the lying pose than to the standing pose."""
        knees = self._angles()[KNEES]
        folded, standing = lying_pose(self._spec)[KNEES], self._spec.default_pose_rad[KNEES]
        return bool(knees.size and (abs(knees - folded) < abs(knees - standing)).all())
