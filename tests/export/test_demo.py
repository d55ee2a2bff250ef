"""The demo: its processes, folder, house and bundles; and turns of the gait study."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from math import cos, sin
from pathlib import Path

import numpy as np
import pytest

from docs.figures.results.gait_study import Gait, open_loop, turning
from pixelgait.export.demo import demo
from pixelgait.export.demo.demo import (
    COURSE_POLICY,
    HOUSE,
    arrival,
    make_house,
    shipped_pair,
    walk_course,
    walk_house,
)
from pixelgait.export.demo.options import DemoConfig
from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.sim.ros.node import SimConfig
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.houses.rooms import Rooms
from pixelgait.sim.world.scene import Scene, WithAppearance
from pixelgait.sim.world.seeds import Stream
from tests.conftest import alive, child_environment, children, wait_for
from tests.helpers import no_image

ROBOT_AND_CONTROLLER = """
from pathlib import Path
from pixelgait.export.demo.demo import run_ros
run_ros("iap", Path("."), [], ["--duration", "60"])
"""


def test_robot_and_controller_die_with_the_demo(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", ROBOT_AND_CONTROLLER], cwd=tmp_path, env=child_environment()
    )
    deadline = time.monotonic() + 60.0
    while len(nodes := [pid for pid in children(running.pid) if is_node(pid)]) < 2:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    wait_for(lambda: not any(map(alive, nodes)))


def is_node(pid: int) -> bool:
    """Whether the child has become one of the two nodes."""
    return b"pixelgait." in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_two_parts_of_a_turn_add_up() -> None:
    still, both = Gait(stride_m=0.05), turning(0.3, stride_m=0.05)
    parts = Gait(2.5, 0.05, 0.3, 0.0), Gait(2.5, 0.05, 0.0, 0.3)
    standing = Reading(
        0.0, np.zeros(12), np.zeros(12), np.array((0.0, 0.0, 0.0, 1.0)), np.zeros(3), no_image
    )
    for phase in np.linspace(0.0, 6.0, 7):
        targets = [
            open_loop(lambda s=setting: s)(np.zeros(2), standing, phase[None])[0]
            for setting in (still, both, *parts)
        ]
        np.testing.assert_allclose(targets[2] + targets[3], targets[0] + targets[1], atol=1e-12)
        assert not np.allclose(targets[2], targets[3])


def test_a_demo_killed_while_clearing_its_folder_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("run", "walk"):
        (tmp_path / name).mkdir()
    (tmp_path / demo.MARKER).touch()
    listed = sorted(tmp_path.iterdir())  # no order is promised: here the marker comes first
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        demo._clear(tmp_path)
    monkeypatch.undo()
    demo._require_ours(tmp_path)


def left_behind(out: Path, xy: np.ndarray) -> None:
    """Files of a 40 s walk in the house, at 50 Hz: the last positions are xy (n, 2).

    After them the robot is damped, and sinks.
    """
    (out / HOUSE).mkdir()
    path, end = np.zeros((2050, 20)), 2001
    path[:, 0] = 1e9 + 0.02 * np.arange(len(path))
    path[end - len(xy) : end, 1:3] = xy
    path[end:, 1:3] = xy[-1] + 0.5
    np.savez(out / HOUSE / "trajectory.npz", path=path, simulated_s=path[:, 0])
    np.savez(out / HOUSE / "decisions.npz", time_s=[1e9, 1e9 + 30.0])


@pytest.mark.parametrize(
    ("remaining_m", "speed_m_per_s", "words"),
    [
        (0.22, 0.0, "arrived, 0.22 m from its goal"),
        (0.7, 0.0, "NOT arrived, 0.70 m from its goal after 40 s"),
        (0.22, 0.4, "NOT arrived, 0.22 m from its goal after 40 s, 0.20 m in"),
    ],
)
def test_the_house_is_passed_if_the_robot_stands_at_its_goal(
    tmp_path: Path, remaining_m: float, speed_m_per_s: float, words: str
) -> None:
    """The true position of the simulated robot counts, not the controller's odometry."""
    config = DemoConfig(out=tmp_path)
    house, _ = make_house(config)
    assert house.goal_position is not None
    away = remaining_m + speed_m_per_s * 0.02 * np.arange(50)[::-1]
    left_behind(tmp_path, house.goal_position + np.outer(away, (0.6, 0.8)))
    if words.startswith("arrived"):
        assert arrival(config) == f"in the house: {words}"
        return
    with pytest.raises(UserError, match=words):
        arrival(config)


@pytest.mark.parametrize(("walk", "kind"), [(walk_course, ObstacleCourse), (walk_house, Rooms)])
def test_the_demo_uses_appearances_that_are_unseen_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walk: Callable[..., None], kind: type[Scene]
) -> None:
    """Read from the simulator's command line."""

    def start(bundle: str, out: Path, robot: list[str], controller: list[str]) -> None:
        scene = parse(SimConfig, "pixelgait-sim", robot).make_scene()
        layout = scene.layout(Stream.LAYOUT.rng(DemoConfig.course_seed))
        assert isinstance(scene, WithAppearance)
        assert isinstance(scene.scene, kind)
        assert layout.appearance is not None
        assert layout.appearance.kind == "test"
        if scene.goal_position is not None:  # ahead and to the left of the robot, in its own frame
            yaw, turned = layout.start.yaw, [float(each) for each in controller[-2:]]
            away = np.array(((cos(yaw), -sin(yaw)), (sin(yaw), cos(yaw)))) @ turned
            start = np.array((layout.start.x, layout.start.y))
            np.testing.assert_allclose(start + away, scene.goal_position)
            assert "--no-odom" in robot
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run_ros", start)
    with pytest.raises(KeyboardInterrupt):
        walk(DemoConfig(out=tmp_path), *(["iap-rgbd"] if walk is walk_course else []))


@pytest.mark.slow
def test_every_robot_with_a_shipped_low_level_gets_a_bundle(tmp_path: Path) -> None:
    """A missing bundle is exported: the shipped high level with the robot's own low level walks."""
    pair = shipped_pair(DemoConfig(out=tmp_path, robot="laikago"), COURSE_POLICY)
    bundle = load_bundle(str(pair))
    assert bundle.spec.name == "laikago"
    figures = evaluate(EvalConfig(str(pair), episodes=1, seconds=10.0, workers=1))
    assert figures["fall_rate"] == 0.0
    assert figures["distance_m"] > 3.0
