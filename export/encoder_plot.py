"""Latency over patches for every encoder, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from pixelgait.export.encoder_report import Row, slope


def plot(path: Path, rows: Sequence[Row]) -> None:
    """One line per encoder with patches: fastest time of every patch count, and its slope."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for name in dict.fromkeys(row.encoder for row in rows if row.patches is not None):
        best: dict[int, float] = {}
        for row in rows:
            if row.encoder == name and row.patches is not None:
                best[row.patches] = min(row.p50_ms, best.get(row.patches, np.inf))
        counts = sorted(best)
        times = [best[count] for count in counts]
        label = f"{name} (L^{slope(counts, times):.2f})" if len(counts) > 1 else name
        axes.plot(counts, times, "o-", ms=4, label=label)
    axes.set(xscale="log", yscale="log", xlabel="patches L", ylabel="p50 [ms], one thread")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
