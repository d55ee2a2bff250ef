"""Endurance test (`make endurance`): courses under faults, then random kill, stop and join events.

One controller process walks course after course under lifecycle management: its memory must not
grow. After each random event the robot must be safe, as judged by its received commands.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import Range, Seed, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, require_writable, write_atomic
from tests.faults.courses import walk_courses
from tests.faults.events import survive


@dataclass(frozen=True)
class EnduranceConfig:
    """Walk courses under faults, then survive random events; exit code 1 if a check fails."""

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE")] = "iap"
    """Folder of a policy bundle, or the name of a shipped one; it must see by colour alone."""
    minutes: Annotated[float, Range(0.0, 1e4)] = 30.0
    """Duration of the courses [min]."""
    events: Annotated[int, Range(0, 10**6)] = 200
    """Number of random events: kill, stop, join and others."""
    seed: Seed = 0
    """Seed of the events."""
    json: Path | None = None
    """Write the figures there."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(parse(EnduranceConfig, "endurance")))


def report(config: EnduranceConfig) -> None:
    """Run both parts.

    Raises:
        UserError: if a check fails; the message says which.
    """
    if config.json is not None:
        require_writable(config.json)
    bundle = load_bundle(config.bundle)
    figures: dict[str, Any] = {"bundle": config.bundle}
    with tempfile.TemporaryDirectory() as folder:
        if config.minutes:
            figures["courses"] = walk_courses(bundle, 60.0 * config.minutes, Path(folder))
        if config.events:
            figures["events"] = survive(bundle, config.events, config.seed, Path(folder))
    if config.json is not None:
        write_atomic(config.json, json_bytes(figures))
    parts = (figures[part] for part in ("courses", "events") if part in figures)
    problems = [each for part in parts for each in part["wrong"]]
    if problems:
        raise UserError(f"{len(problems)} checks failed: {'; '.join(problems[:3])}")
    print("all checks passed")


if __name__ == "__main__":
    main()
