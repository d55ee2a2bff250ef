"""Slow walk: velocity commands below the least command, in both engines and on two robots."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import STAND, commanded, latent_for
from pixelgait.robot.control.low_level import LEAST_COMMAND, step_scale
from pixelgait.robot.control.slow_walk import SlowWalk
from pixelgait.robot.interface import STAND_S
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.robot.runtime.state_machine import Inputs, Operation, OperatorCommands, RobotState
from pixelgait.sim.engines.mujoco_body import MuJoCoBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.flat import FlatGround

ORDERS = OperatorCommands(True, RobotState.WALKING)


def reached(
    operation: Operation, body: MuJoCoBody | PyBulletBody, latent: np.ndarray
) -> list[float]:
    """Mean speed ahead and aside [m/s] and yaw rate [rad/s] within 6 s of a command."""
    reading, way = body.reset(0), np.zeros(3)
    for step in range(round((STAND_S + 6.5) * 100)):
        latent_now = latent if step > 100 * (STAND_S + 0.5) else STAND
        (x, y, _), before = body.pose()
        result = operation.step(Inputs(reading, {}, ORDERS, 0.01, latent_now))
        body.apply(result.command)
        reading = body.read()
        if latent_now is latent:
            (x1, y1, _), after = body.pose()
            cos, sin = math.cos(heading(before)), math.sin(heading(before))
            dx, dy = x1 - x, y1 - y
            turned = wrap_angle(heading(after) - heading(before))
            way += dx * cos + dy * sin, dy * cos - dx * sin, turned
    assert operation.supervisor.fault is None
    return [float(each) / 6.0 for each in way]


@pytest.mark.slow
@pytest.mark.parametrize("bundle", ["walk", "walk-go2"])
@pytest.mark.parametrize("engine", [MuJoCoBody, pytest.param(PyBulletBody, marks=pytest.mark.long)])
def test_slow_commands_are_obeyed(engine: type[MuJoCoBody | PyBulletBody], bundle: str) -> None:
    """Once the robot stood, or crept backwards, when asked for 0.05 m/s."""
    policy = load_bundle(bundle)
    body = engine(policy.spec, FlatGround())
    slow = [(0.03, 0.0), (0.05, 0.0), (0.07, 0.0), (0.1, 0.0)]
    for command in [*slow, (0.0, 0.05), (0.0, -0.1), (0.0, 0.2), (0.05, 0.05)]:
        ahead, aside, turn = reached(Operation(policy.controller()), body, latent_for(*command))
        assert ahead == pytest.approx(command[0], abs=0.02), command
        assert aside == pytest.approx(0.0, abs=0.02), command
        assert turn == pytest.approx(command[1], abs=0.05), command
    body.close()


def test_a_command_of_five_centimetres_a_second_is_obeyed() -> None:
    policy = load_bundle("walk")
    body = MuJoCoBody(policy.spec, FlatGround())
    ahead, _, _ = reached(Operation(policy.controller()), body, latent_for(0.05, 0.0))
    assert ahead == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("yaw_rate", [0.0, 0.03, -0.1])
@pytest.mark.parametrize("speed", [0.0, 0.01, 0.05])
def test_slow_commands_have_whole_steps_and_the_commanded_mean_turn(
    speed: float, yaw_rate: float
) -> None:
    if not speed and not yaw_rate:
        return
    slow_walk, phases = SlowWalk(0.02), 2.0 * math.pi * np.arange(0.0, 20.0, 0.02)  # 2 Hz, 10 s
    latents = [slow_walk(latent_for(speed, yaw_rate), phase % (2.0 * math.pi)) for phase in phases]
    assert min(step_scale(latent)[0] for latent in latents) == 1.0
    turns = [commanded(latent)[1] for latent in latents]
    assert np.mean(turns) == pytest.approx(yaw_rate, abs=0.01)
    assert max(map(abs, turns)) <= 2.0 * LEAST_COMMAND + 1e-9


def test_a_stand_and_fast_commands_pass_unchanged() -> None:
    slow_walk = SlowWalk(0.02)
    for command in ((0.0, 0.0), (0.2, 0.0), (0.6, 1.0), (0.3, -0.5)):
        np.testing.assert_allclose(slow_walk(latent_for(*command), 1.0), latent_for(*command))


def test_noise_of_a_planner_that_has_arrived_is_a_stand() -> None:
    for command in [(0.0, 0.0), (1e-9, 0.0), (0.0, -1e-9), (0.004, 0.004)]:
        assert SlowWalk(0.02)(latent_for(*command), 1.0).tolist() == STAND.tolist()
