"""What the documentation says: its examples run, its links lead somewhere, its commands parse."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import tyro

from pixelgait.export import parity
from pixelgait.export.onnx_graphs import HighLevelGraph, high_level_graph
from pixelgait.policies.encoder_registry import ENCODERS
from pixelgait.policies.high_level import Architecture, make_high_level
from pixelgait.policies.training.fitting import has_gradient
from pixelgait.robot.bundle import HIGH_LEVEL, LOW_LEVEL, SHIPPED, load_bundle
from pixelgait.robot.cli.commands import COMMANDS
from pixelgait.robot.control.policy_map import MAP_CONTRACT
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.runtime import control_loop
from pixelgait.robot.spec import A1
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.registry import make_scene
from tests.conftest import Command
from tests.test_architecture import LAYERS, ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
CARDS = sorted(SHIPPED.glob("*/README.md"))
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def named(paths: list[Path]) -> Any:
    ids = [str(path.relative_to(ROOT)) for path in paths]
    return pytest.mark.parametrize("page", paths, ids=ids)


def example(page: str, name: str) -> str:
    """The code below a marker."""
    found = re.search(
        rf"<!-- example: {re.escape(name)} -->\n```python\n(.*?)```",
        (DOCS / page).read_text(),
        re.DOTALL,
    )
    assert found, f"docs/{page} has no example '{name}'"
    return found[1]


def imported(code: str, path: Path) -> ModuleType:
    """The code as a file, imported."""
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Links, paths and layers


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@named([*PAGES, ROOT / "CHANGELOG.md", *CARDS])
def test_every_link_and_picture_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}"


@named([*PAGES, *CARDS])
def test_files_and_folders_of_the_code_are_named_as_they_are(page: Path) -> None:
    code = re.findall(r"`((?:robot|sim|policies|export|launch|tests)/[\w./-]*)`", page.read_text())
    not_yet = {"policies/encoders/grid_means.py"}  # an example's
    for path in set(code) - not_yet:
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    in_nav = re.findall(r"([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)]
    assert sorted(in_nav) == sorted(pages)


@named(sorted((DOCS / "api").glob("*.md")))
def test_every_object_of_an_api_page_is_importable(page: Path) -> None:
    names = re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), f"{page.name} names {name}"


def test_the_layers_are_drawn_as_they_are() -> None:
    text = (DOCS / "architecture.md").read_text().split("<!-- layers:")[1]
    found = FENCED.search(text)
    assert found
    rows = [re.split(r"\s{3,}", line)[0].split("  ") for line in found[1].splitlines()]
    assert rows == [list(layer) for layer in reversed(LAYERS)]


def test_every_target_of_make_is_there() -> None:
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert told <= there
    assert there <= told


# Command lines


def command_lines() -> list[tuple[str, str]]:
    """(page, command line) of all that are shown, in fenced or indented blocks or in the text."""
    found = []
    for page in [*PAGES, *CARDS]:
        text = page.read_text().replace("\\\n", " ")
        blocks = [line for block in FENCED.findall(text) for line in block.splitlines()]
        blocks += re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
        for line in [*blocks, *re.findall(r"`([^`\n]+)`", text)]:
            line = line.split(" #")[0].strip()
            if re.match(r"(pixelgait-|python -m pixelgait)", line):
                found.append((str(page.relative_to(ROOT)), line))
    return list(dict.fromkeys(found))


class Parsed(BaseException):
    """The command line was understood; nothing shall run."""


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_command_lines_parse(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)
    if words[0] == "python":
        module, arguments = words[2], words[3:]
    else:
        assert words[0] in COMMANDS, f"{page} shows {line}"
        (module, _), arguments = COMMANDS[words[0]], words[1:]
    if not arguments:
        assert importlib.util.find_spec(module)
        return
    parse = tyro.cli

    def only_parse(*given: Any, **options: Any) -> None:
        parse(*given, **options)
        raise Parsed

    monkeypatch.setattr(tyro, "cli", only_parse)
    monkeypatch.setattr(sys, "argv", [words[0], *arguments])
    with pytest.raises(Parsed):
        importlib.import_module(module).main()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert f"[`{name}`](#" in (DOCS / "commands.md").read_text()


# Reference pages


SECTIONS = (
    "spec",
    "imu",
    "camera",
    "legs",
    "low_level",
    "high_level",
    "map",
    "motors",
    "start",
    "provenance",
)


OPTIONAL = {  # keys of newer contracts
    "camera.sampling",
    "camera.trained_eye_height_m",
    "camera.trained_eye_pitch_rad",
    *(f"map.{key}" for key in MAP_CONTRACT),
}


def test_the_keys_that_are_explained_are_those_of_the_contracts() -> None:
    text = (DOCS / "contract.md").read_text().partition("## contract.json, key by key")[2]
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    keys = set()
    for path in SHIPPED.glob("*/contract.json"):
        for key, value in json.loads(path.read_text()).items():
            keys |= {f"{key}.{inner}" for inner in value} if key in SECTIONS else {key}
    explained = {key for row in rows for key in re.findall("`([^`]+)`", row)}
    assert explained == keys | OPTIONAL


@pytest.mark.parametrize("file", [HIGH_LEVEL, LOW_LEVEL])
def test_every_tensor_of_a_graph_is_in_its_table(file: str) -> None:
    text = (DOCS / "contract.md").read_text().split(f"`{file}`:")[1].split("\n\n")[1]
    graph = ort.InferenceSession(SHIPPED / "iap" / file)
    for side, tensors in (("in", graph.get_inputs()), ("out", graph.get_outputs())):
        for tensor in tensors:
            kind = "uint8" if tensor.type == "tensor(uint8)" else "float32"
            shape = {"image": "H, W, C", "attention": "H', W'"}.get(
                tensor.name, ", ".join(map(str, tensor.shape))
            )
            assert f"| {side} | `{tensor.name}` | {kind} | ({shape}) |" in text


def test_every_array_of_a_checkpoint_is_explained() -> None:
    text = (DOCS / "commands.md").read_text().split("### Checkpoint")[1].split("###")[0]
    with np.load(SHIPPED / "iap" / "high_level" / "best.npz") as data:
        for name in data:
            assert f"`{name}`" in text, name


def test_every_range_of_randomisation_is_documented_and_assumptions_are_declared() -> None:
    module, _, body = (
        (ROOT / "sim/body/randomisation.py").read_text().partition("class Randomisation")
    )
    assert "Ranges without a source are assumptions." in " ".join(module.split())
    ranges = re.findall(
        r"^    (\w+): Range(?: \| None)? = .*\n(?:    \"{3}((?:.|\n)+?)\"{3})?", body, re.MULTILINE
    )
    assert [name for name, _ in ranges] == [each.name for each in fields(Randomisation)]
    undocumented = [name for name, documentation in ranges if not documentation]
    share_that_of_the_range_above = ["camera_left_m", "camera_up_m", "camera_roll_rad"]
    share_that_of_the_range_above += ["camera_exposure_lag_s", "camera_blue"]
    assert undocumented == share_that_of_the_range_above


# Worked examples


@pytest.mark.parametrize("name", ["gymnasium", "many"])
def test_the_environment_answers_as_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = example("commands.md", name)
    exec(code, {})
    assert capsys.readouterr().out.strip() == re.findall(r"print.*# (.*)", code)[0]


@pytest.mark.slow
def test_a_new_encoder_decides_learns_and_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = imported(example("architecture.md", "encoder"), tmp_path / "grid_means.py")
    line = example("architecture.md", "encoder line")
    import_line = example("architecture.md", "encoder import")
    assert import_line == f"from pixelgait.policies.encoders.{module.__name__} import GridMeans\n"
    ((name, encoder),) = eval(f"{{{line}}}", vars(module)).items()
    monkeypatch.setitem(ENCODERS, name, encoder)
    with pytest.raises(ValueError, match="multiple of patch 5"):
        make_high_level(Architecture(f"{name}:patch=5"), seed=0)
    rng = np.random.default_rng(0)
    for options, mirror in (("patch=4,channels=1", False), ("patch=8", True)):
        high_level = make_high_level(Architecture(f"{name}:{options}", mirror), seed=0)
        assert has_gradient(high_level)
        shape = high_level.image_shape
        images = [rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(5)]
        samples: list[parity.Tensors] = [{"image": image} for image in images]
        graph = high_level_graph(high_level)
        parity.check(parity.compare(HIGH_LEVEL, graph, HighLevelGraph(high_level), samples))
        decisions = [high_level.decide(image) for image in images]
        assert len({float(decision.latent[1]) for decision in decisions}) == len(images)
        if mirror:
            mirrored = high_level.decide(np.ascontiguousarray(images[0][:, ::-1]))
            assert mirrored.latent[1] == -decisions[0].latent[1]


@pytest.mark.parametrize(("bundle", "graph"), [("rover", "iap"), ("iap", "rover")])
def test_a_graph_of_ones_own_has_a_camera_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: str, graph: str
) -> None:
    """Of colours in a bundle of depth, and the other way round: nothing of the other's is left."""
    mine, file = tmp_path / "mine", SHIPPED / graph / HIGH_LEVEL
    monkeypatch.setattr(sys, "argv", ["own.py", bundle, str(file), str(mine)])
    exec(example("contract.md", "own.py"), {})
    contract = load_bundle(mine).contract
    untrained = {"trained_latency_s": None, "trained_period_s": None}
    assert contract["camera"] == load_bundle(graph).contract["camera"] | untrained
    assert contract["motors"] == load_bundle(bundle).contract["motors"]


def test_a_new_link_is_walked_on_and_its_silence_damps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control_loop, "elapsed_s", lambda: 0.0)  # a busy computer is no stall
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    level, none = np.array((0.0, 0.0, 0.0, 1.0)), np.zeros(3)
    names: dict[str, Any] = {
        "readings": [  # of encoders that flicker, as all do, in joints that swing
            Reading(t, pose, np.zeros(12), level, none, partial(Image, noise, t))
            for t in np.arange(200) * 0.01  # a second to stand up, a second to walk
            for swing in [0.03 * np.sin(4.0 * np.pi * t) + 1e-3 * rng.standard_normal(12)]
            for pose in [A1.default_pose_rad + swing]
        ]
    }
    exec(example("architecture.md", "link"), names)
    code = example("architecture.md", "replay")
    exec(code, names)
    fault, counted = capsys.readouterr().out.splitlines()
    assert fault == re.findall(r"print.*# (.*)", code)[0]
    assert re.match(r"[1-9]\d* decisions, \d+ commands", counted)
    stiff = [bool(command.kp.any()) for command in names["link"].sent]
    assert all(stiff[:200])
    assert not any(stiff[-5:])


# A scene of one's own


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate.py"
    path.write_text(example("scenes.md", "gate.py"))
    return path


def test_an_own_scene_is_short_and_runs_as_its_page_says(gate: Path, command: Command) -> None:
    assert len(gate.read_text().splitlines()) <= 20
    options = ("--episodes", 1, "--workers", 1, "--seconds", 1)
    result = command("pixelgait-eval", "iap", "--scene", gate.name, *options)
    assert "success_rate" in result.stdout, result.stderr
    scene = make_scene(str(gate), 1.0)
    for seed in range(5):
        right, left = scene.layout(np.random.default_rng(seed)).movable
        assert (left.y - 1.0) - (right.y + 1.0) == pytest.approx(0.8)  # between the two walls


@pytest.mark.parametrize("name", BODIES)
def test_an_own_scene_looks_different_in_every_episode(gate: Path, name: str) -> None:
    body = make_body(name, A1, make_scene(str(gate), 0.5))
    images = []
    for seed in (0, 1):
        body.reset(seed)
        images.append(body.render().pixels)
    body.close()
    assert not np.array_equal(*images)
    assert all((image[..., 2] > image[..., 0] + 40).any() for image in images)  # bluish walls


GATE = example("scenes.md", "gate.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines 0 subclasses of Scene, expected one"),
        (GATE + "\nclass Other(Gate): pass", "defines 2 subclasses of Scene"),
        (GATE.replace(", difficulty", ""), "expected __init__(self, difficulty)"),
        (GATE.replace("layout", "plan"), "Gate has no layout"),
    ],
)
def test_what_is_wrong_with_a_scene_is_said_in_one_line(
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
