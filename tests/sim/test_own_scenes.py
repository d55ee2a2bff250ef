"""Scenes of a user's own: what a file may hold, and what is said of one that cannot be used."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pybullet
import pytest

from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.control.low_level import latent_for
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.rendering.episode_appearance import EpisodeAppearance
from pixelgait.sim.rendering.geometry import Geometry
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.forward import Forward
from pixelgait.sim.tasks.gliding_episode import glide_episode
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.viewing.video import SceneRenderer
from pixelgait.sim.world.appearance import AppearanceSeed

OWN = """from __future__ import annotations
import math
from dataclasses import dataclass
from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene, Swing

@dataclass
class Gap:
    x: float = 0.5

class Own(Scene):
    name = "own"
    fixed = (Plane(),)
    def __init__(self, difficulty: float) -> None: self.gap = Gap()
    def layout(self, rng): return Layout(Pose(0, 0, 0))
"""


def written(folder: Path, more: str) -> str:
    path = folder / "own.py"
    path.write_text(f"{OWN}    {more}\n", encoding="utf-8")
    return str(path)


def test_a_scene_may_have_dataclasses(tmp_path: Path) -> None:
    scene = make_scene(written(tmp_path, "def progress_m(self, x, y): return self.gap.x + x"))
    assert scene.progress_m(1.0, 0.0) == 1.5
    again = make_scene(written(tmp_path, "goal_m = 3.0"))
    assert again.goal_m == 3.0
    assert again.ground_m(1.0, 0.0) == 0.0


def test_a_scene_without_a_name_has_its_files(tmp_path: Path) -> None:
    path = Path(written(tmp_path, "goal_m = 3.0"))
    path.write_text(path.read_text(encoding="utf-8").replace('name = "own"', ""), encoding="utf-8")
    assert {
        make_scene(str(path), appearance=appearance).name for appearance in ("nominal", "test")
    } == {"own"}


def test_a_scene_that_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(UserError, match=r"own\.py:15: ZeroDivisionError"):
        make_scene(written(tmp_path, "goal_m = 1 / 0"))
    assert not [name for name in set(sys.modules) - before if "own" in name]


def test_a_scene_that_would_end_the_command_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"own\.py:15: SystemExit: 3"):
        make_scene(written(tmp_path, "import sys; sys.exit(3)"))


@pytest.mark.parametrize("parameters", ["self", "self, width, height"])
def test_a_scene_that_takes_no_difficulty_is_told_to(tmp_path: Path, parameters: str) -> None:
    with pytest.raises(UserError, match=r"own\.py: its class .*: expected __init__\(self, diff"):
        make_scene(written(tmp_path, f"def __init__({parameters}): pass"))


@pytest.mark.parametrize("prefix", ["", "mixture:"])
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("def progress_m(self, x, y): return [x][int(x)]", "own.py:15: IndexError"),
        (
            "def progress_m(self, x, y): return x if x < 2 else math.nan",
            "own.py: ValueError: progress_m of (3, 1) is nan, no finite number",
        ),
        ("def progress_m(self, x, y): return x if x < 2 else None", "own.py: TypeError"),
    ],
)
def test_progress_that_fails_on_the_way_is_one_line(
    tmp_path: Path, prefix: str, more: str, words: str
) -> None:
    scene = make_scene(prefix + written(tmp_path, more))
    scene.layout(np.random.default_rng(0))
    assert scene.progress_m(0.5, 1.0) == 0.5
    with pytest.raises(UserError) as refused:
        scene.progress_m(3.0, 1.0)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_ground_that_fails_on_the_way_is_one_line(tmp_path: Path) -> None:
    ends = written(tmp_path, "def ground_m(self, x, y): return {0: 0.0, 1: None}.get(x, math.inf)")
    scene = make_scene(ends)
    assert scene.ground_m(0.0, 0.0) == 0.0
    assert scene.ground_m(1.0, 0.0) is None
    with pytest.raises(UserError, match=r"ground_m of \(3, 1\) is inf, no finite number"):
        scene.ground_m(3.0, 1.0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "it tells a destination, but its layout sets none"),
        ("; destination = (1.0, math.nan)", "the destination is not of finite numbers"),
        ("; destination = (1.0,)", r"destination is \(1.0,\), expected x and y"),
    ],
)
def test_who_tells_a_destination_has_one(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_scene(written(tmp_path, f"tells_destination = True{more}"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "progress_m goes from 0 at the start to 3 at the destination, 5 m away: expected"),
        ("def progress_m(self, x, y): return math.hypot(x - 3, y - 4)", "from 5 at the start to 0"),
        ("def progress_m(self, x, y): return 0.0", "from 0 at the start to 0 at the destination"),
    ],
)
def test_progress_to_a_destination_is_minus_what_is_left(
    tmp_path: Path, more: str, words: str
) -> None:
    """Or paths would be judged by a length that is none."""
    told = "tells_destination = True; destination = (3.0, 4.0)\n    "
    with pytest.raises(UserError) as refused:
        make_scene(written(tmp_path, told + more))
    assert words in str(refused.value)
    way = "def progress_m(self, x, y): return -math.hypot(x - 3, y - 4)"
    assert make_scene(written(tmp_path, told + way)).progress_m(3.0, 4.0) == 0.0


@pytest.mark.parametrize(
    ("path_length_m", "words"),
    [
        ("0.0", "way_m at the start is 0, to a destination 5 m away"),
        ("math.nan", "way_m of (0, 0)"),
    ],
)
def test_a_way_is_as_long_as_a_straight_one_at_least(
    tmp_path: Path, path_length_m: str, words: str
) -> None:
    """Or whoever walks it would be as good as one can be, or nobody."""
    way = (
        WAY.format(x=3.0, y=4.0, boxes=[])
        + f"    def path_length_m(self, x, y): return {path_length_m}\n"
    )
    with pytest.raises(UserError) as refused:
        make_scene(written(tmp_path, way))
    assert words in str(refused.value)


UPSTAIRS = """goal_m = 9.0
    def __init__(self, difficulty):
        import numpy as np
        from pixelgait.sim.scenes import Box, HeightField
        height = 0.1 * np.clip(np.arange(-2.0, 12.0, 0.1) - 1.0, 0.0, 5.0)
        ground = HeightField(np.repeat(height[:, None], 60, 1), 0.1, (0, 0, 1), pose=Pose(5, 0, 0))
        self.fixed = (ground, Box(Pose(8, -0.5, 0.9), (0.1, 2.0, 0.4), (0, 0, 1)))
    def ground_m(self, x, y): return 0.1 * min(max(x - 1.0, 0.0), 5.0) if abs(y) < 2.9 else None
"""


def test_what_stands_on_higher_ground_stands_in_the_way_there(tmp_path: Path) -> None:
    """Of a teacher's way, and of a gliding robot's, as in physics."""
    body = KinematicBody(A1, make_scene(written(tmp_path, UPSTAIRS)))
    episode = glide_episode(Teacher(body).decide, body, Forward(4500), 0)
    assert (episode.success, episode.contacts.count) == (True, 0)
    body.reset(0)
    body.state.gait = replace(body.state.gait, drift_rad_per_s=0.0, slip=0.0)
    for _ in range(2000):
        body.follow(latent_for(0.6, 0.0))
    assert 7.0 < body.state.x < 7.9 - 0.2
    body.close()


WAY = """tells_destination = True; destination = ({x}, {y})
    def progress_m(self, x, y): return -math.hypot(x - {x}, y - {y})
    def __init__(self, difficulty):
        from pixelgait.sim.scenes import Box
        self.fixed = (Plane(), *(Box(Pose(*at), half, (0, 0, 1)) for at, half in {boxes}))
"""
PILLAR = [((3.2, 4, 0.5), (0.5, 0.5, 0.5))]
PEN = [((3, 3, 0.5), (1.1, 0.1, 0.5)), ((3, 5, 0.5), (1.1, 0.1, 0.5))]
PEN += [((2, 4, 0.5), (0.1, 1.1, 0.5)), ((4, 4, 0.5), (0.1, 1.1, 0.5))]


def led_to(folder: Path, x: float, y: float, boxes: list[object]) -> None:
    """Let the teacher walk there for a moment."""
    scene = written(folder, WAY.format(x=x, y=y, boxes=boxes))
    evaluate(
        EvalConfig("walk", episodes=1, scene=scene, baseline="teacher", seconds=0.1, workers=1)
    )


@pytest.mark.parametrize(
    ("x", "y", "boxes", "words"),
    [
        (3, 4, PILLAR, "the destination (3, 4) is inside a Box at (3.2, 4, 0.5)"),
        (3, 4, PEN, "no way to its destination (3, 4): the nearest place with room"),
        (0, -17, [], "(0, -17) from the start (0, 0): the teacher's map ends there, exp"),
    ],
)
def test_a_destination_to_which_no_way_leads_is_one_line(
    tmp_path: Path, x: float, y: float, boxes: list[object], words: str
) -> None:
    with pytest.raises(UserError) as refused:
        led_to(tmp_path, x, y, boxes)
    assert words in str(refused.value)
    assert "expected" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_destination_may_be_as_far_as_the_map_goes_and_beside_things(tmp_path: Path) -> None:
    led_to(tmp_path, 0, -15.7, [])
    led_to(tmp_path, 3, 4, PEN[1:])  # open on one side
    led_to(tmp_path, 2.3, 4, PILLAR)  # 0.4 m from it


def test_who_needs_no_map_may_be_told_to_go_further(tmp_path: Path) -> None:
    scene = make_scene(written(tmp_path, WAY.format(x=30, y=0, boxes=[])))
    scene.layout(np.random.default_rng(0))
    assert scene.path_length_m(0.0, 0.0) == 30.0


def test_a_destination_is_told_or_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not say tells_destination = True"):
        make_scene(written(tmp_path, "destination = (3.0, 4.0)"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("goal_m = '5'", "goal_m is '5', expected a number"),
        ("goal_m = math.nan", "goal_m is nan, expected a number"),
        ("goal_m = -1.0", "progress_m at the start is 0, beyond -1"),
        ("fixed = Plane()", "fixed is a Plane, expected a list of shapes"),
        ("fixed = (Plane(), 'wall')", "'wall' is no shape"),
        ("movable = (Plane(),)", "a Plane is movable, expected Box or HeightField"),
        ("fixed = (Box(Pose(2, 0, 0), (1, 1), (0, 0, 1)),)", "half_m of a Box is (1, 1), expected"),
        *(
            (f"fixed = (Box(Pose(2, 0, 0), (1, 1, 1), {colour!r}),)", f"colour is {colour!r}, exp")
            for colour in ("red", (255, 0, 0), (0.1, 0.2), (0.1, 0.2, 0.3, 1.0), [0, 0, 1])
        ),
        ("fixed = (Box(Pose(2, 0, 0), (1, 1, 1), (0, 0, 1), texture='oak'),)", "texture of a Box"),
        *(
            (f"fixed = (HeightField({heights}, 0.2, (0, 0, 1)),)", words)
            for heights, words in (
                ("np.arange(9.0)", "heights_m of a HeightField is no array (n, m)"),
                ("[[0, 1], [1, 0]]", "heights_m of a HeightField is no array (n, m)"),
            )
        ),
        (
            "fixed = (Box(Pose(2, 0, 0), (1, 1, 1), (0, 0, 1), "
            "texture=Texture('oak', ((0, 0, 0), (1, 1, 1)))),)",
            "a Texture's pattern is 'oak', choose from bricks, checks, dots",
        ),
        *(
            (
                "fixed = (Box(Pose(2, 0, 0), (1, 1, 1), (0, 0, 1), "
                f"texture=Texture('dots', {texture})),)",
                words,
            )
            for texture, words in (
                ("[(0, 0, 0), (1, 1, 1)]", "a Texture's colours are [(0, 0, 0), (1, 1, 1)], exp"),
                ("((0, 0), (1, 1, 1))", "colour is (0, 0), expected"),
                ("((0, 0, 0), (1, 1, 1)), seed=-1", "a Texture's seed is -1, expected"),
                ("((0, 0, 0), (1, 1, 1)), tile_m=0.0", "a Texture's tile_m is 0.0, expected above"),
            )
        ),
        ("fixed = (Mesh('a.obj', 'a.obj', None, ()),)", "'a.obj' of a Mesh is no Path"),
        (
            "def layout(self, rng): return Layout(Pose(0, 0, 0), appearance=3)",
            "appearance of a layout is 3, expected AppearanceSeed or None",
        ),
        ("fixed = (Mesh(Path('a.obj'), Path('a.obj'), None, ()),)", "a.obj of a Mesh is missing"),
        ("def ground_m(self, x, y): return abs(y) < 1", "but the ground there at 1, says ground_m"),
        ("def layout(self, rng): return Layout(Pose(0, 0, 0.3))", "the start is at 0.3, but the"),
        (
            "fixed = (Box(Pose(3, 0, 0), (1, 1, 1), (0, 0, 1)),)",
            "nothing to stand on at the start (0, 0): no shape is below it",
        ),
        (
            "fixed = (HeightField(np.zeros((5, 5)), 0.1, (0, 0, 1), pose=Pose(2, 0, 0)),)",
            "nothing to stand on at the start (0, 0)",
        ),
        *(
            (
                f"fixed = (HeightField(np.full((9, 9), {z}), 0.5, (0, 0, 1)),)",
                "nothing to stand on at the start (0, 0)",
            )
            for z in (0.5, -0.5)  # buried, or in the air: it would fall for ever
        ),
        (
            "fixed = (Plane(), Box(Pose(0.1, 0.2, 0.5, 0.3), (0.01, 1, 1), (0, 0, 1)))",
            "the start (0, 0) is inside a Box at (0.1, 0.2, 0.5)",
        ),
        (
            "fixed = (Plane(),); movable = (Box(Pose(0, 0, 0), (1, 1, 1), (0, 0, 1)),)\n    "
            "def layout(self, rng): return Layout(Pose(5, 5, 0), [Pose(5.2, 5, 1)])",
            "the start (5, 5) is inside a Box at (5.2, 5, 1)",
        ),
        (
            "movable = (Box(Pose(0, 0, 0), (1, 1, 1), (0, 0, 1)),)\n    def layout(self, rng): "
            "return Layout(Pose(0, 0, 0), [Pose(0.2, 0, 1)], [Swing(0, (0, 5, 0), 9)])",
            "the start (0, 0) is inside a Box at (0.2, 0, 1)",
        ),
        (
            "movable = (Box(Pose(0, 0, 0), (1, 1, 1), (0, 0, 1)),)\n    def layout(self, rng): "
            "return Layout(Pose(0, 0, 0), [Pose(2, 0, 0)], [Swing(0, (0, 1), 2)])",
            "reach_m of a Swing is (0, 1), expected x, y and z",
        ),
        (
            "movable = (Box(Pose(0, 0, 0), (1, 1, 1), (0, 0, 1)),)\n    def layout(self, rng): "
            "return Layout(Pose(0, 0, 0), [Pose(2, 0, 0)], [Swing(0.0, (0, 1, 0), 2)])",
            "a Swing is of shape 0.0, but 1 are movable",
        ),
    ],
)
def test_members_that_no_simulator_could_build_are_one_line(
    tmp_path: Path, more: str, words: str
) -> None:
    """Of what they trip over in their own ways, or show and judge as something else."""
    head = "import numpy as np\nfrom pathlib import Path\nfrom pixelgait.sim.scenes import *\n"
    head += "from pixelgait.sim.world.texture import Texture\n"
    path = Path(written(tmp_path, more))
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    path.write_text(f"{first}\n{head}{rest}", encoding="utf-8")
    with pytest.raises(UserError) as refused:
        make_scene(str(path))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "texture", "more", "words"),
    [
        ("no mesh\n", "None", "", "has no faces, expected an OBJ mesh"),
        ("v 0 0 0\nf 1 2 99999999\n", "None", "", "a face with vertex 99999999 of 1"),
        ("v 0 0 0\nf 1 1 1\n", "Path('{mesh}')", "", "of a Mesh is not a picture"),
        ("v 0 0 0\nf 1 1 1\n", "None", ", friction=math.nan", "friction is nan"),
    ],
)
def test_a_mesh_that_would_end_a_simulator_is_one_line(
    tmp_path: Path, text: str, texture: str, more: str, words: str
) -> None:
    (mesh := tmp_path / "a.obj").write_text(text, encoding="utf-8")
    picture = texture.format(mesh=mesh)
    fixed = f"fixed = (Plane(), Mesh(*[Path('{mesh}')] * 2, {picture}, (){more}))"
    path = Path(written(tmp_path, fixed))
    head = "from pathlib import Path\nfrom pixelgait.sim.scenes import Mesh\n"
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    path.write_text(f"{first}\n{head}{rest}", encoding="utf-8")
    with pytest.raises(UserError) as refused:
        make_scene(str(path))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_layout_that_is_always_the_same_is_another_episode_every_time(tmp_path: Path) -> None:
    """By its layout a teacher knows whether its map is still right."""
    same = "same = Layout(Pose(0, 0, 0))\n    def layout(self, rng): return self.same"
    scene = make_scene(written(tmp_path, same))
    one, other = (scene.layout(np.random.default_rng(seed)) for seed in (0, 1))
    assert one == other
    assert one is not other


@pytest.mark.parametrize(
    "fixed",
    [
        "Box(Pose(0, 0, -0.1), (1, 1, 0.1), (0, 0, 1))",  # a floor
        "HeightField(np.zeros((5, 5)), 0.1, (0, 0, 1))",
        "Plane(), Box(Pose(0.3, 0, 0.5), (0.05, 1, 0.5), (0, 0, 1))",  # before its nose
        "Plane(), Box(Pose(0, 0, 0.9), (1, 1, 0.1), (0, 0, 1))",  # a roof
        "Plane(), Box(Pose(0, 0, 0), (1, 1, 0.01), (0, 0, 1))",  # a rug
    ],
)
def test_a_start_on_or_beside_something_is_one(tmp_path: Path, fixed: str) -> None:
    path = Path(written(tmp_path, f"fixed = ({fixed},)"))
    more = "import numpy as np\nfrom pixelgait.sim.scenes import Box, HeightField\n"
    path.write_text(path.read_text().replace("import math\n", f"import math\n{more}"))
    assert make_scene(str(path)).layout(np.random.default_rng(0)).start.x == 0.0


def test_a_scene_is_what_its_file_says_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two files of one second and length Python's cache knew the first alone."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for goal_m in (3.0, 4.0):
        path = Path(written(tmp_path, f"goal_m = {goal_m}"))
        os.utime(path, (1e9, 1e9))
        assert make_scene(str(path)).goal_m == goal_m
    assert not list(tmp_path.rglob("*.pyc"))


def test_swings_may_come_from_a_generator(tmp_path: Path) -> None:
    """Whoever looked at them first had them, and in the episode nothing moved."""
    scene = make_scene(
        written(
            tmp_path,
            "movable = (Box(Pose(0, 0, 0), (1, 1, 1), (0, 0, 1)),)\n    def layout(self, rng): "
            "return Layout(Pose(0, 0, 0), [Pose(3, 0, 1)], (Swing(i, (0, 1, 0), 4) for i in [0]))",
        )
    )
    (swing,) = scene.layout(np.random.default_rng(0)).swings
    assert swing.reach_m == (0, 1, 0)


HIGH = """goal_m = 9.0
    fixed = (Box(Pose(0, 0, {z} - 0.5), (20, 20, 0.5), (0, 0.4, 0)),)
    def layout(self, rng): return Layout(Pose(0, 0, {z}))
    def ground_m(self, x, y): return {z}"""


def test_ground_may_be_at_any_height_on_films_and_under_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Films looked at z = 0, and what lay below -50 m counted as put away."""
    views: list[np.ndarray] = []
    really = pybullet.computeViewMatrix

    def looking(eye: np.ndarray, target: np.ndarray, up: object) -> object:
        views.append(np.concatenate((eye - position, target - position)))
        return really(eye, target, up)

    monkeypatch.setattr(pybullet, "computeViewMatrix", looking)
    for z_m in (0.0, 3.0, -60.0):
        scene = make_scene(written(tmp_path, HIGH.format(z=z_m)))
        renderer = SceneRenderer(A1, scene, 0)
        position = np.array((0.0, 0.0, z_m + A1.stand_height_m))
        renderer.frame(position, np.array((0.0, 0.0, 0.0, 1.0)), A1.default_pose_rad, None)
        renderer.close()
        assert (EpisodeAppearance.of(AppearanceSeed("train", 1), Geometry(scene)).which == 0).all()
    assert len(views) == 3
    assert np.allclose(views, views[0])
