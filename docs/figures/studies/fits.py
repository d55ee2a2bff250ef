"""Study of fits (`make fits`): networks fitted to the same decisions under random appearance.

A teacher decides on obstacle courses, each of another appearance, with a flawed RGB-D camera. Every
network is fitted to these decisions with the same number of steps and images, from the channels it
sees. Figures: docs/fits.json; table: docs/studies.md.
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
from pixelgait.policies.training.demonstrations import Demonstrations
from pixelgait.policies.training.fitting import Lessons, fit, turn_error
from pixelgait.policies.training.loop import train
from pixelgait.policies.training.plan import DAggerConfig
from pixelgait.robot.cli.options import Count, Workers, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable

PART = "fits"
LEARNED, UNSEEN = 300, 80  # courses, all different
MEMORY = "gru:64"
CHANNELS = {1: slice(3, 4), 3: slice(0, 3), 4: slice(0, 4)}  # of RGB-D
SEEN = {1: "depth", 3: "RGB", 4: "RGB-D"}
NORMALISED = "strided:standardise=true,normalise=true"
GATED = "iap:patch=4,stride=4,selected=16,values=8,placed=true,gated=true"
SPARSE = "iap:patch=4,stride=4,selected=16,values=8,sparse=true"
STEM = "iap:selected=16,values=8,sparse=true,stem=32"
CENTRES = "iap:patch=4,stride=4,selected=16"  # centres of patches, as in the paper
# Networks and their number of channels.
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
    """Record decisions, fit every network to them, and write the table."""

    page: Path = Path("docs/studies.md")
    """Gets the table, between its two markers."""
    figures: Path = Path("docs/fits.json")
    """Everything that was measured."""
    out: Path = Path("runs/fits")
    """Folder of the decisions; existing ones stay."""
    steps: Count = 400
    """Steps of gradient descent, of 512 images each."""
    seeds: Count = 1
    """Seeds of every network, from 0 on."""
    networks: tuple[str, ...] = ()
    """Encoders to fit, as the table calls them, or all; the others show what is known."""
    workers: Workers = 2
    """Worker processes of the teacher."""
    measure: bool = True
    """Fit what is missing; otherwise only write what is known."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_table(parse(FitsConfig, "make fits")))


def write_table(config: FitsConfig) -> None:
    """Measure what is missing, and write what is known between the page's markers.

    Raises:
        UserError: if the page has no markers, a network is unknown, or the file holds other
            figures.
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
    """Rows of all networks, as Markdown."""
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
    """Fit a network; its error on unseen courses."""
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
    """Decisions and images of these channels, on courses to learn from and on unseen ones."""
    shown = Demonstrations.load(_demonstrated(config))
    seen = torch.from_numpy(shown.images)[..., CHANNELS[channels]].contiguous()
    lessons = Lessons.of([shown], seen)
    unseen_from = int(np.flatnonzero(shown.starts)[LEARNED])
    return lessons[:unseen_from], lessons[unseen_from:]


def _demonstrated(config: FitsConfig) -> Path:
    """File of the teacher's decisions on all courses, recorded now if missing."""
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
