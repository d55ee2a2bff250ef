"""ROS parameters and start options of the controller's node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from pixelgait.robot.bundle import CONTRACT, Bundle, find_bundle, load_bundle
from pixelgait.robot.control.controller import ODOMETRY_TIMEOUT_S
from pixelgait.robot.control.velocity import Response
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.interface import DRIVER_TIMEOUT_S
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.address import Address, Topics
from pixelgait.robot.ros.common.distributions import after_parameters_are_set
from pixelgait.robot.ros.common.topic_names import CAMERA_TOPICS, STOP_SERVICE
from pixelgait.robot.runtime.camera import with_cameras
from pixelgait.robot.runtime.goal_progress import GOAL_TIMEOUT_S
from pixelgait.robot.safety import velocity
from pixelgait.robot.safety.supervisor import SensorTimeouts, sensor_timeouts_of
from pixelgait.robot.safety.velocity import VELOCITY_TIMEOUT_S


@dataclass(frozen=True)
class NodeOptions:
    """Start options of a node, from the command line."""

    bundle: str
    out: Path | None = None  # folder for reports
    auto_arm: bool = False  # stand up and walk without an operator
    dry_run: bool = False  # command no motor
    pilot: str = "bundle"  # or policy, or cmd_vel
    maps: bool = False  # keep a local map
    goal: tuple[float, float] | None = None  # first goal x, y [m] in odom's frame
    recorder: Recorder | None = None
    address: Address = field(default_factory=Topics)
    response: Response = field(default_factory=Response)  # of a robot with its own gait
    measure: Path | None = None  # measure that response, and write it there
    settings: dict[str, Any] = field(default_factory=dict)  # the command's options, for reports

    @property
    def sensors(self) -> dict[str, str]:
        """The contract's name of each sensor, by topic."""
        return {**self.address.sensors, **CAMERA_TOPICS}

    def sensor_timeouts(self) -> Mapping[str, SensorTimeouts]:
        """Time-outs of the bundle's contract, read before the bundle is verified as a whole.

        Raises:
            UserError: the contract has no usable time-outs.
        """
        try:
            contract = read_json(find_bundle(self.bundle) / CONTRACT)
            return {**sensor_timeouts_of(contract), velocity.ODOMETRY: velocity.ODOMETRY_TIMEOUTS}
        except UserError:
            load_bundle(self.bundle)  # raises the root cause, such as another schema version
            raise

    def piloted(self, bundle: Bundle) -> bool:
        """Whether cmd_vel, or a trial of the robot's response, replaces the high level.

        Also if the bundle has no trained one.
        """
        if self.measure is not None:
            return True
        if self.pilot == "bundle":
            return not bundle.contract["provenance"].get("high_level")
        return self.pilot == "cmd_vel"


BUNDLE = "bundle"
DRIVER_TIMEOUT, VELOCITY_TIMEOUT = "driver_timeout_s", "cmd_vel_timeout_s"
STAMPED = "enable_stamped_cmd_vel"  # Nav2's name
CHECKS_CAMERA, BASE_FRAME = "check_camera", "base_frame"
CHECKS_POWER, TRANSFORMS = "check_power", "publish_tf"
MAPS, GUARDS = "map", "collision_guard"
ODOMETRY_TIMEOUT, GOAL_TIMEOUT = "odom_timeout_s", "goal_timeout_s"
SHORTEST_S, LONGEST_S = 0.02, 10.0  # range of time-outs
LONGEST_GOAL_TIMEOUT_S = 3600.0
SIM_TIME = "use_sim_time"
QOS = "qos_overrides."  # rclpy's own prefix
# Prefix of every sensor's parameters: the consequence when it sends nothing new for so long.
HEALTH_LEVELS = {
    "ageing_s": "The last decision holds, no new one is taken,",
    "stale_s": "The robot slows to a stand",
    "timeout_s": "The robot is damped",
}


class Plain(NamedTuple):
    """A parameter without a range; `read_only` ones keep their value of the start."""

    default: bool | str
    description: str
    read_only: bool = True


PLAIN = {
    BUNDLE: Plain("", description="Folder of the policy bundle, or the name of a shipped one."),
    STAMPED: Plain(False, description="cmd_vel is a TwistStamped instead of a Twist."),
    STOP_SERVICE: Plain(
        "", description="The robot's own emergency stop (std_srvs/Trigger), with --link velocity."
    ),
    CHECKS_CAMERA: Plain(
        True,
        description="Refuse a camera whose camera_info or mount does not fit the policy.",
        read_only=False,
    ),
    CHECKS_POWER: Plain(
        True,
        description="Lie down, and do not stand up, with an empty battery or hot motors.",
        read_only=False,
    ),
    TRANSFORMS: Plain(
        True, description="Publish odom to the base on /tf, while this node publishes odom."
    ),
    BASE_FRAME: Plain(
        "base_link", description="The robot's base frame, of odom's poses and the camera's mount."
    ),
    MAPS: Plain(False, description="Map the surroundings from depth images."),
    GUARDS: Plain(
        False,
        description="Stand before obstacles on the commanded path; needs a map.",
        read_only=False,
    ),
}


class Parameters:
    """Declares the node's parameters: described, with ranges, effective at once when set.

    `sensor_timeouts`, by topic, begins with the contract's values and stays up to date. `changed`
    is called after a parameter was set.

    Raises:
        UserError: an initial value is invalid, or a parameter is unknown.
    """

    def __init__(self, node: Any, options: NodeOptions, changed: Callable[[], None]) -> None:
        self._node, self._sensors, self._address = node, options.sensors, options.address
        bundle, sensor_timeouts = options.bundle, options.sensor_timeouts()
        self.sensor_timeouts: dict[str, SensorTimeouts] = {}
        try:
            for name, plain in PLAIN.items():
                value = {BUNDLE: bundle, MAPS: options.maps}.get(name, plain.default)
                described = ParameterDescriptor(
                    description=plain.description, read_only=plain.read_only
                )
                node.declare_parameter(name, value, described)
            self._declare_timeouts(sensor_timeouts)
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise UserError(f"parameter: {error}") from None
        _refuse_unknown(node)
        if (given := node.get_parameter(BUNDLE).value) != bundle:
            raise UserError(f"bundle is '{bundle}' as argument and '{given}' as parameter")
        if node.get_parameter(SIM_TIME).value:
            raise UserError(f"{SIM_TIME} is not supported: a real robot's clock does not stop")
        if problem := self._inconsistent({}):
            raise UserError(f"parameters {problem}")
        self._changed = changed
        self._guarded_at_start = bool(node.get_parameter(GUARDS).value)
        self._read()
        node.add_on_set_parameters_callback(self._validate)
        after_parameters_are_set(node, self._update)

    def seconds(self, name: str) -> float:
        """The value of a time-out [s]."""
        return float(self._node.get_parameter(name).value)

    @property
    def stamped(self) -> bool:
        """Whether cmd_vel is a TwistStamped."""
        return bool(self._node.get_parameter(STAMPED).value)

    @property
    def stop_service(self) -> str:
        """The robot's own emergency stop, a std_srvs/Trigger; empty: none."""
        return str(self._node.get_parameter(STOP_SERVICE).value)

    @property
    def publishes_tf(self) -> bool:
        """Whether odom to the base is published on `/tf`."""
        return bool(self._node.get_parameter(TRANSFORMS).value)

    @property
    def checks_camera(self) -> bool:
        """Whether lens and mount of the camera are checked."""
        return bool(self._node.get_parameter(CHECKS_CAMERA).value)

    @property
    def checks_power(self) -> bool:
        """Whether an empty battery or hot motors keep the robot down; from any thread."""
        return self._checks_power

    @property
    def maps(self) -> bool:
        """Whether there is a local map: for others, or for the collision guard."""
        return bool(self._node.get_parameter(MAPS).value) or self._guarded_at_start

    @property
    def guards(self) -> bool:
        """Whether obstacles on the commanded path stop the robot; from any thread."""
        return self._guards

    @property
    def base_frame(self) -> str:
        """The base frame, in which the contract gives the camera's mount."""
        return str(self._node.get_parameter(BASE_FRAME).value)

    def _declare_timeouts(self, sensors: Mapping[str, SensorTimeouts]) -> None:
        """Declare the time-outs of sensors, by the contract's names, and all others."""
        for topic, sensor in self._sensors.items():
            for (level, follows), seconds in zip(
                HEALTH_LEVELS.items(), sensors[sensor], strict=True
            ):
                what = f"{follows} when {topic} sends nothing new for so long [s]."
                self._declare(timeout_name(level, topic), seconds, what)
        self._declare(
            DRIVER_TIMEOUT,
            VELOCITY_TIMEOUT_S if self._address.own_gait else DRIVER_TIMEOUT_S,
            "The robot's driver damps by itself when no command arrives for so long [s].",
            (SHORTEST_S, self._address.max_driver_timeout_s),
        )
        self._declare(
            ODOMETRY_TIMEOUT,
            ODOMETRY_TIMEOUT_S,
            "The robot stands when odom is silent for so long [s].",
        )
        self._declare(
            GOAL_TIMEOUT,
            GOAL_TIMEOUT_S,
            "The robot gives a goal up, and stands, when it has walked for so long without "
            "coming 0.1 m nearer [s]; 0: never.",
            (0.0, LONGEST_GOAL_TIMEOUT_S),
        )
        self._declare(
            VELOCITY_TIMEOUT,
            VELOCITY_TIMEOUT_S,
            "The robot stands when cmd_vel is silent for so long [s].",
        )

    def _declare(
        self,
        name: str,
        value: float,
        description: str,
        limits: tuple[float, float] = (SHORTEST_S, LONGEST_S),
    ) -> None:
        shortest_s, longest_s = limits
        value_range = FloatingPointRange(from_value=shortest_s, to_value=longest_s)
        descriptor = ParameterDescriptor(
            description=description, floating_point_range=[value_range], dynamic_typing=False
        )
        given = self._node.declare_parameter(name, value, descriptor).value
        if not math.isfinite(given):  # NaN is within every range
            raise UserError(f"parameter {name} is {given}, needs {shortest_s} to {longest_s}")

    def _update(self, parameters: list[Any]) -> None:
        self._read()
        self._changed()

    def _read(self) -> None:
        self._checks_power = bool(self._node.get_parameter(CHECKS_POWER).value)
        self._guards = bool(self._node.get_parameter(GUARDS).value)
        for topic in self._sensors:
            self.sensor_timeouts[topic] = SensorTimeouts(*self._ages(topic).values())
        self.sensor_timeouts.update(with_cameras(self.sensor_timeouts))

    def _ages(self, topic: str) -> dict[str, float]:
        """A sensor's ageing, stale and dead time-outs [s], by parameter."""
        names = (timeout_name(level, topic) for level in HEALTH_LEVELS)
        return {name: self.seconds(name) for name in names}

    def _inconsistent(self, wanted: Mapping[str, Any]) -> str | None:
        """Why these new values are inconsistent, or None.

        A sensor's time-outs must be in ascending order. A driver that compares command stamps must
        not time out before the joints that are answered count as dead.
        """
        for topic in self._sensors:
            ages = {name: wanted.get(name, age) for name, age in self._ages(topic).items()}
            if not SensorTimeouts(*ages.values()).ordered:
                values = ", ".join(f"{name} {age:g}" for name, age in ages.items())
                return f"{values}: none may be longer than the next"
        if self._address.stamp_source is None:
            return None
        names = (timeout_name("timeout_s", self._address.stamp_source), DRIVER_TIMEOUT)
        dead_s, driver_s = (wanted.get(name, self.seconds(name)) for name in names)
        if dead_s <= driver_s:
            return None
        return f"{names[0]} {dead_s:g}, {names[1]} {driver_s:g}: the driver would time out first"

    def _validate(self, parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            value = parameter.value
            if parameter.name == SIM_TIME and value:
                return SetParametersResult(successful=False, reason="not supported")
            if parameter.name == GUARDS and value and not self.maps:
                reason = f"{GUARDS} needs a map: start with --map"
                return SetParametersResult(successful=False, reason=reason)
            if isinstance(value, float) and not math.isfinite(value):
                return SetParametersResult(successful=False, reason=f"{value} is not finite")
        problem = self._inconsistent({each.name: each.value for each in parameters})
        return SetParametersResult(successful=problem is None, reason=problem or "")


def _refuse_unknown(node: Any) -> None:
    """Refuse given parameters that are not declared: they would have no effect.

    Raises:
        UserError: there is one; names the most similar parameters, or all.
    """
    given = node._parameter_overrides  # as resolved by rcl; there is no public access
    for name in sorted(given):
        if not (node.has_parameter(name) or name.startswith(QOS)):
            known = sorted(node.get_parameters_by_prefix(""))
            longer = [each for each in known if each.startswith(name)]
            near = longer or get_close_matches(name, known, 3) or known
            raise UserError(f"unknown parameter '{name}', choose from {', '.join(near)}")


def timeout_name(level: str, topic: str) -> str:
    """Name of a time-out parameter, as in timeout_s.imu.data."""
    return f"{level}.{topic.replace('/', '.')}"
