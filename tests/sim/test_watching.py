"""Watching: a window that shows where the robot is, and films of several episodes."""

from __future__ import annotations

import time
from pathlib import Path

import cv2
import imageio.v2 as imageio
import numpy as np
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.eval_options import EvalConfig
from pixelgait.sim.evaluate import film
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.watching import PyBulletWindow, RealTime
from tests.helpers import HOLD


def test_a_window_shows_the_robot_where_it_is_in_real_time() -> None:
    """On PyBullet without a window, which takes the same calls."""
    body = PyBulletBody(A1, make_scene("obstacle-course"))
    reading = body.reset(3)
    window = PyBulletWindow(body, 0, pybullet.DIRECT)
    window.lay_out(3)
    shown, start = RealTime(window), time.monotonic()
    for step in range(1, 21):
        body.apply(HOLD)
        reading = body.read()
        shown(step, reading)
    assert time.monotonic() - start >= 0.2  # 20 control steps
    client = window.renderer.client
    inertial, _ = pybullet.getBasePositionAndOrientation(
        window.renderer.robot, physicsClientId=client
    )
    np.testing.assert_allclose(inertial, body.pose()[0], atol=0.02)  # its trunk's centre is near
    joints = [
        pybullet.getJointState(window.renderer.robot, joint, physicsClientId=client)[0]
        for joint in window.renderer.joints
    ]
    np.testing.assert_allclose(joints, reading.joint_angles, atol=1e-6)
    window.close()
    with pytest.raises(KeyboardInterrupt, match="window was closed"):
        shown(21, reading)
    body.close()


def test_a_film_shows_several_episodes_side_by_side(tmp_path: Path) -> None:
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
