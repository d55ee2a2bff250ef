"""A scene of the user's own: the README's, word for word, and what may be wrong with one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.registry import make_scene
from tests.conftest import Command
from tests.helpers import clearance, held_still
from tests.test_architecture import ROOT


def readme_scene() -> str:
    section = (ROOT / "README.md").read_text().split("### Add a scene")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "gate.py"
    path.write_text(readme_scene())
    return path


def test_the_readmes_scene_is_short_and_runs_as_the_readme_says(
    path: Path, command: Command
) -> None:
    assert len(path.read_text().splitlines()) <= 20
    options = ("--episodes", 1, "--workers", 1, "--seconds", 1)
    result = command("pixelgait-eval", "iap", "--scene", path.name, *options)
    assert "success_rate" in result.stdout, result.stderr
    scene = make_scene(str(path), 1.0)
    for seed in range(5):
        layout = scene.layout(np.random.default_rng(seed))
        across = np.column_stack((np.full(201, 2.5), np.linspace(-1.0, 1.0, 201)))
        gap = np.count_nonzero(clearance(scene, layout, across) > 0.0) * 0.01
        assert gap == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("name", BODIES)
def test_it_looks_different_in_every_episode(path: Path, name: str) -> None:
    body = make_body(name, A1, make_scene(str(path), 0.5))
    images = []
    for seed in (0, 1):
        held_still(body, seed, 10)
        images.append(body.render().pixels)
    body.close()
    assert not np.array_equal(*images)
    assert all((image[..., 2] > image[..., 0] + 40).any() for image in images)  # bluish walls


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines 0 classes of scenes, expected one"),
        ("def oh no", "SyntaxError"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        (readme_scene() + "\nclass Other(Gate): pass", "defines 2 classes of scenes"),
        (readme_scene().replace(", difficulty", ""), "TypeError"),
        (readme_scene().replace("layout", "plan"), "abstract"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "own.py"
    path.write_text(text)
    with pytest.raises(UserError, match=r"own\.py") as caught:
        make_scene(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scenes_that_are_not_there_are_named() -> None:
    with pytest.raises(UserError, match=r"scene nowhere\.py is missing"):
        make_scene("nowhere.py")
    with pytest.raises(UserError, match=r"unknown scene 'moon', choose from .*, gibson:FOLDER or"):
        make_scene("moon")
