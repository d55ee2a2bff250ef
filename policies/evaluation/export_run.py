"""Temporary bundles of training runs, for commands that need a bundle."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pixelgait.policies.runs.run import CONFIG, read_yaml, refuse_many
from pixelgait.robot.bundle import CONTRACT, SHIPPED, shipped_low_level
from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1

# The console script, by its module; it reports what has to be installed.
EXPORT = "import sys; sys.argv[0] = 'pixelgait-export'; "
EXPORT += "from pixelgait.robot.cli.commands import main; main()"


@contextmanager
def as_bundle(name: str) -> Iterator[str]:
    """The name of a bundle, or the folder of a temporary one that is exported from a run.

    A high level that was trained without a low level gets the one shipped for its robot.

    Raises:
        UserError: if the run cannot be exported, or the folder holds several runs.
    """
    folder = Path(name)
    if not (SHIPPED / name / CONTRACT).is_file():
        refuse_many(folder)
    if (folder / CONTRACT).is_file() or not (folder / CONFIG).is_file():
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="pixelgait-") as aside:
        levels = levels_of(folder)
        print(f"exporting {name}: {' '.join(levels)}", file=sys.stderr)
        # In a process of its own: exporting needs torch, evaluating does not.
        line = [sys.executable, "-c", EXPORT, *levels, "--out", aside]
        start = partial(die_with_parent, os.getpid())
        done = subprocess.run(line, capture_output=True, text=True, check=False, preexec_fn=start)
        if done.returncode < 0 or done.returncode == 130:
            raise KeyboardInterrupt
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise UserError(last[0].removeprefix("error: "))
        yield aside


def levels_of(run: Path) -> list[str]:
    """Options of pixelgait-export for the levels of a run's policy."""
    config = read_yaml(run / CONFIG)
    task = config.get("task")
    if task in ("walk", "follow"):
        return ["--low-level", str(run)]
    own = task == "joint" or (task == "course" and (run / "low_level" / CONFIG).is_file())
    low_level = run if own else shipped_low_level(config.get("robot", A1.name))
    return ["--low-level", str(low_level), "--high-level", str(run)]
