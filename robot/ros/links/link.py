"""A robot's driver and a camera as the `Link` of a control loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Any, Protocol, TypeVar

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.camera import CameraTopics
from pixelgait.robot.ros.links.topic_driver import CommandTopic
from pixelgait.robot.safety.sensor_age import Seen
from pixelgait.robot.spec import Array

Value = TypeVar("Value")


class Driver(Protocol):
    """A robot's joints, IMU and motors; as a `Link`, but without a camera and a clock."""

    sensors: tuple[str, ...]  # the joints' first: a step waits for it

    @property
    def commands(self) -> str | None:
        """The ROS 2 topic of its commands, which nobody else may publish."""

    @property
    def received(self) -> Mapping[str, int]:
        """Messages taken, of each sensor."""

    def take(self) -> None: ...

    def forget(self) -> None: ...

    def angles(self) -> Array:
        """Of the joints [rad], as they came; none before they did."""

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading: ...

    def ages(self) -> Mapping[str, float]: ...

    def warnings(self) -> Mapping[str, str]: ...

    def stamps(self) -> Mapping[str, float]: ...

    def send(self, command: JointCommand) -> None: ...

    def acquire(self, stop: Event) -> None:
        """Get ready to command the motors; before, nothing is to be sent.

        Raises:
            UserError: they cannot be commanded, or `stop` came first.
        """

    def take_motors(self, stop: Event) -> None:
        """From whoever has them, once all sensors send; before, nothing stiff is to be sent.

        Raises:
            UserError: somebody keeps them, or `stop` came first.
        """

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Who else tells of the robot or, where this node is `commanding`, commands its motors, or
        that nobody obeys; None if all is well. Called now and then."""

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures and the like, as far as they are known."""

    def motor_warning(self) -> str | None:
        """What of that is worth a warning, or None."""

    def pace(self) -> Mapping[str, float]:
        """For reports: how many commands were due, and late, where it repeats them by itself."""

    def settle(self) -> None:
        """Nobody will send any more: leave the motors damped, as long as that takes."""

    def close(self) -> None:
        """Leave the robot."""


class RosLink:
    """Takes the newest of a driver and of a camera, all in the control thread; a `Link`.

    Without eyes there is no camera. `also_take` is called with every take. With a shadow, a topic
    for what would have been sent, the driver is not used but to hear. Stamps are on the clock of
    the node.
    """

    def __init__(
        self,
        node: Any,
        driver: Driver,
        eyes: CameraTopics | None,
        also_take: Callable[[], None],
        shadow: CommandTopic | None,
    ) -> None:
        self.odometry: Callable[[], Array | None] = lambda: None  # (3,), see `Reading`
        self.odometry_seen: Callable[[], Seen] | None = None  # where it is needed
        self.also_forget: Callable[[], None] = lambda: None  # what `also_take` has heard
        self.driver, self.eyes = driver, eyes
        self._node, self._also_take, self._shadow = node, also_take, shadow
        self._parts: tuple[Driver | CameraTopics, ...] = (
            (driver,) if eyes is None else (driver, eyes)
        )
        self.sensors = (*driver.sensors, *(() if eyes is None else eyes.sensors))
        self.synchronised_sensors = driver.sensors

    @property
    def received(self) -> dict[str, int]:
        """Messages taken, of each sensor."""
        return _merged(part.received for part in self._parts)

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
        for part in self._parts:
            part.forget()
        self.also_forget()

    def read(self) -> Reading:
        """What the driver said last; see there what it raises."""
        return self.driver.read(_blind if self.eyes is None else self.eyes.image, self.odometry())

    def ages(self) -> dict[str, float]:
        return _merged(part.ages() for part in self._parts)

    def warnings(self) -> dict[str, str]:
        return _merged(part.warnings() for part in self._parts)

    def stamps(self) -> dict[str, float]:
        return _merged(part.stamps() for part in self._parts)

    def acquire(self, stop: Event) -> None:
        """Get ready to command the motors; see the driver what it raises."""
        if self._shadow is None:
            self.driver.acquire(stop)

    def take_motors(self, stop: Event) -> None:
        """From whoever has them; see the driver what it raises."""
        if self._shadow is None:
            self.driver.take_motors(stop)

    def conflicting_publisher(self) -> str | None:
        """Who else tells of the robot or commands its motors; a shadow is in nobody's way there."""
        return self.driver.conflicting_publisher(self._shadow is None)

    def send(self, command: JointCommand) -> None:
        """Hand the command to the driver, or to whom it shall be shown."""
        (self._shadow or self.driver).send(command)

    def settle(self) -> None:
        """Nobody will send any more; returns when the motors may be left alone."""
        if self._shadow is None:
            self.driver.settle()

    def close(self) -> None:
        """Leave the robot and the camera; see the driver what it raises."""
        try:
            self.driver.close()
        finally:
            if self._shadow is not None:
                self._shadow.close()

    def now_s(self) -> float:
        return ros2.now_s(self._node)


def _merged(parts: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """What each part says of its own sensors."""
    return {name: value for part in parts for name, value in part.items()}


def _blind() -> Image:
    raise UserError("this robot has no camera")
