"""The node on a simulated Go2's DDS: it walks, with the Go2's services and remote control."""

from __future__ import annotations

import json
import math
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.robot.unitree.remote import ARM, L2, STAND_UP, STOP, WALK
from pixelgait.robot.unitree.services import MotionSwitcher
from pixelgait.sim.ros.node import SimConfig
from pixelgait.sim.ros.node import run as run_simulator
from tests.faults.go2 import BENT, MUJOCO
from tests.ros.go2 import Listener, press, tell
from tests.ros.support import PATIENT, Client, Processes, output_of, told
from tests.ros.test_other_nodes import set_parameter

STATE_AGES = ("ageing_s.lowstate:=1.0", "stale_s.lowstate:=1.5", "timeout_s.lowstate:=2.0")
CAMERA_AGES = tuple(each for each in PATIENT if "camera" in each)
PATIENT_GO2 = ("--ros-args", *(p for each in (*STATE_AGES, *CAMERA_AGES) for p in ("-p", each)))
AUTO_GO2 = ("--auto-arm", *PATIENT_GO2)
FLAT = ("--robot", "go2", "--scene", "flat")
CONFIGURE, CLEANUP, ACTIVATE, DEACTIVATE = 1, 2, 3, 4  # lifecycle_msgs/Transition


@pytest.mark.slow
@pytest.mark.parametrize("body", ["pybullet", pytest.param("mujoco", marks=pytest.mark.long)])
def test_the_shipped_policy_walks_past_obstacles(
    processes: Processes,
    client: Client,
    link: str,
    switcher: MotionSwitcher,
    tmp_path: Path,
    body: str,
) -> None:
    """Meanwhile the motors are its own; before and after they are the robot's own program's."""
    out = tmp_path / "sim"
    where = ("--robot", "go2", "--link", link, "--body", body)
    sim = processes.start("pixelgait-sim", *where, "--out", out)
    assert switcher.mode() == "normal"
    line = ("iap-depth-go2", "--link", link, "--duration", 15, "--out", tmp_path / "run")
    run = processes.start("pixelgait-run", *line, *AUTO_GO2)
    client.wait_for_state("walking")
    assert switcher.mode() == ""
    assert run.wait(90) == 0
    assert switcher.mode() == "normal"
    sim.send_signal(signal.SIGINT)
    assert sim.wait(20) == 0
    path = np.load(out / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 2.8  # [m] ahead: the first wall stands at 2.5
    assert not client.commands  # nothing goes to the topics of another link
    repeated = json.loads((tmp_path / "run" / "latency.json").read_text())["repeated_commands"]
    assert repeated["period_nominal_us"] == 2000.0
    assert repeated["due"] > 15.0 / 0.002
    assert 0 <= repeated["late"] < repeated["due"]


def test_nothing_is_sent_before_the_robot_shall_stand_up(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    """Then at 500 Hz, though the controller runs at 100; after a kill the robot damps."""
    listener = Listener(processes, link)
    processes.start("pixelgait-sim", *FLAT, "--link", link)
    run = processes.start("pixelgait-run", "walk-go2", "--link", link, *PATIENT_GO2)
    client.wait_for_state("limp")
    assert client.order("arm")[0]
    client.spin_for(0.5)
    told_s = time.monotonic()
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    until_now = listener.heard()
    assert until_now.heard == until_now.right > 0
    assert until_now.first_s > told_s
    for _ in range(10):  # a busy machine may take a while to keep up
        listener = Listener(processes, link)
        client.spin_for(3.0)
        now = listener.heard()
        assert now.heard == now.right == now.stiff > 0
        if now.heard > 400:
            break
    assert now.heard > 400  # 1500 on an idle machine; the policy's are 300
    assert heights[-1] > 0.2
    run.kill()
    client.spin(lambda: heights[-1] < 0.15)


@pytest.mark.slow
def test_a_robot_without_its_camera_keeps_its_motors(
    processes: Processes, client: Client, link: str, switcher: MotionSwitcher, heights: list[float]
) -> None:
    """Let go first, it would lie there for a wrong name of a topic."""
    processes.start("pixelgait-sim", *FLAT, "--link", link)
    client.spin(lambda: heights)
    nowhere = ("--ros-args", "-r", "camera/depth/image_rect_raw:=nowhere")
    run = processes.start("pixelgait-run", "iap-depth-go2", "--link", link, "--auto-arm", *nowhere)
    assert run.wait(60) == 1
    assert "no message on camera/depth/image_rect_raw for 15 s" in output_of(run)
    assert switcher.mode() == "normal"
    client.spin_for(0.5)  # what is under way
    assert min(heights) > 0.2


def test_a_real_robot_gets_a_dry_run_without_arm(processes: Processes, client: Client) -> None:
    """In the robots' own domain; its motors stay with its own program, which lets it stand."""
    from pixelgait.robot.ros.common import ros2

    real = "go2:lo:0"
    processes.start("pixelgait-sim", *FLAT, "--link", real)
    shadow: list[Any] = []
    client.node.create_subscription(
        ros2.JointState, ros2.SHADOW_COMMAND, shadow.append, ros2.COMMAND_QOS
    )
    listener = Listener(processes, real)
    run = processes.start("pixelgait-run", "walk-go2", "--link", real, *AUTO_GO2)
    client.wait_for_state("walking")
    client.spin(lambda: any(message.position for message in shadow))
    run.send_signal(signal.SIGINT)
    assert run.wait(20) == 0
    assert listener.heard().heard == 0
    assert "dry run: a real robot is commanded" in output_of(run)


@pytest.mark.slow
def test_the_remote_arms_and_stops(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    robot = processes.script(BENT, *FLAT, "--link", link)
    run = processes.start("pixelgait-run", "walk-go2", "--link", link, *PATIENT_GO2)
    client.wait_for_state("limp")
    press(robot, STAND_UP)
    client.spin_for(0.3)
    assert client.order("stand_up") == (False, "not armed")
    press(robot, ARM)
    client.spin_for(1.0)
    press(robot, STAND_UP)
    client.wait_for_state("ready")
    press(robot, WALK)
    client.wait_for_state("walking")
    press(robot, L2)
    client.spin_for(0.3)
    assert client.states[-1].startswith("walking")
    assert heights[-1] > 0.2
    press(robot, STOP)
    client.wait_for_state("stopped: emergency stop by remote control")
    client.spin(lambda: heights[-1] < 0.15)
    assert run.poll() is None


@pytest.mark.slow
def test_the_sticks_of_the_remote_steer_instead_of_the_policy(
    processes: Processes, client: Client, link: str
) -> None:
    """It turns on the spot, stands, walks; then the policy goes on. The recording has it all."""
    robot = processes.script(BENT, *FLAT, "--link", link)
    recording = processes.folder / "walk.mcap"
    line = ("rover-go2", "--link", link, "--record", recording, *AUTO_GO2)
    run = processes.start("pixelgait-run", *line)
    poses, newest = listened_poses(client), client.diagnose()
    client.wait_for_state("walking")
    client.spin(lambda: poses and distance(poses[-1], poses[0]) > 0.2)  # the policy walks
    tell(robot, "right -100")
    client.spin(lambda: "remote" in newest)
    assert newest["remote"].message == "its sticks steer, until R2 + A or pixelgait/walk"
    before = poses[-1][2]
    client.spin(lambda: wrap_angle(poses[-1][2] - before) > 1.0)
    tell(robot, "right 0")
    client.spin_for(1.5)
    stood = len(poses)
    client.spin_for(1.5)
    assert distance(poses[-1], poses[stood]) < 0.1  # the policy waits
    tell(robot, "ahead 60")
    client.spin(lambda: distance(poses[-1], poses[stood]) > 0.3)
    tell(robot, "ahead 0")
    client.spin_for(1.0)
    left = poses[-1]
    press(robot, WALK)
    client.spin(lambda: distance(poses[-1], left) > 0.3)
    run.send_signal(signal.SIGINT)
    assert run.wait(30) == 0
    replayed = processes.start("pixelgait-replay", recording)
    assert replayed.wait(60) == 0
    assert "bit for bit" in output_of(replayed)


def listened_poses(client: Client) -> list[tuple[float, float, float]]:
    """True poses x, y [m], heading [rad], as they arrive."""
    from nav_msgs.msg import Odometry
    from rclpy.qos import qos_profile_sensor_data

    found: list[tuple[float, float, float]] = []

    def keep(message: Any) -> None:
        position, q = message.pose.pose.position, message.pose.pose.orientation
        found.append((position.x, position.y, heading((q.x, q.y, q.z, q.w))))

    client.node.create_subscription(Odometry, "ground_truth/odom", keep, qos_profile_sensor_data)
    return found


def distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Between two poses [m]."""
    return math.dist(one[:2], other[:2])


@pytest.mark.slow
@pytest.mark.parametrize("bridge", ["cpp", "python"])
def test_it_walks_in_the_vendors_simulator(
    processes: Processes, client: Client, link: str, heights: list[float], bridge: str
) -> None:
    """A stand-in that sends what unitree_mujoco's two programs send."""
    processes.script(MUJOCO, bridge, *FLAT, "--link", link)
    line = ("walk-go2", "--link", link, "--duration", 2, *AUTO_GO2)
    run = processes.start("pixelgait-run", *line)
    client.wait_for_state("walking")
    assert heights[-1] > 0.2
    assert run.wait(60) == 0
    said = output_of(run)
    assert "there is no motion_switcher: the motors of a simulator are free" in said
    filled = bridge == "cpp"
    assert ("lowstate has no checksum: taken from a simulator on lo" in said) is not filled
    assert ("lowstate has no tick: its age is counted from its arrival" in said) is not filled


@pytest.mark.slow
def test_an_empty_battery_keeps_the_robot_down_and_lays_it_down(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    """Unless a parameter forces it; the battery is on ROS 2's topic as well."""
    from sensor_msgs.msg import BatteryState

    robot = processes.script(BENT, *FLAT, "--link", link)
    tell(robot, "charge 2")
    alone = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    empty = "battery at 2 %: the robot must not stand"
    assert alone.wait(60) == 1
    assert output_of(alone).splitlines()[-1] == f"error: {empty}"
    batteries: list[Any] = []
    client.node.create_subscription(BatteryState, "battery_state", batteries.append, 10)
    newest = client.diagnose()
    processes.start("pixelgait-run", "walk-go2", "--link", link, *PATIENT_GO2)
    client.wait_for_state("limp: all sensors send")
    assert client.order("arm")[0]
    assert client.order("stand_up") == (False, empty)
    client.spin(lambda: batteries and "motors" in newest)
    assert batteries[-1].percentage == pytest.approx(0.02)
    assert (newest["motors"].level, newest["motors"].message) == (b"\2", empty)
    assert set_parameter(client, "check_power", False)[0]
    client.spin_for(0.3)
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    tell(robot, "charge 80")
    client.spin_for(0.5)
    assert set_parameter(client, "check_power", True)[0]
    assert client.order("walk")[0]
    client.wait_for_state("walking")
    tell(robot, "heat 91")
    hot = "FL_thigh_joint has 91 deg C: the robot must not stand"
    client.wait_for_state(f"lying down: {hot}")
    client.wait_for_state("limp: lies")
    client.spin(lambda: heights[-1] < 0.15)
    assert client.order("stand_up") == (False, hot)


@pytest.mark.slow
def test_a_second_controller_beside_one_that_walks_is_refused(
    processes: Processes, client: Client, link: str, heights: list[float]
) -> None:
    processes.start("pixelgait-sim", *FLAT, "--link", link)
    first = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    client.wait_for_state("walking")
    second = processes.start(
        *("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2, "-r", "__node:=second")
    )
    client.spin(lambda: second.poll() is not None, 60.0)
    last = output_of(second).splitlines()[-1]
    assert "another program commands the motors on rt/lowcmd: " in last
    assert f"(process {first.pid} on " in last
    client.spin_for(1.0)
    assert first.poll() is None
    assert client.states[-1].startswith("walking")
    assert heights[-1] > 0.2


@pytest.mark.long
def test_the_node_can_be_configured_again_after_cleanup(
    processes: Processes, client: Client, link: str, switcher: MotionSwitcher
) -> None:
    """As at first: it takes the motors, and gives them back."""
    processes.start("pixelgait-sim", *FLAT, "--link", link)
    processes.start("pixelgait-run", "walk-go2", "--link", link, "--no-autostart", *PATIENT_GO2)
    for _ in range(2):
        assert client.transition(CONFIGURE)
        assert switcher.mode() == "normal"
        assert client.transition(ACTIVATE)
        assert switcher.mode() == ""
        assert client.transition(DEACTIVATE)
        assert client.transition(CLEANUP)
    assert client.state() == "unconfigured"


def test_a_missing_dds_is_reported_with_its_cause(processes: Processes, link: str) -> None:
    """All ports of the domain are in use, as by too many programs."""
    ports = [7400 + 250 * int(link.split(":")[-1]) + 10 + 2 * i for i in range(100)]
    taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in ports]
    try:
        for each, port in zip(taken, ports, strict=True):
            with suppress(OSError):  # in use already, which is as good
                each.bind(("", port))
        run = processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
        assert run.wait(60) == 1
    finally:
        for each in taken:
            each.close()
    assert output_of(run).splitlines()[-1].startswith("error: no DDS on interface 'lo': ")


def test_without_cyclonedds_a_line_says_what_to_install(processes: Processes) -> None:
    code = "import sys; sys.modules['cyclonedds'] = None; sys.argv[0] = 'pixelgait-run'\n"
    code += "from pixelgait.robot.ros.run import main; main()"
    run = processes.script(code, "walk-go2", "--link", "go2:lo")
    assert run.wait(60) == 1
    line = "error: --link go2:lo needs cyclonedds: pip install 'pixelgait[go2]'"
    assert output_of(run).splitlines() == [line]


def test_a_simulated_go2_is_refused_on_an_interface_of_a_real_robot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    for link in ("go2:eth0", "go2:eth0:1"):
        with pytest.raises(UserError) as refused:
            run_simulator(SimConfig(robot="go2", link=link))
        assert str(refused.value) == (
            f"--link {link}: a real robot may be on eth0, a simulated Go2 belongs on lo (go2:lo); "
            "--any-interface allows it"
        )
    with pytest.raises(UserError, match="unknown scene"):
        run_simulator(SimConfig(robot="go2", link="go2:eth0", any_interface=True, scene="nowhere"))


@pytest.mark.slow
def test_battery_and_motors_are_reported(processes: Processes, client: Client, link: str) -> None:
    robot = processes.script(BENT, *FLAT, "--link", link)
    processes.start("pixelgait-run", "walk-go2", "--link", link, *AUTO_GO2)
    newest = client.diagnose()
    client.wait_for_state("walking")
    client.spin(lambda: "motors" in newest)
    level, message, values = told(newest["motors"])
    assert (level, message) == (0, "")
    assert int(values.pop("late_commands")) >= 0
    assert values == {
        **{"battery_percent": "80", "battery_v": "28.8"},
        **{"hottest_motor_deg_c": "30", "lost_packets": "0"},
    }
    tell(robot, "heat 75")
    client.spin(lambda: newest["motors"].message == "FL_thigh_joint has 75 deg C")
    tell(robot, "charge 19")
    both = "battery at 19 %, FL_thigh_joint has 75 deg C"
    client.spin(lambda: told(newest["motors"])[:2] == (1, both))


def test_a_longer_driver_timeout_is_refused(processes: Processes, link: str) -> None:
    """A loop that was held up for so long would go on stiff on a robot that lies."""
    line = ("walk-go2", "--link", link, "--ros-args", "-p", "driver_timeout_s:=2.0")
    assert "error: parameter: " in output_of(processes.start("pixelgait-run", *line))


@pytest.mark.slow
def test_a_restarted_robot_is_not_commanded_before_activation(
    processes: Processes, client: Client, link: str, switcher: MotionSwitcher
) -> None:
    """Its own program has the motors, and a writer of commands, as at first."""
    robot = ("pixelgait-sim", *FLAT, "--link", link)
    sim = processes.start(*robot)
    processes.start("pixelgait-run", "walk-go2", "--link", link, "--no-autostart", *AUTO_GO2)
    assert client.transition(CONFIGURE)
    assert client.transition(ACTIVATE)
    client.wait_for_state("walking")
    assert client.transition(DEACTIVATE)
    sim.kill()
    sim.wait()
    processes.start(*robot)
    listener = Listener(processes, link)
    assert switcher.mode() == "normal"
    client.spin_for(1.0)
    assert listener.heard().heard == 0
    client.states.clear()
    assert client.transition(ACTIVATE)
    assert switcher.mode() == ""
    client.wait_for_state("walking")
