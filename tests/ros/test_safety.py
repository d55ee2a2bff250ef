"""Safety of the node: stalls, old readings, arming, the emergency stop."""

from __future__ import annotations

import fcntl
import itertools
import re
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.ros.monitoring.diagnostics import MANY_STALLS
from pixelgait.robot.spec import A1
from tests.ros.support import AUTO, PATIENT, WALKING, Client, FakeRobot, Processes, output_of, told

S = 1_000_000_000


def stiff(client: Client) -> bool:
    return bool(client.commands) and bool(client.commands[-1].position)


# Time-outs for a driver that waits for one second.
IMPATIENT = [
    part
    for each in (
        *("ageing_s.joint_states:=0.5", "stale_s.joint_states:=0.8", "timeout_s.joint_states:=1.0"),
        "driver_timeout_s:=1.0",
    )
    for part in ("-p", each)
]


@pytest.mark.long
def test_the_robot_stands_up_again_after_a_stall_of_the_node(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """The driver has damped its motors meanwhile: the robot lies."""
    run = processes.start("pixelgait-run", iap_bundle, *AUTO, *IMPATIENT)
    client.wait_for_state("walking")
    client.spin(lambda: len(client.commands) > WALKING)
    run.send_signal(signal.SIGSTOP)
    client.spin_for(1.5)
    client.commands.clear()
    client.states.clear()
    run.send_signal(signal.SIGCONT)
    client.wait_for_state("walking")
    assert [state.split(":")[0] for state in client.states] == [
        *("limp", "standing up", "ready", "walking")
    ]
    assert re.search(r"no command for [1-9]", client.states[0])
    stiff_at = [i for i, command in enumerate(client.commands) if command.position]
    assert sum(i < 50 for i in stiff_at) <= 1  # one may have been under way when it was stopped
    up = client.commands[stiff_at[1]]  # the first of standing up: from where the joints are
    assert max(abs(q - p) for q, p in zip(up.position, A1.default_pose_rad, strict=True)) < 0.05
    assert run.poll() is None


@pytest.mark.long
def test_a_blocked_terminal_does_not_stall_the_control_loop(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", iap_bundle, *AUTO, "--log-level", "debug")
    assert run.stdout is not None
    client.wait_for_state("walking")
    fcntl.fcntl(run.stdout, fcntl.F_SETPIPE_SZ, max(4096, unread(run.stdout)))
    client.spin_for(3.0)  # and as much again, which fits nowhere
    full = unread(run.stdout)
    client.commands.clear()
    client.spin(lambda: len(client.commands) > 100)
    assert stiff(client)
    assert run.poll() is None
    assert unread(run.stdout) == full > 4000


def unread(pipe: Any) -> int:
    """Bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.slow
def test_a_node_that_stalls_repeatedly_warns_and_then_stops(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", iap_bundle, *AUTO, *IMPATIENT)
    newest, warnings = client.diagnose(), set()
    client.wait_for_state("walking")
    while run.poll() is None:
        hold_up(client, run)
        level, text, _ = told(newest["robot"])
        warnings.add(text if level == 1 else "")
    assert any(f"stalled {MANY_STALLS} times within a minute" in each for each in warnings)
    assert not any("stalled 2" in each for each in warnings)
    said = output_of(run)
    assert run.returncode == 1
    assert "error: controller stopped: stalled 6 times within a minute: it would fall again" in said
    assert not stiff(client)


def hold_up(client: Client, run: Any) -> None:
    """Stop the node's process for longer than its robot's driver waits, until it is ready again."""
    run.send_signal(signal.SIGSTOP)
    client.spin_for(1.3)
    client.states.clear()
    run.send_signal(signal.SIGCONT)
    client.spin(lambda: "ready: stands" in client.states or run.poll() is not None)


def test_no_joint_is_stiff_before_arming(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    processes.start("pixelgait-run", iap_bundle, *PATIENT)
    client.wait_for_state("limp")
    client.spin(lambda: len(client.commands) > 100)
    assert not any(command.position for command in client.commands)
    assert client.order("stand_up") == (False, "not armed")
    assert client.order("walk") == (False, "not armed")
    assert client.order("arm") == (True, "armed")
    assert client.order("walk") == (False, "the robot is limp")
    client.spin_for(0.3)
    assert not any(command.position for command in client.commands)
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    standing = [command.position for command in client.commands if command.position]
    steps = [
        max(abs(a - b) for a, b in zip(one, two, strict=True))
        for one, two in itertools.pairwise(standing)
    ]
    assert max(steps) < 0.1  # it rises, it does not jump
    assert client.order("walk")[0]
    client.wait_for_state("walking")
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    assert client.order("lie_down")[0]
    client.wait_for_state("limp: lies")
    client.spin(lambda: not stiff(client))
    assert client.order("disarm") == (True, "disarmed")
    assert client.order("stand_up") == (False, "not armed")


ORDERS = {
    "limp": [],
    "standing up": ["arm", "stand_up"],
    "ready": ["arm", "stand_up"],
    "walking": ["arm", "stand_up", "walk"],
    "lying down": ["arm", "stand_up", "lie_down"],
}


@pytest.mark.parametrize("how", ["service", pytest.param("topic", marks=pytest.mark.slow)])
def test_an_emergency_stop_damps_in_every_state_until_it_is_reset(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot, how: str
) -> None:
    from std_msgs.msg import Bool

    run = processes.start("pixelgait-run", iap_bundle, *PATIENT)
    publisher = client.node.create_publisher(Bool, "emergency_stop", 1)
    client.wait_for_state("limp")
    client.spin(lambda: publisher.get_subscription_count())
    for state, commands in ORDERS.items():
        for order in commands:
            assert client.order(order)[0]
            if order == "stand_up" and state != "standing up":
                client.wait_for_state("ready")
        client.wait_for_state(state)
        if how == "service":
            assert client.order("emergency_stop")[0]
        else:
            publisher.publish(Bool(data=True))
        client.wait_for_state("stopped")
        client.spin_for(0.2)
        client.commands.clear()
        for order in ("arm", "stand_up", "walk"):
            assert not client.order(order)[0]
        client.spin(lambda: len(client.commands) > 30)
        assert not any(command.position for command in client.commands)
        assert client.order("reset_emergency_stop")[0]
        client.wait_for_state("limp")
        assert client.order("stand_up") == (False, "not armed")
    run.send_signal(signal.SIGUSR1)
    client.wait_for_state("stopped: emergency stop by signal SIGUSR1")
    assert run.poll() is None


def test_an_emergency_stop_acts_within_a_step(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """Counted in commands, not in time: the machine that runs the tests may stall."""
    from std_msgs.msg import Bool

    processes.start("pixelgait-run", iap_bundle, *AUTO)
    publisher = client.node.create_publisher(Bool, "emergency_stop", 1)
    client.wait_for_state("walking")
    client.spin(lambda: publisher.get_subscription_count())
    counts = []
    for _ in range(5):
        client.wait_for_state("walking")
        client.spin_for(0.3)
        client.commands.clear()
        sent = client.node.get_clock().now().nanoseconds
        publisher.publish(Bool(data=True))
        client.spin(lambda: client.commands and not stiff(client))
        answers = [c.header.stamp.sec * S + c.header.stamp.nanosec for c in client.commands]
        counts.append(sum(stamp > sent for stamp in answers[:-1]))  # stiff, to newer readings
        assert client.order("reset_emergency_stop")[0]
        for order in ("arm", "stand_up"):
            client.spin(lambda order=order: client.order(order)[0])
        client.wait_for_state("ready")
        assert client.order("walk")[0]
    assert max(counts) <= 1, counts


def test_an_emergency_stop_is_received_with_every_qos(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """A reliable writer, as of `ros2 topic pub`, repeats what is lost to reliable readers."""
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

    processes.start("pixelgait-run", iap_bundle, *PATIENT)
    client.wait_for_state("limp")
    readers = {
        (each.qos_profile.reliability, each.qos_profile.durability)
        for each in client.node.get_subscriptions_info_by_topic("emergency_stop")
    }
    assert (ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE) in readers
    assert (ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL) in readers
    assert (ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE) in readers


def test_a_latched_emergency_stop_from_before_the_start_is_received(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from std_msgs.msg import Bool

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    client.node.create_publisher(Bool, "emergency_stop", latched).publish(Bool(data=True))
    processes.start("pixelgait-run", iap_bundle, *PATIENT)
    client.wait_for_state("stopped")
    assert client.order("arm") == (
        False,
        "stopped by topic emergency_stop: reset the emergency stop first",
    )
    client.spin_for(0.5)
    assert not any(command.position for command in client.commands)


def test_a_dry_run_publishes_no_commands(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    from pixelgait.robot.ros.common import ros2

    shadow: list[Any] = []
    client.node.create_subscription(
        ros2.JointState, "joint_command_dry_run", shadow.append, ros2.COMMAND_QOS
    )
    run = processes.start("pixelgait-run", iap_bundle, "--dry-run", *AUTO)
    client.wait_for_state("walking")
    client.spin(lambda: len(shadow) > WALKING)
    assert shadow[-1].position
    assert not client.commands
    assert run.poll() is None


def test_the_simulated_robots_driver_ignores_old_commands(
    processes: Processes, client: Client
) -> None:
    """A command that answers an old reading was sent late."""
    from pixelgait.robot.ros.common import ros2

    processes.start("pixelgait-sim", "--scene", "flat")
    publisher = client.node.create_publisher(ros2.JointState, ros2.JOINT_COMMAND, ros2.COMMAND_QOS)
    heights: list[float] = []
    from nav_msgs.msg import Odometry

    client.node.create_subscription(
        Odometry,
        "ground_truth/odom",
        lambda message: heights.append(message.pose.pose.position.z),
        ros2.SENSOR_QOS,
    )

    def command(age_s: float) -> None:
        now = client.node.get_clock().now().nanoseconds - round(age_s * S)
        targets, effort = A1.default_pose_rad, 0.0 * A1.default_pose_rad
        publisher.publish(ros2.joint_command(now, A1.joint_names, targets, effort))

    client.spin(lambda: len(heights) > 20)
    assert heights[-1] > 0.2
    deadline = time.monotonic() + 20.0
    while heights[-1] > 0.15:  # it sinks in spite of the command to stand
        assert time.monotonic() < deadline
        command(age_s=1.0)
        client.spin_for(0.02)


@pytest.mark.slow
def test_camera_health_is_reported_with_its_cause(
    client: Client, robot: FakeRobot, run: Popen[str]
) -> None:
    """Silent, or late by its stamps though new images arrive all the time: it comes to a stand."""
    camera = "camera/color/image_raw"

    def stands_and_walks_again(cause: str, back: Callable[[], None]) -> None:
        deadline = time.monotonic() + 20.0
        while swing(client) > 1e-3:
            assert time.monotonic() < deadline
        told = [line for line in client.sensors if line.startswith(camera)]
        assert f"{camera} is stale, the robot slows to a stand: nothing new for" in told[-1]
        assert cause in told[-1]
        back()
        client.spin(lambda: client.sensors[-1] == f"{camera} is fresh: was stale")
        while swing(client) < 0.1:
            assert time.monotonic() < deadline

    client.spin_for(0.5)
    assert swing(client) > 0.1
    robot.publish_camera = False
    stands_and_walks_again("nothing new", lambda: setattr(robot, "publish_camera", True))
    robot.stamp = lambda topic, now: now - S if topic == camera else now
    stands_and_walks_again(
        "messages arrive", lambda: setattr(robot, "stamp", lambda topic, now: now)
    )
    assert run.poll() is None
    assert client.states[-1].startswith("walking")


def swing(client: Client) -> float:
    """How far joint targets move within a second [rad]."""
    client.commands.clear()
    client.spin_for(1.0)
    return float(np.ptp([c.position for c in client.commands if c.position], axis=0).max())


def test_a_driver_that_knows_the_voltage_alone_does_not_report_an_empty_battery() -> None:
    from sensor_msgs.msg import BatteryState

    from pixelgait.robot.ros.links.battery import power_state

    assert power_state(BatteryState(voltage=28.0)).charge_percent is None
    assert power_state(BatteryState(voltage=20.0, present=True)).charge_percent == 0.0
    assert power_state(BatteryState(percentage=0.5)).charge_percent == 50.0


def test_an_empty_battery_on_its_topic_lays_the_robot_down(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """The topic is optional, and may come late."""
    from sensor_msgs.msg import BatteryState

    battery = client.node.create_publisher(BatteryState, "battery_state", 1)
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    newest = client.diagnose()
    client.wait_for_state("walking")
    charge = BatteryState(percentage=0.04, voltage=24.0)
    client.node.create_timer(0.2, lambda: battery.publish(charge))
    empty = "battery at 4 %: the robot must not stand"
    client.wait_for_state(f"lying down: {empty}")
    client.wait_for_state("limp: lies")
    client.spin(lambda: "motors" in newest and newest["motors"].message == empty)
    assert told(newest["motors"])[2] == {"battery_percent": "4"}
    assert client.order("stand_up") == (False, empty)
    charge.percentage = 0.5
    client.spin(lambda: client.order("stand_up")[0])
    client.wait_for_state("ready")
    assert run.poll() is None
