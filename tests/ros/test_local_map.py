"""Local map between processes: a robot that cmd_vel drives towards a wall stands before it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.ros.support import AUTO, Client, Processes

WALL = """
from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene

class Wall(Scene):
    name = "wall"
    fixed = (Plane(), Box(Pose(1.6, 0.0, 0.3), (0.1, 1.5, 0.3), (0.6, 0.6, 0.6)))

    def __init__(self, difficulty):
        pass

    def layout(self, rng):
        return Layout(Pose(0.0, 0.0, 0.0))
"""
WALL_M = 1.5


@pytest.mark.slow
def test_a_robot_that_is_driven_towards_a_wall_stands_before_it(
    processes: Processes, client: Client
) -> None:
    from geometry_msgs.msg import Twist
    from nav_msgs.msg import OccupancyGrid, Odometry
    from sensor_msgs.msg import Image

    from pixelgait.robot.ros.common import ros2

    scene = processes.folder / "wall.py"
    scene.write_text(WALL)
    processes.start("pixelgait-sim", "--scene", scene)
    guard = ("-p", "collision_guard:=true")
    processes.start("pixelgait-run", "walk", "--map", *AUTO, *guard)
    statuses, grids, heights, places = client.diagnose(), [], [], []  # type: ignore[var-annotated]
    client.node.create_subscription(OccupancyGrid, "pixelgait/local_map", grids.append, 1)
    client.node.create_subscription(Image, "pixelgait/local_heights", heights.append, 1)

    def keep(message: Any) -> None:
        places.append(message.pose.pose.position.x)

    client.node.create_subscription(Odometry, "ground_truth/odom", keep, ros2.SENSOR_QOS)
    commands = client.node.create_publisher(Twist, "cmd_vel", 1)
    ahead = Twist()
    ahead.linear.x = 0.4
    timer = client.node.create_timer(0.05, lambda: commands.publish(ahead))
    client.wait_for_state("walking")
    client.spin(lambda: "map" in statuses and "an obstacle" in statuses["map"].message)
    client.spin_for(3.0)
    timer.cancel()

    assert WALL_M - 0.7 < places[-1] < WALL_M - 0.25  # its front is 0.2 m ahead
    assert abs(places[-1] - places[-60]) < 0.1  # it stands
    cells = _places(grids[-1], 100)
    assert abs(np.median(cells[:, 0]) - WALL_M) < 0.15
    assert len(_places(grids[-1], 0)) > 200
    ground = np.frombuffer(heights[-1].data, np.float32)
    assert abs(np.nanmedian(ground)) < 0.03


def _places(grid: Any, value: int) -> Any:
    """Places (n, 2) [m] of the cells with a value, in the grid's frame."""
    info = grid.info
    cells = np.array(grid.data).reshape(info.height, info.width)
    y, x = ((each + 0.5) * info.resolution for each in np.nonzero(cells == value))
    q, origin = info.origin.orientation, info.origin.position
    cos, sin = math.cos(2.0 * math.atan2(q.z, q.w)), math.sin(2.0 * math.atan2(q.z, q.w))
    return np.stack((origin.x + cos * x - sin * y, origin.y + sin * x + cos * y), -1)
