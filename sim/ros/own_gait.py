"""Gait of a simulated robot's own program, which follows velocities."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.bundle.bundle import LOW_LEVELS, load_bundle
from pixelgait.robot.control.controller import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import SUBSTEPS
from pixelgait.sim.body.legged_body import standing

LEAST_LATENT, MOST_LATENT = (-1.8, -1.5), (1.0, 1.5)  # what the low levels follow


class OwnGait:
    """A gait that follows velocities: the shipped low level of this robot, at 100 Hz.

    Raises:
        UserError: there is none.
    """

    def __init__(self, spec: RobotSpec) -> None:
        if spec.name not in LOW_LEVELS:
            known = ", ".join(LOW_LEVELS)
            raise UserError(f"{spec.name} has no gait of its own, choose a robot from {known}")
        self._controller = load_bundle(LOW_LEVELS[spec.name], spec).controller()
        self._command, self._steps = standing(spec), 0
        self._controller.reset()

    def command(self, velocity: Array, reading: Reading) -> JointCommand:
        """The command of a physics step for a velocity (3,) x, y [m/s], yaw rate [rad/s]."""
        if self._steps % SUBSTEPS == 0:
            ahead, turn = velocity[0] / MAX_SPEED_M_PER_S, velocity[2] / MAX_YAW_RATE_RAD_PER_S
            latent = np.clip((2.0 * ahead - 1.0, turn), LEAST_LATENT, MOST_LATENT)
            self._command = self._controller.follow(latent, reading).command
        self._steps += 1
        return self._command
