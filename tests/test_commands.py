"""The commands as a user types them: help, completion, figures, what is not installed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from pixelgait.export.markdown_sections import markers
from pixelgait.policies.evaluation.evaluate import run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.cli.commands import COMMANDS, main
from pixelgait.robot.cli.provenance import git_state, version
from tests.conftest import (
    Command,
    alive,
    child_environment,
    children,
    run_code,
    trotting_weights,
    wait_for,
    write_run,
)
from tests.helpers import documented_keys
from tests.test_architecture import ROOT
from tests.test_formats import FOLLOW, ROOMS

WALK = ROOT / "tests" / "recordings" / "iap.mcap"


def started_as(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The console script of that name; pip writes it at the next installation."""
    code = (
        f"import sys; sys.argv = {[name, *arguments]!r};"
        "from pixelgait.robot.cli.commands import main; main()"
    )
    return run_code(code, **environment)


WITHOUT = """
import sys
class Without:  # whatever is named so is not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
from pixelgait.robot.cli.commands import COMMANDS, main
"""
# Packages of the extras; a robot's runtime has none of them.
EXTRAS = ("torch", "onnx", "onnxscript", "pybullet", "pybullet_data", "mujoco", "gymnasium", "tqdm")
EXTRAS += ("imageio", "matplotlib", "cma", "tensorboard", "rclpy", "mcap", "mcap_ros2")
EXTRAS += ("rerun", "ray")


def test_every_command_explains_itself_without_the_extras() -> None:
    code = """
for name in COMMANDS:
    sys.argv = [name, "--help"]
    try:
        main()
    except SystemExit as left:
        assert left.code == 0, left
    print("ENDS", name)
"""
    done = run_code(WITHOUT.format(names=EXTRAS) + code)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        said, _, rest = done.stdout.partition(f"ENDS {name}\n")
        assert said.startswith(f"usage: {name} ")
        assert len(said.splitlines()) > 8
        done.stdout = rest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pixelgait-eval", "BUNDLE|RUN"),
        ("pixelgait-profile", "BUNDLE|REPORT"),
        ("pixelgait-run", "BUNDLE"),
        ("pixelgait-replay", "FILE"),
        ("pixelgait-train", "pixelgait-train --out RUN --resume: continue a run"),
        ("pixelgait-train --recipe walk", "--recipe STR"),
        ("pixelgait-train --recipe=walk", "--recipe STR"),
    ],
)
def test_the_help_names_positional_arguments(line: str, words: str) -> None:
    done = started_as(*line.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    assert "| STR " not in done.stdout.replace("│", "|")


def test_a_task_prints_its_options_after_resume_and_short_help() -> None:
    assert "--es.noise FLOAT" in started_as("pixelgait-train", "walk", "--resume", "-h").stdout


def test_a_module_missing_from_the_strict_install_is_named(tmp_path: Path) -> None:
    """An encoder of one's own, say: an editable install links the files that it found."""
    (tmp_path / "pixelgait").mkdir()
    (tmp_path / "pixelgait" / "__init__.py").touch()
    new = ROOT / "robot" / "profiling" / "profile_bundle.py"
    for file in {*(ROOT / "robot").rglob("*.py")} - {new}:
        link = tmp_path / "pixelgait" / file.relative_to(ROOT)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    done = started_as("pixelgait-profile", "walk", PYTHONPATH=str(tmp_path))
    refused(done, str(new), "pip install --editable .")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_version(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--version"])
    main()
    assert capsys.readouterr().out.split() == [name, version()]


COMPLETED = {  # what is typed, up to the tabulator
    "pixelgait-eval iap --vid": {"--video", "--video-episodes"},
    "pixelgait-train im": {"imitate"},
    "pixelgait-sim --appear": {"--appearance"},
}
ASK_BASH = """
source "$1"; line="$2"; read -ra COMP_WORDS <<< "$line"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$line"; COMP_POINT=${#line}
spec=$(complete -p "${COMP_WORDS[0]}"); spec=${spec#*-F }
${spec%% *} "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("line", COMPLETED)
def test_bash_completes_options(tmp_path: Path, line: str) -> None:
    """Runs the documentation's completion loop for one command."""
    asked = subprocess.run(
        ["bash", "-c", ASK_BASH, "bash", completions(tmp_path, line.split()[0]), line],
        capture_output=True,
        text=True,
    )
    assert set(asked.stdout.split()) == COMPLETED[line], asked.stderr


@pytest.mark.parametrize("typed", ["pixelgait-eval ru", "pixelgait-export --low-level ru"])
def test_bash_completes_folders(tmp_path: Path, typed: str) -> None:
    """In a terminal: a bundle's or a run's folder, and what lies in it."""
    (tmp_path / "runs" / "first").mkdir(parents=True)
    written = completions(tmp_path, typed.split()[0])
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        os.write(terminal, f"source {written}; echo rea''dy\n".encode())
        read_until(terminal, "ready")
        os.write(terminal, f"{typed}\t".encode())
        read_until(terminal, "runs/")
        os.write(terminal, b"f\t")
        read_until(terminal, "irst/")
    finally:
        os.close(terminal)  # which hangs up on bash
        os.waitpid(child, 0)


def completions(tmp_path: Path, name: str) -> Path:
    """The completion script that the documentation's loop writes for a command."""
    section = (ROOT / "docs" / "commands.md").read_text().partition("## Shell completion")[2]
    script = section.split("```\n")[1].replace("~/.local", str(tmp_path))
    loop = re.sub("in train .*; do", f"in {name.removeprefix('pixelgait-')}; do", script)
    scripts = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**child_environment(), "PATH": scripts}
    subprocess.run(["bash", "-c", loop], env=environment, check=True)
    (written,) = (tmp_path / "share" / "bash-completion" / "completions").iterdir()
    assert written.name == name
    return written


def read_until(terminal: int, word: str) -> None:
    """Read what a terminal shows until a word is there."""
    shown = ""
    while word not in shown:
        assert select.select([terminal], [], [], 60.0)[0], shown
        shown += os.read(terminal, 65536).decode()


def test_every_command_has_its_script() -> None:
    scripts = re.findall(
        r"^(pixelgait-\w+) = ", (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert sorted(scripts) == sorted(COMMANDS)
    refused(started_as("pixelgait-fly"), "no command 'pixelgait-fly'", "pixelgait-eval")


@pytest.mark.parametrize(
    ("line", "told"), [("navigator", True), ("navigator --scene rooms", False), ("iap", False)]
)
def test_a_goal_policy_evaluated_without_goals_is_noted(
    command: Command, line: str, told: bool
) -> None:
    done = command("pixelgait-eval", *line.split(), "--episodes", "1", "--seconds", "0.1")
    note = "note: this policy has a goal input, but scene 'obstacle-course' has no goal position"
    assert (note in done.stderr) == told


def test_a_command_is_started_by_its_script(command: Command) -> None:
    assert "usage: pixelgait-eval " in command("pixelgait-eval", "--help").stdout


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line, no traceback, exit code not 0."""
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("pixelgait.robot.ros.run", "BUNDLE"),
        ("pixelgait.sim.ros.node", ""),
        ("pixelgait.robot.ros.view", "live --save FOLDER/w.rrd"),
    ],
)
def test_without_ros_the_nodes_say_how_to_get_it(
    name: str, line: str, iap_bundle: Path, tmp_path: Path
) -> None:
    line = line.replace("BUNDLE", str(iap_bundle)).replace("FOLDER", str(tmp_path))
    arguments = line.split()
    code = (
        "import sys; sys.modules['rclpy'] = None;"
        f"sys.argv = ['command', *{arguments!r}];"
        f"from {name} import main; main()"
    )
    done = run_code(code)
    refused(done, "ROS 2 is not installed", "pip install 'pixelgait[ros]'")


@pytest.mark.parametrize(
    ("line", "library", "extra"),
    [
        ("pixelgait-train walk --out new", "torch", "pixelgait[train]"),
        ("pixelgait-eval iap", "pybullet", "pixelgait[sim]"),
        ("pixelgait-export --low-level walk --out new", "onnx", "pixelgait[train]"),
        ("pixelgait-demo --out new", "matplotlib", "pixelgait[demo]"),
        ("pixelgait-encoders", "matplotlib", "pixelgait[train]"),
        (f"pixelgait-view {WALK} --bundle iap --save new.rrd", "rerun", "pixelgait[view]"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    line: str, library: str, extra: str, tmp_path: Path
) -> None:
    code = WITHOUT.format(names=(library,)) + f"sys.argv = {line.split()!r}; main()"
    done = run_code(code, cwd=tmp_path)
    refused(done, f"needs {library}", extra)
    assert not list(tmp_path.iterdir())


def test_evaluating_a_run_names_the_export_options(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    write_run(tmp_path / "run", "walk", trotting_weights())
    script = Path(sys.executable).with_name("pixelgait-eval")
    done = subprocess.run(
        [script, "run", "--task", "follow", "--scene", "flat"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**child_environment(), "PYTHONPATH": str(tmp_path)},
    )
    needs = "error: pixelgait-export needs torch: pip install 'pixelgait[train]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, needs)
    assert "Traceback" not in done.stderr


def test_the_follow_task_reports_tracking_errors(
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
    assert low < plain["yaw_rate_error"] < high
    assert plain["yaw_rate_error"] > 0.1  # untrained: it trots on the spot
    assert "success_rate" not in plain  # there is nothing to reach
    assert plain["episodes"][0]["success"] is None
    assert plain["fall_rate"] == 0.0
    assert random["yaw_rate_error"] != plain["yaw_rate_error"]


def strict_json(path: Path) -> dict[str, Any]:
    """JSON read by a parser that rejects NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{path} is no JSON: {word}")

    content: dict[str, Any] = json.loads(path.read_text(), parse_constant=refuse)
    return content


def test_evaluation_writes_its_schema(command: Command, iap_bundle: Path, tmp_path: Path) -> None:
    done = command(
        *("pixelgait-eval", iap_bundle, "--episodes", 3, "--seconds", 2),
        *("--json", "figures.json", "--video", "film.gif"),
    )
    assert done.returncode == 0, done.stderr
    figures = strict_json(tmp_path / "figures.json")
    assert figures.keys() == documented_keys("Evaluation") - FOLLOW - ROOMS
    assert figures["interval_95"].keys() < figures.keys()
    row_keys = documented_keys("Evaluation", "episodes")
    assert [row.keys() for row in figures["episodes"]] == [row_keys] * 3
    assert [row["seed"] for row in figures["episodes"]] == [10000, 10001, 10002]
    assert (tmp_path / "film.gif").stat().st_size > 1000
    *table, json_line, video_line = done.stdout.splitlines()
    assert "obstacle-course at difficulty 0.5, body pybullet" in table[0]
    assert [json_line, video_line] == ["wrote figures.json", "wrote film.gif"]
    again = command("pixelgait-eval", iap_bundle, "--episodes", 3, "--seconds", 2, "--workers", 1)
    assert again.stdout.splitlines() == table  # the same, whatever the number of workers


@pytest.mark.parametrize(
    ("seed", "known"),
    [
        (5, ["training"]),
        (8999, ["training", "validation"]),
        (9999, ["validation", "evaluation"]),
        (10000, ["evaluation"]),
    ],
)
def test_episodes_with_training_seeds_are_reported_as_such(
    command: Command, tmp_path: Path, seed: int, known: list[str]
) -> None:
    done = command(
        *("pixelgait-eval", "walk", "--scene", "flat", "--seconds", 0.1, "--episodes", 2),
        *("--seed", seed, "--json", "figures.json"),
    )
    assert done.returncode == 0, done.stderr
    warned = (
        "warning: seeds below 9000 are for training, 9000 to 9999 for validation" in done.stderr
    )
    assert warned == (known != ["evaluation"])
    assert strict_json(tmp_path / "figures.json")["seeds_of"] == known


def test_a_scene_without_a_goal_reports_no_success_rate(command: Command, tmp_path: Path) -> None:
    text = (ROOT / "examples" / "wall.py").read_text()
    (tmp_path / "endless.py").write_text(text.replace("goal_m = 4.0", "length_m = 4.0"))
    line = ("pixelgait-eval", "walk", "--seconds", 0.1, "--episodes", 1, "--scene")
    done = command(*line, "endless.py")
    assert "note: scene 'endless.py' has no goal_m, so there is no success rate" in done.stderr
    assert "success_rate" not in done.stdout
    assert "goal_m" not in command(*line, ROOT / "examples" / "wall.py").stderr


@pytest.mark.parametrize("randomise", [False, True])
@pytest.mark.parametrize("crooked", [{"camera_pitch": 45.0}, {"camera_roll": 90.0}])
def test_a_pitched_or_rolled_camera_changes_decisions(
    crooked: dict[str, float], randomise: bool
) -> None:
    config = EvalConfig("iap", episodes=1, workers=1, seconds=1.0, randomise=randomise)
    straight = next(run_episodes(config)).decisions
    assert not np.array_equal(straight, next(run_episodes(replace(config, **crooked))).decisions)


def test_the_figures_identify_bundle_and_options(
    command: Command, iap_bundle: Path, tmp_path: Path
) -> None:
    done = command(
        *("pixelgait-eval", iap_bundle, "--episodes", 1, "--seconds", 2, "--seed", 10007),
        *("--baseline", "freeze-image", "--randomise", "--faults", "mixed", "--json", "one.json"),
        *("--camera-pitch", -5, "--camera-roll", 90),
    )
    assert done.returncode == 0, done.stderr
    figures = strict_json(tmp_path / "one.json")
    assert figures["interval_95"]["distance_m"] == [None, None]  # of one episode it is unknown
    head = {
        "schema": 1,
        "command": "pixelgait-eval",
        "version": version(),
        **git_state(),
        "bundle": str(iap_bundle),
        "sha256": json.loads((iap_bundle / "contract.json").read_text())["sha256"],
        "robot": "a1",
        "task": "forward",
        "scene": "obstacle-course",
        "difficulty": 0.5,
        "appearance": "nominal",
        "body": "pybullet",
        "baseline": "freeze-image",
        "randomise": True,
        "delays_from": None,
        "faults": ["mixed"],
        "camera_pitch_deg": -5.0,
        "camera_roll_deg": 90.0,
        "seed": 10007,
        "seconds": 2.0,
        "requested_episodes": 1,
        "seeds_of": ["evaluation"],
    }
    found = {*figures["interval_95"], "interval_95", "episodes"}
    assert {name: value for name, value in figures.items() if name not in found} == head
    for word in ("freeze-image", "randomised", "faults mixed"):
        assert word in done.stdout.splitlines()[0]


EPISODES = 40


@pytest.fixture
def running(iap_bundle: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An evaluation of so many short episodes, the first of which are done; progress in a file."""
    progress = tmp_path / "progress"
    line = ("--episodes", str(EPISODES), "--seconds", "2", "--json", "figures.json")
    with progress.open("w") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pixelgait.policies.evaluation.evaluate",
                str(iap_bundle),
                *line,
            ],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=tmp_path,
            env=child_environment(),
            # Whatever started these tests may ignore Ctrl-C.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        )
    deadline = time.monotonic() + 60.0
    while not re.search(rf" [1-9]\d*/{EPISODES} ", progress.read_text()):
        assert process.poll() is None, progress.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def workers(pid: int) -> list[int]:
    """Those of them that run episodes: children of the server they are forked from."""
    return [worker for child in children(pid) for worker in children(child)]


def test_ctrl_c_reports_the_episodes_that_are_done(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    figures = strict_json(tmp_path / "figures.json")
    done = len(figures["episodes"])
    assert 0 < done < EPISODES == figures["requested_episodes"]
    assert "success_rate" in output
    assert f"{done} episodes" in output
    assert (tmp_path / "progress").read_text().endswith("interrupted, 40 episodes were requested\n")


def test_an_evaluation_that_is_killed_leaves_no_workers(
    running: subprocess.Popen[str],
) -> None:
    started = workers(running.pid)
    assert len(started) == 2
    running.kill()
    wait_for(lambda: not any(map(alive, started)))


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_episode_a_repetition(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.kill(workers(running.pid)[0], signal.SIGKILL)
    running.communicate(timeout=240)
    assert running.returncode == 0
    figures = strict_json(tmp_path / "figures.json")
    assert [row["seed"] for row in figures["episodes"]] == [*range(10_000, 10_000 + EPISODES)]
    assert "1 workers died; their episodes were repeated" in (tmp_path / "progress").read_text()


@pytest.mark.slow
def test_an_untrained_encoder_walks_on_a_shipped_low_level(
    command: Command, tmp_path: Path
) -> None:
    done = command("pixelgait-export", "--low-level", "walk", "--encoder", "cnn", "--out", "b")
    assert done.returncode == 0, done.stderr
    assert "wrote the bundle b" in done.stdout
    contract = json.loads((tmp_path / "b" / "contract.json").read_text())
    shipped = json.loads((SHIPPED / "walk" / "contract.json").read_text())
    assert contract["provenance"]["low_level"] == shipped["provenance"]["low_level"]
    done = command("pixelgait-eval", "b", "--episodes", 1, "--workers", 1, "--seconds", 1)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_encoders_are_timed_and_written_on_a_page(tmp_path: Path) -> None:
    begin, end = markers("encoders", "encoders")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    module = COMMANDS["pixelgait-encoders"][0]
    line = ("--encoder", "cnn", "--size", "32", "--seconds", "0.01", "--page", "page.md")
    done = subprocess.run(
        [sys.executable, "-m", module, *line],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=child_environment(),
    )
    assert done.returncode == 0, done.stderr
    encoders = strict_json(tmp_path / "runs" / "encoders" / "encoders.json")
    assert encoders.keys() == documented_keys("Encoders")
    assert encoders["settings"] == {"encoder": ["cnn"], "size": [32], "seconds": 0.01}
    assert encoders["settings"].keys() == documented_keys("Encoders", "settings")
    names = [f"runs/encoders/encoders.{kind}" for kind in ("json", "md", "png")]
    wrote = [f"wrote {name}" for name in (*names, "page.md")]
    assert done.stdout.splitlines()[-4:] == wrote
    (row,) = encoders["rows"]
    assert (row["encoder"], row["height"], row["weights"]) == ("cnn", 32, 14555)
    assert row["p50_ms"] > 0.0
    assert page.read_text().startswith(f"before\n{begin}\n| encoder | patch | weights | 32 x 32 |")
    assert page.read_text().endswith(f"{end}\nafter\n")
    assert "| cnn | - | 14555 |" in page.read_text()


@pytest.mark.slow
def test_the_files_of_export_and_replay_match_the_documentation(
    command: Command, tmp_path: Path
) -> None:
    commit = {"commit": git_state()["commit"], "version": version(), "schema": 1}
    line = ("pixelgait-export", "--low-level", "walk", "--out", "a b", "--json", "parity.json")
    done = command(*line)
    assert done.returncode == 0, done.stderr
    trial = "pixelgait-eval 'a b' --task follow --scene flat"
    wrote = ["wrote the bundle a b", "wrote parity.json", f"next: {trial}"]
    assert done.stdout.splitlines()[-3:] == wrote
    parity = strict_json(tmp_path / "parity.json")
    assert parity.keys() == documented_keys("Parity")
    asked = {"low_level": "walk", "high_level": None, "encoder": "", "name": "policy", "seed": 9000}
    asked |= {"camera": None, "pitch": None, "camera_fov": None}
    assert parity["settings"] == asked
    assert asked.keys() == documented_keys("Parity", "settings")
    assert parity["command"] == "pixelgait-export"
    assert parity["sha256"] == strict_json(tmp_path / "a b" / "contract.json")["sha256"]
    assert commit.items() <= parity.items()
    contract = strict_json(tmp_path / "a b" / "contract.json")
    for graph in ("high_level.onnx", "low_level.onnx"):
        session = onnxruntime.InferenceSession(tmp_path / "a b" / graph)
        told = session.get_modelmeta().custom_metadata_map
        assert told.pop("bundle") == contract["name"]
        keys = {"joint_names", "kp_nm_per_rad", "kd_nms_per_rad", "default_pose_rad"}
        assert {key: json.loads(told[key]) for key in told} == {
            key: contract["spec"][key] for key in keys
        }
    done = command("pixelgait-replay", WALK, "--bundle", "iap", "--json", "replay.json")
    assert done.stdout.endswith("wrote replay.json\n"), done.stderr
    replayed = strict_json(tmp_path / "replay.json")
    assert replayed.keys() == documented_keys("Replay")
    assert commit.items() <= replayed.items()


def test_profile_writes_its_report(command: Command, iap_bundle: Path, tmp_path: Path) -> None:
    options = ("--seconds", 1, "--seed", 3, "--no-realtime", "--json", "latency.json")
    done = command("pixelgait-profile", iap_bundle, *options)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "latency.json").read_text())
    assert report.keys() == documented_keys("Latency report") - {"repeated_commands"}  # of a Go2
    assert report["command"] == "pixelgait-profile"
    asked = {"bundle": str(iap_bundle), "seconds": 1.0, "seed": 3, "slow": 1.0, "realtime": False}
    assert report["settings"] == asked
    of_the_other = {"pixelgait-profile", "pixelgait-run", "auto_arm", "arm", "dry_run", "link"}
    of_the_other |= {"pilot", "goal", "autostart", "duration", "cores", "camera", "orders"}
    of_the_other |= {"timeouts", "response", "measure", "map"}
    assert asked.keys() == documented_keys("Latency report", "settings") - of_the_other
    assert report["ticks"] == 100
    assert report["stages"]["low_level"]["count"] == 100
    assert 1 <= report["stages"]["high_level"]["count"] <= 10
    assert "low_level" in done.stdout


@pytest.mark.long
def test_benchmark_reports_rates_and_their_ratio(command: Command, tmp_path: Path) -> None:
    options = ("--steps", 200, "--rounds", 2, "--at-once", 4, 16, "--json", "speed.json")
    done = command("pixelgait-benchmark", *options)
    assert done.returncode == 0, done.stderr
    speed = json.loads((tmp_path / "speed.json").read_text())
    assert speed.keys() == documented_keys("Speed")
    assert speed["settings"].keys() == documented_keys("Speed", "settings")
    asked = {"robot": "a1", "steps": 200, "rounds": 2, "at_once": [4, 16]}
    assert asked.items() <= speed["settings"].items()
    for rollout in speed["rollouts"].values():
        assert 0.0 < rollout["ratio"] < 1.0
        assert rollout["bare_steps_per_s"] > rollout["rollout_steps_per_s"] > 0.0
        assert sum(rollout["shares"].values()) == pytest.approx(1.0, abs=0.05)
    assert speed["batches"].keys() == {"4", "16"}
    for rollout in speed["batches"].values():
        assert rollout["bare_steps_per_s"] > rollout["rollout_steps_per_s"] > 0.0
    assert speed["vector_ratio"] > 0.0
    assert all(row["vector_ratio"] > 0.0 for row in speed["many"].values())
