"""Exporter of walkers: a third-party walking policy and, above it, a high level of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from pixelgait.export.bundle_files import add_metadata, make_contract, write_figures, write_files
from pixelgait.export.options import ExportConfig
from pixelgait.export.walker_card import card, summary
from pixelgait.export.walkers.compose import STATE, composed, last_action
from pixelgait.export.walkers.network import runner
from pixelgait.export.walkers.reading import read_walker
from pixelgait.export.walkers.trial import Trial, hold_trial
from pixelgait.export.walkers.walker import SENSED, Reference, Walker, places
from pixelgait.robot.bundle import (
    CONTRACT,
    GOLDEN,
    HIGH_LEVEL,
    LOW_LEVEL,
    WALKER,
    Bundle,
    load_bundle,
    shipped_low_level,
    single_thread_session,
    tensors_of,
)
from pixelgait.robot.bundle.low_level_graph import CARRIED, TARGETS
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import file_sha256, json_bytes, read_json, write_atomic
from pixelgait.robot.spec import A1, GO2, ROBOTS, Array, Legs, RobotSpec, find_robot, mounted

# Largest difference from the reference: sums of float32 over a few hundred inputs a layer.
TOLERANCE_RAD = 1e-4


@dataclass(frozen=True)
class _Parts:
    """Parts that a bundle is written from."""

    spec: RobotSpec
    walker: Walker
    graph: onnx.ModelProto
    above: Bundle  # whose high level it takes
    provenance: dict[str, Any]


def export_walker(config: ExportConfig) -> float:
    """Write, try and verify the bundle of a walker; returns the parity's largest difference [rad].

    Raises:
        UserError: if a file cannot be used, the graph differs from the description, or it falls.
    """
    assert config.walker is not None
    robot = find_robot(config.robot or GO2.name)
    known = robot.name if robot.name in ROBOTS else A1.name  # all of them walk straight ahead
    above = load_bundle(config.high_level or shipped_low_level(known))
    usual = above.spec.camera if above.spec.name == robot.name else robot.camera
    spec = mounted(robot, config.mount(usual))
    walker, network = read_walker(config.walker, config.config, spec, config.told())
    for note in walker.notes:
        print(f"not in the files: {note}")
    source = {
        "walker": config.walker.name,
        "format": walker.format,
        "files": {path.name: file_sha256(path) for path in (config.walker, *config.config)},
    }
    high_level = above.contract["provenance"].get("high_level") if config.high_level else None
    parts = _Parts(
        spec,
        walker,
        composed(walker, network, spec),
        above,
        {"low_level": source, "high_level": high_level},
    )
    legs = _legs(walker, spec)
    print("a trial in both simulators: a minute of a core", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in _files(config, parts, legs, Trial(), _still(parts)).items():
            (Path(folder) / name).write_bytes(data)
        trial = hold_trial(load_bundle(folder))
    print("\n".join(summary(trial)))
    off_rad, golden = _compared(parts, Reference(walker, spec, runner(network)), trial)
    print(f"{LOW_LEVEL} differs from its description by {off_rad:.2g} rad at most")
    if not off_rad <= TOLERANCE_RAD:
        raise UserError(
            f"the composed graph differs from its description by {off_rad:.2g} rad, at most "
            f"{TOLERANCE_RAD:g} is allowed"
        )
    legs = replace(legs, least_turning_speed_m_per_s=trial.least_turning_speed_m_per_s)
    write_files(config.out, _files(config, parts, legs, trial, golden))
    text = card(config.name, robot.name, config.walker.name, walker, trial)
    write_atomic(config.out / "README.md", text.encode())
    print(f"wrote the bundle {config.out}, and its card, README.md")
    write_figures(config, {"max_abs_difference_rad": off_rad, "trial": trial.contract()})
    return off_rad


def _legs(walker: Walker, spec: RobotSpec) -> Legs:
    """Gains and pose in the robot's order."""
    back = np.argsort(places(walker, spec))
    pose = walker.default_pose_rad[back]
    if not ((spec.joint_lower_rad <= pose) & (pose <= spec.joint_upper_rad)).all():
        raise UserError(f"the default pose {pose.tolist()} is beyond the limits of {spec.name}")
    gains = walker.kp_nm_per_rad[back], walker.kd_nms_per_rad[back]
    return Legs(*gains, pose, walker.command, gait=False)


def _described(walker: Walker, trial: Trial) -> dict[str, Any]:
    """The low level as it stands in the contract: for people, but for its kind."""
    return {
        "kind": WALKER,
        "rate_hz": walker.rate_hz,
        "observations": [
            {
                "name": term.name,
                "scale": term.scale.tolist(),
                "clip": [x if np.isfinite(x) else None for x in term.clip],
                "history": list(term.ages),
            }
            for term in walker.terms
        ],
        "action_scale": walker.action_scale.tolist(),
        "action_offset": walker.action_offset.tolist(),
        "action_clip": _limits(walker.action_clip),
        "target_clip_rad": _limits(walker.target_clip),
        "joint_names": list(walker.joint_names),
        "trial": trial.contract(),
    }


def _limits(clip: tuple[Array, Array] | None) -> list[list[float]] | None:
    """Least and most (12,), null if there are none."""
    return None if clip is None else [each.tolist() for each in clip]


def _files(
    config: ExportConfig, parts: _Parts, legs: Legs, trial: Trial, golden: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of the bundle, by name."""
    graph = onnx.ModelProto()
    graph.CopyFrom(parts.graph)
    add_metadata(graph, config.name, parts.spec, legs)
    above = parts.above
    content = {
        HIGH_LEVEL: (above.folder / HIGH_LEVEL).read_bytes(),
        LOW_LEVEL: graph.SerializeToString(),
        GOLDEN: json_bytes(
            {HIGH_LEVEL: read_json(above.folder / GOLDEN)[HIGH_LEVEL], LOW_LEVEL: golden}
        ),
    }
    tensors = {
        HIGH_LEVEL: above.contract["graphs"][HIGH_LEVEL],
        LOW_LEVEL: tensors_of(single_thread_session(content[LOW_LEVEL])),
    }
    contract = make_contract(
        config.name,
        parts.spec,
        tensors,
        parts.provenance,
        content,
        legs,
        _described(parts.walker, trial),
        config.pace,
    )
    return {**content, CONTRACT: json_bytes(contract)}


def _golden(graph: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Any]:
    session = single_thread_session(graph.SerializeToString())
    names = [TARGETS, CARRIED[STATE]]
    found = dict(zip(names, session.run(names, dict(given)), strict=True))
    return {
        "inputs": {name: np.asarray(value).tolist() for name, value in given.items()},
        "outputs": {name: value.tolist() for name, value in found.items()},
    }


def _still(parts: _Parts) -> dict[str, Any]:
    """A golden vector of zeros, until the trial has walked."""
    sizes = {
        each.name: each.type.tensor_type.shape.dim[0].dim_value for each in parts.graph.graph.input
    }
    return _golden(parts.graph, {n: np.zeros(size, np.float32) for n, size in sizes.items()})


def _compared(parts: _Parts, reference: Reference, trial: Trial) -> tuple[float, dict[str, Any]]:
    """Largest difference [rad] of graph and reference over the trial's walks, each with its own
    state but for the last action; and the golden vector, from the middle of the last one."""
    session = single_thread_session(parts.graph.SerializeToString())
    worst = 0.0
    for walk in trial.sensed:
        reference.reset()
        state = np.zeros_like(walk[0][STATE])
        for given in walk:
            targets, state = session.run([TARGETS, CARRIED[STATE]], {**given, STATE: state})
            sensed = {name: given[name] for name in set(SENSED.values()) & given.keys()}
            worst = max(worst, float(np.abs(targets - reference.step(sensed)).max()))
            reference.action = last_action(parts.walker, state).astype(np.float64)
    middle = trial.sensed[-1][len(trial.sensed[-1]) // 2]
    return worst, _golden(parts.graph, middle)
