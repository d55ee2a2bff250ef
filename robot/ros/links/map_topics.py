"""Depth images for the local map, and the map for others: OccupancyGrid and heights."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import CameraInfo

from pixelgait.robot.control.controller import velocity
from pixelgait.robot.control.image_decoding import depth_part
from pixelgait.robot.control.lens import calibrated
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.interface import Reading
from pixelgait.robot.mapping.depth_view import Lens
from pixelgait.robot.mapping.local_map import ASIDE_M, BEHIND_M, CELL_M, Surroundings
from pixelgait.robot.mapping.mapper import Mapper
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DEPTH, LOCAL_HEIGHTS, LOCAL_MAP
from pixelgait.robot.ros.links.camera import forms
from pixelgait.robot.ros.links.topic_driver import NewestMessages
from pixelgait.robot.spec import Array, RobotSpec

INFO = "camera/depth/camera_info"


class MapTopics:
    """Feeds a `Mapper` after every control step, in the control thread.

    Depth is subscribed here, whatever the policy sees: with cmd_vel it sees nothing. `guards()`
    says whether obstacles stop the robot.
    """

    def __init__(
        self, node: Any, spec: RobotSpec, aspect: float, guards: Callable[[], bool]
    ) -> None:
        self.mapper, self._guards = Mapper(spec, aspect), guards
        self._messages = NewestMessages(node, {DEPTH: ros2.Image}, {DEPTH: forms(DEPTH)})
        self._infos = ros2.subscribe(node, CameraInfo, INFO)
        self._lens: tuple[int, int, Lens] | None = None  # height and width of its images
        self._free_m = math.inf
        self.problem: str | None = None  # why depth cannot be used

    @property
    def around(self) -> Surroundings | None:
        """The newest map; from any thread."""
        return self.mapper.around

    def look_ahead(self, reading: Reading, motion: Motion | None, wanted: Array) -> float:
        """Update the map; returns the free way [m] under a wanted latent command."""
        self.mapper.step(reading, motion)
        try:
            for _, message in self._messages.take():
                self._take(message)
        except UserError as error:  # the map is not worth a fault
            self.problem = str(error)
        free_m = self.mapper.free_m(velocity(wanted)) if self._guards() else math.inf
        self._free_m = free_m
        return free_m

    def _take(self, message: Any) -> None:
        """Fuse a depth image; raises a UserError as `depth_part`."""
        if self._lens is None and (info := ros2.take(self._infos)) is not None:
            self._lens = _lens(info)
        height, width = message.height, message.width
        known = self._lens is not None and self._lens[:2] == (height, width)
        view = self.mapper.view(height, width, self._lens[2] if self._lens and known else None)
        depth, self.problem = depth_part(message, view.used), None
        self.mapper.add(ros2.seconds(message.header.stamp), depth, view)

    def forget(self) -> None:
        """Start anew, as after the robot was carried."""
        self._messages.forget()
        self.mapper.forget()

    def status(self) -> tuple[bool, str]:
        """For the diagnostics: whether all is well, and a description; from any thread."""
        if blind := self.problem or self.mapper.blind:
            return False, f"no map: {blind}" + (", the robot stands" if self._guards() else "")
        if self._free_m < math.inf:
            return False, f"an obstacle {self._free_m:.2f} m ahead, the robot stands or turns"
        return True, "the way is free" if self._guards() else "without a guard"


def _lens(info: Any) -> tuple[int, int, Lens] | None:
    """Height, width and lens of a CameraInfo's images; None: it is not calibrated."""
    if not calibrated(info):
        return None
    down, across, roi = info.binning_y or 1, info.binning_x or 1, info.roi
    height, width = (roi.height or info.height) // down, (roi.width or info.width) // across
    x, y = (info.k[2] - roi.x_offset) / across, (info.k[5] - roi.y_offset) / down
    return height, width, Lens(info.k[0] / across, info.k[4] / down, x, y)


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
