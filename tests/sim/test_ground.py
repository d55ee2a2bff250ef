"""Ground as data: the same heights as written out for each scene, one by one or in machine code."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pixelgait.sim.scenes.courses.bridges import WIDE_M, Bridges
from pixelgait.sim.scenes.houses.furnished import FurnishedHouse
from pixelgait.sim.scenes.registry import HOUSE_KINDS, SCENES, make_scene
from pixelgait.sim.scenes.uneven_ground import (
    GRID_M,
    GRID_POINTS,
    MIDDLE_M,
    SLIDE_M,
    Kerb,
    Ramps,
    Rough,
    Steps,
)
from pixelgait.sim.world.ground_kernels import grounds_m
from pixelgait.sim.world.scene import Layout, Pose, Scene, interpolate


def rough_m(scene: Rough, layout: Layout, x: float, y: float) -> float | None:
    half_x, half_y = ((n - 1) * GRID_M / 2 for n in GRID_POINTS)
    if abs(x - MIDDLE_M) >= half_x - SLIDE_M or abs(y) >= half_y - SLIDE_M:
        return None
    (field,) = layout.movable
    sign = 1.0 if field.yaw == 0.0 else -1.0
    along, across = sign * (x - field.x), sign * (y - field.y)
    return interpolate(scene.heights, (along + half_x) / GRID_M, (across + half_y) / GRID_M)


def bridges_m(scene: Bridges, _: Layout, x: float, y: float) -> float | None:
    for low, high in scene.wide:
        if low < x < high and abs(y) < WIDE_M / 2:
            return 0.0
    for (low, high), aside in zip(scene.bridges, scene.aside_m, strict=True):
        if low <= x <= high and abs(y - aside) < scene.narrow_m / 2:
            return 0.0
    return None


def ramps_m(scene: Ramps, _: Layout, x: float, y: float) -> float | None:
    on_it = -1.5 < x < 15.0 and abs(y) < 2.4
    return float(np.interp(x, scene.knots_x, scene.knots_z)) if on_it else None


def steps_m(scene: Steps, _: Layout, x: float, y: float) -> float | None:
    if not (-1.5 < x < 15.0 and abs(y) < 2.4):
        return None
    return scene.heights_m[int((x - 1.5) / 0.5)] if x > 1.5 else 0.0


def kerb_m(scene: Kerb, _: Layout, x: float, y: float) -> float | None:
    if not (-1.5 < x < 15.0 and abs(y) < 2.4):
        return None
    return scene.heights_m[0] if 0.75 <= x < 1.7 else 0.0


def house_m(scene: Scene, _: Layout, x: float, y: float) -> float | None:
    return 0.0 if abs(x) < 6.0 and abs(y) < 6.0 else None


def furnished_m(scene: FurnishedHouse, _: Layout, x: float, y: float) -> float | None:
    x0, x1, y0, y1 = scene.map.extent_m
    return 0.0 if x0 < x < x1 and y0 < y < y1 else None


def strip(
    last_x: float, half_width: float
) -> Callable[[Scene, Layout, float, float], float | None]:
    return lambda _scene, _layout, x, y: 0.0 if -1.0 < x < last_x and abs(y) < half_width else None


FORMULAS: dict[str, Callable[..., float | None]] = {
    "flat": lambda *_: 0.0,
    "passers-by": lambda *_: 0.0,
    "people": lambda *_: 0.0,
    "rough": rough_m,
    "bridges": bridges_m,
    "ramps": ramps_m,
    "steps": steps_m,
    "kerb": kerb_m,
    "rooms": house_m,
    **dict.fromkeys(HOUSE_KINDS, furnished_m),
    "fields": strip(9.0, 3.0),
    "room-chain": strip(13.0, 3.6 / 2 + 0.12),
}
EDGES = (-6.0, -1.5, -1.0, 0.0, 1.5, 2.4, 6.0, 12.0, 13.0, 13.5, 15.0)


def points(rng: np.random.Generator) -> np.ndarray:
    """Points (n, 2) all over a scene, in the middles of cells, and on edges."""
    cells = np.round(rng.uniform(-8.0, 18.0, (1000, 2)), 1) + 0.05
    return np.concatenate(
        (
            rng.uniform((-5.0, -4.0), (16.0, 4.0), (1000, 2)),
            cells,
            [(x, y) for x in EDGES for y in EDGES],
            [(x, y) for x in np.arange(-2.0, 15.5, 0.25) for y in (-1.5, 0.0, 0.3)],
        )
    )


@pytest.mark.parametrize("name", [name for name in SCENES if name != "mixture"])
def test_grounds_have_the_heights_of_their_formulas(name: str) -> None:
    scene, formula = make_scene(name, 0.7), FORMULAS.get(name, strip(13.0, 1.5))
    for seed in range(3):
        layout = scene.layout(np.random.default_rng(seed))
        places = points(np.random.default_rng(seed))
        expected = [formula(scene, layout, x, y) for x, y in places.tolist()]
        assert [scene.ground_m(x, y) for x, y in places.tolist()] == expected
        heights = grounds_m(scene.ground(), places)
        assert [None if math.isnan(h) else h for h in heights.tolist()] == expected


class Terrace(Scene):
    """A scene of a user, who only knows `ground_m`."""

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))

    def ground_m(self, x: float, y: float) -> float | None:
        return math.floor(x) * 0.05


def test_a_scene_with_a_ground_m_of_its_own_has_no_ground_as_data() -> None:
    assert Terrace().ground() is None
    assert Terrace().ground_m(2.5, 0.0) == 0.1
    assert make_scene("mixture").ground() is not None


def test_a_mixture_has_the_ground_of_the_kind_it_drew() -> None:
    scene = make_scene("mixture", 1.0, "train")
    for seed in range(20):
        scene.layout(np.random.default_rng(seed))
        assert scene.ground() is scene.scene.scene.ground()  # type: ignore[attr-defined]
