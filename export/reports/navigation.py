"""The tables of point goals and of the teacher in docs/results.md. Run as `make navigation`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pixelgait.export.reports.generated import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.robot.errors import run_command
from pixelgait.robot.runtime.options import Episodes, Workers, parse
from pixelgait.sim.eval_options import EvalConfig
from pixelgait.sim.evaluate import run_episodes
from pixelgait.sim.figures import figures_of
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import SCENES
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED
from pixelgait.sim.write_house import write_rooms

HOUSES = 5  # that are written in Gibson's layout; others than those of training
WRITTEN = "gibson:"  # its folder is not known yet
ROOMS = EvalConfig("navigator", scene="rooms")
# Rows: what walks, where.
ROWS = {
    "**navigator**": ROOMS,
    "navigator, told no goal": replace(ROOMS, baseline="no-goal"),
    "straight to the goal": replace(ROOMS, bundle="walk", baseline="straight"),
    "wall-following bug": replace(ROOMS, bundle="walk", baseline="bug"),
    "navigator, difficulty 1": replace(ROOMS, difficulty=1.0),
    "navigator, MuJoCo": replace(ROOMS, body="mujoco"),
    "navigator, randomised": replace(ROOMS, randomise=True),
    "navigator, written houses in Gibson's layout": replace(ROOMS, scene=WRITTEN),
    "navigator, remembers nothing": replace(ROOMS, baseline="forgetful"),
    "navigator, blind (gray image)": replace(ROOMS, baseline="blind"),
    "teacher (knows map and pose)": replace(ROOMS, bundle="walk", baseline="teacher"),
}
COLUMNS = (
    *("in `rooms`", "houses", "success", "clean success", "without contact", "falls", "SPL"),
    *("contacts", "impulse [Ns]", "within 0.5 m", "left [m]"),
)
WITH_A_GOAL = [name for name in SCENES if name != FlatGround.name]
TEACHER = EvalConfig("walk", baseline="teacher")
TEACHER_COLUMNS = ("scene", "episodes", "success", "clean success", "falls")


@dataclass(frozen=True)
class NavigationConfig:
    """Measure how well the shipped navigator finds its way, and what it would be without.

    And the teacher, in every scene.
    """

    table: Literal["all", "navigation", "teacher"] = "all"
    """Which of the two to write."""
    episodes: Episodes = 100
    workers: Workers = 2
    page: Path = Path("docs/results.md")


def main() -> None:
    """Command line."""
    run_command(lambda: write_tables(parse(NavigationConfig, "make navigation")))


def write_tables(config: NavigationConfig) -> None:
    """Evaluate row by row, and write the tables so far between their markers in the page.

    Raises:
        UserError: the page has no such lines, or a number makes no sense.
    """
    tables = {
        "navigation": (COLUMNS, ROWS, _cells),
        "teacher": (
            TEACHER_COLUMNS,
            {f"`{scene}`": replace(TEACHER, scene=scene) for scene in WITH_A_GOAL},
            _teacher_cells,
        ),
    }
    asked_for = [name for name in tables if config.table in ("all", name)]
    for name in asked_for:
        require_markers(config.page, name, "navigation")
    for name in asked_for:
        columns, rows, cells = tables[name]
        lines = table_head(columns)
        for label, row in rows.items():
            figures = _measure(replace(row, episodes=config.episodes, workers=config.workers))
            lines.append(table_line([label, *cells(figures)]))
            print(lines[-1], flush=True)
            write_between(config.page, name, "navigation", lines)


def _measure(row: EvalConfig) -> dict[str, Any]:
    """Figures of a row; written houses share its episodes."""
    if row.scene != WRITTEN:
        return figures_of(list(run_episodes(row)))
    each = max(1, row.episodes // HOUSES)
    episodes: list[Episode] = []
    for house in range(HOUSES):
        seed = FIRST_EVALUATION_SEED + house
        with tempfile.TemporaryDirectory() as folder:
            write_rooms(Path(folder), seed, row.difficulty)
            part = replace(row, scene=WRITTEN + folder, episodes=each, seed=seed + house * each)
            episodes += run_episodes(part)
    return figures_of(episodes)


def _cells(figures: dict[str, Any]) -> list[str]:
    rates = ("success_rate", "clean_success_rate", "contact_free_rate", "fall_rate")
    return [
        str(len(figures["episodes"])),
        *(_share(figures, name) for name in rates),
        f"{figures['spl']:.2f}",
        f"{figures['contacts_per_episode']:.1f}",
        f"{figures['contact_impulse_ns']:.0f}",
        f"{100 * figures['near_rate']:.0f} %",
        f"{figures['left_m']:.2f}",
    ]


def _teacher_cells(figures: dict[str, Any]) -> list[str]:
    rates = ("success_rate", "clean_success_rate", "fall_rate")
    return [str(len(figures["episodes"])), *(_share(figures, name) for name in rates)]


def _share(figures: dict[str, Any], name: str) -> str:
    low, high = (100.0 * end for end in figures["interval_95"][name])
    return f"{100.0 * figures[name]:.0f} % [{low:.0f}, {high:.0f}]"


if __name__ == "__main__":
    main()
