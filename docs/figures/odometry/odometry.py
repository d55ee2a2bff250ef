"""Tables and picture of leg odometry, in docs/robot/odometry.md.

Run as `make odometry`. Figures are kept in docs/odometry.json, and measured again when the
estimator's files change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from docs.figures.odometry.walks import by_invariant_filter, by_legs, logged, way_m
from docs.figures.results.figure_store import DEFINED, Figures, find_cell, keep_cell, read_figures
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.export.plots import save
from pixelgait.policies.evaluation.baselines import files_sha256
from pixelgait.policies.evaluation.evaluate import run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.cli.options import Episodes, parse
from pixelgait.robot.errors import run_command
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.sim.body.leg_odometry import INSIDE_95
from pixelgait.sim.options import WorkerOptions
from pixelgait.sim.world.seeds import VALIDATION

ESTIMATOR = tuple(
    f"robot.estimation.{name}" for name in ("leg_odometry", "kinematics", "velocity_filter")
)
# Validation seeds: the filter's numbers were chosen on `walk`, flat, in PyBullet, and on no other.
LEGS = EvalConfig("walk", odometry="legs", seed=VALIDATION[0])
WALK = replace(LEGS, task="follow", scene="flat")
ROVER, HOUSE = replace(LEGS, bundle="rover"), replace(LEGS, bundle="navigator", scene="rooms")
GO2_WALK, MUJOCO = replace(WALK, bundle="walk-go2"), ", MuJoCo"
RANDOMISED = ", randomised"
# Walks by their first cells: what walks, where.
NOMINAL = {
    "`walk`, flat": WALK,
    f"`walk`, flat{MUJOCO}": replace(WALK, body="mujoco"),
    "`walk`, rough": replace(WALK, scene="rough"),
    "`walk-go2`, flat": GO2_WALK,
    f"`walk-go2`, flat{MUJOCO}": replace(GO2_WALK, body="mujoco"),
    "`rover`, free-standing": replace(ROVER, scene="free-standing"),
    "`navigator`, rooms": HOUSE,
    "`navigator-go2`, rooms": replace(HOUSE, bundle="navigator-go2"),
}
ROWS = NOMINAL | {f"{k}{RANDOMISED}": replace(v, randomise=True) for k, v in NOMINAL.items()}
MEASURED = ("error % (worst)", "velocity [m/s]", "heading [deg]", "inside", "arrived")
COMPARED = (WALK, replace(WALK, randomise=True))
COMPARED_SEEDS = VALIDATION[:2]


@dataclass(frozen=True)
class OdometryConfig(WorkerOptions):
    """Measure leg odometry on walks, and compare it with an invariant filter on the same ones."""

    page: Path = Path("docs/robot/odometry.md")
    """Gets both tables, each between its two markers."""
    figures: Path = Path("docs/odometry.json")
    """Everything that was measured."""
    picture: Path = Path("docs/odometry.png")
    """A walk by its legs and in truth, with its frames."""
    episodes: Episodes = 20
    """Walks of a cell."""
    rows: tuple[str, ...] = ()
    """Rows to measure, by their first cells, without comparison and picture; or all."""


def main() -> None:
    """Command line."""
    run_command(lambda: write(parse(OdometryConfig, "make odometry")))


def write(config: OdometryConfig) -> None:
    """Measure what is missing, and write tables and picture.

    Raises:
        UserError: if the page has no markers.
    """
    for part in ("odometry", "comparison"):
        require_markers(config.page, part, "odometry")
    kept = read_figures(config.figures) if config.figures.exists() else []
    rows = []
    for label, walk in ROWS.items():
        cell: Figures = {"row": label, DEFINED: files_sha256(*ESTIMATOR)}
        figures = find_cell(kept, cell)
        if figures is None and (not config.rows or label in config.rows):
            wanted = replace(walk, episodes=config.episodes, workers=config.workers)
            figures = measured(wanted)
            keep_cell(config.figures, kept, cell, figures)
        if figures is not None:
            rows.append(table_line([label, *cells(figures)]))
    head = table_head(["", "walks", "way [m]", *MEASURED])
    write_between(config.page, "odometry", "odometry", [*head, *rows])
    if config.rows:
        return
    write_between(config.page, "comparison", "odometry", compared())
    draw(config.picture)


def measured(config: EvalConfig) -> Figures:
    """Figures of all walks of a cell that end on their feet, errors and success by walk."""
    episodes = list(run_episodes(config))
    walks = [each for each in episodes if not each.fell]
    names = list(walks[0].metrics)
    return {
        "upright": len(walks),
        "success": [each.success for each in episodes],
        **{name: [each.metrics[name] for each in walks] for name in names},
    }


def cells(figures: Figures) -> list[str]:
    """Cells of a row."""
    share = 100.0 * np.array(figures["odometry_error_share"])
    return [
        str(figures["upright"]),
        f"{np.mean(figures['way_m']):.1f}",
        f"{share.mean():.2f} ({share.max():.1f})",
        f"{math.sqrt(np.square(figures['velocity_error_m_per_s']).mean()):.3f}",
        f"{np.degrees(np.mean(figures['heading_error_rad'])):.1f}",
        f"{sum(figures['odometry_inside_rate']):.0f}",
        "" if None in figures["success"] else str(sum(figures["success"])),
    ]


def compared() -> list[str]:
    """Table of leg odometry and the invariant filter on the same walks."""
    lines = table_head(["walks", "legs, end error %", "invariant filter, end error %"])
    for config in COMPARED:
        legs, other = [], []
        for seed in COMPARED_SEEDS:
            spec, moments = logged(config, seed)
            true, way = moments[-1].position[:2], way_m(moments)
            motion = by_legs(spec, moments)[-1]
            legs.append(math.dist((motion.x, motion.y), true) / way)
            other.append(math.dist(by_invariant_filter(spec, moments)[-1], true) / way)
        label = f"`{config.bundle}`, flat{', randomised' if config.randomise else ''}"
        lines.append(table_line([label, *(f"{100.0 * np.mean(x):.2f}" for x in (legs, other))]))
    return lines


def draw(path: Path) -> None:
    """A walk seen from above: the frames, the way by its legs and in truth, what may be off."""
    spec, moments = logged(replace(WALK, randomise=True), COMPARED_SEEDS[0])
    motions = by_legs(spec, moments)
    figure, axes = plt.subplots(figsize=(8.0, 4.5), layout="constrained")
    true = np.array([each.position[:2] for each in moments])
    axes.plot(*true.T, color="0.6", lw=3, label="true way")
    axes.plot([m.x for m in motions], [m.y for m in motions], lw=1.5, label="by its legs")
    for motion in motions[1500::1500]:
        axes.add_patch(ellipse(motion))
    axes.plot([], [], color="tab:orange", label="95 %, every 15 s")
    first, last = motions[0], motions[-1]
    frame(axes, first.x, first.y, first.heading, "odom: where it began")
    frame(axes, last.x, last.y, last.heading, "base_link")
    low, high = true.min(0) - 1.2, true.max(0) + 1.2
    frame(axes, float(low[0]) + 0.4, float(low[1]) + 0.4, 0.35, "map: of a building")
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.legend(loc="upper right")
    save(path, figure, dpi=110)


def ellipse(motion: Motion) -> Ellipse:
    """Where the robot is with 95 %."""
    xx, xy, yy = motion.position_variance
    values, axes = np.linalg.eigh(np.array(((xx, xy), (xy, yy))))
    width, height = 2.0 * np.sqrt(INSIDE_95 * values)
    angle = math.degrees(math.atan2(axes[1, 0], axes[0, 0]))
    centre = motion.x, motion.y
    return Ellipse(centre, width, height, angle=angle, fill=False, ec="tab:orange", lw=1.2)


def frame(axes: Axes, x: float, y: float, yaw: float, name: str) -> None:
    """A frame's x (red) and y (green) axes."""
    for angle, colour in ((yaw, "red"), (yaw + 0.5 * math.pi, "green")):
        tip = x + 0.5 * math.cos(angle), y + 0.5 * math.sin(angle)
        axes.annotate("", tip, (x, y), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
    axes.annotate(name, (x, y), (4, -12), textcoords="offset points", weight="bold")


if __name__ == "__main__":
    main()
