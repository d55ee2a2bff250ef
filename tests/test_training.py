"""Training: it learns, survives kill -9 and dying workers, and refuses what makes no sense."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.policies import es
from pixelgait.policies.es import ESConfig
from pixelgait.policies.low_level import Statistics
from pixelgait.policies.pool import RolloutPool
from pixelgait.policies.rollouts import Plan, Worker, flat_weights, make_high_level
from pixelgait.policies.runs import Checkpoint, Run, load_checkpoint
from pixelgait.policies.train import TrainConfig, train
from pixelgait.policies.trained import trained_high_level
from pixelgait.robot.errors import UserError
from pixelgait.robot.low_level import WEIGHTS
from tests.conftest import child_environment, gentle_weights, write_run

QUICK = ["--iterations", "4", "--steps", "60", "--validation-steps", "100", "--validate-every", "2"]
QUICK += ["--es.directions", "3", "--es.top", "2"]


def test_ars_climbs_a_noisy_hill() -> None:
    config = ESConfig(directions=16, top=8, noise=0.05, step=0.05)
    rng = np.random.default_rng(0)
    goal = rng.standard_normal(50)
    weights = np.zeros(50)
    for iteration in range(300):
        deltas = es.directions(config, np.ones(50), 0, iteration)
        trials = es.candidates(config, weights, deltas)
        returns = -np.linalg.norm(trials - goal, axis=1) + 0.01 * rng.standard_normal(32)
        weights = es.update(config, weights, deltas, returns)
    assert np.linalg.norm(weights - goal) < 0.2 * np.linalg.norm(goal)


def test_candidates_lie_opposite_each_other_and_only_the_best_directions_count() -> None:
    config = ESConfig(directions=3, top=1, noise=0.5, step=1.0)
    deltas = es.directions(config, np.ones(4), seed=1, iteration=2)
    np.testing.assert_array_equal(deltas, es.directions(config, np.ones(4), seed=1, iteration=2))
    assert not np.array_equal(deltas, es.directions(config, np.ones(4), seed=1, iteration=3))
    trials = es.candidates(config, np.ones(4), deltas)
    np.testing.assert_allclose(trials[0::2] + trials[1::2], 2.0)
    returns = np.array([0.0, 1.0, 5.0, 3.0, 2.0, 2.0])  # the second direction holds the best
    step = es.update(config, np.zeros(4), deltas, returns)
    np.testing.assert_allclose(step, 1.0 / (1 * 1.0) * (5.0 - 3.0) * deltas[1])


def test_the_search_settles_with_decay() -> None:
    config = ESConfig(noise=0.1, step=0.2, decay=0.9)
    assert es.cooled(config, 1) == config
    third = es.cooled(config, 3)
    assert (third.noise, third.step) == (pytest.approx(0.081), pytest.approx(0.162))


def test_training_never_draws_evaluation_or_validation_seeds() -> None:
    config = ESConfig(courses=50)
    seeds = [s for i in range(200) for s in es.training_seeds(config, 0, i)]
    assert max(seeds) < 9000
    assert len(set(seeds)) > 3000


def test_statistics_equal_those_of_all_samples_at_once() -> None:
    samples = np.random.default_rng(0).normal(2.0, 3.0, (300, 20))
    statistics = Statistics.empty()
    for part in (samples[:7], samples[7:7], samples[7:250], samples[250:]):
        statistics = statistics.including(part)
    np.testing.assert_allclose(statistics.mean, samples.mean(0))
    np.testing.assert_allclose(statistics.squares / statistics.count, samples.var(0))


def test_the_a1_learns_to_walk_from_zero_weights(tmp_path: Path) -> None:
    untrained = Worker(Plan("walk", 500)).run(np.zeros(WEIGHTS), Statistics.empty(), [9000], 500)
    assert abs(untrained[0].distance_m) < 0.6  # it trots on the spot, drifting backwards
    config = TrainConfig(
        "walk", tmp_path / "run", iterations=25, steps=400, validation_steps=500, target_m=1.5
    )
    train(config)
    curve = json.loads((tmp_path / "run" / "curve.json").read_text())
    best = max(row.get("validation/shortest", 0.0) for row in curve)
    assert best >= 1.5  # in 5 s


def test_a_high_level_belongs_to_its_low_level(tmp_path: Path) -> None:
    low_level = write_run(tmp_path / "low", "follow", gentle_weights())
    quick = dict(low_level=low_level, steps=50, validation_steps=50, validate_every=1)
    settings = ESConfig(directions=2, top=1)
    config = TrainConfig("course", tmp_path / "run", iterations=1, es=settings, **quick)
    train(config)
    high_level = trained_high_level(tmp_path / "run")
    weights = load_checkpoint(tmp_path / "run" / "best.npz").weights
    np.testing.assert_allclose(flat_weights(high_level), weights, atol=1e-6)
    assert weights.size == 1387
    shutil.rmtree(low_level)
    write_run(low_level, "follow", 2 * gentle_weights())  # retrained under the same name
    with pytest.raises(UserError, match="low_level_sha256"):
        train(replace(config, resume=True, iterations=2))


def start_training(out: Path, *arguments: str) -> subprocess.Popen[str]:
    script = Path(sys.executable).parent / "pixelgait-train"
    return subprocess.Popen(
        [script, "walk", "--out", str(out), *QUICK, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=child_environment(),
    )


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def without_times(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in curve]


def test_a_run_killed_with_kill_9_resumes_to_the_same_curve(tmp_path: Path) -> None:
    whole = start_training(tmp_path / "whole")
    assert whole.wait(120) == 0
    cut = start_training(tmp_path / "cut")
    deadline = time.monotonic() + 60
    while not (tmp_path / "cut" / "last.npz").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    workers = children(cut.pid)
    assert len(workers) >= 2
    cut.kill()
    cut.wait()
    while any(alive(pid) for pid in workers):  # none stays behind
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert load_checkpoint(tmp_path / "cut" / "last.npz").iteration < 4
    assert start_training(tmp_path / "cut", "--resume").wait(120) == 0
    first, second = (load_checkpoint(tmp_path / name / "last.npz") for name in ("whole", "cut"))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert without_times(first.curve) == without_times(second.curve)
    assert len(first.curve) == 4


def die_once(path: Path) -> int:
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def square_or_die(job: tuple[int, Path]) -> int:
    number, path = job
    if number == 3:
        die_once(path)
    return number * number


def nothing() -> None:
    """Initialiser without a task."""


def test_a_worker_that_dies_is_replaced_and_its_rollout_repeated(tmp_path: Path) -> None:
    pool = RolloutPool(2, nothing)
    jobs = [(number, tmp_path / "died") for number in range(8)]
    assert pool.map(square_or_die, jobs) == [n * n for n in range(8)]
    assert (tmp_path / "died").exists()
    assert pool.replaced == 1
    pool.close()


def test_checkpoints_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.create(tmp_path / "run", {})
    weights = flat_weights(make_high_level("iap", 0))
    run.save(Checkpoint(weights, Statistics.empty(), 1, [], 0.0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "last.npz")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run.save(Checkpoint(2 * weights, Statistics.empty(), 2, [], 0.0))
    np.testing.assert_array_equal(run.load().weights, weights)
    assert not [p for p in (tmp_path / "run").iterdir() if p.name.startswith(".")]


def test_a_run_is_not_overwritten_and_not_resumed_as_another(tmp_path: Path) -> None:
    config = TrainConfig("walk", tmp_path, iterations=1, steps=20, validation_steps=20)
    train(config)
    with pytest.raises(UserError, match="already holds a run"):
        train(config)
    with pytest.raises(UserError, match="started with steps = 20, cannot resume with 30"):
        train(TrainConfig("walk", tmp_path, resume=True, iterations=2, steps=30))
