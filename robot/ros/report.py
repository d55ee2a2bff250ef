"""What is left of a walk: the latency table, latency.json, decisions.npz."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.runtime.latency import format_table
from pixelgait.robot.runtime.loop import ControlLoop


def report(loop: ControlLoop, contract: Mapping[str, Any], out: Path | None) -> None:
    """Print the latency table; write the files, if there is a folder for them.

    Raises:
        OSError: they cannot be written.
    """
    latency = loop.profiler.report(contract)
    print(format_table(latency), flush=True)
    if out is None:
        return
    write_atomic(out / "latency.json", json_bytes(latency))
    if loop.decisions:
        write_atomic(out / "decisions.npz", _decisions(loop))


def _decisions(loop: ControlLoop) -> bytes:
    """Images, attention, latents and times of all decisions, as a numpy archive."""
    decisions = list(loop.decisions)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        time_s=[image.time_s for image, _ in decisions],
        images=[image.pixels for image, _ in decisions],
        attention=np.array([decision.attention for _, decision in decisions]),
        latent=[decision.latent for _, decision in decisions],
        duration_steps=[decision.duration_steps for _, decision in decisions],
    )
    return buffer.getvalue()
