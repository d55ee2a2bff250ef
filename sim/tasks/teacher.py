"""Teacher: map-aware high level that steers by the true pose and the true map (upper bound)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import ARRIVAL_M, Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.motions import motions_of
from pixelgait.sim.world.obstacles import HEADROOM_M, moving_obstacles
from pixelgait.sim.world.raster import reach_m, walk_map
from pixelgait.sim.world.scene import Layout, Pose, Scene
from pixelgait.sim.world.traversability import HALF_WIDTH_M, TraversabilityMap

if TYPE_CHECKING:
    from pixelgait.sim.tasks.teacher_kernels import Course

HOLD_STEPS = 20  # of a decision: five a second; assumption
BEYOND_M = 0.3  # a goal that is no position is reached when it lies this far behind


class Teacher:
    """Follows the shortest path of a scene's map to its goal, and avoids moving obstacles.

    Among moving obstacles it is a dynamic window (Fox et al. 1997, doi 10.1109/100.580977) over
    headings, with the map's costs to go and the obstacles' known motion.
    """

    def __init__(self, body: RobotBase) -> None:
        self.body = body
        self._layout: Layout | None = None  # of `_course`
        self._course: Course
        self._yaw: float  # at the last decision [rad]

    def decide(self, *_: object) -> Decision:
        """The decision at the robot's true pose; the arguments of a high level are not used.

        Raises:
            UserError: if a user's scene has no path to its goal position.
        """
        pose = planar_pose(self.body)
        yaw = float(pose[2])
        if self._layout is not self.body.layout:
            self._course = learn(self.body.scene, self.body.layout, self.body.height_m)
            self._layout, self._yaw = self.body.layout, yaw
            self._began()
        turned, self._yaw = wrap_angle(yaw - self._yaw), yaw
        (latent,) = decide([self._known(pose)], pose[None], [turned], [self.body.time_s])
        return Decision(latent, HOLD_STEPS)

    def _began(self) -> None:
        """A new course has begun."""

    def _known(self, pose: Array) -> Course:
        """Known part of the course at a pose (3,): all of it."""
        return self._course


def decide(
    courses: Sequence[Course], poses: Array, turned_rad: Sequence[float], times_s: Sequence[float]
) -> Array:
    """Latent commands (n, 2) of n robots, each on its own course, to hold for `HOLD_STEPS`.

    Args:
        courses: What `learn` returned for each.
        poses: Positions [m] and headings [rad] (n, 3).
        turned_rad: Turns since the last decision [rad].
        times_s: Times since the resets [s].
    """
    from pixelgait.sim.tasks.teacher_kernels import decision

    latents = np.empty((len(courses), 2))
    rows = zip(courses, poses.tolist(), turned_rad, times_s, strict=True)
    for i, (course, (x, y, yaw), turned, time_s) in enumerate(rows):
        latents[i] = decision(course, x, y, yaw, turned, time_s)
    return latents


def learn(scene: Scene, layout: Layout, height_m: float) -> Course:
    """The course of a scene's last layout, for a robot of a height [m].

    Raises:
        UserError: if a user's scene has no path to its goal position.
    """
    from pixelgait.sim.tasks.teacher_kernels import Course

    height_m = max(height_m, HEADROOM_M)
    area = walk_map(scene, layout, height_m)
    goals = _goals(scene, area)
    costs = area.costs_to_go(goals)
    if scene.goal_position is not None and not scene.draws_reachable_goals:
        _require_path(scene, layout.start, area, costs)
    movers = moving_obstacles(scene, layout, height_m)
    return Course(
        area.free,
        area.turnable,
        area.counts,
        costs,
        np.array(area.corner_m),
        area.solid,
        goals,
        np.array([each.box.half_m[:2] for each in movers], np.float64).reshape(-1, 2),
        motions_of([(each.motion, each.own) for each in movers]),
    )


def _require_path(scene: Scene, start: Pose, area: TraversabilityMap, costs: Array) -> None:
    """Raises UserError if there is no path to the goal position: nothing could be learned."""
    x, y = map(float, scene.goal_position)  # type: ignore[arg-type]
    where = f"scene {scene.name}: no path to its goal position ({x:g}, {y:g})"
    furthest_m = reach_m(scene, start) - HALF_WIDTH_M  # the map's edge is a wall
    if max(abs(x - start.x), abs(y - start.y)) > furthest_m:
        raise UserError(
            f"{where} from the start ({start.x:g}, {start.y:g}): the teacher's map ends there, "
            f"expected within {furthest_m:g} m along x and y"
        )
    # The goal is the free cell nearest to the goal position; only its cost is zero.
    row, column = np.unravel_index(np.argmin(costs), costs.shape)
    end_x, end_y = area.place((int(row), int(column)))
    if math.hypot(end_x - x, end_y - y) > ARRIVAL_M:
        raise UserError(
            f"{where}: the nearest position with room for a robot that can be reached is "
            f"({end_x:.2f}, {end_y:.2f}), expected one within {ARRIVAL_M:g} m"
        )


def steer(error_rad: float) -> Decision:
    """The decision for a heading error [rad]: the straighter ahead, the faster."""
    from pixelgait.sim.tasks.teacher_kernels import steered

    return Decision(np.array(steered(float(error_rad))), HOLD_STEPS)


def _goals(scene: Scene, area: TraversabilityMap) -> NDArray[np.int64]:
    """Cells (n, 2) where the path ends: goal position, goal line, or as far as the map goes."""
    places = area.places(area.cells)
    if scene.goal_position is not None:
        away = np.hypot(*(places - scene.goal_position).T)
        return np.asarray(area.cells[[away.argmin()]])
    progress = scene.progresses_m(places)
    return np.asarray(area.cells[progress >= min(scene.goal_m + BEYOND_M, progress.max())])
