"""The unchanged node commands a joint_trajectory_controller, as the simulated robot has one."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.spec import A1
from tests.ros.controllers import LINKS, NAME, TRAJECTORY
from tests.ros.support import AUTO, Client, FakeRobot, Processes, output_of


def test_a_simulated_trajectory_controller_drops_invalid_commands(
    processes: Processes, client: Client, heights: list[float]
) -> None:
    from builtin_interfaces.msg import Duration
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    sim = processes.start("pixelgait-sim", "--link", "joint-trajectory", "--scene", "flat")
    topic, names = f"{TRAJECTORY}/joint_trajectory", list(A1.joint_names)
    publisher = client.node.create_publisher(JointTrajectory, topic, 10)
    client.spin(lambda: heights and publisher.get_subscription_count())
    lying, nowhere = (JointTrajectoryPoint(positions=[q] * 12) for q in (0.0, float("nan")))
    later = JointTrajectoryPoint(positions=[0.0] * 12, time_from_start=Duration(sec=1))
    wrong = [(names[:11], [lying]), (names, []), (names, [nowhere]), (names, [later])]
    trajectories = [JointTrajectory(joint_names=joints, points=each) for joints, each in wrong]
    stamped = JointTrajectory(joint_names=names, points=[lying])
    stamped.header.stamp.sec = 1
    for trajectory in (*trajectories, stamped):
        for _ in range(10):
            publisher.publish(trajectory)
            client.spin_for(0.05)
    assert heights[-1] > 0.2
    sim.send_signal(signal.SIGINT)
    output, _ = sim.communicate(timeout=20)
    assert sim.returncode == 0, output
    assert f"a command was dropped: it names {names[0]}" in output


def test_a_trajectory_is_one_point_due_at_once_for_all_joints_by_name(
    processes: Processes, client: Client
) -> None:
    """Stamped 0: now, whatever clock the controller has."""
    from trajectory_msgs.msg import JointTrajectory

    heard: list[Any] = []
    topic = f"{TRAJECTORY}/joint_trajectory"
    client.node.create_subscription(JointTrajectory, topic, heard.append, 10)
    processes.start("pixelgait-sim", "--link", "joint-trajectory", "--scene", "flat")
    processes.start("pixelgait-run", "walk", "--link", "joint-trajectory", "--arm", *AUTO)
    client.wait_for_state("ready")
    client.spin(lambda: bool(heard))
    names, [point] = list(heard[-1].joint_names), heard[-1].points
    assert sorted(names) == sorted(A1.joint_names)
    assert names != list(A1.joint_names)  # the simulated controller's order is its own
    told = dict(zip(names, point.positions, strict=True))
    ours = np.array([told[name] for name in A1.joint_names])
    np.testing.assert_allclose(ours, A1.default_pose_rad, atol=0.6)
    moment, due = heard[-1].header.stamp, point.time_from_start
    assert (moment.sec, moment.nanosec, due.sec, due.nanosec) == (0, 0, 0, 0)
    assert not list(point.velocities)
    assert not list(point.effort)


@pytest.mark.parametrize(
    ("link", "name", "what"),
    [
        ("joint-trajectory", TRAJECTORY, "joint_trajectory_controller"),
        ("ros2-control", NAME, "forward_command_controller"),
    ],
)
def test_a_controller_of_the_other_kind_is_refused(
    processes: Processes, client: Client, link: str, name: str, what: str
) -> None:
    """Its command topic has another name: it would receive nothing."""
    other = next(each for each, _ in LINKS if each != link)
    processes.start("pixelgait-sim", "--link", f"{other}:{name}", "--scene", "flat")
    run = processes.start("pixelgait-run", "walk", "--link", link, "--arm", *AUTO)
    client.spin(lambda: run.poll() is not None)
    assert run.returncode == 1
    assert f"{name} is no {what} of positions" in output_of(run).splitlines()[-1]


def test_a_tolerance_that_would_freeze_soft_legs_is_refused(
    processes: Processes, client: Client, robot: FakeRobot
) -> None:
    """As configurations for arms have them."""
    from rclpy.node import Node

    controller = Node(TRAJECTORY, context=client.context)
    controller.declare_parameter("joints", list(A1.joint_names))
    controller.declare_parameter("command_interfaces", ["position"])
    for joint in A1.joint_names:
        lax = joint.startswith("RL")
        controller.declare_parameter(f"constraints.{joint}.trajectory", 0.1 if lax else 0.0)
    client.executor.add_node(controller)
    run = processes.start("pixelgait-run", "walk", "--link", "joint-trajectory", "--arm", *AUTO)
    client.spin(lambda: run.poll() is not None)
    assert run.returncode == 1
    said = f"{TRAJECTORY}: constraints.RL_hip_joint.trajectory is 0.1, it must be 0"
    assert said in output_of(run).splitlines()[-1]
