"""YAML files of settings: --config, and the config.yaml of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.runs.run import BEST, CONFIG, Run, load_checkpoint, read_yaml, yaml_bytes
from pixelgait.policies.training.config import (
    KINDS,
    FollowConfig,
    ImitateConfig,
    TrainConfig,
    WalkConfig,
    config_of_file,
)
from pixelgait.policies.training.loop import train
from pixelgait.policies.training.plan import DAggerConfig, ESConfig
from pixelgait.policies.training.train import command_line
from pixelgait.robot.bundle import SHIPPED
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.tasks.follow import FollowReward

CONFIGS = [
    WalkConfig(out=Path("new"), minutes=2.5, faults=("imu-late",)),
    FollowConfig(
        out=Path("new"),
        mirror=True,
        randomise=True,
        randomisation=Randomisation(mass=(0.7, 1.3)),
        reward=FollowReward(power=1e-05),
        es=ESConfig(directions=4, top=2),
    ),
    ImitateConfig(out=Path("new"), start=Path("iap"), dagger=DAggerConfig(courses=3)),
]


def typed(monkeypatch: pytest.MonkeyPatch, *words: object) -> TrainConfig:
    monkeypatch.setattr(sys, "argv", ["pixelgait-train", *map(str, words)])
    config = command_line()
    assert isinstance(config, TrainConfig)
    return config


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.task)
def test_the_config_file_of_a_run_repeats_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: TrainConfig
) -> None:
    file = tmp_path / CONFIG
    settings = {**config.origin(), **config.identity(), **config.plan().identity()}
    file.write_bytes(yaml_bytes(settings))
    again = typed(monkeypatch, "--config", file, "--out", "new")
    assert again.config == file
    assert {**vars(again), "config": None} == vars(config)


def test_options_take_precedence_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 7\nreward: {power: 1e-3, feet_impact: 0}\nrandomise: true\n")
    words = ("--reward.power", 0.002, "--randomisation.mass", 0.9, 1.1)
    config = typed(monkeypatch, "follow", "--config", file, "--out", "new", *words)
    assert isinstance(config, FollowConfig)
    assert (config.seed, config.reward) == (7, FollowReward(power=0.002, feet_impact=0.0))
    assert config.randomisation == Randomisation(mass=(0.9, 1.1))


@pytest.mark.parametrize("file", sorted(SHIPPED.glob(f"*/*_level/{CONFIG}")), ids=str)
def test_shipped_runs_have_a_readable_configuration(file: Path) -> None:
    assert Run(file.parent).config["task"] in KINDS


def test_a_run_from_a_file_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit; its config.yaml is equal too."""
    monkeypatch.chdir(tmp_path)
    small = "--iterations 1 --steps 20 --validation-steps 20 --validation-episodes 1 --workers 1"
    line = f"follow --out a {small} --es.directions 2 --es.top 2 --reward.power 0.001 --randomise"
    for words in (line, "--config a/config.yaml --out b"):
        train(typed(monkeypatch, *words.split()))
    assert read_yaml(Path("a", CONFIG)) == read_yaml(Path("b", CONFIG))
    first, second = (load_checkpoint(Path(run, BEST)).weights for run in "ab")
    assert np.array_equal(first, second)


def test_a_file_may_name_a_part_of_the_settings_only(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("task: walk\nout: here\n")
    assert config_of_file(file, None) == WalkConfig(out=Path("here"), config=file)
