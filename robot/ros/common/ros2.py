"""ROS 2 basics: import, initialisation and signals, QoS, subscriptions, message conversions."""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.cli.processes import ENDING, stopped_by_signals
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common import distributions
from pixelgait.robot.ros.common.discovery import check_environment, is_local
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH, IMU, JOINT_STATES
from pixelgait.robot.spec import ROBOTS, Array

check_environment()
# Control traffic stays on this computer unless the environment says otherwise.
LOOPBACK = Path(__file__).resolve().with_name("loopback.xml")
if is_local():
    os.environ.pop(distributions.LOCALHOST_ONLY, None)
    if os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp") == "rmw_fastrtps_cpp":
        os.environ[distributions.RANGE] = "SYSTEM_DEFAULT"  # as the profile says
        for name in distributions.profile_variables():
            os.environ[name] = str(LOOPBACK)
    else:
        distributions.stay_local()
try:
    import rclpy
    from builtin_interfaces.msg import Time
    from rclpy.clock import Clock
    from rclpy.clock_type import ClockType
    from rclpy.impl.implementation_singleton import rclpy_implementation
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
    from rclpy.signals import SignalHandlerOptions
    from sensor_msgs.msg import CompressedImage, Image, Imu, JointState
except ImportError as _error:
    raise UserError(
        f"ROS 2 is not installed ({_error}): source its setup.bash, "
        "or, on x86-64 Linux, pip install 'pixelgait[ros]'"
    ) from None

__all__ = [
    "COLOUR",
    "DEPTH",
    "IMU",
    "JOINT_STATES",
    "CompressedImage",
    "Image",
    "Imu",
    "JointState",
    "rclpy",
]

JOINT_COMMAND, JOINT_GAINS, ATTENTION = "joint_command", "joint_gains", "attention"
SHADOW_COMMAND, SHADOW_VELOCITY = "joint_command_dry_run", "cmd_vel_dry_run"
SENSOR_QOS = qos_profile_sensor_data
# As joint_state_broadcaster and realsense2_camera publish: every subscription receives it.
DRIVER_QOS = QoSProfile(depth=10)
# Keeps what an IMU sends within a step of the control loop, and more.
STREAM_QOS = QoSProfile(depth=16, reliability=ReliabilityPolicy.BEST_EFFORT)
NEWEST_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND_QOS = QoSProfile(depth=1)  # reliable, the newest only
LATCHED = DurabilityPolicy.TRANSIENT_LOCAL
# No warning about publishers that another subscription of the same topic receives.
SILENT = distributions.silent_events()
NANOSECONDS = 1_000_000_000


def start(arguments: list[str] | None = None) -> threading.Event:
    """Initialise ROS; signals that end a process set the returned event and leave ROS alive.

    ROS's own handlers would invalidate the context before the last, damping command is sent.

    Raises:
        UserError: ROS does not understand its arguments.
    """
    try:
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except Exception as error:  # rclpy raises a family of its own
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"arguments for ROS are not understood: {reason}") from None
    return stopped_by_signals()


def on_loopback() -> bool:
    """Whether all nodes are on this computer, by Fast DDS's profile of this package."""
    return any(os.environ.get(name) == str(LOOPBACK) for name in distributions.profile_variables())


def install_signal_handlers() -> None:
    """Restore the default signal handlers after ROS was shut down; Ctrl-C raises again."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def quiet_node(beside: Any, name: str) -> Any:
    """A node without services, topics or parameters, in the namespace of the node `beside`."""
    return rclpy.create_node(
        name,
        context=beside.context,
        # An argument of the process, -r __node:=..., would give all its nodes one name.
        cli_args=["--ros-args", "-r", f"__node:={name}"],
        namespace=beside.get_namespace(),
        enable_rosout=False,
        start_parameter_services=False,
    )


def latched(depth: int) -> QoSProfile:
    """Latched QoS: the newest `depth` messages are repeated to late subscribers."""
    return QoSProfile(depth=depth, durability=LATCHED)


def subscribe(
    node: Any, kind: Any, topic: str, quality: QoSProfile = NEWEST_QOS, **options: Any
) -> Any:
    """A subscription for `take`; `node` has no executor."""
    return node.create_subscription(kind, topic, lambda _: None, quality, **options)


def take(subscription: Any) -> Any | None:
    """The next message of a subscription, taken in the caller's thread; None if there is none."""
    with subscription.handle:
        taken = subscription.handle.take_message(subscription.msg_type, False)
    return None if taken is None else taken[0]


def take_serialized(subscription: Any) -> list[bytes]:
    """The messages of a subscription that have arrived, oldest first, in CDR.

    To read a field of each takes a sixth of the time that its conversion would.
    """
    taken = []
    with subscription.handle:
        while (each := subscription.handle.take_message(subscription.msg_type, True)) is not None:
            taken.append(each[0])
    return taken


def type_name(kind: Any) -> str:
    """A message type's name, as in sensor_msgs/msg/Image."""
    return f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}"


def now_s(node: Any) -> float:
    """Time on a node's clock [s], the clock of stamps."""
    return float(node.get_clock().now().nanoseconds) / 1e9


def every(node: Any, period_s: float, callback: Callable[[], None]) -> None:
    """Call back every `period_s` [s], on a clock that does not jump.

    An exception is logged: it would end the executor, and with it every subscription.
    """

    def guarded_callback() -> None:
        try:
            callback()
        except Exception as error:
            node.get_logger().error(f"{callback.__name__}: {error}", throttle_duration_sec=5.0)

    node.create_timer(period_s, guarded_callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


def refusing(callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A change_state service callback that answers an invalid request instead of raising."""

    def refusing_callback(request: Any, response: Any) -> Any:
        try:
            return callback(request, response)
        except rclpy_implementation.RCLError:
            response.success = False
            return response

    return refusing_callback


def stamp(time_ns: int) -> Time:
    """A ROS time message."""
    return Time(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS)


def nanoseconds(time: Time) -> int:
    """A ROS time message as nanoseconds."""
    return int(time.sec * NANOSECONDS + time.nanosec)


def seconds(time: Time) -> float:
    """A ROS time message as seconds."""
    return nanoseconds(time) / 1e9


def joint_order(names: list[str], wanted: tuple[str, ...]) -> NDArray[np.intp]:
    """Index of each wanted joint in a message's names.

    Raises:
        UserError: a joint is missing or duplicated.
    """
    missing = [name for name in wanted if name not in names]
    if missing:
        there = ", ".join(names) or "none"
        robot = _other_robot(names, wanted)
        raise UserError(f"joint states lack {', '.join(missing)}; they name {there}{robot}")
    if repeated := duplicates(names, wanted):
        raise UserError(f"joint states name {', '.join(repeated)} twice")
    return np.array([names.index(name) for name in wanted])


def duplicates(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Wanted joints that a message names more than once."""
    return [name for name in wanted if names.count(name) > 1]


def _other_robot(names: list[str], wanted: tuple[str, ...]) -> str:
    """Names the robot whose joints these are, if it is another known one."""
    known = {robot.joint_names: name for name, robot in ROBOTS.items()}
    there = [name for joints, name in known.items() if set(joints) <= set(names)]
    if not there or wanted not in known:
        return ""
    return (
        f": of robot {there[0]}, wanted is {known[wanted]} (pixelgait-sim --robot {known[wanted]})"
    )


def joint_command(
    time_ns: int, names: tuple[str, ...], targets: Array | None, feed_forward: Array
) -> Any:
    """A joint command; without `targets` it has no positions, and the driver damps its motors.

    An array of a JointState is either complete or empty. A driver stiffens only the joints for
    which it gets a position.
    """
    message = JointState()
    message.header.stamp = stamp(time_ns)
    message.name = list(names)
    if targets is not None:
        message.position = targets.tolist()
    message.effort = feed_forward.tolist()
    return message


def image_message(time_ns: int, frame: str, pixels: NDArray[np.uint8] | NDArray[np.float32]) -> Any:
    """An image message: rgb8 from (H, W, 3) uint8, 32FC1 from depth (H, W) float32 [m]."""
    message = Image()
    message.header.stamp = stamp(time_ns)
    message.header.frame_id = frame
    message.height, message.width = pixels.shape[:2]
    message.encoding = "rgb8" if pixels.ndim == 3 else "32FC1"
    message.step = pixels.nbytes // message.height
    message.data.frombytes(pixels.tobytes())  # assigned, it may be copied or checked item by item
    return message


def imu_force(serialized: bytes) -> tuple[float, float, float] | None:
    """Linear acceleration [m/s^2] of an Imu message in CDR; None if not measured (REP 145)."""
    order = "<" if serialized[1] & 1 else ">"
    x, y, z, known = struct.unpack_from(f"{order}4d", serialized, len(serialized) - 12 * 8)
    return None if known < 0.0 else (x, y, z)


def imu_message(
    time_ns: int,
    frame: str,
    orientation: Array,
    angular_velocity: Array,
    specific_force: Array | None = None,
) -> Any:
    """An IMU message; without a specific force (3,) it is marked as not measured (REP 145)."""
    message = Imu()
    message.header.stamp = stamp(time_ns)
    message.header.frame_id = frame
    q, w = message.orientation, message.angular_velocity
    q.x, q.y, q.z, q.w = orientation.tolist()
    w.x, w.y, w.z = angular_velocity.tolist()
    if specific_force is None:
        message.linear_acceleration_covariance[0] = -1.0
    else:
        a = message.linear_acceleration
        a.x, a.y, a.z = specific_force.tolist()
    return message
