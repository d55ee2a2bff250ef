"""Logs of walks: what the robot's sensors said, what was commanded, and where it truly was."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from docs.figures.odometry.invariant_filter import InvariantFilter
from pixelgait.policies.evaluation.evaluate import player
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.estimation.leg_odometry import LegOdometry, Motion
from pixelgait.robot.interface import CONTROL_DT_S, Image, JointCommand, Reading
from pixelgait.robot.rotation import heading
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.leg_odometry import LegOdometryBody
from pixelgait.sim.engines.cast_scene import rotation
from pixelgait.sim.tasks.episode import run_episode

BEARS_N = 15.0  # force of a foot that stands, for the invariant filter


class Moment(NamedTuple):
    """A control step."""

    reading: Reading  # without an image
    command: JointCommand | None  # the newest before
    position: Array  # (3,) true [m]
    orientation: Array  # (4,) true
    forces: Array  # (4,) of the feet [N]


class Log(LegOdometryBody):
    """A body with leg odometry that keeps its moments."""

    def _begin(self, seed: int) -> None:
        super()._begin(seed)
        self.moments: list[Moment] = []

    def _changed(self, reading: Reading) -> Reading:
        reading = super()._changed(reading)
        position, orientation = (np.array(each) for each in self.body.pose())
        bare = replace(reading, image=_nothing)
        forces = self.body.loads().foot_forces
        self.moments.append(Moment(bare, self._command, position, orientation, forces))
        return reading


def _nothing() -> Image:
    raise AssertionError


def logged(config: EvalConfig, seed: int) -> tuple[RobotSpec, list[Moment]]:
    """The moments of an episode, in which the robot goes by its legs' odometry."""
    controller, body, task = player(replace(config, odometry="legs"))
    assert isinstance(body, LegOdometryBody)
    log = Log(body.body)
    run_episode(controller, cast(SimulatedBody, log), task, seed)
    body.close()
    return body.spec, log.moments


def by_legs(spec: RobotSpec, moments: list[Moment]) -> list[Motion]:
    """The motions by leg odometry."""
    legs, first = LegOdometry(spec), moments[0]
    x, y, _ = first.position.tolist()
    legs.reset(x, y, heading(first.orientation.tolist()))
    return [legs.update(each.reading, each.command) for each in moments]


def by_invariant_filter(spec: RobotSpec, moments: list[Moment]) -> Array:
    """Positions (n, 2) [m] by the invariant filter, with foot sensors and the accelerometer."""
    legs, first = LegKinematics(spec), moments[0]
    estimate = InvariantFilter(rotation(first.orientation), first.position)
    found = []
    for number, moment in enumerate(moments):
        force = moment.reading.specific_force
        assert force is not None
        if number:
            estimate.predict(moment.reading.angular_velocity, force, CONTROL_DT_S)
        feet = legs.feet(moment.reading.joint_angles.tolist())
        places = np.array([foot.position for foot in feet])
        jacobians = np.array([foot[1:] for foot in feet]).transpose(0, 2, 1)
        estimate.correct(places, jacobians, moment.forces > BEARS_N)
        found.append(estimate.p[:2].copy())
    return np.array(found)


def way_m(moments: list[Moment]) -> float:
    """The length of the true way [m]."""
    places = np.array([each.position[:2] for each in moments])
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum())
