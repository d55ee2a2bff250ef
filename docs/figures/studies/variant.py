"""Variants of a learning study, and figures of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docs.figures.results.figure_store import Figures

LEARNED = 0.9  # of the validation courses


@dataclass(frozen=True, slots=True)
class Variant:
    """A training command and the courses of its evaluation."""

    study: str
    name: str
    command: str  # of the training, without --seed and --out
    walks: tuple[str, ...] = ()  # courses of the evaluation in physics, by name
    episodes: int = 100  # per kind of course


def images_needed(run: Figures) -> float:
    """Images until LEARNED was reached first; infinite if never."""
    pairs = zip(run["images"], run["gliding"], strict=True)
    return next((images for images, rate in pairs if rate >= LEARNED), float("inf"))


def number(images: float) -> str:
    """A number of images; `not` if it is infinite."""
    return f"{images:.0f}" if images < float("inf") else "not"


def shortest(times: Sequence[float]) -> str:
    """Shortest of times [ms]; `-` if there are none."""
    return f"{min(times):.2g}" if times else "-"


def rates(each: Sequence[float]) -> str:
    """Mean of shares in per cent, and each of them; `-` if there are none."""
    if not each:
        return "-"
    listed = ", ".join(f"{100.0 * rate:.0f}" for rate in each)
    return f"{100.0 * sum(each) / len(each):.0f} % ({listed})"


def walked(runs: Sequence[Figures], course: str, figure: str) -> list[float]:
    """A figure of all runs that were evaluated on such courses."""
    return [run["walking"][course][figure] for run in runs if course in run["walking"]]
