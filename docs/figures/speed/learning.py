"""Seconds until a policy is learned, by the command that people type."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pixelgait.policies.training.rollouts import Figures
from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1, ROBOTS

LOOK_S = 0.1  # how often the learning curve is read
OVERHEAD = re.compile(r"cluster: \d+ workers .*overhead (-?[\d.]+) %")  # what a cluster ends with


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learned, and from which validation on it has been."""

    command: str  # behind pixelgait-train, without --seed, --out and who does the work
    learned: Callable[[Figures], bool]  # of a row of the learning curve with a validation
    limit_s: float
    enough: str  # `learned`, in words


WALK = Lesson(
    "walk --mirror --iterations 200 --validate-every 1",
    lambda row: row["validation/shortest"] >= 5.0 and row["validation/falls"] == 0.0,
    300.0,
    "8 of 8 walks of 10 s go 5 m or more, none falls",
)
FOLLOW = Lesson(
    "follow --mirror --iterations 200 --steps 400 --es.courses 1 --validate-every 2",
    lambda row: (
        row["validation/falls"] == 0.0
        and row["validation/speed_error"] <= 0.1
        and row["validation/yaw_rate_error"] <= 0.2
    ),
    900.0,
    "no falls, errors of 0.1 m/s and 0.2 rad/s at most",
)


def in_mujoco(lesson: Lesson) -> Lesson:
    """The same, learned there."""
    return replace(lesson, command=f"{lesson.command} --body mujoco")


def carried_over(lesson: Lesson, robot: str) -> Lesson:
    """The same by another robot, which begins with what the A1 has learned."""
    return replace(lesson, command=f"{lesson.command} --robot {robot} --start walk")


LESSONS = {
    "walk from zero": WALK,
    "walk from zero, MuJoCo": in_mujoco(WALK),
    "follow from zero": FOLLOW,
    "follow from zero, MuJoCo": in_mujoco(FOLLOW),
    "iap": Lesson(
        "imitate --encoder iap --mirror --iterations 20",
        lambda row: row["validation/success"] >= 0.95,
        1800.0,
        "95 % of 40 courses, gliding",
    ),
    **{
        f"follow on a {name}, MuJoCo": carried_over(in_mujoco(FOLLOW), name)
        for name in ROBOTS
        if name != A1.name
    },
}


@dataclass(frozen=True, slots=True)
class Learned:
    """How a lesson went."""

    seconds: float | None  # None: not learned within the limit
    overhead: float | None  # share of its workers' time that a cluster took; None: there was none


def learn(lesson: Lesson, seed: int, workers: Sequence[str]) -> Learned:
    """Time it from the command's start to the validation that shows it.

    `workers` are the options that say who does the work. The command is stopped by SIGTERM: Ctrl-C
    is nothing to whom a shell has started in the background.

    Raises:
        UserError: the command ends with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [*shlex.split(lesson.command), "--seed", str(seed), "--out", str(run), *workers]
        train = [sys.executable, "-m", "pixelgait.policies.training.train", *words]
        with (Path(folder) / "said").open("w+") as said:
            started = time.monotonic()
            process = subprocess.Popen(
                train,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
            try:
                took = _wait(process, run / "curve.json", lesson, started)
            finally:
                stopped = _stop(process)
            said.seek(0)
            told = said.read()
    if process.returncode != 0 and took is None and not stopped:
        why = f"exit code {process.returncode}"  # who is killed says nothing, but how far it was
        if process.returncode > 0 and told.strip():
            why = told.strip().splitlines()[-1]
        raise UserError(f"{shlex.join(words)}: {why}")
    overhead = OVERHEAD.search(told)
    return Learned(took, float(overhead[1]) / 100.0 if overhead else None)


def _wait(
    process: subprocess.Popen[bytes], curve: Path, lesson: Lesson, started: float
) -> float | None:
    """Seconds until the curve says that it is learned; None: the command or the time has ended."""
    seen = 0
    while (elapsed := time.monotonic() - started) < lesson.limit_s:
        ended = process.poll() is not None
        rows = json.loads(curve.read_text()) if curve.exists() else []
        fresh = [row for row in rows[seen:] if "validation/return" in row]
        if any(lesson.learned(row) for row in fresh):
            return elapsed
        if ended:
            return None
        seen = len(rows)
        time.sleep(LOOK_S)
    return None


def _stop(process: subprocess.Popen[bytes]) -> bool:
    """Unless it has ended; whether it had not. How it ends then is Ray's or the signal's affair."""
    if runs := process.poll() is None:
        process.terminate()
    process.wait()
    return runs
