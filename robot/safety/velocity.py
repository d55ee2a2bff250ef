"""Supervisor of a robot with a gait of its own: it checks sensors and limits velocities."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from pixelgait.robot.interface import (
    CONTROL_DT_S,
    Posture,
    Reading,
    VelocityCommand,
    velocity_command,
)
from pixelgait.robot.rotation import is_unit, up_z
from pixelgait.robot.safety.supervisor import (
    MIN_UP_Z,
    NOT_FINITE,
    SENSOR_TIMEOUTS,
    SensorTimeouts,
    Supervisor,
    tilted,
)
from pixelgait.robot.spec import Array, RobotSpec

VELOCITY_TIMEOUT_S = 0.5  # a velocity is followed for so long; Nav2's
# Odometry of such robots comes at 10 to 50 Hz, and their gait keeps them upright without it.
# Assumptions, as for a camera.
ODOMETRY, ODOMETRY_TIMEOUTS = "odometry", SensorTimeouts(0.3, 0.5, 2.0)
MOST = np.array((1.0, 0.6, 1.5))  # x, y [m/s], yaw rate [rad/s], either way; assumption
# Change of x, y [m/s^2] and yaw rate [rad/s^2]: commands of policies jump. Assumption: as fast as a
# stale sensor slows a robot down, to full speed within 0.3 s.
MOST_CHANGE = np.array((2.0, 2.0, 5.0))
STILL: Array = np.zeros(3)


class VelocitySupervisor(Supervisor):
    """Limits velocities and their change; on a fault the velocity is zero for good.

    The robot's own program keeps it upright. Joints are neither known nor commanded.
    """

    def __init__(
        self, spec: RobotSpec, sensor_timeouts: Mapping[str, SensorTimeouts] = SENSOR_TIMEOUTS
    ) -> None:
        self._velocity = STILL  # (3,) the last that was sent
        super().__init__(spec, sensor_timeouts)

    def rise(self) -> None:
        super().rise()
        self._velocity = STILL

    def filtered(self, reading: Reading) -> Reading:
        """The reading: it has no joints."""
        return reading

    def check_limp(self, reading: Reading, rises: bool = False) -> bool:
        """Whether it may stand up: its own program judges that."""
        return True

    def review_velocity(
        self, reading: Reading, velocity: Array, ages: Mapping[str, float]
    ) -> VelocityCommand:
        """The command to send for a velocity (3,) x, y [m/s], yaw rate [rad/s]."""
        if not np.isfinite(velocity).all():
            self.fail("a velocity is not finite")
        most = MOST_CHANGE * CONTROL_DT_S
        velocity = np.clip(velocity, -MOST, MOST)
        velocity = self._velocity + np.clip(velocity - self._velocity, -most, most)
        return self.pose(reading, Posture.UP, ages, velocity)

    def pose(
        self,
        reading: Reading,
        posture: Posture,
        ages: Mapping[str, float],
        velocity: Array = STILL,
    ) -> VelocityCommand:
        """The command to send for a posture, by default without a velocity."""
        if self.fault is None:
            self.fault = self._find_silence(ages) or _wrong(reading)
        if self.fault is not None:
            return self.damp(reading.time_s)
        self._velocity = velocity
        return velocity_command(reading.time_s, velocity, posture)

    def damp(self, time_s: float, posture: Posture = Posture.IDLE) -> VelocityCommand:
        """The command not to move; needs no reading."""
        self._velocity = STILL
        return velocity_command(time_s, STILL, posture)


def _wrong(reading: Reading) -> str | None:
    """The fault of a reading, or None."""
    if not all(map(math.isfinite, (*reading.orientation, *reading.angular_velocity))):
        return NOT_FINITE
    if not is_unit(quaternion := reading.orientation.tolist()):
        return "the odometry's orientation is no unit quaternion"
    return tilted(up) if (up := up_z(quaternion)) < MIN_UP_Z else None
