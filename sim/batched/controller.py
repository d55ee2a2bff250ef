"""The controller of n robots at once: the one of a robot, fed with arrays that have n rows.

Whoever reads anything that a supervisor would look at twice is `odd`: what happens then is for a
single robot's to decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Controller, HighLevel
from pixelgait.robot.control.low_level import HeadingHold, LinearLowLevel
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.rotation import is_unit, up_z
from pixelgait.robot.safety.sensor_checks import IMU_DRIFT_RAD, JointMonitor, imu_drift
from pixelgait.robot.safety.supervisor import LEAST_UP_Z, Supervisor
from pixelgait.robot.spec import Array, RobotSpec


class BatchController(Controller):
    """A `Controller` whose readings and commands are those of n robots, which decide in step.

    The high level decides latent commands (n, 2) for all of them, each has its own low level.
    """

    supervisor: BatchSupervisor

    def __init__(self, high_level: HighLevel, low_levels: LinearLowLevel) -> None:
        robots = len(low_levels.bias)
        supervisor = BatchSupervisor(low_levels.spec, robots)
        super().__init__(high_level, low_levels, supervisor, robots=(robots,))
        self.heading_hold = HeadingHolds(robots)


class HeadingHolds(HeadingHold):
    """The heading holds of n robots."""

    def __init__(self, robots: int) -> None:
        self.holds = [HeadingHold() for _ in range(robots)]
        super().__init__()

    def reset(self) -> None:
        """Hold whatever headings the robots have now."""
        for hold in self.holds:
            hold.reset()

    def corrected(self, latent: Array, orientation: Array) -> Array:
        """The latent commands (n, 2) for the low levels; orientations (n, 4)."""
        rows = zip(self.holds, latent, orientation, strict=True)
        return np.array([hold.corrected(command, at) for hold, command, at in rows])


class BatchSupervisor(Supervisor):
    """Keeps n robots to their limits; of those who are not `odd` (n,) nobody needs to be damped."""

    _joints: JointWatches

    def __init__(self, spec: RobotSpec, robots: int) -> None:
        super().__init__(spec)
        self.odd = np.zeros(robots, dtype=bool)
        self._joints = JointWatches(spec, self.odd)
        self._last: Array | None = None  # orientations and rates (7, n)
        self._drift = np.zeros((3, robots))

    def _find_fault(self, reading: Reading, targets: Array) -> None:
        orientation, rate = reading.orientation, reading.angular_velocity
        for part in (reading.joint_angles, reading.joint_velocities, rate, orientation, targets):
            self.odd |= ~np.isfinite(part).all(-1)
        self.odd |= ~is_unit(orientation.T)
        self.odd |= up_z(orientation.T) < LEAST_UP_Z
        self._judge_imus(np.concatenate((orientation.T, rate.T)))
        self._joints.judge(reading, targets if self._sent is None else self._sent)

    def _judge_imus(self, values: Array) -> None:
        """Orientations and rates (7, n) of a control step after the last ones."""
        last, self._last = self._last, values
        if last is None:
            return
        self._drift = np.array(imu_drift(self._drift, last, values, CONTROL_DT_S))
        self.odd |= (self._drift * self._drift).sum(0) > IMU_DRIFT_RAD**2
        self.odd |= (values == last).all(0)


class JointWatches(JointMonitor):
    """Judges the joints of n robots, and marks in `odd` (n,) who has one to be doubted."""

    def __init__(self, spec: RobotSpec, odd: NDArray[np.bool_]) -> None:
        super().__init__(spec, odd.shape)
        self.odd = odd

    def _find_stuck(self, angles: Array, sent: Array) -> None:
        stuck = self._stuck(angles, sent)
        if stuck is not None:
            self.odd |= stuck.any(-1)

    def _judge_joints(self, reading: Reading, step_s: float) -> None:
        self.odd |= (self._found > self._bounds).any((0, 2))
        self._trust(reading, step_s)


def stacked(low_levels: Sequence[LinearLowLevel]) -> LinearLowLevel:
    """The low levels of n robots as one."""
    matrix = np.stack([low_level.matrix for low_level in low_levels])
    return LinearLowLevel(low_levels[0].spec, matrix, np.stack([low.bias for low in low_levels]))
