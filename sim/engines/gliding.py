"""Motion of a gliding robot in machine code: it follows velocity commands, obstacles stop it.

State, obstacles and ground of an episode are arrays, so that all control steps between two
decisions are one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
)
from pixelgait.robot.control.low_level import LEAST_COMMAND
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.ground import Ground
from pixelgait.sim.world.ground_kernels import ground_m
from pixelgait.sim.world.motion_kernels import pose_at
from pixelgait.sim.world.motions import Motions, motions_of
from pixelgait.sim.world.obstacles import MovingObstacle
from pixelgait.sim.world.scene import Box, Pose

wrapped = compiled(wrap_angle)
ROOT_2 = math.sqrt(2.0)
FEET = 4  # the first points of an outline
NEAR_M = 0.5  # boxes further off than this are not looked at
CHECK_M = 0.012  # least approach between two collision checks: a step at full speed
KEPT = 256  # newest states of the trunk: for a camera latency of 1 s, lost frames and the shutter

# Trunk motion, fitted to measurements: see `trunk_pose`.
STRIDE_HZ = 2.62
# Standard deviations at a speed v [m/s] and a yaw rate w [rad/s]; see `trunk_pose`.
ROLL_RAD, ROLL_FALLS = 0.015, 0.015  # per m/s
PITCH_RAD, PITCH_GROWS, PITCH_TURNING = 0.002, 0.03, 0.0045  # per (m/s)^2; per rad/s
HEIGHT_M, HEIGHT_FALLS, HEIGHT_TURNING_M = 0.004, 0.0028, 0.0025  # per m/s; per rad/s
LEAN, UPRIGHT_M_PER_S = -0.05, 0.75  # mean roll per yaw rate on the spot; none at this speed
NOSE_UP_RAD, NOSE_UP_GROWS = -0.005, -0.022  # mean pitch; per m/s
HEIGHT_SHARE = 0.9  # reported height of the base, of the standing height: that at 0.4 m/s
STANDING_SHARE, WALKING_SHARE, SINKS = 0.965, 0.92, 0.055  # of the standing height; per m/s
# Below these commands its steps are smaller.
WHOLE_STEP_M_PER_S = LEAST_COMMAND * MAX_SPEED_M_PER_S
WHOLE_STEP_RAD_PER_S = LEAST_COMMAND * MAX_YAW_RATE_RAD_PER_S

ROBOT = np.dtype(
    [
        ("lag_s", "f8"),  # time constant of speed and yaw rate behind their commands
        ("drift_rad_per_s", "f8"),  # yaw rate without a command
        ("slip", "f8"),  # sideways, a share of the speed
        ("speed_gain", "f8"),
        ("turn_gain", "f8"),
        ("stand_m", "f8"),  # height of the base when standing
        ("sway", "f8"),  # factor on the trunk's motion
        ("stride_hz", "f8"),
        ("phases", "f8", (5,)),  # [rad] of roll, pitch and height, at once and at twice the stride
        ("odometry_scale", "f8"),
        ("odometry_turn_rad_per_m", "f8"),
        ("x", "f8"),  # [m]
        ("y", "f8"),
        ("z", "f8"),
        ("yaw", "f8"),  # [rad]
        ("speed", "f8"),  # [m/s]
        ("yaw_rate", "f8"),  # [rad/s]
        ("time_s", "f8"),
        ("odometry_x", "f8"),
        ("odometry_y", "f8"),
        ("odometry_yaw", "f8"),
        ("free_steps", "f8"),  # without a possible collision
        ("stopped", "i8"),  # by an obstacle, in the last step
        ("run_into", "i8"),  # by an obstacle that moves, in the last step
        ("on_ground", "i8"),  # all feet
        ("recorded", "i8"),  # rows written to the ring of `TRUNK`
    ]
)
TRUNK = 9  # time [s], x, y, z [m], yaw, speed, yaw rate, roll and pitch of the ground [rad]


class Surroundings(NamedTuple):
    """An episode's ground, and the upright boxes that stop a robot; the last ones move."""

    outline: Array  # (n, 2) points of the robot in the base frame, feet first [m]
    slopes: Array  # (2, 4) from heights under the feet to slopes along x and y
    ground: Ground
    centre: Array  # (m, 2) of boxes [m]
    half: Array  # (m, 2) [m]
    cos: Array  # (m,)
    sin: Array  # (m,)
    moving: Motions  # of the last boxes
    fastest_m_per_s: float


def surroundings(
    outline: Array,
    ground: Ground,
    staying: Sequence[tuple[Box, Pose]],
    moving: Sequence[MovingObstacle],
    least_half_m: float = 0.0,
) -> Surroundings:
    """Arrays of ground and obstacles for a robot of this outline (n, 2), feet first.

    Boxes are made at least twice `least_half_m` wide: points of the outline would miss others.
    """
    plane = np.column_stack((outline[:FEET], np.ones(FEET)))
    boxes = [*staying, *((each.box, each.own) for each in moving)]
    yaw = np.array([pose.yaw for _, pose in boxes])
    return Surroundings(
        outline,
        np.ascontiguousarray(np.linalg.pinv(plane)[:2]),
        ground,
        np.array([(pose.x, pose.y) for _, pose in boxes]).reshape(-1, 2),
        np.maximum(np.array([b.half_m[:2] for b, _ in boxes]).reshape(-1, 2), least_half_m),
        np.cos(yaw),
        np.sin(yaw),
        motions_of([(each.motion, each.own) for each in moving]),
        float(max((each.fastest_m_per_s for each in moving), default=0.0)),
    )


@compiled
def follow(robot: Any, speed: float, yaw_rate: float, around: Surroundings, trunk: Array) -> None:
    """One control step under a speed [m/s] and a yaw rate [rad/s].

    Args:
        robot: (1,) of `ROBOT`, changed.
        speed: commanded [m/s].
        yaw_rate: commanded [rad/s].
        around: surroundings; boxes that move are put where they are.
        trunk: (KEPT, TRUNK), ring of recorded states of the trunk, written.
    """
    r = robot[0]
    share = CONTROL_DT_S / r.lag_s
    r.speed += share * (r.speed_gain * speed - r.speed)
    r.yaw_rate += share * (r.turn_gain * yaw_rate + r.drift_rad_per_s - r.yaw_rate)
    ahead = r.speed * CONTROL_DT_S
    cos, sin = math.cos(r.yaw), math.sin(r.yaw)
    old_x, old_y, old_yaw = r.x, r.y, r.yaw
    x, y = r.x + ahead * (cos - r.slip * sin), r.y + ahead * (sin + r.slip * cos)
    yaw = r.yaw + r.yaw_rate * CONTROL_DT_S
    stopped = _stopped(robot, x, y, yaw, around)
    if not stopped:
        r.x, r.y = x, y
        ground = ground_m(around.ground, x, y)
        if not math.isnan(ground):
            r.z = ground + HEIGHT_SHARE * r.stand_m
    r.stopped = stopped
    r.yaw = yaw
    r.time_s += CONTROL_DT_S
    _odometry(robot, old_x, old_y, old_yaw)
    record(robot, around, trunk)


@compiled
def record(robot: Any, around: Surroundings, trunk: Array) -> None:
    """Note whether all feet are on ground; record the trunk's state, on the ground's slope."""
    r = robot[0]
    cos, sin = math.cos(r.yaw), math.sin(r.yaw)
    x_slope, y_slope, first = 0.0, 0.0, 0.0
    level, standing = True, True
    for i in range(FEET):
        x, y = around.outline[i, 0], around.outline[i, 1]
        height = ground_m(around.ground, r.x + cos * x - sin * y, r.y + sin * x + cos * y)
        standing &= not math.isnan(height)
        first = height if i == 0 else first
        level &= height == first
        x_slope += around.slopes[0, i] * height
        y_slope += around.slopes[1, i] * height
    if level or not standing:
        x_slope, y_slope = 0.0, 0.0
    row = trunk[r.recorded % KEPT]
    row[0], row[1], row[2], row[3], row[4] = r.time_s, r.x, r.y, r.z, r.yaw
    row[5], row[6], row[7], row[8] = r.speed, r.yaw_rate, math.atan(y_slope), -math.atan(x_slope)
    r.recorded += 1
    r.on_ground = standing


@compiled
def _odometry(robot: Any, old_x: float, old_y: float, old_yaw: float) -> None:
    """Integrate a step as `DriftingOdometry` does: scaled, and turned by an angle per metre."""
    r = robot[0]
    cos, sin = math.cos(old_yaw), math.sin(old_yaw)
    dx, dy = r.x - old_x, r.y - old_y
    ahead, left = cos * dx + sin * dy, cos * dy - sin * dx
    bent = r.odometry_turn_rad_per_m * math.hypot(ahead, left)
    ahead, left = r.odometry_scale * ahead, r.odometry_scale * left
    cos, sin = math.cos(r.odometry_yaw), math.sin(r.odometry_yaw)
    r.odometry_x += cos * ahead - sin * left
    r.odometry_y += sin * ahead + cos * left
    r.odometry_yaw = wrapped(r.odometry_yaw + wrapped(r.yaw - old_yaw) + bent)


@compiled
def _stopped(robot: Any, x: float, y: float, yaw: float, around: Surroundings) -> bool:
    """Whether a step would lead into an obstacle, or deeper into one; turning never does."""
    r = robot[0]
    r.free_steps -= 1.0
    if r.free_steps > 0.0:
        return False
    staying = len(around.centre) - len(around.moving.own)
    for i in range(len(around.moving.own)):
        box_x, box_y, _, box_yaw = pose_at(around.moving, i, r.time_s)
        around.centre[staying + i, 0], around.centre[staying + i, 1] = box_x, box_y
        around.cos[staying + i], around.sin[staying + i] = math.cos(box_yaw), math.sin(box_yaw)
    depth = _depth(x, y, yaw, around, 0)
    r.run_into = False
    if depth <= 0.0:
        # No corner moves faster than this, turns included: check again when one can have hit.
        fastest = 2.0 * MAX_SPEED_M_PER_S + around.fastest_m_per_s
        r.free_steps = max(CHECK_M, -depth) / (fastest * CONTROL_DT_S)
        return False
    r.run_into = _depth(r.x, r.y, r.yaw, around, staying) > 0.0
    return depth > _depth(r.x, r.y, r.yaw, around, 0)


@compiled
def _depth(x: float, y: float, yaw: float, around: Surroundings, first: int) -> float:
    """Greatest depth [m] of the outline at a pose inside the boxes from `first` on.

    Outside it is negative, and its absolute value at most the distance to the nearest box, and
    `NEAR_M`.
    """
    cos, sin, deepest = math.cos(yaw), math.sin(yaw), -NEAR_M
    reach = 0.0
    for j in range(len(around.outline)):
        reach = max(reach, math.hypot(around.outline[j, 0], around.outline[j, 1]))
    for i in range(first, len(around.centre)):
        to_x, to_y = x - around.centre[i, 0], y - around.centre[i, 1]
        c, s, half_x, half_y = around.cos[i], around.sin[i], around.half[i, 0], around.half[i, 1]
        # A point `away` metres off is at least `away` / sqrt 2 off along one side of the box.
        away = math.hypot(to_x, to_y) - math.hypot(half_x, half_y) - reach
        if -away / ROOT_2 < deepest:
            continue  # too far to be the nearest
        for j in range(len(around.outline)):
            px = to_x + cos * around.outline[j, 0] - sin * around.outline[j, 1]
            py = to_y + sin * around.outline[j, 0] + cos * around.outline[j, 1]
            inside_x, inside_y = half_x - abs(c * px + s * py), half_y - abs(c * py - s * px)
            deepest = max(deepest, min(inside_x, inside_y))
    return deepest


@compiled
def trunk_pose(robot: Any, row: Array, pose: Array) -> None:
    """Pose of the trunk under the camera in a recorded state: it sways, and follows the slope.

    Fitted to `walk` on flat ground, in PyBullet and MuJoCo alike, over 13 s of each of nine
    commands. All but a few per cent of the motion is at the frequency of the stride (roll; in turns
    also pitch and height) and at twice that frequency (pitch and height);
    tests/sim/test_trunk_motion.py compares the two. On ramps of 10 degrees the trunk is as steep as
    the ground (1.1 times, correlation 0.99).

    Args:
        robot: (1,) of `ROBOT`: amplitude, frequency and phases of its sway.
        row: (TRUNK,) the recorded state.
        pose: (7,) written: x, y, z [m] and orientation xyzw.
    """
    r = robot[0]
    v, w = min(abs(row[5]), UPRIGHT_M_PER_S), abs(row[6])
    step = min(1.0, max(v / WHOLE_STEP_M_PER_S, w / WHOLE_STEP_RAD_PER_S))
    turn = 2.0 * math.pi * r.stride_hz * row[0]
    size, root = r.sway * step, math.sqrt(2.0)
    roll = root * math.sin(turn + r.phases[0])
    pitch, pitch_twice = (
        root * math.sin(turn + r.phases[1]),
        root * math.sin(2.0 * turn + r.phases[2]),
    )
    height, height_twice = (
        root * math.sin(turn + r.phases[3]),
        root * math.sin(2.0 * turn + r.phases[4]),
    )
    lean = LEAN * row[6] * (1.0 - v / UPRIGHT_M_PER_S)
    rolled = lean + size * max(0.0, ROLL_RAD - ROLL_FALLS * v) * roll + row[7]
    pitched = (
        NOSE_UP_RAD
        + NOSE_UP_GROWS * v
        + size * ((PITCH_RAD + PITCH_GROWS * v * v) * pitch_twice + PITCH_TURNING * w * pitch)
        + row[8]
    )
    sunk = 1.0 - STANDING_SHARE + step * (STANDING_SHARE - WALKING_SHARE) + SINKS * v
    lift = size * ((HEIGHT_M - HEIGHT_FALLS * v) * height_twice + HEIGHT_TURNING_M * w * height)
    pose[0], pose[1] = row[1], row[2]
    pose[2] = row[3] + (1.0 - HEIGHT_SHARE - sunk) * r.stand_m + lift
    cr, sr = math.cos(rolled / 2.0), math.sin(rolled / 2.0)
    cp, sp = math.cos(pitched / 2.0), math.sin(pitched / 2.0)
    cy, sy = math.cos(row[4] / 2.0), math.sin(row[4] / 2.0)
    pose[3], pose[4] = sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy
    pose[5], pose[6] = cr * cp * sy - sr * sp * cy, cr * cp * cy + sr * sp * sy


@compiled
def trunk_at(robot: Any, trunk: Array, time_s: float, pose: Array) -> None:
    """Pose (7,) of the trunk at a time [s], linear between recorded states; see `trunk_pose`."""
    newest = robot[0].recorded - 1
    oldest = max(0, robot[0].recorded - KEPT)
    after = newest
    while after > oldest and trunk[(after - 1) % KEPT, 0] > time_s:
        after -= 1
    later = trunk[after % KEPT]
    trunk_pose(robot, later, pose)
    if after == oldest or later[0] <= time_s:
        return
    earlier = trunk[(after - 1) % KEPT]
    before = np.empty(7)
    trunk_pose(robot, earlier, before)
    share = (time_s - earlier[0]) / (later[0] - earlier[0])
    sign, length = 0.0, 0.0
    for i in range(3, 7):
        sign += before[i] * pose[i]
    for i in range(7):
        mirrored = -pose[i] if i >= 3 and sign < 0.0 else pose[i]
        pose[i] = before[i] + share * (mirrored - before[i])
    for i in range(3, 7):
        length += pose[i] * pose[i]
    for i in range(3, 7):
        pose[i] /= math.sqrt(length)
