"""Blocked robot: a pane of glass, that is an invisible box, in front of policies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.blocked import TRIES
from pixelgait.robot.interface import Reading
from pixelgait.robot.runtime.state_machine import Inputs, Operation, OperatorCommands, RobotState
from pixelgait.sim.body.camera import camera_of
from pixelgait.sim.engines.mujoco_body import MuJoCoBody
from tests.faults.glass import GLASS_X_M, Glass


class Walk:
    """A policy walks at the glass, until `seconds` are over; causes with their times."""

    def __init__(self, bundle: str, seconds: float, odometry: bool) -> None:
        policy = load_bundle(bundle)
        camera = camera_of(policy)
        self.body = MuJoCoBody(policy.spec, Glass(), camera=camera)
        self.goal = (3.0, 0.0) if "goal" in policy.takes else None
        self.operation = Operation(policy.controller(), needs_goal=self.goal is not None)
        self.causes: list[tuple[float, str]] = []
        self.x: list[float] = []
        reading = self.body.reset(0)
        for _ in range(round(seconds * 100)):
            reading = self.step(reading if odometry else replace(reading, odometry=None))
        assert self.operation.supervisor.fault is None

    def step(self, reading: Reading) -> Reading:
        orders = OperatorCommands(True, RobotState.WALKING, goal_position=self.goal)
        result = self.operation.step(Inputs(reading, {}, orders, 0.01))
        if not self.causes or self.causes[-1][1] != self.operation.cause:
            self.causes.append((len(self.x) / 100, self.operation.cause))
        self.x.append(self.body.pose()[0][0])
        self.body.apply(result.command)
        return self.body.read()


def assert_steps_back(x: np.ndarray, time_s: float) -> None:
    k = round(time_s * 100)
    assert x[k : k + 130].min() < x[k] - 0.15


@pytest.mark.slow
def test_a_robot_that_was_turned_away_from_glass_walks_on_beside_it() -> None:
    """This policy does not turn back to where it was going."""
    walk = Walk("rover", 20.0, odometry=False)
    blocked = [(time_s, cause) for time_s, cause in walk.causes if cause.startswith("blocked")]
    contact_s = float(np.argmax(np.array(walk.x) > GLASS_X_M - 0.45)) / 100
    assert blocked[0][0] < contact_s + 6.0
    assert_steps_back(np.array(walk.x), blocked[0][0])
    assert not walk.operation.blocked.given_up


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bundle", "odometry", "within_s"), [("navigator", True, 3.0), ("rover-go2", False, 3.0)]
)
def test_a_robot_before_glass_steps_back_and_gives_up_after_three_tries(
    bundle: str, odometry: bool, within_s: float
) -> None:
    walk = Walk(bundle, 45.0, odometry)
    x = np.array(walk.x)
    blocked = [(time_s, cause) for time_s, cause in walk.causes if cause.startswith("blocked")]
    contact_s = float(np.argmax(x > GLASS_X_M - 0.45)) / 100
    assert blocked[0][0] < contact_s + within_s
    assert len(blocked) == TRIES + 1
    assert "given up" in blocked[-1][1]
    for time_s, _ in blocked[:-1]:
        assert_steps_back(x, time_s)
    assert np.ptp(x[-100:]) < 0.01  # stands
