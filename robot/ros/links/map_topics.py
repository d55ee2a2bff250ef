"""Depth images for the local map, and the map for others: OccupancyGrid and heights."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import CameraInfo

from pixelgait.robot.errors import UserError
from pixelgait.robot.mapping.local_map import ASIDE_M, BEHIND_M, CELL_M, Surroundings
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DEPTH, LOCAL_HEIGHTS, LOCAL_MAP
from pixelgait.robot.ros.links.camera import forms
from pixelgait.robot.ros.links.topic_driver import NewestMessages
from pixelgait.robot.runtime.map_feed import MapFeed
from pixelgait.robot.spec import RobotSpec

INFO = "camera/depth/camera_info"
DEPTH_WAIT_S = 10.0  # as for the sensors; assumption


class MapTopics(MapFeed):
    """A local map of the images on the depth topic.

    Depth is subscribed here, whatever the policy sees: with cmd_vel it sees nothing.
    """

    def __init__(
        self,
        node: Any,
        spec: RobotSpec,
        aspect: float,
        guards: Callable[[], bool],
        scans: bool = False,
    ) -> None:
        super().__init__(spec, aspect, guards, scans)
        self._messages = NewestMessages(node, {DEPTH: ros2.Image}, {DEPTH: forms(DEPTH)})
        self._infos = ros2.subscribe(node, CameraInfo, INFO)

    def take_depth(self) -> Iterator[Any]:
        return (message for _, message in self._messages.take())

    def take_info(self) -> Any | None:
        return ros2.take(self._infos)

    def require_depth(self, stop: Event) -> None:
        """Wait for a first depth image, if a low level observes the ground.

        Raises:
            UserError: none comes.
        """
        deadline = time.monotonic() + DEPTH_WAIT_S
        while self._scans and not stop.wait(0.02):
            if any(self._messages.take()):
                return
            if time.monotonic() > deadline:
                raise UserError(
                    f"the low level observes height_scan: no depth image on {DEPTH} for "
                    f"{DEPTH_WAIT_S:g} s; start a depth camera"
                )

    def forget(self) -> None:
        self._messages.forget()
        super().forget()


class MapPublishers:
    """Publishes `~/local_map` (nav_msgs/OccupancyGrid) and `~/local_heights` in the base's frame.

    The heights (sensor_msgs/Image, 32FC1) are of the ground above that under the feet [m], the
    first row ahead, the first column left; NaN is unseen.
    """

    def __init__(self, node: Any, base_frame: str) -> None:
        self._node, self._frame = node, base_frame
        self._grid = node.create_publisher(OccupancyGrid, f"~/{LOCAL_MAP}", 1)
        self._heights = node.create_publisher(ros2.Image, f"~/{LOCAL_HEIGHTS}", 1)
        self._published: Surroundings | None = None

    def publish(self, around: Surroundings | None) -> None:
        """Publish the newest map, once, to subscribers."""
        if around is None or around is self._published:
            return
        self._published, time_ns = around, round(around.time_s * 1e9)
        if self._grid.get_subscription_count():
            self._grid.publish(occupancy(around, self._frame))
        if self._heights.get_subscription_count():
            self._heights.publish(ros2.image_message(time_ns, self._frame, around.ground))

    def close(self) -> None:
        """Stop publishing."""
        for publisher in (self._grid, self._heights):
            self._node.destroy_publisher(publisher)


def occupancy(around: Surroundings, frame: str) -> Any:
    """The map as an OccupancyGrid: 0 ground, 100 an obstacle, -1 unseen."""
    cells = np.where(around.obstacles(), 100, np.where(np.isnan(around.ground), -1, 0))
    cells = cells[::-1, ::-1].astype(np.int8)  # along x from behind, along y from the right
    message = OccupancyGrid()
    message.header.stamp = message.info.map_load_time = ros2.stamp(round(around.time_s * 1e9))
    message.header.frame_id = frame
    message.info.resolution = CELL_M
    message.info.width, message.info.height = cells.shape
    origin = message.info.origin
    origin.position.x, origin.position.y, origin.orientation.w = -BEHIND_M, -ASIDE_M, 1.0
    message.data = array("b", cells.T.tobytes())  # a list would be checked item by item
    return message
