"""The camera's mount: from training over the bundle to simulation and the node's check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pixelgait.export.exporter import export
from pixelgait.export.options import ExportConfig
from pixelgait.policies.evaluation.evaluate import player
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.high_level import Architecture, flat_weights, make_high_level
from pixelgait.policies.runs.trained import trained_mount
from pixelgait.policies.training.config import ImitateConfig
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.lens import misplaced
from pixelgait.robot.spec import A1, GO2, TrainedMounts
from tests.conftest import gentle_weights, write_run

PLACE = (0.31, 0.02, 0.12)


@pytest.mark.slow
def test_the_mount_of_a_training_is_that_of_the_bundle_and_of_what_runs_it(tmp_path: Path) -> None:
    low = write_run(tmp_path / "low", "follow", gentle_weights())
    weights = flat_weights(make_high_level(Architecture("iap"), seed=1))
    trained = {"camera": [*PLACE], "pitch": None, "camera_fov": 1.0}
    high = write_run(tmp_path / "high", "imitate", weights, **trained)
    export(ExportConfig(tmp_path / "b", low, high_level=high, pitch=0.5))
    mount = load_bundle(tmp_path / "b").spec.camera
    assert (mount.position_m, mount.pitch_down_rad, mount.vertical_fov_rad) == (PLACE, 0.5, 1.0)
    _, body, _ = player(EvalConfig(str(tmp_path / "b"), scene="flat"))
    assert body.camera.mount.position_m == PLACE  # type: ignore[attr-defined]
    body.close()
    pose = np.eye(4)
    pose[:3, 3] = A1.camera.position_m
    assert misplaced(pose, load_bundle(tmp_path / "b").trained_mounts) == (
        "sits at (0.20, 0.00, 0.05) m, the policy was made for (0.31, 0.02, 0.12) m"
    )


@pytest.mark.slow
def test_a_bundle_knows_the_mounts_and_the_sampling_of_its_training(tmp_path: Path) -> None:
    low = write_run(tmp_path / "low", "follow", gentle_weights())
    encoder = "strided:channels=1"
    weights = flat_weights(make_high_level(Architecture(encoder), seed=1))
    ranges = {"eye_height_m": [0.25, 0.7], "eye_pitch_rad": [0.03, 0.43]}
    trained = {"encoder": encoder, "randomisation": ranges, "sampling": "near"}
    high = write_run(tmp_path / "high", "imitate", weights, **trained)
    export(ExportConfig(tmp_path / "b", low, high_level=high))
    mounts = load_bundle(tmp_path / "b").trained_mounts
    assert mounts.up_m == pytest.approx((0.25 - A1.stand_height_m, 0.7 - A1.stand_height_m))
    assert mounts.pitch_down_rad == (0.03, 0.43)
    pose = np.eye(4)
    pose[:3, 3] = (*A1.camera.position_m[:2], 0.4)
    assert misplaced(pose, mounts) is None
    assert "the policy was made for (0.20, 0.00, 0.05) m" in str(
        misplaced(pose, TrainedMounts.one(A1.camera))
    )
    _, body, _ = player(EvalConfig(str(tmp_path / "b"), scene="flat"))
    assert body.camera.sampling == "near"  # type: ignore[attr-defined]
    body.close()


def test_a_mount_counts_for_the_robot_that_it_was_trained_on(tmp_path: Path) -> None:
    high = write_run(tmp_path / "high", "imitate", np.zeros(3), camera=[*PLACE])
    assert trained_mount(high, A1).position_m == PLACE
    assert trained_mount(high, GO2) is GO2.camera


def test_training_sees_through_the_camera_of_its_options(tmp_path: Path) -> None:
    config = ImitateConfig(out=tmp_path / "run", robot="go2", camera=PLACE)
    mount = config.plan().spec.camera
    assert mount.position_m == PLACE
    assert mount.pitch_down_rad == pytest.approx(GO2.camera.pitch_down_rad)
