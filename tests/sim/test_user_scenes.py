"""User scenes: what a file may define, and the one line about each mistake that the check finds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pybullet
import pytest

from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.control.controller import latent_for
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.rendering.episode_appearance import EpisodeAppearance
from pixelgait.sim.rendering.geometry import Geometry
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.navigate import Forward
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.viewing.video import SceneRenderer
from pixelgait.sim.world.appearance import AppearanceSeed
from tests.helpers import glide_episode

SCENE = """from __future__ import annotations
import math
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from pixelgait.sim.scenes import *

@dataclass
class Gap:
    x: float = 0.5

class Custom(Scene):
    fixed = (Plane(),)
    def __init__(self, difficulty: float) -> None: self.gap = Gap()
    def layout(self, rng): return Layout(Pose(0, 0, 0))
"""
# A goal 5 m away, among boxes.
GOAL = """has_goal_position = True; goal_position = ({x}, {y})
    def progress_m(self, x, y): return -math.hypot(x - {x}, y - {y})
    def __init__(self, difficulty):
        self.fixed = (Plane(), *(Box(Pose(*at), half, (0, 0, 1)) for at, half in {boxes}))
"""
PILLAR = [((3.2, 4, 0.5), (0.5, 0.5, 0.5))]
PEN = [((3, 3, 0.5), (1.1, 0.1, 0.5)), ((3, 5, 0.5), (1.1, 0.1, 0.5))]
PEN += [((2, 4, 0.5), (0.1, 1.1, 0.5)), ((4, 4, 0.5), (0.1, 1.1, 0.5))]
MOVABLE_BOX = "movable = (Box(Pose(0, 0, 0), (1, 1, 1), (0, 0, 1)),)\n    "


def written(folder: Path, more: str) -> str:
    path = folder / "custom.py"
    path.write_text(f"{SCENE}    {more}\n", encoding="utf-8")
    return str(path)


def refused(folder: Path, more: str) -> str:
    """The line that refuses a scene."""
    with pytest.raises(UserError) as error:
        make_scene(written(folder, more))
    assert str(error.value).startswith(f"scene {folder}/custom.py: ")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_user_scene_may_use_dataclasses(tmp_path: Path) -> None:
    scene = make_scene(written(tmp_path, "def progress_m(self, x, y): return self.gap.x + x"))
    assert scene.progress_m(1.0, 0.0) == 1.5
    assert make_scene(written(tmp_path, "goal_m = 3.0")).goal_m == 3.0


def test_user_scene_without_a_name_is_named_after_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, "goal_m = 3.0")
    assert make_scene(path).name == make_scene(path, appearance="test").name == "custom"


def test_exceptions_of_user_code_keep_their_traceback(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        make_scene(written(tmp_path, "goal_m = 1 / 0"))
    last = error.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("custom.py", 16)


def test_edited_user_scene_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's cache confuses two files of the same second and length."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for goal_m in (3.0, 4.0):
        path = written(tmp_path, f"goal_m = {goal_m}")
        os.utime(path, (1e9, 1e9))
        assert make_scene(path).goal_m == goal_m
    assert not list(tmp_path.rglob("*.pyc"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("def __init__(self): pass", "Custom: too many positional arguments, expected __init__"),
        ("layout = Scene.layout", "Custom has no layout"),
        ("goal_m = '5'", "goal_m is '5', expected a number"),
        ("goal_m = -1.0", "progress_m at the start is 0, beyond goal_m, -1"),
        ("fixed = Plane()", "fixed is a Plane, expected a list of shapes"),
        ("fixed = (Plane(), 'wall')", "fixed: 'wall', expected a Box, Plane"),
        ("movable = (Plane(),)", "movable: a Plane, expected Box or HeightField"),
        ("fixed = (Box(Pose(2, 0, 0), (1, 1), (0, 0, 1)),)", "half_m of a Box is (1, 1), expected"),
        ("fixed = (Box((2, 0, 0), (1, 1, 1), (0, 0, 1)),)", "pose is (2, 0, 0), expected a Pose"),
        ("fixed = (Box(Pose(2, 0, 0), (1, 1, 1), 'red'),)", "Box.colour is 'red', expected a num"),
        *(
            (f"fixed = (Box(Pose(2, 0, 0), (1, 1, 1), {colour}),)", f"colour is {colour}, expected")
            for colour in ((255, 0, 0), (0.1, 0.2), [0, 0, 1])
        ),
        ("fixed = (Plane(math.nan),)", "Plane.friction is not finite"),
        ("fixed = (HeightField([[0, 1], [1, 0]], 0.2, (0, 0, 1)),)", "an array heights_m (n, m)"),
        ("fixed = (Mesh('a.obj', 'a.obj', None, ()),)", "'a.obj' of a Mesh, expected the Path"),
        ("fixed = (Mesh(Path('a.obj'), Path('a.obj'), None, ()),)", "expected the Path of a file"),
        ("def layout(self, rng): return None", "layout: it returns None, expected a Layout"),
        ("def layout(self, rng): return Layout((0, 0, 0))", "layout: (0, 0, 0), expected a Pose"),
        ("def layout(self, rng): return Layout(Pose(math.nan, 0, 0))", "layout: Pose.x is not fin"),
        (
            "same = Layout(Pose(0, 0, 0))\n    def layout(self, rng): return self.same",
            "it returns the same Layout again, expected a new one",
        ),
        ("def progress_m(self, x, y): return '3'", "progress_m(0, 0) is '3', expected a number"),
        ("def progress_m(self, x, y): return math.nan", "progress_m(0, 0) is not finite"),
        ("def ground_m(self, x, y): return math.inf", "ground_m(0, 0) is not finite"),
        ("def ground_m(self, x, y): return None", "no ground at the start: ground_m(0, 0) is None"),
        ("ground = Plane()", "ground is a Plane, expected a method that returns make_ground(...)"),
        ("_ground = Plane()", "ground is a Plane, expected a method that returns make_ground(...)"),
        (
            "def ground_m(self, x, y): return abs(y) < 1",
            "expected the ground below it: ground_m is",
        ),
        ("def layout(self, rng): return Layout(Pose(0, 0, 0.3))", "the start is at z = 0.3, expec"),
        ("fixed = ()", "nothing to stand on at the start (0, 0): no shape is below it"),
        ("fixed = (Box(Pose(3, 0, 0), (1, 1, 1), (0, 0, 1)),)", "nothing to stand on at the start"),
        *(
            (f"fixed = (HeightField(np.full((9, 9), {z}), 0.5, (0, 0, 1)),)", "nothing to stand on")
            for z in (0.5, -0.5)  # the start is buried, or in the air
        ),
        (
            "fixed = (Plane(), Box(Pose(0.1, 0.2, 0.5, 0.3), (0.01, 1, 1), (0, 0, 1)))",
            "the start (0, 0) is inside a Box at (0.1, 0.2, 0.5)",
        ),
        *(
            (f"{MOVABLE_BOX}def layout(self, rng): return Layout(Pose(0, 0, 0), {placed})", words)
            for placed, words in (
                ("[]", "layout: it places 0 shapes, 1 are movable"),
                ("iter([Pose(3, 0, 1)])", "movable is a list_iterator, expected a list"),
                (
                    "[Pose(0.2, 0, 1)], [Motion(0, (0, 5, 0), 9)]",
                    "the start (0, 0) is inside a Box",
                ),
                (
                    "[Pose(2, 0, 0)], [Motion(0, (0, 1), 2)]",
                    "expected reach_m (x, y, z) and period",
                ),
                ("[Pose(2, 0, 0)], [Motion(1, (0, 1, 0), 2)]", "a Motion is of shape 1, 1 are mov"),
                (
                    "[Pose(2, 0, 0)], [Motion(0, path=[Waypoint(1, 0, 0), Waypoint(1, 2, 0)])]",
                    "the path of a Motion is at times [1, 1], expected ascending ones",
                ),
            )
        ),
        ("has_goal_position = True", "goal_position is None, expected finite x and y"),
        ("goal_position = (3, 4)", "expected has_goal_position = True as well"),
        (
            "has_goal_position = True; goal_position = (1,)",
            "goal_position is (1,), expected finite",
        ),
        (
            "has_goal_position = True; goal_position = (3, 4)",
            "progress_m is 0 at the start and 3 at the goal, 5 m away, expected minus the length",
        ),
        (GOAL.format(x=3, y=4, boxes=PILLAR), "the goal (3, 4) is inside a Box at (3.2, 4, 0.5)"),
    ],
)
def test_mistake_in_a_user_scene_is_one_line(tmp_path: Path, more: str, words: str) -> None:
    assert words in refused(tmp_path, more)


@pytest.mark.parametrize(
    ("text", "texture", "words"),
    [
        ("no mesh\n", None, "has no faces, expected an OBJ mesh"),
        ("v 0 0 0\nf 1 2 99999999\n", None, "a face with vertex 99999999 of 1"),
        ("v 0 0 0\nf 1 1 1\n", "a.obj", "a.obj of a Mesh is not a picture"),
    ],
)
def test_mesh_that_would_end_a_simulator_is_refused(
    tmp_path: Path, text: str, texture: str | None, words: str
) -> None:
    (mesh := tmp_path / "a.obj").write_text(text, encoding="utf-8")
    picture = texture and f"Path('{mesh}')"
    more = f"fixed = (Plane(), Mesh(Path('{mesh}'), Path('{mesh}'), {picture}, ()))"
    assert words in refused(tmp_path, more)


@pytest.mark.parametrize(
    "fixed",
    [
        "Box(Pose(0, 0, -0.1), (1, 1, 0.1), (0, 0, 1))",  # a floor
        "HeightField(np.zeros((5, 5)), 0.1, (0, 0, 1))",
        "Plane(), Box(Pose(0.3, 0, 0.5), (0.05, 1, 0.5), (0, 0, 1))",  # in front of the robot
        "Plane(), Box(Pose(0, 0, 0.9), (1, 1, 0.1), (0, 0, 1))",  # a roof
        "Plane(), Box(Pose(0, 0, 0), (1, 1, 0.01), (0, 0, 1))",  # a rug
    ],
)
def test_start_on_below_or_beside_a_shape_is_accepted(tmp_path: Path, fixed: str) -> None:
    scene = make_scene(written(tmp_path, f"fixed = ({fixed},)"))
    assert scene.layout(np.random.default_rng(0)).start.x == 0.0


def steer_to(folder: Path, x: float, y: float, boxes: list[object]) -> None:
    """Let the teacher walk towards a goal for a moment."""
    scene = written(folder, GOAL.format(x=x, y=y, boxes=boxes))
    evaluate(
        EvalConfig("walk", episodes=1, scene=scene, baseline="teacher", seconds=0.1, workers=1)
    )


@pytest.mark.parametrize(
    ("x", "y", "boxes", "words"),
    [
        (3, 4, PEN, "(3, 4): the nearest position with room"),
        (0, -17, [], "(0, -17) from the start (0, 0): the teacher's map ends there, exp"),
    ],
)
def test_teacher_refuses_an_unreachable_goal_in_one_line(
    tmp_path: Path, x: float, y: float, boxes: list[object], words: str
) -> None:
    with pytest.raises(UserError) as error:
        steer_to(tmp_path, x, y, boxes)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_teacher_accepts_goals_at_the_edge_of_its_map_and_beside_boxes(tmp_path: Path) -> None:
    steer_to(tmp_path, 0, -15.7, [])
    steer_to(tmp_path, 3, 4, PEN[1:])  # open on one side
    steer_to(tmp_path, 2.3, 4, PILLAR)  # 0.4 m from it


def test_goal_beyond_the_teachers_map_is_accepted_without_the_teacher(tmp_path: Path) -> None:
    scene = make_scene(written(tmp_path, GOAL.format(x=30, y=0, boxes=[])))
    assert scene.path_length_m(0.0, 0.0) == 30.0


UPSTAIRS = """goal_m = 9.0
    def __init__(self, difficulty):
        height = 0.1 * np.clip(np.arange(-2.0, 12.0, 0.1) - 1.0, 0.0, 5.0)
        ground = HeightField(np.repeat(height[:, None], 60, 1), 0.1, (0, 0, 1), pose=Pose(5, 0, 0))
        self.fixed = (ground, Box(Pose(8, -0.5, 0.9), (0.1, 2.0, 0.4), (0, 0, 1)))
    def ground_m(self, x, y): return 0.1 * min(max(x - 1.0, 0.0), 5.0) if abs(y) < 2.9 else None
"""


def test_box_on_higher_ground_is_an_obstacle_there(tmp_path: Path) -> None:
    """The teacher walks round it, and it stops a gliding robot, as in physics."""
    body = KinematicBody(A1, make_scene(written(tmp_path, UPSTAIRS)))
    episode = glide_episode(Teacher(body).decide, body, Forward(4500), 0)
    assert (episode.success, episode.contacts.count) == (True, 0)
    body.reset(0)
    body.robot.drift_rad_per_s = body.robot.slip = 0.0
    for _ in range(2000):
        body.follow(latent_for(0.6, 0.0))
    assert 7.0 < body.robot.x < 7.9 - 0.2
    body.close()


HIGH = """goal_m = 9.0
    fixed = (Box(Pose(0, 0, {z} - 0.5), (20, 20, 0.5), (0, 0.4, 0)),)
    def layout(self, rng): return Layout(Pose(0, 0, {z}))
    def ground_m(self, x, y): return {z}"""


def test_ground_at_any_height_is_filmed_and_given_an_appearance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[np.ndarray] = []
    compute = pybullet.computeViewMatrix

    def recorded(eye: np.ndarray, target: np.ndarray, up: object) -> object:
        views.append(np.concatenate((eye - position, target - position)))
        return compute(eye, target, up)

    monkeypatch.setattr(pybullet, "computeViewMatrix", recorded)
    for z_m in (0.0, 3.0, -60.0):
        scene = make_scene(written(tmp_path, HIGH.format(z=z_m)))
        renderer = SceneRenderer(A1, scene, 0)
        position = np.array((0.0, 0.0, z_m + A1.stand_height_m))
        renderer.frame(position, np.array((0.0, 0.0, 0.0, 1.0)), A1.default_pose_rad, None)
        renderer.close()
        assert (EpisodeAppearance.of(AppearanceSeed("train", 1), Geometry(scene)).which == 0).all()
    assert len(views) == 3
    assert np.allclose(views, views[0])
