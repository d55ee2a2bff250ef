"""Messages of a recording: control steps as ROS 2 messages.

Topic `step` has a type of its own, whose definition is in the recording. It holds what a replay
needs besides the standard messages; its float64 keep every bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import COLOURS
from pixelgait.robot.interface import Image, Reading, VelocityCommand
from pixelgait.robot.mapping.picture import drawn
from pixelgait.robot.runtime.control_loop import ControlStep
from pixelgait.robot.spec import Array

JOINTS, IMU, SEEN, COMMAND, STATE, STEP = (
    *("joint_states", "imu/data", "camera/seen", "joint_command"),
    *("pixelgait/state", "step"),
)
VELOCITY = "cmd_vel"  # of a robot with its own gait, instead of joint commands
SEEN_DEPTH = "camera/seen_depth"  # of an RGB-D image, beside its colours
LOCAL_MAP = "local_map"  # as a picture
_LINE = "=" * 80
_TIME = "int32 sec\nuint32 nanosec"
_HEADER = "builtin_interfaces/Time stamp\nstring frame_id"
_PARTS = {
    "std_msgs/Header": _HEADER,
    "builtin_interfaces/Time": _TIME,
    "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "pixelgait/Age": "string sensor\nfloat64 age_s",
    "pixelgait/SensorTimeouts": "string sensor\nfloat64 ageing_s\nfloat64 stale_s\nfloat64 dead_s",
    "pixelgait/Decision": "float64[] latent\nuint32 duration_steps",
}


def _definition(text: str, *parts: str) -> str:
    """A message definition, followed by the definitions it refers to."""
    return "\n".join([text, *(f"{_LINE}\nMSG: {part}\n{_PARTS[part]}" for part in parts)])


# A missing value is an empty text or array. Units as in `Reading` and `JointCommand`.
_STEP = """\
uint32 session  # the controller was reset at the start of each
float64 time_s
float64 gap_s  # since the last command
Age[] ages
bool armed
string wanted  # the target state
string stop
float64[] goal_position  # x, y [m]
uint32 goal_number
float64[] odometry  # x, y [m], heading [rad]
float64[] latent  # of cmd_vel
float64 image_time_s  # NaN where no image was processed
float64 driver_timeout_s
bool motors_enabled
SensorTimeouts[] sensor_timeouts
string state
string cause
string fault
bool sent
Decision[] decision  # one where an image was processed
float64[] targets  # or x, y [m/s], yaw rate [rad/s] of a robot with its own gait
float64[] kp
float64[] kd
float64 took_us
float64 free_m  # of the wanted way, by a collision guard; inf: all of it
bool lies  # a robot with its own gait
float64[] height_scan  # of a low level that observes the ground [m]"""
_STAMPED = ("std_msgs/Header", "builtin_interfaces/Time")
# Topic: (type, definition), as in ROS 2's sensor_msgs and std_msgs.
TYPES = {
    JOINTS: (
        "sensor_msgs/msg/JointState",
        _definition(
            "std_msgs/Header header\nstring[] name\n"
            "float64[] position\nfloat64[] velocity\nfloat64[] effort",
            *_STAMPED,
        ),
    ),
    IMU: (
        "sensor_msgs/msg/Imu",
        _definition(
            "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\n"
            "float64[9] orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\n"
            "float64[9] angular_velocity_covariance\n"
            "geometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance",
            *_STAMPED,
            "geometry_msgs/Quaternion",
            "geometry_msgs/Vector3",
        ),
    ),
    SEEN: (
        "sensor_msgs/msg/Image",
        _definition(
            "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
            "uint8 is_bigendian\nuint32 step\nuint8[] data",
            *_STAMPED,
        ),
    ),
    VELOCITY: (
        "geometry_msgs/msg/TwistStamped",
        _definition(
            "std_msgs/Header header\ngeometry_msgs/Twist twist",
            *_STAMPED,
            "geometry_msgs/Twist",
            "geometry_msgs/Vector3",
        ),
    ),
    STATE: ("std_msgs/msg/String", "string data"),
    STEP: (
        "pixelgait/msg/Step",
        _definition(_STEP, "pixelgait/Age", "pixelgait/SensorTimeouts", "pixelgait/Decision"),
    ),
}
TYPES[COMMAND] = TYPES[JOINTS]
TYPES[SEEN_DEPTH] = TYPES[LOCAL_MAP] = TYPES[SEEN]
PIXELS = {1: "mono8", 3: "rgb8"}  # by channels


def messages(
    step: ControlStep, joint_names: tuple[str, ...], session: int, changed: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(topic, content) of all messages of a step, `STEP` last; the state if it `changed`."""
    reading, command = step.inputs.reading, step.command
    header = _header(reading.time_s)
    joints = _joint_state(header, joint_names, reading.joint_angles, reading.joint_velocities)
    yield JOINTS, joints
    yield IMU, _imu(header, reading)
    if step.image is not None:
        yield from image_messages(step.image)
    if step.around is not None:
        yield LOCAL_MAP, _image(drawn(step.around, 1), step.around.time_s)
    if isinstance(command, VelocityCommand):
        yield VELOCITY, _twist(header, command.velocity if step.sent else np.zeros(3))
    else:
        targets = command.targets if step.sent and command.kp.any() else np.zeros(0)
        yield COMMAND, _joint_state(header, joint_names, targets, np.zeros(0))
    if changed:
        yield STATE, state_message(step.state, step.cause)
    yield STEP, _step(step, session)


def state_message(state: str, cause: str) -> dict[str, str]:
    """Message of topic `STATE`; one after a step's `STEP` says how the controller ended."""
    return {"data": f"{state}: {cause}"}


def _step(step: ControlStep, session: int) -> dict[str, Any]:
    """Remaining inputs of a step, and its results."""
    inputs, command, settings = step.inputs, step.command, step.settings
    timeouts = settings["sensor_timeouts"].items()
    decision = step.decision
    return {
        "session": session,
        "time_s": inputs.reading.time_s,
        "gap_s": inputs.gap_s,
        "ages": [{"sensor": sensor, "age_s": age_s} for sensor, age_s in inputs.ages.items()],
        "armed": inputs.commands.armed,
        "wanted": inputs.commands.wanted.value,
        "stop": inputs.commands.stop,
        "goal_position": inputs.commands.goal_position,
        "goal_number": inputs.commands.goal_number,
        "odometry": None if (pose := inputs.reading.odometry) is None else pose.tolist(),
        "latent": None if inputs.latent is None else inputs.latent.tolist(),
        "free_m": inputs.free_m,
        "lies": inputs.reading.lies,
        "height_scan": None if (scan := inputs.reading.height_scan) is None else scan.tolist(),
        "image_time_s": math.nan if step.image is None else step.image.time_s,
        "driver_timeout_s": settings["driver_timeout_s"],
        "motors_enabled": settings["motors_enabled"],
        "sensor_timeouts": [{"sensor": name, **ages._asdict()} for name, ages in timeouts],
        "state": step.state,
        "cause": step.cause,
        "fault": step.fault,
        "sent": step.sent,
        "decision": decision and [
            {"latent": decision.latent.tolist(), "duration_steps": decision.duration_steps}
        ],
        "targets": command.values.tolist(),
        "kp": command.kp.tolist(),
        "kd": command.kd.tolist(),
        "took_us": step.took_us,
    }  # fmt: skip


def _header(time_s: float) -> dict[str, Any]:
    second = math.floor(time_s)
    nanosecond = min(999_999_999, round((time_s - second) * 1e9))
    return {"stamp": {"sec": second, "nanosec": nanosecond}, "frame_id": ""}


def _joint_state(
    header: dict[str, Any], names: tuple[str, ...], position: Array, velocity: Array
) -> dict[str, Any]:
    return {
        "header": header,
        "name": list(names),
        "position": position.tolist(),
        "velocity": velocity.tolist(),
        "effort": [],
    }


def _twist(header: dict[str, Any], velocity: Array) -> dict[str, Any]:
    x, y, yaw_rate = velocity.tolist()
    linear, angular = {"x": x, "y": y, "z": 0.0}, {"x": 0.0, "y": 0.0, "z": yaw_rate}
    return {"header": header, "twist": {"linear": linear, "angular": angular}}


def _imu(header: dict[str, Any], reading: Reading) -> dict[str, Any]:
    unknown, force = [0.0] * 9, reading.specific_force
    missing = [-1.0, *unknown[1:]]  # REP 145
    x, y, z = (0.0, 0.0, 0.0) if force is None else force.tolist()
    return {
        "header": header,
        "orientation": dict(zip("xyzw", reading.orientation.tolist(), strict=True)),
        "orientation_covariance": unknown,
        "angular_velocity": dict(zip("xyz", reading.angular_velocity.tolist(), strict=True)),
        "angular_velocity_covariance": unknown,
        "linear_acceleration": {"x": x, "y": y, "z": z},
        "linear_acceleration_covariance": missing if force is None else unknown,
    }


def image_messages(image: Image) -> Iterator[tuple[str, dict[str, Any]]]:
    """Messages of an image (H, W, C); RGB-D is split: no encoding that viewers know has both."""
    colours = min(image.pixels.shape[2], COLOURS)
    yield SEEN, _image(image.pixels[..., :colours], image.time_s)
    if colours < image.pixels.shape[2]:
        yield SEEN_DEPTH, _image(image.pixels[..., colours:], image.time_s)


def _image(pixels: NDArray[np.uint8], time_s: float) -> dict[str, Any]:
    height, width, channels = pixels.shape
    return {
        "header": _header(time_s),
        "height": height,
        "width": width,
        "encoding": PIXELS[channels],
        "is_bigendian": 0,
        "step": width * channels,
        "data": pixels.tobytes(),
    }
