"""Early ends of commands: one line for every cause, and an immediate end on Ctrl-C."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pixelgait.policies.runs.run import Run
from pixelgait.robot.cli import provenance
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import write_atomic
from tests.conftest import child_environment

SHORT = "walk --task follow --scene flat --seconds 0.1 --episodes 1 --workers 1"
LONG = "pixelgait-eval walk --task follow --scene flat --seconds 3600 --episodes 4 --workers 2"
TRAIN = "pixelgait-train walk --out run --steps 100 --validation-steps 100 --workers 2"
SMALL = 64  # bytes: more than what looks for a place for temporary files writes


def script(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def ended(
    *command: str, stdout: int | None = subprocess.PIPE, setup: Callable[[], object] | None = None
) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    done = subprocess.run(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
        preexec_fn=setup,
        check=False,
    )
    return done.returncode, done.stderr


def last_line(said: str) -> str:
    """Behind the bar, which writes over itself."""
    assert "Traceback" not in said
    return said.replace("\r", "\n").strip().splitlines()[-1]


def test_a_full_stdout_ends_with_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        code, said = ended(script("pixelgait-eval"), *SHORT.split(), stdout=full.fileno())
    assert (code, last_line(said)) == (1, "error: No space left on device")


def test_a_file_beyond_the_size_limit_is_named(tmp_path: Path) -> None:
    """A file cannot grow: as on a full disk, checks before the work find nothing wrong."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (SMALL, resource.RLIM_INFINITY))
    target = tmp_path / "figures.json"
    write = f"write_atomic(Path({str(target)!r}), bytes({SMALL + 1}))"
    imports = (
        "from pathlib import Path",
        "from pixelgait.robot.errors import run_command",
        "from pixelgait.robot.files import write_atomic",
    )
    code, said = ended(
        sys.executable, "-c", "; ".join((*imports, f"run_command(lambda: {write})")), setup=limit
    )
    assert (code, said) == (1, f"error: {target}: File too large\n")
    assert list(tmp_path.iterdir()) == []


TINY = "--iterations 80 --steps 20 --validation-steps 20 --validation-episodes 1 --workers 1 "
TINY += "--es.directions 2 --es.top 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "told"),
    [
        (20_000, [".urdf: File too large"]),  # what a simulator reads
        pytest.param(30_000, ["run/curve.json: File too large"], marks=pytest.mark.long),
        (45_000, ["TensorBoard's events end here: File too large", "run/curve.png: File too"]),
    ],
)
def test_training_on_a_full_disk(tmp_path: Path, size: int, told: list[str]) -> None:
    """No file can grow beyond a size: one line names it, and the last checkpoint is whole."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    run = tmp_path / "run"
    train = [script("pixelgait-train"), "walk", "--out", str(run), *TINY.split()]
    code, said = ended(*train, setup=limit)
    assert code == 1
    assert told[-1] in last_line(said)
    assert all(each in said for each in told)
    checkpoint = Run(run).load()
    assert checkpoint.iteration == len(checkpoint.curve)


def test_a_closed_pipe_ends_a_command_silently() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, said = ended(script("pixelgait-eval"), "--help", stdout=writer)
    os.close(writer)
    assert (code, said) == (1, "")


def test_a_deleted_working_directory_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    def leave() -> None:
        os.chdir(gone)
        gone.rmdir()

    code, said = ended(script("pixelgait-eval"), *SHORT.split(), "--json", "f.json", setup=leave)
    assert code == 1
    assert last_line(said).startswith("error: ")
    assert "No such file or directory" in last_line(said)


def test_characters_outside_the_terminals_encoding_are_escaped(tmp_path: Path) -> None:
    target = tmp_path / "漢.json"
    environment = {**child_environment(), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [script("pixelgait-eval"), *SHORT.split(), "--json", str(target)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert target.exists()
    assert r"\u6f22.json" in done.stdout


def test_ctrl_c_wrapped_in_an_import_error_is_still_ctrl_c(tmp_path: Path) -> None:
    """onnxruntime raises ImportError if the interrupt arrives while it is imported."""
    library = tmp_path / "onnxruntime.py"
    library.write_text("raise ImportError('initialization failed') from KeyboardInterrupt()")
    done = subprocess.run(
        [script("pixelgait-profile"), "iap"],
        capture_output=True,
        text=True,
        env=child_environment() | {"PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_a_name_with_a_line_break_is_reported_in_one_line() -> None:
    code, said = ended(script("pixelgait-eval"), "two\nlines")
    assert code == 1
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("line", [f"pixelgait-eval {SHORT}", "pixelgait-profile iap --seconds 0.5"])
def test_commands_write_nothing_into_the_home_directory(tmp_path: Path, line: str) -> None:
    """Libraries write nothing either, such as a device identity or a cache."""
    home, here = tmp_path / "home", tmp_path / "here"
    name, *arguments = line.split()
    for folder in (home, here):
        folder.mkdir()
    dropped = ("XDG_", "ORT_", "PYTHONDONT")  # with the last one bytecode is kept there
    kept = {k: v for k, v in child_environment().items() if not k.startswith(dropped)}
    done = subprocess.run(
        [script(name), *arguments],
        cwd=here,
        env={**kept, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [*home.rglob("*"), *here.rglob("*")] == []


def test_reading_the_git_state_does_not_write_the_index(tmp_path: Path) -> None:
    """A lock of git's, left by a command that was killed, would refuse every commit."""
    copy = tmp_path / "provenance.py"
    copy.write_bytes(Path(provenance.__file__).read_bytes())
    for line in ("init -q", "add .", "-c user.name=A -c user.email=a@b commit -qm First"):
        subprocess.run(["git", *line.split()], cwd=tmp_path, check=True)
    os.utime(copy, (0, 0))  # git's index knows another time
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()
    look = f"import runpy; print(runpy.run_path({str(copy)!r})['git_state']()['modified'])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert index.read_bytes() == before


def test_atomic_writes_replace_regular_files_only(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.json"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(UserError, match="is not a file, nothing can be written there"):
            write_atomic(path, b"content")
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


@pytest.mark.slow
@pytest.mark.parametrize("command", [LONG, f"{TRAIN} --iterations 100000"])
@pytest.mark.parametrize("seconds", [pytest.param(0.0, marks=pytest.mark.long), 4.0])
def test_ctrl_c_in_a_terminal_ends_a_command_and_its_workers(
    tmp_path: Path, command: str, seconds: float
) -> None:
    """A terminal sends it to workers as well, which say nothing; no job of an hour delays it."""
    name, *arguments = command.split()
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            [script(name), *arguments],
            stdout=said,
            stderr=said,
            cwd=tmp_path,
            env=child_environment(),
            start_new_session=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        )
        deadline = time.monotonic() + 120.0
        while not workers(process.pid):
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60.0) == 130
    text = (tmp_path / "said").read_text()
    assert "Traceback" not in text
    assert "error: interrupted" in text


def workers(parent: int) -> list[str]:
    """Processes of the session that its leader has begun."""
    own = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(parent)], capture_output=True, text=True, check=False
    )
    return [pid for pid in own.stdout.split() if int(pid) != parent]
