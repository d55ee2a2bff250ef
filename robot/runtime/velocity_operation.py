"""State machine of a robot that stands up, walks and lies down by programs of its own."""

from __future__ import annotations

from pixelgait.robot.control.blocked import Blocked
from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.velocity import VelocityController
from pixelgait.robot.interface import (
    CONTROL_DT_S,
    DRIVER_TIMEOUT_S,
    Posture,
    Reading,
    VelocityCommand,
)
from pixelgait.robot.runtime.state_machine import Inputs, Operation, RobotState
from pixelgait.robot.safety.supervisor import without_camera

STANDS_AFTER_S = 2.0  # a Go2 takes 1 to 2 s to stand up; assumption
ANSWERS_S = 3.0  # until a robot begins to walk, besides its response's delay; assumption
POSTURES = {
    RobotState.LIMP: Posture.IDLE,
    RobotState.LYING_DOWN: Posture.DOWN,
    RobotState.STOPPED: Posture.STOP,
}


class VelocityOperation(Operation):
    """`Operation` whose robot stands up, stands and lies down by its own program.

    What moves is judged by odometry alone.
    """

    STALLED = "the robot has stopped"
    controller: VelocityController

    def __init__(
        self,
        controller: VelocityController,
        driver_timeout_s: float = DRIVER_TIMEOUT_S,
        needs_goal: bool = False,
    ) -> None:
        super().__init__(controller, driver_timeout_s, needs_goal)
        answers_s = ANSWERS_S + controller.response.speed.delay_s
        self.blocked = Blocked(None, self.supervisor.walking, answers_s)
        self._slow_walk = None

    def _locate(self, inputs: Inputs) -> Inputs:
        return inputs  # the robot's own program has odometry

    def _rise(self, reading: Reading) -> None:
        self.supervisor.rise()
        self.controller.begin()

    def _check_the_stand(self, reading: Reading) -> None:
        if self._steps * CONTROL_DT_S >= STANDS_AFTER_S and not reading.lies:
            self._enter(RobotState.READY, "stands")

    def _contradiction(self, reading: Reading, walking: bool) -> bool:
        return False

    def _pose_command(self, inputs: Inputs) -> VelocityCommand:
        supervisor, posture = self.controller.supervisor, POSTURES.get(self.state, Posture.UP)
        if posture in (Posture.IDLE, Posture.STOP):  # whatever the sensors say
            return supervisor.damp(inputs.reading.time_s, posture)
        lies = posture is Posture.DOWN  # goes on without a camera
        ages = without_camera(inputs.ages) if lies else inputs.ages
        return supervisor.pose(inputs.reading, posture, ages)


def operation_of(
    controller: Controller, driver_timeout_s: float = DRIVER_TIMEOUT_S, needs_goal: bool = False
) -> Operation:
    """The operation of a robot with this controller."""
    if isinstance(controller, VelocityController):
        return VelocityOperation(controller, driver_timeout_s, needs_goal)
    return Operation(controller, driver_timeout_s, needs_goal)
