"""Depth of the simulated robot: its engine's, but finer, so that a policy sees thin things."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pixelgait.robot.control.image_decoding import image_of
from pixelgait.robot.runtime.camera_images import depth_frame
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.ros.depth_camera import DepthCamera
from pixelgait.sim.scenes.registry import make_scene
from tests.sim.test_sampling import Leg

HEIGHT, WIDTH = 32, 48
SMALL = Camera(A1.camera, WIDTH, HEIGHT)


@pytest.mark.parametrize("engine", ["pybullet", "mujoco"])
@pytest.mark.parametrize("scene", ["obstacle-course", "passers-by"])
def test_depth_is_that_of_the_engine_three_times_as_fine(engine: str, scene: str) -> None:
    body = make_body(engine, A1, make_scene(scene), camera=SMALL)
    body.reset(9000)
    camera = DepthCamera(body, 9000)
    for _ in range(50):
        body.step(standing(A1))
    fine = camera.render()
    assert fine.shape == camera.size == (3 * HEIGHT, 3 * WIDTH)
    body.camera = replace(SMALL, height=3 * HEIGHT, width=3 * WIDTH)
    assert (np.abs(fine - body.render_depth()) > 0.02).mean() < 0.005
    body.close()


def test_a_policy_sees_a_leg_of_two_centimetres_wherever_it_stands() -> None:
    body, seen = make_body("mujoco", A1, Leg(), camera=SMALL), []
    for seed in range(20):
        body.reset(seed)
        message = image_of(DepthCamera(body, seed).render(), SimpleNamespace())
        depth = depth_frame(message, HEIGHT, WIDTH)
        assert depth is not None
        seen.append((depth[: HEIGHT // 4] < 2.0).any())  # above the ground
    body.close()
    assert np.mean(seen) >= 0.95
