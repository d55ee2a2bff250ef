"""The learning study: a run belongs to its command and its weights, and is measured once."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from docs.figures.studies import encoders, learning, symmetry
from docs.figures.studies.learning import TABLES, LearningConfig, write_tables
from docs.figures.studies.variant import Variant
from pixelgait.export.markdown_sections import markers
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import file_sha256


def study(folder: Path, monkeypatch: pytest.MonkeyPatch, *variants: Variant) -> LearningConfig:
    """A study of these variants of encoders alone, with one seed, in an empty page."""
    page = folder / "page.md"
    page.write_text("\n".join(line for part in TABLES for line in markers(part, "learning")))
    monkeypatch.setattr(encoders, "VARIANTS", variants)
    return LearningConfig(
        page=page, figures=folder / "f.json", out=folder, seeds=1, studies=("encoders",), workers=1
    )


def test_mirror_symmetry_gives_the_ratio_of_medians() -> None:
    def learned(variant: str, seed: int, gliding: list[float]) -> dict[str, object]:
        images = [1000 * (seed + 1) * (i + 1) for i in range(len(gliding))]
        return {"variant": variant, "seed": seed, "images": images, "gliding": gliding}

    rows = [
        *(learned("CNN, symmetric", seed, [0.2, 0.9, 0.1]) for seed in range(3)),
        *(learned("CNN, free", seed, [0.0, 0.2, 0.7, 0.8, 0.9]) for seed in range(3)),
        *(learned("ViT, symmetric", seed, [0.9]) for seed in range(2)),
        *(learned("ViT, free", seed, [0.1]) for seed in range(2)),
    ]
    assert symmetry.table(rows)[2:] == [
        "| CNN | 2000, 4000, 6000 | 5000, 10000, 15000 | 2.5 |",
        "| ViT | 1000, 2000 | not, not | - |",
    ]


def test_a_failed_run_is_reported_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = 'python -c "import os; os.kill(os.getpid(), 9)"'
    config = study(tmp_path, monkeypatch, Variant("encoders", "ppo", killed))
    with pytest.raises(UserError, match=r"ppo, seed 0: .*code -9.*ppo, seed 1: .*code -9"):
        write_tables(replace(config, seeds=2))


def test_a_run_of_another_command_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "encoders-cnn-0").mkdir()
    (tmp_path / "encoders-cnn-0.command").write_text("pixelgait-train imitate --seed 0")
    more = Variant("encoders", "cnn", "pixelgait-train imitate --iterations 4")
    with pytest.raises(UserError, match=r"encoders-cnn-0: expected a run by '.*--iterations 4"):
        write_tables(study(tmp_path, monkeypatch, more))


@pytest.mark.long
@pytest.mark.parametrize("same_weights", [True, False])
def test_figures_of_other_weights_are_dropped_from_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_weights: bool
) -> None:
    walks = Variant("encoders", "cnn", "train", ("medium", "high"), episodes=1)
    config, run = study(tmp_path, monkeypatch, walks), tmp_path / "encoders-cnn-0"
    shutil.copytree(SHIPPED / "iap" / "high_level", run)  # validated after every round
    row = {
        **{"study": "encoders", "variant": "cnn", "seed": 0, "command": "train --seed 0"},
        **{"weights": 42, "images": [1000], "gliding": [0.1]},
        "walking": {"medium": {"success_rate": 0.5}},
        "weights_sha256": file_sha256(run / "best.npz") if same_weights else "other",
    }
    config.figures.write_text(json.dumps([row]))
    monkeypatch.setattr(learning, "_train", lambda *_: None)
    monkeypatch.setattr(learning, "_walked", lambda *_: {"success_rate": 1.0})
    write_tables(config)
    [after] = json.loads(config.figures.read_text())
    walked = {name: each["success_rate"] for name, each in after["walking"].items()}
    assert walked == {"medium": 0.5 if same_weights else 1.0, "high": 1.0}


@pytest.mark.long
def test_missing_runs_are_trained_and_walked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (
        "pixelgait-train imitate --encoder cnn --iterations 1 --dagger.courses 2 --dagger.steps 2 "
        "--steps 100 --validation-steps 100 --validation-episodes 2"
    )
    small = Variant("encoders", "cnn", command, ("medium", "camera on its side"), episodes=1)
    config = study(tmp_path, monkeypatch, small)
    killed = tmp_path / "encoders-cnn-0"  # before its first checkpoint
    killed.mkdir()
    (killed / "config.yaml").write_text('{"task": "imitate"}')
    killed.with_suffix(".command").write_text(f"{command} --seed 0")
    write_tables(config)
    written = config.figures.read_text()
    [run] = json.loads(written)
    assert [*run["walking"]] == ["medium", "camera on its side"]
    assert "| `cnn` | 14555 |" in config.page.read_text()
    write_tables(config)
    assert config.figures.read_text() == written
