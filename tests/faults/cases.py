"""Cases of the fault table: faults of sensors, network, processes and operators, with outcomes."""

from __future__ import annotations

import math
import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, Twist
from sensor_msgs.msg import CameraInfo

from pixelgait.robot.ros.commands.goal import GOAL as GOAL_TOPIC
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import VELOCITY
from tests.faults.changes import (
    assign,
    blind,
    blind_inside,
    colours,
    degrees,
    depth,
    drifting,
    each,
    every,
    flipped,
    for_a_while,
    frozen,
    frozen_but_for_noise,
    half_blind,
    in_encoding,
    mirrored,
    on,
    once,
    one,
    repeated_stamp,
    shifted,
    shuffled,
    silent,
    spikes,
    stuck,
    turning_with,
    upside_down,
    with_65535,
    with_gripper,
)
from tests.faults.go2 import GO2_FAULTS
from tests.faults.mixed_up import MIXED_UP, GlassTrial, TopicTrial
from tests.faults.observer import joins, order, other, stopped_for
from tests.faults.robot import InvalidCommand
from tests.faults.ros2_control import ROS2_CONTROL_FAULTS
from tests.faults.trial import ENDS, FOLDER, REFUSES, RESTS, STAYS, WALKS, Case, Trial

MOST_BYTES = 10_000  # more than the output so far, less than the report
SEES_DEPTH = "iap-depth"
WITH_GOAL, GOAL = "navigator", ("--auto-arm", "--goal", "5", "0")


def full_disk(trial: Trial) -> None:
    """No file of the controller can grow any more; then it ends, and has to write its report."""
    assert trial.controller is not None
    resource.prlimit(trial.controller.pid, resource.RLIMIT_FSIZE, (MOST_BYTES,) * 2)
    trial.signal(signal.SIGINT)


def full_disk_of_the_recorder(trial: Trial) -> None:
    """The file of the recorder's process cannot grow any more."""
    assert trial.controller is not None
    pid = trial.controller.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        resource.prlimit(int(child), resource.RLIMIT_FSIZE, (0, 0))


def stop_by_topic(trial: Trial) -> None:
    from std_msgs.msg import Bool

    publisher = trial.node.create_publisher(Bool, "emergency_stop", 1)
    trial.spin(5.0, publisher.get_subscription_count)
    publisher.publish(Bool(data=True))


def goal(x: float, y: float, frame: str = "odom") -> Callable[[Trial], None]:
    """Fault: another node publishes a goal."""

    def inject(trial: Trial) -> None:
        publisher = trial.node.create_publisher(PoseStamped, GOAL_TOPIC, 1)
        trial.spin(5.0, publisher.get_subscription_count)
        pose = PoseStamped()
        pose.header.frame_id = frame
        pose.pose.position.x, pose.pose.position.y = x, y
        publisher.publish(pose)

    return inject


def flood(kind: Any, topic: str, message: Callable[[Any], Any]) -> Callable[[Trial], None]:
    """Fault: another program publishes random messages at 100 Hz, made by a random generator."""

    def inject(trial: Trial) -> None:
        publisher, rng = trial.node.create_publisher(kind, topic, 1), np.random.default_rng(0)
        trial.node.create_timer(0.01, lambda: publisher.publish(message(rng)))

    return inject


def random_goal(rng: Any) -> Any:
    """A goal within 5 m of where odometry began."""
    pose = PoseStamped()
    pose.header.frame_id = "odom"
    pose.pose.position.x, pose.pose.position.y = rng.uniform(-5.0, 5.0, 2).tolist()
    return pose


def random_velocity(rng: Any) -> Any:
    """A velocity with all its parts, beyond what the robot can do; one in ten is NaN."""
    told = Twist()
    told.linear.x = math.nan if rng.random() < 0.1 else rng.uniform(-2.0, 2.0)
    told.linear.y, told.angular.x, told.angular.z = rng.uniform(-2.0, 2.0, 3).tolist()
    return told


def transition(number: int) -> Callable[[Trial], object]:
    from lifecycle_msgs.srv import ChangeState

    def inject(trial: Trial) -> object:
        request = ChangeState.Request()
        request.transition.id = number
        return trial.call(ChangeState, "change_state", request)

    return inject


def wrong_parameter(trial: Trial) -> None:
    from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
    from rcl_interfaces.srv import SetParameters

    for kind in (ParameterType.PARAMETER_DOUBLE, 200, 255):
        value = ParameterValue(type=kind, double_value=math.nan)
        request = SetParameters.Request(
            parameters=[Parameter(name="timeout_s.imu.data", value=value)]
        )
        trial.call(SetParameters, "set_parameters", request)


UPSIDE_DOWN = assign(orientation__x=1.0, orientation__w=0.0)
LEVEL = {f"orientation__{axis}": float(axis == "w") for axis in "xyzw"}
TILTED = assign(orientation__x=math.sin(0.75), orientation__w=math.cos(0.75))
TURN = {"orientation__z": math.sin(1.5), "orientation__w": math.cos(1.5), "orientation__x": 0.0}
IMU_VALUES = "orientation", "angular_velocity"
NV12 = assign(encoding="nv12")
WRONG_WAY, STILL = "the image moves against the turn", "the image is frozen, but for noise"


def other_lens(trial: Trial) -> None:
    """A camera with a wider lens, which publishes its calibration."""
    from dataclasses import replace

    from pixelgait.sim.ros.simulated_robot import camera_info

    mount = trial.bundle.spec.camera
    wide = replace(mount, vertical_fov_rad=1.7 * mount.vertical_fov_rad)
    publisher = trial.node.create_publisher(CameraInfo, "camera/color/camera_info", 1)
    now = trial.node.get_clock().now
    trial.driver.also = lambda: publisher.publish(camera_info(now().nanoseconds, "", 32, 32, wide))


def big(message: Any) -> Any:
    data = (bytes(message.data) * 300)[: 480 * 1920]
    return assign(height=480, width=640, step=1920, data=data)(message)


JOINTS = [
    Case("positions and velocities in degrees", on("joints", degrees), says="degrees instead"),
    Case("velocities in degrees/s", on("joints", each("velocity", np.degrees)), says=" rad/s"),
    Case("velocities 1000 times", on("joints", each("velocity", lambda v: 1e3 * v)), says="turns at"),
    Case("one encoder 2 rad off", on("joints", one("position", lambda q: q + 2.0)), says="jumps by"),
    Case("one encoder 0.1 rad off", on("joints", one("position", lambda q: q + 0.1)), WALKS),
    Case("one velocity stuck at 100 rad/s", on("joints", one("velocity", lambda _: 100.0)), says="100"),
    Case("one encoder stuck", on("joints", stuck), says="stuck at"),
    Case("one spike of 1.5 rad", once("joints", one("position", lambda q: q + 1.5)), WALKS),
    Case("spikes in half of the readings", on("joints", spikes), says="_joint "),
    Case("one joint of another sign", on("joints", one("position", lambda q: -q)), says="_joint "),
    Case("a position that is NaN", on("joints", one("position", lambda _: math.nan)), says="not finite"),
    Case("a velocity that is inf", on("joints", one("velocity", lambda _: math.inf)), says="not finite"),
    Case("positions of 1e300", on("joints", each("position", lambda q: q * 1e300)), says=" reads "),
    Case("all positions 0", on("joints", each("position", np.zeros_like)), says="_joint "),
    Case("all values frozen, stamps new", lambda t: t.alter(joints=frozen("position", "velocity")), says="_joint "),
    Case("a joint that is missing", on("joints", lambda m: assign(name=m.name[:-1], position=m.position[:-1], velocity=m.velocity[:-1])(m)), says="joint states lack"),
    Case("names of another robot", on("joints", lambda m: assign(name=[f"x{n}" for n in m.name])(m)), says="joint states lack"),
    Case("no velocities", on("joints", assign(velocity=[])), says="one position and one velocity"),
    Case("fewer positions than names", on("joints", lambda m: assign(position=m.position[:-1])(m)), says="one position and one velocity"),
    Case("an empty message", on("joints", assign(name=[], position=[], velocity=[])), says="joint states lack"),
    Case("bytes that are no message", on("joints", lambda m: b"\x00\x01nothing"), says="joint_states"),
    Case("velocities that are always 0", on("joints", each("velocity", np.zeros_like)), says="moves otherwise than its velocity says"),
    Case("joints in another order", on("joints", shuffled), WALKS),
    Case("a gripper among the joints", on("joints", with_gripper), WALKS),
]  # fmt: skip
IMUS = [
    Case("rate that is NaN", on("imu", assign(angular_velocity__x=math.nan)), says="not finite"),
    Case("orientation all 0", on("imu", assign(orientation__x=0.0, orientation__w=0.0)), says="unit quaternion"),
    Case("orientation of length 2", on("imu", assign(orientation__w=2.0)), says="unit quaternion"),
    Case("orientation as wxyz", on("imu", UPSIDE_DOWN), says="tilted by"),
    Case("tilted by 1.5 rad", on("imu", TILTED), says="tilted by 1.50 rad"),
    Case("no orientation, REP 145", on("imu", lambda m: (m.orientation_covariance.__setitem__(0, -1.0), m)[1]), says="has no orientation"),
    Case("rate in degrees/s", on("imu", lambda m: assign(angular_velocity__x=57.3 * m.angular_velocity.x)(m)), says="than its rate says"),
    Case("rate of a yaw that does not turn", on("imu", assign(angular_velocity__z=2.0)), says="than its rate says"),
    Case("all values frozen, stamps new", lambda t: t.alter(imu=frozen(*IMU_VALUES)), says="shows the same"),
    Case("a rate that is always 0", on("imu", assign(**dict.fromkeys((f"angular_velocity__{axis}" for axis in "xyz"), 0.0))), says="the IMU's rate is the same for"),
    Case("an orientation that is always 0, 0, 0, 1", on("imu", assign(**LEVEL)), says="the IMU's orientation is the same for"),
    Case("quaternions of alternating sign", on("imu", flipped), WALKS),
    Case("a yaw that jumps by 3 rad, for good", on("imu", assign(**TURN)), says="than its rate says"),
    Case("IMU at 50 Hz, turning", turning_with(imu=every(4)), WALKS),
    Case("frozen IMU, joints at 50 Hz", lambda t: t.alter(imu=frozen(*IMU_VALUES), joints=every(4)), says="shows the same"),
    Case("one bad quaternion", once("imu", assign(orientation__w=2.0)), WALKS),
]  # fmt: skip
TIMES = [
    *(Case(f"{sensor} silent", on(sensor, silent), says=says, watch_s=4.0) for sensor, says in (("joints", "joint_states is silent for 0.1"), ("imu", "imu/data is silent for 0.1"), ("camera", "image_raw is silent for 2."))),
    Case("all sensors silent", lambda t: t.alter(joints=silent, imu=silent, camera=silent), says="is silent for"),
    Case("joints silent for 0.04 s", for_a_while("joints", silent, 0.04), WALKS),
    Case("camera silent for 1 s", for_a_while("camera", silent, 1.0), WALKS),
    *(Case(f"{sensor} without stamps", on(sensor, assign(header__stamp=ros2.stamp(0))), says="is not stamped") for sensor in ("joints", "imu", "camera")),
    Case("joints stamped 0.5 s ago", on("joints", shifted(-0.5)), says="messages arrive 0.5"),
    Case("IMU stamped 0.5 s ago", on("imu", shifted(-0.5)), says="messages arrive 0.5"),
    Case("camera stamped 5 s ago", on("camera", shifted(-5.0)), says="messages arrive 5.", watch_s=4.0),
    Case("joints stamped 0.02 s ago", on("joints", shifted(-0.02)), WALKS),
    Case("joints stamped 3 s ahead", on("joints", shifted(3.0)), says="in the future"),
    Case("one message an hour old", once("joints", shifted(-3600.0)), WALKS),
    *(Case(f"{sensor} that repeats a stamp", lambda t, s=sensor: repeated_stamp(t, s), says="repeat their stamp", watch_s=4.0) for sensor in ("joints", "imu", "camera")),  # type: ignore[misc]
    Case("a clock that loses a fifth", lambda t: drifting(t, "joints"), says="messages arrive"),
    Case("joints silent for 0.08 s", for_a_while("joints", silent, 0.08), WALKS),
    Case("IMU silent for 0.08 s", for_a_while("imu", silent, 0.08), WALKS),
    Case("joints at 50 Hz", on("joints", every(4)), WALKS),
    Case("camera at 3 Hz", on("camera", every(10)), WALKS),
]  # fmt: skip
CAMERAS = [
    Case("images of an unknown encoding", on("camera", NV12), says="'nv12' is not supported"),
    Case("images cut short", on("camera", assign(data=b"short")), says="cut short"),
    Case("images without pixels", on("camera", assign(height=0, width=0, data=b"")), says="cut short"),
    Case("images whose step is wrong", on("camera", assign(step=3)), says="cut short"),
    Case("black images", on("camera", lambda m: assign(data=bytes(len(m.data)))(m)), says="the image is frozen", watch_s=4.0),
    Case("the same image again and again, stamps new", lambda t: t.alter(camera=frozen("data")), says="the image is frozen", watch_s=4.0),
    Case("images of 640 x 480", on("camera", big), WALKS),
    Case("images as bgra8", on("camera", in_encoding("bgra8")), WALKS),
    Case("true images while the robot turns", turning_with(), WALKS, watch_s=6.0),
    Case("mirrored images", turning_with(camera=colours(mirrored)), says=WRONG_WAY, watch_s=10.0),
    Case("images upside down", turning_with(camera=colours(upside_down)), says=WRONG_WAY, watch_s=10.0),
    Case("images frozen but for noise", turning_with(camera=colours(frozen_but_for_noise(2.0))), says=STILL, watch_s=10.0),
    Case("true depth while the robot turns", turning_with(), WALKS, watch_s=6.0, bundle=SEES_DEPTH),
    Case("mirrored depth", turning_with(depth=depth(mirrored)), says=WRONG_WAY, watch_s=10.0, bundle=SEES_DEPTH),
    Case("depth upside down", on("depth", depth(upside_down)), says="shows the ground in its upper half", watch_s=4.0, bundle=SEES_DEPTH),
    Case("depth frozen but for noise", turning_with(depth=depth(frozen_but_for_noise(0.02))), says=STILL, watch_s=10.0, bundle=SEES_DEPTH),
    Case("depth in millimetres as 32FC1", on("depth", depth(lambda m: 1000.0 * m)), says="millimetres instead of metres", watch_s=4.0, bundle=SEES_DEPTH),
    Case("depth with 65535 for no reading", on("depth", with_65535), WALKS, bundle=SEES_DEPTH),
    Case("depth as mono16", on("depth", in_encoding("mono16")), WALKS, bundle=SEES_DEPTH),
    Case("depth that is NaN", on("depth", depth(blind)), says="measures nothing", watch_s=4.0, bundle=SEES_DEPTH),
    Case("depth that is NaN where the policy looks", on("depth", depth(blind_inside)), says="measures nothing", watch_s=4.0, bundle=SEES_DEPTH),
    Case("depth that is NaN in half of its pixels", on("depth", depth(half_blind)), WALKS, watch_s=4.0, bundle=SEES_DEPTH),
]  # fmt: skip
OTHERS = [
    Case("a second publisher of joint states", other("joint_states"), says="/other_node", watch_s=6.0),
    Case("a second publisher, of a gripper's joints", other("joint_states", publishes=True), says="/other_node", watch_s=6.0),
    Case("a second publisher of IMU data", other("imu/data"), says="/other_node", watch_s=6.0),
    Case("a second controller", other("joint_command"), says="another node commands the joints: /other_node", watch_s=6.0),
    Case("five participants join", joins, WALKS, watch_s=5.0),
    Case("random goals at 100 Hz", flood(PoseStamped, GOAL_TOPIC, random_goal), WALKS, "lines before it were left out", bundle=WITH_GOAL, arguments=GOAL),
    Case("random velocities at 100 Hz, some NaN", flood(Twist, VELOCITY, random_velocity), WALKS, bundle="walk", trial=TopicTrial),
    Case("an invalid transition", transition(1), WALKS),
    Case("parameters of no type", wrong_parameter, WALKS, "a request was not understood"),
]  # fmt: skip
PROCESSES = [
    Case("stopped for 1 s", stopped_for(1.0), RESTS, watch_s=4.0),
    Case("stopped for 0.05 s", stopped_for(0.05), WALKS),
    Case("kill -9", lambda t: t.signal(signal.SIGKILL), ENDS),
    *(Case(f"SIG{name}", lambda t, n=name: t.signal(signal.Signals[f"SIG{n}"])) for name in ("INT", "TERM", "HUP", "QUIT")),  # type: ignore[misc]
    Case("--out on a full disk", full_disk, says="the report cannot be written", watch_s=4.0, arguments=("--auto-arm", "--out", FOLDER)),
    Case("--record on a full disk", full_disk_of_the_recorder, WALKS, "the recording has ended", watch_s=4.0, arguments=("--auto-arm", "--record", f"{FOLDER}/walk.mcap")),
    Case("emergency stop by topic", stop_by_topic, says="stopped: "),
    Case("emergency stop by service", order("emergency_stop"), says="stopped: "),
    Case("lie down", order("lie_down"), says="limp: lies", watch_s=3.0),
    Case("deactivate", transition(4)),
    Case("shutdown", transition(7)),
]  # fmt: skip
with_goal = partial(Case, bundle=WITH_GOAL, arguments=GOAL)
GOALS = [
    with_goal("odometry silent", on("odom", silent), STAYS, "odom: silent for"),
    with_goal("odometry silent for 0.3 s", for_a_while("odom", silent, 0.3), WALKS),
    with_goal("odometry that is NaN", on("odom", assign(pose__pose__position__x=math.nan)), STAYS, "not finite"),
    with_goal("orientation all 0", on("odom", assign(pose__pose__orientation__w=0.0)), STAYS, "no unit quaternion"),
    with_goal("odometry without stamps", on("odom", assign(header__stamp=ros2.stamp(0))), says="is not stamped"),
    with_goal("odometry stamped 5 s ago", on("odom", shifted(-5.0)), STAYS, "messages arrive 5."),
    with_goal("odometry in another frame", on("odom", assign(header__frame_id="map")), STAYS, "its frame was 'odom' and is 'map'"),
    with_goal("odometry that jumps by 2 m, for good", on("odom", assign(pose__pose__position__y=2.0)), WALKS, "odom: jumped by 2 m"),
    with_goal("a goal that is NaN", goal(math.nan, 0.0), WALKS, "refused, x, y are nan"),
    with_goal("a goal in another frame", goal(2.0, 0.0, "map"), WALKS, "refused, its frame is 'map'"),
    with_goal("an unreachable goal, as in a wall", lambda t: None, STAYS, "given up, no nearer", arguments=(*GOAL, "--ros-args", "-p", "goal_timeout_s:=3.0"), watch_s=4.0),
]  # fmt: skip
BACK = "steps back and turns left, try 1 of 3"
GLASS = [
    with_goal("seen by odometry", lambda t: None, WALKS, BACK, watch_s=12.0, trial=GlassTrial),
    Case("felt by the legs", lambda t: None, WALKS, BACK, watch_s=12.0, bundle="rover", trial=GlassTrial),
]  # fmt: skip
STARTS = [
    Case("no robot", on("joints", silent), REFUSES, "no message on joint_states", True, 25.0),
    Case("joints in degrees", on("joints", degrees), REFUSES, "degrees instead", True, 15.0),
    Case("tilted by 1.5 rad", on("imu", TILTED), REFUSES, "tilted by", True, 15.0),
    Case("images of an unknown encoding", on("camera", NV12), REFUSES, "'nv12'", True, 15.0),
    Case("without stamps", on("joints", assign(header__stamp=ros2.stamp(0))), REFUSES, "not stamped", True, 15.0),
    Case("a second controller", other("joint_command"), REFUSES, "/other_node", True, 30.0),
    Case("a second publisher of joint states", other("joint_states"), REFUSES, "joint_states has 2 publishers: /driver, /other_node", True, 30.0),
    Case("a second publisher of IMU data", other("imu/data"), REFUSES, "imu/data has 2 publishers: /driver, /other_node", True, 30.0),
    Case("depth that is NaN", on("depth", depth(blind)), REFUSES, "measures nothing", True, 25.0, bundle=SEES_DEPTH),
    Case("a camera of another lens", other_lens, REFUSES, "the policy would see 1.78 rad high", True, 15.0),
    Case("not armed", lambda t: None, REFUSES, "limp: ", True, 10.0, ()),
    Case("sim time", lambda t: None, REFUSES, "use_sim_time is not", True, 10.0, ("--auto-arm", "--ros-args", "-p", "use_sim_time:=true")),
]  # fmt: skip
COMMANDS = [
    InvalidCommand("a position that is NaN", one("position", lambda _: math.nan), "not finite"),
    InvalidCommand("a position that is inf", one("position", lambda _: math.inf), "not finite"),
    InvalidCommand("an effort that is NaN", one("effort", lambda _: math.nan), "not finite"),
    InvalidCommand("fewer positions than names", lambda m: assign(position=m.position[:-1])(m), "for every name"),
    InvalidCommand("more positions than names", lambda m: assign(position=[*m.position, 0.0])(m), "for every name"),
    InvalidCommand("fewer efforts than names", lambda m: assign(effort=m.effort[:-1])(m), "for every name"),
    InvalidCommand("names of another robot", lambda m: assign(name=[f"x{n}" for n in m.name])(m), "lacks FR_hip_joint"),
]  # fmt: skip
GROUPS: dict[str, list[Case] | list[InvalidCommand]] = {
    "Joints": JOINTS,
    "IMU": IMUS,
    "Silence and stamps": TIMES,
    "Camera": CAMERAS,
    "Other nodes on the network": OTHERS,
    "Processes and operators": PROCESSES,
    "Goals": GOALS,
    "At the start": STARTS,
    "Mixed up from the start": MIXED_UP,
    "A pane of glass ahead": GLASS,
    "Commands to the simulated robot": COMMANDS,
    "Unitree Go2 over DDS": GO2_FAULTS,
    "ros2_control": ROS2_CONTROL_FAULTS,
}
