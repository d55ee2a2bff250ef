"""Learning curve of a run, plotted."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pixelgait.robot.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = "curve.png"
Row = dict[str, float]


def draw_curve(path: Path, curve: Sequence[Row], title: str = "") -> None:
    """Plot the return over iterations: training above, validation episodes below."""
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    figure = Figure(figsize=(7, 4.5), dpi=110, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    for axes, name, label, style in (
        (upper, "train/return", "training, mean", "-"),
        (upper, "train/best_return", "best candidate", "-"),
        (lower, "validation/return", "validation, mean", "o-g"),
    ):
        rows = [row for row in curve if name in row]
        if rows:
            iterations, values = ([row[key] for row in rows] for key in ("iteration", name))
            axes.plot(iterations, values, style, label=label)
    upper.set(title=title)
    lower.set(xlabel="iteration")
    for axes in (upper, lower):
        axes.set(ylabel="return per episode")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(loc="lower right")
    write_atomic(path, picture_of(figure))


def picture_of(figure: Figure, dpi: float | Literal["figure"] = "figure") -> bytes:
    """A figure as PNG, by default at its own resolution."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi)
    return picture.getvalue()
