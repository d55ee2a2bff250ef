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
from pixelgait.robot.ros.common.discovery import UDP_SOCKETS, participants
from pixelgait.robot.ros.common.static_transforms import StaticTransforms
from pixelgait.robot.ros.common.topic_names import ODOMETRY, TOPICS, VELOCITY
from pixelgait.robot.ros.links.battery import BatteryPublisher
from pixelgait.robot.ros.links.camera import camera_messages
from pixelgait.robot.ros.links.map_topics import MapPublishers, MapTopics
from pixelgait.robot.ros.links.topic_driver import CommandTopic, TopicDriver
from pixelgait.robot.ros.links.velocity import VelocityDriver, VelocityTopic
from pixelgait.robot.ros.monitoring.camera_checks import (
    CameraInfoCheck,
    CameraMountCheck,
    unaligned,
)
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
from pixelgait.robot.spec import Array, TrainedMounts
from pixelgait.robot.unitree.address import Go2, Go2Sport

MOUNT_WAIT_S = 1.0  # for known publishers of camera_info, /tf_static; some stay silent; assumption
STEERS = "its sticks steer, until R2 + A or pixelgait/walk"
UNKNOWN_NAME = "_NODE_NAME_UNKNOWN_"  # rclpy's, for a node whose publishers are known first
PARTICIPANTS = "ros_discovery_info"  # every participant publishes it, of rmw_dds_common
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
        scans = bundle.observes("height_scan") and not self._own_gait
        if parameters.maps and self._own_gait:
            raise UserError("--map needs the robot's joints: not over --link velocity or go2-sport")
        self._operator = services.operator
        self._sensor_node = sensors = ros2.quiet_node(node, f"{node.get_name()}_sensors")
        self._transforms = StaticTransforms(sensors, parameters.base_frame)
        self._imu_mount: str | None = None  # what is to be said about it
        # The motion by the robot's legs, of the control loop, or by its own odometry.
        self.motion: Callable[[], Motion | None] = lambda: None
        driver, camera = self._robot(options.address, node, bundle, piloted)
        shadow = self._shadow(options.address, node, bundle) if options.dry_run else None
        self.link = RobotLink(partial(ros2.now_s, node), driver, camera, shadow)
        self.link.also_take.append(services.take_stop)
        self.power = PowerWatch(services.operator, driver.power, lambda: parameters.checks_power)
        self.link.also_take.append(self.power.update)
        self._battery = BatteryPublisher(node) if isinstance(options.address, Go2) else None
        topics = tuple(name for name in self.link.sensors if name in (*TOPICS, ODOMETRY))
        # Without cmd_vel as an input, which a joystick and a planner often share.
        self._other_nodes = OtherNodes(node, topics, None if options.dry_run else driver.commands)
        self.map: MapTopics | None = None
        if parameters.maps or scans:
            height, width, _ = bundle.image_shape
            guards = lambda: parameters.guards  # noqa: E731
            self.map = MapTopics(sensors, bundle.spec, width / height, guards, scans)
            self._map_publishers = MapPublishers(node, parameters.base_frame)
        self._needs_odometry = isinstance(options.address, Velocity)
        self.odometry = OdometryTopic(node, parameters.base_frame, parameters.publishes_tf)
        self._camera = None if camera is None else self._camera_checks(camera, bundle)
        self.pilot: VelocityCommands | None = None
        self.goal: GoalCommand | None = None
        if piloted and options.measure is None:
            self.pilot = self._take_velocity(bundle)
        elif "goal" in bundle.takes and not piloted:
            self.goal = self._take_goal()

    def _robot(
        self, address: Address, node: Any, bundle: Bundle, piloted: bool
    ) -> tuple[Driver, Camera | None]:
        """Driver and camera; nothing stays open if one of them fails."""
        driver: Driver | None = None
        try:
            driver = self._driver(address, node, bundle)
            return driver, None if piloted else _camera(self._sensor_node, bundle)
        except BaseException:
            if driver is not None:
                driver.close()
            self._sensor_node.destroy_node()
            raise

    def _camera_checks(
        self, camera: Camera, bundle: Bundle
    ) -> tuple[Camera, CameraInfoCheck, CameraMountCheck]:
        """The camera with the checks of its lens and its mount."""
        mount, known = bundle.spec.camera, bundle.trained_mounts
        if self.map is not None:  # whose rays are those of the contract's mount
            known = TrainedMounts.one(mount)
        lens = CameraInfoCheck(self._sensor_node, camera.sensors, bundle.image_shape, mount)
        return camera, lens, CameraMountCheck(self._transforms, known)

    def _take_velocity(self, bundle: Bundle) -> VelocityCommands:
        """Subscribe to cmd_vel, which replaces the high level."""
        parameters = self._parameters
        timeout = partial(parameters.seconds, VELOCITY_TIMEOUT)
        pilot = VelocityCommands(
            self._sensor_node, parameters.stamped, timeout, bundle.legs.command
        )
        self.link.also_take.append(pilot.take)
        self.link.also_forget = pilot.forget
        return pilot

    def _take_goal(self) -> GoalCommand:
        """Subscribe to goals and odometry."""
        parameters = self._parameters
        goal = GoalCommand(
            self._sensor_node,
            self._operator,
            partial(parameters.seconds, ODOMETRY_TIMEOUT),
            partial(parameters.seconds, GOAL_TIMEOUT),
            parameters.base_frame,
        )
        self.link.also_take.append(goal.take)
        self.link.also_forget = goal.forget
        self.link.odometry, self.link.odometry_seen = goal.odometry, goal.seen
        goal.legs = lambda: self.motion()
        goal.is_own = lambda: self.odometry.publishes
        return goal

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
        if self.map is not None:
            self.map.require_depth(stop)
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
            found += [lens.unknown(), mount.unknown(camera.frames), unaligned(camera.frames)]
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

    def all_found(self) -> bool:
        """Whether every node that started earlier is known; see `OtherNodes.all_found`."""
        return self._other_nodes.all_found()

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
    shape, height_m = bundle.image_shape, bundle.spec.stand_height_m
    return Camera(camera_messages(node, shape), shape, bundle.trained_mounts, height_m)


def several(publishers: list[str]) -> str | None:
    """The publishers of a topic, by the names of their nodes, if there is more than one."""
    count = len(publishers)
    return f"{count} publishers: {', '.join(publishers)}" if count > 1 else None


class OtherNodes:
    """Checks the publishers around a controller's node.

    A sensor topic may have one publisher. The topic of `commands`, if this node publishes it, may
    have no other. A node that was killed stays visible for its lease: 6 s, another's 20 s by
    default.
    """

    def __init__(self, node: Any, sensors: tuple[str, ...], commands: str | None) -> None:
        self._node, self._sensors, self._commands = node, sensors, commands
        self._unknown_name_checks = 0

    def all_found(self) -> bool:
        """Whether every participant on this computer is discovered, and its nodes' names.

        False where nodes may be on other computers.
        """
        if not ros2.on_loopback():
            return False
        domain = self._node.context.get_domain_id()
        found = self._node.get_publishers_info_by_topic(PARTICIPANTS, no_mangle=True)
        if len(found) != participants(domain, UDP_SOCKETS.read_text()):
            return False
        infos = self._node.get_publishers_info_by_topic("/parameter_events")  # of every node
        return UNKNOWN_NAME not in {info.node_name for info in infos}

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
