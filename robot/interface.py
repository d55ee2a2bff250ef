"""What crosses the border between a body and the controller, and the border itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from pixelgait.robot.spec import Array


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


@dataclass(frozen=True, slots=True)
class JointCommand:
    """Targets of the motors' PD loop: torque = kp (target - q) - kd dq + feed_forward."""

    time_s: float  # stamp of the reading it answers
    targets: Array  # (12,) [rad]
    kp: Array  # (12,) [Nm/rad]
    kd: Array  # (12,) [Nm s/rad]
    feed_forward: Array  # (12,) [Nm]


class Body(Protocol):
    """A robot, simulated or real. `apply` returns when the next reading is due."""

    def reset(self, seed: int) -> Reading: ...

    def read(self) -> Reading: ...

    def apply(self, command: JointCommand) -> None: ...
