"""A navigator without odometry of others walks to its goal by its legs, and publishes `odom`."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.recording.reader import Recording, read_recording
from pixelgait.robot.recording.replay import replay
from tests.ros.support import AUTO, Client, Processes, told

GOAL = (1.2, 0.3)


@pytest.mark.slow
def test_the_navigator_walks_to_its_goal_by_its_legs(
    processes: Processes, client: Client, tmp_path: Path
) -> None:
    """And gives way to odometry of another node, whose frame is another."""
    from nav_msgs.msg import Odometry

    from pixelgait.robot.ros.common import ros2

    newest: dict[str, Any] = {}
    for topic in ("odom", "ground_truth/odom"):

        def keep(message: Any, topic: str = topic) -> None:
            newest.setdefault(f"first {topic}", message)
            newest[topic] = message

        client.node.create_subscription(Odometry, topic, keep, ros2.SENSOR_QOS)
    states, parts = client.states, client.diagnose()
    recording = tmp_path / "walk.mcap"
    processes.start("pixelgait-sim", "--scene", "flat", "--no-odom")
    run = processes.start(
        "pixelgait-run", "navigator", "--goal", *GOAL, "--record", recording, *AUTO
    )
    client.spin(lambda: any(state.startswith("walking") for state in states), timeout=60.0)
    client.spin(lambda: "goal" in parts and told(parts["goal"])[1] == "arrived", timeout=60.0)
    odom, first, truth = (
        newest[k] for k in ("odom", "first ground_truth/odom", "ground_truth/odom")
    )
    by_legs, start, true = (each.pose.pose.position for each in (odom, first, truth))
    assert math.dist((by_legs.x, by_legs.y), GOAL) < 0.25
    way = true.x - start.x, true.y - start.y  # it faced x
    assert math.dist(way, GOAL) < 0.3
    assert odom.header.frame_id == "odom"
    assert odom.child_frame_id == "base_link"
    assert 0.2 < by_legs.z < 0.35
    covariance = np.array(odom.pose.covariance).reshape(6, 6)
    assert (np.linalg.eigvalsh(covariance[:2, :2]) > 0.0).all()
    level, text, _ = told(parts["odometry"])
    assert (level, text[:24]) == (0, "by legs, may be off by 0")

    other = client.node.create_publisher(Odometry, "odom", ros2.SENSOR_QOS)
    client.spin(lambda: client.node.count_publishers("odom") == 1)
    message = Odometry()
    message.header.frame_id, message.pose.pose.orientation.w = "odom", 1.0

    def say() -> None:
        message.header.stamp = client.node.get_clock().now().to_msg()
        other.publish(message)

    client.node.create_timer(0.02, say)
    client.spin(lambda: "another node's begins" in told(parts["goal"])[1], timeout=20.0)
    run.send_signal(2)
    said, _ = run.communicate(timeout=20)
    assert run.returncode == 0
    assert "odom: another node's begins, its frame is not that of the legs" in said
    recorded = read_recording(recording)
    assert mean_force(recorded) == pytest.approx(9.8, abs=0.5)
    assert replay(recorded, load_bundle("navigator"))["different"] == 0


def mean_force(recording: Recording) -> float:
    """Mean length [m/s^2] of what the accelerometer said."""
    forces = [step.inputs.reading.specific_force for step in recording.steps]
    return float(np.mean([np.linalg.norm(each) for each in forces if each is not None]))


def test_it_does_not_come_back_in_place_of_another_nodes() -> None:
    """The other's frame has the same name, and began elsewhere; each activation begins anew."""
    from pixelgait.robot.ros.odometry import OdometryTopic

    node = SimpleNamespace(create_publisher=lambda *_: object(), destroy_publisher=lambda _: None)
    topic = OdometryTopic(node, "base_link", transforms=True)
    for others, publishes in ((False, True), (True, True), (True, False), (False, False)):
        topic.give_way(others)  # a publisher is destroyed one call later
        assert topic.publishes == publishes
    topic.begin()
    topic.give_way(False)
    assert topic.publishes
