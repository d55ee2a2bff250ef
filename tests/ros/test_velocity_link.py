"""The node on a simulated robot with a gait of its own, by cmd_vel and in a Go2's sport mode."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.controller import GAIT_COMMAND
from pixelgait.robot.control.velocity import read_response
from pixelgait.robot.errors import UserError
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.replay import recorded_bundle, replay
from pixelgait.robot.spec import A1, Legs
from tests.ros.support import AUTO, Client, Processes, output_of

CAMERA_AGES = tuple(each for each in AUTO if "camera" in each)


def patient(*sensors: str) -> tuple[str, ...]:
    """Arguments for a node on a busy machine, besides the camera with these sensors."""
    stages = (("ageing_s", 1.0), ("stale_s", 1.5), ("timeout_s", 3.0))
    ages = (f"{stage}.{sensor}:={seconds}" for sensor in sensors for stage, seconds in stages)
    settings = (*CAMERA_AGES, "driver_timeout_s:=1.0", *ages)
    return ("--auto-arm", "--ros-args", *(part for each in settings for part in ("-p", each)))


AUTO_VELOCITY, AUTO_SPORT = patient("odom"), patient("lowstate", "sportmodestate")


class Estop:
    """A node's client of an emergency stop, without its node."""

    srv_name = "estop/gentle"

    def __init__(self) -> None:
        from pixelgait.robot.ros.links.velocity import StopService

        self.now_s, self.calls, self.answer = 0.0, 0, None
        self.service = StopService(self, self.srv_name, lambda: self.now_s)

    def create_client(self, *_: object) -> Estop:
        return self

    def call_async(self, _: object) -> Any:
        self.calls += 1
        return SimpleNamespace(done=lambda: self.answer is not None, result=lambda: self.answer)

    def call(self, now_s: float) -> int:
        """Calls of the service until this time."""
        self.now_s = now_s
        self.service.call()
        return self.calls


def test_the_robots_stop_is_called_until_it_answers() -> None:
    stop = Estop()
    assert [stop.call(now_s) for now_s in (0.0, 0.4, 0.6, 0.7)] == [1, 1, 2, 2]
    stop.answer = SimpleNamespace(success=True)  # type: ignore[assignment]
    assert [stop.call(now_s) for now_s in (0.8, 1.5, 9.0)] == [2, 2, 2]
    stop.service.end()
    assert stop.call(10.0) == 3


def test_a_stop_that_fails_or_is_silent_is_a_fault() -> None:
    stop = Estop()
    stop.call(0.0)
    with pytest.raises(UserError, match=r"^stop_service: estop/gentle does not answer for 2 s$"):
        stop.call(2.1)
    stop.answer = SimpleNamespace(success=False, message="no power")  # type: ignore[assignment]
    refused = r"^stop_service: estop/gentle has not stopped the robot: no power$"
    with pytest.raises(UserError, match=refused):
        stop.call(2.2)


def test_a_map_without_joints_is_refused() -> None:
    from pixelgait.robot.ros.address import Velocity
    from pixelgait.robot.ros.connections import Connections

    bundle = SimpleNamespace(observes=lambda _: False)
    given: tuple[Any, ...] = (None, bundle, SimpleNamespace(maps=True), None, False)
    with pytest.raises(UserError, match=r"^--map needs the robot's joints: not over --link "):
        Connections(*given, SimpleNamespace(address=Velocity()))  # type: ignore[arg-type]


def test_latched_gains_end_with_their_driver() -> None:
    from pixelgait.robot.ros.links.topic_driver import TopicDriver

    destroyed: list[str] = []
    node = SimpleNamespace(
        create_publisher=lambda _, topic, __: topic, destroy_publisher=destroyed.append
    )
    driver = TopicDriver.__new__(TopicDriver)
    gains = A1.kp_nm_per_rad, A1.kd_nms_per_rad
    driver._legs = Legs(*gains, A1.default_pose_rad, GAIT_COMMAND, gait=False)
    driver.spec, driver._node = A1, node
    driver._topic = driver._gains = None
    driver.acquire(Event())
    driver.close()
    assert destroyed == ["joint_command", "joint_gains"]


@pytest.mark.slow
def test_a_camera_policy_drives_a_robot_with_its_own_gait(
    processes: Processes, client: Client, tmp_path: Path
) -> None:
    """Past obstacles, with a report, a recording that replays bit for bit, and an end at rest."""
    sim, walk = tmp_path / "sim", tmp_path / "walk.mcap"
    robot = processes.start("pixelgait-sim", "--link", "velocity", "--out", sim)
    line = ("rover", "--link", "velocity", "--duration", 15, "--record", walk)
    run = processes.start("pixelgait-run", *line, *AUTO_VELOCITY)
    client.wait_for_state("walking")
    assert run.wait(60) == 0
    assert "sensor_to_command" in output_of(run)
    robot.send_signal(signal.SIGINT)
    assert robot.wait(20) == 0
    path = np.load(sim / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 2.8  # [m] ahead: the first wall stands at 2.5
    assert not client.commands  # no joint is commanded
    recording = read_recording(walk)
    assert replay(recording, recorded_bundle(recording))["different"] == 0


@pytest.mark.long
def test_an_emergency_stop_is_the_robots_own_and_another_publisher_of_velocities_a_fault(
    processes: Processes, client: Client
) -> None:
    from geometry_msgs.msg import Twist
    from std_srvs.srv import Trigger

    stopped: list[object] = []

    def stop(request: object, response: Any) -> object:
        stopped.append(request)
        response.success = True
        return response

    client.node.create_service(Trigger, "estop/gentle", stop)
    processes.start("pixelgait-sim", "--link", "velocity")
    line = ("rover", "--link", "velocity", *AUTO_VELOCITY, "-p", "stop_service:=estop/gentle")
    run = processes.start("pixelgait-run", *line)
    client.wait_for_state("walking")
    assert client.order("emergency_stop")[0]
    client.spin(lambda: len(stopped) == 1)
    client.node.create_publisher(Twist, "cmd_vel", 1)
    client.spin(lambda: run.poll() is not None)
    assert run.returncode == 1
    assert "another node commands the velocity: /test_client" in output_of(run)


@pytest.mark.long
def test_a_robots_response_is_measured(
    processes: Processes, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "response.json"
    processes.start("pixelgait-sim", "--link", "velocity", "--scene", "flat")
    line = ("walk", "--link", "velocity", "--measure", file)
    run = processes.start("pixelgait-run", *line, *AUTO_VELOCITY)
    client.wait_for_state("walking")
    assert run.wait(90) == 0
    assert json.loads(file.read_text()).keys() == {"speed", "yaw_rate"}
    response = read_response(file)
    for axis in (response.speed, response.yaw_rate):
        assert axis.gain == pytest.approx(1.0, abs=0.15)
        assert 0.05 < axis.delay_s < 0.6


@pytest.mark.long
def test_a_go2_in_its_sport_mode_walks_stops_and_walks_again(
    processes: Processes, client: Client, link: str, tmp_path: Path
) -> None:
    """After an emergency stop it lies, damped by its own program, and stands up when ordered."""
    sim = tmp_path / "sim"
    robot = processes.start("pixelgait-sim", "--robot", "go2", "--link", link, "--out", sim)
    sport = link.replace("go2", "go2-sport")
    run = processes.start("pixelgait-run", "rover-go2", "--link", sport, *AUTO_SPORT)
    client.wait_for_state("walking")
    client.spin_for(6.0)
    assert client.order("emergency_stop")[0]
    client.wait_for_state("stopped")
    client.spin_for(2.0)
    for order in ("reset_emergency_stop", "arm", "stand_up"):
        assert client.order(order)[0]
    client.wait_for_state("ready")
    run.send_signal(signal.SIGINT)
    assert run.wait(20) == 0
    robot.send_signal(signal.SIGINT)
    assert robot.wait(20) == 0
    path = np.load(sim / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 1.5  # [m]
    assert path[:, 3].min() < 0.6 * path[0, 3]  # [m] above the ground: it lay
    assert path[-1, 3] > 0.85 * path[0, 3]
