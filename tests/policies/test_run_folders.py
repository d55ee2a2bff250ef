"""Run folders as a user meets them: shared, moved, cut off within a round, evaluated."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from pixelgait.policies.high_level import flat_weights, make_high_level
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import run as run_module
from pixelgait.policies.runs.recipe import read_recipe
from pixelgait.policies.runs.run import Checkpoint, Run, load_checkpoint, write_arrays
from pixelgait.policies.training.config import ImitateConfig, TrainConfig, config_of_run
from pixelgait.policies.training.demonstrations import Demonstrations
from pixelgait.policies.training.plan import DAggerConfig
from pixelgait.policies.training.train import Command as TrainCommand
from pixelgait.robot.bundle import SHIPPED, shipped_names
from pixelgait.robot.cli.commands import main
from pixelgait.robot.cli.options import check_values, parse
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import locked
from tests.conftest import Command, child_environment
from tests.helpers import played
from tests.sim.test_mixture import OWN
from tests.test_formats import check_files

SMALL = "--steps 60 --validation-steps 60 --validation-episodes 2 --validate-every 1 --workers 1"
SEARCH = "--es.directions 2 --es.top 2"
LONG = f"{SMALL} {SEARCH} --iterations 1000"
IMITATE = f"{SMALL} --encoder iap --iterations 1 --dagger.courses 2 --dagger.steps 5"
IMITATE += " --dagger.students 6"


HANGS_S = 600.0  # longer than a round takes beside any load
Train = Callable[[str], str]


@pytest.fixture
def trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Train:
    """Type a line of pixelgait-train in this process, which has imported torch; what it prints."""

    def run(line: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["pixelgait-train", *shlex.split(line)])
        main()
        return capsys.readouterr().out

    return run


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_success_is_reported_where_there_is_a_goal(trained: Train, tmp_path: Path) -> None:
    """Walking on is none: a robot that fell back 0.1 m, on its feet, had a success of 100 %."""
    trained(f"walk --out low {SMALL} {SEARCH} --iterations 1")
    (row,) = json.loads((tmp_path / "low" / "curve.json").read_text())
    assert {"train/distance", "validation/distance"} <= row.keys()
    assert not {"train/success", "validation/success"} & row.keys()
    trained(f"course --low-level walk --out high --encoder cnn {SMALL} {SEARCH} --iterations 1")
    (row,) = json.loads((tmp_path / "high" / "curve.json").read_text())
    told = ("success", "collision_free", "contact_free")
    assert {f"{group}/{name}" for group in ("train", "validation") for name in told} <= row.keys()


@pytest.mark.slow
def test_a_run_goes_on_by_its_folder_alone(
    command: Command, trained: Train, tmp_path: Path
) -> None:
    shipped = SHIPPED / "walk" / "low_level"
    shutil.copytree(shipped, tmp_path / "low")
    options = f"course --low-level low --encoder cnn --mirror {SMALL} {SEARCH}"
    trained(f"{options} --out whole --iterations 2")
    trained(f"{options} --out part --iterations 1")
    config = (tmp_path / "whole" / "config.yaml").read_bytes()
    for iterations in (1, 2):  # refused, and as it was
        refused = command(
            "pixelgait-train", "--out", "whole", "--resume", "--iterations", iterations
        )
        assert f"all {iterations} iterations are done" in last_line(refused)
    assert (tmp_path / "whole" / "config.yaml").read_bytes() == config
    assert "all 1 iterations are done" in last_line(
        command("pixelgait-train", "--out", "part", "--resume")
    )
    shutil.rmtree(tmp_path / "low")
    (tmp_path / "part").rename(tmp_path / "moved")
    other = command("pixelgait-train", "--out", "moved", "--resume", "--steps", 61, "--no-mirror")
    assert "steps = 60, cannot resume with 61; with mirror = True" in last_line(other)
    trained("course --out moved --resume --iterations 2")
    whole, moved = (load_checkpoint(tmp_path / name / "last.npz") for name in ("whole", "moved"))
    np.testing.assert_array_equal(whole.weights, moved.weights)


@pytest.mark.slow
def test_a_run_keeps_the_scene_of_ones_own(
    command: Command, trained: Train, tmp_path: Path
) -> None:
    """Also within a mixture, and in a folder called like a weight; the same file may be named."""
    scene = tmp_path / "gate.py"
    scene.write_text(OWN)
    line = f"imitate {IMITATE} --out rate=0.1 --scene mixture:gate.py=2,gates"
    trained(line)
    scene.write_text(OWN.replace("4.0", "5.0"))
    done = command("pixelgait-train", *line.split(), "--resume")
    assert re.search("with scene = mixture:.*/gate.py=2,gates, cannot resume", last_line(done))
    scene.unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "rate=0.1").rename(tmp_path / "elsewhere" / "rate=0.2")
    trained("--out elsewhere/rate=0.2 --resume --iterations 2")
    assert load_checkpoint(tmp_path / "elsewhere" / "rate=0.2" / "last.npz").iteration == 2
    assert not scene.exists()


def test_a_run_resumes_in_the_house_at_its_place(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scans are large: the run stores the folder's absolute path only."""
    monkeypatch.chdir(house.parent)
    config = ImitateConfig(out=tmp_path / "run", scene=f"gibson:{house.name}")
    run = Run.create(config.out, {**config.origin(), **config.identity()})
    run.save(Checkpoint.first(np.zeros(1), Normaliser.empty()))
    monkeypatch.chdir(tmp_path)
    again = config_of_run(Path("run"))
    assert isinstance(again, ImitateConfig)
    assert again.scene == f"gibson:{house}"
    Run.begun(again.out, again.identity()).resume(again.budget())


def begun(folder: Path) -> Run:
    """A run of two iterations that can go on."""
    run = Run.create(folder, {"task": "walk", "seed": 0, "iterations": 2})
    run.save(Checkpoint.first(np.zeros(1), Normaliser.empty()))
    return run


def test_resuming_stores_the_new_budget(tmp_path: Path) -> None:
    """The command that Ctrl-C prints names no iterations."""
    begun(tmp_path)
    Run.begun(tmp_path, {"task": "walk", "seed": 0}).resume({"iterations": 7})
    assert Run(tmp_path).config == {"task": "walk", "seed": 0, "iterations": 7}


def test_a_run_cannot_resume_with_an_option_it_did_not_record(tmp_path: Path) -> None:
    begun(tmp_path)
    for body in ("mujoco", "pybullet"):
        with pytest.raises(UserError, match=f"with body = unknown, cannot resume with {body}"):
            Run.begun(tmp_path, {"task": "walk", "seed": 0, "body": body})


def test_a_run_records_the_code_that_resumed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [{"commit": commit, "modified": False} for commit in ("a", "a", "b", "b", "a")]
    monkeypatch.setattr(run_module, "git_state", partial(next, iter(states)))
    begun(tmp_path)
    for _ in states[1:]:
        Run.begun(tmp_path, {"task": "walk", "seed": 0}).resume({})
    known = json.loads((tmp_path / "git.json").read_text())
    assert known["commit"] == "a"
    assert [each["commit"] for each in known["resumed"]] == ["b", "a"]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"warning: {tmp_path} continues at commit b, it began at a"
    assert len(said) == 2


@pytest.mark.parametrize(
    "name", [".config.yaml.0123abcd", ".last.npz.89abcdef", ".delays.json.01234567"]
)
def test_half_written_files_of_a_killed_run_are_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"half")
    begun(tmp_path)
    assert not (tmp_path / name).exists()
    (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".mine").write_bytes(b"whole")
    Run.begun(tmp_path, {"task": "walk", "seed": 0}).resume({})
    assert not (tmp_path / name).exists()
    assert (tmp_path / ".mine").exists()


@pytest.fixture(scope="module")
def imitation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in its second round, as the demonstrations were there."""
    folder = tmp_path_factory.mktemp("imitation") / "run"
    config = ImitateConfig(
        out=folder,
        iterations=2,
        workers=1,
        dagger=DAggerConfig(courses=1, steps=1, students=2),
    )
    student = make_high_level(config.architecture(), 0)
    weights = flat_weights(student)
    run = Run.create(folder, {**config.origin(), **config.identity(), **config.plan().identity()})
    row = {"iteration": 1.0, "train/return": 0.0}
    students = np.array([weights, weights])
    run.save(Checkpoint(weights, Normaliser.empty(), 1, [row], 0.0, {"students": students}))
    noise = np.random.default_rng(0).integers(0, 256, (9, *student.image_shape), np.uint8)
    shown = Demonstrations(np.arange(9) == 0, noise, np.zeros((9, 2)), np.zeros((9, 2)))
    for name in ("round-001", "round-002"):
        shown.save(folder / "demonstrations" / f"{name}.npz", {"train/return": 0.0})
    return folder


Damage = Callable[[Path], None]


def changed(**arrays: Any) -> Damage:
    """Arrays in place of those in the file; None for none."""

    def damage(file: Path) -> None:
        with np.load(file) as data:
            now = {**data, **arrays}
        write_arrays(file, **{name: each for name, each in now.items() if each is not None})

    return damage


def junk(file: Path) -> None:
    file.write_text("buy milk")


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("last.npz", changed(students=None), "students (0,)"),
        ("last.npz", changed(students=np.zeros(12)), "students (12,)"),
        ("last.npz", changed(students=np.zeros((2, 12))), "students (2, 12)"),
        ("last.npz", changed(students=np.zeros((0, 12))), "students (0, 12)"),
        ("last.npz", changed(students=np.full((2, 12), np.nan)), "students are not finite"),
        ("last.npz", changed(students=np.array(["milk"])), "not a checkpoint"),
        ("last.npz", changed(curve="[1]"), "1 are no figures by name"),
        ("last.npz", changed(curve="buy milk"), "not a checkpoint"),
        ("last.npz", changed(iteration=-1), "not one of -1 iterations"),
        ("demonstrations/round-001.npz", flipped, "not the demonstrations of a round"),
        ("demonstrations/round-001.npz", junk, "not the demonstrations of a round"),
        ("demonstrations/round-001.npz", Path.unlink, "No such file"),
        ("demonstrations/round-001.npz", changed(goals=np.zeros((8, 2))), "as many decisions"),
        ("demonstrations/round-001.npz", changed(latents=np.full((9, 2), np.nan)), "not finite"),
        ("demonstrations/round-002.npz", junk, "not the demonstrations of a round"),
        ("demonstrations/round-002.npz", changed(figures="[1]"), "no figures by name"),
        ("demonstrations/fitted-002-000.npz", junk, "not a fitted student"),
        (
            "demonstrations/fitted-002-000.npz",
            lambda file: write_arrays(file, score=1.0, weights=np.zeros(12)),
            "weights (12,)",
        ),
    ],
)
def test_a_damaged_imitation_is_refused_in_one_line(
    trained: Train,
    imitation: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    damage: Damage,
    words: str,
) -> None:
    """The line names the file, and never repeats numpy's advice to load pickles."""
    shutil.copytree(imitation, tmp_path / "run")
    damage(tmp_path / "run" / name)
    with pytest.raises(SystemExit) as left:
        trained("--out run --resume")
    said = str(left.value)
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert Path(name).name in said
    assert words in said
    assert "pickle" not in said
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_in_use_is_left_alone(command: Command, tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        done = command("pixelgait-train", "walk", "--out", "run")
        assert last_line(done) == f"error: run is in use by another process ({os.getpid()})"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


@pytest.mark.slow
def test_a_run_killed_within_a_round_keeps_its_students(trained: Train, tmp_path: Path) -> None:
    trained(f"imitate --out whole {IMITATE}")
    script = [sys.executable, "-m", "pixelgait.policies.training.train", "imitate", "--out", "cut"]
    cut = subprocess.Popen(
        [*script, *IMITATE.split()],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=child_environment(),
    )
    folder = tmp_path / "cut" / "demonstrations"
    deadline = time.monotonic() + HANGS_S
    while len(list(folder.glob("fitted-*"))) < 2:
        assert time.monotonic() < deadline
        assert cut.poll() is None
        time.sleep(0.002)
    cut.kill()
    cut.wait()
    assert load_checkpoint(tmp_path / "cut" / "last.npz").iteration == 0
    kept = {
        path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.suffix == ".npz"
    }
    trained("--out cut --resume")
    for name, written in kept.items():
        assert (folder / name).stat().st_mtime_ns == written
    whole, resumed = (load_checkpoint(tmp_path / name / "last.npz") for name in ("whole", "cut"))
    np.testing.assert_array_equal(whole.state["students"], resumed.state["students"])
    assert whole.curve[0]["validation/return"] == resumed.curve[0]["validation/return"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "counted"),
    [
        ("iap --dagger.students 6", r"round 1: students: .*?(\d)/6"),
        pytest.param(  # there is a single student
            "cnn --dagger.steps 100", r"round 1: steps: .*?(\d+)/100", marks=pytest.mark.long
        ),
    ],
)
def test_the_bar_moves_within_a_round(tmp_path: Path, encoder: str, counted: str) -> None:
    """On a terminal; it says how many students, or steps of one, have been fitted."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    script = [sys.executable, "-m", "pixelgait.policies.training.train", "imitate", "--out", "run"]
    process = subprocess.Popen(
        [*script, *IMITATE.split()[:-2], "--encoder", *encoder.split()],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env=child_environment(),
    )
    os.close(terminal)
    seen = b""
    deadline = time.monotonic() + HANGS_S
    while process.poll() is None or select.select([controller], [], [], 0)[0]:
        assert time.monotonic() < deadline
        if select.select([controller], [], [], 0.1)[0]:
            try:
                seen += os.read(controller, 65536)
            except OSError:  # no writer is left
                break
    os.close(controller)
    assert process.wait() == 0
    text = seen.decode()
    assert re.search(r"round 1: demonstrations: .*1/1", text), text
    assert len(set(re.findall(counted, text))) > 1, text


def test_ctrl_c_is_never_reported_as_a_damaged_archive(tmp_path: Path) -> None:
    """It comes at any moment of the writing; what is there is whole."""
    path, arrays = tmp_path / "best.npz", {"weights": np.zeros(399), "curve": "x" * 20_000}
    write_arrays(path, **arrays)

    def write_and_wait(delay_s: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, delay_s)
        write_arrays(path, **arrays)
        time.sleep(10.0)  # until it comes

    before = [
        signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT)),
    ]
    try:
        for delay_s in np.linspace(1e-5, 3e-3, 100):
            with pytest.raises(KeyboardInterrupt):
                write_and_wait(delay_s)
            with np.load(path) as data:
                assert data["weights"].shape == (399,)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "run", "again"),
    [
        (
            f"walk --out 'my run' {LONG} --video film.mp4",
            "my run",
            "pixelgait-train --out 'my run' --resume continues",
        ),
        (
            "--recipe 'my recipe' --out cooked --workers 1 --video film.mp4",
            "cooked/1-walk",
            "the same line continues: pixelgait-train --recipe 'my recipe' --out cooked "
            "--workers 1 --video film.mp4",
        ),
    ],
)
def test_ctrl_c_prints_the_command_that_continues(
    tmp_path: Path, line: str, run: str, again: str
) -> None:
    (tmp_path / "my recipe").write_text(f"walk {LONG}\nfollow --start {{1}}")
    process = subprocess.Popen(
        [sys.executable, "-m", "pixelgait.policies.training.train", *shlex.split(line)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + HANGS_S
    while not (tmp_path / run / "best.npz").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    told, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "filming the best policy so far; Ctrl-C skips it\n" in said
    assert told.splitlines()[-1].startswith("wrote film.mp4: validation seed 9000, ")
    assert len(played(tmp_path / "film.mp4")) == 6  # 60 steps
    assert said.strip().splitlines()[-1] == f"error: interrupted, {again}"
    assert (tmp_path / run / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_killed_behind_its_last_checkpoint_is_finished(
    trained: Train, tmp_path: Path
) -> None:
    """Its best comes last where nothing was validated, its curve is written after the checkpoint,
    its picture at the end: all iterations were done then, nothing went on, and all were missing for
    good."""
    line = f"walk {SMALL} {SEARCH} --iterations 1 --validate-every 2"
    (tmp_path / "recipe.txt").write_text(line)
    trained(f"{line} --out cooked/1-walk")
    best, curve = (tmp_path / "cooked" / "1-walk" / name for name in ("best.npz", "curve.json"))
    whole, picture = curve.read_text(), curve.with_suffix(".png")
    for again in ("--out cooked/1-walk --resume", "--recipe recipe.txt --out cooked --workers 1"):
        best.unlink()
        curve.write_text("[]")
        picture.unlink()
        assert "best of 1 iterations is 1, not validated" in trained(again)
        assert load_checkpoint(best).iteration == 1
        assert curve.read_text() == whole
        assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    trained("--out cooked/1-walk --resume")
    assert picture.exists()
    with pytest.raises(SystemExit, match="all 1 iterations are done"):
        trained("--out cooked/1-walk --resume")


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("follow", marks=pytest.mark.slow),
        pytest.param("imitate", marks=pytest.mark.long),
    ],
)
def test_a_run_is_evaluated_without_export(
    command: Command, trained: Train, tmp_path: Path, task: str
) -> None:
    line = {
        "follow": f"follow {SMALL} {SEARCH} --iterations 1",
        "imitate": f"imitate {IMITATE} --scene slalom",
    }
    where = {"follow": "--task follow --scene flat", "imitate": "--scene slalom"}
    said = trained(f"{line[task]} --out 'my run'")
    watched, filmed, typed = said.strip().splitlines()[-3:]
    assert watched.startswith("to watch it: pixelgait-eval 'my run' ")
    assert watched.endswith(f" {where[task]} --episodes 3 --gui")
    assert filmed.endswith(" --episodes 1 --video film.mp4")
    name, *trial = shlex.split(typed.removeprefix("next: "))
    trial += ["--episodes", "1", "--seconds", "1", "--workers", "1", "--json", "figures.json"]
    done = command(name, *trial)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["bundle"] == "my run"
    assert re.fullmatch("[0-9a-f]{64}", figures["sha256"])
    assert not (tmp_path / "my run" / "contract.json").exists()


@pytest.mark.parametrize(
    ("levels", "where"),
    [
        ("--low-level walk", "--task follow --scene flat"),
        ("--low-level walk --encoder cnn", ""),
        ("--low-level walk --high-level iap", ""),
        ("--low-level walk --high-level navigator", "--scene rooms"),
        ("--low-level walk --high-level rover", ""),  # its scenes are not all shipped beside it
        ("--low-level walk --high-level 'my run'", "--scene 'my run/scenes/0123abcd/gate.py'"),
    ],
)
def test_an_exported_run_is_evaluated_in_its_training_scene(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    levels: str,
    where: str,
) -> None:
    """A navigator on the obstacle course, or a low level on its own there, says nothing of them."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SHIPPED / "cnn" / "high_level", "my run")
    config = Path("my run", "config.yaml")
    stored = yaml.safe_load(config.read_text())
    config.write_text(json.dumps({**stored, "scene": "0123abcd/gate.py"}))
    Path("my run", "scenes", "0123abcd").mkdir(parents=True)
    Path("my run", "scenes", "0123abcd", "gate.py").write_text(OWN)
    monkeypatch.setattr("pixelgait.export.exporter.write_bundle", lambda *_: [])
    Path("out").mkdir()
    monkeypatch.setattr(sys, "argv", ["pixelgait-export", *shlex.split(levels), "--out", "out"])
    main()
    assert capsys.readouterr().out == f"next: pixelgait-eval out {where}".rstrip() + "\n"


@pytest.mark.long
def test_another_robot_is_imitated_with(command: Command, trained: Train, tmp_path: Path) -> None:
    """Gliding with its camera; then it is filmed, and evaluated, on its own legs."""
    film = "--validation-steps 60 --video film.gif"
    said = trained(f"imitate {IMITATE} --robot go2 --out run --workers 1 {film}")
    assert "wrote run: best of 1 iterations is 1" in said
    assert Run(tmp_path / "run").config["robot"] == "go2"
    assert np.isfinite(load_checkpoint(tmp_path / "run" / "best.npz").weights).all()
    assert len(played(tmp_path / "film.gif")) == 6
    trial = "--episodes 1 --seconds 1 --workers 1 --json figures.json"
    done = command("pixelgait-eval", "run", *trial.split())
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "figures.json").read_text())["robot"] == "go2"


@pytest.mark.long
def test_a_training_ends_with_its_film(trained: Train, tmp_path: Path) -> None:
    """A gliding policy is filmed on legs; a recipe films its last run."""
    (tmp_path / "recipe.txt").write_text(f"imitate {IMITATE} --validation-steps 150")
    said = trained("--recipe recipe.txt --out cooked --workers 1 --video films/cooked.gif")
    assert said.splitlines()[-1].startswith("wrote films/cooked.gif: validation seed 9000, ")
    assert len(played(tmp_path / "films" / "cooked.gif")) == 15
    said = trained(f"follow --out run {SMALL} {SEARCH} --iterations 1 --video run/film.png")
    assert "\nwrote run/film.png: validation seed 9000, " in said
    strip = cv2.imread(str(tmp_path / "run" / "film.png"))
    assert strip is not None
    assert strip.shape == (2 * 320, 4 * 480, 3)


RECIPE = f"""# two stages
imitate {IMITATE}
course --low-level walk --start {{1}} --encoder iap {SMALL} {SEARCH} --iterations 1
"""


@pytest.mark.slow
def test_a_recipe_is_its_lines(trained: Train, tmp_path: Path) -> None:
    (tmp_path / "recipe.txt").write_text(RECIPE)
    said = trained("--recipe recipe.txt --out cooked --workers 1")
    assert "all runs are done" not in said
    said = trained("--recipe recipe.txt --out cooked --workers 1")
    done = "all runs are done: cooked/1-imitate, cooked/2-course"
    assert said.splitlines()[-1] == done
    first, second = RECIPE.splitlines()[1:]
    trained(f"{first} --out 1")
    trained(second.replace("{1}", "1") + " --out 2")
    for typed, cooked in (("1", "1-imitate"), ("2", "2-course")):
        files = tmp_path / typed / "best.npz", tmp_path / "cooked" / cooked / "best.npz"
        weights = [load_checkpoint(file).weights for file in files]
        np.testing.assert_array_equal(*weights)


def test_a_stage_that_ended_before_its_iterations_is_done(trained: Train, tmp_path: Path) -> None:
    (tmp_path / "recipe.txt").write_text(
        f"walk {SMALL} {SEARCH} --iterations 50 --minutes 0.0001 --validate-every 1\n"
    )
    line = "--recipe recipe.txt --out cooked --workers 1"
    assert "best of 1 iterations" in trained(line)
    assert trained(line).splitlines()[-1] == "all runs are done: cooked/1-walk"


@pytest.mark.slow
def test_a_recipe_with_a_changed_line_resumes_or_is_refused(trained: Train, tmp_path: Path) -> None:
    """A run trained by the former line does not count for the new one."""
    recipe, line = tmp_path / "recipe.txt", "--recipe recipe.txt --out cooked --workers 1"
    recipe.write_text(f"walk {SMALL} {SEARCH} --iterations 1\n")
    assert "best of 1 iterations" in trained(line)
    recipe.write_text(f"walk {SMALL} {SEARCH} --iterations 2  # more\n")
    assert "best of 2 iterations" in trained(line)
    recipe.write_text(f"walk  {SMALL} {SEARCH} --iterations 2\n")
    assert trained(line).splitlines()[-1] == "all runs are done: cooked/1-walk"
    recipe.write_text(f"walk {SMALL} {SEARCH} --iterations 2 --seed 7\n")
    with pytest.raises(SystemExit, match="started with seed = 0, cannot resume with 7"):
        trained(line)


@pytest.mark.slow
def test_a_run_with_a_changed_start_is_not_done(trained: Train, tmp_path: Path) -> None:
    """Its start was replaced after it had ended."""
    recipe, line = tmp_path / "recipe.txt", "--recipe recipe.txt --out cooked --workers 1"
    lines = f"walk {SMALL} {SEARCH} --iterations {{}}\nwalk --start {{{{1}}}} {SMALL} {SEARCH}"
    lines += " --iterations 1\n"
    recipe.write_text(lines.format(1))
    trained(line)
    assert trained(line).splitlines()[-1] == "all runs are done: cooked/1-walk, cooked/2-walk"
    first = tmp_path / "cooked" / "1-walk"
    better = replace(load_checkpoint(first / "best.npz"), best_score=-1e9)  # whatever comes is
    Run(first).save(better)
    recipe.write_text(lines.format(2))
    for _ in range(2):
        with pytest.raises(SystemExit, match="2-walk began with other weights of 1-walk: remove"):
            trained(line)
    shutil.rmtree(tmp_path / "cooked" / "2-walk")
    assert "wrote cooked/2-walk" in trained(line)
    assert trained(line).splitlines()[-1] == "all runs are done: cooked/1-walk, cooked/2-walk"


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (
            "follow --iteration 5",
            "recipe.txt:2: pixelgait-train: Unrecognized options: --iteration",
        ),
        (
            f"imitate {IMITATE}\ncalibrate",
            "recipe.txt:2: calibrate: task imitate",
        ),
    ],
)
def test_a_wrong_line_of_a_recipe_is_refused_before_any_run(
    command: Command, tmp_path: Path, later: str, words: str
) -> None:
    (tmp_path / "recipe.txt").write_text(f"walk {SMALL} {SEARCH} --iterations 1\n{later}\n")
    line = "--recipe recipe.txt --out cooked --workers 1"
    ended = command("pixelgait-train", *line.split())
    assert (ended.returncode, words in ended.stderr) == (1, True), ended.stderr
    assert not (tmp_path / "cooked").exists()


@pytest.mark.slow
def test_a_recipe_calibrates_a_run_once(trained: Train, tmp_path: Path) -> None:
    lines = (
        f"follow --mirror --start walk {SMALL} {SEARCH} --iterations 1\ncalibrate  # its speeds\n"
    )
    (tmp_path / "recipe.txt").write_text(lines)
    line = "--recipe recipe.txt --out cooked --workers 1"
    assert "asked 0.20, 0.60 m/s, reached" in trained(line)
    check_files(tmp_path / "cooked" / "1-follow", "follow")
    known = json.loads((tmp_path / "cooked" / "recipe.json").read_text())
    assert known["1-follow"]["calibrated"]
    assert trained(line).splitlines()[-1] == "all runs are done: cooked/1-follow"


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_policy_has_its_recipe(name: str) -> None:
    for stage in read_recipe(name, Path("out")):
        line = [*stage.arguments, "--out", str(stage.folder)]
        config: TrainConfig = parse(TrainCommand, "pixelgait-train", line)
        check_values(config)


def test_a_recipe_prints_the_commit_of_the_shipped_policy(trained: Train, tmp_path: Path) -> None:
    """A shipped policy's run is begun elsewhere, so that nothing is left but to say so."""
    shipped = SHIPPED / "rover"
    [stage] = read_recipe("rover", tmp_path / "cooked")
    stage.folder.mkdir(parents=True)
    for name in ("config.yaml", "best.npz", "curve.json", "curve.png"):
        shutil.copy(shipped / "high_level" / name, stage.folder / name)
    finished = replace(load_checkpoint(stage.folder / "best.npz"), iteration=40)
    Run(stage.folder).save(finished)
    said = trained("--recipe rover --out cooked --workers 1")
    commit = json.loads((shipped / "high_level" / "git.json").read_text())["commit"]
    assert said.startswith(f"rover was trained at commit {commit[:7]}, this is ")
