"""What others see of a walk: attention while it lasts, then a table and the files of --out."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import Image
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.runtime.attention import draw_attention
from pixelgait.robot.runtime.latency import format_table
from pixelgait.robot.runtime.loop import ControlLoop
from pixelgait.robot.runtime.provenance import head

OVERLAY_PIXELS = 256  # of the longer side: 192 KiB, below what Fast DDS loses


class AttentionTopic:
    """What the newest decision looked at, published where somebody has subscribed."""

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(ros.Image, ros.ATTENTION, ros.SENSOR_QOS)
        self._drawn: Image | None = None

    def publish(self, loop: ControlLoop) -> None:
        """Draw the newest decision, once."""
        if not self._publisher.get_subscription_count() or not loop.decisions:
            return
        image, decision = loop.decisions[-1]
        if image is self._drawn or decision.attention is None:
            return
        self._drawn = image
        scale = max(1, OVERLAY_PIXELS // max(image.pixels.shape[:2]))
        pixels = draw_attention(image.pixels, decision.attention, scale)
        self._publisher.publish(ros.image_message(round(image.time_s * 1e9), "camera", pixels))


def report(
    loop: ControlLoop, contract: Mapping[str, Any], pace: Mapping[str, float], out: Path | None
) -> None:
    """Print the latency table; write the files, if there is a folder for them.

    `pace` is that of commands which a driver repeats by itself, if it does.

    Raises:
        OSError: they cannot be written.
    """
    latency = {**head("pixelgait-run"), **loop.profiler.report(contract)}
    if pace:
        latency["repeated_commands"] = dict(pace)
    print(format_table(latency), flush=True)
    if out is None:
        return
    files = {"latency.json": json_bytes(latency)}
    if loop.decisions:
        files["decisions.npz"] = _decisions(loop)
    for name, data in files.items():
        write_atomic(out / name, data)
        print(f"wrote {out / name}", flush=True)


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
