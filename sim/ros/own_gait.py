"""Gait of a simulated robot's own program, which follows velocities."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.bundle.bundle import LOW_LEVELS, load_bundle
from pixelgait.robot.control.controller import latent_of
from pixelgait.robot.control.low_level import LATENT_SIZE
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
            latent = np.clip(latent_of(velocity)[:LATENT_SIZE], LEAST_LATENT, MOST_LATENT)
            self._command = self._controller.follow(latent, reading).command
        self._steps += 1
        return self._command
