"""User scenes: loads the one scene class of a user's Python file and checks it once."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import get_args

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.sim.world.ground import Ground
from pixelgait.sim.world.meshes import is_picture, is_rewritten, obj_corners, rewritten
from pixelgait.sim.world.motions import placed
from pixelgait.sim.world.obstacles import box_at, box_at_start, has_support
from pixelgait.sim.world.scene import Box, HeightField, Layout, Mesh, Pose, Scene, Shape
from pixelgait.sim.world.texture import Texture

CHECKED_LAYOUTS = 3
GROUND_TOLERANCE_M = 0.1  # assumption: between ground_m and the start or the top of a shape
PATH_TOLERANCE_M = 0.3  # assumption: lengths of paths on a map of cells may be off by as much


def load_user_scene(path: Path, difficulty: float) -> Scene:
    """The scene that a Python file defines, checked on a few of its layouts.

    Its calls are not guarded: what the file raises, at once or later, keeps its traceback.

    Raises:
        UserError: if the file does not define one scene, or the check finds a mistake.
    """
    scene_class = _scene_class(path)
    try:
        inspect.signature(scene_class).bind(difficulty)
    except TypeError as error:
        raise UserError(
            f"scene {path}: {scene_class.__name__}: {error}, expected __init__(self, difficulty)"
        ) from None
    scene: Scene = scene_class(difficulty)  # type: ignore[call-arg]
    if not hasattr(scene, "name"):
        scene.name = path.stem
    if problem := next(_problems(scene), None):
        raise UserError(f"scene {path}: {problem}")
    return scene


def _scene_class(path: Path) -> type[Scene]:
    if not path.is_file():
        raise UserError(f"scene {path} is missing")
    name = f"scene {path.absolute()}"
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    sys.modules[name] = module  # dataclasses look their names up there
    # No cached bytecode: it may be that of an older file of the same second and length.
    exec(compile(path.read_bytes(), module.__file__, "exec"), vars(module))
    classes = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Scene)]
    defined = [each for each in classes if each.__module__ == name]
    if len(defined) != 1:
        raise UserError(f"scene {path} defines {len(defined)} subclasses of Scene, expected one")
    if missing := sorted(defined[0].__abstractmethods__):
        raise UserError(f"scene {path}: {defined[0].__name__} has no {', '.join(missing)}")
    return defined[0]


def _problems(scene: Scene) -> Iterator[str]:
    """Mistakes: the first counts, since later checks rely on what earlier ones have seen."""
    if not isinstance(scene.goal_m, Real) or math.isnan(scene.goal_m):
        yield f"goal_m is {scene.goal_m!r}, expected a number"
    for name in ("fixed", "movable"):
        if not isinstance(shapes := getattr(scene, name), Sequence):
            yield f"{name} is a {type(shapes).__name__}, expected a list of shapes"
        for shape in shapes:
            yield from (f"{name}: {problem}" for problem in _shape_problems(shape))
            if name == "movable" and not isinstance(shape, Box | HeightField):
                yield f"movable: a {type(shape).__name__}, expected Box or HeightField"
    previous = None
    for seed in range(CHECKED_LAYOUTS):
        layout = scene.layout(np.random.default_rng(seed))
        yield from (f"layout: {problem}" for problem in _layout_problems(scene, layout))
        if layout is previous:  # episodes are told apart by it
            yield "layout: it returns the same Layout again, expected a new one in every call"
        yield from _start_problems(scene, layout)
        previous = layout


def _shape_problems(shape: Shape) -> Iterator[str]:
    if not isinstance(shape, get_args(Shape)):
        yield f"{shape!r}, expected a Box, Plane, HeightField or Mesh"
    if isinstance(shape, Mesh):
        yield from _mesh_problems(shape)
    yield from _not_finite(shape)
    if isinstance(shape, Box) and (np.shape(shape.half_m) != (3,) or min(shape.half_m) <= 0.0):
        yield f"half_m of a Box is {shape.half_m}, expected three lengths above 0"
    if isinstance(shape, HeightField):
        heights = shape.heights_m
        if not isinstance(heights, np.ndarray) or heights.ndim != 2 or shape.cell_m <= 0.0:
            yield "a HeightField, expected an array heights_m (n, m) and a cell_m above 0"
    if isinstance(shape, Box | HeightField):
        colour = shape.colour
        if not isinstance(colour, tuple) or len(colour) != 3 or min(colour) < 0 or max(colour) > 1:
            yield f"colour is {colour}, expected a tuple (red, green, blue), each from 0 to 1"
        if not isinstance(shape.pose, Pose):
            yield f"pose is {shape.pose!r}, expected a Pose"


def _mesh_problems(mesh: Mesh) -> Iterator[str]:
    """Mistakes in its files, at which a simulator may end the process."""
    for file in (mesh.visual, mesh.collision, *([] if mesh.texture is None else [mesh.texture])):
        if not isinstance(file, Path) or not file.is_file():
            yield f"{file!r} of a Mesh, expected the Path of a file"
    if mesh.texture is not None and not is_picture(mesh.texture):
        yield f"{mesh.texture} of a Mesh is not a picture"
    if mesh.texture is not None and mesh.visual.suffix.lower() != ".obj":
        yield f"a texture with {mesh.visual}, expected None: only OBJ files take one"
    try:
        for file, texture in ((mesh.visual, mesh.texture), (mesh.collision, Path())):
            if is_rewritten(file, texture):
                rewritten(file)
            else:
                obj_corners(file)
    except (ValueError, UserError) as error:
        yield str(error)


def _layout_problems(scene: Scene, layout: Layout) -> Iterator[str]:
    if not isinstance(layout, Layout):
        yield f"it returns {layout!r}, expected a Layout"
    for name in ("movable", "motions"):
        if not isinstance(value := getattr(layout, name), Sequence):
            yield f"{name} is a {type(value).__name__}, expected a list"
    for pose in (layout.start, *layout.movable):
        if not isinstance(pose, Pose):
            yield f"{pose!r}, expected a Pose"
    yield from _not_finite((layout.start, layout.movable, layout.motions))
    if len(layout.movable) != (count := len(scene.movable)):
        yield f"it places {len(layout.movable)} shapes, {count} are movable"
    if layout.boxes and not scene.draws_boxes:
        yield "it has boxes of its own, expected draws_boxes = True as well"
    for number, box in layout.boxes.items():
        if number not in range(count) or not isinstance(box, Box):
            yield f"boxes[{number!r}] is {box!r}, expected a Box, {count} shapes are movable"
        yield from _shape_problems(box)
    for motion in layout.motions:
        if not isinstance(motion.shape, Integral) or motion.shape not in range(count):
            yield f"a Motion is of shape {motion.shape}, {count} are movable"
        if np.shape(motion.reach_m) != (3,) or motion.period_s <= 0.0:
            yield f"{motion}, expected reach_m (x, y, z) and period_s above 0"
        times = [waypoint.time_s for waypoint in motion.path]
        if any(later <= time for time, later in pairwise(times)):
            yield f"the path of a Motion is at times {times}, expected ascending ones"


def _start_problems(scene: Scene, layout: Layout) -> Iterator[str]:
    """Mistakes in where a robot starts and where it has to go."""
    x, y, z = layout.start.x, layout.start.y, layout.start.z
    ground = scene.ground() if callable(scene.ground) else scene.ground
    if not isinstance(ground, Ground | None) or not callable(scene.ground):
        yield (
            f"ground is a {type(ground).__name__}, expected a method that returns "
            "make_ground(...), or another name"
        )
        return
    ground_m, progress_m = scene.ground_m(x, y), scene.progress_m(x, y)
    yield from _not_finite(progress_m, f"progress_m({x:g}, {y:g})")
    if ground_m is None:
        yield f"no ground at the start: ground_m({x:g}, {y:g}) is None"
        return
    yield from _not_finite(ground_m, f"ground_m({x:g}, {y:g})")
    if abs(z - ground_m) > GROUND_TOLERANCE_M:
        yield f"the start is at z = {z:g}, expected the ground below it: ground_m is {ground_m:g}"
    if not has_support(scene, layout, GROUND_TOLERANCE_M):
        yield f"nothing to stand on at the start ({x:g}, {y:g}): no shape is below it"
    here = replace(layout, movable=placed(layout), motions=())  # none has moved yet
    if box := box_at_start(scene, here):
        yield f"the start ({x:g}, {y:g}) is inside a Box at ({box.x:g}, {box.y:g}, {box.z:g})"
    if scene.has_goal_position:
        yield from _goal_problems(scene, layout)
    elif scene.goal_position is not None:
        yield "it sets goal_position, expected has_goal_position = True as well"
    elif progress_m > scene.goal_m:
        yield f"progress_m at the start is {progress_m:g}, beyond goal_m, {scene.goal_m:g}"


def _goal_problems(scene: Scene, layout: Layout) -> Iterator[str]:
    goal, start = scene.goal_position, layout.start
    if goal is None or np.shape(goal) != (2,) or not np.isfinite(goal).all():
        yield f"goal_position is {goal}, expected finite x and y"
        return
    x, y = map(float, goal)
    if box := box_at(scene, layout, x, y):
        yield f"the goal ({x:g}, {y:g}) is inside a Box at ({box.x:g}, {box.y:g}, {box.z:g})"
    straight_m = math.hypot(x - start.x, y - start.y)
    start_m, goal_m = scene.progress_m(start.x, start.y), scene.progress_m(x, y)
    if not (abs(goal_m) <= PATH_TOLERANCE_M and -start_m >= straight_m - PATH_TOLERANCE_M):
        yield (
            f"progress_m is {start_m:g} at the start and {goal_m:g} at the goal, {straight_m:g} m "
            "away, expected minus the length of the path that remains [m]"
        )


def _not_finite(value: object, name: str = "") -> Iterator[str]:
    """Values that are not finite numbers, in a dataclass, a sequence or an array."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from _not_finite(each, name)
    elif is_dataclass(value):
        for field in fields(value):
            part = getattr(value, field.name)
            if not isinstance(part, Path | Texture | None):
                yield from _not_finite(part, f"{type(value).__name__}.{field.name}")
    elif not isinstance(value, Real | np.ndarray):
        yield f"{name} is {value!r}, expected a number"
    elif not np.isfinite(value).all():  # type: ignore[arg-type]
        yield f"{name} is not finite"
