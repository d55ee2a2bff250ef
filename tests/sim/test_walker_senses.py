"""Observations of walking policies by estimators: the base's velocity, the ground around it."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import STAND, Controller, latent_for
from pixelgait.robot.estimation.leg_odometry import LegOdometry
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.mapping.height_scan import POINTS
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import GO2, Array
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.local_map import with_height_scan
from tests.robot.test_legs import moving


def test_a_low_level_is_told_the_velocity_of_the_base_by_its_legs() -> None:
    bundle = load_bundle("walk-go2")
    felt: list[Array] = []

    def low_level(latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        assert reading.linear_velocity is not None
        felt.append(reading.linear_velocity)
        return bundle.low_level(latent, reading, carried)

    supervisor = Supervisor(bundle.spec, legs=bundle.legs)
    controller = Controller(bundle.high_level, low_level, supervisor, odometry=LegOdometry(GO2))
    with closing(make_body("mujoco", bundle.spec, FlatGround())) as body:
        now, true = body.reset(0), []
        controller.reset()
        for _ in range(300):
            body.apply(controller.follow(latent_for(0.4, 0.0), now).command)
            before, now = now, body.read()
            assert now.odometry is not None
            assert before.odometry is not None
            true.append(np.hypot(*(now.odometry - before.odometry)[:2]) / CONTROL_DT_S)
    np.testing.assert_allclose(np.mean(felt[150:], 0)[0], np.mean(true[150:]), atol=0.03)
    controller.motion = moving()  # an operation has its own
    controller.follow(STAND, now)
    np.testing.assert_allclose(felt[-1], (0.5, -0.2, 0.0))


def test_a_height_scan_has_isaac_labs_order_and_the_bases_height() -> None:
    assert POINTS.shape == (187, 2)
    corners = (-0.8, -0.5), (-0.7, -0.5), (-0.8, -0.4), (0.8, 0.5)
    np.testing.assert_allclose(POINTS[[0, 1, 17, 186]], corners)
    with closing(with_height_scan(make_body("mujoco", GO2, FlatGround()))) as body:
        scan = body.reset(0).height_scan
        assert scan is not None
        assert scan.shape == (187,)
        np.testing.assert_allclose(scan, 0.27, atol=0.04)
