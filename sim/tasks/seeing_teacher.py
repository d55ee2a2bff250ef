"""Teacher that knows of the map what the robot's camera has seen so far.

A student cannot learn from what it does not see: in a furnished house the shortest path leads
behind walls and past tables that no image shows, and a student learns the mean of turns to either
side. This teacher takes what is unseen for free, goes the shortest path through it, and plans again
when that path is seen to be blocked: planning with the freespace assumption (Koenig and Likhachev
2002, D* Lite, AAAI).
"""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.control.observation import DEPTH_RANGE_M
from pixelgait.robot.spec import Array
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.tasks.seeing_kernels import UNREACHED_M, enter, is_affected, look
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.tasks.teacher_kernels import Course
from pixelgait.sim.world.map_kernels import cell_at, waves
from pixelgait.sim.world.traversability import CELL_M, DIAGONAL, STRAIGHT


class SeeingTeacher(Teacher):
    """`Teacher` whose map is what its robot's camera has seen in this episode."""

    def __init__(self, body: KinematicBody) -> None:
        super().__init__(body)
        camera = body.camera
        half_height = math.tan(camera.mount.vertical_fov_rad / 2.0)
        self._half_fov_rad = math.atan(half_height * camera.width / camera.height)
        self._eye_m = camera.mount.position_m[0]

    def _began(self) -> None:
        course = self._course
        shape = course.free.shape
        self._believed = course._replace(
            free=np.ones(shape, bool),
            turnable=np.ones(shape, bool),
            counts=np.ones(shape, np.int64),
            costs=np.full(shape, UNREACHED_M),
        )
        self._met, self._known_cells = np.zeros(shape, bool), np.zeros(shape, bool)
        self._changed = np.ones(shape, bool)  # since the last plan

    def _known(self, pose: Array) -> Course:
        x, y, yaw = pose.tolist()
        believed = self._believed
        look(
            self._course,
            believed,
            (self._met, self._known_cells, self._changed),
            (x, y, yaw),
            self._eye_m,
            self._half_fov_rad,
            DEPTH_RANGE_M,
        )
        enter(believed, x, y)
        if is_affected(believed, self._changed, x, y):
            self._plan(x, y)
            enter(self._believed, x, y)
        return self._believed

    def _plan(self, x: float, y: float) -> None:
        """Costs to go of the cells that are nearer to the goal than the robot, and around it."""
        believed = self._believed
        row, column = cell_at(believed.free, believed.corner_m, CELL_M, x, y)
        until = row * believed.free.shape[1] + column if believed.free[row, column] else -1
        steps = waves(believed.free, believed.goals, believed.counts, STRAIGHT, DIAGONAL, until)
        costs = np.where(steps < 0, UNREACHED_M, steps * (CELL_M / STRAIGHT))
        self._believed = believed._replace(costs=costs)
        self._changed[:] = False
