"""All that a configured node hears: sensors, odometry and velocities, and who else is there."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.address import Address, Ros2Control
from pixelgait.robot.ros.commands.cmd_vel import VELOCITY, VelocityCommands
from pixelgait.robot.ros.commands.goal import GoalCommand
from pixelgait.robot.ros.commands.services import OperatorServices
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import ODOMETRY, TOPICS
from pixelgait.robot.ros.links.camera import CameraTopics
from pixelgait.robot.ros.links.link import Driver, RosLink
from pixelgait.robot.ros.links.topic_driver import CommandTopic, TopicDriver
from pixelgait.robot.ros.monitoring.camera_info import CameraInfoWatch
from pixelgait.robot.ros.monitoring.camera_mount import CameraMountWatch
from pixelgait.robot.ros.monitoring.other_nodes import OtherNodes
from pixelgait.robot.ros.parameters import (
    GOAL_TIMEOUT,
    ODOMETRY_TIMEOUT,
    VELOCITY_TIMEOUT,
    NodeOptions,
    Parameters,
)
from pixelgait.robot.runtime.operator_commands import Operator
from pixelgait.robot.unitree.address import Go2

CAMERA_WAIT_S = 1.0  # for what those who are there say of the camera; ours, some never do


class Connections:
    """Made for a bundle at *configure*, closed at *cleanup*.

    `piloted` says that cmd_vel tells where to, instead of the bundle's high level: then there is a
    `pilot` and no camera. A policy that is told where to go has a `destination`. A dry run hears
    everything and commands nobody.

    Raises:
        UserError: the robot cannot be reached that way.
    """

    def __init__(
        self,
        node: Any,
        bundle: Bundle,
        parameters: Parameters,
        people: OperatorServices,
        piloted: bool,
        options: NodeOptions,
    ) -> None:
        self._parameters, self._people = parameters, people
        dry_run = options.dry_run
        self._quiet = quiet = ros2.quiet_node(node, f"{node.get_name()}_sensors")
        driver: Driver | None = None
        try:
            driver = _driver(options.address, node, quiet, bundle, people.operator)
            eyes = None if piloted else CameraTopics(quiet, bundle.image_shape)
        except BaseException:
            if driver is not None:
                driver.close()
            quiet.destroy_node()
            raise
        shadow = CommandTopic(node, bundle.spec, ros2.SHADOW_COMMAND) if dry_run else None
        self.link = RosLink(node, driver, eyes, self._take, shadow)
        told = "goal" in bundle.takes and not piloted
        topics = tuple(name for name in self.link.sensors if name in TOPICS)
        # Not cmd_vel: a joystick beside a planner is usual.
        self._other_nodes = OtherNodes(node, topics, None if dry_run else driver.commands)
        self.pilot: VelocityCommands | None = None
        self.goal: GoalCommand | None = None
        self._camera: CameraInfoWatch | None = None
        self._mount: CameraMountWatch | None = None
        self._eyes: CameraTopics | None = None
        if piloted:
            sensor_timeouts = partial(parameters.seconds, VELOCITY_TIMEOUT)
            self.pilot = VelocityCommands(quiet, parameters.stamped, sensor_timeouts)
            self.link.also_forget = self.pilot.forget
        elif eyes is not None:
            mount, self._eyes = bundle.spec.camera, eyes
            self._camera = CameraInfoWatch(quiet, eyes.sensors, bundle.image_shape, mount)
            self._mount = CameraMountWatch(quiet, parameters.base_frame, mount)
        if told:
            known = partial(parameters.seconds, ODOMETRY_TIMEOUT)
            nearer = partial(parameters.seconds, GOAL_TIMEOUT)
            self.goal = GoalCommand(quiet, people.operator, known, nearer, parameters.base_frame)
            self.link.also_forget = self.goal.forget
            self.link.odometry = self.goal.odometry
            self.link.odometry_seen = self.goal.seen

    def admit(self, stop: threading.Event) -> None:
        """Before anything moves: what is there to be heard of the camera must fit the policy.

        Only then are the motors taken from whoever has them.

        Raises:
            UserError: it does not; or see the driver, also of what `stop` leads to.
        """
        deadline = time.monotonic() + CAMERA_WAIT_S
        self.check_camera()
        while self._camera_pending() and time.monotonic() < deadline:
            time.sleep(0.02)
            self.check_camera()
        self.link.take_motors(stop)

    def check_camera(self) -> None:
        """Raise a UserError if the policy would see something else than it was made for."""
        if problem := self.camera_problem():
            raise UserError(problem)

    def camera_problem(self) -> str | None:
        """What does not fit the policy about the camera, if that shall be checked."""
        if not self._parameters.checks_camera:
            return None
        lens = None if self._camera is None else self._camera.problem()
        if lens or self._mount is None or self._eyes is None:
            return lens
        return self._mount.problem(self._eyes.frames)

    def _camera_pending(self) -> bool:
        """Whether somebody is there who will say more about the camera."""
        watches = (self._camera, self._mount) if self._parameters.checks_camera else ()
        return any(watch.pending() for watch in watches if watch is not None)

    def camera_unknown(self) -> list[str]:
        """What could not be checked of the camera's lens and of where it sits, if it shall be."""
        if self._mount is None or self._eyes is None or not self._parameters.checks_camera:
            return []
        lens = None if self._camera is None else self._camera.unknown()
        return [each for each in (lens, self._mount.unknown(self._eyes.frames)) if each]

    def statuses(self) -> dict[str, tuple[bool, str]]:
        """Of whatever says where to, whether all is well, and in words."""
        statuses = {}
        if self.goal is not None:
            statuses["goal"] = self.goal.status()
        if self.pilot is not None:
            statuses[VELOCITY] = self.pilot.status()
        return statuses

    def look_around(self, begins: bool = False) -> str | None:
        """Who publishes what this node or its robot's driver should, or None.

        For who `begins` also who has its name; whoever walks is not ended by a newcomer of that.

        Several that publish odometry are the destination's: it believes none of them.
        """
        if self.goal is not None:
            self.goal.rivals = self._other_nodes.several(ODOMETRY)
        other = self._other_nodes.conflicting_publisher() or self.link.conflicting_publisher()
        return other or (self._other_nodes.duplicate_name() if begins else None)

    def close(self) -> None:
        """Leave the topics."""
        self._quiet.destroy_node()
        self.link.close()

    def _take(self) -> None:
        """What the control thread hears besides the sensors."""
        self._people.take_stop()
        if self.goal is not None:
            self.goal.take()
        if self.pilot is not None:
            self.pilot.take()


def _driver(address: Address, node: Any, quiet: Any, bundle: Bundle, operator: Operator) -> Driver:
    """Of the robot at this address; only where it is wanted its messages are imported.

    Raises:
        UserError: it cannot be reached that way.
    """
    if isinstance(address, Go2):
        return _go2(address, node, bundle, operator)
    if isinstance(address, Ros2Control):
        from pixelgait.robot.ros.links.ros2_control import Ros2ControlDriver, kind_of

        kind = kind_of(address.trajectories)
        return Ros2ControlDriver(node, quiet, bundle.spec, address.controller, kind)
    return TopicDriver(node, quiet, bundle.spec)


def _go2(address: Go2, node: Any, bundle: Bundle, operator: Operator) -> Driver:
    """The driver of a Go2, whose remote gives orders too."""
    from pixelgait.robot.unitree.dds import Bus
    from pixelgait.robot.unitree.driver import (
        ARM,
        LIE_DOWN,
        STAND_UP,
        STOP,
        WALK,
        Go2Driver,
        Remote,
    )

    remote = Remote(
        {
            STOP: lambda: operator.emergency_stop("remote control"),
            ARM: operator.arm,
            STAND_UP: operator.stand_up,
            WALK: operator.walk,
            LIE_DOWN: operator.lie_down,
        }
    )
    bus = Bus(address)
    try:
        return Go2Driver(bus, bundle.spec, partial(ros2.now_s, node), remote)
    except BaseException:  # a domain that stays open can be opened by nobody
        bus.close()
        raise
