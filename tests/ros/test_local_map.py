"""Local map between processes: a robot that cmd_vel drives towards a wall stands before it."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.interface import Image as Frame
from pixelgait.robot.interface import Reading
from pixelgait.robot.spec import A1
from tests.ros.support import AUTO, Client, Processes
from tests.ros.test_goals import Wire

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
    assert abs(places[-1] + np.median(cells[:, 0]) - WALL_M) < 0.15
    assert len(_places(grids[-1], 0)) > 200
    ground = np.frombuffer(heights[-1].data, np.float32)
    assert abs(np.nanmedian(ground)) < 0.03


class Node:
    """The part of a node that the map's topics use."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.wires: dict[str, Wire] = {}

    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=round(self.now_s * 1e9)))

    def create_subscription(self, _: object, topic: str, *__: object, **___: object) -> Wire:
        self.wires[topic] = Wire()
        return self.wires[topic]


def test_depth_is_used_with_its_own_lens_and_its_holes() -> None:
    """A wall 1 m ahead, in millimetres; the left half was not measured; the lens is a tele lens."""
    from sensor_msgs.msg import CameraInfo, Image

    from pixelgait.robot.control.controller import latent_for
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.ros.links.map_topics import MapTopics, occupancy

    node = Node()
    topics = MapTopics(node, A1, 1.5, lambda: True)
    stamp = ros2.stamp(round(node.now_s * 1e9))
    millimetres = np.full((120, 160), 1000, np.uint16)
    millimetres[:, :60], millimetres[:, 60:80] = 0, 65535
    image = Image(height=120, width=160, step=320, encoding="16UC1")
    image.header.stamp, image.data = stamp, millimetres.tobytes()
    info = CameraInfo(height=240, width=320, binning_x=2, binning_y=2)
    info.k = [800.0, 0.0, 159.5, 0.0, 800.0, 119.5, 0.0, 0.0, 1.0]  # of the whole sensor
    unseen = Frame(np.zeros((1, 1, 1), np.uint8), 0.0)
    reading = Reading(
        node.now_s, A1.default_pose_rad, *[np.zeros(n) for n in (12, 4, 3)], lambda: unseen
    )
    reading.orientation[3] = 1.0

    assert topics.look_ahead(reading, None, latent_for(0.4, 0.0)) == 0.0
    assert topics.status() == (False, "no map: no odometry, the robot stands")
    reading = replace(reading, odometry=np.zeros(3))
    node.wires["camera/depth/camera_info"].waiting.append(info)
    node.wires["camera/depth/image_rect_raw"].waiting.append(image)
    assert math.isinf(topics.look_ahead(reading, None, latent_for(0.4, 0.0)))
    assert topics.status() == (True, "the way is free")
    assert topics.around is not None
    wall = _places(occupancy(topics.around, "base_link"), 0)
    assert len(wall) > 3
    left = wall[wall[:, 0] > 1.0, 1]  # a wall from the middle to 0.2 m on the right
    assert -0.25 < left.min() < -0.15
    assert left.max() < 0.05
    image.encoding = "8UC4"
    image.header.stamp = ros2.stamp(round(node.now_s * 1e9) + 1000)
    node.wires["camera/depth/image_rect_raw"].waiting.append(image)
    topics.look_ahead(reading, None, latent_for(0.4, 0.0))
    assert "encoding '8UC4' is not supported" in topics.status()[1]


def _places(grid: Any, value: int) -> Any:
    """Places (n, 2) [m] of the cells with a value, in the base's frame."""
    info, origin = grid.info, grid.info.origin.position
    cells = np.array(grid.data).reshape(info.height, info.width)
    y, x = ((each + 0.5) * info.resolution for each in np.nonzero(cells == value))
    return np.stack((origin.x + x, origin.y + y), -1)
