"""Leg odometry against exact kinematics: feet that stand, skid, roll, or hang in the air."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.estimation.leg_odometry import (
    BIASED,
    IMPOSSIBLE,
    IN_THE_AIR,
    LOST,
    SKIDS,
    LegOdometry,
    Motion,
)
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import A1, GO2, ROBOTS, Array, RobotSpec
from tests.helpers import no_image

EACH = pytest.mark.parametrize("spec", ROBOTS.values(), ids=ROBOTS)
WEIGHT_N = 120.0
REAR = np.repeat((0.0, 1.0), 6)  # joints of the rear legs


STAND = (0.0, 0.0, 0.0)


class Slide:
    """A level robot over feet of no radius; its base moves, ahead, left [m/s] and turning [rad/s].

    `skid` (4, 3) is the velocity of the feet over the ground [m/s], in the base's frame; `load` the
    share of the weight that each bears.
    """

    def __init__(self, spec: RobotSpec, **start: float) -> None:
        self.spec = replace(spec, foot_radius_m=0.0)
        self.legs, self.odometry = LegKinematics(self.spec), LegOdometry(self.spec)
        self.odometry.reset(**start)
        self.pose = self.angles = self.spec.default_pose_rad
        self.time_s, self.yaw = 0.0, 0.0
        self.skid, self.load = np.zeros((4, 3)), np.full(4, 0.25)
        self.rate_error, self.heading_error = np.zeros(3), 0.0
        self.force: Array | None = None  # (3,) by the accelerometer
        self.targets: Array | None = None

    def run(self, seconds: float, velocity: tuple[float, float, float] = STAND) -> Motion:
        motion = self.step(velocity)
        for _ in range(round(seconds / CONTROL_DT_S) - 1):
            motion = self.step(velocity)
        return motion

    def step(self, velocity: tuple[float, float, float]) -> Motion:
        ahead, left, turn = velocity
        feet = np.array([foot.position for foot in self.legs.feet(self.angles.tolist())])
        jacobians = self.legs.jacobians(self.angles.tolist())
        over = self.skid - (ahead, left, 0.0) - np.cross((0.0, 0.0, turn), feet)
        velocities: Array = np.linalg.solve(jacobians, over[..., None]).ravel()
        reading = Reading(
            self.time_s,
            self.angles,
            velocities,
            np.array(upright(self.yaw + self.heading_error)),
            np.array((0.0, 0.0, turn)) + self.rate_error,
            no_image,
            specific_force=self.force,
        )
        motion = self.odometry.update(reading, self._command(velocities, jacobians))
        self.angles = self.angles + CONTROL_DT_S * velocities
        if np.abs(self.angles - self.pose).max() > 0.2:  # it steps
            self.angles = self.pose
        self.time_s, self.yaw = self.time_s + CONTROL_DT_S, self.yaw + CONTROL_DT_S * turn
        return motion

    def _command(self, velocities: Array, jacobians: Array) -> JointCommand | None:
        """The command whose motors bear the load, at this moment."""
        force = np.zeros((4, 3, 1))
        force[:, 2, 0] = -WEIGHT_N * self.load  # of the feet on the ground
        torques = (jacobians.transpose(0, 2, 1) @ force).ravel()
        kp, kd = self.spec.kp_nm_per_rad, self.spec.kd_nms_per_rad
        targets = self.angles + (torques + kd * velocities) / kp
        return JointCommand(self.time_s, targets, kp, kd, np.zeros(12))


@EACH
def test_feet_that_stand_tell_the_velocity(spec: RobotSpec) -> None:
    motion = Slide(spec).run(1.5, (0.4, -0.1, 0.0))
    assert (motion.ahead, motion.left) == pytest.approx((0.4, -0.1), abs=2e-3)
    assert (motion.x, motion.y) == pytest.approx((0.6, -0.15), rel=0.08)
    assert motion.problem is None
    assert motion.height == pytest.approx(spec.stand_height_m - spec.foot_radius_m, abs=0.02)


def test_the_way_begins_at_a_pose_and_follows_the_turn() -> None:
    """A circle of 0.4 m about (1, 2), from its right."""
    robot = Slide(GO2, x=1.4, y=2.0, heading_rad=math.pi / 2.0)
    motion = robot.run(math.pi, (0.4, 0.0, 1.0))
    assert (motion.x, motion.y) == pytest.approx((0.6, 2.0), abs=0.03)
    assert abs(motion.heading) == pytest.approx(math.pi / 2.0, abs=0.02)
    assert motion.turn == pytest.approx(1.0, abs=0.02)


def test_a_foot_rolls_about_its_point_of_contact() -> None:
    """A base that pitches over its feet moves by its height over the ground, radius included."""
    odometry, legs = LegOdometry(A1), LegKinematics(A1)
    rate = np.array((0.0, 0.5, 0.0))
    feet = np.array([foot.position for foot in legs.feet(A1.default_pose_rad.tolist())])
    contacts = feet - (0.0, 0.0, A1.foot_radius_m)
    base = -np.cross(rate, contacts)  # joints are locked, each foot rolls: the mean of them moves
    reading = Reading(
        0.0, A1.default_pose_rad, np.zeros(12), np.array((0, 0, 0, 1.0)), rate, no_image
    )
    for step in range(50):
        motion = odometry.update(replace(reading, time_s=CONTROL_DT_S * step), None)
    assert motion.ahead == pytest.approx(base[:, 0].mean(), rel=0.1)


def test_it_coasts_while_feet_disagree_and_says_so() -> None:
    """As after touch-down: two feet skid ahead."""
    robot = Slide(A1)
    before = robot.run(1.0, (0.4, 0.0, 0.0))
    robot.skid[:2, 0] = 0.8
    after = robot.run(0.06, (0.4, 0.0, 0.0))
    assert after.ahead == pytest.approx(0.4, abs=0.1)  # not the mean of the feet, 0.0
    assert after.velocity_variance > 4.0 * before.velocity_variance
    assert robot.run(2.0, (0.4, 0.0, 0.0)).problem is None  # as on ground of little friction
    robot.skid[:2, 0] = 1.2
    assert robot.run(2.0, (0.4, 0.0, 0.0)).problem == SKIDS  # as on ice


def test_a_robot_that_stands_on_feet_of_unlike_heights_is_not_in_the_air() -> None:
    """The rear knees of a heavy robot give way: its front feet, the lowest, bear little."""
    robot = Slide(GO2)
    robot.pose = robot.angles = GO2.default_pose_rad - 0.3 * np.tile((0.0, 0.0, 1.0), 4) * REAR
    robot.load[:] = 0.13, 0.13, 0.36, 0.36
    assert robot.run(1.0, (0.05, 0.0, 0.0)).problem is None


def test_a_robot_that_was_lifted_is_lost_until_it_is_told() -> None:
    robot = Slide(A1)
    robot.run(1.0, (0.4, 0.0, 0.0))
    robot.load[:] = -0.02  # its legs hang
    assert robot.run(1.0, (0.4, 0.0, 0.3)).problem == IN_THE_AIR
    robot.run(1.0, (0.4, 0.0, 0.3))
    robot.load[:] = 0.25
    motion = robot.run(0.5, (0.4, 0.0, 0.3))
    assert motion.problem == LOST
    assert motion.position_variance[0] > 0.05
    robot.odometry.settle()
    assert robot.step((0.4, 0.0, 0.3)).problem is None


def test_at_rest_the_heading_holds_and_the_gyroscopes_bias_is_found() -> None:
    robot = Slide(A1)
    robot.rate_error = np.array((0.02, -0.03, 0.01))
    for _ in range(600):
        robot.heading_error += 2e-3 * CONTROL_DT_S
        motion = robot.step(STAND)
    assert motion.heading == pytest.approx(0.0, abs=2e-3)
    assert math.hypot(motion.x, motion.y) < 5e-3
    assert motion.turn == pytest.approx(0.0, abs=3e-3)
    for _ in range(600):  # and known afterwards
        robot.heading_error += 2e-3 * CONTROL_DT_S
        motion = robot.step((0.4, 0.0, 0.0))
    assert motion.heading == pytest.approx(0.0, abs=3e-3)


def test_a_gyroscope_that_is_far_off_is_named() -> None:
    robot = Slide(A1)
    robot.rate_error = np.array((0.2, 0.0, 0.0))
    assert robot.run(20.0, (0.4, 0.0, 0.0)).problem == BIASED


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_costs_one_step(by_s: float) -> None:
    robot = Slide(A1)
    before = robot.run(1.0, (0.4, 0.0, 0.0))
    robot.time_s += by_s
    set_at = robot.step((0.4, 0.0, 0.0))
    assert (set_at.x, set_at.y) == (before.x, before.y)
    after = robot.run(1.0, (0.4, 0.0, 0.0))
    assert after.x - set_at.x == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize("which", range(4))
def test_impossible_values_leave_the_estimate_as_it_is(which: int) -> None:
    robot = Slide(A1)
    before = robot.run(0.5, (0.4, 0.0, 0.0))
    values = [A1.default_pose_rad, np.zeros(12), np.array(upright(0.0)), np.zeros(3)]
    values[which] = np.nan * values[which]
    motion = robot.odometry.update(Reading(0.6, *values, no_image), None)
    assert motion.problem == IMPOSSIBLE
    assert motion[:7] == before[:7]


G = 9.81


def swaying(unit: float | None) -> tuple[float, float]:
    """RMS errors of the velocity and the end [m] of a trunk that sways ahead as in a trot.

    Two feet skid in turn. `unit` is that of an accelerometer with an offset, in m/s^2.
    """
    robot, errors, x = Slide(A1), [], 0.0
    for step in range(800):
        phase = 2.0 * math.pi * 3.0 * step * CONTROL_DT_S
        ahead = 0.4 + 0.1 * math.sin(phase)
        change = 0.1 * 2.0 * math.pi * 3.0 * math.cos(phase)
        robot.skid[:2, 0] = 0.3 * (math.sin(2.0 * phase) > 0.7)
        if unit is not None:
            robot.force = np.array((change + 0.2, -0.1, G)) / unit
        motion = robot.step((ahead, 0.0, 0.0))
        x += ahead * CONTROL_DT_S
        if step >= 200:
            errors.append(motion.ahead - ahead)
    return float(np.sqrt(np.mean(np.square(errors)))), motion.x - x


def test_an_accelerometer_halves_the_velocitys_error_and_leaves_the_position() -> None:
    (legs, end), (both, same) = swaying(None), swaying(1.0)
    assert both < 0.5 * legs
    assert both < 0.02
    assert same == end


@pytest.mark.parametrize("unit", [G, math.inf, math.nan])
def test_what_does_not_show_gravity_is_no_accelerometer(unit: float) -> None:
    """Other units, gravity left out, no number."""
    assert swaying(unit)[0] == pytest.approx(swaying(None)[0], rel=0.1)
