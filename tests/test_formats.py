"""Files that commands write hold what docs/commands.md says of them, and nothing else."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.run import Run
from pixelgait.policies.training.config import (
    KINDS,
    PLACE,
)
from tests.conftest import Command
from tests.helpers import documented_keys

SHORT = "--steps 60 --validation-steps 60 --validation-episodes 2 --validate-every 1 --workers 1"
SHORT += " --iterations 1"
SEARCH = f"{SHORT} --es.directions 2 --es.top 2"
LINES = [
    f"walk {SEARCH}",
    f"follow {SEARCH} --randomise",
    f"course --low-level walk --encoder cnn --scene rooms --goal {SEARCH}",
    f"imitate --encoder cnn {SHORT} --dagger.courses 2 --dagger.steps 5",
]
# Keys of some tasks only: in a curve and in an evaluation.
FOLLOW = {"speed_error", "yaw_rate_error"}
ROOMS = {"spl", "near_rate", "remaining_m", "walked_m", "time_s"}
SUCCESS = {"success_rate", "collision_free_rate"}  # where there is something to reach
SEEING = {"success", "collision_free", "contact_free"}
LEGS = {"train/best_return", "limited_share"}
OWN = {
    "walk": LEGS,
    "follow": {*LEGS, *FOLLOW},
    "course": {*LEGS, *SEEING, *ROOMS},
    "imitate": SEEING,
}


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split()[0])
def test_a_run_is_as_documented(command: Command, tmp_path: Path, line: str) -> None:
    task, *options = line.split()
    done = command("pixelgait-train", task, "--out", "run", *options)
    assert done.returncode == 0, done.stderr
    code, (row,) = (
        json.loads((tmp_path / "run" / f"{name}.json").read_text()) for name in ("git", "curve")
    )
    asked = {field.name for field in fields(KINDS[task])} - {*PLACE}
    assert Run(tmp_path / "run").config.keys() == asked | documented_keys("Configuration")
    assert code.keys() == documented_keys("Code")
    keys = documented_keys("Learning curve") - set.union(*OWN.values()) | OWN[task]
    whole = {key for key in keys if key == "iteration" or "/" in key}
    measured = {f"{group}/{key}" for group in ("train", "validation") for key in keys - whole}
    assert row.keys() == whole | measured
    check_files(tmp_path / "run", task)


def check_files(run: Path, task: str) -> None:
    """Each is documented, and so is what archives hold."""
    files = [path for path in run.rglob("*") if path.is_file()]
    for path in files:
        name = str(path.relative_to(run))
        assert any(fnmatch(name, each) for each in documented_keys("Run folder")), name
    assert arrays(run / "last.npz") == {
        *documented_keys("Checkpoint") - {"start", "history", "students"},
        *({"students"} if task == "imitate" else {"start", "history"}),
    }
    if task == "imitate":
        shown = [arrays(path) for path in files if path.parent.name == "demonstrations"]
        assert set.union(*shown) == documented_keys("Demonstrations")


def arrays(path: Path) -> set[str]:
    """Names of what is in an archive."""
    with np.load(path) as archive:
        return set(archive.files)


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (EvalConfig("iap"), set()),
        (EvalConfig("walk", task="follow", scene="flat"), FOLLOW),
        (EvalConfig("navigator", scene="rooms"), ROOMS),
    ],
    ids=["course", "follow", "rooms"],
)
def test_an_evaluation_is_as_documented(config: EvalConfig, own: set[str]) -> None:
    figures = evaluate(replace(config, episodes=1, workers=1, seconds=1.0))
    keys = documented_keys("Evaluation") - FOLLOW - ROOMS | own
    if config.task == "follow":
        keys -= SUCCESS
    assert figures.keys() == keys
    (episode,) = figures["episodes"]
    assert episode.keys() == documented_keys("Evaluation", "episodes")
