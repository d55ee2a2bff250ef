"""pixelgait-replay: feed a recording to the controller once more, and compare its commands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from pixelgait.robot.bundle import CONTRACT, FILES, SHIPPED, Bundle, load_bundle
from pixelgait.robot.cli.options import check_outputs, parse
from pixelgait.robot.cli.provenance import head
from pixelgait.robot.control.controller import ControlResult
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.recording.reader import RecordedStep, Recording, read_recording
from pixelgait.robot.recording.recorder import require_library
from pixelgait.robot.runtime.state_machine import Operation
from pixelgait.robot.safety.supervisor import SensorTimeouts
from pixelgait.robot.spec import ROBOTS

MOST_TOLD = 5  # differences in the terminal
# What another processor or onnxruntime may round otherwise: golden outputs may be off by 1e-5, of
# graphs that are fed with their own phase. Of shipped recordings it was 3e-7.
ROUNDING_RAD = 1e-4


@dataclass(frozen=True)
class ReplayConfig:
    """Feed a recording of pixelgait-run --record to the controller, and compare its commands.

    With the bundle that was recorded, commands must be the same, but for the last bits on another
    processor or onnxruntime: exit code 1 if they are not. With another, the report says where they
    differ.
    """

    recording: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """An MCAP file; one that was cut short will do."""
    bundle: str | None = None
    """Folder or name of another bundle; by default the one in the recording."""
    json: Path | None = None
    """Write the report there."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(parse(ReplayConfig, "pixelgait-replay")))


def report(config: ReplayConfig) -> None:
    """Replay, print the report, write it where it is asked for.

    Raises:
        UserError: the file is no recording, a bundle cannot be used, or the bundle that was
            recorded commands something else.
    """
    require_library()
    check_outputs(("json", config.json), inputs=[config.recording, *_bundle_files(config.bundle)])
    recording = read_recording(config.recording)
    if config.bundle is not None:
        bundle = load_bundle(config.bundle)
    else:
        with tempfile.TemporaryDirectory() as folder:
            bundle = recorded_bundle(recording, Path(folder))
    figures = replay(recording, bundle)
    print(format_figures(figures))
    if config.json is not None:
        write_atomic(config.json, json_bytes({**head("pixelgait-replay"), **figures}))
        print(f"wrote {config.json}")
    if figures["same_bundle"] and figures["different"]:
        raise UserError(f"{figures['different']} commands differ from those recorded")


def _bundle_files(name: str | None) -> list[Path]:
    """What a bundle of that name is made of; nothing where it is in the recording."""
    folders = () if name is None else (Path(name), SHIPPED / name)
    return [folder / file for folder in folders for file in (CONTRACT, *FILES)]


def recorded_bundle(recording: Recording, folder: Path) -> Bundle:
    """The bundle that is in a recording.

    Raises:
        UserError: there is none, or it cannot be used here.
    """
    for name in (CONTRACT, *FILES):
        if name not in recording.files:
            raise UserError(f"{recording.path}: the recording lacks {name}, name a --bundle")
        (folder / name).write_bytes(recording.files[name])
    return load_bundle(folder)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A step that was recorded, and the same once more.

    Behind a gap there is no `result` before the controller begins anew: nobody knows what state it
    was in, nor what it saw last.
    """

    recorded: RecordedStep
    result: ControlResult | None
    operation: Operation  # as this step has left it; the next one changes it


def replayed(recording: Recording, bundle: Bundle) -> Iterator[Replayed]:
    """Feed every step to a controller of this bundle, but none behind a gap; see `Replayed`.

    Raises:
        UserError: the bundle is for a robot with other joints, or its policy wants images of
            another shape than there are.
    """
    _require_robot(recording, bundle)
    operation, session, known = None, -1, True
    sensor_timeouts: dict[str, SensorTimeouts] = {}
    for step in recording.steps:
        if (
            step.looked
            and (shape := step.inputs.reading.image().pixels.shape) != bundle.image_shape
        ):
            raise UserError(
                f"{recording.path}: images of shape {shape} were recorded, "
                f"bundle '{bundle.contract['name']}' wants {bundle.image_shape}"
            )
        sensor_timeouts.update(step.sensor_timeouts)
        if operation is None or step.session != session:
            controller, session = bundle.controller(sensor_timeouts=sensor_timeouts), step.session
            operation = Operation(controller, needs_goal="goal" in bundle.takes)
            known = True
        known = known and not step.lost
        if not known:
            yield Replayed(step, None, operation)
            continue
        operation.driver_timeout_s = step.driver_timeout_s
        operation.supervisor.motors_enabled = step.motors_enabled
        yield Replayed(step, operation.step(step.inputs), operation)


def _require_robot(recording: Recording, bundle: Bundle) -> None:
    """Raise a UserError if the bundle is for another robot than was recorded."""
    if recording.joint_names != bundle.spec.joint_names:
        known = {spec.joint_names: spec.name for spec in ROBOTS.values()}
        raise UserError(
            f"{recording.path}: {known.get(recording.joint_names, 'another robot')} was recorded, "
            f"bundle '{bundle.contract['name']}' is for {bundle.spec.name}"
        )


def replay(recording: Recording, bundle: Bundle) -> dict[str, Any]:
    """The controller's commands for what was recorded, against those that were.

    Raises:
        UserError: see `replayed`.
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
    """What is not as it was recorded, in any bit; `rounded` if that is no more than rounding."""
    recorded = step.targets, step.kp, step.kd
    same_targets, *same = [
        one.tobytes() == two.tobytes()
        for one, two in zip(recorded, (command.targets, command.kp, command.kd), strict=True)
    ]
    fault = operation.supervisor.fault
    rest_is_same = all(same) and operation.state.value == step.state and fault == step.fault
    if same_targets and rest_is_same:
        return None
    targets_rad = float(np.abs(step.targets - command.targets).max())
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
    lines = [first + (", the file is damaged behind them" if figures["damaged"] else end)]
    lines += [f"ended: {ending}" for ending in figures["endings"]]
    if figures["lost"]:
        rest = figures["steps"] - figures["compared"]
        lines.append(f"{figures['lost']} steps are missing, {rest} behind a gap are not compared")
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
    for each in figures["differences"][:MOST_TOLD]:
        what = f"targets by {each['targets_rad']:.3g} rad"
        for name in ("state", "fault"):
            if each[name] != each[f"recorded_{name}"]:
                what += f", {name} {each[name]} instead of {each[f'recorded_{name}']}"
        lines.append(f"  at {each['time_s']:.2f} s: {what}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
