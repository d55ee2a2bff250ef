"""Options of all commands: no number is without its range."""

from __future__ import annotations

import importlib
import re
import shutil
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from pixelgait.policies.evaluation import options
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.cli.commands import own_arguments
from pixelgait.robot.cli.options import Range
from pixelgait.robot.errors import UserError
from pixelgait.robot.profiling.profile_bundle import ProfileConfig, profile
from pixelgait.robot.recording import replay
from tests.test_architecture import MODULES, name_of


def configurations() -> list[type]:
    """Every class that a command line is made into, or a part of it."""
    found = {}
    for path in MODULES:
        if re.search(r"^class \w+(Config|Options)\b", path.read_text(), re.MULTILINE):
            module = importlib.import_module(name_of(path))
            for name, kind in vars(module).items():
                own = isinstance(kind, type) and kind.__module__ == module.__name__
                if own and name.endswith(("Config", "Options")) and is_dataclass(kind):
                    found[name] = kind
    return [kind for name, kind in sorted(found.items()) if name not in INSIDE]


INSIDE = ("NodeOptions",)  # made of a RunConfig, whose numbers are checked


def counts(hint: Any) -> bool:
    """Whether values of this type are numbers, or hold some."""
    return hint in (int, float) or any(counts(part) for part in get_args(hint))


@pytest.mark.parametrize("kind", configurations())
def test_every_number_has_its_range(kind: type) -> None:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if counts(hint := hints[field.name]):
            known = any(isinstance(each, Range) for each in getattr(hint, "__metadata__", ()))
            assert known, f"{kind.__name__}.{field.name} has no Range that check_values would see"


def test_no_configuration_is_overlooked() -> None:
    names = {kind.__name__ for kind in configurations()}
    assert {"EvalConfig", "SimConfig", "RunConfig", "ESConfig", "DAggerConfig"} <= names
    assert {"WalkConfig", "DemoConfig", "ResultsConfig", "SceneOptions"} <= names


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("walk --dry-run", "walk --dry-run"),
        ("walk --dry-run --ros-args -r a:=b", "walk --dry-run"),
        ("walk --ros-args -r __ns:=/dog -- --dry-run --duration 5", "walk --dry-run --duration 5"),
        ("--ros-args -p x:=1 -- walk --ros-args -r a:=b", "walk"),
    ],
)
def test_what_is_not_for_ros_is_ours(monkeypatch: pytest.MonkeyPatch, line: str, own: str) -> None:
    """As ROS reads it: its arguments are between --ros-args and `--`, or the end."""
    monkeypatch.setattr("sys.argv", ["pixelgait-run", *line.split()])
    assert own_arguments() == own.split()


def test_a_shipped_bundle_is_not_written_over_by_who_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here of a place of the test's own."""
    for module in (options, replay):
        monkeypatch.setattr(module, "SHIPPED", tmp_path)
    for name in ("contract.json", "golden.json"):
        with pytest.raises(UserError, match="what is read is the same file"):
            options.EvalConfig("iap", json=tmp_path / "iap" / name).check()
        with pytest.raises(UserError, match="what is read is the same file"):
            replay.report(replay.ReplayConfig(Path("walk.mcap"), "iap", tmp_path / "iap" / name))
    shutil.copytree(SHIPPED / "walk", tmp_path / "walk")
    for option in ("json", "page"):
        measured = ProfileConfig(str(tmp_path / "walk"), **{option: tmp_path / "walk" / CONTRACT})
        with pytest.raises(UserError, match=f"--{option} .*: what is read is the same file"):
            profile(measured)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"baseline": "nope"}, "--baseline is 'nope', choose from blind, freeze-image, "),
        ({"task": "nope"}, "--task is 'nope', choose from forward, follow"),
        ({"episodes": 2.5}, "--episodes is 2.5, needs a whole number"),
        ({"seed": "3"}, "--seed is '3', needs a number"),
        ({"workers": 0}, "--workers is 0, expected 1 to 256"),
    ],
)
def test_what_a_program_mistypes_is_no_other_option(options: dict[str, Any], said: str) -> None:
    """A command line cannot say it; figures of the policy would stand under another name."""
    with pytest.raises(UserError, match=f"^{re.escape(said)}"):
        options.EvalConfig("walk", **options).check()
