"""Leg odometry of a simulated robot: as on board, and its errors against the truth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from pixelgait.robot.estimation.leg_odometry import LegOdometry, Motion
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.world.seeds import Stream

# Noise of joint velocities [rad/s], which encoders differentiate; drawn for an episode. Published
# filters of an A1 and an ANYmal C take 0.035; up to ten times that (assumption) also stands for
# backlash and compliance. Simulators have none, so that leg odometry would look too good.
ENCODERS = (0.02, 0.3)
# Squared error over variance of two coordinates, below which 95 % of them are: chi-square.
INSIDE_95 = 5.991


def with_leg_odometry(body: SimulatedBody) -> SimulatedBody:
    """The body, whose readings have the odometry of its legs."""
    return cast(SimulatedBody, LegOdometryBody(body))


class LegOdometryBody:
    """A `SimulatedBody` with noisy joint velocities and leg odometry, which begins at its pose."""

    def __init__(self, body: SimulatedBody) -> None:
        self.body, self.odometry = body, LegOdometry(body.spec)

    def __getattr__(self, name: str) -> Any:
        """Everything else of a `SimulatedBody` is the body's own."""
        return getattr(self.body, name)

    def reset(self, seed: int) -> Reading:
        """Reset the body, and begin at its pose."""
        reading = self.body.reset(seed)
        self._rng = Stream.SENSORS.rng(seed, 1)
        self._noise = self._rng.uniform(*ENCODERS)
        self._command: JointCommand | None = None
        self._pose = self._true_pose()
        self._way_m, self._squares, self._moved = 0.0, 0.0, 0
        self.odometry.reset(*self._pose)
        return self._with(reading)

    def read(self) -> Reading:
        """The body's reading with the odometry of its legs."""
        return self._with(self.body.read())

    def apply(self, command: JointCommand) -> None:
        """One control step."""
        self._command = command
        self.body.apply(command)

    def step(self, command: JointCommand) -> None:
        """One physics step."""
        self._command = command
        self.body.step(command)

    def _with(self, reading: Reading) -> Reading:
        noise = self._rng.normal(0.0, self._noise, reading.joint_velocities.size)
        reading = replace(reading, joint_velocities=reading.joint_velocities + noise)
        self.motion = motion = self.odometry.update(reading, self._command)
        self._compare(motion)
        return replace(reading, odometry=np.array((motion.x, motion.y, motion.heading)))

    def _compare(self, motion: Motion) -> None:
        """Count the errors of a control step."""
        before, pose = self._pose, self._true_pose()
        self._pose = pose
        dx, dy = pose[0] - before[0], pose[1] - before[1]
        cos, sin = math.cos(pose[2]), math.sin(pose[2])
        ahead, left = (cos * dx + sin * dy) / CONTROL_DT_S, (cos * dy - sin * dx) / CONTROL_DT_S
        self._way_m += math.hypot(dx, dy)
        self._squares += (motion.ahead - ahead) ** 2 + (motion.left - left) ** 2
        self._moved += 1

    def _true_pose(self) -> tuple[float, float, float]:
        (x, y, _), orientation = self.body.pose()
        return x, y, heading(orientation)

    def errors(self) -> dict[str, float]:
        """Errors of the episode so far.

        At its end of position [m], as a share of the way, and of the heading [rad]; root mean
        square of the velocity [m/s]; whether the position is where 95 % should be.
        """
        motion, (x, y, yaw) = self.motion, self._pose
        error = np.array((motion.x - x, motion.y - y))
        xx, xy, yy = motion.position_variance
        spread = np.array(((xx, xy), (xy, yy))) + 1e-12 * np.eye(2)
        error_m = float(np.hypot(*error))
        return {
            "way_m": self._way_m,
            "odometry_error_m": error_m,
            "odometry_error_share": error_m / max(self._way_m, 1e-3),
            "heading_error_rad": abs(wrap_angle(motion.heading - yaw)),
            "velocity_error_m_per_s": math.sqrt(self._squares / max(1, self._moved)),
            "odometry_inside_rate": float(error @ np.linalg.solve(spread, error) < INSIDE_95),
        }
