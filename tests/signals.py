"""No command leaves a process behind, whenever it is stopped and by whatever signal.

Ctrl-C goes to all of its processes, as from a terminal, and none may answer by a traceback.
Nor is a user told of leaks that are mended, and what can tidy up leaves no folder of Python's.
`make signals` runs all of it, in two hours; tests/test_signals.py a part.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from pixelgait.robot.bundle import SHIPPED
from tests.conftest import child_environment

RUN = SHIPPED / "iap" / "high_level"
ROOT = Path(__file__).resolve().parent.parent
WALK = ROOT / "tests" / "recordings" / "iap.mcap"
SHORT = "pixelgait-train walk --out run --iterations 1 --validation-episodes 1"
# Long commands (behind && if not the first), and how long their start and work are sampled [s].
COMMANDS = {
    "pixelgait-train walk --out run --iterations 100000": 12.0,
    "pixelgait-train walk --out run --iterations 100000 --body mujoco": 12.0,
    "pixelgait-train follow --out run --iterations 100000 --randomise": 12.0,
    "pixelgait-train course --low-level walk --out run --iterations 100000": 15.0,
    "pixelgait-train imitate --out run": 20.0,
    "pixelgait-train joint --out run --iterations 100000": 15.0,
    "pixelgait-train --recipe walk --out run": 12.0,
    f"{SHORT} && pixelgait-train --out run --resume --iterations 100000": 12.0,
    "pixelgait-eval iap --episodes 100000": 10.0,
    "pixelgait-eval iap --episodes 100000 --body mujoco --randomise": 10.0,
    "pixelgait-eval walk --task follow --scene flat --seconds 3600": 8.0,
    f"pixelgait-eval {shlex.quote(str(RUN))} --episodes 100000": 12.0,
    "pixelgait-eval iap --episodes 1 --video film.mp4": 12.0,
    "pixelgait-export --low-level walk --high-level iap --out run": 8.0,
    "pixelgait-encoders --out run": 15.0,
    "pixelgait-benchmark --rounds 100000": 8.0,
    "pixelgait-benchmark --rounds 1 --steps 3000 --at-once 1": 15.0,
    "pixelgait-profile iap --seconds 1000": 4.0,
    f"pixelgait-replay {shlex.quote(str(WALK))} --bundle iap": 3.0,
    "pixelgait-sim": 6.0,
    "pixelgait-sim --video film.mp4": 10.0,
    "pixelgait-run iap --auto-arm": 6.0,
    "pixelgait-run walk --auto-arm --record walk.mcap": 6.0,
    "pixelgait-demo --out run --minutes 0.1": 60.0,
}
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
MOMENTS = 10
MARK = "PIXELGAIT_TEST_MARK"  # in the environment, which every descendant inherits
# Before the first line of ours, Python itself handles the signal. While MuJoCo is imported, a child
# of pyGLFW reports a version, and fails once its reader is gone.
STARTING = (
    *("init_import_site", "from pixelgait.robot.cli.commands import main"),
    'File "<string>", line 36, in <module>\nBrokenPipeError',
)
LONGEST_S = 60.0  # from the signal to the last process's end


def marked(mark: str) -> dict[int, str]:
    """Processes with this mark, however they came to be: their command lines."""
    found = {}
    for process in Path("/proc").iterdir():
        try:
            environment = (process / "environ").read_bytes() if process.name.isdigit() else b""
            if f"{MARK}={mark}".encode() in environment.split(b"\0"):
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if line:  # not a zombie
                    found[int(process.name)] = line
        except OSError:  # it has just ended, or is not ours
            continue
    return found


def stopped_at(line: str, seconds: float, number: signal.Signals) -> str:
    """Start the command, send it a signal after so long [s]; how its end was wrong, or ""."""
    *before, last = (_words(each) for each in line.split(" && "))
    return stopped(last, lambda _: time.sleep(seconds), number, before)


def _words(line: str) -> list[str]:
    name, *arguments = shlex.split(line)
    return [str(Path(sys.executable).parent / name), *arguments]


def stopped(
    words: list[str],
    reached: Callable[[str], object],
    number: signal.Signals,
    before: Sequence[list[str]] = (),
) -> str:
    """Start a process, send it the signal once `reached(mark)` returns; the problem, or "".

    The commands in `before` run first, in the same folder.
    """
    mark = uuid.uuid4().hex
    # The scripts of docs/ and tests/ are found in the repository, as make runs them.
    found = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = {**child_environment(), "PYTHONPATH": found}
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as aside,
        tempfile.TemporaryFile("w+") as said,
    ):
        for each in before:
            subprocess.run(each, cwd=folder, env=environment, check=True, capture_output=True)
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env={**environment, MARK: mark, "TMPDIR": aside},
            # Whatever started these tests may ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        reached(mark)
        if process.poll() not in (None, 0):
            return f"it ended by itself, with code {process.returncode}"
        if process.poll() is None and number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        deadline = time.monotonic() + LONGEST_S
        while process.poll() is None or marked(mark):
            if time.monotonic() > deadline:
                left = marked(mark)
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                process.wait()
                return f"still there after {LONGEST_S:.0f} s: {left}"
            time.sleep(0.05)
        folders = [path.name for path in Path(aside).glob("pymp-*")]
        if folders and number != signal.SIGKILL:
            return f"it left {folders}"
        said.seek(0)
        text = said.read()
        clean = "Traceback" not in text or any(start in text for start in STARTING)
        clean = clean and "leaked" not in text
        return "" if clean else f"it said\n{text}"


def main() -> None:
    """Everything, or the commands that hold the text given, at so many moments."""
    only, moments = [*sys.argv[1:], "", ""][:2]
    rng, wrong, done = random.Random(0), 0, 0
    for line, longest_s in COMMANDS.items():
        if only not in line:
            continue
        for number in SIGNALS:
            for _ in range(int(moments or MOMENTS)):
                seconds = rng.uniform(0.0, longest_s)
                fault = stopped_at(line, seconds, number)
                done += 1
                wrong += bool(fault)
                print(f"{line}: {number.name} after {seconds:.1f} s: {fault or 'ok'}", flush=True)
    print(f"{done} commands stopped, {wrong} wrongly")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
