"""A robot's driver and a camera's topics as the `Link` of a control loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.ros.wire.eyes import PAIR, RosEyes
from pixelgait.robot.spec import Array

# Sensors of a link, and what a contract calls them.
EYES = {ros.COLOUR: "camera", ros.DEPTH: "camera"}
TOPICS = {ros.JOINT_STATES: "joints", ros.IMU: "imu", **EYES}
GO2 = {"lowstate": "joints", **EYES}
__all__ = ["GO2", "PAIR", "TOPICS", "Driver", "RosLink"]


class Driver(Protocol):
    """A robot's joints, IMU and motors; as a `Link`, but without a camera and a clock."""

    sensors: tuple[str, ...]

    @property
    def received(self) -> Mapping[str, int]:
        """Messages taken, of each sensor."""

    def take(self) -> None: ...

    def forget(self) -> None: ...

    def angles(self) -> Array:
        """Of the joints [rad], as they came; none before they did."""

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading: ...

    def ages(self) -> Mapping[str, float]: ...

    def doubts(self) -> Mapping[str, str]: ...

    def stamps(self) -> Mapping[str, float]: ...

    def send(self, command: JointCommand) -> None: ...

    def acquire(self) -> None:
        """Become the one who commands the motors.

        Raises:
            UserError: somebody else is.
        """

    def intruder(self) -> str | None:
        """Who else commands the motors, or None; called now and then."""

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures and the like, as far as they are known."""

    def close(self) -> None:
        """Leave the robot."""


class RosLink:
    """Takes the newest of a driver and of a camera's topics, all in the control thread; a `Link`.

    Without eyes there is no camera. `also_take` is called with every take. Stamps are on the clock
    of the node.
    """

    def __init__(
        self,
        node: Any,
        driver: Driver,
        eyes: RosEyes | None,
        also_take: Callable[[], None] = lambda: None,
    ) -> None:
        self.odometry: Callable[[], Array | None] = lambda: None  # (3,), see `Reading`
        self.driver, self.eyes = driver, eyes
        self._node, self._also_take = node, also_take
        self.sensors = (*driver.sensors, *(() if eyes is None else eyes.topics))

    @property
    def received(self) -> dict[str, int]:
        """Messages taken, of each sensor."""
        return {**self.driver.received, **({} if self.eyes is None else self.eyes.received)}

    def take(self) -> None:
        """Fetch what has arrived.

        Raises:
            UserError: a message has no stamp.
        """
        self._also_take()
        self.driver.take()
        if self.eyes is not None:
            self.eyes.take(self.driver.angles())

    def forget(self) -> None:
        self.take()
        self.driver.forget()
        if self.eyes is not None:
            self.eyes.forget()

    def read(self) -> Reading:
        """What the driver said last; see there what it raises."""
        return self.driver.read(_blind if self.eyes is None else self.eyes.image, self.odometry())

    def ages(self) -> dict[str, float]:
        return {**self.driver.ages(), **({} if self.eyes is None else self.eyes.ages())}

    def doubts(self) -> dict[str, str]:
        return {**self.driver.doubts(), **({} if self.eyes is None else self.eyes.doubts())}

    def stamps(self) -> dict[str, float]:
        return {**self.driver.stamps(), **({} if self.eyes is None else self.eyes.stamps())}

    def send(self, command: JointCommand) -> None:
        """Hand the command to the driver."""
        self.driver.send(command)

    def now_s(self) -> float:
        return float(self._node.get_clock().now().nanoseconds) / 1e9


def _blind() -> Image:
    raise UserError("this robot has no camera")
