"""Loads of motors and feet in manoeuvres, against known physics, in both simulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import Controller, ControlResult, Decision
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.interface import Reading
from pixelgait.robot.rotation import upright
from pixelgait.robot.safety.supervisor import NO_AGES, Supervisor
from pixelgait.robot.spec import A1
from pixelgait.sim.body.interface import GRAVITY_Z_M_PER_S2
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.body.randomisation import Sample
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.manoeuvres import SETTLE_S, walk
from tests.conftest import trotting_weights
from tests.helpers import Only

WEIGHT_N = 12.458 * -GRAVITY_Z_M_PER_S2  # of the links in the A1's URDF
both = pytest.mark.parametrize("name", BODIES)


@both
def test_feet_bear_the_weight_and_motors_their_pd_torque_at_a_stand(name: str) -> None:
    body = make_body(name, A1, FlatGround())
    body.reset(0)
    for _ in range(200):
        body.apply(standing(A1))
    loads = body.loads()
    assert loads.foot_forces.sum() == pytest.approx(WEIGHT_N, rel=0.02)
    assert (loads.foot_forces > 0.15 * WEIGHT_N).all()
    expected = A1.kp_nm_per_rad * (A1.default_pose_rad - body.read().joint_angles)
    np.testing.assert_allclose(loads.torques, expected, atol=0.1)
    np.testing.assert_allclose(loads.foot_sinking, 0.0, atol=0.01)
    np.testing.assert_allclose(loads.speeds, 0.0, atol=0.01)
    body.close()


@both
def test_feet_in_free_fall_accelerate_with_gravity(name: str) -> None:
    body = make_body(name, A1, FlatGround())
    body.reset(0)
    body.place((0.0, 0.0, 3.0), upright(0.3))
    for _ in range(10):  # 0.1 s
        body.apply(standing(A1))
    loads = body.loads()
    np.testing.assert_allclose(loads.foot_sinking, -GRAVITY_Z_M_PER_S2 * 0.1, rtol=0.05)
    assert not loads.foot_forces.any()
    body.close()


def controller(stride: float) -> Controller:
    low_level = LinearLowLevel.from_weights(A1, trotting_weights(stride))
    return Controller(lambda *_: Decision(np.zeros(2), 800), low_level, Supervisor(A1))


@both
def test_a_stand_takes_no_power_and_a_trot_has_plausible_figures(name: str) -> None:
    body = make_body(name, A1, FlatGround())
    stood = walk(controller(0.0), body, 0.0, 0.0, 2.0)
    assert stood.on_all_feet == 1.0
    assert stood.power_w < 0.1
    assert stood.travelled_m < 0.001
    assert np.isnan(stood.touch_down_m_per_s)
    trot = walk(controller(0.6), body, 0.3, 0.0, 3.0)
    assert not trot.fell
    assert trot.travelled_m == pytest.approx(trot.speed * 3.0, rel=0.05)
    assert trot.transport == pytest.approx(0.5, abs=0.2)
    assert 0.2 < trot.touch_down_m_per_s < 1.0
    assert 0.3 < trot.impact < 1.5
    assert trot.on_all_feet < 0.5
    assert 10.0 < trot.torque_nm < 33.5
    assert trot.at_limits == 0.0
    assert 0.02 < trot.target_step_rad <= 0.21
    body.close()


class Kicking(Controller):
    """Commands the knees to kick ten times a second, once the robot has settled."""

    def follow(
        self, latent: np.ndarray, reading: Reading, ages: Mapping[str, float] = NO_AGES
    ) -> ControlResult:
        command = standing(A1)
        kick = 1.2 * np.sign(np.sin(20.0 * np.pi * reading.time_s)) * (reading.time_s > SETTLE_S)
        targets = command.targets + np.tile((0.0, 0.0, kick), 4)
        return ControlResult(replace(command, targets=targets))


def test_the_share_of_time_at_the_torque_limit_is_reported() -> None:
    body, base = make_body("pybullet", A1, FlatGround()), controller(0.0)
    kicked = walk(
        Kicking(base.high_level, base.low_level, base.supervisor), body, 0.3, 0.0, seconds=0.5
    )
    assert kicked.torque_nm == pytest.approx(33.5)
    assert 0.01 < kicked.at_limits < 0.34  # knees are a third of the motors
    body.close()


@pytest.mark.parametrize(("mass", "strength"), [(1.0, 1.0), (1.15, 0.85), (0.85, 1.15)])
def test_a_go2_tracks_commands_with_other_masses_and_motor_strengths(
    mass: float, strength: float
) -> None:
    """Without load compensation the heavy one would walk at 0.1 m/s."""
    bundle = load_bundle("walk-go2")
    robot = Only(one=Sample(mass=mass, strength=strength))
    body = make_body("pybullet", bundle.spec, FlatGround(), randomisation=robot)
    ahead = walk(bundle.controller(), body, 0.6, 0.0, 5.0)
    assert not ahead.fell
    assert ahead.speed == pytest.approx(0.6, abs=0.1)
    turning = walk(bundle.controller(), body, 0.3, 0.5, 5.0)
    assert turning.speed == pytest.approx(0.3, abs=0.06)
    assert turning.yaw_rate == pytest.approx(0.5, abs=0.05)
    body.close()
