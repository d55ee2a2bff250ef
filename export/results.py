"""The README's results, regenerated from the shipped bundles: table, curves, paths, attention.

Run as `make results`. Evaluations that are already in the output folder are not repeated, as long
as they are of the same bundle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from pixelgait.export import pictures
from pixelgait.policies.runs import load_checkpoint
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.low_level import WEIGHTS
from pixelgait.sim.evaluate import EvalConfig, evaluate, film, run_episodes
from pixelgait.sim.obstacle_course import ObstacleCourse

POLICIES = tuple(name for name in ("iap", "cnn") if (SHIPPED / name).is_dir())
DIFFICULTIES = {"low": 0.0, "medium": 0.5, "high": 1.0}
PATH_SEEDS = 6
BEGIN, END = "<!-- results: written by make results -->", "<!-- end of results -->"


@dataclass(frozen=True)
class ResultsConfig:
    """Evaluate the shipped policies and their controls, and write the README's results."""

    readme: Path = Path("README.md")
    """Gets the table, between its two markers."""
    pictures: Path = Path("docs")
    """Folder of the pictures."""
    out: Path = Path("runs/results")
    """Folder of the figures, one JSON per row and difficulty."""
    episodes: int = 100
    workers: int = 2


ROWS = {
    "teacher (knows map and pose)": EvalConfig("iap", teacher=True),
    "**IAP**": EvalConfig("iap"),
    "CNN": EvalConfig("cnn"),
    "IAP, blind (gray image)": EvalConfig("iap", blind=True),
    "IAP, first image frozen": EvalConfig("iap", freeze_image=True),
    "random commands": EvalConfig("iap", random=True),
}


def main() -> None:
    """Command line."""
    run_command(lambda: write_results(tyro.cli(ResultsConfig, prog="make results")))


def write_results(config: ResultsConfig) -> None:
    """Evaluate what is missing, then write table and pictures.

    Raises:
        UserError: the README has no markers to write between.
    """
    text = config.readme.read_text()
    if BEGIN not in text or END not in text:
        raise UserError(f"{config.readme}: no lines '{BEGIN}' and '{END}' to write between")
    table = [
        *HEADER,
        *(_line(config, label, row) for label, row in ROWS.items() if row.bundle in POLICIES),
    ]
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_atomic(config.readme, "\n".join([before + BEGIN, *table, END + after]).encode())
    curves = {name: _curves(name) for name in POLICIES}
    pictures.learning_curves(config.pictures / "curves.png", curves)
    for name in POLICIES:
        _draw_paths(config, name)
    film(EvalConfig("iap", workers=1), config.pictures / "attention.png")
    print("\n".join(table))


HEADER = (
    "| high level | weights | low | medium | high | metres | falls | images per episode |",
    "|---|---|---|---|---|---|---|---|",
)


def _line(config: ResultsConfig, label: str, row: EvalConfig) -> str:
    figures = {name: _figures(config, row, value) for name, value in DIFFICULTIES.items()}
    rates = [_rate(each, "success_rate") for each in figures.values()]
    medium = figures["medium"]
    sees = not (row.teacher or row.random)
    cells = [
        label,
        str(_weights(row.bundle)) if sees else "-",
        *rates,
        f"{medium['distance_m']:.1f}",
        _rate(medium, "fall_rate"),
        f"{medium['images_per_episode']:.0f}" if sees else "-",
    ]
    return f"| {' | '.join(cells)} |"


def _rate(figures: dict[str, Any], name: str) -> str:
    low, high = (100.0 * value for value in figures["interval_95"][name])
    return f"{100.0 * figures[name]:.0f} % [{low:.0f}, {high:.0f}]"


def _figures(config: ResultsConfig, row: EvalConfig, difficulty: float) -> dict[str, Any]:
    """The evaluation of one row at one difficulty, from the output folder if it is there."""
    contract = json.loads((SHIPPED / row.bundle / CONTRACT).read_text())
    path = config.out / f"{row.bundle}-{row.control()}-{difficulty}.json"
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text())
        if kept["bundle_sha256"] == contract["sha256"] and len(kept["episodes"]) == config.episodes:
            return kept
    print(f"{row.bundle} ({row.control()}), difficulty {difficulty}", flush=True)
    evaluation = replace(
        row, difficulty=difficulty, episodes=config.episodes, workers=config.workers
    )
    figures = {**evaluate(evaluation), "bundle_sha256": contract["sha256"]}
    write_atomic(path, json_bytes(figures))
    return figures


def _weights(bundle: str) -> int:
    high_level = load_checkpoint(SHIPPED / bundle / "high_level" / "best.npz")
    return int(high_level.weights.size) + WEIGHTS


def _curves(bundle: str) -> list[list[dict[str, float]]]:
    """Learning curves of all training runs of a policy, the shipped one first."""
    folder = SHIPPED / bundle
    files = [folder / "high_level" / "curve.json", *sorted(folder.glob("seeds/*/curve.json"))]
    return [json.loads(file.read_text()) for file in files]


def _draw_paths(config: ResultsConfig, name: str) -> None:
    evaluation = EvalConfig(name, episodes=PATH_SEEDS, workers=config.workers)
    courses, tracks = [], []
    for episode in run_episodes(evaluation):
        course = ObstacleCourse(evaluation.difficulty)
        course.layout(np.random.default_rng(episode.seed))
        courses.append(course)
        tracks.append(episode.path)
    pictures.paths_on_courses(config.pictures / f"paths-{name}.png", courses, tracks)


if __name__ == "__main__":
    main()
