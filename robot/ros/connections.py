"""All that a configured node hears: sensors, odometry and velocities, and who else is there."""

from __future__ import annotations

from functools import partial
from typing import Any

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.ros.parameters import ODOMETRY_TIMEOUT, VELOCITY_TIMEOUT, Parameters
from pixelgait.robot.ros.people.destination import Destination
from pixelgait.robot.ros.people.orders import OperatorServices
from pixelgait.robot.ros.people.velocity import VelocityCommands
from pixelgait.robot.ros.watch.camera_info import CameraInfoWatch
from pixelgait.robot.ros.watch.neighbours import Neighbours
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.ros.wire.driver import TopicDriver
from pixelgait.robot.ros.wire.eyes import RosEyes
from pixelgait.robot.ros.wire.link import RosLink


class Connections:
    """Made for a bundle at *configure*, closed at *cleanup*.

    `piloted` says that cmd_vel tells where to, instead of the bundle's high level: then there is a
    `pilot` and no camera. A policy that is told where to go has a `destination`, first the
    `goal` x, y [m].
    """

    def __init__(
        self,
        node: Any,
        bundle: Bundle,
        parameters: Parameters,
        people: OperatorServices,
        piloted: bool,
        dry_run: bool,
        goal: tuple[float, float] | None = None,
    ) -> None:
        self._parameters, self._people = parameters, people
        shape = None if piloted else bundle.image_shape
        self._quiet = quiet = ros.quiet_node(node, f"{node.get_name()}_sensors")
        eyes = None if shape is None else RosEyes(quiet, shape)
        driver = TopicDriver(node, quiet, bundle.spec, dry_run)
        self.link = RosLink(node, driver, eyes, self._take)
        self.neighbours = Neighbours(node, self.link.sensors, commands=not dry_run)
        self.pilot: VelocityCommands | None = None
        self.destination: Destination | None = None
        self._camera: CameraInfoWatch | None = None
        if piloted:
            patience = partial(parameters.seconds, VELOCITY_TIMEOUT)
            self.pilot = VelocityCommands(quiet, parameters.stamped, patience)
        elif eyes is not None:
            mount = bundle.spec.camera
            self._camera = CameraInfoWatch(quiet, eyes.topics, bundle.image_shape, mount)
        if "goal" in bundle.takes and not piloted:
            patience = partial(parameters.seconds, ODOMETRY_TIMEOUT)
            self.destination = Destination(quiet, people.operator, patience, goal)
            self.link.odometry = self.destination.odometry

    def camera_problem(self) -> str | None:
        """What does not fit the policy about the camera, if that shall be checked."""
        if self._camera is None or not self._parameters.checks_camera:
            return None
        return self._camera.problem()

    def close(self) -> None:
        """Leave the topics."""
        self._quiet.destroy_node()
        self.link.driver.close()

    def _take(self) -> None:
        """What the control thread hears besides the sensors."""
        self._people.take_stop()
        if self.destination is not None:
            self.destination.take()
