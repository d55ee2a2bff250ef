"""Leg kinematics: feet in the base frame, and their Jacobians, from joint angles.

With vectors v of `RobotSpec.legs_m`, rotations R about the base's axes, abduction a, hip h, knee k:

    foot = v0 + Rx(s_a a) (v1 + Ry(s_h h) (v2 + Ry(s_h k) v3))

The signs s are those of the joints' axes: `abduction_signs`, and -`swing_signs`, since a turn about
+y swings a foot backwards. Hip and knee turn about axes that point to the same side.

Written with plain floats: 12 us for four feet and their Jacobians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pixelgait.robot.rotation import Vector
from pixelgait.robot.spec import Array, RobotSpec


class Foot(NamedTuple):
    """The centre of a foot in the base frame [m], and its motion by each joint [m/rad]."""

    position: Vector
    by_abduction: Vector
    by_hip: Vector
    by_knee: Vector

    def velocity(self, abduction: float, hip: float, knee: float) -> Vector:
        """Velocity relative to the base [m/s] at these joint velocities [rad/s]."""
        (ax, ay, az), (hx, hy, hz), (kx, ky, kz) = self[1:]
        return (
            ax * abduction + hx * hip + kx * knee,
            ay * abduction + hy * hip + ky * knee,
            az * abduction + hz * hip + kz * knee,
        )


class LegKinematics:
    """Forward kinematics of a robot's legs; remembers the feet of the last joint angles."""

    def __init__(self, spec: RobotSpec) -> None:
        to_axis, to_hip = spec.legs_m[:, 0], spec.legs_m[:, 1].copy()
        to_hip[:, 1] += spec.legs_m[:, 2:, 1].sum(1)  # hip and knee do not move a foot sideways
        links = spec.legs_m[:, 2:, ::2].reshape(-1, 4)  # x, z of thigh and shank
        signs = np.array((spec.abduction_signs, spec.swing_signs)).T * (1.0, -1.0)
        self._legs = np.hstack((signs, to_axis, to_hip, links)).tolist()
        self._angles: tuple[float, ...] | None = None
        self._feet: tuple[Foot, ...] = ()

    def feet(self, angles: Sequence[float]) -> tuple[Foot, ...]:
        """The four feet, in the order of `LEGS`, at these joint angles (12,) [rad]."""
        if (asked := tuple(angles)) != self._angles:  # several ask at the same reading
            self._angles, self._feet = asked, tuple(self._found(asked))
        return self._feet

    def _found(self, angles: Sequence[float]) -> list[Foot]:
        sin, cos = math.sin, math.cos
        found = []
        for leg, (sign, turn, x0, y0, z0, x1, y1, z1, x2, z2, x3, z3) in enumerate(self._legs):
            abduction, hip, knee = angles[3 * leg : 3 * leg + 3]
            sa, ca = sin(sign * abduction), cos(sign * abduction)
            s, c = sin(turn * hip), cos(turn * hip)
            thigh_x, thigh_z = x2 * c + z2 * s, z2 * c - x2 * s
            s, c = sin(turn * (hip + knee)), cos(turn * (hip + knee))
            shank_x, shank_z = x3 * c + z3 * s, z3 * c - x3 * s
            leg_x, leg_z = thigh_x + shank_x, thigh_z + shank_z  # from hip to foot
            z = z1 + leg_z
            y_base, z_base = ca * y1 - sa * z, sa * y1 + ca * z
            hip_x, hip_z = turn * leg_z, -turn * leg_x
            knee_x, knee_z = turn * shank_z, -turn * shank_x
            found.append(
                Foot(
                    (x0 + x1 + leg_x, y0 + y_base, z0 + z_base),
                    (0.0, -sign * z_base, sign * y_base),
                    (hip_x, -sa * hip_z, ca * hip_z),
                    (knee_x, -sa * knee_z, ca * knee_z),
                )
            )
        return found

    def jacobians(self, angles: Sequence[float]) -> Array:
        """Jacobians (4, 3, 3) [m/rad]: of x, y, z in the base frame by a leg's three joints."""
        return np.array([foot[1:] for foot in self.feet(angles)]).transpose(0, 2, 1)


def posed(spec: RobotSpec, pose: Array) -> RobotSpec:
    """The robot with another default pose (12,) [rad], and what depends on it."""
    if np.array_equal(pose, spec.default_pose_rad):
        return spec
    feet = LegKinematics(spec).feet(pose.tolist())
    places, levers = (
        np.array([foot.position for foot in feet]),
        np.array([foot[1:] for foot in feet]),
    )
    abduction_m, _, knee_m = np.abs(levers[:, :, 2]).mean(0).tolist()
    lowest_m = float(places[:, 2].min())
    return replace(
        spec,
        default_pose_rad=pose,
        feet_m=places[:, :2],
        leg_length_m=float(spec.legs_m[:, 0, 2].mean()) - lowest_m,
        stand_height_m=spec.foot_radius_m - lowest_m,
        load_levers_m=(abduction_m, knee_m) if spec.carried_kg else spec.load_levers_m,
    )
