"""A map-aware high level: steers by the true pose and the true walls, as an upper bound."""

from __future__ import annotations

import math

from pixelgait.robot.controller import Decision
from pixelgait.sim.obstacle_course import ObstacleCourse
from pixelgait.sim.simulated_body import Walker
from pixelgait.sim.tasks import MAX_SPEED_M_PER_S, latent_for, planar_pose

HOLD_STEPS = 20
CLEARANCE_M = 0.45  # kept from wall ends and platform edges: half the robot's length and some air
APPROACH_M = 0.6  # be in front of the gap this far before the wall
TURN_GAIN = 2.0  # [1/s] yaw rate per heading error


class Teacher:
    """Walks to a point in front of the next gap, then through it."""

    def __init__(self, body: Walker) -> None:
        if not isinstance(body.scene, ObstacleCourse):
            raise ValueError(f"the teacher knows the obstacle course, not {body.scene.name}")
        self.body = body
        self.course = body.scene

    def decide(self, image: object) -> Decision:
        """The decision for where the robot is now, whatever the camera sees."""
        x, y, yaw = planar_pose(self.body)
        target_x, target_y = self.waypoint(x, y)
        error = math.atan2(target_y - y, target_x - x) - yaw
        error = (error + math.pi) % (2.0 * math.pi) - math.pi
        speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(1.5 * max(-1.0, min(1.0, error))))
        return Decision(latent_for(speed, TURN_GAIN * error), HOLD_STEPS)

    def waypoint(self, x: float, y: float) -> tuple[float, float]:
        """The point (x, y) [m] to walk to."""
        ahead = [wall for wall in self.course.walls if wall.x + CLEARANCE_M > x]
        if not ahead:
            return self.course.goal_m + 1.0, 0.0
        wall = ahead[0]
        low, high = wall.gap
        gap_y = min(max(y, low + CLEARANCE_M), high - CLEARANCE_M)
        in_front = abs(y - gap_y) < 0.1 or x > wall.x - APPROACH_M
        return (wall.x + 2.0 * CLEARANCE_M if in_front else wall.x - APPROACH_M, gap_y)
