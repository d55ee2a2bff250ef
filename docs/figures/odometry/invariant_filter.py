"""Contact-aided invariant Kalman filter, to compare leg odometry with.

Hartley, Ghaffari, Eustice, Grizzle: Contact-aided invariant extended Kalman filtering for robot
state estimation, IJRR 2020 (arXiv 1904.09251). State: orientation R, velocity v and position p of
the base, places d of the feet that stand, all in the world, and the IMU's biases. The error is
right-invariant; the measurement of a foot, R f(q) = d - p, is linear in it. The filter integrates
accelerations, which leg odometry does without.

The text-book form: feet that bear stand, with a random walk of their own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import LEGS, Array

GRAVITY = np.array((0.0, 0.0, -9.81))
FEET = len(LEGS)
# Continuous noise densities of the authors' implementation (Cassie), but of the encoders.
GYROSCOPE, ACCELEROMETER, FOOT_SLIP = 0.01, 0.1, 0.1
GYROSCOPE_WALK, ACCELEROMETER_WALK = 1e-5, 1e-4
ENCODER_RAD = 0.01
SWINGS = 10.0  # of a foot in the air [m/s]: it is found anew when it lands


def skew(vector: Array) -> Array:
    """The matrix (3, 3) of a cross product."""
    x, y, z = vector
    return np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))


def turn_by(vector: Array) -> Array:
    """The rotation (3, 3) by a rotation vector (3,) [rad]."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-9:
        return np.eye(3) + skew(vector)
    k = skew(vector / angle)
    return np.eye(3) + math.sin(angle) * k + (1.0 - math.cos(angle)) * k @ k


class InvariantFilter:
    """The filter of one walk: begins at rest at a pose."""

    def __init__(self, orientation: Array, position: Array) -> None:
        self.turn, self.v, self.p = orientation.copy(), np.zeros(3), position.copy()
        self.d = np.zeros((FEET, 3))
        self.stands = np.zeros(FEET, bool)
        self.bias = np.zeros(6)  # gyroscope, accelerometer
        n = 9 + 3 * FEET
        # Errors: orientation, velocity, position, feet, biases.
        variances = (
            [1e-4] * 3 + [1e-2] * 3 + [1e-8] * 3 + [1.0] * 3 * FEET + [1e-4] * 3 + [1e-2] * 3
        )
        self.spread, self._n = np.diag(variances), n

    def predict(self, rate: Array, acceleration: Array, dt: float) -> None:
        """Integrate the IMU: rate (3,) [rad/s], specific force (3,) [m/s^2], in the base frame."""
        w, a = rate - self.bias[:3], acceleration - self.bias[3:]
        turn, n = self.turn, self._n
        flow = np.zeros((n + 6, n + 6))
        flow[3:6, 0:3], flow[6:9, 3:6] = skew(GRAVITY), np.eye(3)
        flow[0:3, n : n + 3] = -turn
        flow[3:6, n : n + 3], flow[3:6, n + 3 :] = -skew(self.v) @ turn, -turn
        flow[6:9, n : n + 3] = -skew(self.p) @ turn
        for foot in range(FEET):
            rows = slice(9 + 3 * foot, 12 + 3 * foot)
            flow[rows, n : n + 3] = -skew(self.d[foot]) @ turn
        adjoint = np.eye(n + 6)
        adjoint[:n, :n] = np.kron(np.eye(n // 3), turn)
        for row, vector in enumerate((self.v, self.p, *self.d)):
            adjoint[3 + 3 * row : 6 + 3 * row, 0:3] = skew(vector) @ turn
        walks = np.where(self.stands, FOOT_SLIP, SWINGS)
        noise = np.concatenate(
            (
                *([GYROSCOPE**2] * 3, [ACCELEROMETER**2] * 3, [0.0] * 3),
                np.repeat(walks**2, 3),
                *([GYROSCOPE_WALK**2] * 3, [ACCELEROMETER_WALK**2] * 3),
            )
        )
        step = np.eye(n + 6) + flow * dt
        spread = adjoint @ np.diag(noise) @ adjoint.T * dt
        self.spread = step @ self.spread @ step.T + spread
        force = turn @ a + GRAVITY
        self.p = self.p + self.v * dt + 0.5 * force * dt * dt
        self.v = self.v + force * dt
        self.turn = turn @ turn_by(w * dt)

    def correct(self, feet: Array, jacobians: Array, stands: NDArray[np.bool_]) -> None:
        """Measure feet (4, 3) [m], with Jacobians (4, 3, 3), in the base frame, if they stand."""
        for foot in np.flatnonzero(stands & ~self.stands):  # it has landed
            self.d[foot] = self.p + self.turn @ feet[foot]
        self.stands = stands.copy()
        here = np.flatnonzero(stands)
        if not here.size:
            return
        n = self._n
        by_error, noise, off = np.zeros((3 * here.size, n + 6)), np.zeros((3 * here.size,) * 2), []
        for row, foot in enumerate(here):
            rows, columns = slice(3 * row, 3 * row + 3), slice(9 + 3 * foot, 12 + 3 * foot)
            by_error[rows, 6:9], by_error[rows, columns] = -np.eye(3), np.eye(3)
            across = self.turn @ jacobians[foot]
            noise[rows, rows] = ENCODER_RAD**2 * across @ across.T + 1e-8 * np.eye(3)
            off.append(self.turn @ feet[foot] + self.p - self.d[foot])
        gain = self.spread @ by_error.T @ np.linalg.inv(by_error @ self.spread @ by_error.T + noise)
        delta = gain @ np.concatenate(off)
        self._move(delta)
        keep = np.eye(n + 6) - gain @ by_error
        self.spread = keep @ self.spread @ keep.T + gain @ noise @ gain.T

    def _move(self, delta: Array) -> None:
        """Apply an error: X <- exp(delta) X, to first order in the translations."""
        turn = turn_by(delta[:3])
        self.turn = turn @ self.turn
        self.v, self.p = turn @ self.v + delta[3:6], turn @ self.p + delta[6:9]
        for foot in range(FEET):
            self.d[foot] = turn @ self.d[foot] + delta[9 + 3 * foot : 12 + 3 * foot]
        self.bias = self.bias + delta[self._n :]
