"""Report at the end of a run: latency table, latency.json, decisions.npz; why it ended."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.cli.provenance import head
from pixelgait.robot.errors import discard_output
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.runtime.control_loop import ControlLoop
from pixelgait.robot.runtime.latency import format_table

MAX_MISSES = 0.05  # share of steps that miss their deadline without a warning; assumption
SILENT = " is silent for "  # in the supervisor's fault


def cause_of(loop: ControlLoop, conflict: Callable[[], str | None]) -> str | None:
    """The fault of a loop that has ended, and what else may explain it; None: it was stopped.

    `conflict` describes another controller or source of states, of which a fault may follow.
    """
    fault = loop.fault
    if fault is None:
        return None
    explained = any(warning in fault for warning in loop.link.warnings().values())
    if SILENT in fault and not explained and (busy := busy_computer(loop.steps, loop.misses)):
        fault = f"{fault}; {busy}"
    other = conflict()
    return f"{fault}; {other}" if other and other != loop.fault else fault


def busy_computer(steps: int, misses: int) -> str | None:
    """That this computer is too busy and the remedy, or None.

    Judged by its load over the last minute, and by the loop's share of missed deadlines.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        load = os.getloadavg()[0]
    except OSError:  # a container may hide /proc/loadavg
        load = 0.0
    if load <= cores and misses <= MAX_MISSES * steps:
        return None
    found = f"load {load:.1f} on {cores} cores, {misses} of {steps} deadlines missed"
    return f"the computer is too busy ({found}): end other programs, see docs/robot/timing.md"


def report(
    loop: ControlLoop,
    contract: Mapping[str, Any],
    settings: Mapping[str, Any],
    pace: Mapping[str, float],
    out: Path | None,
) -> str | None:
    """Write the files, if there is a folder for them, then print the latency table.

    `settings` are the command's options, `pace` counts the commands that a driver repeats by
    itself. Returns a message if something could not be written, else None.
    """
    latency = {
        **head("pixelgait-run"),
        "settings": dict(settings),
        **loop.profiler.report(contract),
    }
    if pace:
        latency["repeated_commands"] = dict(pace)
    lines, problem = [format_table(latency)], None
    try:
        for path in [] if out is None else _write(loop, latency, out):
            lines.append(f"wrote {path}")
    except OSError as error:
        problem = f"{error.filename or out}: the report cannot be written ({error.strerror})"
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # the reader has closed the pipe
        return problem
    except OSError as error:
        discard_output()  # or it fails again at the end, in other words
        why = f"standard output: the report cannot be written ({error.strerror})"
        return f"{problem}; {why}" if problem else why
    return problem


def _write(loop: ControlLoop, latency: dict[str, Any], out: Path) -> Iterator[Path]:
    """Write the files of --out; yields each path after it was written."""
    files = {"latency.json": json_bytes(latency)}
    if loop.decisions:
        files["decisions.npz"] = _decisions(loop)
    for name, data in files.items():
        write_atomic(out / name, data)
        yield out / name


def _decisions(loop: ControlLoop) -> bytes:
    """All decisions as an npz archive: times, images, latents and, if there is one, attention."""
    decisions = list(loop.decisions)
    arrays: dict[str, Any] = {
        "time_s": [image.time_s for image, _ in decisions],
        "images": [image.whole for image, _ in decisions],
        "latent": [decision.latent for _, decision in decisions],
        "duration_steps": [decision.duration_steps for _, decision in decisions],
    }
    if attention := [each.attention for _, each in decisions if each.attention is not None]:
        arrays["attention"] = attention
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
