"""The commands as a user types them: help, figures, and one clear line for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Command, child_environment

COMMANDS = ("train", "eval", "export", "profile", "run", "sim", "benchmark", "demo")
EPISODE = {"seed", "success", "distance_m", "return_m", "fell", "images", "steps"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(command: Command, name: str) -> None:
    done = command(f"pixelgait-{name}", "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 8


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line, no traceback, exit code not 0."""
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pixelgait-sim --scene moon", ["unknown scene 'moon'", "obstacle-course"]),
        ("pixelgait-sim --difficulty 2", ["difficulty is 2", "0 to 1"]),
        ("pixelgait-eval nowhere", ["'nowhere'", "contract.json"]),
        ("pixelgait-run nowhere", ["'nowhere'", "contract.json"]),
        ("pixelgait-profile nowhere", ["'nowhere'", "contract.json"]),
        ("pixelgait-eval BUNDLE --scene moon", ["unknown scene 'moon'"]),
        ("pixelgait-eval BUNDLE --body gazebo", ["unknown body 'gazebo'", "mujoco"]),
        ("pixelgait-eval BUNDLE --robot spot", ["unknown robot 'spot'", "a1", "go2"]),
        ("pixelgait-eval BUNDLE --robot go2", ["robot 'a1'", "'go2'"]),
        ("pixelgait-sim --robot spot", ["unknown robot 'spot'"]),
        ("pixelgait-sim --body gazebo", ["unknown body 'gazebo'", "pybullet, mujoco"]),
        ("pixelgait-eval BUNDLE --episodes 0", ["--episodes is 0"]),
        ("pixelgait-eval BUNDLE --workers 0", ["--workers is 0"]),
        ("pixelgait-eval BUNDLE --blind --teacher", ["--blind and --teacher exclude"]),
        ("pixelgait-eval BUNDLE --teacher --scene flat", ["the teacher knows", "'flat'"]),
        ("pixelgait-eval BUNDLE --task follow", ["--task follow", "--scene flat"]),
        ("pixelgait-train walk --out run --workers 0", ["--workers is 0"]),
        ("pixelgait-train imitate --out run --start x.npz", ["takes no --start"]),
        ("pixelgait-train imitate --out run --faults mixed", ["takes no --faults"]),
        ("pixelgait-train imitate --out run --scene slalom", ["the teacher knows", "'slalom'"]),
        ("pixelgait-train joint --out run --scene nowhere", ["unknown scene 'nowhere'"]),
        ("pixelgait-train follow --out run --low-level x", ["takes no --low-level"]),
        ("pixelgait-train course --out run --curriculum -1", ["--curriculum is -1"]),
        ("pixelgait-train course --out run", ["needs --low-level"]),
        ("pixelgait-train course --out run --low-level gone", ["gone", "config.json is missing"]),
        ("pixelgait-train walk --out run --resume", ["nothing to resume"]),
        ("pixelgait-train walk --out run --seed -1", ["--seed is -1"]),
        ("pixelgait-train walk --out run --start EMPTY", ["not a checkpoint"]),
        ("pixelgait-train walk --out run --es.top 99", ["--es.top is 99"]),
        ("pixelgait-train walk --out /proc/run", ["/proc/run"]),
        ("pixelgait-run BUNDLE --out /proc/run", ["/proc/run"]),
        ("pixelgait-demo --out /proc/run", ["/proc/run"]),
        ("pixelgait-demo --workers 0", ["--workers is 0"]),
        ("pixelgait-export --low-level gone --high-level gone --out b", ["gone"]),
        ("pixelgait-benchmark --steps 0", ["--steps"]),
    ],
)
def test_bad_input_gets_one_clear_line(
    command: Command, iap_bundle: Path, line: str, words: list[str]
) -> None:
    empty = iap_bundle.parent / "empty.npz"
    empty.touch()
    line = line.replace("BUNDLE", str(iap_bundle)).replace("EMPTY", str(empty))
    name, *arguments = line.split()
    refused(command(name, *arguments), *words)


@pytest.mark.parametrize("name", ["pixelgait.robot.ros.run", "pixelgait.sim.node"])
def test_without_ros_the_nodes_say_how_to_get_it(name: str, iap_bundle: Path) -> None:
    arguments = [str(iap_bundle)] if name == "pixelgait.robot.ros.run" else []
    code = (
        "import sys; sys.modules['rclpy'] = None;"
        f"sys.argv = ['command', *{arguments!r}];"
        f"from {name} import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=child_environment()
    )
    refused(done, "ROS 2 is not installed", "pip install '.[ros]'")


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("pixelgait-train", "torch", ".[train]"),
        ("pixelgait-eval", "pybullet", ".[sim]"),
        ("pixelgait-demo", "matplotlib", ".[train,ros,viz]"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(name: str, library: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules['{library}'] = None; sys.argv = ['{name}'];"
        "from pixelgait.robot.runtime.commands import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=child_environment()
    )
    refused(done, f"needs {library}", extra)


def test_following_is_evaluated_by_its_errors(
    command: Command, iap_bundle: Path, tmp_path: Path
) -> None:
    arguments = ("--task", "follow", "--scene", "flat", "--episodes", 3, "--seconds", 3)
    done = command("pixelgait-eval", iap_bundle, *arguments, "--json", "plain.json")
    assert done.returncode == 0, done.stderr
    done = command("pixelgait-eval", iap_bundle, *arguments, "--randomise", "--json", "random.json")
    assert done.returncode == 0, done.stderr
    read = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("plain", "random")]
    plain, random = read
    low, high = plain["interval_95"]["yaw_rate_error"]
    assert 0.1 < low < plain["yaw_rate_error"] < high  # untrained: it trots on the spot
    assert plain["success_rate"] == 1.0
    assert random["yaw_rate_error"] != plain["yaw_rate_error"]


def test_evaluation_writes_its_schema(command: Command, iap_bundle: Path, tmp_path: Path) -> None:
    done = command(
        *("pixelgait-eval", iap_bundle, "--episodes", 3, "--seconds", 2),
        *("--json", "figures.json", "--video", "film.gif"),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    names = {"success_rate", "distance_m", "return_m", "fall_rate", "images_per_episode"}
    assert set(figures) == names | {"interval_95", "episodes"}
    assert set(figures["interval_95"]) == names
    assert [set(row) for row in figures["episodes"]] == [EPISODE] * 3
    assert [row["seed"] for row in figures["episodes"]] == [10000, 10001, 10002]
    assert (tmp_path / "film.gif").stat().st_size > 1000
    again = command("pixelgait-eval", iap_bundle, "--episodes", 3, "--seconds", 2, "--workers", 1)
    assert again.stdout == done.stdout  # the same figures, whatever the number of workers


def test_profile_writes_its_report(command: Command, iap_bundle: Path, tmp_path: Path) -> None:
    done = command("pixelgait-profile", iap_bundle, "--seconds", 1, "--json", "latency.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "latency.json").read_text())
    assert report["ticks"] == 100
    assert report["stages"]["low_level"]["count"] == 100
    assert 1 <= report["stages"]["high_level"]["count"] <= 10
    assert "low_level" in done.stdout


def test_benchmark_reports_rates_and_their_ratio(command: Command, tmp_path: Path) -> None:
    done = command("pixelgait-benchmark", "--steps", 200, "--rounds", 2, "--json", "speed.json")
    assert done.returncode == 0, done.stderr
    speed = json.loads((tmp_path / "speed.json").read_text())
    assert 0.0 < speed["ratio"] < 1.0
    assert speed["bare_steps_per_s"] > speed["rollout_steps_per_s"] > 100


def test_the_wheel_carries_the_shipped_policies_and_every_command(tmp_path: Path) -> None:
    import zipfile

    root = Path(__file__).resolve().parent.parent
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(root)],
        check=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert "pixelgait/robot/controller.py" in names
    assert "pixelgait/policies/pretrained/iap/contract.json" in names
    assert "pixelgait/policies/pretrained/walk/low_level/best.npz" in names
    assert not any(name.startswith(("launch", "robot", "tests")) for name in names)
