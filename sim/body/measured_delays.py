"""Measured delays for domain randomisation: ranges from a latency report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH
from pixelgait.sim.body.randomisation import Randomisation, Range

# Latency reports do not include the bus to the motors: in either direction a value waits up to one
# cycle before it is sent. Unitree's low-level link runs at 500 Hz.
BUS_PERIOD_S = 0.002
BUS_DELAY_S = (0.0, 2 * BUS_PERIOD_S)
FRAME_S = 1.0 / 30.0
LONGEST_S = 1.0  # assumption: largest delay that a robot can be operated with


def make_randomisation(
    randomise: bool, delays_from: Path | None, ranges: Randomisation | None = None
) -> Randomisation | None:
    """Randomisation of the options --randomise and --delays-from; None without.

    Raises:
        UserError: if there are delays without randomisation, or the file is no latency report.
    """
    if not randomise:
        if delays_from is not None:
            raise UserError("--delays-from has no effect without --randomise")
        return None
    if delays_from is None:
        return ranges or Randomisation()
    return with_measured_delays(ranges or Randomisation(), delays_from)


def require_camera(delays_from: Path | None) -> None:
    """Raises UserError if a latency report is invalid or has no camera, for gliding robots."""
    if delays_from is None:
        return
    usual = Randomisation()
    if with_measured_delays(usual, delays_from).camera_latency_s == usual.camera_latency_s:
        raise UserError(
            f"--delays-from {delays_from}: no camera was measured in it, and gliding robots have "
            "no other delay; pixelgait-run --out writes one with a camera on ROS 2 topics"
        )


def with_measured_delays(randomisation: Randomisation, path: Path) -> Randomisation:
    """The randomisation with the delays of a latency report (latency.json).

    Commands are late by the median to the 99th percentile of `sensor_to_command`, plus the bus. The
    age of the newest image ranges from the camera's latency to a frame more: the latency is from
    half a frame below the median to a frame below the 99th percentile.

    Raises:
        UserError: if the file is not a latency report, or nothing was measured.
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
