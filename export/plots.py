"""Pictures of a walk: path over the course, path on the map, latency by stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pixelgait.policies.runs.curve_picture import picture_of
from pixelgait.robot.files import write_atomic
from pixelgait.robot.runtime.latency import STAGES
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.scenes.courses.obstacle_course import WALL_THICKNESS_M, ObstacleCourse
from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, START_M, WIDTH_M
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import Layout, Scene


def path_on_course(path: Path, course: ObstacleCourse, track: Array, seconds: float) -> None:
    """A track (n, 2) [m] of so many seconds, drawn over the course seen from above."""
    figure, axes = plt.subplots(figsize=(10, 3.2), layout="constrained")
    draw_course(axes, course)
    axes.plot(track[:, 0], track[:, 1], lw=2, label="robot")
    axes.plot(*track[-1], "o", color=axes.lines[-1].get_color())
    ended = f"walk ended after {seconds:.0f} s"
    axes.annotate(ended, track[-1], (0, 8), textcoords="offset points", ha="center")
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
    axes.set(xlim=(-START_M - 0.5, LENGTH_M + 0.5), ylim=(-WIDTH_M / 2 - 0.4, WIDTH_M / 2 + 0.4))
    axes.legend(loc="upper right")
    save(path, figure, dpi=120)


def path_on_map(path: Path, scene: Scene, layout: Layout, track: Array) -> None:
    """A track (n, 2) [m] to the scene's goal, on the map of where a robot can walk."""
    assert scene.goal_position is not None
    area = walk_map(scene, layout, A1.stand_height_m)
    (x, y), (width, height) = area.corner_m, area.size_m
    figure, axes = plt.subplots(figsize=(6, 6 * height / width), layout="constrained")
    room = 0.5 * area.free + 0.5 * area.turnable
    axes.imshow(room, "gray", origin="lower", extent=(x, x + width, y, y + height), vmin=-0.5)
    axes.plot(track[:, 0], track[:, 1], lw=2, label="robot")
    axes.plot(*track[0], "o", color=axes.lines[0].get_color())
    axes.plot(*scene.goal_position, "*", color="green", ms=14, label="goal")
    rows, columns = np.nonzero(area.free)
    low, high = (area.place((int(f(rows)), int(f(columns)))) for f in (np.min, np.max))
    axes.set(xlim=(low[0] - 0.5, high[0] + 0.5), ylim=(low[1] - 0.5, high[1] + 0.5))
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
    axes.legend(loc="upper right")
    save(path, figure, dpi=120)


def save(path: Path, figure: Figure, dpi: int) -> None:
    """Write a figure atomically and close it."""
    write_atomic(path, picture_of(figure, dpi))
    plt.close(figure)


def draw_course(axes: Axes, course: ObstacleCourse) -> None:
    """Platform, walls and goal line of a course, seen from above."""
    axes.set_facecolor("#cfd8cf")
    platform = (-START_M, -WIDTH_M / 2), LENGTH_M + START_M, WIDTH_M
    axes.add_patch(Rectangle(*platform, color="#e8e4da", zorder=0))
    for wall in course.walls:
        y = WIDTH_M / 2 - wall.blocked if wall.side > 0 else -WIDTH_M / 2
        corner = (wall.x - WALL_THICKNESS_M / 2, y)
        axes.add_patch(Rectangle(corner, WALL_THICKNESS_M, wall.blocked, color="#a8442f"))
    axes.axvline(course.goal_m, color="green", ls="--", lw=1, label="goal")


def latency(path: Path, report: dict[str, Any]) -> None:
    """Percentiles of every stage, on a logarithmic scale, beside the control period."""
    rows = {name: row for name, row in report["stages"].items() if row["count"]}
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.42 * len(rows)), layout="constrained")
    y = np.arange(len(rows))[::-1]
    for key, marker in (("p50_us", "o"), ("p95_us", "s"), ("p99_us", "D"), ("max_us", "x")):
        axes.plot([row[key] for row in rows.values()], y, marker, label=key.removesuffix("_us"))
    period_us = report["period_nominal_us"]
    label = f"control period, {period_us / 1e3:g} ms"
    axes.axvline(period_us, color="gray", ls="--", lw=1, label=label)
    axes.set_yticks(y, [f"{name}\n{STAGES.get(name, '')}" for name in rows], fontsize=8)
    axes.set(xscale="log", xlabel="time [us]", title=f"latency on {report['machine']['processor']}")
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    save(path, figure, dpi=120)
