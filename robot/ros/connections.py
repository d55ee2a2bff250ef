"""Connections of a configured node: sensors, odometry, goals, velocity commands, other nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.ros.address import Address, Ros2Control, Velocity
from pixelgait.robot.ros.commands.cmd_vel import VelocityCommands
from pixelgait.robot.ros.commands.goal import GoalCommand
from pixelgait.robot.ros.commands.services import OperatorServices
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.static_transforms import StaticTransforms
from pixelgait.robot.ros.common.topic_names import ODOMETRY, TOPICS, VELOCITY
from pixelgait.robot.ros.links.battery import BatteryPublisher
from pixelgait.robot.ros.links.camera import camera_messages
from pixelgait.robot.ros.links.map_topics import MapPublishers, MapTopics
from pixelgait.robot.ros.links.topic_driver import CommandTopic, TopicDriver
from pixelgait.robot.ros.links.velocity import VelocityDriver, VelocityTopic
from pixelgait.robot.ros.monitoring.camera_checks import CameraInfoCheck, CameraMountCheck
from pixelgait.robot.ros.odometry import OdometryTopic, described
from pixelgait.robot.ros.parameters import (
    GOAL_TIMEOUT,
    ODOMETRY_TIMEOUT,
    VELOCITY_TIMEOUT,
    NodeOptions,
    Parameters,
)
from pixelgait.robot.runtime.camera import Camera
from pixelgait.robot.runtime.power import PowerWatch
from pixelgait.robot.runtime.robot_link import Driver, RobotLink, Shadow
from pixelgait.robot.spec import Array
from pixelgait.robot.unitree.address import Go2, Go2Sport

MOUNT_WAIT_S = 1.0  # for known publishers of camera_info, /tf_static; some stay silent; assumption
STEERS = "its sticks steer, until R2 + A or pixelgait/walk"
UNKNOWN_NAME = "_NODE_NAME_UNKNOWN_"  # rclpy's, for a node whose publishers are known first
MAX_UNKNOWN_NAME_CHECKS = 10  # before a node without a known name is reported


class Connections:
    """Created for a bundle at *configure*, closed at *cleanup*.

    If `piloted`, cmd_vel replaces the bundle's high level: there is a `pilot` and no camera. A
    policy that takes a goal has a `goal`. A dry run receives everything and commands no motor.

    Raises:
        UserError: the robot cannot be reached over its link, or has no joints for a map.
    """

    def __init__(
        self,
        node: Any,
        bundle: Bundle,
        parameters: Parameters,
        services: OperatorServices,
        piloted: bool,
        options: NodeOptions,
    ) -> None:
        self._parameters = parameters
        self._own_gait = options.address.own_gait
        if parameters.maps and self._own_gait:
            raise UserError("--map needs the robot's joints: not over --link velocity or go2-sport")
        dry_run, self._operator = options.dry_run, services.operator
        self._sensor_node = sensors = ros2.quiet_node(node, f"{node.get_name()}_sensors")
        self._transforms = StaticTransforms(sensors, parameters.base_frame)
        self._imu_mount: str | None = None  # what is to be said about it
        # The motion by the robot's legs, of the control loop, or by its own odometry.
        self.motion: Callable[[], Motion | None] = lambda: None
        driver: Driver | None = None
        try:
            driver = self._driver(options.address, node, bundle)
            camera = None if piloted else _camera(sensors, bundle)
        except BaseException:
            if driver is not None:
                driver.close()
            sensors.destroy_node()
            raise
        shadow = self._shadow(options.address, node, bundle) if dry_run else None
        self.link = RobotLink(partial(ros2.now_s, node), driver, camera, shadow)
        self.link.also_take.append(services.take_stop)
        self.power = PowerWatch(services.operator, driver.power, lambda: parameters.checks_power)
        self.link.also_take.append(self.power.update)
        self._battery = None
        if isinstance(options.address, Go2):
            self._battery = BatteryPublisher(node)
        topics = tuple(name for name in self.link.sensors if name in (*TOPICS, ODOMETRY))
        # Without cmd_vel as an input, which a joystick and a planner often share.
        self._other_nodes = OtherNodes(node, topics, None if dry_run else driver.commands)
        self.map: MapTopics | None = None
        if parameters.maps:
            height, width, _ = bundle.image_shape
            guards = lambda: parameters.guards  # noqa: E731
            self.map = MapTopics(sensors, bundle.spec, width / height, guards)
            self._map_publishers = MapPublishers(node, parameters.base_frame)
        self._needs_odometry = isinstance(options.address, Velocity)
        transforms = parameters.publishes_tf
        self.odometry = OdometryTopic(node, parameters.base_frame, transforms)
        self.pilot: VelocityCommands | None = None
        self.goal: GoalCommand | None = None
        self._camera: tuple[Camera, CameraInfoCheck, CameraMountCheck] | None = None
        if camera is not None:
            mount = bundle.spec.camera
            lens_check = CameraInfoCheck(sensors, camera.sensors, bundle.image_shape, mount)
            mount_check = CameraMountCheck(self._transforms, mount)
            self._camera = camera, lens_check, mount_check
        if piloted and options.measure is None:
            timeout = partial(parameters.seconds, VELOCITY_TIMEOUT)
            self.pilot = VelocityCommands(sensors, parameters.stamped, timeout, bundle.legs.command)
            self.link.also_take.append(self.pilot.take)
            self.link.also_forget = self.pilot.forget
        elif "goal" in bundle.takes and not piloted:
            self.goal = GoalCommand(
                sensors,
                services.operator,
                partial(parameters.seconds, ODOMETRY_TIMEOUT),
                partial(parameters.seconds, GOAL_TIMEOUT),
                parameters.base_frame,
            )
            self.link.also_take.append(self.goal.take)
            self.link.also_forget = self.goal.forget
            self.link.odometry = self.goal.odometry
            self.link.odometry_seen = self.goal.seen
            self.goal.legs = lambda: self.motion()
            self.goal.is_own = lambda: self.odometry.publishes

    def _driver(self, address: Address, node: Any, bundle: Bundle) -> Driver:
        """The driver of the robot at this address; imports only the messages that it needs.

        Raises:
            UserError: the robot cannot be reached.
        """
        sensors, spec, legs = self._sensor_node, bundle.spec, bundle.legs
        if isinstance(address, Velocity):
            stamped, stop = self._parameters.stamped, self._parameters.stop_service
            return VelocityDriver(node, sensors, spec, stamped, stop)
        if isinstance(address, Go2Sport):
            from pixelgait.robot.unitree import sport

            go2 = sport.connected(address, self._operator, partial(ros2.now_s, self._sensor_node))
            go2.moved = lambda *motion: self.odometry.publish(*motion)
            self.motion = lambda: go2.motion
            return go2
        if isinstance(address, Go2):
            from pixelgait.robot.unitree.driver import connected

            now_s = partial(ros2.now_s, node)
            return connected(address, spec, legs, self._operator, now_s)
        if isinstance(address, Ros2Control):
            from pixelgait.robot.ros.links.ros2_control import Ros2ControlDriver, kind_of

            kind = kind_of(address.trajectories)
            return Ros2ControlDriver(node, sensors, spec, address.controller, kind, legs)
        return TopicDriver(node, sensors, spec, legs)

    def _shadow(self, address: Address, node: Any, bundle: Bundle) -> Shadow:
        """The topic of a dry run's commands."""
        if address.own_gait:
            return VelocityTopic(node, self._parameters.stamped, ros2.SHADOW_VELOCITY)
        return CommandTopic(node, bundle.spec, ros2.SHADOW_COMMAND)

    def admit(self, stop: threading.Event) -> None:
        """Check the camera, find the IMU's mount, take over the motors; before anything moves.

        Raises:
            UserError: the camera does not fit the policy, a robot that would stand up by itself
                has an empty battery or hot motors, or see `Driver.take_motors`.
        """
        deadline = time.monotonic() + MOUNT_WAIT_S
        self.check_camera()
        while self._pending() and time.monotonic() < deadline:
            time.sleep(0.02)
            self._transforms.take()
            self.check_camera()
        self._imu_mount = self.link.driver.mount_imu(self._transforms)
        self.power.check(time.monotonic())
        if self._operator.auto and self.power.unfit is not None:
            raise UserError(self.power.unfit)  # it would lie there without an operator
        self.link.take_motors(stop)

    def steering(self) -> Array | None:
        """Latent command (2,) of the remote control while it steers; None while it does not."""
        return self.link.driver.remote_command() if self._operator.commands.steered else None

    def publish_map(self) -> None:
        """Publish the local map, if there is one."""
        if self.map is not None:
            self._map_publishers.publish(self.map.around)

    def publish_battery(self) -> None:
        """Publish the battery of a robot whose link is no topic."""
        if self._battery is not None:
            self._battery.publish(self.power.newest)

    def check_camera(self) -> None:
        """Raise a UserError if lens or mount of the camera do not fit the policy."""
        if problem := self.camera_problem():
            raise UserError(problem)

    def camera_problem(self) -> str | None:
        """A mismatch of the camera with the policy; None also if it is not to be checked."""
        if self._camera is None or not self._parameters.checks_camera:
            return None
        camera, lens, mount = self._camera
        return lens.problem() or mount.problem(camera.frames)

    def _pending(self) -> bool:
        """Whether a publisher is known whose message about a mount or a lens is still missing."""
        lens = self._camera[1] if self._camera and self._parameters.checks_camera else None
        return self._transforms.pending() or (lens is not None and lens.pending())

    def unchecked(self) -> list[str]:
        """Notes on the IMU's mount and the driver, and reasons why the camera's lens or mount is
        not checked; none on a camera whose check is switched off.
        """
        found = [self._imu_mount, *self.link.driver.notes()]
        if self._camera is not None and self._parameters.checks_camera:
            camera, lens, mount = self._camera
            found += [lens.unknown(), mount.unknown(camera.frames)]
        return [each for each in found if each]

    def statuses(self) -> dict[str, tuple[bool, str]]:
        """For the diagnostics of goal and cmd_vel: whether all is well, and a description."""
        statuses = {}
        if self._operator.commands.steered:
            statuses["remote"] = True, STEERS
        if self.goal is not None:
            statuses["goal"] = self.goal.status()
        if self.odometry.publishes and (motion := self.motion()) is not None:
            statuses["odometry"] = described(motion, by_legs=not self._own_gait)
        if self.pilot is not None:
            statuses[VELOCITY] = self.pilot.status()
        if self.map is not None:
            statuses["map"] = self.map.status()
        return statuses

    def conflict(self, starting: bool = False) -> str | None:
        """Another node that publishes what only this node or the robot's driver should, or None.

        When `starting`, also another node of the same name; a robot that walks is not stopped by
        one that comes later. Several publishers of odometry are no conflict: the goal is suspended.
        """
        others = self._other_nodes.others(ODOMETRY)
        self.odometry.give_way(bool(others) or self._needs_odometry)
        if self.goal is not None:
            self.goal.odometry_conflict = several(others)
        other = self._other_nodes.conflicting_publisher() or self.link.conflicting_publisher()
        return other or (self._other_nodes.duplicate_name() if starting else None)

    def close(self) -> None:
        """Unsubscribe, then disconnect from the robot."""
        self._sensor_node.destroy_node()
        self.odometry.close()
        if self._battery is not None:
            self._battery.close()
        if self.map is not None:
            self._map_publishers.close()
        self.link.close()


def _camera(node: Any, bundle: Bundle) -> Camera:
    return Camera(camera_messages(node, bundle.image_shape), bundle.image_shape, bundle.spec)


def several(publishers: list[str]) -> str | None:
    """The publishers of a topic, by the names of their nodes, if there is more than one."""
    count = len(publishers)
    return f"{count} publishers: {', '.join(publishers)}" if count > 1 else None


class OtherNodes:
    """Checks the publishers around a controller's node.

    A sensor topic may have one publisher. The topic of `commands`, if this node publishes it, may
    have no other. A node that was killed stays visible for its lease, 20 s by default.
    """

    def __init__(self, node: Any, sensors: tuple[str, ...], commands: str | None) -> None:
        self._node, self._sensors, self._commands = node, sensors, commands
        self._unknown_name_checks = 0

    def conflicting_publisher(self) -> str | None:
        """A description of a surplus publisher, or None; called periodically."""
        found = self._find()
        if found is None or UNKNOWN_NAME not in found:
            self._unknown_name_checks = 0
            return found
        self._unknown_name_checks += 1
        return found if self._unknown_name_checks > MAX_UNKNOWN_NAME_CHECKS else None

    def duplicate_name(self) -> str | None:
        """That another node has this one's name, or None: either would answer its services."""
        own = self._node.get_fully_qualified_name()
        names = [
            f"{namespace.rstrip('/')}/{name}"
            for name, namespace in self._node.get_node_names_and_namespaces()
        ]
        if names.count(own) <= 1:
            return None
        return f"another node is called {own}: its services would be ambiguous"

    def others(self, topic: str) -> list[str]:
        """Names of the other nodes that publish a topic, one for each publisher."""
        own = self._node.get_fully_qualified_name()
        return [name for name in self._publishers(topic) if name != own]

    def _find(self) -> str | None:
        for topic in self._sensors:
            if (too_many := several(self._publishers(topic))) is not None:
                return f"{topic} has {too_many}"
        if self._commands is not None:
            names = self._publishers(self._commands)
            own = self._node.get_fully_qualified_name()
            if own in names:
                names.remove(own)
            if names:
                if self._commands == VELOCITY:
                    return f"another node commands the velocity: {', '.join(names)}"
                return f"another node commands the joints: {', '.join(names)}"
        return None

    def _publishers(self, topic: str) -> list[str]:
        """Names of the nodes that publish a topic, one for each publisher."""
        infos = self._node.get_publishers_info_by_topic(topic)  # which expands and remaps it
        return sorted(f"{i.node_namespace.rstrip('/')}/{i.node_name}" for i in infos)
