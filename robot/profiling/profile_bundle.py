"""pixelgait-profile: latency of a policy bundle on this machine, without a robot."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from pixelgait.robot.bundle import CONTRACT, FILES, Bundle, load_bundle
from pixelgait.robot.cli.options import Range, Seed, check_outputs, parse
from pixelgait.robot.cli.provenance import head, settings
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.profiling.latency_reports import format_comparison, page, read_report
from pixelgait.robot.runtime.latency import LatencyProfiler, format_table
from pixelgait.robot.runtime.realtime import request_priority
from pixelgait.robot.runtime.timing import CacheWarmup, RateKeeper
from pixelgait.robot.spec import Array


@dataclass(frozen=True)
class ProfileConfig:
    """Time every stage of the controller on this machine, at its own rate, without a robot.

    Readings are synthetic: random images and a standing robot. For latency with real messages run
    pixelgait-run with --out, and show its report (latency.json) here. pixelgait-encoders compares
    encoders.
    """

    APART = tuple(
        ("--compare", each) for each in ("--json", "--seconds", "--seed", "--slow", "--no-realtime")
    )

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE|REPORT")] = ""
    """Folder of a policy bundle, name of a shipped one, or a report file."""
    compare: tuple[Path, Path] | None = None
    """Two reports to compare, instead of measuring: the second against the first."""
    page: Path | None = None
    """Write tables and histograms to this HTML file."""
    seconds: Annotated[float, Range(0.01, 86_400.0)] = 10.0
    """Duration of the measurement [s]."""
    seed: Seed = 0
    """Seed of the synthetic readings."""
    slow: Annotated[float, Range(1.0, 100.0)] = 1.0
    """As on a core so many times as slow: every stage is prolonged, by spinning."""
    realtime: bool = True
    """Ask for real-time priority; without the right to it, warn and go on."""
    json: Path | None = None
    """Write the report to this file."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: profile(parse(ProfileConfig, "pixelgait-profile")))


def profile(config: ProfileConfig) -> None:
    """Measure or read reports; print the latency table, and write files if asked.

    Raises:
        UserError: if a bundle or report cannot be used.
    """
    if config.compare is None and config.bundle == "":
        raise UserError("name a bundle or a report, or two reports behind --compare")
    if config.compare is not None and config.bundle:
        raise UserError(f"{config.bundle} and --compare: give a bundle or two reports, not both")
    written = _written(config)
    bundle = None if written else load_bundle(config.bundle)
    read = [bundle.folder / name for name in (CONTRACT, *FILES)] if bundle else written
    check_outputs(("json", config.json), ("page", config.page), inputs=read)
    reports = [_measured(config, bundle)] if bundle else [read_report(path) for path in written]
    print(format_table(*reports) if len(reports) == 1 else format_comparison(*reports))
    if config.json is not None:
        write_atomic(config.json, json_bytes(reports[-1]))
        print(f"wrote {config.json}")
    if config.page is not None:
        write_atomic(config.page, page(reports).encode())
        print(f"wrote {config.page}")


def _written(config: ProfileConfig) -> tuple[Path, ...]:
    """Reports to read; none if one is to be measured.

    Raises:
        UserError: if an option of the measurement is set, but a report is read.
    """
    if config.compare is not None:
        return config.compare
    if Path(config.bundle).suffix != ".json":
        return ()
    names = ("seconds", "seed", "slow")
    for option, name in (*zip(names, names, strict=True), ("no-realtime", "realtime")):
        if getattr(config, name) != getattr(ProfileConfig, name):
            raise UserError(f"--{option} has no effect on a report that is read")
    return (Path(config.bundle),)


def _measured(config: ProfileConfig, bundle: Bundle) -> dict[str, Any]:
    """Measure, and return the report."""
    if config.realtime and (refusal := request_priority()):
        print(f"warning: {refusal}")
    rng = np.random.default_rng(config.seed)
    profiler = run_loop(bundle, config.seconds, rng, config.slow)
    return {
        **head("pixelgait-profile"),
        "settings": settings(config, "compare", "page", "json"),
        **profiler.report(bundle.contract),
    }


class SlowCore(LatencyProfiler):
    """A profiler that prolongs every stage `factor` times, by spinning."""

    def __init__(self, period_s: float, factor: float) -> None:
        super().__init__(period_s, ())
        self._factor = factor

    def lap(self, stage: str) -> None:
        until_ns = self._lap_ns + self._factor * (time.monotonic_ns() - self._lap_ns)
        while time.monotonic_ns() < until_ns:
            pass
        super().lap(stage)


def run_loop(
    bundle: Bundle, seconds: float, rng: np.random.Generator, slow: float = 1.0
) -> LatencyProfiler:
    """Run the control loop on synthetic readings, at the bundle's rate, on a core so slow."""
    period_s = bundle.control_dt_s
    profiler = SlowCore(period_s, slow) if slow > 1.0 else LatencyProfiler(period_s, ())
    controller = bundle.controller(stopwatch=profiler)
    cache_warmup = CacheWarmup(controller)
    walked: tuple[Reading, Array] | None = None
    images = rng.integers(0, 256, (16, *bundle.image_shape), dtype=np.uint8)
    rate = RateKeeper(period_s)
    for tick in range(round(seconds / period_s)):
        profiler.start()
        profiler.start_lap()
        if walked is not None:
            cache_warmup.run(*walked)
            profiler.lap("cache_warmup")
        now = time.monotonic()
        reading = Reading(
            now,
            bundle.spec.default_pose_rad + 0.05 * rng.standard_normal(12),
            np.zeros(12),
            np.array((0.0, 0.0, 0.0, 1.0)),
            0.05 * rng.standard_normal(3),
            partial(Image, images[tick % len(images)], now),
            np.zeros(3),
        )
        profiler.start_lap()
        latent = controller.step(reading).latent
        walked = None if latent is None else (reading, latent)
        profiler.stages["sensor_to_command"].record(round((time.monotonic() - now) * 1e9))
        profiler.deadline_misses += rate.wait()
    return profiler


if __name__ == "__main__":
    main()
