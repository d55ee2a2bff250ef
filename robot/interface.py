"""Readings and joint commands; interfaces of a simulated body and of a robot's link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

CONTROL_DT_S = 0.01  # 100 Hz, as in Google's PMTG environments
# Assumptions: durations of standing up, from any joint angles, and of raising the gains from 0.
STAND_S, FADE_S = 1.0, 0.5
GRAVITY_M_PER_S2 = 9.81
# Watchdog of the motors' driver: without commands for longer it has damped them (assumption).
DRIVER_TIMEOUT_S = 0.1


@dataclass(frozen=True, slots=True)
class Image:
    """A camera frame and its stamp."""

    pixels: NDArray[Any]  # (H, W, 3) uint8 RGB, (H, W) float32 depth [m], (H, W, 4) uint8 RGB-D
    time_s: float
    around: NDArray[np.uint8] | None = None  # (32, W): the map of a policy that takes one

    @property
    def whole(self) -> NDArray[Any]:
        """Input image of a policy: the frame (H, W, C) and, below it, the map in every channel."""
        if self.around is None:
            return self.pixels
        below = np.broadcast_to(self.around[..., None], (*self.around.shape, self.pixels.shape[2]))
        return np.concatenate((self.pixels, below))


@dataclass(frozen=True, slots=True)
class Reading:
    """One stamped set of sensor values.

    `image` fetches the newest frame. It is a function because rendering, decoding and resizing cost
    far more than a control step, and only the high level, which runs rarely, needs the frame.
    """

    time_s: float
    # (12,) [rad], in the order of RobotSpec.joint_names; (0,) of a robot with its own gait
    joint_angles: Array
    joint_velocities: Array  # (12,) or (0,) [rad/s]
    orientation: Array  # (4,) quaternion xyzw, base in world
    angular_velocity: Array  # (3,) [rad/s], base frame
    image: Callable[[], Image]
    # (3,) x, y [m], heading [rad] in REP 105's frame odom; None: there is none; nan: unknown
    odometry: Array | None = None
    lies: bool = False  # a robot with its own gait, as its link tells
    # By estimators, for low levels that observe them; None: there is none.
    linear_velocity: Array | None = None  # (3,) [m/s], base frame
    height_scan: Array | None = None  # (187,) of the base above `height_scan.POINTS` [m]
    # (3,) [m/s^2], base frame, +g upwards at rest: an accelerometer's mean since the last reading
    specific_force: Array | None = None


@dataclass(frozen=True, slots=True)
class JointCommand:
    """Command to the motors' PD controllers: torque = kp (target - q) - kd dq + feed_forward."""

    time_s: float  # stamp of the reading it answers
    targets: Array  # (12,) [rad]
    kp: Array  # (12,) [Nm/rad]
    kd: Array  # (12,) [Nm s/rad]
    feed_forward: Array  # (12,) [Nm]

    @property
    def values(self) -> Array:
        """The commanded values: here the targets."""
        return self.targets


class Posture(Enum):
    """Posture commanded of a robot that walks by a gait of its own."""

    IDLE = "idle"  # free: nothing is sent but the end of the last velocity
    UP = "up"  # stand, or walk with the commanded velocity
    DOWN = "down"  # lie down
    STOP = "stop"  # the robot's own emergency stop


NO_JOINTS: Array = np.zeros(0)


@dataclass(frozen=True, slots=True)
class VelocityCommand(JointCommand):
    """Command to a robot that walks by a gait of its own: it has no joints for us."""

    velocity: Array  # (3,) x, y [m/s], yaw rate [rad/s], base frame
    posture: Posture

    @property
    def values(self) -> Array:
        """The velocity."""
        return self.velocity


def velocity_command(time_s: float, velocity: Array, posture: Posture) -> VelocityCommand:
    """A `VelocityCommand` that answers the reading with this stamp [s]."""
    return VelocityCommand(time_s, NO_JOINTS, NO_JOINTS, NO_JOINTS, NO_JOINTS, velocity, posture)


class Body(Protocol):
    """A simulated robot, which waits for its controller: `apply` returns when a reading is due.

    A reading's image is fetched within the same control step.
    """

    def reset(self, seed: int) -> Reading: ...

    def read(self) -> Reading: ...

    def ages(self) -> Mapping[str, float]:
        """Ages of the sensors' data [s]; sensors not named are fresh."""

    def apply(self, command: JointCommand) -> None: ...


class Link(Protocol):
    """Connection to a robot that does not wait: topics, a vendor's interface, a recording.

    A link transports and converts. The control loop decides when to read and send, the supervisor
    judges the sensors' ages.
    """

    sensors: tuple[str, ...]  # names of all that have stamps
    # Sensors sent together, which a step may wait for; the first one's stamp counts.
    synchronised_sensors: tuple[str, ...]

    def take(self) -> None:
        """Fetch what has arrived since the last call, for `read`, `ages` and `stamps`.

        Called once in a step, or several times if there are `synchronised_sensors`.
        """

    def forget(self) -> None:
        """Discard what has arrived so far: it may be old."""

    def read(self) -> Reading:
        """The newest values of all sensors.

        Raises:
            UserError: if a sensor's data does not fit the robot.
        """

    def ages(self) -> Mapping[str, float]:
        """Age of each sensor's data [s], by arrival or by stamp, whichever is worse (`Freshness`).

        inf if it never sent. By the monotonic clock: setting the computer's clock must neither hide
        a dead sensor nor fake one.
        """

    def warnings(self) -> Mapping[str, str]:
        """Warnings per sensor; healthy sensors have none."""

    def stamps(self) -> Mapping[str, float]:
        """Stamp of each sensor's newest data [s], on the clock of `now_s`."""

    def send(self, command: JointCommand) -> None:
        """Send the command to the motors' drivers."""

    def now_s(self) -> float:
        """Time [s] on the clock that stamps readings and commands."""
