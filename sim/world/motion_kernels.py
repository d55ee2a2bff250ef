"""Poses of moving shapes in machine code."""

from __future__ import annotations

from pixelgait.robot.spec import Array
from pixelgait.sim.world import motions
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.motions import Motions

pose_at = compiled(motions.pose_at)


@compiled
def poses_at(motions: Motions, time_s: float, poses: Array) -> None:
    """Write poses (n, 4) of all shapes at a time [s]: x, y, z [m] and yaw [rad]."""
    for i in range(len(motions.own)):
        poses[i, 0], poses[i, 1], poses[i, 2], poses[i, 3] = pose_at(motions, i, time_s)
