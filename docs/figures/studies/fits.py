"""What networks learn from the same decisions, under looks. Run as `make fits`.

A teacher shows what it does on obstacle courses, each of another look, by a flawed RGB-D camera;
every network is fitted to that, in as many steps of as many images, from the channels it sees.
What was measured is kept in docs/fits.json, and its table in docs/studies.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from docs.figures.results.figure_store import DEFINED, Figures, find_cell, keep_cell, read_figures
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.policies.high_level import Architecture, make_high_level
from pixelgait.policies.training.config import ImitateConfig
from pixelgait.policies.training.fitting import Demonstrations, Lessons, fit, turn_error
from pixelgait.policies.training.loop import train
from pixelgait.policies.training.plan import DAggerConfig
from pixelgait.robot.cli.options import Count, Workers, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable

PART = "fits"
LEARNED, UNSEEN = 300, 80  # courses, none twice
MEMORY = "gru:64"
CHANNELS = {1: slice(3, 4), 3: slice(0, 3), 4: slice(0, 4)}  # of RGB-D
SEEN = {1: "depth", 3: "RGB", 4: "RGB-D"}
NORMALISED = "strided:standardise=true,normalise=true"
GATED = "iap:patch=4,stride=4,selected=16,values=8,placed=true,gated=true"
SPARSE = "iap:patch=4,stride=4,selected=16,values=8,sparse=true"
STEM = "iap:selected=16,values=8,sparse=true,stem=32"
CENTRES = "iap:patch=4,stride=4,selected=16"  # where they are, as in the paper
# Networks and what they see.
NETWORKS = (
    *((each, 3) for each in ("cnn", "vit", "siet:graph=flip", "sit", "strided", NORMALISED)),
    ("iap:patch=8,stride=8,selected=4,values=32,placed=true,gated=true", 3),
    *((each, 3) for each in (CENTRES, f"{CENTRES},straight=true", GATED, SPARSE, STEM)),
    ("iap:selected=16,values=8,placed=true,gated=true,stem=32", 4),
    *((each, 4) for each in (NORMALISED, GATED, SPARSE, STEM)),
    *((each, 1) for each in ("strided:normalise=true", GATED, SPARSE, STEM)),
)


@dataclass(frozen=True)
class FitsConfig:
    """Show decisions, fit every network to them, and write what is known."""

    page: Path = Path("docs/studies.md")
    """Gets the table, between its two markers."""
    figures: Path = Path("docs/fits.json")
    """Everything that was measured."""
    out: Path = Path("runs/fits")
    """Folder of the decisions; what is there stays."""
    steps: Count = 400
    """Of gradient descent, of 512 images each."""
    seeds: Count = 1
    """Of every network, from 0 on."""
    networks: tuple[str, ...] = ()
    """Encoders to fit, as the table calls them, or all; of the rest is shown what is known."""
    workers: Workers = 2
    """Worker processes, which show."""
    measure: bool = True
    """Fit what is missing; otherwise only write what is known."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_table(parse(FitsConfig, "make fits")))


def write_table(config: FitsConfig) -> None:
    """Measure what is missing, and write what is known between the page's markers.

    Raises:
        UserError: the page has no such lines, there is no such network, or there are figures of
            another kind.
    """
    require_markers(config.page, PART, "fits")
    known = [encoder for encoder, _ in NETWORKS]
    if not set(config.networks) <= set(known):
        raise UserError(f"--networks: choose from {', '.join(dict.fromkeys(known))}")
    require_writable(config.figures)
    kept = read_figures(config.figures) if config.figures.exists() else []
    for encoder, channels, seed in _chosen(config) if config.measure else ():
        cell = _cell(config, encoder, channels, seed)
        if find_cell(kept, cell) is None:
            figures = _fitted(config, encoder, channels, seed)
            print(f"{SEEN[channels]}, {encoder}, seed {seed}: {figures['error']:.3f}", flush=True)
            keep_cell(config.figures, kept, cell, figures)
    lines = table(config, kept)
    print("\n".join(lines))
    write_between(config.page, PART, "fits", lines)


def table(config: FitsConfig, kept: list[Figures]) -> list[str]:
    """A row for every network."""
    lines = table_head(("sees", "encoder", "weights", "error of turns"))
    for encoder, channels in NETWORKS:
        cells = [_cell(config, encoder, channels, seed) for seed in range(config.seeds)]
        found = [each for each in (find_cell(kept, cell) for cell in cells) if each]
        errors = ", ".join(f"{each['error']:.3f}" for each in found) or "-"
        weights = str(found[0]["weights"]) if found else "-"
        lines.append(table_line([SEEN[channels], f"`{encoder}`", weights, errors]))
    if straight := {round(each["straight"], 3) for each in kept}:
        error = ", ".join(map(str, sorted(straight)))
        lines.append(table_line(["nothing", "always straight ahead", "-", error]))
    return lines


def _chosen(config: FitsConfig) -> Iterator[tuple[str, int, int]]:
    for seed in range(config.seeds):
        for encoder, channels in NETWORKS:
            if not config.networks or encoder in config.networks:
                yield encoder, channels, seed


def _cell(config: FitsConfig, encoder: str, channels: int, seed: int) -> Figures:
    courses = {"learned_courses": LEARNED, "unseen_courses": UNSEEN}
    defined = {"steps": config.steps, "memory": MEMORY, **courses}
    return {"encoder": encoder, "channels": channels, "seed": seed, DEFINED: defined}


def _fitted(config: FitsConfig, encoder: str, channels: int, seed: int) -> Figures:
    """What a network has learned, by its error on courses that it has not seen."""
    learned, unseen = _lessons(config, channels)
    named = f"{encoder}{',' if ':' in encoder else ':'}channels={channels}"
    network = make_high_level(Architecture(named, mirror=True, memory=MEMORY), seed)
    steps = DAggerConfig(steps=config.steps, batch=512, recolour=channels > 1)
    fit(network, learned, steps, seed, label=encoder)
    return {
        "weights": sum(each.numel() for each in network.parameters()),
        "decisions": len(learned.seen),
        "error": turn_error(network, unseen),
        "straight": float(unseen.latents[:, 1].square().mean()),
    }


def _lessons(config: FitsConfig, channels: int) -> tuple[Lessons, Lessons]:
    """Decisions on courses to learn by and on unseen ones, and what some channels see of them."""
    shown = Demonstrations.load(_shown(config))
    seen = torch.from_numpy(shown.images)[..., CHANNELS[channels]].contiguous()
    lessons = Lessons.of(shown, seen)
    unseen_from = int(np.flatnonzero(shown.starts)[LEARNED])
    return lessons[:unseen_from], lessons[unseen_from:]


def _shown(config: FitsConfig) -> Path:
    """The teacher's decisions on all courses, shown now if they are not there."""
    folder = config.out / f"{LEARNED + UNSEEN}-courses"
    file = folder / "demonstrations" / "round-001.npz"
    if not file.exists():
        run = ImitateConfig(
            out=folder,
            resume=(folder / "last.npz").exists(),
            appearance="train",
            difficulty=1.0,
            randomise=True,
            encoder="strided:channels=4",
            memory=MEMORY,
            iterations=1,
            validation_episodes=1,
            workers=config.workers,
            dagger=DAggerConfig(courses=LEARNED + UNSEEN, steps=1),
        )
        train(run)
    return file


if __name__ == "__main__":
    main()
