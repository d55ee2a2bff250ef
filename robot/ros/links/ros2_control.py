"""Driver over ros2_control: joint_states and imu/data in, position targets to a controller out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from typing import Any

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
from pixelgait.robot.runtime.timing import RateKeeper
from pixelgait.robot.spec import Array, Legs, RobotSpec

ANSWER_S = 10.0  # for the controller's parameter service
POLL_S = 0.1  # between two checks whether the node was stopped
SETTLE_S = 3.0  # for a robot to sink from standing to the ground; assumption
# Limits how fast a robot sinks, and how fast a faulty encoder moves its leg; assumption.
YIELD_RAD_PER_S = 2.0


class Ros2ControlDriver(TopicSensors):
    """The `Driver` of joint_states, imu/data and a position controller.

    Gains and feed-forward are the hardware's own. A controller holds its last target for ever, so
    damping is emulated by targets that yield: they follow the joints with a lag, such that the
    stiffness resists motion as damping would. While joint states are incomplete or
    impossible the targets stay; when they fall silent, targets approach the last angles received.
    """

    def __init__(
        self,
        node: Any,
        sensor_node: Any,
        spec: RobotSpec,
        controller: str,
        kind: Controller,
        legs: Legs,
    ) -> None:
        super().__init__(sensor_node, spec)
        self._legs = legs
        self._node, self._controller, self._kind = node, controller, kind
        self.commands = f"{controller}/{kind.topic}"
        self._service = f"{controller}/get_parameters"
        self._joints = list(spec.joint_names)  # in the controller's order
        self._controller_order = np.arange(len(self._joints))  # their indices in the robot's order
        self._targets: Array | None = None  # sent last (12,) [rad]; None before stiff ones
        self._stop = Event()  # ends all waiting
        # A target that follows an angle with a lag T acts as damping kp T, added to the hardware's.
        missing = np.maximum(spec.damping_nms_per_rad - spec.kd_nms_per_rad, 0.0)
        self._share = CONTROL_DT_S / (CONTROL_DT_S + missing / spec.kp_nm_per_rad)  # per step
        self._publisher: Any = None
        self._parameters: Any = None  # client of the controller's service, to notice its end

    def acquire(self, stop: Event) -> None:
        """Ask the controller for its interface and joint order.

        Raises:
            UserError: it does not answer, does not command this robot's joint positions, or `stop`
                was set first.
        """
        self._targets, self._stop = None, stop
        self._joints = joints = self._controlled_joints()
        self._controller_order = ros2.joint_order(list(self.spec.joint_names), tuple(joints))
        self._refuse_tolerances(self._kind.tolerances(joints))
        if self._publisher is None:
            create = self._node.create_publisher
            self._publisher = create(self._kind.message_type, self.commands, ros2.COMMAND_QOS)
            self._parameters = self._node.create_client(GetParameters, self._service)

    def notes(self) -> list[str]:
        """Gains that the hardware needs for a walker: this link cannot send them."""
        if self._legs.gait:
            return []
        kp, kd = (
            " and ".join(f"{gain:g}" for gain in sorted(set(gains.tolist())))
            for gains in (self._legs.kp_nm_per_rad, self._legs.kd_nms_per_rad)
        )
        return [f"the walker was trained with kp {kp}, kd {kd}: set them in the hardware"]

    def take_motors(self, stop: Event) -> None:
        """Nothing: the controller has the motors."""

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """That the controller has ended, so that commands have no receiver, or None."""
        if self._parameters is None or self._parameters.service_is_ready():
            return None
        return f"controller {self._controller} is gone: commands have no receiver"

    def _controlled_joints(self) -> list[str]:
        """The robot's joints in the controller's order."""
        named, interfaces = self._ask("joints", self._kind.interfaces)
        if not self._kind.positions(interfaces):
            raise UserError(f"{self._controller} is no {self._kind.what} of positions")
        wanted, joints = self.spec.joint_names, list(named.string_array_value)
        if sorted(joints) != sorted(wanted):
            there, needed = ", ".join(joints), ", ".join(wanted)
            raise UserError(
                f"{self._controller} commands {there}; the bundle's joints are {needed}"
            )
        return joints

    def _refuse_tolerances(self, names: list[str]) -> None:
        for name, value in zip(names, self._ask(*names), strict=True):
            if value.double_value:
                found = f"{name} is {value.double_value:g}"
                raise UserError(
                    f"{self._controller}: {found}, it must be 0: soft legs would freeze"
                )

    def _ask(self, *parameters: str) -> list[Any]:
        """The controller's values of these parameters, (n,); empty values for unknown ones."""
        if not parameters:
            return []
        node = ros2.quiet_node(self._node, f"{self._node.get_name()}_client")
        executor = SingleThreadedExecutor(context=node.context)
        try:
            service = node.create_client(GetParameters, self._service)
            if self._wait(service.wait_for_service):
                future = service.call_async(GetParameters.Request(names=list(parameters)))

                def done(seconds: float) -> bool:
                    ros2.rclpy.spin_until_future_complete(node, future, executor, seconds)
                    return bool(future.done())

                if self._wait(done):
                    values = list(future.result().values)  # rclcpp: all, or none
                    return values or [ParameterValue() for _ in parameters]
            raise UserError(f"controller {self._controller} does not answer for {ANSWER_S:.0f} s")
        finally:
            executor.shutdown()
            node.destroy_node()

    def _wait(self, until: Callable[[float], bool]) -> bool:
        """Call `until` with a time-out [s] until it returns True; False after `ANSWER_S`.

        Raises:
            UserError: the node was stopped first.
        """
        deadline_s = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline_s:
            if until(POLL_S):
                return True
            if self._stop.is_set():
                raise UserError(f"stopped before controller {self._controller} answered")
        return False

    def send(self, command: JointCommand) -> None:
        """Publish the targets; nothing before the first stiff command."""
        if command.kp.any():
            self._publish(command.targets)
        else:
            self._yield()

    def settle(self) -> None:
        """Let the robot sink to the ground after the last command."""
        rate = RateKeeper(CONTROL_DT_S)
        for _ in range(0 if self._targets is None else round(SETTLE_S / CONTROL_DT_S)):
            with suppress(UserError):
                self.take()
            self._yield()
            rate.wait()

    def _yield(self) -> None:
        """Publish targets that are one step nearer to the joint angles."""
        targets, spec = self._targets, self.spec
        if targets is None:
            return
        with suppress(UserError):  # incomplete joint states: the targets stay
            angles, _ = self.joints()
            within = (spec.joint_lower_rad <= angles) & (angles <= spec.joint_upper_rad)  # no NaN
            change = np.where(within, self._share * (angles - targets), 0.0)
            limit = YIELD_RAD_PER_S * CONTROL_DT_S
            targets = targets + np.clip(change, -limit, limit)
        self._publish(targets)

    def _publish(self, targets: Array) -> None:
        self._targets = targets
        ordered = targets[self._controller_order].tolist()
        self._publisher.publish(self._kind.message(self._joints, ordered))

    def close(self) -> None:
        """Destroy publisher and client; the controller holds the robot where it lies."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._node.destroy_client(self._parameters)


class ForwardController:
    """forward_command_controller, or position_controllers/JointGroupPositionController."""

    what = "forward_command_controller"
    message_type: type = Float64MultiArray
    topic = "commands"  # in the controller's own namespace
    interfaces = "interface_name"  # its parameter that names the command interfaces

    def positions(self, interfaces: Any) -> bool:
        """Whether it commands positions only, by the value of that parameter."""
        return bool(interfaces.string_value == "position")

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        """Its parameters of path tolerances, each of which must be 0."""
        return []

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        """The command of targets [rad] for all joints, in the controller's order."""
        return Float64MultiArray(data=targets)


class TrajectoryController:
    """joint_trajectory_controller.

    Each trajectory has one point, due at once: the controller neither interpolates, which would
    differ from training, nor continues a motion after an emergency stop. The stamp is 0, which
    means now; another stamp would drop the trajectory as past or, with a clock ahead, delay it.
    """

    what = "joint_trajectory_controller"
    message_type: type = JointTrajectory
    topic = "joint_trajectory"
    interfaces = "command_interfaces"

    def positions(self, interfaces: Any) -> bool:
        return list(interfaces.string_array_value) == ["position"]

    def tolerances(self, joints: Sequence[str]) -> list[str]:
        """The path tolerances: beyond them a leg is held where it is, so soft legs would freeze."""
        return [f"constraints.{joint}.trajectory" for joint in joints]

    def message(self, joints: Sequence[str], targets: Sequence[float]) -> Any:
        points = [JointTrajectoryPoint(positions=targets)]
        return JointTrajectory(joint_names=joints, points=points)


Controller = ForwardController | TrajectoryController


def kind_of(trajectories: bool) -> Controller:
    """The kind of controller that takes trajectories, or the one that takes arrays."""
    return TrajectoryController() if trajectories else ForwardController()
