"""The tables of point goals and of the teacher in docs/indoors.md.

Run as `make navigation`. Evaluations are kept in docs/navigation.json and not repeated, as long as
they are of the same policies.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from docs.figures.results.figure_store import Figures, FigureStore
from docs.figures.results.result_tables import rate
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.policies.evaluation.evaluate import describe, run_episodes
from pixelgait.policies.evaluation.metrics import figures_of
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.cli.options import Episodes, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.sim.options import WorkerOptions
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.houses.write_house import write_rooms
from pixelgait.sim.scenes.registry import SCENES
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED

HOUSES = 5  # that are written in Gibson's layout; others than those of training
WRITTEN = "gibson:written"  # their folders are made where they are evaluated
ROOMS = EvalConfig("navigator", scene="rooms")
# Houses differ: the SPL of a hundred is known to within 0.04. Of these it is to within 0.02.
FURTHER = replace(ROOMS, seed=FIRST_EVALUATION_SEED + 100, episodes=300)


def _everywhere(policy: str) -> dict[str, EvalConfig]:
    """Rows of a shipped policy: what walks, where."""
    rooms = replace(ROOMS, bundle=policy)
    return {
        f"**{policy}**": rooms,
        f"{policy}, difficulty 1": replace(rooms, difficulty=1.0),
        f"{policy}, MuJoCo": replace(rooms, body="mujoco"),
        f"{policy}, randomised": replace(rooms, randomise=True),
        f"{policy}, written houses in Gibson's layout": replace(rooms, scene=WRITTEN),
        f"{policy}, remembers nothing": replace(rooms, baseline="forgetful"),
    }


def _seed(policy: str, seed: int, part: str = "") -> dict[str, EvalConfig]:
    """Rows of another seed of it, which lies beside it; `part`: what its folder's name ends in."""
    rooms = replace(ROOMS, bundle=f"policies/pretrained/{policy}/others/seed-{seed}{part}")
    harder = replace(rooms, difficulty=1.0)
    return {f"{policy}, seed {seed}": rooms, f"{policy}, seed {seed}, difficulty 1": harder}


ROWS = {
    **_everywhere("navigator"),
    "navigator, 300 further houses": FURTHER,
    "navigator, without goal": replace(ROOMS, baseline="no-goal"),
    "navigator, blind (gray image)": replace(ROOMS, baseline="blind"),
    **_seed("navigator", 0),
    **_seed("navigator", 2),
    **_everywhere("navigator-iap"),
    "navigator-iap, 300 further houses": replace(FURTHER, bundle="navigator-iap"),
    **_seed("navigator-iap", 1),
    **_everywhere("navigator-small"),
    **_everywhere("navigator-sit"),
    "navigator-sit, 300 further houses": replace(FURTHER, bundle="navigator-sit"),
    "navigator-sit, unseen appearance": replace(ROOMS, bundle="navigator-sit", appearance="test"),
    **_seed("navigator-sit", 0, "-continued"),
    **_seed("navigator-sit", 2, "-continued"),
    "**navigator-paper-size**": replace(ROOMS, bundle="navigator-paper-size"),
    "navigator-paper-size, difficulty 1": replace(
        ROOMS, bundle="navigator-paper-size", difficulty=1.0
    ),
    **_seed("navigator-paper-size", 0),
    **_seed("navigator-paper-size", 1),
    "straight to the goal": replace(ROOMS, bundle="walk", baseline="straight"),
    "wall-following bug": replace(ROOMS, bundle="walk", baseline="bug"),
    "teacher (knows map and pose)": replace(ROOMS, bundle="walk", baseline="teacher"),
}
COLUMNS = (
    *("in `rooms`", "houses", "success", "collision-free success", "without contact", "falls"),
    *("SPL", "contacts", "impulse [Ns]", "within 0.5 m", "remaining [m]", "time [s]"),
)
WITH_A_GOAL = [name for name in SCENES if name != FlatGround.name]
TEACHER = EvalConfig("walk", baseline="teacher")
TEACHER_COLUMNS = ("scene", "episodes", "success", "collision-free success", "falls")


@dataclass(frozen=True)
class NavigationConfig(WorkerOptions):
    """Measure how well the shipped navigator finds its way, and what it would be without.

    And the teacher, in every scene.
    """

    page: Path = Path("docs/indoors.md")
    """Gets both tables, each between its two markers."""
    figures: Path = Path("docs/navigation.json")
    """Everything that was measured."""
    episodes: Episodes = 100
    """Of every cell; further houses are as many as their rows say."""
    rows: tuple[str, ...] = ()
    """Rows to measure, as their first cells say, or all; of the others is shown what is known."""


class Table(NamedTuple):
    """A table of the page: what its rows evaluate, and what it says of their figures."""

    columns: Sequence[str]
    rows: dict[str, EvalConfig]
    cells: Callable[[Figures], list[str]]


def main() -> None:
    """Command line."""
    run_command(lambda: write_tables(parse(NavigationConfig, "make navigation")))


def write_tables(config: NavigationConfig) -> None:
    """Evaluate what is missing, row by row, and write what is known between the page's markers.

    Raises:
        UserError: the page has no such lines, there is no such row, or a number makes no sense.
    """
    teacher = {f"`{scene}`": replace(TEACHER, scene=scene) for scene in WITH_A_GOAL}
    tables = {
        "navigation": Table(COLUMNS, ROWS, _cells),
        "teacher": Table(TEACHER_COLUMNS, teacher, _teacher_cells),
    }
    known = [label for table in tables.values() for label in table.rows]
    if not set(config.rows) <= set(known):
        raise UserError(f"--rows: choose from {', '.join(known)}")
    written = {label for label, row in ROWS.items() if row.scene == WRITTEN}
    if config.episodes % HOUSES and (not config.rows or written & set(config.rows)):
        raise UserError(f"--episodes: expected so many times {HOUSES}: written houses share them")
    for name in tables:
        require_markers(config.page, name, "navigation")
    store = FigureStore(config.figures)
    for name, table in tables.items():
        lines = table_head(table.columns)
        for label, row in table.rows.items():
            chosen = not config.rows or label in config.rows
            figures = _figures(config, store, row, chosen)
            blank = ["-"] * (len(table.columns) - 1)
            lines.append(table_line([label, *(table.cells(figures) if figures else blank)]))
            print(lines[-1], flush=True)
        write_between(config.page, name, "navigation", lines)


def _figures(
    config: NavigationConfig, store: FigureStore, row: EvalConfig, chosen: bool
) -> Figures | None:
    """Of a row: the known ones, or, if it is chosen, new ones."""
    episodes = row.episodes if row.seed == FURTHER.seed else config.episodes
    row = replace(row, episodes=episodes, workers=config.workers, cluster=config.cluster)
    if (kept := store.find(row)) or not chosen:
        return kept
    return store.keep(row, {**describe(row), **figures_of(_episodes(row))})


def _episodes(row: EvalConfig) -> list[Episode]:
    """Of a row; written houses share them."""
    if row.scene != WRITTEN:
        return list(run_episodes(row))
    each = row.episodes // HOUSES
    episodes: list[Episode] = []
    for house in range(HOUSES):
        seed = FIRST_EVALUATION_SEED + house
        with tempfile.TemporaryDirectory() as folder:
            write_rooms(Path(folder), seed, row.difficulty)
            scene = f"gibson:{folder}"
            part = replace(row, scene=scene, episodes=each, seed=seed + house * each)
            episodes += run_episodes(part)
    return episodes


def _cells(figures: Figures) -> list[str]:
    rates = ("success_rate", "collision_free_rate", "contact_free_rate", "fall_rate")
    return [
        str(figures["episodes"]),
        *(rate(figures, name) for name in rates),
        _spl(figures),
        f"{figures['contacts_per_episode']:.1f}",
        f"{figures['contact_impulse_n_s']:.0f}",
        f"{100 * figures['near_rate']:.0f} %",
        f"{figures['remaining_m']:.2f}",
        f"{figures['time_s']:.0f}",
    ]


def _teacher_cells(figures: Figures) -> list[str]:
    rates = ("success_rate", "collision_free_rate", "fall_rate")
    return [str(figures["episodes"]), *(rate(figures, name) for name in rates)]


def _spl(figures: Figures) -> str:
    low, high = figures["interval_95"]["spl"]
    interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"  # one episode has no spread
    return f"{figures['spl']:.2f}{interval}"


if __name__ == "__main__":
    main()
