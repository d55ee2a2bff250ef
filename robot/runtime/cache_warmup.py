"""The last control step once more, before the next: its code and data are in the caches then."""

from __future__ import annotations

from pixelgait.robot.control.controller import Controller
from pixelgait.robot.interface import Reading
from pixelgait.robot.safety.supervisor import Supervisor


class CacheWarmup:
    """An understudy of a controller: takes its steps once more, and nobody obeys it.

    Between two steps a busy computer drives the code and data of a step out of the processor's
    caches; a step then takes four times as long. Who rehearses while the next reading is still to
    come waits for the memory where nothing is waiting for an answer.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        supervisor = Supervisor(controller.supervisor.spec)
        self._shadow = Controller(controller.high_level, controller.low_level, supervisor)

    def reset(self) -> None:
        """Forget all readings: the controller begins anew as well."""
        self._shadow.reset()

    def run(self, reading: Reading) -> None:
        """Answer the reading that the controller has answered last; nothing is looked at."""
        self._shadow.supervisor.motors_enabled = self._controller.supervisor.motors_enabled
        self._shadow.follow(self._controller.followed, reading)
