"""The unchanged node on the topics of ros2_control: it walks, and what damps there are targets."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.spec import A1
from tests.ros.controllers import LINKS, NAME, Controller, hear
from tests.ros.support import AUTO, PATIENT, Client, FakeRobot, Processes, output_of

LINK = ("--link", "ros2-control")
ARMED = (*LINK, "--arm")


@pytest.mark.slow
@pytest.mark.parametrize(
    "link", ["ros2-control", pytest.param("joint-trajectory", marks=pytest.mark.long)]
)
def test_the_shipped_policy_walks_past_obstacles_and_sinks_at_the_end(
    processes: Processes, client: Client, tmp_path: Path, link: str
) -> None:
    """Joint states and targets have other orders than the bundle, and than each other."""
    through = ("--link", link)
    sim = processes.start("pixelgait-sim", "--robot", "go2", *through, "--out", tmp_path)
    line = ("iap-depth-go2", *through, "--arm", "--duration", 15)
    run = processes.start("pixelgait-run", *line, *AUTO)
    assert run.wait(90) == 0
    sim.send_signal(signal.SIGINT)
    assert sim.wait(20) == 0
    path = np.load(tmp_path / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 2.8  # [m] ahead: the first wall stands at 2.5
    assert path[-1, 3] < 0.15  # [m] of the base: it lies
    assert np.abs(np.diff(path[:, 3])).max() < 0.015  # [m] in 20 ms: it was not dropped
    assert not client.commands  # nothing goes to the topics of another link


@pytest.mark.parametrize(("link", "commands"), LINKS)
def test_nothing_is_sent_before_arming_and_a_stop_lets_the_robot_sink(
    processes: Processes, client: Client, heights: list[float], link: str, commands: str
) -> None:
    processes.start("pixelgait-sim", "--link", link, "--scene", "flat")
    heard = hear(client, commands)
    run = processes.start("pixelgait-run", "walk", "--link", link, "--arm", *PATIENT)
    client.wait_for_state("limp")
    assert client.order("arm")[0]
    client.spin_for(1.0)
    assert not heard
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    assert heard
    assert heights[-1] > 0.2
    assert client.order("emergency_stop")[0]
    client.spin(lambda: heights[-1] < 0.15)
    assert run.poll() is None


@pytest.mark.parametrize("link", [link for link, _ in LINKS])
def test_a_controller_holds_the_last_target_of_a_killed_node(
    processes: Processes, client: Client, heights: list[float], link: str
) -> None:
    """No other process releases the robot, as docs/robot/ros2-control.md says."""
    processes.start("pixelgait-sim", "--link", link, "--scene", "flat")
    run = processes.start("pixelgait-run", "walk", "--link", link, "--arm", *PATIENT)
    client.wait_for_state("limp")
    assert client.order("arm")[0]
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    run.kill()
    client.spin_for(2.0)
    assert heights[-1] > 0.2


def test_a_simulated_controller_drops_invalid_commands(
    processes: Processes, client: Client, heights: list[float]
) -> None:
    from std_msgs.msg import Float64MultiArray

    sim = processes.start("pixelgait-sim", *LINK, "--scene", "flat")
    publisher = client.node.create_publisher(Float64MultiArray, f"{NAME}/commands", 10)
    client.spin(lambda: heights and publisher.get_subscription_count())
    for wrong in ([float("nan")] * 12, [0.0] * 11):
        for _ in range(10):
            publisher.publish(Float64MultiArray(data=wrong))
            client.spin_for(0.05)
    assert heights[-1] > 0.2
    sim.send_signal(signal.SIGINT)
    output, _ = sim.communicate(timeout=20)
    assert sim.returncode == 0, output
    assert output.count("a command was dropped: ") == 1
    assert "a command was dropped: a value is not finite" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("silent", "joint_states is silent"),
        ("degrees", "controller stopped"),
        ("nan", "a sensor value is not finite"),
    ],
)
def test_missing_or_wrong_joint_states_end_in_a_pose_that_was_measured(
    processes: Processes, client: Client, robot: FakeRobot, fault: str, reason: str
) -> None:
    """Silent ones in the last; those that cannot be true move nothing."""
    robot.pose = sagging = A1.default_pose_rad + 0.1
    backwards = list(reversed(A1.joint_names))
    controller = Controller(client, NAME, backwards, "position")
    run = processes.start("pixelgait-run", "walk", *ARMED, *AUTO)
    client.wait_for_state("walking")
    client.spin(lambda: len(controller.heard) > 150)
    seen_rad = robot.sway_rad + 0.005  # about the pose: sway and the encoders' noise
    np.testing.assert_allclose(controller.heard[0][::-1], sagging, atol=seen_rad)
    np.testing.assert_allclose(controller.heard[-1][::-1], A1.default_pose_rad, atol=0.02)
    if fault == "silent":
        robot.publish_joints = False
    else:
        robot.pose = np.rad2deg(sagging) if fault == "degrees" else np.full(12, np.nan)
    client.spin(lambda: run.poll() is not None)
    assert run.returncode == 1
    assert reason in output_of(run).splitlines()[-1]
    client.spin_for(0.5)
    end = np.array(controller.heard[-50:])[:, ::-1]
    assert np.isfinite(end).all()
    at_rest = sagging if fault == "silent" else A1.default_pose_rad
    np.testing.assert_allclose(end, np.tile(at_rest, (50, 1)), atol=0.12)
    assert np.abs(np.diff(end, axis=0)).max() < 1e-3  # it moves no more
    if fault == "silent":
        np.testing.assert_allclose(end[-1], sagging, atol=seen_rad)


@pytest.mark.parametrize(
    ("joints", "interface", "reason"),
    [
        (
            [f"joint_{i}" for i in range(12)],
            "position",
            f"{NAME} commands joint_0, joint_1, ",
        ),
        (list(A1.joint_names[:11]), "position", f"the bundle's joints are {A1.joint_names[0]}, "),
        (
            list(A1.joint_names),
            "effort",
            f"{NAME} is no forward_command_controller of positions",
        ),
    ],
)
def test_another_controller_is_refused(
    processes: Processes,
    client: Client,
    robot: FakeRobot,
    joints: list[str],
    interface: str,
    reason: str,
) -> None:
    controller = Controller(client, NAME, joints, interface)
    run = processes.start("pixelgait-run", "walk", *ARMED, *AUTO)
    client.spin(lambda: run.poll() is not None)
    assert run.returncode == 1
    assert reason in output_of(run).splitlines()[-1]
    assert not controller.heard
