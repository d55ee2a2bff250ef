"""Options of pixelgait-export, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pixelgait.policies.runs.run import files_of, find_run
from pixelgait.robot.bundle import CONTRACT, FILES
from pixelgait.robot.cli.options import Seed, check_outputs, require_libraries
from pixelgait.robot.errors import UserError
from pixelgait.sim.options import MountOptions
from pixelgait.sim.world.seeds import VALIDATION


@dataclass(frozen=True)
class ExportConfig(MountOptions):
    """Export two training runs as one policy bundle: ONNX graphs, contract, golden vector.

    Both graphs are compared with torch on observations recorded in simulation. The tolerance is
    1e-5, for recurrent states 1e-4. One duration in 50 may differ by a step.

    --camera, --pitch and --camera-fov say where the camera of the bundle is mounted: by default as
    in the high level's training, if its run was for this robot and had these options.
    """

    low_level: Path
    """Run folder of the low level (task walk, follow or joint), or a bundle that contains one: a
    folder, or the name of a shipped one, as walk."""
    out: Path
    """Folder of the bundle; an older bundle there is replaced."""
    high_level: Path | None = None
    """Run folder of the high level, or a bundle that contains one, as iap. Without it the policy
    walks straight ahead."""
    encoder: str = ""
    """Encoder of an untrained high level, with options as in iap:patch=4,stride=4. height, width
    and channels (1 depth, 3 RGB, 4 RGB-D) choose the camera. Excludes --high-level."""
    name: str = "policy"
    """Name of the bundle in its contract."""
    seed: Seed = VALIDATION.start
    """Seed of the course on which the observations are recorded."""
    json: Path | None = None
    """Write the parity figures to this file."""


def check(config: ExportConfig) -> tuple[Path, Path | None]:
    """The run folders of low and high level, after all quick checks.

    Raises:
        UserError: if a run folder, the name or the place of a file cannot be used, or `out` holds
            something else than a bundle.
    """
    try:
        config.name.encode()
    except UnicodeEncodeError:
        raise UserError(f"--name {config.name!r}: expected UTF-8") from None
    if not config.name.isprintable() or "/" in config.name:
        raise UserError(f"--name {config.name!r}: expected printable text without /")
    low_level = find_run(config.low_level, "low_level")
    high_level = config.high_level and find_run(config.high_level, "high_level")
    if high_level and config.encoder:
        raise UserError("--encoder takes the place of --high-level: give one of them")
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file, expected a folder")
    require_libraries("torch", "onnx", "onnxscript")  # before a folder is made
    files = [("out", config.out / name) for name in (*FILES, CONTRACT)]
    read = [file for run in (low_level, high_level) if run for file in files_of(run)]
    check_outputs(("json", config.json), *files, inputs=read)
    there = {path.name for path in config.out.iterdir() if not path.name.startswith(".")}
    if there - {*FILES} and CONTRACT not in there:
        raise UserError(
            f"{config.out} is not empty and holds no older bundle; choose another --out"
        )
    return low_level, high_level
