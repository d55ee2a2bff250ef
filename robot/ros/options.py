"""What a controller's node is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pixelgait.robot.bundle import CONTRACT, Bundle, find_bundle, load_bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.address import Address, Topics
from pixelgait.robot.ros.common.topic_names import CAMERA_TOPICS
from pixelgait.robot.safety.supervisor import SensorTimeouts, sensor_timeouts_of


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
    settings: dict[str, Any] = field(default_factory=dict)  # of the command, for its report

    @property
    def sensors(self) -> dict[str, str]:
        """The contract's name of each sensor, by topic."""
        return {**self.address.sensors, **CAMERA_TOPICS}

    def sensor_timeouts(self) -> Mapping[str, SensorTimeouts]:
        """What the bundle's contract says of ages, before all of it is verified.

        Raises:
            UserError: nothing that can be used.
        """
        try:
            return sensor_timeouts_of(read_json(find_bundle(self.bundle) / CONTRACT))
        except UserError:
            load_bundle(self.bundle)  # raises what is wrong before that, as another version's
            raise

    def piloted(self, bundle: Bundle) -> bool:
        """Whether cmd_vel says where to: also where the bundle has no trained high level."""
        if self.pilot == "bundle":
            return not bundle.contract["provenance"].get("high_level")
        return self.pilot == "cmd_vel"
