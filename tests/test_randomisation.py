"""Robots drawn from a seed: ranges, delays and noise, and that a seed repeats them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from pixelgait.robot.controller import Controller
from pixelgait.robot.low_level import LinearLowLevel
from pixelgait.robot.reading import JointCommand
from pixelgait.robot.spec import A1
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.bullet import pybullet
from pixelgait.sim.episode import run_episode
from pixelgait.sim.pybullet_body import PyBulletBody
from pixelgait.sim.randomisation import Randomisation
from pixelgait.sim.scenes import FlatGround
from pixelgait.sim.tasks import Follow
from tests.conftest import gentle_weights

NOMINAL = Randomisation(**{f.name: (0.0, 0.0) for f in fields(Randomisation)} | {
    name: (1.0, 1.0) for name in ("mass", "inertia", "strength", "friction")
})  # fmt: skip


def body_with(**ranges: tuple[float, float]) -> PyBulletBody:
    return PyBulletBody(A1, FlatGround(), randomisation=replace(NOMINAL, **ranges))


def mass_of(body: PyBulletBody) -> float:
    links = range(-1, pybullet.getNumJoints(body.robot, physicsClientId=body.client))
    info = [pybullet.getDynamicsInfo(body.robot, i, physicsClientId=body.client) for i in links]
    return float(sum(row[0] for row in info))


def test_every_value_is_drawn_from_its_range() -> None:
    ranges = Randomisation()
    samples = [ranges.sample(np.random.default_rng(seed)) for seed in range(300)]
    for field in fields(ranges):
        low, high = getattr(ranges, field.name)
        values = np.array([getattr(sample, field.name) for sample in samples])
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high >= values.max() > high - 0.05 * (high - low)
        assert abs(values.mean() - (low + high) / 2) < 0.1 * (high - low)


def test_mass_changes_with_the_seed_and_does_not_add_up_over_episodes() -> None:
    body = body_with(mass=(0.8, 1.2))
    plain = mass_of(PyBulletBody(A1, FlatGround()))
    masses = []
    for seed in (*range(20), 0):
        body.reset(seed)
        masses.append(mass_of(body) / plain)
    assert masses[0] == masses[-1]
    assert 0.8 <= min(masses) < 0.9
    assert 1.1 < max(masses) <= 1.2
    body.close()


def test_a_delayed_command_reaches_the_motors_when_the_delay_is_over() -> None:
    first_moves = []
    for delay_s in (0.0, 0.02, 0.04):
        body = body_with(delay_s=(delay_s, delay_s))
        start = body.reset(0).joint_angles
        targets = A1.default_pose_rad + 0.4
        none = np.zeros(12)
        command = JointCommand(0.0, targets, A1.kp_nm_per_rad, A1.kd_nms_per_rad, none)
        moved = []
        for _ in range(8):
            body.apply(command)
            moved.append(np.abs(body.read().joint_angles - start).max())
        first_moves.append(int(np.argmax(np.array(moved) > 0.05)))
        body.close()
    assert first_moves[1] == first_moves[0] + 2  # control steps of 10 ms
    assert first_moves[2] == first_moves[0] + 4


def test_a_weak_motor_gives_less_torque() -> None:
    sag = {}
    for strength in (1.0, 0.5):
        body = body_with(strength=(strength, strength))
        body.reset(0)
        none = np.zeros(12)
        pose = A1.default_pose_rad
        stand = JointCommand(0.0, pose, A1.kp_nm_per_rad, A1.kd_nms_per_rad, none)
        for _ in range(100):
            body.apply(stand)
        sag[strength] = A1.stand_height_m - body.pose()[0][2]
        body.close()
    assert sag[0.5] > 1.5 * sag[1.0] > 0.0


def test_sensors_are_off_by_what_was_drawn() -> None:
    noisy = body_with(
        imu_bias_rad=(0.05, 0.05), encoder_noise_rad=(0.01, 0.01), rate_noise_rad_per_s=(0.2, 0.2)
    )
    noisy.reset(0)
    readings = [noisy.read() for _ in range(500)]  # of one instant: only the noise differs
    angles = np.array([r.joint_angles for r in readings])
    rates = np.array([r.angular_velocity for r in readings])
    np.testing.assert_allclose(angles.std(0), 0.01, rtol=0.15)
    np.testing.assert_allclose(rates.std(0), 0.2, rtol=0.15)
    np.testing.assert_allclose(angles.mean(0), A1.default_pose_rad, atol=0.002)
    x, y, z, w = readings[0].orientation
    tilt = (2 * (w * x + y * z), 2 * (w * y - z * x))  # roll, pitch, small
    np.testing.assert_allclose(tilt, 0.05, atol=1e-3)
    noisy.close()


def test_an_episode_follows_from_its_seed_bit_for_bit() -> None:
    body = PyBulletBody(A1, FlatGround(), randomisation=Randomisation())
    task = Follow(300)
    low_level = LinearLowLevel.from_weights(A1, gentle_weights())
    controller = Controller(task.command, low_level, Supervisor(A1))
    first, other, again = (run_episode(controller, body, task, seed) for seed in (3, 4, 3))
    np.testing.assert_array_equal(first.path, again.path)
    assert not np.array_equal(first.path[:20], other.path[:20])
    assert first.return_m == again.return_m
    body.close()
