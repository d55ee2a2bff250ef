"""Odometry drift and noise."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import latent_for
from pixelgait.sim.body.leg_odometry import LegOdometryBody
from pixelgait.sim.body.sensors import DriftingOdometry
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.registry import make_scene


def square(side_m: float = 2.0, steps: int = 200) -> np.ndarray:
    """Poses (n, 3) round a square, with turns on the spot at its corners."""
    poses, pose = [], np.array((1.0, -1.0, 2.0))
    for _ in range(4):
        for _ in range(steps):
            pose = pose + np.array((np.cos(pose[2]), np.sin(pose[2]), 0.0)) * side_m / steps
            poses.append(pose)
        for _ in range(steps):
            pose = pose + np.array((0.0, 0.0, np.pi / 2 / steps))
            poses.append(pose)
    return np.array(poses)


def test_ideal_odometry_is_the_true_pose() -> None:
    odometry = DriftingOdometry()
    for true in square():
        filtered = odometry.read(true)
        np.testing.assert_allclose(filtered[:2], true[:2], atol=1e-9)
        assert np.cos(filtered[2] - true[2]) == pytest.approx(1.0)


def test_odometry_scales_distances_and_turns_with_distance() -> None:
    poses = square()
    scaled, bent = DriftingOdometry(scale=1.1), DriftingOdometry(turn_rad_per_m=0.05)
    far = [scaled.read(true) for true in poses][199]
    assert np.hypot(*(far[:2] - poses[0, :2])) == pytest.approx(1.1 * 1.99, rel=1e-3)
    end = [bent.read(true) for true in poses][-1]
    assert np.sin(end[2] - poses[-1, 2]) == pytest.approx(np.sin(0.05 * 8.0), abs=2e-3)
    assert np.hypot(*(end[:2] - poses[-1, :2])) > 0.1


def test_odometry_noise_has_its_standard_deviation_and_does_not_accumulate() -> None:
    poses = square()
    noisy = DriftingOdometry(noise_m=0.02, rng=np.random.default_rng(1))
    errors = np.array([noisy.read(true) for true in poses]) - poses
    errors[:, 2] = np.arctan2(np.sin(errors[:, 2]), np.cos(errors[:, 2]))
    np.testing.assert_allclose(errors.std(0), 0.02, rtol=0.1)  # [m], [m], [rad]
    np.testing.assert_allclose(errors[-400:].mean(0), 0.0, atol=0.005)  # as at the start
    again = DriftingOdometry(noise_m=0.02, rng=np.random.default_rng(1))
    np.testing.assert_allclose((again.read(poses[0]) - poses[0])[:2], errors[0, :2])


def test_legs_know_the_way_of_a_walk() -> None:
    """With the noise of encoders: on average 0.4 % off, in four seconds more."""
    bundle = load_bundle("walk")
    body = LegOdometryBody(make_body("pybullet", bundle.spec, make_scene("flat", 0.5)))
    controller = bundle.controller()
    reading = body.reset(9100)
    controller.reset()
    for step in range(400):
        latent = latent_for(0.5, 0.6 if step > 200 else 0.0)
        body.apply(controller.follow(latent, reading).command)
        reading = body.read()
    errors = body.errors()
    assert errors["way_m"] > 1.4
    assert errors["odometry_error_share"] < 0.05
    assert errors["velocity_error_m_per_s"] < 0.12
    assert errors["heading_error_rad"] < 0.01
    assert errors["odometry_inside_rate"] == 1.0
