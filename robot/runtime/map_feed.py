"""Feed of the local map with depth images and their lens, wherever they come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pixelgait.robot.control.controller import velocity
from pixelgait.robot.control.image_decoding import depth_part
from pixelgait.robot.control.lens import calibrated
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.interface import Reading
from pixelgait.robot.mapping.depth_view import Lens
from pixelgait.robot.mapping.local_map import Surroundings
from pixelgait.robot.mapping.mapper import Mapper
from pixelgait.robot.runtime.newest import stamp_s
from pixelgait.robot.spec import Array, RobotSpec


class MapFeed:
    """Feeds a `Mapper` after every control step, in the control thread; a subclass takes images.

    `guards()` says whether obstacles stop the robot. With `scans` a low level observes the
    `height_scan`.
    """

    def __init__(
        self, spec: RobotSpec, aspect: float, guards: Callable[[], bool], scans: bool = False
    ) -> None:
        self.mapper, self._guards, self._scans = Mapper(spec, aspect), guards, scans
        self._lens: tuple[int, int, Lens] | None = None  # height and width of its images
        self._free_m = math.inf
        self.problem: str | None = None  # why depth cannot be used

    def take_depth(self) -> Iterator[Any]:
        """New depth images, as sensor_msgs/Image."""
        raise NotImplementedError

    def take_info(self) -> Any | None:
        """Their lens, as sensor_msgs/CameraInfo; None while it is unknown."""
        raise NotImplementedError

    @property
    def around(self) -> Surroundings | None:
        """The newest map; from any thread."""
        return self.mapper.around

    @property
    def height_scan(self) -> Array | None:
        """How far the ground is below the base [m], see `height_scan.POINTS`; None: not asked."""
        return self.mapper.height_scan().astype(np.float64) if self._scans else None

    def look_ahead(self, reading: Reading, motion: Motion | None, wanted: Array) -> float:
        """Update the map; returns the free distance [m] under a wanted latent command."""
        self.mapper.step(reading, motion)
        try:
            for message in self.take_depth():
                self._take(message)
        except UserError as error:  # the map is not worth a fault
            self.problem = str(error)
        free_m = self.mapper.free_m(velocity(wanted)) if self._guards() else math.inf
        self._free_m = free_m
        return free_m

    def _take(self, message: Any) -> None:
        """Fuse a depth image; raises a UserError as `depth_part`."""
        if self._lens is None and (info := self.take_info()) is not None:
            self._lens = _lens(info)
        height, width = message.height, message.width
        known = self._lens is not None and self._lens[:2] == (height, width)
        view = self.mapper.view(height, width, self._lens[2] if self._lens and known else None)
        depth, self.problem = depth_part(message, view.used), None
        self.mapper.add(stamp_s(message), depth, view)

    def forget(self) -> None:
        """Start anew, as after the robot was carried."""
        self.mapper.forget()

    @property
    def blind(self) -> str | None:
        """Why there is no map, in words; None if there is one. From any thread."""
        blind = self.problem or self.mapper.blind
        return blind and f"no map: {blind}" + (", the robot stands" if self._guards() else "")

    def status(self) -> tuple[bool, str]:
        """For the diagnostics: whether all is well, and a description; from any thread."""
        if blind := self.blind:
            return False, blind
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
