"""Bundles: what was exported runs as it was trained; what was tampered with is refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pixelgait.policies.trained import trained_high_level, trained_low_level
from pixelgait.robot.bundle import (
    FILES,
    HIGH_LEVEL,
    KEYS,
    LOW_LEVEL,
    SHIPPED,
    TOLERANCE,
    BundleError,
    load_bundle,
)
from pixelgait.robot.spec import A1, GO2
from tests.conftest import make_bundle
from tests.helpers import change_contract


def test_a_training_run_is_told_from_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BundleError, match="is a training run: pixelgait-export makes a bundle of"):
        load_bundle(str(tmp_path))


@pytest.mark.parametrize("fixture", ["iap_bundle", "cnn_bundle"])
def test_onnx_equals_torch_on_a_walk(fixture: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(fixture)
    bundle = load_bundle(folder)
    high_level = trained_high_level(folder.parent / "high")
    low_level = trained_low_level(folder.parent / "low")
    from pixelgait.export.bundle.recording import record

    recording = record(high_level, low_level, seed=9001)  # another course than the export's
    assert len(recording.low_level) > 100
    assert len(recording.high_level) > 3
    for given in recording.high_level:
        onnx_decision, decision = bundle.high_level(**given), high_level.decide(**given)
        np.testing.assert_allclose(onnx_decision.latent, decision.latent, atol=TOLERANCE)
        assert onnx_decision.duration_steps == decision.duration_steps
        assert onnx_decision.attention is not None
        assert decision.attention is not None
        np.testing.assert_allclose(onnx_decision.attention, decision.attention, atol=TOLERANCE)
    for row in recording.low_level:
        targets, phase = bundle.low_level(*row.values())
        expected, expected_phase = low_level(*row.values())
        np.testing.assert_allclose(targets, expected, atol=TOLERANCE)
        np.testing.assert_allclose(np.exp(1j * phase), np.exp(1j * expected_phase), atol=TOLERANCE)


@pytest.fixture
def copy(iap_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(iap_bundle, tmp_path / "copy"))


@pytest.mark.parametrize("file", [*FILES, "contract.json"])
@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_one_changed_byte_is_refused_by_file(copy: Path, file: str, where: float) -> None:
    data = bytearray((copy / file).read_bytes())
    data[int(where * len(data))] ^= 1
    (copy / file).write_bytes(data)
    with pytest.raises(BundleError, match=file):
        load_bundle(copy)


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_key_is_refused_by_name(copy: Path, key: str) -> None:
    change_contract(copy, lambda contract: contract.pop(key))
    with pytest.raises(BundleError, match=f"'{key}' is missing"):
        load_bundle(copy)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_refused_by_name(copy: Path, file: str) -> None:
    (copy / file).unlink()
    with pytest.raises(BundleError, match=file):
        load_bundle(copy)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c["spec"]["joint_names"].reverse(), "joint_names differs"),
        (lambda c: c["spec"]["kp_nm_per_rad"].__setitem__(3, 50.0), "kp_nm_per_rad differs"),
        (lambda c: c["camera"].update(height=64), "'image': .64, 32, 3.} in the contract"),
        (lambda c: c.update(robot="spot"), "unknown robot 'spot'"),
        (lambda c: c.update(schema=99), "schema 99"),
        (lambda c: c.update(quaternion="wxyz"), "quaternion"),
        (lambda c: c.update(control_dt_s=0.02), "control_dt_s"),
    ],
)
def test_a_contract_that_does_not_fit_is_refused_by_name(
    copy: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    change_contract(copy, edit)
    with pytest.raises(BundleError, match=message):
        load_bundle(copy)


def test_another_robot_is_refused_by_name(copy: Path) -> None:
    with pytest.raises(BundleError, match="made for robot 'a1', not for 'a2'"):
        load_bundle(copy, replace(A1, name="a2"))


def test_weights_that_do_not_reproduce_the_golden_output_are_refused(copy: Path) -> None:
    """As if this CPU computed something else: other weights, hashes that fit."""
    import hashlib

    model = onnx.load(copy / "low_level.onnx")
    largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    values = np.frombuffer(largest.raw_data, np.float32) + 1e-3
    largest.raw_data = values.astype(np.float32).tobytes()
    onnx.save(model, copy / "low_level.onnx")
    digest = hashlib.sha256((copy / "low_level.onnx").read_bytes()).hexdigest()
    change_contract(copy, lambda contract: contract["files"].update({"low_level.onnx": digest}))
    with pytest.raises(BundleError, match="golden output 'joint_targets' is off by"):
        load_bundle(copy)


def test_exporting_again_replaces_the_bundle_and_keeps_what_lies_beside(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, "cnn")
    (bundle / "card.md").write_text("about this policy")
    shutil.rmtree(tmp_path / "low")
    shutil.rmtree(tmp_path / "high")
    before = (bundle / "high_level.onnx").read_bytes()
    make_bundle(tmp_path, "iap")
    assert (bundle / "high_level.onnx").read_bytes() != before
    assert (bundle / "card.md").read_text() == "about this policy"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    load_bundle(bundle)


def test_shipped_bundles_load() -> None:
    names = [folder.name for folder in SHIPPED.iterdir() if folder.is_dir()]
    assert "iap" in names
    for name in names:
        assert load_bundle(name).spec is (GO2 if name.endswith("-go2") else A1)


@pytest.mark.parametrize("graph", [HIGH_LEVEL, LOW_LEVEL])
@pytest.mark.parametrize("folder", [*sorted(SHIPPED.glob("*/")), None])
def test_graphs_say_nothing_of_the_machine_that_made_them(
    folder: Path | None, graph: str, iap_bundle: Path
) -> None:
    data = ((folder or iap_bundle) / graph).read_bytes()
    for trace in (b"stack_trace", b".py", str(Path.cwd()).encode(), b"site-packages"):
        assert trace not in data
