"""`goal_pose` and `odom` between processes: walks to goals, and reasons to stand."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pixelgait.export.demo.demo import run_ros
from pixelgait.robot.rotation import heading
from pixelgait.robot.runtime.goal_progress import Progress
from pixelgait.sim.scenes import Pose
from pixelgait.sim.scenes.houses.rooms import Rooms
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.world.seeds import Stream
from pixelgait.sim.world.traversability import CELL_M
from tests.conftest import make_bundle
from tests.ros.support import AUTO, Client, FakeRobot, Processes, output_of, told

ENCODER = "iap:patch=4,stride=4,selected=4"


@pytest.fixture(scope="session")
def told_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained recurrent policy with a goal input."""
    folder = tmp_path_factory.mktemp("told")
    return make_bundle(folder, ENCODER, "told", goal=True, memory="gru:4")


class Person:
    """Publishes goals, and odometry at 50 Hz where no robot does."""

    def __init__(self, client: Client, publishes_odometry: bool = True) -> None:
        from geometry_msgs.msg import PoseStamped
        from nav_msgs.msg import Odometry
        from std_msgs.msg import Float64

        from pixelgait.robot.ros.common import ros2

        self.ros2, self.client, self.types = ros2, client, (PoseStamped, Odometry)
        self.goals = client.node.create_publisher(PoseStamped, "goal_pose", 1)
        self.distances: list[float] = []
        client.node.create_subscription(
            Float64, "pixelgait/distance_to_goal", lambda m: self.distances.append(m.data), 1
        )
        self.x, self.silent = 0.0, False
        self.ahead_s = 0.0  # of its clock
        if publishes_odometry:
            self.odometry = client.node.create_publisher(Odometry, "odom", ros2.SENSOR_QOS)
            client.node.create_timer(0.02, self.move)

    def stamp(self, ahead_s: float = 0.0) -> Any:
        return self.ros2.stamp(
            self.client.node.get_clock().now().nanoseconds + round(1e9 * ahead_s)
        )

    def move(self) -> None:
        message = self.types[1]()
        message.header.stamp, message.header.frame_id = self.stamp(self.ahead_s), "odom"
        message.pose.pose.position.x, message.pose.pose.orientation.w = self.x, 1.0
        if not self.silent:
            self.odometry.publish(message)

    def ask(self, x: float, y: float, frame: str = "odom") -> None:
        message = self.types[0]()
        message.header.stamp, message.header.frame_id = self.stamp(), frame
        message.pose.position.x, message.pose.position.y = x, y
        self.goals.publish(message)


def is_still(client: Client) -> bool:
    """Whether nothing moves: the last targets are one pose."""
    recent = np.array([command.position for command in client.commands[-30:] if command.position])
    return len(recent) == 30 and bool(np.ptp(recent, axis=0).max() < 1e-3)


def wait_until(client: Client, *, stands: bool) -> None:
    """Wait for 60 commands from now on, and until the robot stands or does not."""
    client.commands.clear()
    client.spin(lambda: len(client.commands) > 60 and is_still(client) == stands)


def test_the_robot_walks_to_goals_and_stands_otherwise(
    processes: Processes, told_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    person = Person(client)
    run = processes.start("pixelgait-run", told_bundle, *AUTO)
    client.wait_for_state("walking")
    newest = client.diagnose()

    def odometry(level: int, stage: str) -> bool:
        found, _, values = told(newest["odom"]) if "odom" in newest else (-1, "", {})
        return found == level and values["stage"] == stage and float(values["age_s"]) >= 0.0

    wait_until(client, stands=True)  # no goal
    for refused in ((1.0, np.nan, "odom"), (2.0, 0.0, "map")):
        person.ask(*refused)
        client.spin_for(0.5)
        assert not person.distances
    person.ask(2.0, 0.0)
    wait_until(client, stands=False)
    assert person.distances[-1] == pytest.approx(2.0)
    client.spin(lambda: odometry(0, "fresh"))
    person.silent = True
    wait_until(client, stands=True)
    client.spin(lambda: odometry(3, "stale"))
    person.silent = False
    wait_until(client, stands=False)
    person.x = 1.8
    wait_until(client, stands=True)
    person.ask(5.0, 0.0)
    wait_until(client, stands=False)
    assert client.order("cancel_goal") == (True, "stands")
    wait_until(client, stands=True)
    assert client.order("cancel_goal")[0] is False
    run.send_signal(2)
    assert run.wait(20) == 0
    said = output_of(run)
    for line in (
        "goal_pose: refused, x, y are 1.0, nan",
        "goal_pose: refused, its frame is 'map', that of odom is 'odom'",
        "goal_pose: on the way to (2.00, 0.00)",
        "the robot stands",
        "odom: back",
        "goal_pose: arrived",
    ):
        assert line in said


def test_odometry_of_another_clock_is_named(
    processes: Processes, told_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    person = Person(client)
    person.ahead_s = 5.0
    run = processes.start("pixelgait-run", told_bundle, "--goal", 2.0, 0.0, *AUTO)
    client.wait_for_state("walking")
    client.spin_for(0.5)
    person.ask(1.0, 0.0)
    client.spin_for(0.5)
    assert not person.distances
    person.ahead_s = 0.0
    client.spin(lambda: person.distances)
    run.send_signal(2)
    said, _ = run.communicate(timeout=20)
    ahead = r"odom: messages are stamped [45].\d\d s in the future"
    assert re.search(f"{ahead}, the robot stands", said)
    assert re.search(f"goal_pose: refused, position unknown: {ahead}", said)
    assert "goal_pose: on the way to (2.00, 0.00)" in said


def test_the_robot_stands_while_odometry_has_two_publishers(
    processes: Processes, told_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """With two alternating poses a navigator would turn to and fro.

    A publisher that crashed and runs again is visible twice for a while.
    """
    person = Person(client)
    run = processes.start("pixelgait-run", told_bundle, "--goal", 2.0, 0.0, *AUTO)
    newest = client.diagnose()

    client.spin(lambda: person.distances)
    wait_until(client, stands=False)
    other = client.node.create_publisher(person.types[1], "odom", 1)  # whether it talks or not
    wait_until(client, stands=True)
    two = "odom: 2 publishers: /test_client, /test_client"
    client.spin(lambda: newest["goal"].message == two)
    client.node.destroy_publisher(other)
    wait_until(client, stands=False)
    run.send_signal(2)
    said, _ = run.communicate(timeout=20)
    assert run.returncode == 0
    # A publisher may be known before its node's name.
    assert re.search("odom: 2 publishers: .*/test_client.*, the robot stands", said)
    assert "odom: back" in said


def test_only_walking_time_and_only_new_nearest_distances_count() -> None:
    progress = Progress()
    assert progress.waited_s(5.0, 100.0) == 0.0
    assert progress.waited_s(5.2, 110.0) == 10.0
    assert progress.waited_s(4.95, 120.0) == 20.0  # sways
    progress.pause()
    assert progress.waited_s(5.0, 200.0) == 20.0
    assert progress.waited_s(4.8, 210.0) == 0.0
    assert progress.waited_s(6.0, 220.0) == 10.0  # around an obstacle
    assert progress.nearest_m == 4.8
    progress.begin()
    assert progress.waited_s(6.0, 230.0) == 0.0


def test_a_policy_without_goal_input_refuses_a_goal(processes: Processes, iap_bundle: Path) -> None:
    run = processes.start("pixelgait-run", iap_bundle, "--goal", 1.0, 0.0, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "--goal: this policy takes no goal" in output


def test_a_goal_from_before_activation_is_refused(
    processes: Processes, told_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", told_bundle, "--no-autostart", *AUTO)
    person = Person(client)
    assert client.transition(1)  # configure
    client.spin(lambda: person.goals.get_subscription_count() > 0)  # both have found each other
    client.spin_for(0.5)
    person.ask(2.0, 0.0)
    client.spin_for(0.5)
    assert client.transition(3)  # activate
    client.wait_for_state("walking")
    client.commands.clear()
    client.spin(lambda: len(client.commands) > 60)
    assert is_still(client)
    run.send_signal(2)
    output, _ = run.communicate(timeout=30)
    assert "goal_pose: refused, the node is not active" in output


def test_odometry_has_the_noise_of_the_simulators_option(
    processes: Processes, client: Client
) -> None:
    from nav_msgs.msg import Odometry

    from pixelgait.robot.ros.common import ros2

    heard: dict[str, dict[int, float]] = {"odom": {}, "ground_truth/odom": {}}

    def keep(topic: str, message: Any) -> None:
        heard[topic][ros2.nanoseconds(message.header.stamp)] = message.pose.pose.position.x

    for topic in heard:
        client.node.create_subscription(Odometry, topic, partial(keep, topic), ros2.SENSOR_QOS)
    processes.start("pixelgait-sim", "--scene", "flat", "--odom-noise", 0.05)
    client.spin(lambda: len(heard["odom"]) > 150)
    filtered, true = heard.values()
    errors = [x - true[stamp] for stamp, x in filtered.items() if stamp in true]
    assert len(errors) > 100
    assert np.std(errors) == pytest.approx(0.05, rel=0.25)


def test_odometry_drifts_by_the_simulators_options(processes: Processes, client: Client) -> None:
    from geometry_msgs.msg import Twist
    from nav_msgs.msg import Odometry

    from pixelgait.robot.ros.common import ros2

    heard: dict[str, dict[int, tuple[float, ...]]] = {"odom": {}, "ground_truth/odom": {}}

    def keep(topic: str, message: Any) -> None:
        place, q = message.pose.pose.position, message.pose.pose.orientation
        yaw = heading((q.x, q.y, q.z, q.w))
        heard[topic][ros2.nanoseconds(message.header.stamp)] = place.x, place.y, yaw

    for topic in heard:
        client.node.create_subscription(Odometry, topic, partial(keep, topic), ros2.SENSOR_QOS)
    drift = ("--odom-scale", 1.1, "--odom-turn", 0.2)
    processes.start("pixelgait-sim", "--scene", "flat", *drift)
    processes.start("pixelgait-run", "walk", *AUTO)
    publisher, ahead = client.node.create_publisher(Twist, "cmd_vel", 1), Twist()
    ahead.linear.x = 0.4
    client.node.create_timer(0.1, lambda: publisher.publish(ahead))
    odometry, truth = heard.values()
    client.spin(lambda: truth)
    start_m = next(iter(truth.values()))[0]
    client.spin(lambda: next(reversed(truth.values()))[0] - start_m > 1.0, timeout=60.0)
    both = sorted(odometry.keys() & truth.keys())
    filtered, true = (np.array([each[stamp] for stamp in both]) for each in (odometry, truth))

    def path_length_m(poses: np.ndarray) -> float:
        return float(np.hypot(*np.diff(poses[:, :2], axis=0).T).sum())

    assert path_length_m(filtered) == pytest.approx(1.1 * path_length_m(true), rel=0.01)
    off_rad = np.unwrap(filtered[:, 2] - true[:, 2])
    assert off_rad[-1] - off_rad[0] == pytest.approx(0.2 * path_length_m(true), rel=0.05)


HOUSES = (9010, 9013)  # validation houses


@pytest.mark.slow
def test_the_navigator_walks_to_a_place_in_a_house(processes: Processes, tmp_path: Path) -> None:
    """In the second house, if not in the first: of a hundred, it stays in a few (its card)."""
    assert any(arrives(processes, tmp_path / str(house), house) for house in HOUSES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["in a wall", pytest.param("off the map", marks=pytest.mark.long)]
)
def test_an_unreachable_place_in_a_house_is_given_up(
    processes: Processes, where: str, client: Client
) -> None:
    """The navigator gets as near as walls allow, then stands and reports it."""
    house = make_scene("rooms", 0.5)
    assert isinstance(house, Rooms)
    layout = house.layout(Stream.LAYOUT.rng(HOUSES[0]))
    x, y = house.map.corner_m
    goal = (x - 20.0, y - 20.0) if where == "off the map" else nearest_wall(house, layout.start)
    processes.start("pixelgait-sim", "--scene", "rooms", "--seed", HOUSES[0])
    limit = ("-p", "goal_timeout_s:=4.0")
    run = processes.start("pixelgait-run", "navigator", "--goal", *goal, *AUTO, *limit)
    client.wait_for_state("walking", timeout=60.0)
    person = Person(client, publishes_odometry=False)
    client.spin(lambda: person.distances and np.isnan(person.distances[-1]), timeout=60.0)
    client.commands.clear()
    client.spin_for(2.0)
    assert is_still(client)
    run.send_signal(2)
    output = run.communicate(timeout=20)[0]
    assert run.returncode == 0
    assert output.count("the goal is dropped, the robot stands") == 1
    assert re.search(r"goal_pose: given up, no nearer than [\d.]+ m for 4 s", output)


def nearest_wall(house: Rooms, start: Pose) -> tuple[float, float]:
    """A place in a wall, further from where a robot can be than it may be off, x, y [m]."""
    blocked = np.pad((~house.map.free).astype(np.uint8), 1, constant_values=1)
    away_m = CELL_M * cv2.distanceTransform(blocked, cv2.DIST_L2, 5)[1:-1, 1:-1]
    cells = np.argwhere((away_m > 0.25) & (away_m < 0.5))
    places = np.array([house.map.place((row, column)) for row, column in cells.tolist()])
    x, y = places[np.hypot(*(places - (start.x, start.y)).T).argmin()].tolist()
    return x, y


@pytest.mark.long
def test_the_demo_walks_to_the_goal_of_its_option(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    room = ["--scene", "rooms", "--seed", str(HOUSES[0])]
    run_ros("navigator", tmp_path, room, ["--duration", "2", "--goal", "1.0", "-0.5"])
    printed = "".join(capfd.readouterr())
    assert "walking: ordered" in printed
    assert "refused" not in printed


def arrives(processes: Processes, folder: Path, house: int) -> bool:
    """From one room to another, by depth and odometry, as two processes."""
    scene = make_scene("rooms", 0.5)
    layout = scene.layout(Stream.LAYOUT.rng(house))
    assert scene.goal_position is not None
    start, (x, y) = np.array((layout.start.x, layout.start.y)), scene.goal_position.tolist()
    beeline_m = float(np.hypot(*(scene.goal_position - start)))
    assert -scene.progress_m(*start) > 1.2 * beeline_m  # walls are in between
    sim = processes.start("pixelgait-sim", "--scene", "rooms", "--seed", house, "--out", folder)
    run = processes.start("pixelgait-run", "navigator", *AUTO)
    client = Client(processes.domain)
    try:
        client.wait_for_state("walking", timeout=60.0)
        person = Person(client, publishes_odometry=False)
        client.spin(lambda: person.goals.get_subscription_count() > 0, timeout=20.0)
        client.spin_for(0.5)
        person.ask(x, y)
        client.spin(lambda: person.distances, timeout=20.0)
        reached = client.spins(lambda: person.distances[-1] < 0.2, timeout=60.0)
        client.spin_for(2.0)
    finally:
        client.close()
    run.send_signal(2)
    output = run.communicate(timeout=20)[0]
    sim.send_signal(2)
    assert (run.returncode, sim.wait(20)) == (0, 0)
    with np.load(folder / "trajectory.npz") as data:
        ended = data["path"][-1, 1:3]
    if reached:
        assert np.hypot(*(ended - (x, y))) < 0.3
        assert "goal_pose: arrived" in output
    return reached
