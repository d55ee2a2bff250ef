"""Options of all commands: every number has its range; tyro's messages become one line."""

from __future__ import annotations

import importlib
import re
import shutil
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import pytest
import tyro

from pixelgait.policies.evaluation import options
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.cli.commands import own_arguments
from pixelgait.robot.cli.options import Range, parse
from pixelgait.robot.errors import UserError
from pixelgait.robot.profiling.profile_bundle import ProfileConfig, profile
from pixelgait.robot.recording import replay
from tests.test_architecture import MODULES, name_of


def configurations() -> list[type]:
    """Every class that holds a command's options, or some of them."""
    found = {}
    for path in MODULES:
        if re.search(r"^class \w+(Config|Options)\b", path.read_text(), re.MULTILINE):
            module = importlib.import_module(name_of(path))
            for name, kind in vars(module).items():
                own = isinstance(kind, type) and kind.__module__ == module.__name__
                if own and name.endswith(("Config", "Options")) and is_dataclass(kind):
                    found[name] = kind
    return [kind for name, kind in sorted(found.items()) if name not in INSIDE]


INSIDE = (
    "NodeOptions",
    "LoopOptions",
    "DirectOptions",
)  # made of a RunConfig, whose numbers are checked


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


def test_every_configuration_is_found() -> None:
    names = {kind.__name__ for kind in configurations()}
    assert {"EvalConfig", "SimConfig", "RunConfig", "ESConfig", "DAggerConfig"} <= names
    assert {"WalkConfig", "DemoConfig", "SceneOptions"} <= names


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("walk --dry-run", "walk --dry-run"),
        ("walk --dry-run --ros-args -r a:=b", "walk --dry-run"),
        ("walk --ros-args -r __ns:=/dog -- --dry-run --duration 5", "walk --dry-run --duration 5"),
        ("--ros-args -p x:=1 -- walk --ros-args -r a:=b", "walk"),
    ],
)
def test_arguments_of_ros_are_left_out(
    monkeypatch: pytest.MonkeyPatch, line: str, own: str
) -> None:
    """ROS 2 reads the arguments between --ros-args and `--`, or the end."""
    monkeypatch.setattr("sys.argv", ["pixelgait-run", *line.split()])
    assert own_arguments() == own.split()


def test_no_output_overwrites_the_shipped_bundle_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With shipped bundles in a folder of the test."""
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


@dataclass(frozen=True)
class Walk:
    """Options of a command with a subcommand."""

    out: Path
    """Folder."""
    episodes: Annotated[int, Range(1, 10)] = 3
    """Number of episodes."""
    body: Literal["pybullet", "mujoco"] = "pybullet"
    """Simulator."""
    scale: tuple[float, float] = (1.0, 2.0)
    """Range of a factor."""
    gui: bool = False
    """Show a window."""


@dataclass(frozen=True)
class Steer:
    """Another subcommand."""

    scene: str = "flat"
    """Scene."""


Commands = (
    Annotated[Walk, tyro.conf.subcommand("walk")] | Annotated[Steer, tyro.conf.subcommand("steer")]
)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "go: Expected one of {walk, steer}; see go --help"),
        ("swim", "go: Unrecognized options: swim; see go --help"),
        ("walk", "go: Missing from go walk: --out PATH; see go --help"),
        ("walk --out", "Missing value for argument '--out'. Expected 1 values; see go --help"),
        ("walk --out a b", "go: Unrecognized options: b; see go --help"),
        ("walk --out a --gui=yes", "go: Unrecognized options: yes; see go --help"),
        (
            "walk --out a --episode 3",
            "Unrecognized options: --episode, 3; perhaps you meant: --episodes INT",
        ),
        ("walk --out a --scene b", "perhaps you meant: --scene STR"),
        ("walk --out a --episodes many", "Error parsing --episodes: invalid literal for int()"),
        ("walk --out a --body water", "invalid choice 'water' for argument '--body'. Expected one"),
        ("walk --out a --episodes 11", "--episodes is 11, expected 1 to 10"),
        ("walk --out a --episodes -1", "--episodes is -1, expected 1 to 10"),
        ("walk --out a --scale 1 nan", "--scale is nan, needs a finite number"),
        ("walk --out=", "--out= is empty"),
    ],
)
def test_a_wrong_command_line_is_refused_with_tyros_message(line: str, said: str) -> None:
    with pytest.raises(UserError) as wrong:
        parse(Commands, "go", line.split())  # type: ignore[arg-type]
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)
