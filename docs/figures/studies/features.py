"""Study of IAP's random features (`make features`): time and estimation error for pairs (m, r).

Left: time of an image by the number of features (arXiv 2102.04353, figure 6, left). Right, in place
of that figure's rewards: relative error of the softmax kernel that the features estimate, between
vectors at any angle (theorem 4.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from numpy.typing import NDArray

from docs.figures.studies.performer import in_turns
from pixelgait.export.encoder_profile.command import format_machine
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.policies.encoders.iap.kernels import SoftmaxKernel
from pixelgait.policies.encoders.iap.ordered import Projection
from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.policies.runs.curve_picture import picture_of
from pixelgait.robot.cli.options import Count, Range, check_outputs, parse
from pixelgait.robot.errors import run_command
from pixelgait.robot.files import write_atomic
from pixelgait.robot.runtime.latency import machine
from pixelgait.robot.spec import Array

PART = "features"
PAIRS = ((4, 1), (10, 1), (10, 5), (16, 8), (32, 16))  # (10, 5) is the paper's choice
# Estimators whose error is drawn: kernel, m, and r (hybrid alone).
KERNELS = {
    "favor (10)": ("favor", 10, 1),
    "trig (10)": ("trig", 10, 1),
    **{f"hybrid ({m}, {r})": ("hybrid", m, r) for m, r in PAIRS},
}
DIM = 8  # of queries and keys, the paper's
LENGTH = 0.5  # of both scaled vectors: for much longer ones the mean error is meaningless
ANGLES = np.linspace(0.0, 1.0, 25)  # between them, in units of pi
ROUNDING = 1e-5  # smaller errors are rounding
SHOWN = (0.0, 0.5, 1.0)  # angles in the table


@dataclass(frozen=True)
class FeaturesConfig:
    """Time IAP by its number of random features, and measure how well they estimate."""

    side: Annotated[int, Range(4, 128)] = 64
    """Side of the timed image [pixels]; brute force forms a matrix of its fourth power."""
    seconds: Annotated[float, Range(0.001, 3600.0)] = 20.0
    """Time for all timings together [s]."""
    draws: Count = 2000
    """Draws of random features, for the errors."""
    page: Path = Path("docs/encoders.md")
    """Gets the table, between its two markers."""
    picture: Path = Path("docs/features.png")


def main() -> None:
    """Command line."""
    run_command(lambda: write_study(parse(FeaturesConfig, "make features")))


def write_study(config: FeaturesConfig) -> None:
    """Measure, print, draw, and write between the page's markers.

    Raises:
        UserError: if the page has no markers, or the picture cannot be written.
    """
    check_outputs(("picture", config.picture))
    require_markers(config.page, PART, PART)
    times = timed(config.side, config.seconds)
    errors = {name: relative_errors(*each, config.draws) for name, each in KERNELS.items()}
    lines = table_head(["features", "ms", *(f"error at {angle:g} pi" for angle in SHOWN)])
    columns = [int(np.abs(ANGLES - angle).argmin()) for angle in SHOWN]
    for name, ms in times.items():
        cells = [_percent(errors[name][i]) if name in errors else "-" for i in columns]
        lines.append(table_line([name, f"{ms:.3g}", *cells]))
    lines += ["", f"Measured on {format_machine(machine())}."]
    print("\n".join(lines))
    draw(config.picture, times, errors)
    write_between(config.page, PART, PART, lines)


def timed(side: int, seconds: float) -> dict[str, float]:
    """Shortest time [ms] by kernel, for an image of side x side patches of one pixel."""
    networks = {"ReLU": HighLevelNetwork("iap", height=side, width=side)}
    for name, (kernel, m, r) in KERNELS.items():
        angle: dict[str, Any] = {"r": r} if kernel == "hybrid" else {}
        networks[name] = HighLevelNetwork(
            "iap", height=side, width=side, dim=DIM, kernel=kernel, m=m, **angle
        )
    networks["brute force"] = HighLevelNetwork("brute-force", height=side, width=side)
    times = in_turns(list(networks.values()), side, side, seconds)
    return dict(zip(networks, times, strict=True))


@torch.no_grad()
def relative_errors(kernel: str, m: int, r: int, draws: int) -> Array:
    """Root mean square errors of exp(x^T y) over its value, for vectors at all ANGLES."""
    identity = Projection(DIM, DIM)
    torch.nn.init.eye_(identity.weight)
    torch.nn.init.zeros_(identity.bias)
    x, keys = vectors()
    truth = np.exp(LENGTH**2 * np.cos(math.pi * ANGLES))
    squares = np.zeros(len(ANGLES))
    for seed in range(draws):
        features = SoftmaxKernel(kernel, DIM, m, r, seed=seed)
        query, key = (features.features(each, identity) for each in (x, keys))
        growth = torch.exp((query.exponent + key.exponent).flatten())
        estimate = (features.importance(query, key)[0] * growth).double().numpy()
        squares += (estimate / truth - 1.0) ** 2
    return np.sqrt(squares / draws)


def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    """One query (1, d, 1), and keys (1, d, n) at all ANGLES to it, before scaling (eq. 4).

    Their plane contains no axis of the features.
    """
    plane, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, 2)))
    turned = np.stack([np.cos(math.pi * ANGLES), np.sin(math.pi * ANGLES)])
    length = LENGTH * DIM**0.25
    sides: list[NDArray[np.float64]] = [plane[:, :1], plane @ turned]
    x, keys = (torch.tensor(length * side, dtype=torch.float32)[None] for side in sides)
    return x, keys


def draw(path: Path, times: dict[str, float], errors: dict[str, Array]) -> None:
    """Times as bars on the left, errors over angles on the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    colours = {name: f"C{i}" for i, name in enumerate(times)}
    left.barh(list(times), list(times.values()), color=list(colours.values()))
    left.set(xscale="log", xlabel="shortest time of an image [ms]")
    left.invert_yaxis()
    for name, error in errors.items():
        right.plot(ANGLES, 100.0 * error, color=colours[name], label=name)
    right.set(yscale="log", ylim=(1e-1, None), ylabel="error of the softmax kernel [%]")
    right.set(xlabel="angle between query and key [pi]")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    right.legend(fontsize=8)
    write_atomic(path, picture_of(figure, dpi=90))
    plt.close(figure)


def _percent(error: float) -> str:
    return f"{100.0 * error:.2g} %" if error > ROUNDING else "0 %"


if __name__ == "__main__":
    main()
