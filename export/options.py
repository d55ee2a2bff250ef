"""What pixelgait-export is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pixelgait.robot.cli.options import Seed
from pixelgait.sim.world.seeds import VALIDATION


@dataclass(frozen=True)
class ExportConfig:
    """Export two training runs as one policy bundle: ONNX graphs, contract, golden vector.

    Both graphs are compared with torch on observations recorded in simulation; a difference above
    1e-5 is an error, above 1e-4 of what is remembered; of durations one in 50 may be a step off.
    """

    low_level: Path
    """Run folder of the low level (task walk, follow or joint), or a bundle with one beside it: a
    folder, or the name of a shipped one, as in walk."""
    out: Path
    """Folder of the bundle: a new or empty one, or that of an older bundle, which is replaced."""
    high_level: Path | None = None
    """Run folder of the high level, or a bundle likewise, as in iap; without one the policy walks
    straight ahead."""
    encoder: str = ""
    """Instead of a trained high level: an untrained one with this encoder, with options as in
    iap:patch=4,stride=4. height, width and channels (1 depth, 3 RGB, 4 RGB-D) choose the camera."""
    name: str = "policy"
    """What the bundle is called in its contract."""
    seed: Seed = VALIDATION.start
    """Course on which the observations are recorded."""
    json: Path | None = None
    """Also write the parity figures there."""
