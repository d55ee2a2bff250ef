"""Tables of point-goal navigation and of the teacher, in docs/indoors.md.

Run as `make navigation`. Evaluations are kept in docs/navigation.json, and are repeated only for
other policies.
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
from pixelgait.sim.scenes.registry import HOUSE_KINDS, SCENES
from pixelgait.sim.scenes.uneven_ground import Kerb
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED

HOUSES = 5  # written in Gibson's layout, with seeds that training does not use
WRITTEN = "gibson:written"  # their folders are made where they are evaluated
ROOMS = EvalConfig("navigator", scene="rooms")
# The SPL of 100 houses is known to within 0.04, with these 300 to within 0.02.
FURTHER = replace(ROOMS, seed=FIRST_EVALUATION_SEED + 100, episodes=300)
HARDER = ", difficulty 1"


def _everywhere(policy: str) -> dict[str, EvalConfig]:
    """Rows of a shipped policy, in houses of every kind."""
    rooms = replace(ROOMS, bundle=policy)
    return {
        f"**{policy}**": rooms,
        f"{policy}{HARDER}": replace(rooms, difficulty=1.0),
        f"{policy}, MuJoCo": replace(rooms, body="mujoco"),
        f"{policy}, randomised": replace(rooms, randomise=True),
        f"{policy}, written houses in Gibson's layout": replace(rooms, scene=WRITTEN),
        f"{policy}, remembers nothing": replace(rooms, baseline="forgetful"),
    }


# Training runs that are not in the repository: their figures are kept, and cannot be measured.
OTHER_RUNS = {
    "navigator, seed 0": "navigator/seed-0",
    "navigator, seed 2": "navigator/seed-2",
    "navigator-iap, seed 1": "navigator-iap/seed-1",
    "navigator-sit, seed 0": "navigator-sit/seed-0-continued",
    "navigator-sit, seed 2": "navigator-sit/seed-2-continued",
    "navigator-paper-size, seed 0": "navigator-paper-size/seed-0",
    "navigator-paper-size, seed 1": "navigator-paper-size/seed-1",
}


def _other_run(label: str) -> dict[str, EvalConfig]:
    """Rows of a training run that is not in the repository: evaluations of its policy."""
    rooms = replace(ROOMS, bundle=label.partition(",")[0])
    return {label: rooms, f"{label}{HARDER}": replace(rooms, difficulty=1.0)}


ROWS = {
    **_everywhere("navigator"),
    "navigator, 300 further houses": FURTHER,
    "navigator, without goal": replace(ROOMS, baseline="no-goal"),
    "navigator, blind (gray image)": replace(ROOMS, baseline="blind"),
    **_other_run("navigator, seed 0"),
    **_other_run("navigator, seed 2"),
    **_everywhere("navigator-iap"),
    "navigator-iap, 300 further houses": replace(FURTHER, bundle="navigator-iap"),
    **_other_run("navigator-iap, seed 1"),
    **_everywhere("navigator-small"),
    **_everywhere("navigator-sit"),
    "navigator-sit, 300 further houses": replace(FURTHER, bundle="navigator-sit"),
    "navigator-sit, unseen appearance": replace(ROOMS, bundle="navigator-sit", appearance="test"),
    **_other_run("navigator-sit, seed 0"),
    **_other_run("navigator-sit, seed 2"),
    "**navigator-paper-size**": replace(ROOMS, bundle="navigator-paper-size"),
    "navigator-paper-size, difficulty 1": replace(
        ROOMS, bundle="navigator-paper-size", difficulty=1.0
    ),
    **_other_run("navigator-paper-size, seed 0"),
    **_other_run("navigator-paper-size, seed 1"),
    "straight to the goal": replace(ROOMS, bundle="walk", baseline="straight"),
    "wall-following bug": replace(ROOMS, bundle="walk", baseline="bug"),
    "teacher (knows map and pose)": replace(ROOMS, bundle="walk", baseline="teacher"),
}
COLUMNS = (
    *("in `rooms`", "houses", "success", "collision-free success", "without contact", "falls"),
    *("SPL", "contacts", "impulse [Ns]", "within 0.5 m", "remaining [m]", "time [s]"),
)
WITH_A_GOAL = [name for name in SCENES if name not in (FlatGround.name, Kerb.name)]
LONG_WAY_S = 120.0
TEACHER = EvalConfig("walk", baseline="teacher")
TEACHER_COLUMNS = ("scene", "episodes", "success", "collision-free success", "falls")


@dataclass(frozen=True)
class NavigationConfig(WorkerOptions):
    """Measure the shipped navigators and their baselines in houses, and the teacher anywhere."""

    page: Path = Path("docs/indoors.md")
    """Gets both tables, each between its two markers."""
    figures: Path = Path("docs/navigation.json")
    """Everything that was measured."""
    episodes: Episodes = 100
    """Episodes of a cell; rows of further houses state their own number."""
    rows: tuple[str, ...] = ()
    """Rows to measure, by their first cells, or all; the others show what is known."""


class Table(NamedTuple):
    """A table of the page: evaluations by row, and the cells of their figures."""

    columns: Sequence[str]
    rows: dict[str, EvalConfig]
    cells: Callable[[Figures], list[str]]


def main() -> None:
    """Command line."""
    run_command(lambda: write_tables(parse(NavigationConfig, "make navigation")))


def write_tables(config: NavigationConfig) -> None:
    """Evaluate what is missing, row by row, and write what is known between the page's markers.

    Raises:
        UserError: if the page has no markers, a row is unknown, or houses do not divide episodes.
    """
    teacher = {f"`{scene}`": _teacher(scene) for scene in WITH_A_GOAL}
    tables = {
        "navigation": Table(COLUMNS, ROWS, _cells),
        "teacher": Table(TEACHER_COLUMNS, teacher, _teacher_cells),
    }
    known = [label for table in tables.values() for label in table.rows]
    known = [label for label in known if label.removesuffix(HARDER) not in OTHER_RUNS]
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
            if run := OTHER_RUNS.get(label.removesuffix(HARDER)):
                figures = store.find(replace(row, episodes=config.episodes), run)
            else:
                chosen = not config.rows or label in config.rows
                figures = _figures(config, store, row, chosen)
            blank = ["-"] * (len(table.columns) - 1)
            lines.append(table_line([label, *(table.cells(figures) if figures else blank)]))
            print(lines[-1], flush=True)
        write_between(config.page, name, "navigation", lines)


def _teacher(scene: str) -> EvalConfig:
    """The teacher in a scene, with time for the long ways of furnished houses."""
    long = scene in HOUSE_KINDS
    return replace(TEACHER, scene=scene, seconds=LONG_WAY_S if long else TEACHER.seconds)


def _figures(
    config: NavigationConfig, store: FigureStore, row: EvalConfig, chosen: bool
) -> Figures | None:
    """Figures of a row: known ones, or, if it is chosen, new ones."""
    episodes = row.episodes if row.seed == FURTHER.seed else config.episodes
    row = replace(row, episodes=episodes, workers=config.workers, cluster=config.cluster)
    if (kept := store.find(row)) or not chosen:
        return kept
    return store.keep(row, {**describe(row), **figures_of(_episodes(row))})


def _episodes(row: EvalConfig) -> list[Episode]:
    """Episodes of a row; written houses share them."""
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
