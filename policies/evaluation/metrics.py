"""Evaluation metrics: means and rates over episodes, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pixelgait.sim.tasks.episode import Episode

Z95 = 1.96  # two-sided 95 % of a normal distribution
# Student's t of 1, 2, ... degrees of freedom; beyond, the normal is 4 % narrower at most.
T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045),
)
Interval = tuple[float | None, float | None]  # None: unknown, from a single episode


def figures_of(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Means with 95 % intervals of at least one episode: Wilson's for rates, else Student's.

    Metrics of the task have their own names, which end in `_rate` for rates. A metric counts the
    episodes that have it: success, for example, those with a goal.
    """
    rates: dict[str, Sequence[float]] = {
        **_successes(episodes),
        "contact_free_rate": [e.contacts.count == 0 for e in episodes],
        "fall_rate": [e.fell for e in episodes],
    }
    values: dict[str, Sequence[float]] = {
        "distance_m": [e.distance_m for e in episodes],
        "return_m": [e.return_m for e in episodes],
        "images_per_episode": [e.images for e in episodes],
        "contacts_per_episode": [e.contacts.count for e in episodes],
        "contact_impulse_n_s": [e.contacts.impulse_n_s for e in episodes],
    }
    for name in dict.fromkeys(name for e in episodes for name in e.metrics):
        series = [e.metrics[name] for e in episodes if name in e.metrics]
        (rates if name.endswith("_rate") else values)[name] = series
    intervals: dict[str, Interval] = {
        **{name: wilson(round(sum(series)), len(series)) for name, series in rates.items()},
        **{name: _student(series) for name, series in values.items()},
    }
    return {
        **{name: float(np.mean(series)) for name, series in (rates | values).items()},
        "interval_95": {name: list(interval) for name, interval in intervals.items()},
        "episodes": [_row(episode) for episode in episodes],
    }


def _successes(episodes: Sequence[Episode]) -> dict[str, list[float]]:
    """Success and collision-free success of the episodes with a goal."""
    with_goal = [e for e in episodes if e.success is not None]
    if not with_goal:
        return {}
    return {
        "success_rate": [bool(e.success) for e in with_goal],
        "collision_free_rate": [bool(e.collision_free_success) for e in with_goal],
    }


def wilson(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate: `count` of `n` > 0."""
    rate, z2 = count / n, Z95 * Z95
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def format_figures(figures: dict[str, Any]) -> str:
    """A line for each metric."""
    lines = []
    for name, interval in figures["interval_95"].items():
        low, high = ("?" if end is None else f"{end:.2f}" for end in interval)
        lines.append(f"{name:<20}{figures[name]:8.2f}   [{low}, {high}]")
    return "\n".join(lines)


def _student(series: Sequence[float]) -> Interval:
    """95 % interval of a mean, by Student's distribution or, of many values, the normal one."""
    if len(series) < 2:
        return None, None
    width = T95[len(series) - 2] if len(series) - 2 < len(T95) else Z95
    half = width * float(np.std(series, ddof=1)) / math.sqrt(len(series))
    mean = float(np.mean(series))
    return mean - half, mean + half


def _row(e: Episode) -> dict[str, Any]:
    return {
        "seed": e.seed,
        "success": None if e.success is None else bool(e.success),
        "distance_m": e.distance_m,
        "return_m": e.return_m,
        "fell": bool(e.fell),
        "fault": e.fault,
        "contacts": e.contacts.count,
        "contact_s": round(e.contacts.time_s, 3),
        "contact_impulse_n_s": e.contacts.impulse_n_s,
        "images": e.images,
        "steps": e.steps,
    }
