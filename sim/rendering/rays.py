"""Ray casting: depth and shapes of upright boxes and height fields, for many cameras at once.

Kernels are compiled for the processor by Numba. A box is tested only against the pixels of its
bounding rectangle in the image, near boxes first; boxes behind what is drawn already are skipped.
Rays have length 1 along the optical axis, so that distances along them are depths.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.geometry import SKY, Floats
from pixelgait.sim.world.compiled import compiled

NEAR = np.float32(1e-3)  # [m] ahead of the eye: edges of boxes are clipped there
LEAST = np.float32(1e-9)  # component of a ray: keeps inverses finite
SLACK = np.float32(0.01)  # [pixels] around bounding rectangles, against rounding
ZERO, ONE, HALF, FAR_AWAY = (np.float32(value) for value in (0.0, 1.0, 0.5, 1e9))
STEPS, HALVINGS = 20, 5  # along a ray between a height field's lowest and highest point


@compiled
def cast(
    boxes: Floats,
    which: NDArray[np.int64],
    counts: NDArray[np.int64],
    fields: Array,
    heights: Floats,
    eyes: Floats,
    axes: Floats,
    focals: Floats,
    far: np.float32,
    depth: Floats,
    shapes: NDArray[np.int32],
) -> None:
    """Depth and shapes of n frames of height H and width W.

    Args:
        boxes: (n, K, 8) of the shapes in each frame: middle x, y, z, half x, y, z [m], cosine
            and sine of the yaw.
        which: (n, k) indices of the boxes to draw; the first `counts` of them count.
        counts: (n,)
        fields: (K, 4): of a height field within a box its first index in `heights`, its
            rows, its columns, and the distance between its points [m]; 0 rows: a solid box.
        heights: (m,) heights of all fields' points over their boxes' middles [m].
        eyes: (n, 3) [m].
        axes: (n, 3, 3) forward, right and up of each camera in the world.
        focals: (n,) focal lengths [pixels].
        far: range along the optical axis [m].
        depth: (n, H, W) written: [m] along the optical axis, `far` at most.
        shapes: (n, H, W) written: index of the shape in each pixel, or `SKY`.
    """
    n, height, width = depth.shape
    us = np.arange(width).astype(np.float32) - (HALF * np.float32(width) - HALF)
    vs = (HALF * np.float32(height) - HALF) - np.arange(height).astype(np.float32)
    corners, edges = np.empty((12, 3), np.float32), np.empty((32, 3), np.float32)
    most = boxes.shape[1]
    nearest, queue, bounds = (
        np.empty(most, np.float32),
        np.empty(most, np.int64),
        np.empty((most, 4), np.int64),
    )
    for i in range(n):
        depth[i], shapes[i] = far, SKY
        eye, ax = eyes[i], axes[i]
        waiting = 0
        for j in range(counts[i]):
            k = which[i, j]
            near = _bounds(
                boxes[i, k], eye, ax, focals[i], far, height, width, bounds[k], corners, edges
            )
            if near < far:
                at = waiting
                while at > 0 and nearest[at - 1] > near:
                    nearest[at], queue[at] = nearest[at - 1], queue[at - 1]
                    at -= 1
                nearest[at], queue[at] = near, k
                waiting += 1
        for at in range(waiting):
            k = queue[at]
            box, window, name = boxes[i, k], bounds[k], np.int32(k)
            if _hidden(depth[i], window, nearest[at]):
                continue
            if fields[k, 1] > 0.0:
                field = fields[k]
                _draw_field(
                    box,
                    field,
                    heights,
                    eye,
                    ax,
                    focals[i],
                    us,
                    vs,
                    window,
                    depth[i],
                    shapes[i],
                    name,
                )
            else:
                _draw(box, eye, ax, focals[i], us, vs, window, depth[i], shapes[i], name)


@compiled
def _hidden(depth: Floats, window: NDArray[np.int64], near: np.float32) -> bool:
    """Whether all of a window (4,) of an image is nearer than a depth."""
    for row in range(window[0], window[1]):
        line, beyond = depth[row, window[2] : window[3]], 0
        for i in range(len(line)):
            beyond |= line[i] > near
        if beyond:
            return False
    return True


@compiled
def _bounds(
    box: Floats,
    eye: Floats,
    axes: Floats,
    focal: np.float32,
    far: np.float32,
    height: int,
    width: int,
    bounds: NDArray[np.int64],
    corners: Floats,
    edges: Floats,
) -> np.float32:
    """Least depth of a box [m], or `far` if it is out of the picture; writes its rectangle.

    `bounds` (4,): rows from, to, columns from, to.
    """
    x, y, z = box[0] - eye[0], box[1] - eye[1], box[2] - eye[2]
    cos, sin = box[6], box[7]
    for i in range(3):  # middle and half edges along the optical axis, to the right and up
        a, b, c = axes[i, 0], axes[i, 1], axes[i, 2]
        corners[8, i] = a * x + b * y + c * z
        corners[9, i] = (a * cos + b * sin) * box[3]
        corners[10, i] = (b * cos - a * sin) * box[4]
        corners[11, i] = c * box[5]
    # A box around it along these axes, quick to reject.
    reach = abs(corners[9, 0]) + abs(corners[10, 0]) + abs(corners[11, 0])
    if corners[8, 0] + reach < NEAR or corners[8, 0] - reach > far:
        return far
    for i, pixels in ((1, width), (2, height)):
        aside = abs(corners[8, i]) - abs(corners[9, i]) - abs(corners[10, i]) - abs(corners[11, i])
        if aside * focal > (corners[8, 0] + reach) * HALF * np.float32(pixels):
            return far
    inside = 0
    for j in range(8):
        sx, sy, sz = ONE if j & 1 else -ONE, ONE if j & 2 else -ONE, ONE if j & 4 else -ONE
        for i in range(3):
            corners[j, i] = (
                corners[8, i] + sx * corners[9, i] + sy * corners[10, i] + sz * corners[11, i]
            )
        if corners[j, 0] > NEAR:
            for i in range(3):
                edges[inside, i] = corners[j, i]
            inside += 1
    if inside < 8:
        for j in range(8):
            for bit in (1, 2, 4):
                other = j | bit
                if other != j and (corners[j, 0] > NEAR) != (corners[other, 0] > NEAR):
                    share = (NEAR - corners[j, 0]) / (corners[other, 0] - corners[j, 0])
                    edges[inside, 0] = NEAR
                    for i in range(1, 3):
                        edges[inside, i] = corners[j, i] + share * (
                            corners[other, i] - corners[j, i]
                        )
                    inside += 1
    low_u, high_u, low_v, high_v = FAR_AWAY, -FAR_AWAY, FAR_AWAY, -FAR_AWAY
    for j in range(inside):
        scale = focal / edges[j, 0]
        u, v = edges[j, 1] * scale, -edges[j, 2] * scale
        low_u, high_u, low_v, high_v = min(low_u, u), max(high_u, u), min(low_v, v), max(high_v, v)
    bounds[0], bounds[1] = _covered(low_v, high_v, height)
    bounds[2], bounds[3] = _covered(low_u, high_u, width)
    if bounds[0] >= bounds[1] or bounds[2] >= bounds[3]:
        return far
    return max(corners[8, 0] - reach, ZERO)


@compiled
def _covered(low: np.float32, high: np.float32, count: int) -> tuple[int, int]:
    """First pixel, and the one after the last, with a centre between two offsets."""
    half = HALF * np.float32(count)
    first = math.ceil(min(max(low + half - HALF - SLACK, ZERO), np.float32(count)))
    last = math.floor(min(max(high + half - HALF + SLACK, -ONE), np.float32(count)))
    return first, min(last, count - 1) + 1


@compiled
def _in_box_frame(box: Floats, vector: Any) -> tuple[np.float32, np.float32, np.float32]:
    """A vector (3,) of the world along the box's own axes."""
    cos, sin = box[6], box[7]
    return cos * vector[0] + sin * vector[1], cos * vector[1] - sin * vector[0], vector[2]


@compiled
def _middle(box: Floats, eye: Floats) -> tuple[np.float32, np.float32, np.float32]:
    """Middle of a box seen from the eye [m], along the box's own axes."""
    return _in_box_frame(box, (box[0] - eye[0], box[1] - eye[1], box[2] - eye[2]))


@compiled
def _draw(
    box: Floats,
    eye: Floats,
    axes: Floats,
    focal: np.float32,
    us: Floats,
    vs: Floats,
    window: NDArray[np.int64],
    depth: Floats,
    shapes: NDArray[np.int32],
    name: np.int32,
) -> None:
    """A solid box into a window (4,) of an image; rows of a window are contiguous."""
    step, (x, y, z) = ONE / focal, _middle(box, eye)
    fx, fy, fz = _in_box_frame(box, axes[0])
    rx, ry, rz = _in_box_frame(box, axes[1])
    ux, uy, uz = _in_box_frame(box, axes[2])
    rx, ry, rz, ux, uy, uz = rx * step, ry * step, rz * step, ux * step, uy * step, uz * step
    left, right = window[2], window[3]
    for row in range(window[0], window[1]):
        v = vs[row]
        _draw_row(
            depth[row, left:right],
            shapes[row, left:right],
            name,
            us[left:right],
            x,
            y,
            z,
            box[3],
            box[4],
            box[5],
            fx + v * ux,
            fy + v * uy,
            fz + v * uz,
            rx,
            ry,
            rz,
        )


@compiled
def _draw_row(
    depth: Floats,
    shapes: NDArray[np.int32],
    name: np.int32,
    us: Floats,
    x: np.float32,
    y: np.float32,
    z: np.float32,
    hx: np.float32,
    hy: np.float32,
    hz: np.float32,
    ax: np.float32,
    ay: np.float32,
    az: np.float32,
    rx: np.float32,
    ry: np.float32,
    rz: np.float32,
) -> None:
    """Slab method (Kay and Kajiya 1986) for rays a + u r and a box with its middle at x, y, z.

    A loop without branches, which the compiler turns into vector instructions.
    """
    for i in range(len(depth)):
        u = us[i]
        dx, dy, dz = ax + u * rx, ay + u * ry, az + u * rz
        dx = dx if abs(dx) > LEAST else LEAST
        dy = dy if abs(dy) > LEAST else LEAST
        dz = dz if abs(dz) > LEAST else LEAST
        ix, iy, iz = ONE / dx, ONE / dy, ONE / dz
        mx, my, mz = x * ix, y * iy, z * iz
        qx, qy, qz = hx * abs(ix), hy * abs(iy), hz * abs(iz)
        nx, ny, nz = mx - qx, my - qy, mz - qz
        gx, gy, gz = mx + qx, my + qy, mz + qz
        enter = nx if nx > ny else ny
        enter = enter if enter > nz else nz
        leave = gx if gx < gy else gy
        leave = leave if leave < gz else gz
        last, shape = depth[i], shapes[i]
        hit = (enter < leave) & (enter > ZERO) & (enter < last)
        depth[i] = enter if hit else last
        shapes[i] = name if hit else shape


@compiled
def _draw_field(
    box: Floats,
    field: Array,
    heights: Floats,
    eye: Floats,
    axes: Floats,
    focal: np.float32,
    us: Floats,
    vs: Floats,
    window: NDArray[np.int64],
    depth: Floats,
    shapes: NDArray[np.int32],
    name: np.int32,
) -> None:
    """A height field into a window (4,) of an image: steps along each ray, then halvings."""
    step, middle = ONE / focal, _middle(box, eye)
    forward, right, up = (
        _in_box_frame(box, axes[0]),
        _in_box_frame(box, axes[1]),
        _in_box_frame(box, axes[2]),
    )
    for row in range(window[0], window[1]):
        v = vs[row] * step
        for column in range(window[2], window[3]):
            u = us[column] * step
            x, y, z = (
                forward[0] + u * right[0] + v * up[0],
                forward[1] + u * right[1] + v * up[1],
                forward[2] + u * right[2] + v * up[2],
            )
            ray, enter, leave = (x, y, z), ZERO, depth[row, column]
            for i in range(3):
                inverse = ONE / (ray[i] if abs(ray[i]) > LEAST else LEAST)
                near, far = middle[i] * inverse, box[3 + i] * abs(inverse)
                enter, leave = max(enter, near - far), min(leave, near + far)
            if enter >= leave:
                continue
            high, stride = enter, (leave - enter) / np.float32(STEPS - 1)
            low, found = enter, False
            for i in range(STEPS):
                high = enter + stride * np.float32(i)
                if (
                    _above(
                        field,
                        heights,
                        high * x - middle[0],
                        high * y - middle[1],
                        high * z - middle[2],
                    )
                    <= ZERO
                ):
                    found = True
                    break
                low = high
            if not found:
                continue
            for _ in range(HALVINGS):
                half = HALF * (low + high)
                if (
                    _above(
                        field,
                        heights,
                        half * x - middle[0],
                        half * y - middle[1],
                        half * z - middle[2],
                    )
                    <= ZERO
                ):
                    high = half
                else:
                    low = half
            depth[row, column], shapes[row, column] = high, name


@compiled
def _above(
    field: Array, heights: Floats, x: np.float32, y: np.float32, z: np.float32
) -> np.float32:
    """Height [m] of a point in a field's own frame above the field, bilinear."""
    first, rows, columns, cell_m = int(field[0]), int(field[1]), int(field[2]), np.float32(field[3])
    a = x / cell_m + HALF * np.float32(rows - 1)
    b = y / cell_m + HALF * np.float32(columns - 1)
    row, column = min(max(int(a), 0), rows - 2), min(max(int(b), 0), columns - 2)
    u, v = a - np.float32(row), b - np.float32(column)
    at = first + row * columns + column
    near = heights[at] + v * (heights[at + 1] - heights[at])
    far = heights[at + columns] + v * (heights[at + columns + 1] - heights[at + columns])
    height: np.float32 = z - near - u * (far - near)
    return height
