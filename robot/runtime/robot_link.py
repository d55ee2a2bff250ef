"""`Link` of the control loop to a robot: a driver for joints, IMU and motors, and a camera."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Any, Protocol, TypeVar

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.runtime.camera import Camera
from pixelgait.robot.runtime.power import PowerState
from pixelgait.robot.safety.sensor_age import SensorReport
from pixelgait.robot.spec import Array

Value = TypeVar("Value")


class Driver(Protocol):
    """A robot's joints, IMU and motors; like a `Link`, but without a camera and a clock."""

    sensors: tuple[str, ...]  # the joints first: a control step waits for them

    @property
    def commands(self) -> str | None:
        """The ROS 2 topic of its commands, which no other node may publish."""

    @property
    def received(self) -> Mapping[str, int]:
        """Number of messages taken, by sensor."""

    def take(self) -> None: ...

    def forget(self) -> None: ...

    def angles(self) -> Array:
        """Raw joint angles (12,) [rad]; empty before the first message."""

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading: ...

    def ages(self) -> Mapping[str, float]: ...

    def warnings(self) -> Mapping[str, str]: ...

    def stamps(self) -> Mapping[str, float]: ...

    def send(self, command: JointCommand) -> None: ...

    def mount_imu(self, transforms: Any) -> str | None:
        """Rotate the IMU's values into the base from now on, if its mount is known by transforms.

        Called once all sensors send. Returns what an operator should know about the mount, if any.
        """

    def acquire(self, stop: Event) -> None:
        """Get ready to command the motors; `send` is not called before.

        Raises:
            UserError: the motors cannot be commanded, or `stop` was set first.
        """

    def take_motors(self, stop: Event) -> None:
        """Take over the motors, once all sensors send; stiff commands are sent only afterwards.

        Raises:
            UserError: another program keeps the motors, or `stop` was set first.
        """

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Another source of this robot's state or, if this node is `commanding`, of its commands.

        Also reports that the commands have no receiver. Called periodically.
        """

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures and the like, as far as they are known."""

    def power(self) -> PowerState | None:
        """Battery and motors for `PowerWatch`, None if unknown; called in the control thread."""

    def remote_command(self) -> Array | None:
        """Latent command (2,) of the robot's own remote control; None if it has none."""

    def notes(self) -> list[str]:
        """Lines for the log, once the robot is reached: what is accepted, though unusual."""

    def pace(self) -> Mapping[str, float]:
        """Counts of due and late commands, for reports, if the driver repeats them by itself."""

    def settle(self) -> None:
        """Damp the motors after the last command, for as long as the robot needs to sink."""

    def close(self) -> None:
        """Disconnect from the robot."""


class Shadow(Protocol):
    """Receiver of what a dry run would have sent."""

    def send(self, command: JointCommand) -> None: ...

    def close(self) -> None: ...


class RobotLink:
    """`Link` that takes the newest messages of a driver and a camera, in the control thread.

    Without a camera (None) it serves policies that see nothing. In a dry run, which has a `shadow`,
    the driver only receives. `now_s` is the clock of stamps [s]. `also_take` and `also_forget` are
    called by `take` and `forget`.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        driver: Driver,
        camera: Camera | None,
        shadow: Shadow | None,
    ) -> None:
        self.also_take: list[Callable[[], None]] = []
        self.also_forget: Callable[[], None] = lambda: None
        self.odometry: Callable[[], Array | None] = lambda: None  # (3,), see `Reading`
        # The odometry of another node, if the policy needs one and there is one.
        self.odometry_seen: Callable[[], SensorReport | None] = lambda: None
        self.driver, self.camera = driver, camera
        self.now_s, self._shadow = now_s, shadow
        self._parts: tuple[Driver | Camera, ...] = (driver,) if camera is None else (driver, camera)
        self.sensors = (*driver.sensors, *(() if camera is None else camera.sensors))
        self.synchronised_sensors = driver.sensors

    @property
    def received(self) -> dict[str, int]:
        """Number of messages taken, by sensor."""
        return _merged(part.received for part in self._parts)

    def take(self) -> None:
        """Fetch what has arrived.

        Raises:
            UserError: a message has no stamp.
        """
        for take in self.also_take:
            take()
        self.driver.take()
        if self.camera is not None:
            self.camera.take(self.driver.angles())

    def forget(self) -> None:
        self.take()
        for part in self._parts:
            part.forget()
        self.also_forget()

    def read(self) -> Reading:
        """The newest values; raises a UserError as the driver does."""
        image = _no_camera if self.camera is None else self.camera.image
        reading = self.driver.read(image, self.odometry())
        if self.camera is not None:
            self.camera.turned(reading)
        return reading

    def ages(self) -> dict[str, float]:
        return _merged(part.ages() for part in self._parts)

    def warnings(self) -> dict[str, str]:
        return _merged(part.warnings() for part in self._parts)

    def stamps(self) -> dict[str, float]:
        return _merged(part.stamps() for part in self._parts)

    def acquire(self, stop: Event) -> None:
        """Get ready to command the motors, see `Driver.acquire`; nothing in a dry run."""
        if self._shadow is None:
            self.driver.acquire(stop)

    def take_motors(self, stop: Event) -> None:
        """Take over the motors, see `Driver.take_motors`; nothing in a dry run."""
        if self._shadow is None:
            self.driver.take_motors(stop)

    def conflicting_publisher(self) -> str | None:
        """See `Driver.conflicting_publisher`; a dry run conflicts with no other controller."""
        return self.driver.conflicting_publisher(self._shadow is None)

    def send(self, command: JointCommand) -> None:
        """Send the command to the motors; in a dry run to the shadow topic."""
        (self._shadow or self.driver).send(command)

    def settle(self) -> None:
        """Damp the motors after the last command; returns when the robot may be left alone."""
        if self._shadow is None:
            self.driver.settle()

    def close(self) -> None:
        """Disconnect from the robot; raises a UserError as the driver does."""
        try:
            self.driver.close()
        finally:
            if self._shadow is not None:
                self._shadow.close()


def _merged(parts: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """One mapping of the sensors of all parts."""
    return {name: value for part in parts for name, value in part.items()}


def _no_camera() -> Image:
    raise UserError("this robot has no camera")
