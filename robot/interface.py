"""Readings and commands, and the two borders they cross: a simulated body, a wire to a robot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from pixelgait.robot.spec import Array

CONTROL_DT_S = 0.01  # 100 Hz, as in Google's PMTG environments
# All ours. From wherever the joints are into the pose in which it stands; gains grow from nothing.
STAND_S, FADE_S = 1.0, 0.5
# Silent for longer, and a driver has damped its motors: the robot must be taken as lying.
DRIVER_TIMEOUT_S = 0.1


@dataclass(frozen=True, slots=True)
class Image:
    """A camera frame with the time it was taken."""

    pixels: NDArray[Any]  # (H, W, 3) uint8 RGB, (H, W) float32 depth [m], (H, W, 4) uint8 RGB-D
    time_s: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One stamped set of sensor values.

    `image` fetches the newest frame. It is a call because rendering, decoding and resizing cost
    far more than a control step, and only the high level, which runs rarely, needs the frame.
    """

    time_s: float
    joint_angles: Array  # (12,) [rad], in the order of RobotSpec.joint_names
    joint_velocities: Array  # (12,) [rad/s]
    orientation: Array  # (4,) quaternion xyzw, base in world
    angular_velocity: Array  # (3,) [rad/s], base frame
    image: Callable[[], Image]
    # (3,) x, y [m], heading [rad] in a frame that stays (REP 105's odom); None: nobody knows it
    odometry: Array | None = None


@dataclass(frozen=True, slots=True)
class JointCommand:
    """Targets of the motors' PD loop: torque = kp (target - q) - kd dq + feed_forward."""

    time_s: float  # stamp of the reading it answers
    targets: Array  # (12,) [rad]
    kp: Array  # (12,) [Nm/rad]
    kd: Array  # (12,) [Nm s/rad]
    feed_forward: Array  # (12,) [Nm]


class Body(Protocol):
    """A robot that waits for its controller: `apply` returns when the next reading is due.

    A reading's image is pulled: whoever decides calls back for it, within the same control step.
    """

    def reset(self, seed: int) -> Reading: ...

    def read(self) -> Reading: ...

    def ages(self) -> Mapping[str, float]:
        """For how long sensors have said nothing [s]; those not named are fresh."""

    def apply(self, command: JointCommand) -> None: ...


class Link(Protocol):
    """The wire to a robot that does not wait: topics, a vendor's interface, a recording.

    It carries and converts; when to read and send, and what to make of silence, is decided by the
    control loop and the supervisor.
    """

    sensors: tuple[str, ...]  # whose stamps there are
    # Of them those that the robot sends together, for which a step may wait; the first one tells.
    synchronised_sensors: tuple[str, ...]

    def take(self) -> None:
        """Fetch what has arrived since the last call; `read`, `ages` and `stamps` speak of that.

        With a `pulse` several times in a step, without one once.
        """

    def forget(self) -> None:
        """Treat what has arrived so far as never sent: it may have waited for long."""

    def read(self) -> Reading:
        """The newest values of all sensors.

        Raises:
            UserError: what a sensor sends does not fit the robot; the message says how.
        """

    def ages(self) -> Mapping[str, float]:
        """For how long each sensor has said nothing new [s], by arrival and by stamp, whichever is
        worse (`Freshness`); inf if it never has.

        On a clock that does not jump: a step of this computer's must neither hide a dead sensor
        nor fake one.
        """

    def warnings(self) -> Mapping[str, str]:
        """What is odd about what arrives from sensors, of those of which something is."""

    def stamps(self) -> Mapping[str, float]:
        """When what was read was measured, of each sensor [s], on the clock of `now_s`."""

    def send(self, command: JointCommand) -> None:
        """Hand the command to the motors' drivers."""

    def now_s(self) -> float:
        """Time on the clock that readings and commands are stamped with [s]."""
