"""Report of pixelgait-encoders: tables, growth with image size, ratios, plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.policies.runs.curve_picture import picture_of
from pixelgait.robot.files import write_atomic

LARGE = 1000  # patches: below, onnxruntime's overhead hides the growth
# Rows of the summary, with patches that suit each encoder. Patch 2 gives a ViT as many tokens as a
# SiT of patch 8 has vertices, which pools once and attends to pixels within its patches.
SUMMARY = (
    *((name, 1) for name in ("iap", "iap-favor", "iap-trig", "iap-hybrid", "brute-force")),
    ("attention-agent", None),
    ("cnn", None),
    ("strided", None),
    *((name, 8) for name in ("sit", "sit-star", "set", "siet", "vit")),
    ("vit", 2),
    *((name, 4) for name in ("ge-vit", "gsa-net")),
    *((name, 8) for name in ("latformer", "attention-neuron")),
)


@dataclass(frozen=True, slots=True)
class EncoderRow:
    """One encoder on one image size with one patch size; times [ms], memory [MB]."""

    encoder: str
    height: int
    width: int
    patch: int | None
    patches: int | None
    weights: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    memory_mb: float
    runs: int


def format_rows(rows: Sequence[EncoderRow]) -> str:
    """All rows as Markdown."""
    lines = [
        "| encoder | image | patch | patches | weights | p50 ms | p95 ms | p99 ms | MB | runs |",
        "|---" * 10 + "|",
    ]
    for row in rows:
        times = " | ".join(f"{t:.3f}" for t in (row.p50_ms, row.p95_ms, row.p99_ms))
        lines.append(
            f"| {row.encoder} | {row.height} x {row.width} | {row.patch or '-'} "
            f"| {row.patches or '-'} | {row.weights} | {times} | {row.memory_mb:.0f} | {row.runs} |"
        )
    return "\n".join(lines)


def summary(rows: Sequence[EncoderRow]) -> list[str]:
    """Summary as Markdown: p50 [ms] by image size, for one or two patch sizes per encoder."""
    sizes = list(dict.fromkeys((row.height, row.width) for row in rows))
    heads = [f"{height} x {width}" for height, width in sizes]
    lines = [
        f"| encoder | patch | weights | {' | '.join(heads)} |",
        "|---" * (3 + len(sizes)) + "|",
    ]
    for name, patch in SUMMARY:
        group = {(r.height, r.width): r for r in rows if (r.encoder, r.patch) == (name, patch)}
        if not group:
            continue
        weights = [row.weights for row in group.values()]
        span = f"{min(weights)}" + (f" to {max(weights)}" if len(set(weights)) > 1 else "")
        times = [f"{group[size].p50_ms:.3g}" if size in group else "-" for size in sizes]
        lines.append(f"| {name} | {patch or '-'} | {span} | {' | '.join(times)} |")
    return lines


def findings(rows: Sequence[EncoderRow]) -> list[str]:
    """Growth of IAP's time, and ratios of encoders' times on the same image."""
    found = []
    growth = [row for row in rows if row.encoder == "iap" and row.patch == 1]
    if len(growth) > 1:
        counts, times = [row.patches or 0 for row in growth], [row.p50_ms for row in growth]
        found.append(
            f"time of IAP grows with L^{slope(counts, times):.2f} from L = {min(counts)} to "
            f"{max(counts)} patches"
        )
    pairs = (
        (("brute-force", 2), ("iap", 2), (240, 320)),  # L = 19200
        (("iap-hybrid", 1), ("iap", 1), (32, 32)),
        (("iap-hybrid", 1), ("iap", 1), (128, 128)),
        (("sit", 8), ("vit", 8), (32, 32)),
        (("sit", 8), ("vit", 8), (64, 64)),
        (("sit", 8), ("vit", 8), (128, 128)),
        (("vit", 2), ("sit", 8), (32, 32)),
        (("vit", 2), ("sit", 8), (64, 64)),
        (("vit", 2), ("sit", 8), (128, 128)),
    )
    by_key = {(row.encoder, row.patch, row.height, row.width): row.p50_ms for row in rows}
    for (slow, slow_patch), (fast, fast_patch), size in pairs:
        one, other = by_key.get((slow, slow_patch, *size)), by_key.get((fast, fast_patch, *size))
        if one and other:
            found.append(
                f"{slow}, patch {slow_patch}, takes {one / other:.1f} times as long as {fast}, "
                f"patch {fast_patch}, at {size[0]} x {size[1]}"
            )
    return found


def format_machine(machine: dict[str, Any]) -> str:
    """The machine of a measurement, in a line."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, onnxruntime {machine['onnxruntime']}, "
        "one thread"
    )


def slope(counts: Sequence[int], times: Sequence[float]) -> float:
    """Exponent of the growth of time with many patches (least squares)."""
    pairs: Iterable[tuple[int, float]] = list(zip(counts, times, strict=True))
    large = [(n, t) for n, t in pairs if n >= LARGE]
    x, y = np.log(np.array(large if len(large) > 1 else list(pairs)[-2:])).T
    return float(np.polyfit(x, y, 1)[0])


def encoder_times(path: Path, rows: Sequence[EncoderRow]) -> None:
    """Latency over pixels on logarithmic axes: one line per encoder and patch size of the summary,
    with its slope."""
    import matplotlib as mpl
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
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
