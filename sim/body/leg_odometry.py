"""Leg odometry of a simulated robot: as on board, and its errors against the truth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from pixelgait.robot.estimation.leg_odometry import LegOdometry, Motion
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import heading, to_base_frame, wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import (
    GRAVITY_Z_M_PER_S2,
    BasePose,
    ChangedBody,
    SimulatedBody,
)
from pixelgait.sim.world.seeds import Stream

# Noise of joint velocities [rad/s], which encoders differentiate; drawn for an episode. Published
# filters of an A1 and an ANYmal C take 0.035; up to ten times that (assumption) also stands for
# backlash and compliance. Simulators have none, so that leg odometry would look too good.
ENCODERS = (0.02, 0.3)
# A BMI088 has a noise density of 175 ug per root Hz and an offset of 20 mg. Twenty times that noise
# stands for what shakes besides the trunk (assumption).
ACCELEROMETER_NOISE = 0.03  # [m/s^2 per root Hz]
ACCELEROMETER_OFFSET = 0.2  # [m/s^2], standard deviation
# Squared error over variance of two coordinates, below which 95 % of them are: chi-square.
INSIDE_95 = 5.991


def with_leg_odometry(body: SimulatedBody) -> SimulatedBody:
    """The body, whose readings have the odometry of its legs."""
    return cast(SimulatedBody, LegOdometryBody(body))


class EncoderNoise:
    """Noise of joint velocities; its standard deviation is drawn for an episode."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._noise = rng, rng.uniform(*ENCODERS)

    def __call__(self, reading: Reading) -> Reading:
        """The reading with noisy joint velocities."""
        noise = self._rng.normal(0.0, self._noise, reading.joint_velocities.size)
        return replace(reading, joint_velocities=reading.joint_velocities + noise)


class Accelerometer:
    """Specific force [m/s^2] of a base by its poses, with noise and an episode's offset."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._offset = rng, rng.normal(0.0, ACCELEROMETER_OFFSET, 3)
        self._before: tuple[Array, Array] | None = None  # position and velocity

    def __call__(self, pose: BasePose, step_s: float) -> Array:
        """The mean over a step that ends at this pose; at rest before it there was another."""
        position = np.array(pose.position)
        last, velocity = self._before or (position, np.zeros(3))
        now = (position - last) / step_s
        self._before = position, now
        x, y, z = ((now - velocity) / step_s).tolist()
        force = to_base_frame((x, y, z - GRAVITY_Z_M_PER_S2), pose.orientation)
        noise = self._rng.normal(0.0, ACCELEROMETER_NOISE / math.sqrt(step_s), 3)
        return np.asarray(force + self._offset + noise)


class LegOdometryBody(ChangedBody):
    """A `SimulatedBody` with noisy joint velocities, an accelerometer, and leg odometry.

    The odometry begins at its pose.
    """

    def __init__(self, body: SimulatedBody) -> None:
        super().__init__(body)
        self.odometry = LegOdometry(body.spec)

    def _begin(self, seed: int) -> None:
        """Begin at the body's pose."""
        self._noise = EncoderNoise(Stream.SENSORS.rng(seed, 1))
        self._accelerometer = Accelerometer(Stream.SENSORS.rng(seed, 2))
        self._command: JointCommand | None = None
        self._pose = self._true_pose()
        self._way_m, self._squares, self._moved = 0.0, 0.0, 0
        self.odometry.reset(*self._pose)

    def apply(self, command: JointCommand) -> None:
        """One control step."""
        self._command = command
        self.body.apply(command)

    def step(self, command: JointCommand) -> None:
        """One physics step."""
        self._command = command
        self.body.step(command)

    def _changed(self, reading: Reading) -> Reading:
        force = self._accelerometer(self.body.pose(), CONTROL_DT_S)
        reading = replace(self._noise(reading), specific_force=force)
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
