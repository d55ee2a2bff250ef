"""The learning study: its tables, and that what was measured is not measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pixelgait.export.reports.generated import markers
from pixelgait.export.studies.learning import (
    PAPER,
    TABLES,
    VARIANTS,
    LearningConfig,
    count_patches,
    mirror_table,
    selected,
    write_tables,
)
from pixelgait.policies.high_level import Architecture, make_high_level

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "learning.json"


def test_the_tables_are_those_of_the_figures_beside_them(tmp_path: Path) -> None:
    page, kept = tmp_path / "results.md", tmp_path / "learning.json"
    page.write_text((ROOT / "docs/results.md").read_text())
    kept.write_bytes(FIGURES.read_bytes())
    write_tables(LearningConfig(page=page, figures=kept, measure=False))
    assert kept.read_bytes() == FIGURES.read_bytes()
    assert page.read_text() == (ROOT / "docs/results.md").read_text()


def test_every_size_of_a_patch_is_an_encoder_that_selects_as_much_of_the_image() -> None:
    for variant, (patch, stride) in zip(VARIANTS, PAPER, strict=False):
        encoder = variant.options.split()[1]
        network = make_high_level(Architecture(encoder), 0)
        assert network.encoder.features == 2 * selected(patch, stride)
        share = selected(patch, stride) / count_patches(patch, stride)
        assert share <= 1 / 16 + 0.01 or selected(patch, stride) == 1


def learned(variant: str, seed: int, gliding: list[float]) -> dict[str, Any]:
    images = [1000 * (seed + 1) * (i + 1) for i in range(len(gliding))]
    return {"variant": variant, "seed": seed, "images": images, "gliding": gliding}


def test_mirror_symmetry_is_worth_the_ratio_of_medians() -> None:
    rows = [
        *(learned("CNN, symmetric", seed, [0.2, 0.9, 0.1]) for seed in range(3)),
        *(learned("CNN, free", seed, [0.0, 0.2, 0.7, 0.8, 0.9]) for seed in range(3)),
        *(learned("ViT, symmetric", seed, [0.9]) for seed in range(2)),
        *(learned("ViT, free", seed, [0.1]) for seed in range(2)),
    ]
    assert mirror_table(rows)[2:] == [
        "| CNN | 2000, 4000, 6000 | 5000, 10000, 15000 | 2.5 |",
        "| ViT | 1000, 2000 | not, not | - |",
    ]


def test_what_is_known_is_written_without_training(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "learning.json"
    page.write_text("\n".join(line for part in TABLES for line in markers(part, "learning")))
    row = {
        **learned("16 / 16", 0, [0.1, 0.3, 0.2]),
        **{"study": "patches", "weights": 42},
        "walking": {"success_rate": 0.25, "distance_m": 7.04},
    }
    kept.write_text(json.dumps([row]))
    write_tables(LearningConfig(page=page, figures=kept, measure=False))
    assert "| 16 / 16 | 4 | 1 | 42 | 30 % (30) | 25 % (25) | 7.0 | 7.6 |" in page.read_text()
