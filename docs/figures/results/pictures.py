"""Pictures of the results: learning curves, and paths over courses."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pixelgait.export.plots import draw_course, save
from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, START_M, WIDTH_M

Curve = list[tuple[float, float]]  # iteration, validation success


def learning_curves(
    path: Path, imitated: dict[str, dict[str, Curve]], evolved: dict[str, Curve]
) -> None:
    """Success on validation courses: a panel for every policy that learned by imitation, its
    first run thick, and one for runs by evolution strategies.
    """
    rows = len(imitated) // 3 + 1
    size = (12, 2.6 * rows)
    figure, panels = plt.subplots(rows, 3, figsize=size, squeeze=False, layout="constrained")
    for axes, (policy, curves) in zip(panels.flat, imitated.items(), strict=False):
        _draw_curves(axes, curves)
        axes.lines[0].set_linewidth(2.5)
        axes.set_xscale("symlog", base=2)  # most learn in a few rounds, the last in 40
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set(title=policy, xlabel="round of imitation", xticks=(0, 1, 2, 4, 8, 16, 32))
        axes.set(xlim=(-0.3, 48))
    last, *empty = panels.flat[len(imitated) :]
    _draw_curves(last, evolved)
    last.set(title="by trial", xlabel="iteration of the evolution strategy")
    for axes in empty:
        axes.remove()
    save(path, figure, dpi=90)


def _draw_curves(axes: Axes, curves: dict[str, Curve]) -> None:
    for name, curve in curves.items():
        axes.plot(*np.transpose(curve), "o-", ms=3, lw=1, label=name)
    axes.grid(alpha=0.3)
    axes.set(ylabel="validation success", ylim=(-0.05, 1.05))
    axes.legend(loc="lower right", fontsize=7)


def paths_on_courses(path: Path, courses: list[ObstacleCourse], tracks: list[Array]) -> None:
    """One course below the other, each with its own track (n, 2) [m]."""
    rows = (len(courses) + 1) // 2
    figure, grid = plt.subplots(rows, 2, figsize=(12, 1.7 * rows), layout="constrained")
    for axes, course, track in zip(np.ravel(grid), courses, tracks, strict=True):
        draw_course(axes, course)
        axes.plot(track[:, 0], track[:, 1], lw=2, color="tab:blue")
        axes.plot(*track[-1], "o", color="tab:blue")
        axes.set(xlim=(-START_M, LENGTH_M), ylim=(-WIDTH_M / 2, WIDTH_M / 2), aspect="equal")
        axes.set(xticks=[], yticks=[])
    save(path, figure, dpi=80)
