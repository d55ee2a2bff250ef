"""Replay: feed a recording to the controller again and compare its commands."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from pixelgait.robot.bundle import CONTRACT, FILES, SHIPPED, Bundle, load_bundle
from pixelgait.robot.cli.options import Range, check_outputs
from pixelgait.robot.cli.provenance import head
from pixelgait.robot.control.controller import Controller, ControlResult
from pixelgait.robot.control.velocity import RESPONSE, response_of
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.recording.reader import RecordedStep, Recording, read_recording
from pixelgait.robot.recording.recorder import require_library
from pixelgait.robot.runtime.state_machine import Operation
from pixelgait.robot.runtime.velocity_operation import operation_of
from pixelgait.robot.safety.supervisor import SensorTimeouts
from pixelgait.robot.spec import ROBOTS

MOST_SHOWN = 5  # differences in the terminal
# Rounding of another processor or onnxruntime: golden outputs may be off by 1e-5, and the phase is
# fed back. Shipped recordings differed by 3e-7.
ROUNDING_RAD = 1e-4


@dataclass(frozen=True)
class ReplayConfig:
    """Feed a recording of pixelgait-run --record to the controller, and compare its commands.

    With the recorded bundle commands must be equal, except for the last bits on another processor
    or onnxruntime; otherwise the exit code is 1. With another bundle the report says where they
    differ.

    Any other bag with images, or a folder of images, is played to the policy of --bundle: the
    report says what it would decide, and --video shows it. The options from --video on are for
    these.
    """

    recording: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """An MCAP file of pixelgait-run, which may be truncated; a bag (folder, .mcap, .db3, .bag); or
    a folder of images: rgb/ and depth/, intrinsics.yaml."""
    bundle: str | None = None
    """Folder or name of another bundle; by default the one in the recording."""
    json: Path | None = None
    """Write the report there."""
    video: Path | None = None
    """Film of images, attention and decisions (.mp4, .gif; .png: a strip of frames)."""
    goal: Annotated[tuple[float, float] | None, Range(-1e4, 1e4)] = None
    """Goal x y [m] from where the recording starts, x ahead; by default 5 m ahead."""
    rate: Annotated[float, Range(0.1, 1000.0)] = 10.0
    """Images a second of a folder whose file names are no times."""
    colour: str | None = None
    """Topic of colour images; by default it is chosen by types and names."""
    depth: str | None = None
    """Topic of depth images."""
    imu: str | None = None
    """Topic of the IMU."""
    odometry: str | None = None
    """Topic of odometry."""


def report(config: ReplayConfig) -> None:
    """Replay, print the report, and write it if asked.

    Raises:
        UserError: if the file is no recording, a bundle cannot be used, or the commands of the
            recorded bundle differ.
    """
    require_library()
    check_outputs(("json", config.json), inputs=[config.recording, *_bundle_files(config.bundle)])
    recording = read_recording(config.recording)
    bundle = recorded_bundle(recording) if config.bundle is None else load_bundle(config.bundle)
    figures = replay(recording, bundle)
    print(format_figures(figures))
    if config.json is not None:
        write_atomic(config.json, json_bytes({**head("pixelgait-replay"), **figures}))
        print(f"wrote {config.json}")
    if figures["same_bundle"] and figures["different"]:
        raise UserError(f"{figures['different']} commands differ from those recorded")


def _bundle_files(name: str | None) -> list[Path]:
    """Files of the bundle of that name; none if it is in the recording."""
    folders = () if name is None else (Path(name), SHIPPED / name)
    return [folder / file for folder in folders for file in (CONTRACT, *FILES)]


def recorded_bundle(recording: Recording) -> Bundle:
    """Load the bundle in a recording.

    Raises:
        UserError: if there is none, or it cannot be used here.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in (CONTRACT, *FILES):
            if name not in recording.files:
                raise UserError(f"{recording.path}: the recording lacks {name}, name a --bundle")
            (Path(folder) / name).write_bytes(recording.files[name])
        return load_bundle(folder)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded step and its replay.

    After a gap `result` is None until the next session: the controller's state is unknown.
    """

    recorded: RecordedStep
    result: ControlResult | None
    operation: Operation  # after this step; the next one changes it


def replayed(recording: Recording, bundle: Bundle) -> Iterator[Replayed]:
    """Feed the steps to a controller of this bundle, except after a gap; see `Replayed`.

    Raises:
        UserError: if the bundle is for a robot with other joints, or its policy expects images of
            another shape.
    """
    _require_robot(recording, bundle)
    operation, session, known = None, -1, True
    sensor_timeouts: dict[str, SensorTimeouts] = {}
    for step in recording.steps:
        if (
            step.decided
            and (shape := step.inputs.reading.image().pixels.shape) != bundle.image_shape
        ):
            raise UserError(
                f"{recording.path}: images of shape {shape} were recorded, "
                f"bundle '{bundle.contract['name']}' expects {bundle.image_shape}"
            )
        sensor_timeouts.update(step.sensor_timeouts)
        if operation is None or step.session != session:
            controller, session = _controller(recording, bundle, sensor_timeouts), step.session
            operation = operation_of(controller, needs_goal="goal" in bundle.takes)
            known = True
        known = known and not step.lost
        if not known:
            yield Replayed(step, None, operation)
            continue
        operation.driver_timeout_s = step.driver_timeout_s
        operation.supervisor.motors_enabled = step.motors_enabled
        yield Replayed(step, operation.step(step.inputs), operation)


def _controller(
    recording: Recording, bundle: Bundle, sensor_timeouts: dict[str, SensorTimeouts]
) -> Controller:
    """A controller of the bundle for the recorded robot, which may have a gait of its own."""
    if (response := recording.files.get(RESPONSE)) is None:
        return bundle.controller(sensor_timeouts=sensor_timeouts)
    return bundle.velocity_controller(response_of(json.loads(response)), sensor_timeouts)


def _require_robot(recording: Recording, bundle: Bundle) -> None:
    """Raises UserError if the bundle is for another robot than the recorded one."""
    if RESPONSE not in recording.files and recording.joint_names != bundle.spec.joint_names:
        known = {spec.joint_names: spec.name for spec in ROBOTS.values()}
        raise UserError(
            f"{recording.path}: {known.get(recording.joint_names, 'another robot')} was recorded, "
            f"bundle '{bundle.contract['name']}' is for {bundle.spec.name}"
        )


def replay(recording: Recording, bundle: Bundle) -> dict[str, Any]:
    """Compare the controller's commands with the recorded ones; returns the report.

    Raises:
        UserError: as `replayed`.
    """
    differences: list[dict[str, Any]] = []
    rounded: list[float] = []
    decisions = compared = 0
    for step in replayed(recording, bundle):
        if step.result is None:
            continue
        compared, decisions = compared + 1, decisions + (step.result.image is not None)
        if difference := _difference(step.recorded, step.result.command, step.operation):
            if difference.pop("rounded"):
                rounded.append(difference["targets_rad"])
            else:
                differences.append({"time_s": step.recorded.inputs.reading.time_s, **difference})
    targets = [*rounded, *(each["targets_rad"] for each in differences)]
    return {
        "recording": str(recording.path),
        "recorded_bundle": recording.about.get("bundle"),
        "bundle": bundle.contract["name"],
        "same_bundle": recording.about.get("bundle_sha256") == bundle.contract["sha256"],
        "complete": recording.complete,
        "damaged": recording.damaged,
        "steps": len(recording.steps),
        "endings": list(recording.endings.values()),
        "lost": recording.lost,
        "compared": compared,
        "decisions": decisions,
        "rounded": len(rounded),
        "different": len(differences),
        "largest_difference_rad": max(targets, default=0.0),
        "differences": differences,
    }


def _difference(
    step: RecordedStep, command: JointCommand, operation: Operation
) -> dict[str, Any] | None:
    """Differences from the recorded step, None if bit-equal; `rounded`: within rounding."""
    recorded = step.targets, step.kp, step.kd
    same_targets, *same = [
        one.tobytes() == two.tobytes()
        for one, two in zip(recorded, (command.values, command.kp, command.kd), strict=True)
    ]
    fault = operation.supervisor.fault
    rest_is_same = all(same) and operation.state.value == step.state and fault == step.fault
    if same_targets and rest_is_same:
        return None
    targets_rad = float(np.abs(step.targets - command.values).max())
    return {
        "rounded": rest_is_same and targets_rad <= ROUNDING_RAD,
        "targets_rad": targets_rad,
        "state": operation.state.value,
        "recorded_state": step.state,
        "fault": fault,
        "recorded_fault": step.fault,
    }


def format_figures(figures: dict[str, Any]) -> str:
    """The report for a terminal."""
    first = f"{figures['recording']}: {figures['steps']} steps of {figures['recorded_bundle']}"
    end = "" if figures["complete"] or figures["lost"] else ", cut short"
    lines = [first + (", the file is damaged after them" if figures["damaged"] else end)]
    lines += [f"ended: {ending}" for ending in figures["endings"]]
    if figures["lost"]:
        rest = figures["steps"] - figures["compared"]
        lines.append(f"{figures['lost']} steps are missing, {rest} after a gap are not compared")
    if not figures["compared"]:
        lines.append("nothing could be compared")
        return "\n".join(lines)
    most = f"targets differ by up to {figures['largest_difference_rad']:.3g} rad"
    if not figures["different"]:
        how = "bit for bit"
        if rounded := figures["rounded"]:
            how = f"but for rounding in {rounded} steps, as on another processor: {most}"
        lines.append(f"{figures['bundle']} commands the same, {how}")
        return "\n".join(lines)
    lines.append(
        f"{figures['bundle']} commands something else in {figures['different']} steps, {most}"
    )
    for each in figures["differences"][:MOST_SHOWN]:
        what = f"targets by {each['targets_rad']:.3g} rad"
        for name in ("state", "fault"):
            if each[name] != each[f"recorded_{name}"]:
                what += f", {name} {each[name]} instead of {each[f'recorded_{name}']}"
        lines.append(f"  at {each['time_s']:.2f} s: {what}")
    return "\n".join(lines)
