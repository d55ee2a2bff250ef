"""Speed figures (`make speed`): time to learn, and episodes/s, by number of workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from docs.figures.speed.learning import LESSONS, Learned, Lesson, learn
from pixelgait.policies.evaluation.evaluate import run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.cli.options import Count, Range, parse
from pixelgait.robot.cli.provenance import head, settings
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, require_writable, write_atomic
from pixelgait.robot.runtime.latency import machine
from pixelgait.robot.spec import A1

FEWEST_EPISODES = 8  # of which the first two only fill the workers
WALKS = EvalConfig("walk", task="follow", scene="flat", seconds=5.0)
SKIPPED = 0.25  # share of the episodes during which workers start


@dataclass(frozen=True)
class SpeedConfig:
    """Measure the time to learn with two workers, one, and a Ray cluster.

    Also measures episodes/s with 1, 2 and 4 workers. The machine must be idle.
    """

    seeds: Count = 10
    """Seeds of every lesson, from 0 on."""
    lessons: tuple[str, ...] = tuple(LESSONS)
    """Lessons: walk from zero, follow from zero, each also in MuJoCo, iap, rover, navigator, and
    follow on another robot from the A1's weights. All by default."""
    workers: Annotated[tuple[int, ...], Range(1, 256)] = (1, 2, 4)
    """Numbers of workers to compare by episodes/s; may be empty."""
    episodes: Annotated[int, Range(FEWEST_EPISODES, 10**6)] = 200
    cluster: str | None = None
    """Also on the Ray cluster that this machine is part of: auto or HOST:PORT."""
    json: Path | None = None
    """Write the figures to this file."""


def main() -> None:
    """Command line."""
    run_command(lambda: print_report(parse(SpeedConfig, "make speed")))


def print_report(config: SpeedConfig) -> None:
    """Measure, print and save the figures.

    Raises:
        UserError: if a lesson or the cluster is unknown, or the figures cannot be written.
    """
    if not set(config.lessons) <= set(LESSONS):
        raise UserError(f"--lessons: choose from {', '.join(LESSONS)}")
    if config.json is not None:
        require_writable(config.json, "json")
    hands = {"2 workers": ("--workers", "2"), "1 worker": ("--workers", "1")}
    if config.cluster is not None:
        hands["Ray"] = ("--cluster", config.cluster)
    learned = {
        name: {
            who: _learn(LESSONS[name], config.seeds, name, who, how) for who, how in hands.items()
        }
        for name in config.lessons
    }
    rates = _rates(config)
    if config.json is not None:
        about = {**head("make speed"), "settings": settings(config, "json")}
        figures = {**_figures(learned), "episodes_per_s": rates, "machine": machine()}
        write_atomic(config.json, json_bytes({**about, **figures}))
        print(f"wrote {config.json}")


def _learn(lesson: Lesson, seeds: int, name: str, who: str, how: Sequence[str]) -> list[Learned]:
    """Time a lesson with every seed, and print the result."""
    went = [learn(lesson, seed, how) for seed in range(seeds)]
    took = [each.seconds if each.seconds is not None else float("inf") for each in went]
    lost = [each.overhead for each in went if each.overhead is not None]
    overhead = f", overhead {median(lost):.1%} ({min(lost):.1%} to {max(lost):.1%})" if lost else ""
    print(
        f"{name}, {who}: median {median(took):.0f} s of {seeds} seeds "
        f"({min(took):.0f} to {max(took):.0f}; {lesson.enough}){overhead}",
        flush=True,
    )
    return went


def _figures(learned: dict[str, dict[str, list[Learned]]]) -> dict[str, Any]:
    """Figures for JSON, by lesson and workers; null: beyond the limit, or no cluster."""
    return {
        "learning_s": {
            name: {who: [each.seconds for each in went] for who, went in hands.items()}
            for name, hands in learned.items()
        },
        "overhead": {
            name: {who: [each.overhead for each in went] for who, went in hands.items()}
            for name, hands in learned.items()
        },
    }


def _rates(config: SpeedConfig) -> list[dict[str, Any]]:
    """Episodes/s by number of workers, and the parallel efficiency."""
    hands: list[tuple[int, str | None]] = [(workers, None) for workers in config.workers]
    if config.cluster is not None:
        hands.append((cpus(config.cluster), config.cluster))
    rows: list[dict[str, Any]] = []
    for workers, cluster in hands:
        rate = episodes_per_s(config.episodes, workers, cluster)
        rows.append({"workers": workers, "cluster": cluster, "episodes_per_s": rate})
        alone = next((each["episodes_per_s"] for each in rows if each["workers"] == 1), None)
        share = f", {rate / (workers * alone):.0%} of {workers} times one" if alone else ""
        who = f"{workers} worker{'s' * (workers > 1)}{' of Ray' if cluster else ''}"
        print(f"{who}: {rate:.1f} episodes/s{share}", flush=True)
    return rows


def episodes_per_s(episodes: int, workers: int, cluster: str | None = None) -> float:
    """Episodes/s of walks of 5 s, after all workers have started.

    Raises:
        UserError: if Ray is not installed, or there is no such cluster.
    """
    asked = replace(WALKS, episodes=episodes, workers=workers, cluster=cluster)
    done = [time.monotonic() for _ in run_episodes(asked)]
    first = int(SKIPPED * episodes)
    return (episodes - 1 - first) / (done[-1] - done[first])


def cpus(cluster: str) -> int:
    """Number of workers of a cluster.

    Raises:
        UserError: if Ray is not installed, or there is no such cluster.
    """
    asked = replace(WALKS, cluster=cluster)
    with asked.open_pool(_nothing, asked, A1) as pool:
        return pool.capacity


def _nothing(_: EvalConfig) -> None:
    """Initialise nothing in a worker."""


if __name__ == "__main__":
    main()
