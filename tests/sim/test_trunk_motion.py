"""Trunk motion of gliding robots: amplitude, frequency and mean of walking ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.runs.trained import trained_low_level
from pixelgait.robot.control.controller import Controller, Decision, latent_for
from pixelgait.robot.rotation import Quaternion
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import make_scene

WALK = Path("policies/pretrained/walk/low_level")
COMMANDS = [(0.3, 0.0), (0.6, 0.0), (0.0, 0.8), (0.5, -0.6)]
SETTLED, STEPS = 300, 1100


def trunk(pose: BasePose) -> tuple[float, float, float]:
    """Roll, pitch [rad], height [m]."""
    roll, pitch, _ = euler(pose.orientation)
    return roll, pitch, pose.position[2]


def euler(orientation: Quaternion) -> tuple[float, float, float]:
    angles: tuple[float, float, float] = pybullet.getEulerFromQuaternion(orientation)
    return angles


def walked(command: tuple[float, float]) -> Array:
    """Trunk motion (n, 3) of the walking robot, settled."""
    body = PyBulletBody(A1, FlatGround())
    controller = Controller(
        lambda *_: Decision(latent_for(*command), STEPS), trained_low_level(WALK), Supervisor(A1)
    )
    reading, rows = body.reset(0), []
    for _ in range(STEPS):
        body.apply(controller.step(reading).command)
        reading = body.read()
        rows.append(trunk(body.pose()))
    body.close()
    return np.array(rows[SETTLED:])


def glided(command: tuple[float, float], seed: int) -> Array:
    body = KinematicBody(A1, FlatGround())
    body.reset(seed)
    rows = []
    for _ in range(STEPS):
        body.follow(latent_for(*command))
        rows.append(trunk(body.trunk_pose()))
    body.close()
    return np.array(rows[SETTLED:])


def strongest_hz(signal: Array) -> float:
    power = np.abs(np.fft.rfft((signal - signal.mean()) * np.hanning(len(signal)))) ** 2
    return float(np.fft.rfftfreq(len(signal), 0.01)[power.argmax()])


@pytest.mark.parametrize("command", COMMANDS)
def test_gliding_trunks_move_like_walking_ones(command: tuple[float, float]) -> None:
    """The walking robot is within the range of ten drawn gliding ones."""
    true = walked(command)
    drawn = [glided(command, seed) for seed in range(10)]
    means = np.array([rows.mean(axis=0) for rows in drawn])
    assert np.abs(means.mean(axis=0) - true.mean(axis=0)).max() < 0.012  # rad, rad, m
    sizes = np.array([rows.std(axis=0) for rows in drawn]) / true.std(axis=0)
    assert (sizes.min(axis=0) < 1.3).all()  # some sway as little
    assert (sizes.max(axis=0) > 1.3).all()  # others further, as randomised ones do
    assert (sizes.max(axis=0) < 4.0).all()
    for axis in (0, 1, 2) if not command[1] else (0,):  # in turns two frequencies are as strong
        ours = np.median([strongest_hz(rows[:, axis]) for rows in drawn])
        assert ours == pytest.approx(strongest_hz(true[:, axis]), rel=0.06)


def test_trunk_motion_depends_on_the_seed_and_rests_when_standing() -> None:
    still = glided((0.0, 0.0), 3)
    assert still.std(axis=0).max() < 0.002  # but for its drift
    np.testing.assert_array_equal(glided((0.5, 0.0), 4), glided((0.5, 0.0), 4))
    assert not np.array_equal(glided((0.5, 0.0), 4), glided((0.5, 0.0), 5))


def test_camera_pitches_with_the_slope_of_a_ramp() -> None:
    scene = make_scene("ramps", 0.5)  # 10 degrees
    body = KinematicBody(A1, scene)
    body.reset(0)
    pitches = []
    for _ in range(1600):
        body.follow(latent_for(0.5, 0.0))
        pitches.append(trunk(body.trunk_pose())[1])
    assert min(pitches) == pytest.approx(-np.radians(10.0), abs=0.06)
    assert max(pitches) == pytest.approx(np.radians(10.0), abs=0.06)
    body.close()
