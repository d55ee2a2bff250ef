"""What a controller's node is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.unitree.address import Address


@dataclass(frozen=True)
class NodeOptions:
    """What a node is started with."""

    bundle: str
    out: Path | None = None  # folder for reports
    auto_arm: bool = False  # stand up and walk without being asked
    dry_run: bool = False  # command nobody
    pilot: str = "bundle"  # or policy, or cmd_vel
    goal: tuple[float, float] | None = None  # x, y [m] to begin with, in odom's frame
    recorder: Recorder | None = None
    address: Address | None = None  # of a Go2 on its own DDS; None: ROS 2 topics
