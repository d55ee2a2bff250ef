"""What a controller's node is started with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from pixelgait.robot.bundle import CONTRACT, Bundle, find_bundle, load_bundle
from pixelgait.robot.control.controller import ODOMETRY_TIMEOUT_S
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.interface import DRIVER_TIMEOUT_S
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.address import Address, Topics
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import CAMERA_TOPICS
from pixelgait.robot.ros.links.camera import PAIR
from pixelgait.robot.safety.supervisor import CAMERA, SensorTimeouts, sensor_timeouts_of


@dataclass(frozen=True)
class NodeOptions:
    """What a node is started with."""

    bundle: str
    out: Path | None = None  # folder for reports
    auto_arm: bool = False  # stand up and walk without being asked
    dry_run: bool = False  # command nobody
    pilot: str = "bundle"  # or policy, or cmd_vel
    goal: tuple[float, float] | None = None  # x, y [m] to begin with, in odom's frame
    recorder: Recorder | None = None
    address: Address = field(default_factory=Topics)
    settings: dict[str, Any] = field(default_factory=dict)  # of the command, for its report

    @property
    def sensors(self) -> dict[str, str]:
        """The contract's name of each sensor, by topic."""
        return {**self.address.sensors, **CAMERA_TOPICS}

    def sensor_timeouts(self) -> Mapping[str, SensorTimeouts]:
        """What the bundle's contract says of ages, before all of it is verified.

        Raises:
            UserError: nothing that can be used.
        """
        try:
            return sensor_timeouts_of(read_json(find_bundle(self.bundle) / CONTRACT))
        except UserError:
            load_bundle(self.bundle)  # raises what is wrong before that, as another version's
            raise

    def piloted(self, bundle: Bundle) -> bool:
        """Whether cmd_vel says where to: also where the bundle has no trained high level."""
        if self.pilot == "bundle":
            return not bundle.contract["provenance"].get("high_level")
        return self.pilot == "cmd_vel"


DRIVER_TIMEOUT, VELOCITY_TIMEOUT = "driver_timeout_s", "cmd_vel_timeout_s"
STAMPED = "enable_stamped_cmd_vel"  # as Nav2 calls it
CHECKS_CAMERA, BASE_FRAME = "check_camera", "base_frame"
VELOCITY_TIMEOUT_S = 0.5  # Nav2's
ODOMETRY_TIMEOUT, GOAL_TIMEOUT = "odom_timeout_s", "goal_timeout_s"
GOAL_TIMEOUT_S = 60.0  # ours: on the way round a house's walls one may come no nearer for 30 m
SHORTEST_S, LONGEST_S = 0.02, 10.0  # of time-outs
LONGEST_WAY_S = 3600.0
SIM_TIME = "use_sim_time"
QOS = "qos_overrides."  # rclpy's own, of publishers and subscriptions that let it
# Prefix of the parameters of every sensor: what happens when it has said nothing new for so long.
HEALTH_LEVELS = {
    "ageing_s": "Nothing new is decided, the last decision holds,",
    "stale_s": "The robot slows to a stand",
    "timeout_s": "The robot is damped",
}


class Parameters:
    """Declares a node's parameters; `patience` with every sensor, by topic, stays up to date.

    It begins with what the bundle's contract says. `changed` is called when one was set.

    Raises:
        UserError: a value given at the start cannot be used.
    """

    def __init__(
        self,
        node: Any,
        options: NodeOptions,
        changed: Callable[[], None],
    ) -> None:
        self._node, self._sensors, self._address = node, options.sensors, options.address
        bundle, sensor_timeouts = options.bundle, options.sensor_timeouts()
        self.sensor_timeouts: dict[str, SensorTimeouts] = {}
        fixed = ParameterDescriptor(
            description="Folder of the policy bundle, or the name of a shipped one.", read_only=True
        )
        stamped = ParameterDescriptor(
            description="cmd_vel is a TwistStamped instead of a Twist.", read_only=True
        )
        checks = ParameterDescriptor(
            description="Refuse a camera whose camera_info or mount does not fit the policy."
        )
        base = ParameterDescriptor(
            description="The base: odom is of this frame, /tf_static leads from it to the camera.",
            read_only=True,
        )
        try:
            given = node.declare_parameter("bundle", bundle, fixed).value
            node.declare_parameter(STAMPED, False, stamped)
            node.declare_parameter(CHECKS_CAMERA, True, checks)
            node.declare_parameter(BASE_FRAME, "base_link", base)
            for topic, sensor in self._sensors.items():
                for (stage, follows), seconds in zip(
                    HEALTH_LEVELS.items(), sensor_timeouts[sensor], strict=True
                ):
                    what = f"{follows} when {topic} has said nothing new for so long [s]."
                    self._declare(stage_name(stage, topic), seconds, what)
            driver = "The robot's driver damps by itself when no command comes for so long [s]."
            within = (SHORTEST_S, self._address.longest_wait_s)
            self._declare(DRIVER_TIMEOUT, DRIVER_TIMEOUT_S, driver, within)
            odometry = "The robot stands when odom is silent for so long [s]."
            self._declare(ODOMETRY_TIMEOUT, ODOMETRY_TIMEOUT_S, odometry)
            way = (
                "The robot gives a goal up, and stands, when it has walked for so long without "
                "coming 0.1 m nearer [s]; 0: never."
            )
            self._declare(GOAL_TIMEOUT, GOAL_TIMEOUT_S, way, (0.0, LONGEST_WAY_S))
            velocity = "The robot stands when cmd_vel is silent for so long [s]."
            self._declare(VELOCITY_TIMEOUT, VELOCITY_TIMEOUT_S, velocity)
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise UserError(f"parameter: {error}") from None
        _refuse_unknown(node)
        if given != bundle:
            raise UserError(f"bundle is '{bundle}' as argument and '{given}' as parameter")
        if node.get_parameter(SIM_TIME).value:
            raise UserError(f"{SIM_TIME} is not supported: a real robot's clock does not stop")
        if disorder := self._find_disorder({}):
            raise UserError(f"parameters {disorder}")
        self._changed = changed
        self._read()
        node.add_on_set_parameters_callback(self._refuse)
        node.add_post_set_parameters_callback(self._take_over)

    def seconds(self, name: str) -> float:
        """The value of a time-out [s]."""
        return float(self._node.get_parameter(name).value)

    @property
    def stamped(self) -> bool:
        """Whether cmd_vel is a TwistStamped."""
        return bool(self._node.get_parameter(STAMPED).value)

    @property
    def checks_camera(self) -> bool:
        """Whether the camera must fit the policy."""
        return bool(self._node.get_parameter(CHECKS_CAMERA).value)

    @property
    def base_frame(self) -> str:
        """The base's, of which the contract tells where the camera sits."""
        return str(self._node.get_parameter(BASE_FRAME).value)

    def _declare(
        self,
        name: str,
        value: float,
        description: str,
        within: tuple[float, float] = (SHORTEST_S, LONGEST_S),
    ) -> None:
        shortest_s, longest_s = within
        limits = FloatingPointRange(from_value=shortest_s, to_value=longest_s)
        descriptor = ParameterDescriptor(
            description=description, floating_point_range=[limits], dynamic_typing=False
        )
        given = self._node.declare_parameter(name, value, descriptor).value
        if not math.isfinite(given):  # no range holds NaN out
            raise UserError(f"parameter {name} is {given}, needs {shortest_s} to {longest_s}")

    def _take_over(self, parameters: list[Any]) -> None:
        self._read()
        self._changed()

    def _read(self) -> None:
        for topic in self._sensors:
            self.sensor_timeouts[topic] = SensorTimeouts(*self._ages(topic).values())
        if ros2.DEPTH in self._sensors:
            self.sensor_timeouts[PAIR] = self.sensor_timeouts[ros2.DEPTH]
        # For the controller, which looks at one camera, whatever its topics are.
        cameras = [topic for topic, sensor in self._sensors.items() if sensor == CAMERA]
        self.sensor_timeouts[CAMERA] = max(
            (self.sensor_timeouts[c] for c in cameras), key=lambda p: p.stale_s
        )

    def _ages(self, topic: str) -> dict[str, float]:
        """Of a sensor, from which ages on it is ageing, stale, dead [s], by parameter."""
        names = (stage_name(stage, topic) for stage in HEALTH_LEVELS)
        return {name: self.seconds(name) for name in names}

    def _find_disorder(self, wanted: Mapping[str, Any]) -> str | None:
        """What is wrong with the stages if these values were set: a sensor's are no order, or the
        driver, to whom a command is as old as the joints it answers, would let go before they count
        as dead.
        """
        for topic in self._sensors:
            ages = {name: wanted.get(name, age) for name, age in self._ages(topic).items()}
            if not SensorTimeouts(*ages.values()).ordered:
                said = ", ".join(f"{name} {age:g}" for name, age in ages.items())
                return f"{said}: none may be longer than the next"
        if self._address.answered is None:
            return None
        names = (stage_name("timeout_s", self._address.answered), DRIVER_TIMEOUT)
        dead_s, driver_s = (wanted.get(name, self.seconds(name)) for name in names)
        if dead_s <= driver_s:
            return None
        return f"{names[0]} {dead_s:g}, {names[1]} {driver_s:g}: by then the driver has let go"

    def _refuse(self, parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            value = parameter.value
            if parameter.name == SIM_TIME and value:
                return SetParametersResult(successful=False, reason="not supported")
            if isinstance(value, float) and not math.isfinite(value):
                return SetParametersResult(successful=False, reason=f"{value} is not finite")
        disorder = self._find_disorder({each.name: each.value for each in parameters})
        return SetParametersResult(successful=disorder is None, reason=disorder or "")


def _refuse_unknown(node: Any) -> None:
    """Whatever is declared by now, all else that was given for this node would change nothing.

    Raises:
        UserError: something was; names what comes nearest, or all there is.
    """
    given = node._parameter_overrides  # as rcl has resolved it; no other way leads there undeclared
    for name in sorted(given):
        if not (node.has_parameter(name) or name.startswith(QOS)):
            known = sorted(node.get_parameters_by_prefix(""))
            begun = [each for each in known if each.startswith(name)]
            near = begun or get_close_matches(name, known, 3) or known
            raise UserError(f"unknown parameter '{name}', choose from {', '.join(near)}")


def stage_name(stage: str, topic: str) -> str:
    """Name of the parameter for a stage of a topic, as in timeout_s.imu.data."""
    return f"{stage}.{topic.replace('/', '.')}"
