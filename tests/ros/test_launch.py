"""The launch files and the service's unit: what they would start is what the commands take.

ROS 2's launch has no wheels: a few lines here stand for those of its actions that the files use.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pixelgait.robot.cli.options import parse
from pixelgait.robot.ros.run import RunConfig, needs_dry_run
from pixelgait.sim.ros.node import SimConfig

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "launch"
FILES = sorted(path.name for path in LAUNCH.glob("*.launch.py"))


@dataclass
class Launched:
    """The arguments and nodes of a launch file with these configurations."""

    configurations: dict[str, str]
    declared: dict[str, str] = field(default_factory=dict)  # descriptions
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)  # by executable

    def visit(self, entities: Any) -> None:
        for entity in entities:
            kind = entity.kind
            if kind == "DeclareLaunchArgument":
                self.declared[entity.args[0]] = entity.options["description"]
                self.configurations.setdefault(entity.args[0], entity.options["default_value"])
            elif kind == "SetLaunchConfiguration":
                self.configurations[entity.args[0]] = entity.args[1]
            elif kind == "OpaqueFunction":
                self.visit(entity.options["function"](self))
            elif kind == "IncludeLaunchDescription":
                self.visit(description(entity.args[0].args[0]))
            elif kind == "Node":
                self.nodes[entity.options["executable"]] = entity.options


def action(kind: str) -> Any:
    return lambda *args, **options: SimpleNamespace(kind=kind, args=args, options=options)


def description(path: str) -> Any:
    return runpy.run_path(path)["generate_launch_description"]()


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "launch": {
            "LaunchDescription": list,
            "LaunchContext": Launched,
            "LaunchDescriptionEntity": object,
        },
        "launch.actions": {
            name: action(name)
            for name in (
                *("DeclareLaunchArgument", "IncludeLaunchDescription"),
                *("OpaqueFunction", "SetLaunchConfiguration", "Shutdown"),
            )
        },
        "launch.substitutions": {
            "LaunchConfiguration": lambda name: SimpleNamespace(
                perform=lambda context: context.configurations[name]
            )
        },
        "launch.launch_description_sources": {"PythonLaunchDescriptionSource": action("source")},
        "launch_ros": {},
        "launch_ros.actions": {"Node": action("Node")},
    }
    for name, members in names.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)


def launched(file: str, **configurations: str) -> Launched:
    found = Launched(dict(configurations))
    found.visit(description(str(LAUNCH / file)))
    return found


def run_config(found: Launched) -> RunConfig:
    return parse(RunConfig, "run", list(found.nodes["pixelgait-run"]["arguments"]))


def sim_config(found: Launched) -> SimConfig:
    return parse(SimConfig, "sim", list(found.nodes["pixelgait-sim"]["arguments"]))


@pytest.mark.parametrize("file", FILES)
def test_a_launch_file_starts_what_the_commands_take(file: str) -> None:
    found = launched(file)
    assert all(found.declared.values())
    assert run_config(found).bundle == "rover"  # not one that knows its own course alone
    assert run_config(found).auto_arm == (file == "sim.launch.py")  # never on a robot
    assert ("pixelgait-sim" in found.nodes) == (file == "sim.launch.py")
    assert (run_config(found).record is not None) == (file == "record.launch.py")
    for node in found.nodes.values():
        assert node["package"] == "pixelgait"
        assert node["on_exit"].kind == "Shutdown"


def test_every_option_of_the_commands_is_an_argument() -> None:
    found = launched("sim.launch.py")
    without_ros = {"camera", "orders", "timeouts"}
    assert {each.name for each in fields(RunConfig)} - without_ros <= set(found.declared)
    renamed = {"out": "sim_out"}
    ours = {renamed.get(each.name, each.name) for each in fields(SimConfig)}
    assert ours <= set(found.declared)


def test_arguments_arrive() -> None:
    found = launched(
        "sim.launch.py",
        **{"bundle": "navigator", "auto_arm": "false", "goal": "1.0 -2.5", "out": "reports"},
        **{"scene": "rooms", "image": "48 64", "odom_turn": "-0.1", "sim_out": "path"},
        **{"namespace": "left", "record": "walk.mcap", "duration": "3"},
    )
    run = run_config(found)
    assert (run.bundle, run.auto_arm, run.goal) == ("navigator", False, (1.0, -2.5))
    assert (run.out, run.record, run.duration) == (Path("reports"), Path("walk.mcap"), 3.0)
    sim = sim_config(found)
    assert (sim.scene, sim.image, sim.odom_turn, sim.out) == (
        "rooms",
        (48, 64),
        -0.1,
        Path("path"),
    )
    assert {node["namespace"] for node in found.nodes.values()} == {"left"}
    recorded = launched("record.launch.py", what="sim", record="a.mcap", dry_run="true")
    assert run_config(recorded).record == Path("a.mcap")
    assert run_config(recorded).dry_run
    assert "pixelgait-sim" in recorded.nodes
    assert not sim_config(launched("sim.launch.py", odom="false")).odom
    with pytest.raises(RuntimeError, match="needs robot or sim"):
        launched("record.launch.py", what="both")


@pytest.mark.parametrize("link", ["ros2-control", "joint-trajectory", "joint-trajectory:legs"])
def test_a_controller_is_commanded_where_the_robot_is_simulated(link: str) -> None:
    """Over ros2_control alone: other links command without --arm, and refuse it."""
    assert run_config(launched("sim.launch.py", link=link)).arm
    assert not run_config(launched("sim.launch.py", link=link, arm="false")).arm
    assert not run_config(launched("sim.launch.py", link="go2:lo")).arm
    assert not run_config(launched("robot.launch.py", link=link)).arm


def test_a_dry_run_is_not_armed() -> None:
    """Over ros2_control the command refuses both."""
    config = run_config(launched("sim.launch.py", link="ros2-control", dry_run="true"))
    assert (config.arm, config.dry_run) == (False, True)
    assert not needs_dry_run(config)  # which is asked for already


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "1", "false", "False", "0"])
def test_true_and_false_are_accepted_in_every_spelling(text: str) -> None:
    meant = text.lower() in ("true", "1")
    for name in ("dry_run", "arm", "auto_arm", "autostart", "realtime"):
        assert getattr(run_config(launched("robot.launch.py", **{name: text})), name) == meant
    for name in ("dry_run", "arm", "auto_arm", "realtime"):
        assert getattr(run_config(launched("sim.launch.py", **{name: text})), name) == meant
    for name in ("gui", "realtime"):
        assert getattr(sim_config(launched("sim.launch.py", **{name: text})), name) == meant
    node = launched("robot.launch.py", respawn=text).nodes["pixelgait-run"]
    assert node["respawn"] == meant


@pytest.mark.parametrize("text", ["yes", "ture", "", "2"])
def test_an_invalid_truth_value_is_refused(text: str) -> None:
    """A dry run that was asked for with a slip would command the robot."""
    names = ["dry_run", "auto_arm", "autostart", "realtime"]
    given = [("robot.launch.py", name) for name in [*names, "arm", "respawn"]]
    given += [("sim.launch.py", name) for name in [*names, "gui"]]
    given += [("sim.launch.py", "arm")] if text else []  # empty: by default
    for file, name in given:
        with pytest.raises(RuntimeError, match=f"^{name} is '{text}', needs true or false$"):
            launched(file, **{name: text})


def test_a_window_is_opened() -> None:
    """It is never real-time: the command refuses both, the controller may be."""
    found = launched("sim.launch.py", gui="true")
    assert sim_config(found).gui
    assert run_config(found).realtime
    found = launched("sim.launch.py", gui="true", realtime="false")
    assert (sim_config(found).gui, sim_config(found).realtime) == (True, False)
    assert not run_config(found).realtime


def test_a_path_with_a_blank_stays_one_argument() -> None:
    given = {"sim_out": "my runs/x", "scene": "gibson:my house", "video": "my walk.mp4"}
    sim = sim_config(launched("sim.launch.py", **given, faults="mixed joints-spike:at=5,for=1"))
    assert (sim.out, sim.scene) == (Path("my runs/x"), "gibson:my house")
    assert sim.video == Path("my walk.mp4")
    assert sim.faults == ("mixed", "joints-spike:at=5,for=1")


def test_a_respawned_controller_does_not_stand_up_by_itself() -> None:
    node = launched("robot.launch.py", respawn="true").nodes["pixelgait-run"]
    assert node["respawn"]
    assert node["on_exit"] is None  # a shutdown would come before the new start
    with pytest.raises(RuntimeError, match="respawn with auto_arm"):
        launched("robot.launch.py", respawn="true", auto_arm="true")


def test_launched_executables_are_installed_and_run() -> None:
    installed = (ROOT / "CMakeLists.txt").read_text()
    for executable in launched("sim.launch.py").nodes:
        assert f"RENAME {executable}" in installed
    for name in re.findall(r"install\(PROGRAMS (\S+)", installed):
        script = ROOT / name
        assert os.access(script, os.X_OK), f"{script} must be executable: ROS starts it"
        run = [sys.executable, script, "--help"]
        help_text = subprocess.run(run, capture_output=True, text=True, check=True)
        assert "usage: pixelgait-" in help_text.stdout


def test_the_service_is_one_that_systemd_takes() -> None:
    unit = LAUNCH / "pixelgait.service"
    text = unit.read_text()
    assert "--auto-arm" not in text
    assert "KillSignal=SIGINT" in text  # SIGTERM would do too, but not SIGKILL
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("needs systemd-analyze")
    done = subprocess.run([analyse, "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
