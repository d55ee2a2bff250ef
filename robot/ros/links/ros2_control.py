"""A robot behind ros2_control: joint states and IMU in, targets for a controller out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, Protocol

import numpy as np
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.topic_driver import TopicSensors
from pixelgait.robot.runtime.realtime import RateKeeper
from pixelgait.robot.spec import Array, RobotSpec

ANSWER_S = 10.0  # until a controller has said what it commands
LOOK_S = 0.1  # how often who waits for it looks whether the node shall stop
SETTLE_S = 3.0  # for a robot to sink from standing to the ground; ours
# The fastest a target yields: how fast an encoder that lies moves its leg, and a robot sinks; ours.
YIELD_RAD_PER_S = 2.0


class Ros2ControlDriver(TopicSensors):
    """The `Driver` behind joint_states, imu/data and a controller of positions.

    Gains and feed-forward are the hardware's own. No position damps, and a controller holds its
    last target for ever. So what damps are targets that yield: they follow the joints, so far
    behind them that the stiffness resists motion as damping would. Of joints of which nothing is
    heard they stay where those were, and of angles that cannot be true where they are.
    """

    def __init__(
        self, node: Any, sensor_node: Any, spec: RobotSpec, controller: str, kind: Controller
    ) -> None:
        super().__init__(sensor_node, spec)
        self._node, self._controller, self._kind = node, controller, kind
        self.commands = f"{controller}/{kind.topic}"
        self._service = f"{controller}/get_parameters"
        self._joints = list(spec.joint_names)  # in the controller's order
        self._places = np.arange(len(self._joints))  # where those stand in ours
        self._targets: Array | None = None  # sent last (12,) [rad]; None before stiff ones
        self._stop = Event()  # ends what it waits for
        # What follows an angle with a delay T pulls at it by kp T times its speed, besides the
        # hardware's own kd.
        missing = np.maximum(spec.damping_nms_per_rad - spec.kd_nms_per_rad, 0.0)
        self._share = CONTROL_DT_S / (CONTROL_DT_S + missing / spec.kp_nm_per_rad)  # of the way
        self._publisher: Any = None
        self._parameters: Any = None  # the controller's service; it goes with the controller

    def acquire(self, stop: Event) -> None:
        """Learn in which order the controller takes its joints.

        Raises:
            UserError: it does not answer, or commands something else than this robot's positions,
                or `stop` came first.
        """
        self._targets, self._stop = None, stop
        self._joints = joints = self._commanded()
        self._places = ros2.joint_order(list(self.spec.joint_names), tuple(joints))
        self._refuse_tolerances(self._kind.tolerances(joints))
        if self._publisher is None:
            create = self._node.create_publisher
            self._publisher = create(self._kind.message_type, self.commands, ros2.COMMAND_QOS)
            self._parameters = self._node.create_client(GetParameters, self._service)

    def take_motors(self, stop: Event) -> None:
        """The controller has them, and keeps them."""

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Who walks on without a controller does not know that the robot stands still."""
        if self._parameters is None or self._parameters.service_is_ready():
            return None
        return f"controller {self._controller} is gone: nobody obeys"

    def _commanded(self) -> list[str]:
        """The joints of the controller, in its order: the robot's."""
        named, interfaces = self._ask("joints", self._kind.interfaces)
        if not self._kind.positions(interfaces):
            raise UserError(f"{self._controller} is no {self._kind.what} of positions")
        wanted, joints = self.spec.joint_names, list(named.string_array_value)
        if sorted(joints) != sorted(wanted):
            ours, theirs = ", ".join(wanted), ", ".join(joints)
            raise UserError(f"{self._controller} commands {theirs}; the bundle's joints are {ours}")
        return joints

    def _refuse_tolerances(self, names: list[str]) -> None:
        for name, value in zip(names, self._ask(*names), strict=True):
            if value.double_value:
                told = f"{name} is {value.double_value:g}"
                raise UserError(f"{self._controller}: {told}, it must be 0: soft legs would freeze")

    def _ask(self, *parameters: str) -> list[Any]:
        """What the controller says of these parameters, (n,): of ones it does not know, nothing."""
        if not parameters:
            return []
        node = ros2.quiet_node(self._node, f"{self._node.get_name()}_asks")
        executor = SingleThreadedExecutor(context=node.context)
        try:
            service = node.create_client(GetParameters, self._service)
            if self._wait(service.wait_for_service):
                asked = service.call_async(GetParameters.Request(names=list(parameters)))

                def answered(seconds: float) -> bool:
                    ros2.rclpy.spin_until_future_complete(node, asked, executor, seconds)
                    return bool(asked.done())

                if self._wait(answered):
                    values = list(asked.result().values)  # rclcpp: all, or none
                    return values or [ParameterValue() for _ in parameters]
            raise UserError(f"controller {self._controller} does not answer for {ANSWER_S:.0f} s")
        finally:
            executor.shutdown()
            node.destroy_node()

    def _wait(self, until: Callable[[float], bool]) -> bool:
        """Whether it came, which is asked with a time to wait for it [s], within `ANSWER_S`.

        Raises:
            UserError: the node was stopped first.
        """
        deadline_s = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline_s:
            if until(LOOK_S):
                return True
            if self._stop.is_set():
                raise UserError(f"stopped before controller {self._controller} answered")
        return False

    def send(self, command: JointCommand) -> None:
        """Nothing before the first command that makes joints stiff."""
        if command.kp.any():
            self._publish(command.targets)
        else:
            self._yield()

    def settle(self) -> None:
        """Nobody will command the robot any more: let it sink to the ground."""
        rate = RateKeeper(CONTROL_DT_S)
        for _ in range(0 if self._targets is None else round(SETTLE_S / CONTROL_DT_S)):
            with suppress(UserError):
                self.take()
            self._yield()
            rate.wait()

    def _yield(self) -> None:
        """Targets one step nearer to the joints."""
        targets, spec = self._targets, self.spec
        if targets is None:
            return
        with suppress(UserError):  # joints that are not all there: the targets stay
            angles, _ = self.joints()
            within = (spec.joint_lower_rad <= angles) & (angles <= spec.joint_upper_rad)  # no NaN
            way = np.where(within, self._share * (angles - targets), 0.0)
            most = YIELD_RAD_PER_S * CONTROL_DT_S
            targets = targets + np.clip(way, -most, most)
        self._publish(targets)

    def _publish(self, targets: Array) -> None:
        self._targets = targets
        told = targets[self._places].tolist()
        self._publisher.publish(self._kind.message(self._joints, told))

    def close(self) -> None:
        """Leave the topic; the controller holds the robot where it lies."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._node.destroy_client(self._parameters)


class Controller(Protocol):
    """A kind of controller: how it is recognised, and what it is told."""

    what: str
    message_type: type
    topic: str  # in the controller's own namespace
    interfaces: str  # its parameter that says what it commands, beside `joints`

    def positions(self, interfaces: Any) -> bool:
        """Whether it commands positions and nothing else, by the value of that parameter."""

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        """Its parameters by which it may refuse to obey; each must be 0."""

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        """Targets [rad] of these joints, all of them and in the controller's order, from now on."""


class ForwardController:
    """forward_command_controller, or position_controllers/JointGroupPositionController."""

    what = "forward_command_controller"
    message_type: type = Float64MultiArray
    topic = "commands"
    interfaces = "interface_name"

    def positions(self, interfaces: Any) -> bool:
        return bool(interfaces.string_value == "position")

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        return []

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        return Float64MultiArray(data=targets)


class TrajectoryController:
    """joint_trajectory_controller.

    Each trajectory has one point, due at once: the controller neither interpolates, which a policy
    has not been trained with, nor goes on with what an emergency stop has ended. The stamp is 0,
    which means now: any other is past when it arrives, and drops the trajectory, or, by a clock
    that is ahead, delays it.
    """

    what = "joint_trajectory_controller"
    message_type: type = JointTrajectory
    topic = "joint_trajectory"
    interfaces = "command_interfaces"

    def positions(self, interfaces: Any) -> bool:
        return list(interfaces.string_array_value) == ["position"]

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        """A leg that is farther from its target is held where it is: soft ones would freeze."""
        return [f"constraints.{joint}.trajectory" for joint in joints]

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        points = [JointTrajectoryPoint(positions=targets)]
        return JointTrajectory(joint_names=joints, points=points)


def kind_of(trajectories: bool) -> Controller:
    """A controller that takes trajectories, or one that takes arrays."""
    return TrajectoryController() if trajectories else ForwardController()
