"""Map image of a policy: how far it is to the goal from every place around the robot.

What the policy's own depth images have shown is kept by odometry: a camera that sees 60 to 82
degrees shows neither the chair beside the hip nor the room that was a dead end. On that map the
cost to go is planned with the freespace assumption (Koenig and Likhachev 2002, D* Lite, AAAI): what
is unseen is free. Drawn around the robot it is the policy's second image, below the camera's:
encoders see one image of both, whatever they are.

The image is in the heading frame: first row ahead, first column left. It is made of nothing but the
policy's input image, odometry, IMU and goal, so that it is the same in training, on the robot and
in a replay.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_RANGE_M
from pixelgait.robot.estimation.leg_odometry import up_in_base
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.mapping.depth_view import DepthView, Floats, depth_view, lens_of, unmixed
from pixelgait.robot.mapping.floor_fit import FloorFit
from pixelgait.robot.mapping.poses import Poses, jumped
from pixelgait.robot.mapping.ring import MASK, SIDE, Corner, around, cells_at, clear, corner_at
from pixelgait.robot.rotation import Vector, is_unit, rotation_at
from pixelgait.robot.spec import Array, CameraMount, RobotSpec

Bools = NDArray[np.bool_]
Spread = Callable[[Floats, Floats, Floats], None]  # see `spread_cost`

CELL_M = 0.1  # a ring of 12.8 m: the image fits at any heading
PIXEL_CELLS = 2  # each way
PIXEL_M = PIXEL_CELLS * CELL_M
PLANNED = SIDE // PIXEL_CELLS  # pixels each way on which the cost is planned
ROWS = 32  # of the image: 6.4 m
MOST_COLUMNS = 48
AHEAD_ROWS = 20  # of them in front of the robot's middle
# Values of pixels: HERE and PER_M for each metre that the goal is further from there than from
# here, up to MOST_VALUE; OBSTACLE.
HERE, PER_M, MOST_VALUE, OBSTACLE = 110, 12.0, 220, 255
# Cost of a metre in an obstacle, and within distances of one: the robot would touch it, has no room
# to turn, is nearer than a teacher goes (`sim/world/traversability.py`). It is finite in an
# obstacle, since a measurement may be wrong. Assumptions.
OBSTACLE_COST = 1000.0
WITHIN_M, WITHIN_COSTS = (0.27, 0.4, 0.5), (8.0, 3.0, 2.0)
FAR_M = 100.0  # of a goal, at most
SWEEPS, MOST_SWEEPS = 8, 96  # between two checks whether the cost still falls; limit, 65 are usual
# Assumptions: beside ground an obstacle rises by LEAST_M, more at a distance by what the trunk's
# pitch may be off; so does ground that lies deeper, such as a stair's head.
LEAST_M, LEAST_PER_M = 0.025, 0.02
PIT_M, PIT_PER_M = 0.2, 0.04
CLEARANCE_M = 0.1  # above the camera and the trunk: what is higher is no obstacle
WALKING_SHARE = 0.93  # of the standing height, while it walks
FARTHEST_M = 2.9  # of the depth that is used, less than the range's end
HIT, PASSED, MOST = 1, -1, 4  # evidence for an obstacle: steps, and its limit

# As it stands in the contract.
MAP_CONTRACT = {
    "frame": "heading, by odometry; rows from ahead, pixels from the left",
    "pixel_m": PIXEL_M,
    "rows_ahead": AHEAD_ROWS,
    "values": {"here": HERE, "per_m": PER_M, "most": MOST_VALUE, "obstacle": OBSTACLE},
    "cost": {"obstacle": OBSTACLE_COST, "within_m": list(WITHIN_M), "within": list(WITHIN_COSTS)},
    "obstacle_m": {"least": LEAST_M, "per_m": LEAST_PER_M, "pit": PIT_M, "pit_per_m": PIT_PER_M},
}


class PolicyMap:
    """The map of one policy: `step` in every control step, `seen` for every image it decides by.

    Without odometry nothing is seen; after a jump of it the map starts anew.
    """

    def __init__(
        self, spec: RobotSpec, height: int, width: int, spread: Spread | None = None
    ) -> None:
        """For images (height, width) of the robot's camera.

        `spread` is a faster way to the same costs, for simulations.
        """
        self._spread = spread or spread_cost
        self._stand_m, self._shape = spec.stand_height_m, (height, width)
        self._evidence = np.zeros(SIDE * SIDE, np.int8)  # for an obstacle
        self._places = _places(width)
        self.floor = FloorFit()
        self.mount(spec.camera)
        self.forget()

    def mount(self, mount: CameraMount) -> None:
        """The camera's mount, if it is another one."""
        height, width = self._shape
        lens = lens_of(mount, height, width, width / height)
        self._view: DepthView = depth_view(mount, height, width, lens)
        self._base_m = WALKING_SHARE * self._stand_m
        above = max(mount.position_m[2], self._stand_m / 4.0)
        self._ceiling_m = self._base_m + above + CLEARANCE_M

    def forget(self) -> None:
        """Start anew: nothing is seen."""
        self._place: Vector | None = None  # x, y [m], heading [rad]
        self._poses = Poses()
        self._evidence[:] = 0
        self.floor.forget()
        self._corner: Corner | None = None

    def step(self, reading: Reading) -> None:
        """Note where the robot is."""
        quaternion = reading.orientation.tolist()
        if reading.odometry is None or not is_unit(quaternion):
            return
        x, y, heading_rad = place = tuple(reading.odometry.tolist())
        if not math.isfinite(sum(place)):
            return
        if self._place is not None and jumped(self._place, place):
            self.forget()
        self._place = place
        rotation = rotation_at(up_in_base(quaternion), heading_rad)
        self._poses.add(reading.time_s, (x, y, 0.0), rotation)

    def seen(self, image: Image, goal: Array) -> NDArray[np.uint8]:
        """The map (ROWS, W) with a policy's newest image (H, W, C), fused at the pose of its stamp.

        Depth is the image's last channel. The goal (2,) is a distance [m] and a bearing [rad].
        """
        if self._place is None:
            return np.full(self._places.shape[1:], HERE, np.uint8)
        x, y, heading_rad = self._place
        if (pose := self._poses.at(image.time_s)) is not None:
            (taken_x, taken_y, _), rotation = pose
            self.add(image.pixels[..., -1], taken_x, taken_y, rotation)
        return self.image(x, y, heading_rad, goal)

    def add(self, depth: NDArray[np.uint8], x: float, y: float, rotation: Array) -> None:
        """Fuse depth (H, W) bytes, taken by a base at x, y [m] with this rotation (3, 3)."""
        self._scroll(x, y)
        axes = rotation.astype(np.float32)
        rays, (ahead, left, up) = axes @ self._view.rays, (axes @ self._view.position).tolist()
        eye_x, eye_y = np.float32(x + ahead), np.float32(y + left)
        along = unmixed(depth * np.float32(DEPTH_RANGE_M / 255.0)).ravel()
        to_x, to_y, height = rays * along
        measured = along < np.float32(FARTHEST_M)
        cos, sin = (rotation[:2, 0] / math.hypot(*rotation[:2, 0])).astype(np.float32)
        by_x, by_y = to_x + np.float32(ahead), to_y + np.float32(left)  # from the base
        height += np.float32(up + self._base_m)
        height = self.floor.heights(
            by_x * cos + by_y * sin, by_y * cos - by_x * sin, height, measured
        )
        away = np.sqrt(to_x * to_x + to_y * to_y)
        rises = height > np.float32(LEAST_M) + np.float32(LEAST_PER_M) * away
        rises &= height < np.float32(self._ceiling_m)
        falls = height < np.float32(-PIT_M) - np.float32(PIT_PER_M) * away
        hit = (rises | falls) & measured
        xs, ys = self._passed(rays, away, hit, measured)
        passed = cells_at(xs + eye_x, ys + eye_y, CELL_M)
        hits = cells_at(to_x[hit] + eye_x, to_y[hit] + eye_y, CELL_M)
        evidence = self._evidence
        evidence[passed] = np.maximum(evidence[passed] + PASSED, -MOST)
        evidence[hits] = np.minimum(np.maximum(evidence[hits], 0) + HIT, MOST)

    def _passed(
        self, rays: Floats, away: Floats, hit: Bools, measured: Bools
    ) -> tuple[Floats, Floats]:
        """Places that the camera sees through, from its own [m]: in every column of its image up to
        the nearest obstacle, or else to the farthest thing.
        """
        shape = self._shape
        nearest = np.where(hit, away, np.float32(np.inf)).reshape(shape).min(0)
        farthest = np.where(measured, away, np.float32(0.0)).reshape(shape).max(0)
        reach = np.minimum(nearest - np.float32(CELL_M), farthest)
        x, y = rays.reshape(3, *shape)[:2, shape[0] // 2]
        scale = 1.0 / np.sqrt(x * x + y * y)
        inside = reach > STEPS_M
        return (STEPS_M * (x * scale))[inside], (STEPS_M * (y * scale))[inside]

    def image(self, x: float, y: float, heading_rad: float, goal: Array) -> NDArray[np.uint8]:
        """The map (ROWS, W) around a base at this place [m] and heading.

        The goal (2,) is a distance [m], which may be inf, and a bearing [rad].
        """
        self._scroll(x, y)
        corner = [math.floor(at / PIXEL_M) - PLANNED // 2 for at in (x, y)]
        first, second = ((each * PIXEL_CELLS + np.arange(SIDE)) & MASK for each in corner)
        solid = (self._evidence.reshape(SIDE, SIDE)[np.ix_(first, second)] > 0).astype(np.uint8)
        away_m, bearing_rad = min(float(goal[0]), FAR_M), heading_rad + float(goal[1])
        to_x = (x + away_m * math.cos(bearing_rad)) / PIXEL_M - corner[0]
        to_y = (y + away_m * math.sin(bearing_rad)) / PIXEL_M - corner[1]
        cost, blocked = _cost_m(solid, to_x, to_y, self._spread)
        row, column = math.floor(x / PIXEL_M) - corner[0], math.floor(y / PIXEL_M) - corner[1]
        here = cost[row, column]
        if blocked[row, column]:  # by a false obstacle: the robot stands there
            here = cost[row - 1 : row + 2, column - 1 : column + 2].min()
        value = np.float32(HERE) + np.float32(PER_M) * (cost - here)
        value = np.clip(value, 0.0, MOST_VALUE, dtype=np.float32)
        rows, columns = (
            at * np.float32(1.0 / PIXEL_M) - np.float32(at_0)
            for at, at_0 in zip(around(self._places, x, y, heading_rad), corner, strict=True)
        )
        half = np.float32(0.5)  # from a pixel's corner to its middle
        image = np.rint(cv2.remap(value, columns - half, rows - half, cv2.INTER_LINEAR))
        image[blocked[rows.astype(int), columns.astype(int)]] = OBSTACLE
        return np.asarray(image, np.uint8)

    def _scroll(self, x: float, y: float) -> None:
        """Forget what is out of reach of a robot at x, y [m]."""
        corner = corner_at(x, y, CELL_M)
        if corner != self._corner:
            clear(self._evidence.reshape(SIDE, SIDE), self._corner or corner, corner, 0)
            self._corner = corner


def _places(width: int) -> Floats:
    """Middles of the pixels of an image of this width (2, ROWS, width): ahead and left of the base
    [m].
    """
    ahead = (AHEAD_ROWS - np.arange(ROWS, dtype=np.float32) - np.float32(0.5)) * PIXEL_M
    left = (width / 2 - np.arange(width, dtype=np.float32) - np.float32(0.5)) * PIXEL_M
    return np.stack(np.meshgrid(ahead, left, indexing="ij")).astype(np.float32)


def _cost_m(
    solid: NDArray[np.uint8], to_x: float, to_y: float, spread: Spread
) -> tuple[Floats, Bools]:
    """Cost to go [m] from every pixel (PLANNED, PLANNED), and whether it is an obstacle.

    `solid` (SIDE, SIDE) are the cells of obstacles. The goal is at pixel (to_x, to_y), maybe
    outside: then it is reached through the nearest edge in a straight line.
    """
    blocked = _pixels(solid)
    away = cv2.distanceTransform(1 - solid, cv2.DIST_L2, 3)
    each = COSTS[np.searchsorted(WITHIN_CELLS, away)]
    metre = each.reshape(PLANNED, PIXEL_CELLS, PLANNED, PIXEL_CELLS).mean((1, 3))
    metre[blocked] = OBSTACLE_COST
    straight, diagonal = metre * np.float32(PIXEL_M), metre * np.float32(PIXEL_M * math.sqrt(2.0))
    cost = np.full((PLANNED, PLANNED), UNREACHED_M, np.float32)
    if 0.0 <= to_x < PLANNED and 0.0 <= to_y < PLANNED:
        cost[int(to_x), int(to_y)] = 0.0
    else:
        beyond = np.hypot(EDGE[0] + 0.5 - to_x, EDGE[1] + 0.5 - to_y) * PIXEL_M
        cost[EDGE[0], EDGE[1]] = beyond + straight[EDGE[0], EDGE[1]]
    spread(cost, straight, diagonal)
    return cost, blocked


def spread_cost(cost: Floats, straight: Floats, diagonal: Floats) -> None:
    """Lower costs (n, m) in place to those by way of the pixels beside, and a step to this one."""
    before, least = math.inf, np.empty_like(cost)
    for sweep in range(MOST_SWEEPS):
        for beside, step in ((CROSS, straight), (SQUARE, diagonal)):
            cv2.add(cv2.erode(cost, beside, dst=least), step, dst=least)
            cv2.min(cost, least, dst=cost)
        if sweep % SWEEPS == 0:
            total = float(cost.sum())
            if total == before:
                break
            before = total


def _pixels(cells: NDArray[np.uint8]) -> Bools:
    """Pixels (PLANNED, PLANNED) of which a cell (SIDE, SIDE) is set."""
    parts = cells.reshape(PLANNED, PIXEL_CELLS, PLANNED, PIXEL_CELLS)
    return np.asarray(parts.max((1, 3)) > 0)


UNREACHED_M = 1e6
WITHIN_CELLS = np.array(WITHIN_M, np.float32) / np.float32(CELL_M)
COSTS = np.array((*WITHIN_COSTS, 1.0), np.float32)
RAY_CELLS = np.arange(1, round(FARTHEST_M / CELL_M) + 1, dtype=np.float32)
STEPS_M = np.float32(CELL_M) * RAY_CELLS[:, None]  # along a ray (n, 1)
CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
SQUARE = cv2.getStructuringElement(cv2.MORPH_RECT, (3, 3))
# Rows and columns (2, n) of the pixels at the edge.
EDGE = np.array(np.nonzero(np.pad(np.zeros((PLANNED - 2, PLANNED - 2)), 1, constant_values=1)))
