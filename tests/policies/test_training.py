"""Training: it learns, survives kill -9 and dying workers, and refuses what makes no sense."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from pixelgait.export.exporter import export
from pixelgait.export.options import ExportConfig
from pixelgait.policies.high_level import (
    Architecture,
    flat_weights,
    make_high_level,
    set_weights,
)
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Checkpoint, Run, find_run, load_checkpoint
from pixelgait.policies.runs.trained import trained_high_level, trained_low_level
from pixelgait.policies.training.config import (
    CourseConfig,
    ImitateConfig,
    JointConfig,
    WalkConfig,
)
from pixelgait.policies.training.dagger import Courses, collect
from pixelgait.policies.training.demonstrations import Demonstrations
from pixelgait.policies.training.evolution import (
    ARS,
    ESConfig,
    Strategy,
    centred_ranks,
    make_strategy,
    training_seeds,
)
from pixelgait.policies.training.loop import going_blind, keep_sources, train
from pixelgait.policies.training.plan import DAggerConfig, Plan
from pixelgait.policies.training.rollouts import Job, RolloutWorker, start_worker, this_worker
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import LAIKAGO
from tests.conftest import (
    Command,
    alive,
    child_environment,
    children,
    gentle_weights,
    wait_for,
    write_run,
)

QUICK = ["--iterations", "4", "--steps", "60", "--validation-steps", "100", "--validate-every", "2"]
QUICK += ["--validation-episodes", "4"]
QUICK += ["--es.directions", "3", "--es.top", "2"]


HILL = np.random.default_rng(0).standard_normal(50)
SETTINGS = [
    ESConfig("ars", directions=16, top=8, noise=0.05, step=0.05),
    ESConfig("openai", directions=16, noise=0.05, step=0.05),
    ESConfig("cma", directions=16, noise=0.1),
]


def climb(strategy: Strategy, iterations: range) -> list[np.ndarray]:
    """Search for the top of a hill; returns what the strategy was told."""
    told = []
    for iteration in iterations:
        trials = strategy.ask()
        noise = np.random.default_rng(iteration).standard_normal(len(trials))
        told.append(-np.linalg.norm(trials - HILL, axis=1) + 0.01 * noise)
        strategy.tell(told[-1])
    return told


@pytest.mark.parametrize("config", SETTINGS, ids=lambda config: config.method)
def test_every_strategy_climbs_a_noisy_hill(config: ESConfig) -> None:
    strategy = make_strategy(config, np.zeros(50), np.ones(50), seed=0)
    climb(strategy, range(300))
    assert np.linalg.norm(strategy.weights - HILL) < 0.2 * np.linalg.norm(HILL)


@pytest.mark.parametrize("config", SETTINGS, ids=lambda config: config.method)
def test_a_search_is_restored_from_its_returns(config: ESConfig) -> None:
    scale = np.linspace(0.5, 2.0, 50)
    whole, resumed = (make_strategy(config, np.zeros(50), scale, seed=3) for _ in range(2))
    for returns in climb(whole, range(7)):
        resumed.ask()
        resumed.tell(returns)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    np.testing.assert_array_equal(resumed.ask(), whole.ask())


@pytest.mark.parametrize("config", SETTINGS, ids=lambda config: config.method)
def test_weights_are_explored_as_far_as_their_scale_says(config: ESConfig) -> None:
    scale = np.repeat((0.1, 1.0), 25)
    config = replace(config, directions=200, top=200)
    trials = make_strategy(config, np.zeros(50), scale, seed=0).ask()
    near, far = trials[:, :25].std(), trials[:, 25:].std()
    assert (near, far) == (
        pytest.approx(0.1 * config.noise, rel=0.05),
        pytest.approx(config.noise, rel=0.05),
    )


def test_ars_candidates_lie_opposite_each_other_and_only_the_best_directions_count() -> None:
    strategy = ARS(ESConfig(directions=3, top=1, noise=0.5, step=1.0), np.ones(4), np.ones(4), 1)
    trials = strategy.ask()
    np.testing.assert_allclose(trials[0::2] + trials[1::2], 2.0)
    strategy.tell(np.array([0.0, 1.0, 5.0, 3.0, 2.0, 2.0]))  # the second direction holds the best
    delta = (trials[2] - 1.0) / 0.5
    np.testing.assert_allclose(strategy.weights, 1.0 + 1.0 / (1 * 1.0) * (5.0 - 3.0) * delta)
    assert not np.allclose(strategy.ask() - strategy.weights, trials - 1.0)


def test_the_search_settles_with_decay() -> None:
    strategy = ARS(ESConfig(noise=0.1, step=0.2, decay=0.9), np.zeros(4), np.ones(4), 0)
    lengths = []
    for _ in range(3):
        lengths.append(np.abs(strategy.ask()[0] / strategy.directions[0]).mean())
        strategy.tell(np.zeros(32))
    assert lengths == [pytest.approx(value) for value in (0.1, 0.09, 0.081)]


@pytest.mark.parametrize("method", ["ars", "openai"])
def test_a_search_that_has_settled_stays_where_it_is(method: Literal["ars", "openai"]) -> None:
    """0.001^108 is no float: openai divided by it, and its weights were none from then on."""
    config = ESConfig(method, directions=2, top=2, decay=0.001)
    strategy = make_strategy(config, np.zeros(50), np.ones(50), seed=0)
    climb(strategy, range(10))
    settled = strategy.weights
    rng = np.random.default_rng(0)
    for _ in range(110):  # whatever chance says of candidates that are all the same
        assert np.isfinite(strategy.ask()).all()
        strategy.tell(rng.normal(size=4))
    np.testing.assert_allclose(strategy.weights, settled, rtol=0, atol=1e-12)


def test_ranks_are_centred_and_ties_share_theirs() -> None:
    ranks = centred_ranks(np.array([3.0, -1.0, 100.0, 3.0, 0.0]))
    np.testing.assert_allclose(ranks, [0.125, -0.5, 0.5, 0.125, -0.25])
    np.testing.assert_array_equal(centred_ranks(np.ones(4)), np.zeros(4))


def test_difficulty_rises_to_its_value() -> None:
    plan = Plan(task="course", steps=100, difficulty=0.75, curriculum=10)
    rising = [plan.difficulty_in(iteration) for iteration in range(1, 12)]
    assert rising[0] == 0.0
    assert rising == sorted(rising)
    assert rising[9] == rising[10] == 0.75
    assert len(set(rising)) == 8


def test_a_policy_that_goes_blind_is_noticed() -> None:
    def curve(*durations: float) -> list[dict[str, float]]:
        name = "validation/duration_steps"
        return [{"iteration": 5.0 * i, name: steps} for i, steps in enumerate(durations)]

    assert going_blind(curve(20.0, 30.0, 60.0)) is None  # longer, but it still looks
    assert going_blind(curve(500.0, 500.0)) is None  # as long as ever: it has no eyes
    warning = going_blind(curve(20.0, 30.0, 250.0))
    assert warning is not None
    assert "250 steps on average, once 20" in warning


def test_training_never_draws_evaluation_or_validation_seeds() -> None:
    config = ESConfig(courses=50)
    seeds = [s for i in range(200) for s in training_seeds(config, 0, i)]
    assert max(seeds) < 9000
    assert len(set(seeds)) > 3000


def test_statistics_equal_those_of_all_samples_at_once() -> None:
    samples = np.random.default_rng(0).normal(2.0, 3.0, (300, 20))
    normaliser = Normaliser.empty()
    for part in (samples[:7], samples[7:7], samples[7:250], samples[250:]):
        normaliser = normaliser.including(part)
    np.testing.assert_allclose(normaliser.mean, samples.mean(0))
    np.testing.assert_allclose(normaliser.squares / normaliser.count, samples.var(0))


@pytest.mark.slow
def test_the_a1_learns_to_walk_from_zero_weights(tmp_path: Path) -> None:
    zero = np.zeros(LOW_LEVEL_WEIGHTS)
    untrained = RolloutWorker(Plan(task="walk", steps=500)).run(
        Job(zero, Normaliser.empty(), [9000], 500)
    )
    assert abs(untrained[0].distance_m) < 0.6  # it trots on the spot, drifting backwards
    config = WalkConfig(
        out=tmp_path / "run", iterations=25, steps=400, validation_steps=500, target_m=1.5
    )
    train(config)
    curve = json.loads((tmp_path / "run" / "curve.json").read_text())
    best = max(row.get("validation/shortest", 0.0) for row in curve)
    assert best >= 1.5  # in 5 s


@pytest.mark.slow
def test_a_run_records_and_uses_its_robot(tmp_path: Path) -> None:
    shortest = dict(steps=20, validation_steps=20, validation_episodes=1, iterations=1)
    settings = ESConfig(directions=1, top=1)
    run = train(WalkConfig(out=tmp_path / "run", robot="laikago", es=settings, **shortest))
    assert trained_low_level(run.folder).spec is LAIKAGO
    export(ExportConfig(low_level=run.folder, out=tmp_path / "bundle"))
    assert load_bundle(tmp_path / "bundle").spec is LAIKAGO


@pytest.mark.slow
def test_a_high_level_belongs_to_its_low_level(tmp_path: Path) -> None:
    low_level = write_run(tmp_path / "low", "follow", gentle_weights())
    quick = dict(low_level=low_level, steps=50, validation_steps=50, validate_every=1)
    settings = ESConfig(directions=2, top=1)
    config = CourseConfig(out=tmp_path / "run", iterations=1, es=settings, **quick)
    train(config)
    high_level = trained_high_level(tmp_path / "run")
    weights = load_checkpoint(tmp_path / "run" / "best.npz").weights
    np.testing.assert_allclose(flat_weights(high_level), weights, atol=1e-6)
    assert weights.size == 1387
    shutil.rmtree(low_level)
    write_run(low_level, "follow", 2 * gentle_weights())  # retrained under the same name
    with pytest.raises(UserError, match="low_level_sha256"):
        train(replace(config, resume=True, iterations=2))


# A scene of one's own, in which robots begin at their destination now and then.
NEAR = """
import math
import numpy as np
from pixelgait.sim.scenes import Layout, Plane, Pose, Scene

class Near(Scene):
    name = "near"
    fixed = (Plane(),)
    has_goal_position = True

    def __init__(self, difficulty):
        self.goal_position = np.zeros(2)

    def layout(self, rng):
        self.goal_position = np.array((0.0 if rng.random() < {chance} else 3.0, 0.0))
        return Layout(Pose(0.0, 0.0, 0.0))

    def progress_m(self, x, y):
        return -math.dist(self.goal_position, (x, y))
"""
ROUND = dict(steps=1500, validation_steps=1000, validation_episodes=2, validate_every=1)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["iap", pytest.param("cnn", marks=pytest.mark.long)])
def test_the_high_level_learns_what_the_teacher_demonstrates(tmp_path: Path, encoder: str) -> None:
    """In one round, by gradient: whole networks, or the best of a few selections of patches."""
    config = ImitateConfig(
        out=tmp_path / "run",
        encoder=encoder,
        mirror=True,
        iterations=1,
        dagger=DAggerConfig(courses=4, steps=100, students=3 if encoder == "iap" else 64),
        **ROUND,
    )
    train(config)
    seen = Demonstrations.load(tmp_path / "run" / "demonstrations" / "round-001.npz")
    mirrored = Architecture(encoder, mirror=True)
    fresh = flat_weights(make_high_level(mirrored, seed=0))
    losses = []
    for weights in (fresh, load_checkpoint(tmp_path / "run" / "best.npz").weights):
        student = make_high_level(mirrored, seed=0)
        set_weights(student, weights)
        decided = np.array([student.decide(image).latent for image in seen.images])
        losses.append(((decided - seen.latents) ** 2).mean())
    assert losses[1] < 0.6 * losses[0]


def test_demonstrations_do_not_last_as_long_as_the_validation_before(tmp_path: Path) -> None:
    """Which worker validates depends on its speed: the demonstrations must not."""
    config = ImitateConfig(out=tmp_path, difficulty=0.2, encoder="iap", steps=300)
    start_worker(config.plan())
    validation = Job(
        flat_weights(make_high_level(config.architecture(), 0)), Normaliser.empty(), [9000], 50, 0.2
    )
    (validated,) = this_worker().run(validation)
    ((_, shown),) = collect(Courses(None, [100], 0.2))
    assert (validated.steps, shown.steps) == (50, 300)


@pytest.mark.slow
def test_imitation_resumes_to_the_same_student(tmp_path: Path) -> None:
    """After an end in the middle of a round: demonstrated, but not in the checkpoint."""
    whole = ImitateConfig(
        out=tmp_path / "whole",
        iterations=3,
        difficulty=0.4,
        curriculum=2,
        dagger=DAggerConfig(courses=3, steps=20, students=2),
        **{**ROUND, "steps": 500, "validation_steps": 100},
    )
    train(whole)
    parted = replace(whole, out=tmp_path / "parted", iterations=2)
    train(parted)
    third = Path("demonstrations") / "round-003.npz"
    shutil.copy(whole.out / third, parted.out / third)
    train(replace(parted, iterations=3, resume=True))
    one, other = (load_checkpoint(folder / "last.npz") for folder in (whole.out, parted.out))
    assert np.array_equal(one.weights, other.weights)
    assert without_times(one.curve) == without_times(other.curve)
    assert [row["train/difficulty"] for row in one.curve] == pytest.approx([0.2, 0.4, 0.4])


@pytest.mark.parametrize("chance", [0.5, 1.0])
def test_an_episode_that_begins_at_its_goal_has_no_demonstrations(
    tmp_path: Path, chance: float
) -> None:
    scene = tmp_path / "near.py"
    scene.write_text(NEAR.format(chance=chance))
    config = ImitateConfig(
        **{**ROUND, "out": tmp_path / "run", "scene": str(scene), "goal": True, "steps": 100},
        **{"encoder": "strided:channels=1", "iterations": 1, "workers": 1},
        dagger=DAggerConfig(courses=6, steps=2),
    )
    if chance == 1.0:
        with pytest.raises(UserError, match="nothing to learn: all robots begin where"):
            train(config)
    else:
        shown = Demonstrations.load(train(config).folder / "demonstrations" / "round-001.npz")
        assert 0 < shown.starts.sum() < 6


@pytest.mark.long
def test_imitation_starts_from_the_weights_of_another_run(tmp_path: Path) -> None:
    """The start is validated first, and leads from round 1 on instead of the teacher."""
    dagger = DAggerConfig(courses=4, steps=1)
    shared = {"encoder": "strided", "iterations": 1, "dagger": dagger, **ROUND}
    fresh = ImitateConfig(out=tmp_path / "fresh", **shared)
    train(fresh)
    train(replace(fresh, out=tmp_path / "further", start=fresh.out))
    (first,) = load_checkpoint(fresh.out / "last.npz").curve
    start, further = load_checkpoint(tmp_path / "further" / "last.npz").curve
    assert start["iteration"] == 0.0
    assert start["validation/return"] == first["validation/return"]
    assert first["train/distance"] > 2.0 * further["train/distance"]


def over_walk(folder: Path, **options: Any) -> dict[str, Any]:
    """Options of a short run by trial over the shipped low level."""
    low_level = Path("policies/pretrained/walk/low_level")
    shared = {"out": folder, "low_level": low_level, "steps": 300, "mirror": True}
    return {**shared, "validation_episodes": 2, **options}


@pytest.mark.long
@pytest.mark.parametrize("kind", [CourseConfig, pytest.param(JointConfig, marks=pytest.mark.long)])
def test_policies_learn_on_the_course_by_trial(
    tmp_path: Path, kind: type[CourseConfig] | type[JointConfig]
) -> None:
    """In a few iterations, over the shipped low level: to walk on, at least."""
    search = ESConfig(directions=6, top=3, noise=0.1, step=0.1)
    often = {"iterations": 4, "validation_steps": 300, "validate_every": 4, "seed": 1}
    train(kind(**over_walk(tmp_path / "run", es=search, **often)))
    returns = [row["train/return"] for row in load_checkpoint(tmp_path / "run" / "last.npz").curve]
    assert returns[-1] > returns[0] + 0.5 * abs(returns[0])


@pytest.mark.long
def test_a_search_that_makes_things_worse_leaves_its_start_the_best(tmp_path: Path) -> None:
    """Steps far too long spoil the shipped policy: its own weights are what the run returns."""
    start = Path("policies/pretrained/iap/high_level/best.npz")
    search = ESConfig(directions=2, top=1, noise=3.0, step=30.0)
    often = {"iterations": 2, "validation_steps": 2000, "validate_every": 1}
    encoder = Run(start.parent).config["encoder"]
    options = {"es": search, "start": start, "encoder": encoder, **often}
    train(CourseConfig(**over_walk(tmp_path / "run", **options)))
    best, last = (load_checkpoint(tmp_path / "run" / f"{name}.npz") for name in ("best", "last"))
    assert np.array_equal(best.weights, load_checkpoint(start).weights)
    first, *worse = [row["validation/return"] for row in last.curve]
    assert best.best_score == first
    assert max(worse) <= first
    assert worse[-1] < first


@pytest.mark.long
def test_both_levels_are_trained_at_once(tmp_path: Path) -> None:
    low_level = write_run(tmp_path / "low", "follow", gentle_weights())
    quick = dict(steps=50, validation_steps=50, validate_every=1, iterations=1)
    settings = ESConfig(directions=2, top=1, noise=0.15, step=0.1)
    scratch = JointConfig(out=tmp_path / "scratch", es=settings, **quick)
    train(scratch)
    tuned = replace(scratch, out=tmp_path / "tuned", low_level=low_level)
    train(tuned)
    first = load_checkpoint(tmp_path / "scratch" / "last.npz")
    second = load_checkpoint(tmp_path / "tuned" / "last.npz")
    assert first.weights.size == 1786
    assert not first.state["start"][-LOW_LEVEL_WEIGHTS:].any()
    legs = second.state["start"][-LOW_LEVEL_WEIGHTS:]
    np.testing.assert_allclose(legs, gentle_weights(), atol=1e-12)
    moved = np.abs(second.weights - second.state["start"])
    assert (
        0.0 < moved[-LOW_LEVEL_WEIGHTS:].mean() < moved[:-LOW_LEVEL_WEIGHTS].mean()
    )  # the gait is explored with care
    assert flat_weights(trained_high_level(tmp_path / "tuned")).size == 1387
    assert trained_low_level(tmp_path / "tuned").matrix.shape == (19, 20)


def start_training(out: Path, *arguments: str) -> subprocess.Popen[str]:
    script = Path(sys.executable).parent / "pixelgait-train"
    return subprocess.Popen(
        [script, *arguments, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=child_environment(),
    )


def without_times(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in curve]


@pytest.mark.slow
def test_a_run_killed_with_kill_9_resumes_to_the_same_curve(tmp_path: Path) -> None:
    whole = start_training(tmp_path / "whole", "walk", *QUICK)
    assert whole.wait(120) == 0
    cut = start_training(tmp_path / "cut", "walk", *QUICK)
    wait_for((tmp_path / "cut" / "best.npz").exists)  # after two iterations
    workers = children(cut.pid)
    assert len(workers) >= 2
    cut.kill()
    cut.wait()
    wait_for(lambda: not any(map(alive, workers)))  # none stays behind
    assert load_checkpoint(tmp_path / "cut" / "last.npz").iteration < 4
    assert start_training(tmp_path / "cut", "--resume").wait(120) == 0
    first, second = (load_checkpoint(tmp_path / name / "last.npz") for name in ("whole", "cut"))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert without_times(first.curve) == without_times(second.curve)
    assert len(first.curve) == 4


def test_checkpoints_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.create(tmp_path / "run", {})
    weights = flat_weights(make_high_level(Architecture("iap"), 0))
    run.save(Checkpoint.first(weights, Normaliser.empty()))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "last.npz")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run.save(Checkpoint.first(2 * weights, Normaliser.empty()))
    np.testing.assert_array_equal(run.load().weights, weights)
    assert not [p for p in (tmp_path / "run").iterdir() if p.name.startswith(".")]


def test_a_run_keeps_no_copies_of_one_killed_before_its_first_checkpoint(
    tmp_path: Path,
) -> None:
    """Its copy of a low level stood for the weights of the next run in that folder."""
    killed = CourseConfig(low_level=Path("walk"), out=tmp_path)
    Run.create(tmp_path, killed.identity())
    keep_sources(killed)
    run = Run.create(tmp_path, WalkConfig(out=tmp_path).identity())
    run.save(Checkpoint.first(np.zeros(LOW_LEVEL_WEIGHTS), Normaliser.empty()), "best")
    assert find_run(tmp_path, "low_level") == tmp_path


def test_a_run_is_not_overwritten_and_not_resumed_as_another(tmp_path: Path) -> None:
    config = WalkConfig(out=tmp_path, iterations=1, steps=20, validation_steps=20)
    train(config)
    with pytest.raises(UserError, match="already holds a run"):
        train(config)
    with pytest.raises(UserError, match="started with steps = 20, cannot resume with 30"):
        train(WalkConfig(out=tmp_path, resume=True, iterations=2, steps=30))
    (tmp_path / "last.npz").unlink()  # its best is not overwritten
    with pytest.raises(UserError, match=r"holds other files \(best.npz\), choose another"):
        train(config)


def test_a_folder_without_a_task_is_no_run(tmp_path: Path) -> None:
    config = WalkConfig(out=tmp_path, iterations=1, steps=20, validation_steps=20)
    (tmp_path / "config.yaml").write_text('{"model": "mine"}')
    with pytest.raises(UserError, match="names no task, not that of a training run"):
        train(config)
    (tmp_path / "config.yaml").write_text('{"task": "walk"}')  # killed before its first checkpoint
    train(config)
    assert load_checkpoint(tmp_path / "last.npz").iteration == 1


def test_robots_that_are_damped_before_they_have_looked_train_on(tmp_path: Path) -> None:
    short = {"steps": 20, "validation_steps": 20, "validate_every": 1}
    config = WalkConfig(out=tmp_path, iterations=1, faults=("imu-nan:at=0",), **short)
    train(config)
    (row,) = load_checkpoint(tmp_path / "last.npz").curve
    assert (row["validation/falls"], row["validation/images"]) == (1.0, 0.0)
    assert "validation/duration_steps" not in row


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("walk --scene rooms", "--scene"),
        ("follow --low-level x", "--low-level"),
        ("imitate --faults mixed", "--faults"),
        ("imitate --body mujoco", "--body"),  # its robots glide
        ("imitate --es.noise 1", "--es.noise"),
        ("course --curriculum 10", "--low-level"),  # which it needs
    ],
)
def test_a_task_has_only_the_options_it_uses(command: Command, line: str, option: str) -> None:
    done = command("pixelgait-train", *line.split(), "--out", "run")
    assert done.returncode != 0
    assert option in done.stderr
    assert "Traceback" not in done.stderr


def test_every_task_shows_its_own_defaults(command: Command) -> None:
    for task, iterations, steps in (("walk", 200, 500), ("imitate", 10, 3500), ("joint", 60, 3500)):
        words = " ".join(command("pixelgait-train", task, "--help").stdout.replace("│", "").split())
        assert f"Number of iterations. (default: {iterations})" in words
        assert f"Control steps (10 ms) of a training episode. (default: {steps})" in words


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["encoders", "imitate --out new --encoder list"])
def test_encoders_are_listed_with_their_weights(command: Command, asked: str) -> None:
    done = command("pixelgait-train", *asked.split())
    assert done.returncode == 0
    assert ["iap", "64", "1786"] in [line.split() for line in done.stdout.splitlines()]
