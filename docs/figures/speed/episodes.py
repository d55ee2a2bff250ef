"""Speed of evaluation: episodes/s by number of workers."""

from __future__ import annotations

import time
from dataclasses import replace

from pixelgait.policies.evaluation.evaluate import run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.spec import A1

WALKS = EvalConfig("walk", task="follow", scene="flat", seconds=5.0)
SKIPPED = 0.25  # share of the episodes during which workers start


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
