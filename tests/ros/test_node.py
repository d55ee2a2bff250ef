"""Real ROS 2 between real processes: the closed loop, the lifecycle, and faults."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.spec import A1, ROBOTS
from tests.helpers import documented_keys, played
from tests.ros.support import AUTO, PATIENT, WALKING, Client, FakeRobot, Processes, output_of


def trajectory(folder: Path) -> np.ndarray:
    with np.load(folder / "trajectory.npz") as data:
        assert set(data) == documented_keys("Trajectory")
        assert np.all(np.diff(data["simulated_s"]) > 0.0)
        return np.array(data["path"])


@pytest.mark.parametrize("body", ["pybullet", pytest.param("mujoco", marks=pytest.mark.slow)])
def test_the_shipped_policy_walks_the_robot_by_camera(
    processes: Processes, tmp_path: Path, body: str
) -> None:
    sim = processes.start("pixelgait-sim", "--body", body, "--seed", 10000, "--out", tmp_path)
    run = processes.start("pixelgait-run", "iap", "--duration", 8, "--out", tmp_path, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert "sensor_to_command" in output
    assert "tf2_msgs" not in output
    time.sleep(1.0)  # a damped robot takes half a second to lie down
    sim.send_signal(signal.SIGINT)
    sim_output, _ = sim.communicate(timeout=30)
    assert f"wrote {tmp_path / 'trajectory.npz'}\n" in sim_output
    assert sim.returncode == 0
    assert "incompatible QoS" not in output + sim_output
    for name in ("latency.json", "decisions.npz"):
        assert f"\nwrote {tmp_path / name}\n" in output
    report = json.loads((tmp_path / "latency.json").read_text())
    assert report["ticks"] > 400
    for stage in ("sensor_to_command", "wait"):  # for what the robot sends next
        assert report["stages"][stage]["count"] > 400
    assert set(report["sensor_age_us"]) == {"joint_states", "imu/data", "camera/color/image_raw"}
    with np.load(tmp_path / "decisions.npz") as decisions:
        assert decisions["images"].shape[1:] == (32, 32, 3)
        assert len(np.unique(decisions["images"].reshape(len(decisions["images"]), -1), axis=0)) > 3
        walked = trajectory(tmp_path)
        first, last = decisions["time_s"][[0, -1]]
    walked = walked[(walked[:, 0] > first) & (walked[:, 0] < last)]
    assert walked[-1, 1] - walked[0, 1] > 1.0  # [m] ahead
    assert walked[:, 3].min() > 0.15  # [m] above the platform, all the time
    assert trajectory(tmp_path)[-1, 3] < 0.2  # damped at the end: it has lain down


def test_a_simulated_robot_logs_its_scene_and_seed(processes: Processes, client: Client) -> None:
    """It is the only output in its terminal."""
    sim = processes.start("pixelgait-sim", "--scene", "flat", "--seed", 10001)
    client.spin(lambda: client.node.count_publishers("ground_truth/odom"))
    client.spin_for(1.0)
    sim.send_signal(signal.SIGINT)
    assert "a1 stands in 'flat', seed 10001" in sim.communicate(timeout=30)[0]


def test_a_trajectory_has_the_true_joint_angles_despite_sensor_faults(
    processes: Processes, tmp_path: Path, client: Client
) -> None:
    line = ("--faults", "joints-degrees:at=0,for=99", "--out", tmp_path)
    sim = processes.start("pixelgait-sim", *line)
    client.spin(lambda: client.node.count_publishers("ground_truth/odom"))
    client.spin_for(1.0)
    sim.send_signal(signal.SIGINT)
    assert "wrote" in sim.communicate(timeout=30)[0]
    path = trajectory(tmp_path)
    assert len(path) > 5
    assert np.abs(path[:, 8:] - A1.default_pose_rad).max() < 0.5


def test_a_robot_walks_in_a_namespace_and_publishes_nothing_outside(processes: Processes) -> None:
    from nav_msgs.msg import Odometry
    from rclpy.qos import qos_profile_sensor_data

    namespace = ("-r", "__ns:=/robot1")
    processes.start("pixelgait-sim", "--seed", 10000, "--ros-args", *namespace)
    run = processes.start("pixelgait-run", "iap", *AUTO, *namespace)
    client = Client(processes.domain, "/robot1")
    try:
        ways: list[float] = []
        client.node.create_subscription(
            Odometry,
            "ground_truth/odom",
            lambda message: ways.append(message.pose.pose.position.x),
            qos_profile_sensor_data,
        )
        newest = client.diagnose()
        client.wait_for_state("walking", timeout=40.0)
        client.spin(lambda: ways)
        start_m = ways[-1]
        client.spin(lambda: ways[-1] - start_m > 0.5)
        assert client.commands[-1].position
        client.spin(lambda: "robot" in newest)
        assert newest["robot"].name == "robot1/pixelgait: robot"
        assert client.order("emergency_stop")[0]
        client.wait_for_state("stopped")
        topics = {name for name, _ in client.node.get_topic_names_and_types()}
        outside = {name for name in topics if not name.startswith("/robot1/")}
        assert outside <= {"/diagnostics", "/tf_static", "/rosout", "/parameter_events"}
        assert run.poll() is None
    finally:
        client.close()


@pytest.mark.long
def test_a_simulated_robot_is_filmed_under_another_appearance(
    processes: Processes, tmp_path: Path
) -> None:
    film = tmp_path / "film.mp4"
    scene = ("--scene", "flat", "--appearance", "test", "--seed", 10001)
    sim = processes.start("pixelgait-sim", *scene, "--video", film)
    run = processes.start("pixelgait-run", "iap", "--duration", 2, "--out", tmp_path, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    with np.load(tmp_path / "decisions.npz") as decisions:
        assert (decisions["images"][:, :8] == 255).mean() < 0.1  # nominal: a white sky
    sim.send_signal(signal.SIGINT)
    said, _ = sim.communicate(timeout=60)
    assert sim.returncode == 0, said
    assert said.splitlines()[-1] == f"wrote {film}"
    assert len(played(film)) > 20  # ten a second


@pytest.mark.long
def test_ctrl_c_ends_the_filming(processes: Processes, tmp_path: Path) -> None:
    sim = processes.start("pixelgait-sim", "--scene", "flat", "--video", tmp_path / "film.mp4")
    run = processes.start("pixelgait-run", "iap", "--duration", 5, *AUTO)
    assert run.wait(timeout=60) == 0
    sim.send_signal(signal.SIGINT)
    assert sim.stdout is not None
    while not (line := sim.stdout.readline()).startswith("filming "):
        assert line, "it has ended"
    sim.send_signal(signal.SIGINT)
    said, _ = sim.communicate(timeout=30)
    assert sim.returncode == 130, said
    assert said == "error: interrupted\n"
    assert list(tmp_path.glob("*.mp4")) == list(tmp_path.glob(".film*")) == []


def test_a_depth_policy_walks_the_robot_by_depth(
    processes: Processes, depth_bundle: Path, tmp_path: Path
) -> None:
    processes.start("pixelgait-sim", "--seed", 10000)
    run = processes.start("pixelgait-run", depth_bundle, "--duration", 1, "--out", tmp_path, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    report = json.loads((tmp_path / "latency.json").read_text())
    assert report.keys() == documented_keys("Latency report") - {"repeated_commands"}  # of a Go2
    assert report["command"] == "pixelgait-run"
    of_the_other = {"pixelgait-profile", "pixelgait-run", "seconds", "seed", "slow"}
    assert report["settings"].keys() == documented_keys("Latency report", "settings") - of_the_other
    assert report["settings"]["bundle"] == str(depth_bundle)
    assert report["settings"]["duration"] == 1.0
    topics = {"joint_states", "imu/data", "camera/depth/image_rect_raw"}
    assert set(report["sensor_age_us"]) == topics
    with np.load(tmp_path / "decisions.npz") as decisions:
        assert set(decisions) == documented_keys("Decisions")
        images = decisions["images"]
    assert images.shape[1:] == (16, 16, 1)
    assert (images[0, 0] == 255).all()  # the sky, from where the robot stands up
    assert 20 < images[0, -1].mean() < 90  # the ground in front of its feet: 0.3 to 1 m


def test_a_robot_that_dies_damps_the_controller(
    processes: Processes, iap_bundle: Path, client: Client
) -> None:
    sim = processes.start("pixelgait-sim", "--scene", "flat")
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.spin(lambda: len(client.commands) > WALKING)
    assert client.commands[-1].position
    sim.kill()
    client.spin(lambda: not client.commands[-1].position)
    output, _ = run.communicate(timeout=30)
    assert run.returncode == 1
    assert "is silent for" in output
    assert "at most 2.0 s is allowed" in output


def test_a_node_that_waits_for_sensors_reports_it(
    processes: Processes, iap_bundle: Path, client: Client
) -> None:
    told = client.diagnose()
    processes.start("pixelgait-run", iap_bundle, *PATIENT)
    client.spin(lambda: "robot" in told and told["robot"].message == "waiting for all sensors")


def test_a_fault_ends_an_unmanaged_node(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """Others see it go inactive, and an ERROR."""
    events, told = client.watch_transitions(), client.diagnose()
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.spin(lambda: len(client.commands) > WALKING)
    robot.roll = 1.5
    client.spin(lambda: run.poll() is not None)
    client.spin(lambda: not client.commands[-1].position)
    client.spin(lambda: "inactive" in events and told["robot"].level == b"\2")
    assert told["robot"].message.startswith("tilted by 1.50 rad")
    assert run.returncode == 1
    assert "error: controller stopped: tilted by 1.50 rad" in output_of(run)


@pytest.mark.slow
def test_a_depth_policy_before_a_colour_camera_gives_up_by_name(
    processes: Processes, depth_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    swapped = ("-r", "camera/depth/image_rect_raw:=camera/color/image_raw")
    run = processes.start("pixelgait-run", depth_bundle, *AUTO, *swapped)
    client.spin(lambda: run.poll() is not None)
    assert run.returncode == 1
    assert "depth camera encoding 'rgb8' is not supported" in output_of(run)


@pytest.mark.slow
def test_colour_without_the_depth_of_its_time_damps(
    processes: Processes, rgbd_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    patient = (*AUTO, "-p", "timeout_s.camera.depth.image_rect_raw:=1.0")
    run = processes.start("pixelgait-run", rgbd_bundle, *patient)
    client.spin(lambda: len(client.commands) > WALKING)
    assert run.poll() is None
    robot.depth_age_ns = 200_000_000
    client.spin(lambda: run.poll() is not None)
    client.spin(lambda: not client.commands[-1].position)
    assert run.returncode == 1
    pair = "camera/color/image_raw paired with camera/depth/image_rect_raw"
    assert re.search(rf"{pair} is silent for \d+\.\d+ s, at most 1.0 s", output_of(run))


# A camera driver's process: 640 x 480 at 30 Hz, best effort as all sensors, frames numbered.
DRIVER = """
import itertools
import numpy as np
from pixelgait.robot.ros.common import ros2
ros2.rclpy.init()
node = ros2.rclpy.create_node("driver")
images = node.create_publisher(ros2.Image, ros2.COLOUR, ros2.SENSOR_QOS)
frame, count = np.zeros((480, 640, 3), np.uint8), itertools.count()
def publish():
    images.publish(ros2.image_message(0, str(next(count)), frame))
node.create_timer(1 / 30, publish)
ros2.rclpy.spin(node)
"""


@pytest.mark.slow
def test_large_images_arrive_from_a_driver_with_the_shipped_profile(
    processes: Processes, iap_bundle: Path, client: Client
) -> None:
    """Without it, 4 to 7 of 10 images of this size are lost."""
    from pixelgait.robot.ros.common import ros2

    processes.start("pixelgait-run", iap_bundle, "--no-autostart")  # the client asks for it
    profile = Path("launch/fastdds_large_images.xml").resolve()
    processes.environment["FASTRTPS_DEFAULT_PROFILES_FILE"] = str(profile)
    processes.environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    processes.start("python", "-c", DRIVER)
    seen: list[int] = []
    client.node.create_subscription(
        ros2.Image, ros2.COLOUR, lambda m: seen.append(int(m.header.frame_id)), ros2.SENSOR_QOS
    )
    client.spin(lambda: len(seen) >= 60, timeout=60.0)
    assert seen[-1] - seen[0] < 66  # at most 1 in 10 lost


@pytest.mark.long
def test_a_dead_driver_is_noticed_when_activated_again(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", iap_bundle, "--no-autostart", *AUTO)
    assert client.transition(1)
    assert client.transition(3)
    client.spin(lambda: len(client.commands) > 20)
    assert client.transition(4)
    robot.timer.cancel()
    time.sleep(2.3)  # longer than any sensor but the camera may be silent
    client.commands.clear()
    assert not client.transition(3)
    assert client.state() == "inactive"
    assert not any(command.position for command in client.commands)  # it never stiffened
    assert run.poll() is None
    assert client.transition(6)  # shutdown from inactive
    assert run.wait(30) == 0


def test_a_policy_of_colour_and_depth_waits_for_both(
    processes: Processes, rgbd_bundle: Path
) -> None:
    run = processes.start("pixelgait-run", rgbd_bundle)
    assert run.stdout is not None
    waits = next(line for line in run.stdout if "waiting for" in line or "error: " in line)
    assert "camera on /camera/depth/image_rect_raw" in waits
    run.send_signal(signal.SIGINT)
    assert run.wait(30) == 0


def test_the_lifecycle_from_another_process(
    processes: Processes, iap_bundle: Path, client: Client
) -> None:
    configure, cleanup, activate, deactivate = 1, 2, 3, 4  # lifecycle_msgs/Transition
    processes.start("pixelgait-sim", "--scene", "flat")
    run = processes.start("pixelgait-run", iap_bundle, "--no-autostart", *AUTO)
    assert client.state() == "unconfigured"
    assert not client.transition(activate)  # not allowed from here; must not end the node
    assert client.state() == "unconfigured"
    assert client.transition(configure)
    assert client.state() == "inactive"
    assert not client.commands  # nothing is commanded before activation
    assert client.transition(activate)
    assert client.state() == "active"
    client.spin(lambda: len(client.commands) > 200)
    command = client.commands[-1]
    assert list(command.name)[:3] == ["FR_hip_joint", "FR_upper_joint", "FR_lower_joint"]
    assert len(command.position) == 12
    assert command.header.stamp.sec > 0
    assert client.transition(deactivate)
    client.spin(lambda: not client.commands[-1].position)  # damped: no positions
    assert client.state() == "inactive"
    assert client.transition(activate)  # and again
    before = len(client.commands)
    client.spin(lambda: len(client.commands) > before + 50)
    assert client.transition(deactivate)
    assert client.transition(cleanup)
    assert client.state() == "unconfigured"
    assert run.poll() is None


def priorities(pid: int) -> list[int]:
    """Real-time priority of every thread of a process; 0 of one that has none."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    fields = [stat.rpartition(")")[2].split() for stat in stats]  # from the third on, see proc(5)
    return [int(each[37]) if int(each[38]) == os.SCHED_FIFO else 0 for each in fields]


def test_the_control_thread_has_the_highest_priority(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", iap_bundle, "--no-autostart", *PATIENT)
    assert client.transition(1)
    before = priorities(run.pid)
    code = "from pixelgait.robot.runtime.realtime import request_priority as ask; print(ask())"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    granted = asked.stdout.strip() == "None"
    assert granted == (max(before) > 0)
    assert client.transition(3)
    client.wait_for_state("limp")
    now = priorities(run.pid)
    assert granted == (min(now) > 0)  # none that the control thread would wait for in vain
    above = [priority for priority in now if priority > max(before)]
    assert above == ([max(before) + 1] if granted else [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_damp_before_the_node_leaves(
    processes: Processes, iap_bundle: Path, number: signal.Signals, client: Client
) -> None:
    processes.start("pixelgait-sim", "--scene", "flat")
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.spin(lambda: len(client.commands) > WALKING)
    run.send_signal(number)
    client.spin(lambda: not client.commands[-1].position)
    assert run.wait(30) == 0


# Interrupts the wait twenty times at random moments.
INTERRUPTED = """
import os, random, signal, threading, time
from pixelgait.robot.ros.common import ros2
for wait_s in [0.0, 0.0001] * 10:
    stop = ros2.start()
    after_s = random.uniform(0.001, 0.02)
    threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGTERM)).start()
    while not stop.wait(wait_s):
        pass
    ros2.rclpy.try_shutdown()
stop = ros2.start()
sent = []
def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.1, send).start()
assert not stop.wait(0.01) and not stop.is_set()
assert stop.wait(30.0) and stop.is_set()
print("ended after", time.monotonic() - sent[0])
"""


def test_a_signal_ends_a_wait_at_any_moment(processes: Processes) -> None:
    output, _ = processes.script(INTERRUPTED).communicate(timeout=60)
    after_s = float(output.removeprefix("ended after"))
    assert after_s < 15.0  # of 30; 0.02 on an idle machine


def test_a_camera_of_another_size_and_encoding_is_converted() -> None:
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.runtime.camera_images import rgb_frame

    gray = np.zeros((48, 64), np.uint8)
    gray[:, 8:56] = np.linspace(0, 250, 48)  # the middle square; the sides are cropped away
    gray[:, 56:] = 99
    message = ros2.Image()
    message.height, message.width, message.step, message.encoding = 48, 64, 64, "mono8"
    message.data = gray.tobytes()
    pixels = rgb_frame(message, 32, 32)
    assert pixels.shape == (32, 32, 3)
    np.testing.assert_array_equal(pixels[..., 0], pixels[..., 2])
    assert pixels[0, 0, 0] < 5
    assert pixels[0, -1, 0] > 245
    blue = np.zeros((32, 32, 3), np.uint8)
    blue[..., 0] = 200
    message = ros2.image_message(5, "camera", blue)
    message.encoding = "bgr8"
    assert tuple(rgb_frame(message, 32, 32)[3, 3]) == (0, 0, 200)
    message.encoding = "nv12"
    with pytest.raises(Exception, match="'nv12' is not supported, need rgb8, bgr8, mono8"):
        rgb_frame(message, 32, 32)
    message.encoding, message.data = "rgb8", b"short"
    with pytest.raises(Exception, match="cut short"):
        rgb_frame(message, 32, 32)


def test_colour_and_depth_are_paired_by_stamp() -> None:
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.runtime.camera_images import CameraImages

    camera = CameraImages((2, 2, 4))
    ms = 1_000_000

    def put(topic: str, time_ns: int, value: float) -> bool:
        kind, shape = (np.uint8, (2, 2, 3)) if topic == ros2.COLOUR else (np.float32, (2, 2))
        return camera.put(topic, ros2.image_message(time_ns, "", np.full(shape, value, kind)))

    def seen() -> tuple[int, list[int]]:
        image = camera.image()
        return round(image.time_s * 1e3), image.pixels[0, 0].tolist()

    assert not put(ros2.DEPTH, 900 * ms, 3.0)
    assert camera.apart_ns is None
    assert not put(ros2.COLOUR, 1000 * ms, 10)  # no depth within 33 ms
    assert camera.apart_ns == 100 * ms
    assert put(ros2.DEPTH, 967 * ms, 1.5)
    assert seen() == (967, [10, 10, 10, 128])  # as old as the older part
    assert not put(ros2.COLOUR, 1033 * ms, 20)  # its depth is late: what was paired stays
    assert seen() == (967, [10, 10, 10, 128])
    assert camera.apart_ns is None
    assert put(ros2.DEPTH, 1033 * ms, 0.6)
    assert seen() == (1033, [20, 20, 20, 51])
    assert put(ros2.COLOUR, 1066 * ms, 30)
    assert put(ros2.DEPTH, 1067 * ms, np.nan)  # a blind depth camera shows nothing new
    assert seen() == (1033, [20, 20, 20, 51])
    camera.forget()
    assert not put(ros2.COLOUR, 1100 * ms, 40)
    assert put(ros2.DEPTH, 1100 * ms, 0.0)
    with pytest.raises(Exception, match="camera/depth/image_rect_raw measures nothing"):
        camera.image()


def test_a_constant_image_is_no_warning_after_joints_are_matched(client: Client) -> None:
    """The driver has another order of joints: nothing has moved."""
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.ros.links.topic_driver import TopicSensors
    from pixelgait.robot.safety.sensor_age import FrozenImageCheck

    spec, watch, picture = ROBOTS["a1"], FrozenImageCheck(), bytes(range(48))
    sensors = TopicSensors(ros2.quiet_node(client.node, "quiet"), spec)
    angles = dict(zip(spec.joint_names, spec.default_pose_rad.tolist(), strict=True))
    names = sorted(spec.joint_names)
    message = ros2.JointState(name=names, position=[angles[name] for name in names])
    message.velocity = [0.0] * len(names)
    sensors._messages.newest[ros2.JOINT_STATES] = message
    assert watch.judge(picture, sensors.angles()) is None
    np.testing.assert_array_equal(sensors.joints()[0], spec.default_pose_rad)
    np.testing.assert_array_equal(sensors.angles(), spec.default_pose_rad)
    assert watch.judge(picture, sensors.angles()) is None
    message.name, message.position = [*names, "gripper"], [*message.position, 0.7]
    message.velocity = [0.0] * len(message.name)
    sensors.joints()
    assert watch.judge(picture, sensors.angles()) is None


def test_joints_are_matched_by_name() -> None:
    from pixelgait.robot.ros.common import ros2

    order = ros2.joint_order(["c", "a", "b"], ("a", "b", "c"))
    np.testing.assert_array_equal(np.array([3.0, 1.0, 2.0])[order], [1.0, 2.0, 3.0])
    with pytest.raises(Exception, match=r"joint states lack b; they name a$"):
        ros2.joint_order(["a"], ("a", "b"))
    with pytest.raises(
        Exception, match=r": of robot a1, wanted is go2 \(pixelgait-sim --robot go2"
    ):
        ros2.joint_order(list(ROBOTS["a1"].joint_names), ROBOTS["go2"].joint_names)
    with pytest.raises(Exception, match="joint states name a, b twice"):
        ros2.joint_order(["a", "b", "c", "b", "a"], ("a", "b"))
    assert (
        len(ros2.joint_order(["a", "gripper", "b", "gripper"], ("a", "b"))) == 2
    )  # joints of another device


def test_a_simulated_driver_drops_a_command_that_names_a_joint_twice() -> None:
    from pixelgait.robot.ros.common import ros2
    from pixelgait.sim.ros.joint_topics import unusable

    message = ros2.joint_command(1, ("a", "b", "b"), np.zeros(3), np.zeros(3))
    assert unusable(message, ("a", "b")) == "it names b twice"
    assert unusable(message, ("a",)) is None


def test_timers_continue_while_the_clock_stands_still(processes: Processes) -> None:
    """As a clock that was set back does for its timers: another node may command meanwhile.

    Simulated time that nobody publishes is such a clock.
    """
    client = Client(processes.domain)
    from rclpy.parameter import Parameter

    from pixelgait.robot.ros.common import ros2

    by_clock: list[int] = []
    watched: list[int] = []

    def watch() -> None:
        watched.append(1)
        raise ValueError("the executor outlives this")

    client.node.set_parameters([Parameter("use_sim_time", value=True)])
    client.node.create_timer(0.01, lambda: by_clock.append(1))
    ros2.every(client.node, 0.01, watch)
    client.spin(lambda: len(watched) > 20, timeout=20.0)
    client.close()
    assert not by_clock
