"""One way to learn, of which a study compares several, and what is known of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docs.figures.results.figure_store import Figures

LEARNED = 0.9  # of the validation courses


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to learn."""

    study: str
    name: str
    command: str  # that trains it, without --seed and --out
    walks: tuple[str, ...] = ()  # on what it is evaluated on legs, by name
    episodes: int = 100  # of each of them


def images_needed(run: Figures) -> float:
    """How many were shown when so much was learned first; infinite if it never was."""
    pairs = zip(run["images"], run["gliding"], strict=True)
    return next((images for images, rate in pairs if rate >= LEARNED), float("inf"))


def number(images: float) -> str:
    """Of images; `not` if it is infinite."""
    return f"{images:.0f}" if images < float("inf") else "not"


def shortest(times: Sequence[float]) -> str:
    """Of times [ms]; `-` of none."""
    return f"{min(times):.2g}" if times else "-"


def rates(each: Sequence[float]) -> str:
    """Mean of shares in per cent, and each of them; `-` of none."""
    if not each:
        return "-"
    listed = ", ".join(f"{100.0 * rate:.0f}" for rate in each)
    return f"{100.0 * sum(each) / len(each):.0f} % ({listed})"


def walked(runs: Sequence[Figures], course: str, figure: str) -> list[float]:
    """A figure of those runs that walked on such courses."""
    return [run["walking"][course][figure] for run in runs if course in run["walking"]]
