"""What a controller's node is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.address import Address, Topics
from pixelgait.robot.ros.wire.video import Stream


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
    address: Address = field(default_factory=Topics)
    stream: Stream | None = None  # of the camera, instead of its topics
    settings: dict[str, Any] = field(default_factory=dict)  # of the command, for its report

    def piloted(self, bundle: Bundle) -> bool:
        """Whether cmd_vel says where to: also where the bundle has no trained high level."""
        if self.pilot == "bundle":
            return not bundle.contract["provenance"].get("high_level")
        return self.pilot == "cmd_vel"
