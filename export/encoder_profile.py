"""pixelgait-profile --encoders: latency, weights and memory of every encoder, in one run."""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray
from tqdm import tqdm

from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.latency import machine
from pixelgait.robot.profile import time_graph
from pixelgait.robot.spec import A1
from pixelgait.sim.camera import Camera
from pixelgait.sim.obstacle_course import ObstacleCourse
from pixelgait.sim.pybullet_body import PyBulletBody

SIZES = ((32, 32), (64, 64), (128, 128), (240, 320))  # (height, width)
PATCHES = (1, 2, 4, 8, 16)
# Attention over all pairs of n patches needs matrices of n^2 floats: one for brute force (19200
# patches: 1.5 GB), one per head for the transformers. IAP never forms it.
MOST_PATCHES = {"iap": 76_800, "brute-force": 19_200}
MOST_PATCHES_WITH_HEADS = 4800
FRAMES = 8


@dataclass(frozen=True)
class EncoderProfileConfig:
    """Time the high levels of all encoders in onnxruntime, on one thread, untrained.

    Images are camera frames of an obstacle course. Every graph runs in a process of its own;
    its memory is what that process needs at most, beyond onnxruntime itself.
    """

    encoders: bool = True
    """What this command is called with."""
    encoder: tuple[str, ...] = ()
    """Only these; all if none is named."""
    size: tuple[int, ...] = ()
    """Only images of these heights (32, 64, 128, 240)."""
    seconds: float = 1.0
    """Longest time for one graph, after warming up."""
    out: Path = Path("runs/encoders")
    """Folder for encoders.json, encoders.md and encoders.png."""


@dataclass(frozen=True, slots=True)
class Row:
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


def main() -> None:
    """Console entry point."""
    run_command(lambda: profile_encoders(tyro.cli(EncoderProfileConfig, prog="pixelgait-profile")))


def profile_encoders(config: EncoderProfileConfig) -> list[Row]:
    """Export, measure, print a table and write it with its plot.

    Raises:
        UserError: there is no such encoder, or no time to measure.
    """
    from pixelgait.export.encoder_plot import plot
    from pixelgait.policies.encoders import ENCODERS

    unknown = [name for name in config.encoder if name not in ENCODERS]
    if unknown:
        raise UserError(f"unknown encoder '{unknown[0]}', choose from {', '.join(ENCODERS)}")
    if config.seconds <= 0:
        raise UserError(f"--seconds is {config.seconds}, needs more than 0")
    sizes = [size for size in SIZES if not config.size or size[0] in config.size]
    names = config.encoder or tuple(ENCODERS)
    jobs = [
        (name, size, patch)
        for name in names
        for size in sizes
        for patch in (PATCHES if name != "cnn" else PATCHES[:1])  # which has none
    ]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, size, patch in tqdm(jobs, unit="graph"):
            row = measure(name, size, patch, Path(folder), config.seconds)
            if row is not None:
                rows.append(row)
    table = format_rows(rows)
    print(table)
    report = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    write_atomic(config.out / "encoders.json", json_bytes(report))
    write_atomic(config.out / "encoders.md", table.encode())
    plot(config.out / "encoders.png", rows)
    return rows


def measure(
    name: str, size: tuple[int, int], patch: int, folder: Path, seconds: float
) -> Row | None:
    """One encoder at one size; None if it has no such patches, or too many to attend to."""
    from pixelgait.export.onnx_graphs import high_level_graph
    from pixelgait.policies.high_level import HighLevel

    height, width = size
    options: dict[str, Any] = {} if name == "cnn" else {"patch": patch}
    patches = (height // patch) * (width // patch)
    family = "iap" if name.startswith("iap") else name
    if name != "cnn" and patches > MOST_PATCHES.get(family, MOST_PATCHES_WITH_HEADS):
        return None
    if family in MOST_PATCHES:
        options |= {"stride": patch, "selected": min(64, patches)}
    try:
        high_level = HighLevel(name, height=height, width=width, **options)
    except ValueError:
        return None
    graph = folder / "graph.onnx"
    graph.write_bytes(high_level_graph(high_level, (height, width, 3)).SerializeToString())
    timed = _apart(time_graph, graph, _frames(size), seconds)
    if timed is None:
        return None
    times, memory_mb = timed
    p50, p95, p99 = np.percentile(times, (50, 95, 99))
    return Row(
        encoder=name,
        height=height,
        width=width,
        patch=None if name == "cnn" else patch,
        patches=None if name == "cnn" else patches,
        weights=sum(p.numel() for p in high_level.parameters()),
        p50_ms=float(p50),
        p95_ms=float(p95),
        p99_ms=float(p99),
        memory_mb=memory_mb,
        runs=len(times),
    )


def _apart(function: Any, *arguments: Any) -> Any:
    """The function's result from a process of its own; None if that was killed for its memory."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            return None


@cache
def _frames(size: tuple[int, int]) -> NDArray[np.uint8]:
    """A few camera frames (n, H, W, 3) from different starts on the obstacle course."""
    height, width = size
    body = PyBulletBody(A1, ObstacleCourse(0.5), Camera(A1.camera, width, height))
    frames = [body.reset(9000 + i).image().pixels for i in range(FRAMES)]
    body.close()
    return np.array(frames)


def format_rows(rows: list[Row]) -> str:
    """The table as Markdown: one line per encoder and image size, p50 [ms] per patch size."""
    lines = [
        "| encoder | image | weights | " + " | ".join(f"patch {p}" for p in PATCHES) + " |",
        "|---|---|---|" + "---|" * len(PATCHES),
    ]
    groups: dict[tuple[str, int, int], dict[int | None, Row]] = {}
    for row in rows:
        groups.setdefault((row.encoder, row.height, row.width), {})[row.patch] = row
    for (name, height, width), group in groups.items():
        cells = [_cell(group.get(patch, group.get(None))) for patch in PATCHES]
        if None in group:  # no patches: one figure
            cells[1:] = [""] * (len(PATCHES) - 1)
        weights = [row.weights for row in group.values()]
        span = f"{min(weights)}" + (f" to {max(weights)}" if len(set(weights)) > 1 else "")
        lines.append(f"| {name} | {height} x {width} | {span} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row | None) -> str:
    """p50 and p99 [ms] and memory."""
    if row is None:
        return "-"
    return f"{row.p50_ms:.2f} ({row.p99_ms:.2f}), {row.memory_mb:.0f} MB"


if __name__ == "__main__":
    main()
