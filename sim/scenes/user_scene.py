"""Scenes of a user's own: one class in a Python file, checked where it could hurt."""

from __future__ import annotations

import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.sim.world.appearance import AppearanceSeed
from pixelgait.sim.world.meshes import check_faces, is_picture
from pixelgait.sim.world.obstacles import box_at, in_the_start, is_carried
from pixelgait.sim.world.scene import Box, HeightField, Layout, Mesh, Pose, Scene, Shape, Swing
from pixelgait.sim.world.texture import PATTERNS, Colour, Texture

Result = TypeVar("Result")
TRIED = 3  # layouts that are drawn to see whether the scene can be used
STEP_M = 0.1  # ours: between what a scene says of its ground and where its robot starts
COARSE_M = 0.3  # ours: ways on a map of cells may be off by as much


def load_own_scene(path: Path, difficulty: float) -> Scene:
    """The one scene that a Python file defines.

    Raises:
        UserError: there is none, or it raises, or it describes what cannot be; its methods say so
            later as well.
    """
    if not path.is_file():
        raise UserError(f"scene {path} is missing")
    scene = _guarded(path, lambda: _make(path, difficulty))
    if not hasattr(scene, "name"):  # for which looks and simulators ask
        scene.name = path.stem
    draw = scene.layout

    def layout(rng: np.random.Generator) -> Layout:
        drawn = _guarded(path, lambda: draw(rng))
        # A new one every episode, by which episodes are told apart; swings may be a generator.
        drawn = _guarded(path, lambda: replace(drawn, swings=tuple(drawn.swings)))
        _guarded(path, lambda: _check_layout(scene, drawn))
        return drawn

    scene.layout = layout  # type: ignore[method-assign]
    _guard_places(scene, path)
    _guarded(path, lambda: _check_shapes(scene))
    for seed in range(TRIED):
        scene.layout(np.random.default_rng(seed))
    return scene


def _make(path: Path, difficulty: float) -> Scene:
    scene_class = _scene_class(path)
    try:
        inspect.signature(scene_class).bind(difficulty)
    except TypeError as error:
        raise UserError(
            f"scene {path}: its class cannot be made, {error}: expected __init__(self, difficulty)"
        ) from None
    return scene_class(difficulty)


def _scene_class(path: Path) -> Callable[[float], Scene]:
    name = f"scene {path.absolute()}"  # nobody imports that
    if path.suffix != ".py":
        raise UserError(f"scene {path} is not a Python file")
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    sys.modules[name] = module  # dataclasses look their names up there
    try:  # no cached bytecode: it may be of what was there within the same second
        exec(compile(path.read_bytes(), module.__file__, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    found = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Scene)]
    own = [scene for scene in found if scene.__module__ == name]
    if len(own) != 1:
        raise UserError(f"scene {path} defines {len(own)} classes of scenes, expected one")
    scene: Callable[[float], Scene] = own[0]
    return scene


def _guard_places(scene: Scene, path: Path) -> None:
    """Let progress, ways and ground say what is wrong with them wherever they are asked for."""

    def guarded(method: str) -> Callable[[float, float], float | None]:
        ask = getattr(scene, method)
        return lambda x, y: _guarded(path, lambda: _checked(ask(x, y), method, x, y))

    for method in ("progress_m", "path_length_m", "ground_m"):
        setattr(scene, method, guarded(method))


def _checked(value: Any, method: str, x: float, y: float) -> float | None:
    """What a method gives for a place, where there may be no ground.

    Raises TypeError or ValueError if it is no finite number.
    """
    if value is None and method == "ground_m":
        return None
    if not math.isfinite(value):
        raise ValueError(f"{method} of ({x:g}, {y:g}) is {value}, no finite number")
    return float(value)


def _guarded(path: Path, use: Callable[[], Result]) -> Result:
    """What the user's code gives; what it raises becomes one line with its place."""
    try:
        return use()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        trace = traceback.extract_tb(error.__traceback__)
        places = [each for each in trace if Path(each.filename) == path.absolute()]
        line = f":{places[-1].lineno}" if places else ""
        text = " ".join(str(error).split())
        raise UserError(f"scene {path}{line}: {type(error).__name__}: {text}") from error


def _check_shapes(scene: Scene) -> None:
    """Raises ValueError for shapes that cannot be, and where there is nothing to stand on."""
    if not isinstance(scene.goal_m, Real) or math.isnan(scene.goal_m):
        raise ValueError(f"goal_m is {scene.goal_m!r}, expected a number")
    for name in ("fixed", "movable"):
        if not isinstance(shapes := getattr(scene, name), Sequence):
            raise ValueError(f"{name} is a {type(shapes).__name__}, expected a list of shapes")
    if not scene.fixed and not scene.movable:
        raise ValueError("it has no shapes: nothing to stand on")
    for shape in (*scene.fixed, *scene.movable):
        _check_shape(shape)
    for shape in scene.movable:
        if not isinstance(shape, (Box, HeightField)):
            raise ValueError(f"a {type(shape).__name__} is movable, expected Box or HeightField")


def _check_shape(shape: Shape) -> None:
    if not isinstance(shape, get_args(Shape)):
        raise ValueError(f"{shape!r} is no shape")
    if isinstance(shape, Mesh):
        _check_mesh(shape)
    for box in [shape, *(shape.boxes if isinstance(shape, Mesh) else [])]:
        if not math.isfinite(box.friction) or box.friction < 0.0:
            raise ValueError(f"friction is {box.friction}, expected 0 or more")
        if isinstance(box, Box):
            _check_box(box)
        if isinstance(box, HeightField):
            _check_field(box)


def _check_mesh(mesh: Mesh) -> None:
    for file in (mesh.visual, mesh.collision):
        _check_file(file)
        check_faces(file)
    if mesh.texture is not None:
        _check_file(mesh.texture)
        if not is_picture(mesh.texture):
            raise ValueError(f"{mesh.texture} of a Mesh is not a picture")


def _check_file(file: Path) -> None:
    if not isinstance(file, Path):
        raise ValueError(f"{file!r} of a Mesh is no Path")
    if not file.is_file():
        raise ValueError(f"{file} of a Mesh is missing")


def _check_box(box: Box) -> None:
    _check_finite("Box's pose", _values(box.pose))
    if len(box.half_m) != 3 or not all(0.0 < half < math.inf for half in box.half_m):
        raise ValueError(f"half_m of a Box is {box.half_m}, expected three lengths above 0")
    _check_colour(box.colour)
    if box.texture is not None:
        _check_texture(box.texture)


def _check_texture(texture: Texture) -> None:
    if not isinstance(texture, Texture):
        raise ValueError(f"texture of a Box is {texture!r}, expected a Texture")
    if texture.pattern not in PATTERNS:
        known = ", ".join(PATTERNS)
        raise ValueError(f"a Texture's pattern is {texture.pattern!r}, choose from {known}")
    if not isinstance(texture.colours, tuple) or len(texture.colours) != 2:
        raise ValueError(f"a Texture's colours are {texture.colours!r}, expected a tuple of two")
    for colour in texture.colours:
        _check_colour(colour)
    if not isinstance(texture.seed, int) or texture.seed < 0:
        raise ValueError(f"a Texture's seed is {texture.seed!r}, expected 0, 1, ...")
    if not 0.0 < texture.tile_m < math.inf:
        raise ValueError(f"a Texture's tile_m is {texture.tile_m}, expected above 0")


def _check_field(field: HeightField) -> None:
    _check_finite("HeightField's pose", _values(field.pose))
    heights = field.heights_m
    if not isinstance(heights, np.ndarray) or heights.ndim != 2 or min(heights.shape) < 2:
        raise ValueError("heights_m of a HeightField is no array (n, m) of at least 2 x 2")
    _check_finite("heights_m of a HeightField", np.ravel(heights))
    if not 0.0 < field.cell_m < math.inf:
        raise ValueError(f"cell_m of a HeightField is {field.cell_m}, expected above 0")
    _check_colour(field.colour)


def _check_colour(colour: Colour) -> None:
    right = isinstance(colour, tuple) and len(colour) == 3
    if not right or not all(isinstance(c, Real) and 0.0 <= c <= 1.0 for c in colour):
        raise ValueError(f"colour is {colour!r}, expected a tuple: red, green, blue from 0 to 1")


def _check_layout(scene: Scene, layout: Layout) -> None:
    """Raises ValueError for poses that cannot be, or a start without ground."""
    _check_finite("the start", _values(layout.start))
    if len(layout.movable) != (count := len(scene.movable)):
        raise ValueError(f"layout places {len(layout.movable)} shapes, {count} are movable")
    for pose in layout.movable:
        _check_finite("a movable shape's pose", _values(pose))
    if not isinstance(layout.appearance, AppearanceSeed | None):
        raise ValueError(
            f"appearance of a layout is {layout.appearance!r}, expected AppearanceSeed or None"
        )
    for swing in layout.swings:
        _check_swing(swing, count)
    x, y = layout.start.x, layout.start.y
    ground_m = scene.ground_m(x, y)
    if ground_m is None:
        raise ValueError(f"no ground at the start ({x:g}, {y:g}), says ground_m")
    if abs(layout.start.z - ground_m) > STEP_M:
        raise ValueError(
            f"the start is at {layout.start.z:g}, but the ground there at {ground_m:g}, says "
            "ground_m: a start is the ground below the robot"
        )
    if not is_carried(scene, layout, STEP_M):
        raise ValueError(f"nothing to stand on at the start ({x:g}, {y:g}): no shape is below it")
    if (wall := in_the_start(scene, replace(layout, swings=()))) is not None:  # none has swung yet
        raise ValueError(
            f"the start ({x:g}, {y:g}) is inside a Box at ({wall.x:g}, {wall.y:g}, {wall.z:g})"
        )
    progress_m = scene.progress_m(x, y)
    if progress_m > scene.goal_m and not scene.has_goal_position:
        raise ValueError(f"progress_m at the start is {progress_m:g}, beyond {scene.goal_m:g}")
    if scene.has_goal_position:
        if scene.goal_position is None:
            raise ValueError("it tells a destination, but its layout sets none")
        _check_finite("the destination", scene.goal_position)
        if np.shape(scene.goal_position) != (2,):
            raise ValueError(f"destination is {scene.goal_position}, expected x and y")
        x, y = map(float, scene.goal_position)
        if (box := box_at(scene, layout, x, y)) is not None:
            raise ValueError(
                f"the destination ({x:g}, {y:g}) is inside a Box at "
                f"({box.x:g}, {box.y:g}, {box.z:g}), expected free ground"
            )
        _check_way(scene, layout.start, x, y)
    elif scene.goal_position is not None:
        raise ValueError("it has a destination, but does not say tells_destination = True")


def _check_way(scene: Scene, start: Pose, x: float, y: float) -> None:
    """Raises ValueError if progress is not minus the way that is left to a destination, or the
    whole way shorter than a straight one: by its length success is weighted.
    """
    crow_m = math.hypot(x - start.x, y - start.y)
    remaining_m = -scene.progress_m(start.x, start.y)
    end_m = scene.progress_m(x, y)
    if abs(end_m) > COARSE_M or remaining_m < crow_m - COARSE_M:
        raise ValueError(
            f"progress_m goes from {-remaining_m:g} at the start to {end_m:g} at the destination, "
            f"{crow_m:g} m away: expected minus the way that is left [m]"
        )
    if (path_length_m := scene.path_length_m(start.x, start.y)) < crow_m - COARSE_M:
        raise ValueError(
            f"way_m at the start is {path_length_m:g}, to a destination {crow_m:g} m away: "
            "expected the shortest way there is [m]"
        )


def _check_swing(swing: Swing, movable: int) -> None:
    if not isinstance(swing.shape, Integral) or swing.shape not in range(movable):
        raise ValueError(f"a Swing is of shape {swing.shape}, but {movable} are movable")
    _check_finite("reach_m of a Swing", swing.reach_m)
    if len(swing.reach_m) != 3:
        raise ValueError(f"reach_m of a Swing is {swing.reach_m}, expected x, y and z")
    if not 0.0 < swing.period_s < math.inf:
        raise ValueError(f"period_s of a Swing is {swing.period_s}, expected above 0")


def _check_finite(what: str, values: Iterable[float]) -> None:
    if not np.isfinite(np.array(list(values), dtype=np.float64)).all():
        raise ValueError(f"{what} is not of finite numbers")


def _values(pose: Pose) -> tuple[float, ...]:
    return pose.x, pose.y, pose.z, pose.yaw
