"""A map-aware high level: steers by the true pose and the true map, as an upper bound."""

from __future__ import annotations

import math
from collections.abc import Callable

from pixelgait.robot.controller import MAX_SPEED_M_PER_S, Decision, latent_for
from pixelgait.robot.errors import UserError
from pixelgait.robot.rotation import wrap_angle
from pixelgait.sim.body.interface import Walker
from pixelgait.sim.scenes.distractors import Distracted
from pixelgait.sim.scenes.indoor import Indoor
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.scene import Scene

HOLD_STEPS = 20
CLEARANCE_M = 0.45  # kept from wall ends and platform edges: half the robot's length and some air
APPROACH_M = 0.6  # be in front of the gap this far before the wall
LOOK_CELLS = 5  # indoors it walks to where its way is after half a metre
TURN_GAIN = 2.0  # [1/s] yaw rate per heading error

Waypoint = Callable[[float, float], tuple[float, float]]  # from x, y [m] to where to walk next


class Teacher:
    """Knows the way: past the walls of an obstacle course, or through a house; see `guide`."""

    def __init__(self, body: Walker) -> None:
        self.body = body
        self.waypoint = guide(body.scene)

    def decide(self, image: object) -> Decision:
        """The decision for where the robot is now, whatever the camera sees."""
        x, y, yaw = planar_pose(self.body)
        target_x, target_y = self.waypoint(x, y)
        error = wrap_angle(math.atan2(target_y - y, target_x - x) - yaw)
        speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(1.5 * max(-1.0, min(1.0, error))))
        return Decision(latent_for(speed, TURN_GAIN * error), HOLD_STEPS)


def guide(scene: Scene) -> Waypoint:
    """What says where to walk next in a scene.

    Raises:
        UserError: the teacher does not know this scene.
    """
    if isinstance(scene, Distracted):
        return guide(scene.scene)
    if isinstance(scene, ObstacleCourse):
        return lambda x, y: _through_gaps(scene, x, y)
    if isinstance(scene, Indoor):
        return lambda x, y: scene.map.ahead(scene.distances, x, y, LOOK_CELLS)
    known = f"the teacher knows its way on {ObstacleCourse.name} and indoors"
    raise UserError(f"{known}, not on '{scene.name}'")


def _through_gaps(course: ObstacleCourse, x: float, y: float) -> tuple[float, float]:
    """A point in front of the next gap, then behind it."""
    ahead = [wall for wall in course.walls if wall.x + CLEARANCE_M > x]
    if not ahead:
        return course.goal_m + 1.0, 0.0
    wall = ahead[0]
    low, high = wall.gap
    gap_y = min(max(y, low + CLEARANCE_M), high - CLEARANCE_M)
    in_front = abs(y - gap_y) < 0.1 or x > wall.x - APPROACH_M
    return (wall.x + 2.0 * CLEARANCE_M if in_front else wall.x - APPROACH_M, gap_y)
