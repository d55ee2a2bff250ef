"""Time to learn: seconds from a training command to the validation that shows success."""

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

POLL_S = 0.1  # period of reading the learning curve
OVERHEAD = re.compile(r"cluster: \d+ workers .*overhead (-?[\d.]+) %")  # last line of a cluster


@dataclass(frozen=True, slots=True)
class Lesson:
    """A training command and the condition of having learned."""

    command: str  # after pixelgait-train, without --seed, --out and options of workers
    learned: Callable[[Figures], bool]  # of a validation row of the learning curve
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
    """The lesson in MuJoCo."""
    return replace(lesson, command=f"{lesson.command} --body mujoco")


def carried_over(lesson: Lesson, robot: str) -> Lesson:
    """The lesson on another robot, starting from the A1's weights."""
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
    "rover": Lesson(
        "imitate --scene mixture --difficulty 1 --curriculum 4 --encoder strided:channels=1 "
        "--memory gru:64 --ahead --mirror --randomise --iterations 40 --dagger.courses 240 "
        "--dagger.steps 500 --dagger.batch 512 --validation-episodes 40 --validate-every 2",
        lambda row: row["validation/success"] >= 1.0,
        3600.0,
        "as the shipped one: 100 % of 40 episodes of the mixture, gliding, randomised",
    ),
    "navigator": Lesson(
        "imitate --scene rooms --difficulty 0.7 --goal --encoder strided:channels=1,width=48 "
        "--memory gru:64 --mirror --randomise --iterations 40 --steps 4000 --dagger.courses 200 "
        "--dagger.steps 400 --dagger.batch 1024 --dagger.unrolled 64 --dagger.huber 0.1 "
        "--validation-steps 6000 --validation-episodes 100 --validate-every 2",
        lambda row: row["validation/success"] >= 0.96,
        3600.0,
        "as the shipped one: 96 % of 100 houses, gliding, randomised",
    ),
    **{
        f"follow on a {name}, MuJoCo": carried_over(in_mujoco(FOLLOW), name)
        for name in ROBOTS
        if name != A1.name
    },
}


@dataclass(frozen=True, slots=True)
class Learned:
    """Time that a lesson took."""

    seconds: float | None  # None: not learned within the limit
    overhead: float | None  # share of a cluster's worker time; None: no cluster


def learn(lesson: Lesson, seed: int, workers: Sequence[str]) -> Learned:
    """Time a lesson from the command's start to the validation that shows success.

    `workers` are options of the command. It is stopped by SIGTERM, as shells ignore Ctrl-C for
    background processes.

    Raises:
        UserError: if the command ends with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [*shlex.split(lesson.command), "--seed", str(seed), "--out", str(run), *workers]
        train = [sys.executable, "-m", "pixelgait.policies.training.train", *words]
        with (Path(folder) / "output").open("w+") as file:
            started = time.monotonic()
            process = subprocess.Popen(
                train,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
            try:
                took = _wait(process, run / "curve.json", lesson, started)
            finally:
                stopped = _stop(process)
            file.seek(0)
            output = file.read()
    if process.returncode != 0 and took is None and not stopped:
        why = f"exit code {process.returncode}"  # a killed process prints no reason
        if process.returncode > 0 and output.strip():
            why = output.strip().splitlines()[-1]
        raise UserError(f"{shlex.join(words)}: {why}")
    overhead = OVERHEAD.search(output)
    return Learned(took, float(overhead[1]) / 100.0 if overhead else None)


def _wait(
    process: subprocess.Popen[bytes], curve: Path, lesson: Lesson, started: float
) -> float | None:
    """Seconds until the curve shows success; None: the command or the time has ended."""
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
        time.sleep(POLL_S)
    return None


def _stop(process: subprocess.Popen[bytes]) -> bool:
    """Terminate the process; returns whether it was still running."""
    if runs := process.poll() is None:
        process.terminate()
    process.wait()
    return runs
