"""Figures of an evaluation: means and rates over episodes, each with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pixelgait.sim.tasks.episode import Episode

Z95 = 1.96  # two-sided 95 % of a normal distribution
Interval = tuple[float | None, float | None]  # None: unknown, from a single episode


def figures_of(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Means with 95 % intervals: Wilson for rates, normal for the others. At least one episode.

    Measures of the task (tracking errors) stand beside the stable ones under their own names; one
    that no episode has is left out, as is success where there is nothing to reach.
    """
    n = len(episodes)
    rates = {
        **_successes(episodes),
        "contact_free_rate": sum(e.contacts.count == 0 for e in episodes),
        "fall_rate": sum(e.fell for e in episodes),
    }
    values = {
        "distance_m": [e.distance_m for e in episodes],
        "return_m": [e.return_m for e in episodes],
        "images_per_episode": [float(e.images) for e in episodes],
        "contacts_per_episode": [float(e.contacts.count) for e in episodes],
        "contact_impulse_ns": [e.contacts.impulse_ns for e in episodes],
    }
    for name in dict.fromkeys(name for e in episodes for name in e.metrics):
        values[name] = [e.metrics[name] for e in episodes if name in e.metrics]
    intervals: dict[str, Interval] = {name: wilson(count, n) for name, count in rates.items()}
    intervals |= {name: _normal(series) for name, series in values.items()}
    return {
        **{name: count / n for name, count in rates.items()},
        **{name: float(np.mean(series)) for name, series in values.items()},
        "interval_95": {name: list(interval) for name, interval in intervals.items()},
        "episodes": [_row(episode) for episode in episodes],
    }


def _successes(episodes: Sequence[Episode]) -> dict[str, int]:
    """How many succeeded, and how many cleanly."""
    if all(e.success is None for e in episodes):
        return {}
    return {
        "success_rate": sum(bool(e.success) for e in episodes),
        "clean_success_rate": sum(bool(e.clean_success) for e in episodes),
    }


def wilson(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate: `count` of `n`, at least one."""
    rate, z2 = count / n, Z95 * Z95
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def format_figures(figures: dict[str, Any]) -> str:
    """A line per figure, for a terminal."""
    lines = []
    for name, interval in figures["interval_95"].items():
        low, high = ("?" if end is None else f"{end:.2f}" for end in interval)
        lines.append(f"{name:<20}{figures[name]:8.2f}   [{low}, {high}]")
    return "\n".join(lines)


def _normal(series: Sequence[float]) -> Interval:
    """95 % interval of a mean, by the normal distribution."""
    if len(series) < 2:
        return None, None
    half = Z95 * float(np.std(series, ddof=1)) / math.sqrt(len(series))
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
        "contact_impulse_ns": e.contacts.impulse_ns,
        "images": e.images,
        "steps": e.steps,
    }
