"""What every ROS file shares: the import with a clear message, set-up, topics, conversions."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array

# A robot's control traffic stays on its own computer unless the user says otherwise.
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
if os.environ.get("ROS_DISTRO") == "humble":  # which does not know that variable yet
    os.environ.setdefault("ROS_LOCALHOST_ONLY", "1")
try:
    import rclpy
    from builtin_interfaces.msg import Time
    from rclpy.qos import QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
    from rclpy.signals import SignalHandlerOptions
    from sensor_msgs.msg import Image, Imu, JointState
except ImportError as _error:
    raise UserError(
        f"ROS 2 is not installed ({_error}): source its setup.bash, "
        "or, on x86-64 Linux, pip install '.[ros]' in the checkout"
    ) from None

__all__ = ["Image", "Imu", "JointState", "rclpy"]

JOINT_STATES, IMU, CAMERA = "joint_states", "imu/data", "camera/color/image_raw"
JOINT_COMMAND, ATTENTION = "joint_command", "attention"
SENSOR_QOS = qos_profile_sensor_data
NEWEST_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND_QOS = QoSProfile(depth=1)  # reliable, the newest only
ENCODINGS = {"rgb8": None, "bgr8": cv2.COLOR_BGR2RGB, "mono8": cv2.COLOR_GRAY2RGB}
NANOSECONDS = 1_000_000_000


def start(arguments: list[str] | None = None) -> threading.Event:
    """Initialise ROS; SIGINT, SIGTERM and SIGHUP set the returned event and leave ROS alive.

    ROS's own handlers would invalidate the context before the last, safe command is out.
    """
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop


def quiet_node(beside: Any, name: str) -> Any:
    """A node in the namespace of another, without services, topics or parameters of its own."""
    return rclpy.create_node(
        name,
        context=beside.context,
        namespace=beside.get_namespace(),
        enable_rosout=False,
        start_parameter_services=False,
    )


def stamp(time_ns: int) -> Time:
    """A ROS time message."""
    return Time(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS)


def nanoseconds(time: Time) -> int:
    """A ROS time message as nanoseconds."""
    return int(time.sec * NANOSECONDS + time.nanosec)


def joint_order(names: list[str], wanted: tuple[str, ...]) -> NDArray[np.intp]:
    """Where each wanted joint stands in a message.

    Raises:
        UserError: a joint is missing.
    """
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UserError(f"joint states lack {', '.join(missing)}; they name {', '.join(names)}")
    return np.array([names.index(name) for name in wanted])


def joint_command(
    time_ns: int, names: tuple[str, ...], targets: Array | None, feed_forward: Array
) -> Any:
    """A joint command. `targets` None sends no positions: the driver damps its motors.

    In a JointState an array is either complete or empty; a driver stiffens only joints for which
    it gets a position.
    """
    message = JointState()
    message.header.stamp = stamp(time_ns)
    message.name = list(names)
    if targets is not None:
        message.position = targets.tolist()
    message.effort = feed_forward.tolist()
    return message


def rgb_image(message: Any, height: int, width: int) -> NDArray[np.uint8]:
    """The pixels (height, width, 3) of an image message, cropped to this shape and resized.

    Cropping keeps pixels square: a policy trained on a square view sees the middle of a wide one.

    Raises:
        UserError: the encoding is not one of `ENCODINGS`, or the message is cut short.
    """
    if message.encoding not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise UserError(f"camera encoding '{message.encoding}' is not supported, need {known}")
    channels = 1 if message.encoding == "mono8" else 3
    data = np.frombuffer(message.data, np.uint8)
    if data.size < message.height * message.step or message.step < message.width * channels:
        raise UserError(f"camera image is cut short: {data.size} bytes, step {message.step}")
    rows = data[: message.height * message.step].reshape(message.height, message.step)
    pixels = rows[:, : message.width * channels].reshape(message.height, message.width, channels)
    code = ENCODINGS[message.encoding]
    converted = np.asarray(pixels if code is None else cv2.cvtColor(pixels, code))
    rows_kept = min(message.height, message.width * height // width)
    columns_kept = min(message.width, message.height * width // height)
    top, left = (message.height - rows_kept) // 2, (message.width - columns_kept) // 2
    converted = converted[top : top + rows_kept, left : left + columns_kept]
    if converted.shape[:2] != (height, width):
        converted = np.asarray(cv2.resize(converted, (width, height), interpolation=cv2.INTER_AREA))
    return np.ascontiguousarray(converted, dtype=np.uint8)


def image_message(time_ns: int, frame: str, pixels: NDArray[np.uint8]) -> Any:
    """An rgb8 image message from pixels (H, W, 3)."""
    message = Image()
    message.header.stamp = stamp(time_ns)
    message.header.frame_id = frame
    message.height, message.width = pixels.shape[:2]
    message.encoding, message.step = "rgb8", pixels.shape[1] * 3
    message.data = pixels.tobytes()  # an array instead would be copied item by item: 600 x slower
    return message


def imu_message(time_ns: int, frame: str, orientation: Array, angular_velocity: Array) -> Any:
    """An IMU message; the acceleration is marked as not measured (REP 145)."""
    message = Imu()
    message.header.stamp = stamp(time_ns)
    message.header.frame_id = frame
    q, w = message.orientation, message.angular_velocity
    q.x, q.y, q.z, q.w = orientation.tolist()
    w.x, w.y, w.z = angular_velocity.tolist()
    message.linear_acceleration_covariance[0] = -1.0
    return message
