"""Latency over patches for every encoder, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from pixelgait.export.reports.encoder_report import SUMMARY, EncoderRow, slope


def plot(path: Path, rows: Sequence[EncoderRow]) -> None:
    """One line per encoder and patch size of the summary, with its slope."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
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
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
