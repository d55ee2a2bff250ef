"""Mixtures of scenes: drawn by weight, each equal to the scene alone, walked by the teacher."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes import Layout, Scene
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.mixture import Mixture
from pixelgait.sim.scenes.registry import MIXED, make_scene
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.seeds import Stream
from tests.conftest import Command
from tests.helpers import glide_episode

OWN = '''"""A box ahead."""

from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene


class Own(Scene):
    name = "own"
    goal_m = 4.0
    fixed = (Plane(),)
    movable = (Box(Pose(0, 0, 0), (0.1, 0.3, 0.4), (1, 0, 0)),)

    def __init__(self, difficulty):
        pass

    def layout(self, rng):
        return Layout(Pose(0, 0, 0), [Pose(2.0, rng.uniform(-0.2, 0.2), 0.4)])
'''


def mixture(name: str) -> Mixture:
    scene = make_scene(name)
    assert isinstance(scene, Mixture)
    return scene


def drawn(scene: Mixture, episodes: int) -> Counter[str]:
    """Frequency of each kind."""
    names: list[str] = []
    for seed in range(episodes):
        scene.layout(np.random.default_rng(seed))
        names.append(scene.scene.name)
    return Counter(names)


def test_kinds_are_drawn_by_their_weights() -> None:
    counts = drawn(mixture("mixture"), 1000)
    assert set(counts) == set(MIXED)
    for name, weight in MIXED.items():
        assert counts[name] / 1000 == pytest.approx(weight / sum(MIXED.values()), abs=0.035)


def test_mixture_lists_add_remove_and_weigh_kinds(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    assert set(drawn(mixture("mixture:all,-slalom,-rough"), 300)) == set(MIXED) - {
        "slalom",
        "rough",
    }
    counts = drawn(mixture(f"mixture:all=2,{own}={2 * sum(MIXED.values())}"), 400)
    assert counts["own"] / 400 == pytest.approx(0.5, abs=0.08)  # as often as all others together
    counts = drawn(mixture(f"mixture:gates,{own}=3"), 400)
    assert counts["own"] / 400 == pytest.approx(0.75, abs=0.08)
    assert set(counts) == {"own", "gates"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mixture:gates=0", "weight 0 is not a number above 0"),
        ("mixture:gates=x", "weight x is not"),
        ("mixture:-gates", "no gates to remove"),
        ("mixture:gates,-gates=3", "no gates=3 to remove"),
        ("mixture:gates,-gates", "no kind is left"),
        ("mixture:nothing", "unknown scene 'nothing'"),
        ("mixture:gates,rooms", "only some of its scenes have a goal position"),
    ],
)
def test_malformed_mixture_is_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_scene(name)


def test_scanned_house_in_a_mixture_is_refused(house: Path) -> None:
    with pytest.raises(UserError, match="scanned houses"):
        make_scene(f"mixture:gibson:{house}")


@pytest.mark.parametrize("name", [*BODIES, "glide"])
def test_every_kind_in_a_mixture_renders_as_alone(name: str) -> None:
    """Independently of the previous episode."""
    mixed = mixture("mixture:gates,rough,clutter,room-chain,bridges")
    body = KinematicBody(A1, mixed) if name == "glide" else make_body(name, A1, mixed)
    for seed in range(8):
        body.reset(seed)
        rng = np.random.default_rng((seed, 0))
        rng.choice(len(mixed.kinds), p=mixed.shares)
        alone = make_scene(mixed.scene.name, 0.25 if mixed.scene.name == "rough" else 0.5)
        layout = alone.layout(rng)
        assert layout.start == body.layout.start
        image = body.render().pixels
        single = Fixed(alone, layout)
        other = KinematicBody(A1, single) if name == "glide" else make_body(name, A1, single)
        other.reset(seed)
        assert (np.abs(image.astype(int) - other.render().pixels) <= 1).mean() > 0.999
        other.close()
    body.close()


class Fixed(Scene):
    """A scene with a single layout."""

    name = "fixed"

    def __init__(self, scene: Scene, layout: Layout) -> None:
        self.scene, self.only = scene, layout
        self.fixed, self.movable = scene.fixed, scene.movable

    def layout(self, rng: np.random.Generator) -> Layout:
        return self.only

    def ground_m(self, x: float, y: float) -> float | None:
        return self.scene.ground_m(x, y)


def test_teacher_passes_every_kind() -> None:
    scene = mixture(Mixture.name)
    first: dict[str, int] = {}  # seed of the first episode of every kind
    for seed in range(9000, 9100):
        scene.layout(Stream.LAYOUT.rng(seed))
        first.setdefault(scene.scene.name, seed)
    assert set(first) == set(MIXED)
    body = KinematicBody(A1, scene)
    for seed in first.values():
        task = navigation_task(scene, 6000)
        assert glide_episode(Teacher(body).decide, body, task, seed).collision_free_success
    body.close()


def test_mixture_keeps_friction() -> None:
    mixed = Mixture([(FlatGround(friction=0.1), 1.0), (make_scene("gates"), 1.0)])
    assert [shape.friction for shape in mixed.movable[:1]] == [0.1]


@pytest.mark.long
def test_imitation_accepts_a_mixture(command: Command, tmp_path: Path) -> None:
    done = command(
        "pixelgait-train", "imitate", "--out", tmp_path / "run", "--iterations", 1, "--workers", 1,
        "--scene", "mixture:gates,clutter", "--appearance", "train", "--encoder", "cnn",
        "--dagger.courses", 2, "--dagger.steps", 2, "--validation-episodes", 1,
        "--validation-steps", 50, "--steps", 100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("texture", ["None", "Texture('bricks', ((0, 0, 0), (1, 1, 1)))"])
def test_invisible_box_stays_invisible_after_it_was_away(
    name: str, texture: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.py"
    box = f"(1, 0, 0), texture={texture}, visible=False)"
    code = "from pixelgait.sim.world.texture import Texture\n" + OWN.replace("(1, 0, 0))", box)
    path.write_text(code, encoding="utf-8")
    scene = mixture(f"mixture:{path},gates")
    body = make_body(name, A1, scene, camera=Camera(A1.camera, 16, 16, "depth"))
    seen: dict[str, list[np.ndarray]] = {"own": [], "gates": []}
    for seed in range(12):
        body.reset(seed)
        seen[scene.scene.name].append(body.render_depth())
    body.close()
    assert min(map(len, seen.values())) > 1
    for picture in seen["own"]:
        np.testing.assert_array_equal(picture, seen["own"][0])
        assert picture.mean() > seen["gates"][0].mean()
