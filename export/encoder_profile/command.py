"""pixelgait-encoders: latency, number of weights and memory of all encoders."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.export.encoder_profile.graph_timing import time_apart
from pixelgait.export.encoder_profile.report import (
    EncoderRow,
    encoder_times,
    findings,
    format_machine,
    format_rows,
    summary,
)
from pixelgait.export.markdown_sections import require_markers, write_between
from pixelgait.robot.cli.options import Range, check_outputs, parse
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


if __name__ == "__main__":
    main()
