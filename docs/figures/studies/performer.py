"""Comparison of IAP with a Performer (`make performer`): the cost of a fixed order of sums.

IAP sums in a fixed order (`iap.ordered`). A Performer (Choromanski et al. 2021, arXiv 2009.14794)
uses plain matrix products. Both see the same patches with the same weights and select as many.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pixelgait.export.encoder_profile.command import PATCHES, SIZES, format_machine
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.export.onnx_graphs import high_level_graph
from pixelgait.policies.encoders.iap.encoder import IAPEncoder
from pixelgait.policies.encoders.iap.kernels import RELU_EPSILON
from pixelgait.policies.encoders.iap.ordered import Projection
from pixelgait.policies.encoders.iap.patches import patches
from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.bundle import single_thread_session
from pixelgait.robot.cli.options import Range, parse
from pixelgait.robot.errors import run_command
from pixelgait.robot.runtime.latency import machine

PART = "performer"
SELECTED = 64
LEAST_RUNS = 20
FRAMES = 8


class Performer(IAPEncoder):
    """IAP by plain matrix products: scores of equal patches may differ by rounding."""

    def columns_of(self, image: Tensor) -> Tensor:
        """Patches (B, c, L) of uint8 images (B, H, W, C), in [0, 1]."""
        return patches(image, self.patch, self.stride).transpose(1, 2).float() / 255.0

    def rate(self, x: Tensor) -> Tensor:
        """Importance (B, L) of patches (B, c, L)."""
        queries, keys = self._features(self.query, x), self._features(self.key, x)
        return (queries.sum(2).unsqueeze(1) @ keys)[:, 0]

    def _features(self, projection: Projection, x: Tensor) -> Tensor:
        """(B, d, L)."""
        return F.relu(projection.weight @ x + projection.bias[:, None]) + RELU_EPSILON


@dataclass(frozen=True)
class PerformerConfig:
    """Time IAP beside a Performer, size by size, in onnxruntime on one thread."""

    seconds: Annotated[float, Range(0.001, 3600.0)] = 2.0
    """Time for one size and patch [s]."""
    page: Path = Path("docs/encoders.md")
    """Gets the table, between its two markers."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_table(parse(PerformerConfig, "make performer")))


def write_table(config: PerformerConfig) -> None:
    """Measure, print, and write between the page's markers.

    Raises:
        UserError: if the page has no markers.
    """
    require_markers(config.page, PART, PART)
    heads = [f"{height} x {width}" for height, width in SIZES]
    lines = table_head(["patch", *heads])
    for patch in PATCHES:
        times = [compared(height, width, patch, config.seconds) for height, width in SIZES]
        cells = [f"{iap:.2g} ({iap / performer:.1f})" for iap, performer in times]
        lines.append(table_line([str(patch), *cells]))
    lines += ["", f"Measured on {format_machine(machine())}."]
    print("\n".join(lines))
    write_between(config.page, PART, PART, lines)


def networks(height: int, width: int, patch: int) -> tuple[HighLevelNetwork, HighLevelNetwork]:
    """IAP and the Performer of the same weights."""
    torch.manual_seed(0)
    count = (height // patch) * (width // patch)
    size = {"height": height, "width": width, "patch": patch, "stride": patch}
    options: dict[str, Any] = {**size, "selected": min(SELECTED, count)}
    iap, performer = (HighLevelNetwork("iap", **options) for _ in range(2))
    performer.encoder = Performer(**options)
    performer.load_state_dict(iap.state_dict())
    return iap, performer


def compared(height: int, width: int, patch: int, seconds: float) -> tuple[float, float]:
    """Shortest times [ms] of IAP and a Performer over the same images, measured in turns."""
    iap, performer = in_turns(networks(height, width, patch), height, width, seconds)
    return iap, performer


def in_turns(
    high_levels: Sequence[HighLevelNetwork], height: int, width: int, seconds: float
) -> list[float]:
    """Shortest time [ms] of each network's graph for an RGB image, measured in turns, so that other
    load affects all alike.

    Each turn begins with an untimed run, which fills the caches.
    """
    graphs = [
        single_thread_session(high_level_graph(each).SerializeToString()) for each in high_levels
    ]
    images = np.random.default_rng(0).integers(0, 256, (FRAMES, height, width, 3), np.uint8)
    best, runs = [float("inf")] * len(graphs), 0
    end = time.perf_counter() + seconds
    while runs < LEAST_RUNS or time.perf_counter() < end:
        image = {"image": images[runs % len(images)]}
        for i, graph in enumerate(graphs):
            graph.run(None, image)
            start = time.perf_counter()
            graph.run(None, image)
            best[i] = min(best[i], 1e3 * (time.perf_counter() - start))
        runs += 1
    return best


if __name__ == "__main__":
    main()
