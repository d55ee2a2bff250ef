"""The learning study: its tables, and that what was measured is not measured again."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docs.figures.studies import encoders, learning, patches, symmetry
from docs.figures.studies.learning import TABLES, LearningConfig, write_tables
from docs.figures.studies.patches import PAPER, count_patches, selected
from docs.figures.studies.variant import Variant
from pixelgait.export.markdown_sections import markers
from pixelgait.policies.encoder_registry import ENCODERS
from pixelgait.policies.high_level import Architecture, make_high_level
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "learning.json"


def empty_page(folder: Path) -> Path:
    """One with the lines that tables are written between, and nothing else."""
    page = folder / "page.md"
    page.write_text("\n".join(line for part in TABLES for line in markers(part, "learning")))
    return page


def test_the_tables_are_those_of_the_figures_beside_them(tmp_path: Path) -> None:
    page, kept = tmp_path / "studies.md", tmp_path / "learning.json"
    page.write_text((ROOT / "docs/studies.md").read_text())
    kept.write_bytes(FIGURES.read_bytes())
    write_tables(LearningConfig(page=page, figures=kept, measure=False))
    assert kept.read_bytes() == FIGURES.read_bytes()
    assert page.read_text() == (ROOT / "docs/studies.md").read_text()


def test_every_size_of_a_patch_is_an_encoder_that_selects_as_much_of_the_image() -> None:
    for variant, (patch, stride) in zip(patches.VARIANTS, PAPER, strict=True):
        encoder = variant.command.split()[3]
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
        *(learned("SiT, symmetric", seed, [0.0, 0.9]) for seed in range(2)),
        *(learned("SiT, free", seed, [0.9]) for seed in range(2)),
    ]
    assert symmetry.table(rows)[2:] == [
        "| CNN | 2000, 4000, 6000 | 5000, 10000, 15000 | 2.5 |",
        "| ViT | 1000, 2000 | not, not | - |",
        "| SiT | 2000, 4000 | 1000, 2000 | 0.5 |",
    ]


def test_what_is_known_is_written_without_training(tmp_path: Path) -> None:
    page, kept = empty_page(tmp_path), tmp_path / "learning.json"
    row = {
        **learned("16 / 16", 0, [0.1, 0.3, 0.2]),
        **{"study": "patches", "weights": 42},
        "walking": {"medium": {"success_rate": 0.25, "distance_m": 7.04}},
    }
    kept.write_text(json.dumps([row]))
    write_tables(LearningConfig(page=page, figures=kept, measure=False))
    assert "| 16 / 16 | 4 | 1 | 42 | 30 % (30) | 25 % (25) | 7.0 | 7.6 |" in page.read_text()


def test_encoders_are_compared_on_the_courses_they_walked() -> None:
    walking = {"medium": {"success_rate": 0.95}, "high": {"success_rate": 0.4}}
    told = {"weights": 42, "image_ms": 0.123, "walking": walking}
    rows = [{**learned("vit", 0, [0.5, 0.925, 0.9]), **told}]
    assert encoders.table(rows)[2:] == [
        "| `vit` | 42 | 0.12 | 2000 | 92 % (92) | 95 % (95) | 40 % (40) | - | - |"
    ]
    assert len(encoders.cameras_table(rows)) == 2  # by no other camera has it walked
    unwalked = {**learned("vit", 0, [0.5]), "weights": 42, "walking": {}}
    assert encoders.table([unwalked])[2] == "| `vit` | 42 | - | not | 50 % (50) | - | - | - | - |"


def test_encoders_are_compared_by_crooked_cameras() -> None:
    walking = {"medium": {"success_rate": 1.0}, "camera mirrored": {"success_rate": 0.1}}
    rows = [{**learned("sit", seed, [1.0]), "walking": walking} for seed in range(2)]
    assert encoders.cameras_table(rows)[2:] == [
        "| `sit` | 100 % (100, 100) | - | - | 10 % (10, 10) |"
    ]


def test_every_encoder_but_variants_of_a_kernel_is_compared() -> None:
    compared = {name.partition(":")[0] for name in encoders.IMITATION}
    kernels = {name for name in ENCODERS if name.startswith("iap-")}
    assert compared == {*ENCODERS} - kernels - {"brute-force"}


def test_a_study_nobody_knows_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    page = empty_page(tmp_path)
    config = LearningConfig(page=page, figures=tmp_path / "f.json", out=tmp_path, seeds=1)
    with pytest.raises(UserError, match="--studies: choose from patches, mirror, encoders"):
        write_tables(replace(config, studies=("patch",)))
    with pytest.raises(UserError, match="--variants: choose from 1 / 1"):
        write_tables(replace(config, variants=("8/8",)))
    with pytest.raises(UserError, match="--courses: choose from low, medium"):
        write_tables(replace(config, courses=("easy",)))


@pytest.mark.parametrize("left", ["curve.json", "bundle/high_level.onnx"])
def test_a_run_that_was_killed_before_its_bundle_was_whole_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """examples/ppo_steer.py writes its curve first, then a bundle, whose contract is last."""
    page = empty_page(tmp_path)
    monkeypatch.setattr(encoders, "VARIANTS", (Variant("encoders", "ppo", "python -c exit(3)"),))
    file = tmp_path / "encoders-ppo-0" / left
    file.parent.mkdir(parents=True)
    file.write_text("[]")
    (tmp_path / "encoders-ppo-0.command").write_text("python -c exit(3) --seed 0")
    config = LearningConfig(
        page=page, figures=tmp_path / "f.json", out=tmp_path, seeds=1, studies=("encoders",)
    )
    with pytest.raises(UserError, match=r"-c 'exit.3.' .*: exit code 3"):
        write_tables(config)


def test_a_run_that_was_killed_is_a_failure_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a kernel that is out of memory: others of the study go on."""
    page = empty_page(tmp_path)
    killed = 'python -c "import os; os.kill(os.getpid(), 9)"'
    monkeypatch.setattr(encoders, "VARIANTS", (Variant("encoders", "ppo", killed),))
    config = LearningConfig(
        page=page, figures=tmp_path / "f.json", out=tmp_path, seeds=2, studies=("encoders",)
    )
    with pytest.raises(UserError, match=r"ppo, seed 0: .*code -9.*ppo, seed 1: .*code -9"):
        write_tables(config)


def test_a_run_of_another_command_is_not_taken_for_this_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "encoders-cnn-0").mkdir()
    (tmp_path / "encoders-cnn-0.command").write_text("pixelgait-train imitate --seed 0")
    more = Variant("encoders", "cnn", "pixelgait-train imitate --iterations 4")
    monkeypatch.setattr(encoders, "VARIANTS", (more,))
    config = LearningConfig(
        page=empty_page(tmp_path),
        figures=tmp_path / "f.json",
        out=tmp_path,
        seeds=1,
        studies=("encoders",),
    )
    with pytest.raises(UserError, match=r"encoders-cnn-0: expected a run by '.*--iterations 4"):
        write_tables(config)


@pytest.mark.parametrize("former", ["of others", "its own"])
def test_a_row_is_that_of_one_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: str
) -> None:
    """A run that had to be trained anew, by other code, added its walks to the former's row."""
    kept, run = tmp_path / "learning.json", tmp_path / "encoders-cnn-0"
    shutil.copytree(SHIPPED / "iap" / "high_level", run)  # validated after every round
    own = hashlib.sha256((run / "best.npz").read_bytes()).hexdigest()
    row = {
        **{"study": "encoders", "variant": "cnn", "seed": 0, "command": "train --seed 0"},
        **{"weights": 42, "images": [1000], "gliding": [0.1]},
        **{"commit": "a former one", "walking": {"medium": {"success_rate": 0.5}}},
        "weights_sha256": own if former == "its own" else "others",
    }
    kept.write_text(json.dumps([row]))
    walks = Variant("encoders", "cnn", "train", ("medium", "high"), episodes=1)
    monkeypatch.setattr(encoders, "VARIANTS", (walks,))
    monkeypatch.setattr(learning, "_train", lambda *_: None)
    monkeypatch.setattr(learning, "_walked", lambda *_: {"success_rate": 1.0})
    page, studies = empty_page(tmp_path), ("encoders",)
    write_tables(LearningConfig(page=page, figures=kept, out=tmp_path, seeds=1, studies=studies))
    [after] = json.loads(kept.read_text())
    walked = {name: each["success_rate"] for name, each in after["walking"].items()}
    known = 0.5 if former == "its own" else 1.0
    assert walked == {"medium": known, "high": 1.0}
    assert (after["commit"] == "a former one") == (former == "its own")


@pytest.mark.long
def test_what_is_missing_is_trained_and_walked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, kept = empty_page(tmp_path), tmp_path / "learning.json"
    small = Variant(
        "encoders",
        "cnn",
        "pixelgait-train imitate --encoder cnn --iterations 1 --dagger.courses 2 --dagger.steps 2 "
        "--steps 100 --validation-steps 100 --validation-episodes 2",
        ("medium", "camera on its side"),
        episodes=1,
    )
    deaf = replace(small, name="vit", command="pixelgait-train imitate --encoder ear")
    monkeypatch.setattr(encoders, "VARIANTS", (deaf, small))
    config = LearningConfig(
        page=page, figures=kept, out=tmp_path, seeds=1, workers=1, studies=("encoders",)
    )
    killed = tmp_path / "encoders-cnn-0"  # before its first checkpoint
    killed.mkdir()
    (killed / "config.json").write_text('{"task": "imitate"}')
    killed.with_suffix(".command").write_text(f"{small.command} --seed 0")
    with pytest.raises(UserError, match=r"vit, seed 0: .*--encoder ear.*: exit code 1"):
        write_tables(replace(config, courses=("medium",)))  # the other was measured
    monkeypatch.setattr(encoders, "VARIANTS", (small,))
    assert [*json.loads(kept.read_text())[0]["walking"]] == ["medium"]
    write_tables(config)
    written = kept.read_text()
    [run] = json.loads(written)
    assert run["command"].startswith("pixelgait-train imitate --encoder cnn")
    assert [*run["walking"]] == ["medium", "camera on its side"]
    assert 0.0 < run["image_ms"] < 100.0
    assert "| `cnn` | 14555 |" in page.read_text()
    write_tables(config)
    assert kept.read_text() == written
    del run["walking"]["medium"]
    kept.write_text(json.dumps([run]))
    write_tables(config)
    assert json.loads(kept.read_text())[0]["walking"] == json.loads(written)[0]["walking"]
