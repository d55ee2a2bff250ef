"""pixelgait-encoders: latency, number of weights and memory of all encoders."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.export.encoder_profile.graph_timing import time_apart
from pixelgait.export.markdown_sections import require_markers, write_between
from pixelgait.policies.runs.curve_picture import picture_of
from pixelgait.robot.cli.options import Range, check_outputs, parse, require_libraries
from pixelgait.robot.cli.provenance import head, settings
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.runtime.latency import machine
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.workers.process_pool import WorkerPool
from pixelgait.sim.world.seeds import VALIDATION

SIZES = ((32, 32), (64, 64), (128, 128), (240, 320))  # (height, width)
PATCHES = (1, 2, 4, 8, 16)
# Attention over all pairs of n patches takes time as n^2, and in transformers memory as well: they
# form a matrix per head, brute force forms its matrix in blocks. IAP forms none.
MOST_PATCHES = {"iap": 76_800, "brute-force": 19_200}
MOST_PATCHES_WITH_HEADS = 4800
FRAMES = 8
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


@dataclass(frozen=True)
class EncoderProfileConfig:
    """Time the untrained high levels of all encoders in onnxruntime, on one thread.

    Images are camera frames of an obstacle course. All graphs are exported first, on all cores.
    Then each runs alone in a process of its own; memory is that process's peak beyond onnxruntime.
    """

    encoder: tuple[str, ...] = ()
    """Only these encoders; all by default."""
    size: Annotated[tuple[int, ...], Range(1, 10_000)] = ()
    """Only images of these heights (32, 64, 128, 240)."""
    seconds: Annotated[float, Range(0.001, 3600.0)] = 0.5
    """Longest time for one graph after warm-up [s]."""
    out: Path = Path("runs/encoders")
    """Folder for encoders.json, encoders.md and encoders.png."""
    page: Path | None = None
    """Page of the documentation that gets the summary, between its markers."""


class Measurement(NamedTuple):
    """A graph to measure."""

    encoder: str
    height: int
    width: int
    patch: int | None  # [pixels]; None: no patches, or those of the publication

    @property
    def patches(self) -> int | None:
        """Number of patches."""
        return self.patch and (self.height // self.patch) * (self.width // self.patch)

    @property
    def graph(self) -> str:
        """Name of the graph's file."""
        return f"{self.encoder}-{self.height}x{self.width}-{self.patch}.onnx"


def main() -> None:
    """Console entry point."""
    run_command(lambda: profile_encoders(parse(EncoderProfileConfig, "pixelgait-encoders")))


def profile_encoders(config: EncoderProfileConfig) -> list[EncoderRow]:
    """Export, measure, print the findings and write them with a plot.

    Raises:
        UserError: if an encoder is unknown, the page has no markers, a file cannot be written, or
            no encoder takes images of that size.
    """
    require_libraries("matplotlib")  # needed last, after minutes of measuring
    if config.page is not None:
        require_markers(config.page, "encoders", "encoders")
    data, table, picture = (config.out / f"encoders.{kind}" for kind in ("json", "md", "png"))
    check_outputs(*(("out", path) for path in (data, table, picture)), ("page", config.page))
    rows = _measure_all(_jobs(config), config.seconds)
    if not rows:
        raise UserError("nothing was measured: none of these encoders sees images of such a size")
    where = machine()
    found = [f"Measured on {format_machine(where)}", *findings(rows)]
    print("\n".join([format_rows(rows), "", *summary(rows), "", *found]))
    report = {
        **head("pixelgait-encoders"),
        "settings": settings(config, "out", "page"),
        "machine": where,
        "findings": found,
        "rows": [asdict(row) for row in rows],
    }
    write_atomic(data, json_bytes(report))
    write_atomic(table, format_rows(rows).encode())
    encoder_times(picture, rows)
    written = [data, table, picture]
    if config.page is not None:
        lines = [*summary(rows), "", f"{found[0]}:", "", *(f"* {each}" for each in found[1:])]
        write_between(config.page, "encoders", "encoders", lines)
        written.append(config.page)
    print("\n".join(f"wrote {path}" for path in written))
    return rows


def _jobs(config: EncoderProfileConfig) -> list[Measurement]:
    """Graphs to measure.

    Raises:
        UserError: if an encoder or size is unknown.
    """
    from pixelgait.policies.encoder_registry import ENCODERS

    for name in config.encoder:
        if name not in ENCODERS:
            raise UserError(f"unknown encoder '{name}', choose from {', '.join(ENCODERS)}")
    heights = [height for height, _ in SIZES]
    for height in config.size:
        if height not in heights:
            raise UserError(f"no images of height {height}, choose from {heights}")
    return [
        Measurement(name, height, width, patch)
        for name in config.encoder or tuple(ENCODERS)
        for height, width in SIZES
        if not config.size or height in config.size
        for patch in _patches(ENCODERS[name])
    ]


def _patches(encoder: Callable[..., Any]) -> tuple[int | None, ...]:
    """Patch sizes to measure; None: no patches, or those of the publication."""
    patch = signature(encoder).parameters.get("patch")
    return PATCHES if patch and patch.default in PATCHES else (None,)


def _measure_all(jobs: list[Measurement], seconds: float) -> list[EncoderRow]:
    """Rows of all possible jobs; prints why others are left out."""
    from tqdm import tqdm

    refused: Counter[str] = Counter()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with WorkerPool(os.cpu_count() or 1, _start_export, Path(folder)) as pool:
            weights = list(tqdm(pool.imap(_export, jobs), "export", len(jobs), unit="graph"))
        for job, count in tqdm(list(zip(jobs, weights, strict=True)), "measure", unit="graph"):
            if isinstance(count, str):
                refused[f"{job.encoder}: {count}"] += 1
            elif (row := _measure(job, count, Path(folder), seconds)) is None:
                refused[f"{job.encoder}: killed for its memory"] += 1
            else:
                rows.append(row)
    for reason, number in refused.items():
        print(f"left out {number} of {reason}")
    return rows


_folder: Path


def _start_export(folder: Path) -> None:
    """Initialise a worker process: folder of the graphs, one thread."""
    global _folder
    import torch

    torch.set_num_threads(1)
    _folder = folder


def _export(job: Measurement) -> int | str:
    """Write the job's graph; returns its number of weights, or why there is no graph."""
    from pixelgait.export.onnx_graphs import high_level_graph
    from pixelgait.policies.high_level import HighLevelNetwork

    family = "iap" if job.encoder.startswith("iap") else job.encoder
    options: dict[str, Any] = {}
    if job.patch is not None and job.patches is not None:
        most = MOST_PATCHES.get(family, MOST_PATCHES_WITH_HEADS)
        if job.patches > most:
            return f"attention to more than {most} patches needs too much memory"
        options["patch"] = job.patch
        if family in MOST_PATCHES:
            options |= {"stride": job.patch, "selected": min(64, job.patches)}
    try:
        high_level = HighLevelNetwork(job.encoder, height=job.height, width=job.width, **options)
    except ValueError as error:
        return str(error)
    graph = high_level_graph(high_level)
    (_folder / job.graph).write_bytes(graph.SerializeToString())
    return sum(p.numel() for p in high_level.parameters())


def _measure(job: Measurement, weights: int, folder: Path, seconds: float) -> EncoderRow | None:
    """Measure one graph in a process of its own; None if that was killed for its memory."""
    timed = time_apart(folder / job.graph, _frames(job.height, job.width), seconds)
    if timed is None:
        return None
    times, memory_mb = timed
    p50, p95, p99 = (float(t) for t in np.percentile(times, (50, 95, 99)))
    return EncoderRow(*job, job.patches, weights, p50, p95, p99, memory_mb, len(times))


@cache
def _frames(height: int, width: int) -> NDArray[np.uint8]:
    """A few camera frames (n, H, W, 3) from different starts on the obstacle course."""
    from pixelgait.sim.engines.pybullet_body import PyBulletBody

    body = PyBulletBody(A1, ObstacleCourse(0.5), camera=Camera(A1.camera, width, height))
    frames = [body.reset(seed).image().pixels for seed in VALIDATION[:FRAMES]]
    body.close()
    return np.array(frames)


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


if __name__ == "__main__":
    main()
