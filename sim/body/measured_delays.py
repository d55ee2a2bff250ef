"""Measured delays to train with: ranges from a latency report instead of a guess."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH
from pixelgait.sim.body.randomisation import Randomisation, Range

# Between the controller and the motors and back lies a bus that no report of ours sees: a value
# waits up to one cycle before it is sent, in either direction. Unitree's low-level link has 500 Hz.
BUS_PERIOD_S = 0.002
BUS_DELAY_S = (0.0, 2 * BUS_PERIOD_S)
FRAME_S = 1.0 / 30.0
LONGEST_S = 1.0  # of a delay that a robot could be operated with; ours


def make_randomisation(randomise: bool, delays_from: Path | None) -> Randomisation | None:
    """What the options --randomise and --delays-from ask for.

    Raises:
        UserError: delays without randomisation, or a file that is not a latency report.
    """
    if not randomise:
        if delays_from is not None:
            raise UserError("--delays-from sets what --randomise draws: give both")
        return None
    if delays_from is None:
        return Randomisation()
    return with_measured_delays(Randomisation(), delays_from)


def require_camera(delays_from: Path | None) -> None:
    """Raises UserError if a latency report has no camera, for robots of which nothing else is late.

    Also if it is no latency report.
    """
    if delays_from is None:
        return
    usual = Randomisation()
    if with_measured_delays(usual, delays_from).camera_latency_s == usual.camera_latency_s:
        raise UserError(
            f"--delays-from {delays_from}: no camera was measured in it, and nothing else is late "
            "of robots that glide; pixelgait-run --out writes one with a camera on ROS 2 topics"
        )


def with_measured_delays(randomisation: Randomisation, path: Path) -> Randomisation:
    """The randomisation with the delays of a latency report (latency.json).

    Commands: from the median to the 99th percentile of `sensor_to_command`, plus the bus. Camera,
    where it was measured: the age of the newest image runs from its latency to a frame more, so
    half a frame less than the median to a whole one less than the 99th percentile.

    Raises:
        UserError: the file is not a latency report, or nothing was measured.
    """
    report = read_json(path)
    low, high = _range_s(report.get("stages"), "sensor_to_command", path)
    delay_s = (low + BUS_DELAY_S[0], high + BUS_DELAY_S[1])
    randomisation = replace(randomisation, delay_s=delay_s)
    ages = report.get("sensor_age_us") or {}
    seen = [camera for camera in (COLOUR, DEPTH) if _is_measured(ages, camera, path)]
    if not seen:  # pixelgait-profile has no camera
        return randomisation
    low, high = _range_s(ages, seen[0], path)
    low = max(0.0, low - FRAME_S / 2)
    return replace(randomisation, camera_latency_s=(low, max(low, high - FRAME_S)))


def _is_measured(ages: Any, camera: str, path: Path) -> bool:
    """Whether the report has images of this camera."""
    try:
        return camera in ages and bool(ages[camera]["count"])
    except (KeyError, TypeError):
        raise _damaged(path, camera) from None


def _damaged(path: Path, name: str) -> UserError:
    return UserError(
        f"{path}: not a latency report, no percentiles of {name}; "
        "pixelgait-profile --json and pixelgait-run --out write one"
    )


def _range_s(rows: Any, name: str, path: Path) -> Range:
    """Median and 99th percentile [s] of one row of the report."""
    try:
        row = rows[name]
        count, low, high = row["count"], row["p50_us"] / 1e6, row["p99_us"] / 1e6
    except (KeyError, TypeError):
        raise _damaged(path, name) from None
    if type(count) is not int:
        raise _damaged(path, name)
    if not count or not 0.0 <= low <= high:
        raise UserError(f"{path}: {name} was not measured in this report")
    if high > LONGEST_S:
        raise UserError(f"{path}: {name} took {high:g} s, expected at most {LONGEST_S:g}")
    return low, high
