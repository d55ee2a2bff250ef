"""Episodes/s of evaluation, by who does them."""

from __future__ import annotations

import time
from dataclasses import replace

from pixelgait.policies.evaluation.evaluate import run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.spec import A1

WALKS = EvalConfig("walk", task="follow", scene="flat", seconds=5.0)
SKIPPED = 0.25  # share of the episodes in which workers start and fill up


def episodes_per_s(episodes: int, workers: int, cluster: str | None = None) -> float:
    """Of walks of 5 s, once all workers are at work.

    Raises:
        UserError: Ray is not installed, or there is no such cluster.
    """
    asked = replace(WALKS, episodes=episodes, workers=workers, cluster=cluster)
    done = [time.monotonic() for _ in run_episodes(asked)]
    first = int(SKIPPED * episodes)
    return (episodes - 1 - first) / (done[-1] - done[first])


def cpus(cluster: str) -> int:
    """Of a cluster: as many workers are its.

    Raises:
        UserError: Ray is not installed, or there is no such cluster.
    """
    asked = replace(WALKS, cluster=cluster)
    with asked.open_pool(_nothing, asked, A1.name) as pool:
        return pool.capacity


def _nothing(_: EvalConfig) -> None:
    """No worker has to begin."""
