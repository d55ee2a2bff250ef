"""Bundles: exported policies equal torch; damaged ones are refused by name."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

from pixelgait.export.parity import record
from pixelgait.policies.high_level import StraightAhead
from pixelgait.policies.low_level import LinearGraph
from pixelgait.policies.runs.trained import trained_high_level, trained_low_level
from pixelgait.robot.bundle import (
    FILES,
    HIGH_LEVEL,
    KEYS,
    LOW_LEVEL,
    OBJECTS,
    SHIPPED,
    TOLERANCE,
    BundleError,
    load_bundle,
    shipped_low_level,
)
from pixelgait.robot.control.low_level import act, features
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.robot.runtime.state_machine import Inputs, Operation, OperatorCommands, RobotState
from pixelgait.robot.spec import A1, GO2, ROBOTS
from tests.conftest import make_bundle
from tests.helpers import change_contract, no_image

NEEDS = "sensor_timeouts needs joints, imu, camera"


def test_a_training_run_is_not_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{}")
    with pytest.raises(BundleError, match="is a training run: pixelgait-export makes a bundle of"):
        load_bundle(str(tmp_path))


@pytest.mark.parametrize(
    "fixture", [pytest.param("iap_bundle", marks=pytest.mark.slow), "cnn_bundle"]
)
def test_onnx_equals_torch_on_a_walk(fixture: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(fixture)
    bundle = load_bundle(folder)
    high_level = trained_high_level(folder.parent / "high")
    low_level = trained_low_level(folder.parent / "low")
    graph = LinearGraph(low_level)
    recording = record(high_level, graph, seed=9001)  # not the export's course
    assert len(recording.low_level) > 100
    assert len(recording.high_level) > 3
    for given in recording.high_level:
        onnx_decision, decision = bundle.high_level(**given), high_level.decide(**given)
        np.testing.assert_allclose(onnx_decision.latent, decision.latent, atol=TOLERANCE)
        assert onnx_decision.duration_steps == decision.duration_steps
        assert onnx_decision.attention is not None
        assert decision.attention is not None
        np.testing.assert_allclose(onnx_decision.attention, decision.attention, atol=TOLERANCE)
    names = ["joint_targets", "next_phase"]
    for row in recording.low_level:
        given = {name: value.astype(np.float32) for name, value in row.items()}
        targets, phase = bundle._graphs[LOW_LEVEL].run(names, given)
        action = low_level.action(features(*row.values()))
        expected, expected_phase = act(A1, row["latent"], action, row["phase"], row["joint_angles"])
        np.testing.assert_allclose(targets, expected, atol=TOLERANCE)
        np.testing.assert_allclose(np.exp(1j * phase), np.exp(1j * expected_phase), atol=TOLERANCE)


def test_a_policy_with_rare_decisions_is_compared_with_torch_on_dozens_of_images() -> None:
    """Untrained networks decide rarely: two images alone would not show a constant."""
    folder = SHIPPED / "walk" / "low_level"
    recording = record(StraightAhead(), LinearGraph(trained_low_level(folder)), seed=9001)
    assert len(recording.high_level) > 30


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


@pytest.mark.parametrize("depth", [900, 200_000])
@pytest.mark.parametrize("text", ["[", '{"schema":'])
def test_a_deeply_nested_contract_is_refused(copy: Path, text: str, depth: int) -> None:
    end = {"[": "]", "{": "}"}[text[0]]
    (copy / "contract.json").write_text(depth * text + "1" + depth * end)
    with pytest.raises(BundleError, match=r"contract\.json"):
        load_bundle(copy)


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_key_is_refused_by_name(copy: Path, key: str) -> None:
    change_contract(copy, lambda contract: contract.pop(key))
    with pytest.raises(BundleError, match=f"'{key}' is missing"):
        load_bundle(copy)


@pytest.mark.parametrize("key", OBJECTS)
@pytest.mark.parametrize("value", [None, "me", []])
def test_a_key_that_is_no_object_is_refused_by_name(copy: Path, key: str, value: object) -> None:
    change_contract(copy, lambda contract: contract.update({key: value}))
    with pytest.raises(BundleError, match=f"{key} is .*, expected a JSON object$"):
        load_bundle(copy)


def test_a_contract_has_exactly_these_keys(iap_bundle: Path) -> None:
    for folder in (iap_bundle, *SHIPPED.glob("*/")):
        seen = {"map"} & set(load_bundle(folder).takes)  # a map is explained where it is seen
        assert json.loads((folder / "contract.json").read_text()).keys() == set(KEYS) | seen


def change_age(contract: dict[str, Any], age: Any) -> None:
    contract["sensor_timeouts"]["camera"]["dead_s"] = age


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_refused_by_name(copy: Path, file: str) -> None:
    (copy / file).unlink()
    with pytest.raises(BundleError, match=file):
        load_bundle(copy)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c["spec"]["joint_names"].reverse(), r"spec\.joint_names is \['RL_lower_joint'"),
        (lambda c: c["spec"]["kp_nm_per_rad"].__setitem__(3, 50.0), r"spec\.kp_nm_per_rad is "),
        (lambda c: c["spec"].update(urdf="go2.urdf"), r"spec\.urdf is go2.urdf, this runtime "),
        (lambda c: c["spec"].pop("swing_sign"), r"key 'spec\.swing_sign' is missing"),
        (
            lambda c: c["spec"].update(camera_position_m=[0.2, 0.0]),
            r"spec\.camera_position_m is \[0\.2, 0\.0\], expected 3 of -2 to 2$",
        ),
        (
            lambda c: c["spec"].update(camera_pitch_down_rad=11),
            r"spec\.camera_pitch_down_rad is 11, expected 1 of -1\.5 to 1\.5$",
        ),
        (
            lambda c: c["spec"].update(camera_vertical_fov_rad=-1.0),
            r"spec\.camera_vertical_fov_rad is -1\.0, expected 1 of 0\.01 to 2\.8$",
        ),
        (
            lambda c: c["spec"].pop("camera_pitch_down_rad"),
            r"spec\.camera_pitch_down_rad is None, expected 1",
        ),
        (lambda c: c["camera"].update(resize={"rgb8": "nearest"}), r"camera\.resize\.rgb8 is near"),
        (lambda c: c.update(robot="spot"), "unknown robot 'spot'"),
        (lambda c: c.update(schema=2), r"contract\.json: schema 2, this version reads 5$"),
        (lambda c: c.update(quaternion="wxyz"), "quaternion"),
        (lambda c: c.update(control_dt_s=0.02), "control_dt_s"),
        (
            lambda c: c["imu"].update(euler="x-y-z"),
            r"imu\.euler is x-y-z, this runtime works with ",
        ),
        (lambda c: c["high_level"]["look_again"].update(steps=5), r"look_again\.steps is 5, this "),
        (
            lambda c: c.update(tilt_limit_rad=0.5),
            "tilt_limit_rad is 0.5, this runtime works with 1.2",
        ),
        (lambda c: c["low_level"].update(least_command=0.2), r"low_level\.least_command is 0\.2, "),
        (lambda c: c["low_level"].update(kind="jump"), r"low_level\.kind is jump, expected "),
        (
            lambda c: c["low_level"]["command"].update(vx_m_per_s=[0.1, 1.0]),
            r"low_level\.command\.vx_m_per_s is \[0\.1, 1\.0\], expected a range around 0",
        ),
        (
            lambda c: c["legs"]["kp_nm_per_rad"].__setitem__(3, 50.0),
            r"legs\.kp_nm_per_rad is .*, this runtime works with",
        ),
        (lambda c: c["legs"].update(stand_height_m=0.4), r"legs\.stand_height_m is 0\.4, in that "),
        (lambda c: c["motors"].update(timeout_s=1.0), r"motors\.timeout_s is 1\.0, this runtime"),
        (lambda c: c["start"].update(ramp_s=3.0), r"start\.ramp_s is 3\.0, this runtime works "),
        (
            lambda c: c["start"]["pose_rad"].__setitem__(2, -1.6),
            r"start\.pose_rad is .*, this runtime stands at \[0\.0, 0\.9, -1\.8",
        ),
        (lambda c: c["start"].update(pose_rad=[0.0]), r"start\.pose_rad is \[0\.0\], this "),
        (lambda c: c["start"].update(pose_rad=[[0.0], []]), r"contract\.json: malformed"),
        (lambda c: c["start"]["pose_rad"].__setitem__(2, 10**400), r"contract\.json: malformed"),
        (lambda c: c.update(name="\ud800x"), r"name is '\\ud800x', expected text"),
        (lambda c: c.update(name=5), "name is 5, expected text"),
        (lambda c: c["start"]["pose_rad"].__setitem__(2, math.nan), r"start\.pose_rad is .*nan"),
        *(
            (partial(change_age, age=age), "sensor_timeouts needs joints, imu, camera, each with")
            for age in (True, "0.3", None, [0.3], math.nan, math.inf, 0, -1, 10**400)
        ),
        (
            partial(change_age, age=1e30),
            r"sensor_timeouts\.camera\.dead_s is 1e\+30, this runtime allows",
        ),
        (
            partial(change_age, age=10**30),
            r"sensor_timeouts\.camera\.dead_s is 1e\+30, this runtime ",
        ),
        (
            lambda c: c["sensor_timeouts"].update(imu=[0.1]),
            NEEDS,
        ),
        (
            lambda c: c["sensor_timeouts"]["imu"].pop("dead_s"),
            NEEDS,
        ),
        (
            lambda c: c["sensor_timeouts"]["imu"].update(stale_s=0.2),
            "dead_s above 0, in that order",
        ),
        (
            lambda c: c["sensor_timeouts"].update(
                camera={"ageing_s": 5.0, "stale_s": 9.0, "dead_s": 10.0}
            ),
            r"sensor_timeouts\.camera\.ageing_s is 5\.0, this runtime allows 0\.3 at most",
        ),
        (
            lambda c: c["sensor_timeouts"]["imu"].update(dead_s=0.2),
            r"sensor_timeouts\.imu\.dead_s is 0\.2, this ",
        ),
        (
            lambda c: c["sensor_timeouts"]["camera"].update(stale_s=0.4),
            r"look_again\.stand_after_s is 0\.5, this runtime works with 0\.4",
        ),
    ],
)
def test_a_contract_that_does_not_fit_is_refused_by_name(
    copy: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    change_contract(copy, edit)
    with pytest.raises(BundleError, match=message):
        load_bundle(copy)


def test_a_contract_may_shorten_sensor_timeouts(copy: Path) -> None:
    shorter = {"ageing_s": 0.02, "stale_s": 0.04, "dead_s": 0.05}
    change_contract(copy, lambda contract: contract["sensor_timeouts"].update(imu=shorter))
    assert load_bundle(copy).controller().supervisor.silent({"imu": 0.06}) == ["imu"]


def tensors(contract: dict[str, Any], graph: str, side: str) -> dict[str, Any]:
    found: dict[str, Any] = contract["graphs"][graph][side]
    return found


@pytest.mark.parametrize(
    ("graph", "edit", "message"),
    [
        (
            HIGH_LEVEL,
            lambda inputs, _: inputs["image"].update(shape=[64, 64, 3]),
            "input 'image' is uint8 [64, 64, 3] here, uint8 [32, 32, 3] in this graph",
        ),
        (
            HIGH_LEVEL,
            lambda inputs, _: inputs["image"].update(type="float32"),
            "input 'image' is float32 [32, 32, 3] here, uint8 [32, 32, 3] in this graph",
        ),
        (
            HIGH_LEVEL,
            lambda inputs, _: inputs.update(speed={"type": "float32", "shape": [1]}),
            "input 'speed' is float32 [1] here, missing in this graph",
        ),
        (
            HIGH_LEVEL,
            lambda _, outputs: outputs.pop("attention"),
            "output 'attention' is missing here, float32 [32, 32] in this graph",
        ),
        (
            LOW_LEVEL,
            lambda _, outputs: outputs["joint_targets"].update(shape=[8]),
            "output 'joint_targets' is float32 [8] here, float32 [12] in this graph",
        ),
    ],
)
def test_tensors_that_differ_from_the_graphs_are_refused_in_one_line(
    copy: Path, graph: str, edit: Callable[..., object], message: str
) -> None:
    change_contract(copy, lambda c: edit(tensors(c, graph, "inputs"), tensors(c, graph, "outputs")))
    with pytest.raises(BundleError) as refused:
        load_bundle(copy)
    assert str(refused.value) == f"{copy / 'contract.json'}: {graph}: {message}"


def test_a_graph_that_this_runtime_cannot_feed_is_refused_in_one_line(copy: Path) -> None:
    """Contract and graph agree, but the low level takes another IMU vector."""
    model = onnx.load(copy / LOW_LEVEL)
    for node in model.graph.node:
        node.input[:] = ["gyroscope" if name == "imu" else name for name in node.input]
    (imu,) = (each for each in model.graph.input if each.name == "imu")
    imu.name = "gyroscope"
    onnx.save(model, copy / LOW_LEVEL)

    def agree(contract: dict[str, Any]) -> None:
        given = tensors(contract, LOW_LEVEL, "inputs")
        given["gyroscope"] = given.pop("imu")
        digest = hashlib.sha256((copy / LOW_LEVEL).read_bytes()).hexdigest()
        contract["files"][LOW_LEVEL] = digest

    change_contract(copy, agree)
    with pytest.raises(BundleError) as refused:
        load_bundle(copy)
    what = "input 'gyroscope' is float32 [4] here, missing in this runtime"
    assert str(refused.value) == f"{copy / 'contract.json'}: {LOW_LEVEL}: {what}"


def test_a_contract_has_the_camera_of_its_training() -> None:
    cameras = {name: load_bundle(name).contract["camera"] for name in ("rover", "walk")}
    assert cameras["rover"]["trained_latency_s"] == [0.02, 0.12]
    assert cameras["rover"]["trained_period_s"] == pytest.approx([1 / 30, 1 / 15])
    assert cameras["walk"]["trained_latency_s"] is cameras["walk"]["trained_period_s"] is None


def test_another_standing_pose_of_soft_legs_is_refused() -> None:
    """The graph holds the pose under load: another one would drop or jerk the robot."""
    unladen = replace(GO2, carried_kg=0.0)
    with pytest.raises(BundleError, match=r"start\.pose_rad is .*, this runtime stands at"):
        load_bundle("walk-go2", unladen)


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_robot_stands_up_as_its_contract_says(robot: str) -> None:
    bundle = load_bundle(str(shipped_low_level(robot)))
    assert bundle.spec.name == robot
    start, dt_s = bundle.contract["start"], bundle.control_dt_s
    operation = Operation(bundle.controller())
    angles, level = bundle.spec.default_pose_rad, np.array((0.0, 0.0, 0.0, 1.0))
    commands = []
    for step in range(round(start["ramp_s"] / dt_s)):
        reading = Reading(step * dt_s, angles, np.zeros(12), level, np.zeros(3), no_image)
        commands.append(
            operation.step(Inputs(reading, {}, OperatorCommands(True, RobotState.READY))).command
        )
    np.testing.assert_allclose(commands[-1].targets, start["pose_rad"], atol=1e-12)
    stiff = [np.array_equal(command.kp, bundle.spec.kp_nm_per_rad) for command in commands]
    assert stiff.index(True) == round(start["stiffness_ramp_s"] / dt_s) - 1


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.full((32, 32, 3), 0.5), r"an image is float64 \(32, 32, 3\), expected uint8 of "),
        (
            np.zeros((3, 32, 32), np.uint8),
            r"an image is uint8 \(3, 32, 32\), expected uint8 of ",
        ),
        (None, "an image is None, expected uint8 of "),
    ],
    ids=["of 0 to 1", "channels first", "none"],
)
def test_an_image_of_another_type_is_refused(image: Any, message: str) -> None:
    """Converted silently, an image of 0 to 1 would be black."""
    with pytest.raises(UserError, match=message):
        load_bundle("iap").high_level(image)


def test_another_robot_is_refused_by_name(copy: Path) -> None:
    with pytest.raises(BundleError, match="made for robot 'a1', not for 'a2'"):
        load_bundle(copy, replace(A1, name="a2"))


def test_weights_that_do_not_reproduce_the_golden_output_are_refused(copy: Path) -> None:
    """As if this CPU computed other values: other weights with fitting hashes."""
    model = onnx.load(copy / "low_level.onnx")
    largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    values = np.frombuffer(largest.raw_data, np.float32) + 1e-3
    largest.raw_data = values.astype(np.float32).tobytes()
    onnx.save(model, copy / "low_level.onnx")
    digest = hashlib.sha256((copy / "low_level.onnx").read_bytes()).hexdigest()
    change_contract(copy, lambda contract: contract["files"].update({"low_level.onnx": digest}))
    with pytest.raises(BundleError, match="golden output 'joint_targets' is off by"):
        load_bundle(copy)


@pytest.mark.parametrize(
    ("side", "name", "value"),
    [
        ("inputs", "imu", [0.0, 0.0]),
        ("inputs", "imu", [[0.0], [0.0, 0.0]]),
        ("inputs", "imu", ["level"] * 4),
        ("outputs", "joint_targets", [0.0] * 5),
        ("outputs", "joint_targets", ["far"] * 12),
    ],
)
def test_a_golden_vector_of_another_shape_is_refused_in_one_line(
    copy: Path, side: str, name: str, value: Any
) -> None:
    golden = json.loads((copy / "golden.json").read_text())
    golden["low_level.onnx"][side][name] = value
    (copy / "golden.json").write_text(json.dumps(golden))
    digest = hashlib.sha256((copy / "golden.json").read_bytes()).hexdigest()
    change_contract(copy, lambda contract: contract["files"].update({"golden.json": digest}))
    with pytest.raises(BundleError, match=r"golden\.json: malformed \(.*\)$"):
        load_bundle(copy)


@pytest.mark.slow
def test_exporting_again_replaces_the_bundle_and_keeps_other_files(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name in ("high_level.onnx", ".low_level.onnx.x"):  # left by a killed export
        (bundle / name).touch()
    make_bundle(tmp_path, "cnn")
    (bundle / "card.md").write_text("about this policy")
    shutil.rmtree(tmp_path / "low")
    shutil.rmtree(tmp_path / "high")
    before = (bundle / "high_level.onnx").read_bytes()
    make_bundle(tmp_path, "iap")
    assert (bundle / "high_level.onnx").read_bytes() != before
    assert (bundle / "card.md").read_text() == "about this policy"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    load_bundle(bundle)


@pytest.mark.parametrize(
    ("output", "duration"),
    [(100.0, 100), (0.0, 10), (-1e9, 10), (1e9, 800), (np.inf, 800), (np.nan, 10)],
)
def test_decision_durations_are_within_the_contract(
    iap_bundle: Path, output: float, duration: int
) -> None:
    class Graph:
        def run(self, *_: object) -> list[Any]:
            return [np.zeros(2), np.array([output], np.float32), np.zeros((8, 8))]

    bundle = load_bundle(iap_bundle)
    bundle._graphs["high_level.onnx"] = cast("Any", Graph())
    assert bundle.high_level(np.zeros(bundle.image_shape, np.uint8)).duration_steps == duration


def test_latent_commands_are_within_the_contract(iap_bundle: Path) -> None:
    """Also from foreign graphs: the low level was trained on this range."""

    class Graph:
        def run(self, *_: object) -> list[Any]:
            return [np.array([3.0, -5.0], np.float32), np.array([20.0]), np.zeros((8, 8))]

    bundle = load_bundle(iap_bundle)
    bundle._graphs["high_level.onnx"] = cast("Any", Graph())
    decision = bundle.high_level(np.zeros(bundle.image_shape, np.uint8))
    np.testing.assert_array_equal(decision.latent, [1.0, -1.0])


def test_shipped_bundles_load() -> None:
    names = [folder.name for folder in SHIPPED.iterdir() if folder.is_dir()]
    assert "iap" in names
    others = {robot.replace("_", "-"): spec for robot, spec in ROBOTS.items()}
    for name in names:
        of = next((spec for robot, spec in others.items() if name.endswith(f"-{robot}")), A1)
        found = load_bundle(name).spec
        same = [getattr(found, each.name) is getattr(of, each.name) for each in fields(of)]
        assert same.count(False) == (found.camera is not of.camera), "more than the mount differs"


@pytest.mark.parametrize("graph", [HIGH_LEVEL, LOW_LEVEL])
@pytest.mark.parametrize("folder", [*sorted(SHIPPED.glob("*/")), None])
def test_graphs_do_not_name_the_machine_that_made_them(
    folder: Path | None, graph: str, iap_bundle: Path
) -> None:
    data = ((folder or iap_bundle) / graph).read_bytes()
    for trace in (b"stack_trace", b".py", str(Path.cwd()).encode(), b"site-packages"):
        assert trace not in data
