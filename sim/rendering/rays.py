"""Ray casting: depth and shapes of upright boxes and height fields.

Kernels are compiled for the processor by Numba. Boxes are drawn near ones first, each only into its
bounding rectangle in the image; once all pixels are nearer than the next box, the image is done.
Pixels hold inverse depths: along a row of pixels, that of a plane is linear, so that no box needs
a division. Rays have length 1 along the optical axis, so that distances along them are depths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.geometry import SKY, Floats
from pixelgait.sim.world.compiled import compiled

NEAR = np.float32(1e-3)  # [m] ahead of the eye: edges of boxes are clipped there
LEAST = np.float32(1e-9)  # component of a ray: keeps inverses finite
TOUCHING = np.float32(1e-6)  # [m] from the eye to a face: keeps inverses finite
SLACK = np.float32(0.01)  # [pixels] around bounding rectangles, against rounding
ZERO, ONE, HALF, FAR_AWAY = (np.float32(value) for value in (0.0, 1.0, 0.5, 1e9))
STEPS, HALVINGS = 20, 5  # along a ray between a height field's lowest and highest point
BLOCK = 16  # pixels side by side, in vector instructions
SMALL = 256  # pixels: larger rectangles are worth to be tightened
BOUNDS = 5  # least depth and rectangle
Point = tuple[np.float32, np.float32, np.float32]
FRONTS, PLANES = 3, 8  # of a box: faces towards the eye, at most, and five others


@compiled
def cast(
    boxes: Floats,
    seen: NDArray[np.bool_],
    fields: Array,
    heights: Floats,
    eye: Floats,
    axes: Floats,
    focal: float,
    far_m: float,
    depth: Floats,
    shapes: NDArray[np.int32],
) -> None:
    """Depth and shapes of one image of height H and width W.

    Args:
        boxes: (8, K) of the shapes: middle x, y, z, half x, y, z [m], cosine and sine of the yaw.
        seen: (K,) the boxes to draw.
        fields: (K, 4): of a height field within a box its first index in `heights`, its
            rows, its columns, and the distance between its points [m]; 0 rows: a solid box.
        heights: (m,) heights of all fields' points over their boxes' middles [m].
        eye: (3,) [m].
        axes: (3, 3) forward, right and up of the camera in the world.
        focal: focal length [pixels].
        far_m: range along the optical axis [m].
        depth: (H, W) written: [m] along the optical axis, `far_m` at most.
        shapes: (H, W) written: index of the shape in each pixel, or `SKY`.
    """
    height, width = depth.shape
    focal_pixels, far = np.float32(focal), np.float32(far_m)
    padded = -(-width // BLOCK) * BLOCK
    us = np.arange(padded).astype(np.float32) - (HALF * np.float32(width) - HALF)
    vs = (HALF * np.float32(height) - HALF) - np.arange(height).astype(np.float32)
    inverse, names = np.empty((height, padded), np.float32), np.empty((height, padded), np.int32)
    inverse[:], names[:] = ONE / far, SKY
    bounds = np.empty((BOUNDS, len(seen)), np.float32)
    _all_bounds(boxes, seen, eye, axes, focal_pixels, far, height, width, bounds)
    order, nears, waiting = np.empty(len(seen), np.int64), np.empty(len(seen), np.float32), 0
    for k in range(len(seen)):
        near = bounds[0, k]
        if near < far:
            at = waiting
            while at > 0 and nears[at - 1] > near:
                order[at], nears[at] = order[at - 1], nears[at - 1]
                at -= 1
            order[at], nears[at] = k, near
            waiting += 1
    box, planes = np.empty(8, np.float32), np.empty((PLANES, 3), np.float32)
    window = np.empty(4, np.int64)
    for at in range(waiting):
        k, near = order[at], ONE / max(nears[at], LEAST)
        window[:] = 0, height, 0, padded
        if _hidden(inverse, window, near):
            break
        _covered(bounds[1, k], bounds[2, k], bounds[3, k], bounds[4, k], height, width, window)
        if _hidden(inverse, window, near):
            continue
        for i in range(8):
            box[i] = boxes[i, k]
        if (window[1] - window[0]) * (window[3] - window[2]) > SMALL:
            _tighten(box, eye, axes, focal_pixels, height, width, window)
        name = np.int32(k)
        if fields[k, 1] > 0.0:
            field = fields[k]
            _draw_field(
                box,
                field,
                heights,
                eye,
                axes,
                focal_pixels,
                us,
                vs,
                window,
                inverse,
                names,
                name,
            )
        elif _facing(box, eye, axes, focal_pixels, planes):
            _draw(planes, us, vs, window, inverse, names, name)
    for row in range(height):
        _finish(inverse[row, :width], names[row, :width], far, depth[row], shapes[row])


@compiled
def _finish(
    inverse: Floats,
    names: NDArray[np.int32],
    far: np.float32,
    depth: Floats,
    shapes: NDArray[np.int32],
) -> None:
    """Write a row of depth and shapes."""
    for i in range(len(depth)):
        metres, name = ONE / inverse[i], names[i]
        depth[i] = metres if name != SKY else far
        shapes[i] = name


@compiled
def _hidden(inverse: Floats, window: NDArray[np.int64], near: np.float32) -> bool:
    """Whether all of a window (4,) of an image is nearer than an inverse depth [1/m]."""
    for row in range(window[0], window[1]):
        line, beyond = inverse[row, window[2] : window[3]], 0
        for i in range(len(line)):
            beyond |= line[i] < near
        if beyond:
            return False
    return True


@compiled
def _all_bounds(
    boxes: Floats,
    seen: NDArray[np.bool_],
    eye: Floats,
    axes: Floats,
    focal: np.float32,
    far: np.float32,
    height: int,
    width: int,
    bounds: Floats,
) -> None:
    """Least depths of boxes [m], and rectangles around them in the picture.

    A loop without branches, which the compiler turns into vector instructions.

    Args:
        boxes: (8, K)
        seen: (K,)
        eye: (3,)
        axes: (3, 3)
        focal: focal length [pixels].
        far: range [m].
        height: of the picture [pixels].
        width: of the picture [pixels].
        bounds: (5, K) written: least depth, `far` where a box is out of the picture; ends of the
            rectangle to the left, right, top and bottom [pixels] from the middle.
    """
    half_width, half_height = HALF * np.float32(width), HALF * np.float32(height)
    ex, ey, ez = eye[0], eye[1], eye[2]
    fx, fy, fz = axes[0, 0], axes[0, 1], axes[0, 2]
    rx, ry, rz = axes[1, 0], axes[1, 1], axes[1, 2]
    ux, uy, uz = axes[2, 0], axes[2, 1], axes[2, 2]
    xs, ys, zs = boxes[0], boxes[1], boxes[2]
    half_x, half_y, half_z, cos, sin = boxes[3], boxes[4], boxes[5], boxes[6], boxes[7]
    depths, lefts, rights, tops, bottoms = bounds[0], bounds[1], bounds[2], bounds[3], bounds[4]
    for i in range(len(seen)):
        x, y, z = xs[i] - ex, ys[i] - ey, zs[i] - ez
        ax, ay = half_x[i] * cos[i], half_x[i] * sin[i]  # half edges
        bx, by, cz = -half_y[i] * sin[i], half_y[i] * cos[i], half_z[i]
        # A box around it along the camera's axes.
        ahead, aside, above = (
            fx * x + fy * y + fz * z,
            rx * x + ry * y + rz * z,
            ux * x + uy * y + uz * z,
        )
        depth = abs(fx * ax + fy * ay) + abs(fx * bx + fy * by) + abs(fz * cz)
        wide = abs(rx * ax + ry * ay) + abs(rx * bx + ry * by) + abs(rz * cz)
        high = abs(ux * ax + uy * ay) + abs(ux * bx + uy * by) + abs(uz * cz)
        least, most = ahead - depth, ahead + depth
        nearest = focal / (least if least > NEAR else NEAR)
        farthest = focal / (most if most > NEAR else NEAR)
        left, right = aside - wide, aside + wide
        top, bottom = -above - high, high - above
        left *= nearest if left < ZERO else farthest
        right *= farthest if right < ZERO else nearest
        top *= nearest if top < ZERO else farthest
        bottom *= farthest if bottom < ZERO else nearest
        out = (
            (most < NEAR)
            | (least > far)
            | (left > half_width)
            | (right < -half_width)
            | (top > half_height)
            | (bottom < -half_height)
        )
        near = least if least > ZERO else ZERO
        depths[i] = far if out | (not seen[i]) else near
        lefts[i], rights[i], tops[i], bottoms[i] = left, right, top, bottom


@compiled
def _tighten(
    box: Floats,
    eye: Floats,
    axes: Floats,
    focal: np.float32,
    height: int,
    width: int,
    window: NDArray[np.int64],
) -> None:
    """Write the window (4,) of a box: the rectangle around its corners, cut ahead of the eye."""
    x, y, z = box[0] - eye[0], box[1] - eye[1], box[2] - eye[2]
    cos, sin = box[6], box[7]
    corners, halves = np.empty((8, 3), np.float32), np.empty((4, 3), np.float32)
    for i in range(3):  # along the optical axis, to the right and up
        a, b, c = axes[i, 0], axes[i, 1], axes[i, 2]
        halves[0, i] = a * x + b * y + c * z
        halves[1, i] = (a * cos + b * sin) * box[3]
        halves[2, i] = (b * cos - a * sin) * box[4]
        halves[3, i] = c * box[5]
    low_u, high_u, low_v, high_v = FAR_AWAY, -FAR_AWAY, FAR_AWAY, -FAR_AWAY
    inside = 0
    for j in range(8):
        sx, sy, sz = ONE if j & 1 else -ONE, ONE if j & 2 else -ONE, ONE if j & 4 else -ONE
        for i in range(3):
            corners[j, i] = halves[0, i] + sx * halves[1, i] + sy * halves[2, i] + sz * halves[3, i]
        if corners[j, 0] > NEAR:
            inside += 1
            scale = focal / corners[j, 0]
            u, v = corners[j, 1] * scale, -corners[j, 2] * scale
            low_u, high_u = min(low_u, u), max(high_u, u)
            low_v, high_v = min(low_v, v), max(high_v, v)
    if inside < 8:
        for j in range(8):
            for bit in (1, 2, 4):
                other = j | bit
                if other != j and (corners[j, 0] > NEAR) != (corners[other, 0] > NEAR):
                    share = (NEAR - corners[j, 0]) / (corners[other, 0] - corners[j, 0])
                    scale = focal / NEAR
                    u = scale * (corners[j, 1] + share * (corners[other, 1] - corners[j, 1]))
                    v = -scale * (corners[j, 2] + share * (corners[other, 2] - corners[j, 2]))
                    low_u, high_u = min(low_u, u), max(high_u, u)
                    low_v, high_v = min(low_v, v), max(high_v, v)
    _covered(low_u, high_u, low_v, high_v, height, width, window)


@compiled
def _covered(
    left: np.float32,
    right: np.float32,
    top: np.float32,
    bottom: np.float32,
    height: int,
    width: int,
    window: NDArray[np.int64],
) -> None:
    """Write the window (4,) of a rectangle: rows and columns from, to; columns in whole blocks."""
    window[0], window[1] = _pixels(top, bottom, height)
    first, last = _pixels(left, right, width)
    window[2], window[3] = first // BLOCK * BLOCK, -(-last // BLOCK) * BLOCK


@compiled
def _pixels(low: np.float32, high: np.float32, count: int) -> tuple[int, int]:
    """First pixel, and the one after the last, with a centre between two offsets."""
    most = np.float32(count)
    start = HALF * most - HALF
    first = min(max(low + start + (ONE - SLACK), ZERO), most)  # rounded up below
    last = min(max(high + start + (ONE + SLACK), ZERO), most)
    return int(first), int(last)


@compiled
def _in_box_frame(box: Floats, vector: Any) -> Point:
    """A vector (3,) of the world along the box's own axes."""
    cos, sin = box[6], box[7]
    return cos * vector[0] + sin * vector[1], cos * vector[1] - sin * vector[0], vector[2]


@compiled
def _middle(box: Floats, eye: Floats) -> Point:
    """Middle of a box seen from the eye [m], along the box's own axes."""
    return _in_box_frame(box, (box[0] - eye[0], box[1] - eye[1], box[2] - eye[2]))


@compiled
def _facing(box: Floats, eye: Floats, axes: Floats, focal: np.float32, planes: Floats) -> bool:
    """Write the inverse depths of a box's faces; False: the eye is in the box.

    `planes` (8, 3) become forward, right and up such that a face's inverse depth [1/m] along a ray
    of a pixel u to the right and v up is forward + u right + v up. First are `FRONTS`, of which a
    ray enters by the farthest; it leaves by the nearest of the others. Some faces are there twice.
    """
    step = ONE / focal
    fx, fy, fz = _in_box_frame(box, axes[0])
    rx, ry, rz = _in_box_frame(box, axes[1])
    ux, uy, uz = _in_box_frame(box, axes[2])
    x, y, z = _middle(box, eye)
    ahead, right, up, away = (fx, fy, fz), (rx, ry, rz), (ux, uy, uz), (x, y, z)
    front, back = 0, FRONTS
    for i in range(3):
        half, sign = box[3 + i], ONE if away[i] > ZERO else -ONE
        gap = abs(away[i]) - half  # negative between the two faces
        for face in range(2):
            distance = gap if face == 0 else abs(away[i]) + half
            at = back
            if face == 0 and gap > TOUCHING:
                at = front
                front += 1
            else:
                back += 1
                if abs(distance) < TOUCHING:
                    distance = -TOUCHING
            scale = sign / distance
            planes[at, 0] = ahead[i] * scale
            planes[at, 1], planes[at, 2] = right[i] * scale * step, up[i] * scale * step
    if front == 0:
        return False
    for at in range(front, FRONTS):
        planes[at] = planes[0]
    for at in range(back, PLANES):
        planes[at] = planes[FRONTS]
    return True


@compiled
def _draw(
    planes: Floats,
    us: Floats,
    vs: Floats,
    window: NDArray[np.int64],
    inverse: Floats,
    names: NDArray[np.int32],
    name: np.int32,
) -> None:
    """A solid box into a window (4,) of an image.

    Slab method (Kay and Kajiya 1986) for inverse depths, which are linear along a row. The inner
    loop has no branches and a constant length: the compiler makes it a few vector instructions.
    """
    left, right = window[2], window[3]
    offsets = us[left:right]
    ra, rb, rc, rd = planes[0, 1], planes[1, 1], planes[2, 1], planes[3, 1]
    re, rf, rg, rh = planes[4, 1], planes[5, 1], planes[6, 1], planes[7, 1]
    for row in range(window[0], window[1]):
        v = vs[row]
        a, b = planes[0, 0] + v * planes[0, 2], planes[1, 0] + v * planes[1, 2]
        c, d = planes[2, 0] + v * planes[2, 2], planes[3, 0] + v * planes[3, 2]
        e, f = planes[4, 0] + v * planes[4, 2], planes[5, 0] + v * planes[5, 2]
        g, h = planes[6, 0] + v * planes[6, 2], planes[7, 0] + v * planes[7, 2]
        line, named = inverse[row, left:right], names[row, left:right]
        for i in range(len(line)):
            u = offsets[i]
            enter, other, third = a + u * ra, b + u * rb, c + u * rc
            enter = enter if enter < other else other
            enter = enter if enter < third else third
            p, q, r, s, t = d + u * rd, e + u * re, f + u * rf, g + u * rg, h + u * rh
            p = p if p > q else q
            r = r if r > s else s
            p = p if p > t else t
            leave = p if p > r else r
            last, shape = line[i], named[i]
            hit = (enter > leave) & (enter > last)
            line[i] = enter if hit else last
            named[i] = name if hit else shape


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
    inverse: Floats,
    names: NDArray[np.int32],
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
            ray = (
                forward[0] + u * right[0] + v * up[0],
                forward[1] + u * right[1] + v * up[1],
                forward[2] + u * right[2] + v * up[2],
            )
            enter, leave = ZERO, ONE / inverse[row, column]
            for i in range(3):
                slope = ONE / (ray[i] if abs(ray[i]) > LEAST else LEAST)
                near, far = middle[i] * slope, box[3 + i] * abs(slope)
                enter, leave = max(enter, near - far), min(leave, near + far)
            if enter >= leave:
                continue
            high, stride = enter, (leave - enter) / np.float32(STEPS - 1)
            low, found = enter, False
            for i in range(STEPS):
                high = enter + stride * np.float32(i)
                if _above(field, heights, ray, middle, high) <= ZERO:
                    found = True
                    break
                low = high
            if not found:
                continue
            for _ in range(HALVINGS):
                half = HALF * (low + high)
                if _above(field, heights, ray, middle, half) <= ZERO:
                    high = half
                else:
                    low = half
            inverse[row, column], names[row, column] = ONE / high, name


@compiled
def _above(
    field: Array, heights: Floats, ray: Point, middle: Point, depth: np.float32
) -> np.float32:
    """Height [m] above a field, bilinear, of the point at a depth on a ray in its own frame."""
    x, y, z = depth * ray[0] - middle[0], depth * ray[1] - middle[1], depth * ray[2] - middle[2]
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
