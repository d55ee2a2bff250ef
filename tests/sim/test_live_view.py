"""Live view in a window, and films of several episodes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import cv2
import imageio.v2 as imageio
import numpy as np
import pytest

from pixelgait.policies.evaluation.evaluate import film, player, watch_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.options import SceneOptions
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.viewing import live_view
from pixelgait.sim.viewing.live_view import CATCH_UP_S, RealTime, View, opened
from pixelgait.sim.viewing.video import (
    HEIGHT,
    WIDTH,
    Track,
    draw_inset,
    film_episode,
    film_track,
    render_track,
)
from pixelgait.sim.viewing.window import ClosedError, Moment, PyBulletWindow
from tests.conftest import Command
from tests.helpers import HOLD

FLAT = SceneOptions(scene="flat")


def test_window_shows_the_robot_at_its_pose() -> None:
    """With PyBullet in direct mode, which has the same calls."""
    body = PyBulletBody(A1, make_scene("obstacle-course"))
    body.reset(3)
    body.apply(HOLD)
    window = PyBulletWindow(A1, body.scene, 0, pybullet.DIRECT)
    moment = Moment(3, body.time_s, body.pose(), body.read().joint_angles)
    window.show(moment)
    client, robot = window.renderer.client, window.renderer.robot
    inertial, _ = pybullet.getBasePositionAndOrientation(robot, physicsClientId=client)
    np.testing.assert_allclose(inertial, body.pose()[0], atol=0.02)  # its trunk's centre is near
    joints = [
        pybullet.getJointState(robot, joint, physicsClientId=client)[0]
        for joint in window.renderer.joints
    ]
    np.testing.assert_allclose(joints, moment.joint_angles, atol=1e-6)
    assert window.renderer.scene.layout.movable == body.layout.movable  # of seed 3
    window.renderer.close()
    with pytest.raises(ClosedError):
        window.show(moment)
    body.close()


class StallingWindow:
    """A window and a clock: the tenth frame takes 0.3 s, the fiftieth 10 s."""

    def __init__(self) -> None:
        self.now_s, self.shown = 100.0, 0

    def show(self, *_: object) -> None:
        self.shown += 1
        self.now_s += {10: 0.3, 50: 10.0}.get(self.shown, 0.002)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_episode_is_shown_in_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delay of a short stall is made up for, that of a long one is not."""
    body = PyBulletBody(A1, make_scene("flat"))
    reading, window = body.reset(0), StallingWindow()
    monkeypatch.setattr(live_view, "time", window)
    shown = RealTime(window, body, 0)  # type: ignore[arg-type]
    times = []
    for step in range(1, 201):
        shown(step, reading)
        times.append(window.now_s - 100.002)
    assert window.shown == 200
    np.testing.assert_allclose(times[:9], 0.01 * np.arange(1, 10), atol=1e-6)
    assert times[9] == pytest.approx(0.39, abs=1e-6)
    assert times[48] == pytest.approx(0.49, abs=1e-6)  # nothing is lost
    assert times[199] == pytest.approx(2.0 + 10.0 - 0.01 - CATCH_UP_S, abs=1e-6)
    body.close()


@pytest.mark.parametrize("simulator", ["pybullet", "mujoco"])
def test_eval_shows_episodes_in_a_window(command: Command, display: str, simulator: str) -> None:
    """With figures alone on standard output, no process left and no crash at the end."""
    options = ("--scene", "flat", "--episodes", 2, "--seconds", 0.5, "--body", simulator)
    done = command("pixelgait-eval", "walk", *options, "--gui", "--json", "figures.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("walk (")
    assert lines[-2:] == ["2 episodes, seeds 10000 to 10001", "wrote figures.json"]
    assert len(lines) == 11  # nothing is reached on `flat`: no line of success


@pytest.mark.parametrize("simulator", ["pybullet", "mujoco"])
def test_window_draws_without_blocking_the_simulation(display: str, simulator: str) -> None:
    pose = BasePose((0.0, 0.0, 0.3), (0.0, 0.0, 0.0, 1.0))
    with opened(View(simulator, A1, FLAT, 0)) as window:
        drawn = 0
        for _ in range(2):
            deadline = time.monotonic() + 60.0
            while window.frames == drawn and time.monotonic() < deadline:
                window.show(0, 0.0, pose, A1.default_pose_rad)
                time.sleep(0.01)
            assert window.frames > drawn
            drawn = window.frames
        os.kill(window.process.pid, signal.SIGSTOP)  # graphics that hang
        for _ in range(20):
            window.show(0, 0.0, pose, A1.default_pose_rad)
            time.sleep(0.01)
    assert window.process.returncode == -signal.SIGKILL  # closed all the same


def test_shown_episodes_have_the_errors_of_leg_odometry(monkeypatch: pytest.MonkeyPatch) -> None:
    window = StallingWindow()
    monkeypatch.setattr(live_view, "opened", lambda _: nullcontext(window))
    monkeypatch.setattr(live_view, "time", window)
    (episode,) = watch_episodes(
        EvalConfig("walk", scene="flat", seconds=0.2, episodes=1, odometry="legs")
    )
    assert window.shown == 20
    assert "odometry_error_m" in episode.metrics


def test_closing_the_window_ends_the_command(display: str) -> None:
    pose = BasePose((0.0, 0.0, 0.3), (0.0, 0.0, 0.0, 1.0))
    with opened(View("pybullet", A1, FLAT, 0)) as window:
        window.process.terminate()
        window.process.wait()
        with pytest.raises(KeyboardInterrupt, match="the window was closed"):
            window.show(0, 0.0, pose, A1.default_pose_rad)


def test_window_that_cannot_open_is_reported_in_one_line(
    display: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with (
        pytest.raises(UserError, match=r"the window could not be opened \(exit code 1\)"),
        opened(View("pybullet", A1, FLAT, 0)),
    ):
        pass


def test_swinging_shapes_are_filmed_at_their_recorded_pose(tmp_path: Path) -> None:
    """By simulated time, whatever the robot's clock."""
    rows = np.zeros((100, 20))
    rows[:, 0] = 1.7e9 + 0.02 * np.arange(100)  # two seconds
    rows[:, 3], rows[:, 7], rows[:, 8:] = A1.stand_height_m, 1.0, A1.default_pose_rad
    scene = make_scene("passers-by")
    track = Track(rows, 0.02 * np.arange(100))
    frames = [*render_track(A1, scene, 3, track, track.frame_times())]
    assert len(frames) == 20
    assert not np.array_equal(frames[0], frames[-1])
    stopped = Track(rows, np.full(100, 0.5))
    first, last = render_track(A1, scene, 3, stopped, stopped.frame_times()[[0, -1]])
    np.testing.assert_array_equal(first, last)
    film_track(tmp_path / "one.png", A1, scene, 3, Track(rows[:1], np.zeros(1)))  # a single row
    assert (tmp_path / "one.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("seen", "drawn"),
    [
        ((32, 32), (128, 128)),
        ((32, 48), (128, 192)),
        ((96, 96), (96, 96)),
        ((240, 320), (160, 213)),
    ],
)
def test_inset_of_any_image_size_fits_into_the_corner(
    seen: tuple[int, int], drawn: tuple[int, int]
) -> None:
    pixels = np.full((*seen, 3), 90, np.uint8)
    attention = np.zeros((4, 4), np.float32)
    attention[0, 0] = 1.0
    inset = draw_inset(pixels, attention)
    assert inset.shape == (*drawn, 3)
    assert (2 * inset.shape[0] <= HEIGHT, 2 * inset.shape[1] <= WIDTH) == (True, True)
    assert inset[2, 2, 0] > inset[-2, -2, 0] == 90  # red where it attends to


def test_film_shows_several_episodes_side_by_side(tmp_path: Path) -> None:
    short = EvalConfig("walk", scene="flat", seconds=1.0, video_episodes=3)
    film(short, tmp_path / "grid.gif")
    frames = imageio.mimread(tmp_path / "grid.gif")
    assert len(frames) == 10  # a second
    height, width = frames[0].shape[:2]
    assert (height, width) == (480, 720)  # two rows of two
    last = np.array(frames[-1])[..., :3]
    assert last[height // 2 :, width // 2 :].max() == 0  # three episodes leave one place
    assert last[: height // 2].std() > 0
    film(EvalConfig("walk", scene="flat", seconds=1.0), tmp_path / "strip.png")
    strip = cv2.imread(str(tmp_path / "strip.png"))
    assert strip is not None
    assert strip.shape == (2 * 320, 4 * 480, 3)


@pytest.mark.parametrize("fault", ["joints-nan:at=0.5", "joints-degrees:at=0.5,for=9"])
def test_film_shows_the_true_joint_angles(fault: str) -> None:
    controller, body, task = player(EvalConfig("walk", scene="flat", seconds=1.5, faults=(fault,)))
    take, episode = film_episode(controller, body, task, 0)
    body.close()
    assert episode.fault is not None
    joints = take.track.path[:, 8:]
    assert np.abs(joints).max() < np.pi
    assert np.abs(joints[-1] - joints[0]).max() > 0.1
