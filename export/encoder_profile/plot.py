"""Plot of encoder latency over image size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from pixelgait.export.encoder_profile.report import SUMMARY, EncoderRow, slope
from pixelgait.policies.runs.curve_picture import picture_of
from pixelgait.robot.files import write_atomic


def encoder_times(path: Path, rows: Sequence[EncoderRow]) -> None:
    """Latency over pixels on logarithmic axes: one line per encoder and patch size of the summary,
    with its slope."""
    figure, axes = plt.subplots(figsize=(10, 5), layout="constrained")
    axes.set_prop_cycle(color=mpl.color_sequences["tab20"])
    for name, patch in SUMMARY:
        found = [row for row in rows if (row.encoder, row.patch) == (name, patch)]
        found.sort(key=lambda row: row.height * row.width)
        pixels = [row.height * row.width for row in found]
        times = [row.p50_ms for row in found]
        label = name if patch is None else f"{name}, patch {patch}"
        if len(found) > 1:
            label += f" (slope {slope(pixels, times):.2f})"
        axes.plot(pixels, times, "o-", ms=4, label=label)
    axes.set(
        xscale="log", yscale="log", xlabel="pixels of the image", ylabel="p50 [ms], one thread"
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, picture_of(figure, dpi=100))
