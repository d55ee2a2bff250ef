"""Training in either simulator, or in both: the run knows where it learns, and stays there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Run, load_checkpoint
from pixelgait.policies.training.plan import BodyName, Plan
from pixelgait.policies.training.rollouts import Job, RolloutWorker
from pixelgait.sim.tasks.episode import Episode
from tests.conftest import Command, gentle_weights, run_code

SMALL = "--steps 40 --validation-steps 40 --validation-episodes 2 --validate-every 1"
SMALL += " --es.directions 2 --es.top 1 --es.courses 2"
LINES = {
    "mujoco": f"follow {SMALL} --body mujoco --randomise",
    "batches": f"follow {SMALL} --body mujoco",  # of 8 robots by one worker, of 4 by each of two
    "mixture": f"course --low-level walk --encoder cnn --curriculum 3 {SMALL} --body mixture",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    ["mujoco", *(pytest.param(each, marks=pytest.mark.long) for each in ("batches", "mixture"))],
)
def test_a_run_stays_in_its_simulator_and_is_the_same_on_any_number_of_workers(
    command: Command, tmp_path: Path, body: str
) -> None:
    fresh = LINES[body]
    for line in (
        f"{fresh} --out whole --workers 1 --iterations 2",
        f"{fresh} --out part --workers 2 --iterations 1",
        "--out part --resume --workers 2 --iterations 2",
    ):
        done = command("pixelgait-train", *line.split())
        assert done.returncode == 0, done.stderr
    whole, part = (load_checkpoint(tmp_path / name / "last.npz") for name in ("whole", "part"))
    np.testing.assert_array_equal(part.weights, whole.weights)
    body = "mixture" if body == "mixture" else "mujoco"
    assert Run(tmp_path / "part").config["body"] == body
    other = command("pixelgait-train", "--out", "part", "--resume", "--body", "pybullet")
    assert other.returncode == 1
    assert f"part: started with body = {body}, cannot resume with pybullet" in other.stderr


def walked(body: BodyName, seeds: list[int]) -> list[Episode]:
    worker = RolloutWorker(Plan(task="walk", steps=60, body=body))
    episodes = worker.run(Job(gentle_weights(), Normaliser.empty(), seeds, 60))
    worker.close()
    return episodes


def test_in_a_mixture_the_seed_alone_says_in_which_simulator_an_episode_is() -> None:
    seeds = [6, 3, 8, 5]
    mixed = walked("mixture", seeds)
    alone = {0: walked("pybullet", [6, 8]), 1: walked("mujoco", [3, 5])}
    for i, (seed, episode) in enumerate(zip(seeds, mixed, strict=True)):
        np.testing.assert_array_equal(episode.path, alone[seed % 2][i // 2].path)
    assert not np.array_equal(alone[0][0].path, walked("mujoco", [6])[0].path)


@pytest.mark.slow
@pytest.mark.parametrize("body", ["mujoco", "mixture"])
def test_without_mujoco_a_line_says_so_before_anything_is_written(
    tmp_path: Path, body: str
) -> None:
    code = "import sys; sys.modules['mujoco'] = None; sys.argv[0] = 'pixelgait-train'\n"
    code += "from pixelgait.robot.cli.commands import main; main()"
    line = ["walk", "--out", "run", "--body", body]
    done = run_code(code, *line, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip() == "error: body 'mujoco' needs mujoco: pip install 'pixelgait[sim]'"
    assert not (tmp_path / "run").exists()
