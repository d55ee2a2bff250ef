"""What others see of a walk: attention while it lasts, then a table and the files of --out."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.cli.provenance import head
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import Image
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.runtime.attention_overlay import draw_attention
from pixelgait.robot.runtime.control_loop import ControlLoop
from pixelgait.robot.runtime.latency import format_table

OVERLAY_PIXELS = 256  # of the longer side: 192 KiB, below what Fast DDS loses


class AttentionTopic:
    """What the newest decision looked at, published where somebody has subscribed."""

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(ros2.Image, ros2.ATTENTION, ros2.COMMAND_QOS)
        self._drawn: Image | None = None

    def publish(self, loop: ControlLoop) -> None:
        """Draw the newest decision, once."""
        newest = loop.decisions.newest
        if newest is None or not self._publisher.get_subscription_count():
            return
        image, decision = newest
        if image is self._drawn or decision.attention is None:
            return
        self._drawn = image
        scale = max(1, OVERLAY_PIXELS // max(image.pixels.shape[:2]))
        pixels = draw_attention(image.pixels, decision.attention, scale)
        self._publisher.publish(ros2.image_message(round(image.time_s * 1e9), "camera", pixels))


def report(
    loop: ControlLoop,
    contract: Mapping[str, Any],
    settings: Mapping[str, Any],
    pace: Mapping[str, float],
    out: Path | None,
) -> str | None:
    """Write the files, if there is a folder for them, then print the latency table.

    `settings` are the command's options, `pace` is that of commands which a driver repeats by
    itself, if it does. Returns what could not be written, and why, or None.
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
    except BrokenPipeError:  # who has stopped reading wants no table
        return problem
    except OSError as error:
        why = f"standard output: the report cannot be written ({error.strerror})"
        return f"{problem}; {why}" if problem else why
    return problem


def _write(loop: ControlLoop, latency: dict[str, Any], out: Path) -> Iterator[Path]:
    """The files of --out, as soon as each is written."""
    files = {"latency.json": json_bytes(latency)}
    if loop.decisions:
        files["decisions.npz"] = _decisions(loop)
    for name, data in files.items():
        write_atomic(out / name, data)
        yield out / name


def _decisions(loop: ControlLoop) -> bytes:
    """Images, latents, times and, where there is one, attention of all decisions, as an archive."""
    decisions = list(loop.decisions)
    arrays: dict[str, Any] = {
        "time_s": [image.time_s for image, _ in decisions],
        "images": [image.pixels for image, _ in decisions],
        "latent": [decision.latent for _, decision in decisions],
        "duration_steps": [decision.duration_steps for _, decision in decisions],
    }
    if attention := [each.attention for _, each in decisions if each.attention is not None]:
        arrays["attention"] = attention
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
