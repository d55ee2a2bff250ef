"""A Go2 without ROS 2: it walks, obeys its orders, and damps at faults."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.direct.orders import send
from pixelgait.robot.errors import UserError
from tests.direct.support import DirectProcess
from tests.faults.go2 import BENT
from tests.ros.go2 import Listener, tell
from tests.ros.support import Processes, output_of


def domain_of(link: str) -> str:
    return link.rpartition(":")[2]


def port_of(link: str) -> int:
    """A port of a test's own."""
    return 7420 + int(domain_of(link))


@pytest.mark.slow
def test_it_walks_past_obstacles_without_ros(
    processes: Processes, link: str, tmp_path: Path
) -> None:
    """Ordered over a socket, recorded, stopped by a signal and by its end."""
    sim = processes.start(
        "pixelgait-sim", "--robot", "go2", "--link", link, "--out", tmp_path / "sim"
    )
    recording, port = tmp_path / "walk.mcap", port_of(link)
    seen = ("--camera", f"simulated:{domain_of(link)}")
    written = ("--record", recording, "--out", tmp_path / "run")
    run = DirectProcess(processes, port, "rover-go2", "--link", link, *seen, *written)
    run.wait_for("limp: all sensors send")
    with pytest.raises(UserError, match="not armed"):
        send("walk", port)
    assert [send(order, port) for order in ("arm", "stand_up")] == ["armed", "standing up"]
    run.wait_for("ready: stands")
    assert send("walk", port) == "walking"
    run.wait_for("walking: ordered")
    run.process.send_signal(signal.SIGUSR1)
    run.wait_for("stopped: emergency stop by signal SIGUSR1")
    assert send("reset_emergency_stop", port) == "limp and disarmed"
    run.wait_for("limp: emergency stop was reset")
    run.process.send_signal(signal.SIGINT)
    assert run.ends()[0] == 0
    again = (*("--auto-arm", "--duration", 15), *seen, *written)
    assert DirectProcess(processes, port, "rover-go2", "--link", link, *again).ends()[0] == 0
    sim.send_signal(signal.SIGINT)
    assert sim.wait(20) == 0
    path = np.load(tmp_path / "sim" / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 2.8  # [m] ahead: the first wall stands at 2.5
    report = json.loads((tmp_path / "run" / "latency.json").read_text())
    assert report["repeated_commands"]["due"] > 0
    assert report["stages"]["low_level"]["count"] > 0
    replayed = processes.start("pixelgait-replay", recording)
    assert replayed.wait(60) == 0
    assert "bit for bit" in output_of(replayed)


@pytest.mark.slow
def test_it_walks_to_a_place_by_its_legs(processes: Processes, link: str, tmp_path: Path) -> None:
    robot = ("--robot", "go2", "--scene", "flat", "--no-odom", "--out", tmp_path / "sim")
    sim, port = processes.start("pixelgait-sim", "--link", link, *robot), port_of(link)
    assert sim.stdout is not None
    assert any(
        "stands in 'flat'" in line for line in sim.stdout
    )  # it is slow to start beside a load
    seen = ("--camera", f"simulated:{domain_of(link)}", "--auto-arm", "--map")
    run = DirectProcess(processes, port, "navigator-go2", "--link", link, *seen)
    run.wait_for("walking: ordered")
    assert send("goal 1.2 0.6", port) == "on the way as soon as it walks"
    run.wait_for("walking: arrived at the goal")
    run.process.send_signal(signal.SIGINT)
    assert run.ends()[0] == 0
    sim.send_signal(signal.SIGINT)
    assert sim.wait(20) == 0
    x, y = np.load(tmp_path / "sim" / "trajectory.npz")["path"][-1, 1:3]
    assert np.hypot(x - 1.2, y - 0.6) < 0.5  # [m]: its arrival, and a little drift


@pytest.mark.long
@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("silent 1", "lowstate is silent"),
        ("nan 1", "a sensor value is not finite"),
        ("damage 1", "what arrives has a wrong checksum"),
    ],
)
def test_faults_of_the_robot_damp_it(processes: Processes, link: str, told: str, says: str) -> None:
    robot = processes.script(BENT, "--robot", "go2", "--scene", "flat", "--link", link)
    line = ("walk-go2", "--link", link, "--camera", "none", "--auto-arm")
    run = DirectProcess(processes, port_of(link), *line)
    run.wait_for("walking: ordered")
    listener = Listener(processes, link)
    tell(robot, told)
    code, last = run.ends()
    assert code == 1
    assert says in last
    heard = listener.heard()
    assert heard.stiff > 0
    assert heard.damping > 20


@pytest.mark.long
def test_hot_motors_lay_it_down(processes: Processes, link: str) -> None:
    robot = processes.script(BENT, "--robot", "go2", "--scene", "flat", "--link", link)
    seen = ("--camera", f"simulated:{domain_of(link)}")
    run = DirectProcess(processes, port_of(link), "rover-go2", "--link", link, *seen, "--auto-arm")
    run.wait_for("walking: ordered")
    tell(robot, "heat 91")
    run.wait_for("lying down: FL_thigh_joint has 91 deg C: the robot must not stand")
    run.wait_for("limp: lies")
    run.process.send_signal(signal.SIGINT)
    assert run.ends()[0] == 0


@pytest.mark.long
def test_a_camera_that_falls_silent_damps_it(processes: Processes, link: str) -> None:
    silent = ("--faults", "camera-lost:at=12,for=600")
    processes.start("pixelgait-sim", "--robot", "go2", "--scene", "flat", "--link", link, *silent)
    seen = ("--camera", f"simulated:{domain_of(link)}")
    run = DirectProcess(processes, port_of(link), "rover-go2", "--link", link, *seen, "--auto-arm")
    run.wait_for("walking: ordered")
    run.wait_for("camera/depth/image_rect_raw is stale, the robot slows to a stand")
    code, last = run.ends()
    assert code == 1
    assert "camera/depth/image_rect_raw is silent for " in last
    assert "; camera/depth/image_rect_raw: Frame didn't arrive within 1000" in last


@pytest.mark.long
def test_a_go2_in_its_sport_mode_is_moved_and_stopped(
    processes: Processes, link: str, tmp_path: Path
) -> None:
    """Its motors stay with its own program."""
    sim = ("pixelgait-sim", "--robot", "go2", "--link", link, "--out", tmp_path / "sim")
    robot, port = processes.start(*sim), port_of(link)
    line = ("rover-go2", "--link", link.replace("go2", "go2-sport"))
    seen = ("--camera", f"simulated:{domain_of(link)}")
    run = DirectProcess(processes, port, *line, *seen, "--auto-arm", "--duration", 8)
    run.wait_for("walking: ordered")
    assert run.ends()[0] == 0
    robot.send_signal(signal.SIGINT)
    assert robot.wait(20) == 0
    path = np.load(tmp_path / "sim" / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 1.5  # [m]
    assert path[:, 3].min() > 0.8 * path[0, 3]  # [m] above the ground: it never lay
