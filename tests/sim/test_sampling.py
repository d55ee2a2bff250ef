"""Sampling of depth: thin things show as on a robot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.observation import DEPTH_RANGE_M
from pixelgait.robot.runtime.camera_images import depth_frame
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera, Kind, Sampling
from pixelgait.sim.body.sampling import nearest_things
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene

SIDE = 32


def test_rays_are_reduced_as_a_robot_reduces_the_pixels_of_a_larger_image() -> None:
    rng = np.random.default_rng(0)
    rays = rng.uniform(0.3, 30.0, (3 * SIDE, 3 * SIDE)).astype(np.float32)
    rays[:, 10::7] = 1.0  # thin uprights
    rays[40:60] = rng.uniform(1.5, 1.52, (20, 3 * SIDE))
    message = SimpleNamespace(
        encoding="32FC1",
        is_bigendian=0,
        height=3 * SIDE,
        width=3 * SIDE,
        step=4 * 3 * SIDE,
        data=rays.tobytes(),
    )
    np.testing.assert_array_equal(nearest_things(rays), depth_frame(message, SIDE, SIDE))


class Leg(Scene):
    """A leg 2 cm thick, 1.5 m before the camera."""

    name = "leg"
    fixed = (Plane(),)
    movable = (Box(Pose(0.0, 0.0, 0.0), (0.01, 0.01, 0.4), (0.5, 0.5, 0.5)),)

    def layout(self, rng: np.random.Generator) -> Layout:
        """Place the leg somewhere within two pixels."""
        x = 1.5 + A1.camera.position_m[0]
        return Layout(Pose(0.0, 0.0, 0.0), [Pose(x, float(rng.uniform(-0.05, 0.05)), 0.4)])


@pytest.mark.parametrize("name", ["gliding", *BODIES])
@pytest.mark.parametrize("kind", ["depth", "rgbd"])
def test_a_leg_of_two_centimetres_shows_wherever_it_stands(name: str, kind: Kind) -> None:
    seen: dict[str, list[bool]] = {}
    samplings: tuple[Sampling, ...] = ("centre", "near")
    for sampling in samplings:
        camera = Camera(A1.camera, SIDE, SIDE, kind, sampling=sampling)
        body: Any = (
            KinematicBody(A1, Leg(), camera=camera)
            if name == "gliding"
            else make_body(name, A1, Leg(), camera=camera)
        )
        for seed in range(20):
            pixels = body.reset(seed).image().pixels
            depth = pixels if kind == "depth" else pixels[..., 3] * (DEPTH_RANGE_M / 255.0)
            horizon = depth[: SIDE // 4]  # above the ground, which the leg reaches beyond
            seen.setdefault(sampling, []).append(bool((horizon < 2.0).any()))
        body.close()
    assert np.mean(seen["near"]) >= 0.95
    assert np.mean(seen["centre"]) <= 0.8
