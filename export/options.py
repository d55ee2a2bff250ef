"""Options of pixelgait-export, and their checks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pixelgait.export.walkers.options import Told
from pixelgait.export.walkers.walker import FASTEST_HZ, SLOWEST_HZ, standard
from pixelgait.policies.runs.run import files_of, find_run
from pixelgait.robot.bundle import CONTRACT, FASTEST, FASTEST_PACE, FILES, find_bundle
from pixelgait.robot.cli.options import Range, Seed, check_outputs, require_libraries
from pixelgait.robot.errors import UserError
from pixelgait.sim.options import MountOptions
from pixelgait.sim.world.seeds import VALIDATION


@dataclass(frozen=True)
class ExportConfig(MountOptions):
    """Export two training runs as one policy bundle: ONNX graphs, contract, golden vector.

    Or a third-party walking policy (--walker), alone or below a high level of ours.

    Both graphs are compared with torch on observations recorded in simulation. The tolerance is
    1e-5, for recurrent states 1e-4. One duration in 50 may differ by a step.

    --camera, --pitch and --camera-fov say where the camera of the bundle is mounted: by default as
    in the high level's training, if its run was for this robot and had these options.
    """

    out: Path
    """Folder of the bundle; an older bundle there is replaced."""
    low_level: Path | None = None
    """Run folder of the low level (task walk, follow or joint), or a bundle that contains one: a
    folder, or the name of a shipped one, as walk."""
    walker: Path | None = None
    """Instead of a low level, a third-party walking policy: .onnx, or TorchScript (.pt). It is
    tried in both simulators; its card, README.md in the bundle, says what it can do."""
    config: tuple[Path, ...] = ()
    """Files that describe the walker: deploy.yaml (unitree_rl_lab, unitree_rl_mjlab); base.yaml and
    config.yaml (rl_sar); YAML as legged_gym's. ONNX files of mjlab need none."""
    robot: str | None = None
    """Robot of the walker: a name, or a robot file (.yaml); by default go2."""
    rate: Annotated[float | None, Range(SLOWEST_HZ, FASTEST_HZ)] = None
    """Actions of the walker a second, if its files do not say."""
    joint_order: str | None = None
    """Order of the walker's joints, if its files do not say: sdk (FR, FL, RR, RL), leg-by-leg (FL,
    FR, RL, RR), joint-by-joint (all hips first, as Isaac Lab), or 12 names with commas."""
    speeds: Annotated[
        tuple[float, float, float, float, float, float] | None, Range(-FASTEST, FASTEST)
    ] = None
    """Velocity commands of the walker, least and most: ahead, left [m/s], turn [rad/s]."""
    scale: tuple[str, ...] = ()
    """Scales of the walker's observations, if its files do not say: joint_vel_rel=0.05."""
    pace: Annotated[float, Range(0.1, FASTEST_PACE)] = 1.0
    """Factor on the high level's speed, 0.6 m/s at most, for a walker that is faster."""
    high_level: Path | None = None
    """Run folder of the high level, or a bundle that contains one, as iap; for a walker a bundle.
    Without it the policy walks straight ahead."""
    encoder: str = ""
    """Encoder of an untrained high level, with options as in iap:patch=4,stride=4. height, width
    and channels (1 depth, 3 RGB, 4 RGB-D) choose the camera. Excludes --high-level."""
    name: str = "policy"
    """Name of the bundle in its contract."""
    seed: Seed = VALIDATION.start
    """Seed of the course on which the observations are recorded; not for a walker."""
    json: Path | None = None
    """Write the parity figures to this file; those of a walker with what its trial showed."""

    def told(self) -> Told:
        """The options that complete a walker's files.

        Raises:
            UserError: if a scale or a range cannot be used.
        """
        scales = {}
        for entry in self.scale:
            name, found, value = entry.partition("=")
            known = standard(name)
            try:
                scales[known] = float(value) if found else math.nan
            except ValueError:
                scales[known] = math.nan
            if not math.isfinite(scales[known]):
                raise UserError(f"--scale {entry}: expected NAME=NUMBER")
        command = None
        if self.speeds is not None:
            command = tuple(zip(self.speeds[::2], self.speeds[1::2], strict=True))
            if not all(low <= 0.0 <= high for low, high in command):
                raise UserError(f"--speeds {self.speeds}: each range needs to include 0")
        return Told(self.rate, self.joint_order, command, scales)


WALKERS = ("config", "robot", "rate", "joint_order", "speeds", "scale")  # options of a walker alone
OF_LOW_LEVEL = ("low_level", "encoder", "seed")  # those that a walker has no use for


def check(config: ExportConfig) -> tuple[Path | None, Path | None]:
    """The run folders of low and high level, after all quick checks; of a walker there are none.

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
    low_level, high_level = _levels(config)
    if config.high_level and config.encoder:
        raise UserError("--encoder takes the place of --high-level: give one of them")
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file, expected a folder")
    files = [("out", config.out / name) for name in (*FILES, CONTRACT)]
    read = [file for run in (low_level, high_level) if run for file in files_of(run)]
    read += [*config.config, *([config.walker] if config.walker else [])]
    check_outputs(("json", config.json), *files, inputs=read)
    there = {path.name for path in config.out.iterdir() if not path.name.startswith(".")}
    if there - {*FILES} and CONTRACT not in there:
        raise UserError(
            f"{config.out} is not empty and holds no older bundle; choose another --out"
        )
    return low_level, high_level


def _levels(config: ExportConfig) -> tuple[Path | None, Path | None]:
    """The run folders of low and high level."""
    if (config.low_level is None) == (config.walker is None):
        raise UserError("give a low level, --low-level, or a third-party walking policy, --walker")
    if config.low_level is not None:
        usual = ExportConfig(Path())
        for name in WALKERS:
            if getattr(config, name) != getattr(usual, name):
                option = name.replace("_", "-")
                raise UserError(f"--{option} has no effect with --low-level: it is of a --walker")
        if config.pace != 1.0:
            raise UserError("--pace has no effect with --low-level: it was trained up to 0.6 m/s")
        low_level = find_run(config.low_level, "low_level")
        high_level = config.high_level and find_run(config.high_level, "high_level")
        require_libraries("torch", "onnx", "onnxscript")  # before a folder is made
        return low_level, high_level
    if config.seed != VALIDATION.start:
        raise UserError("--seed has no effect with --walker: its trial has the same seeds always")
    if config.encoder:
        raise UserError("--encoder is for --low-level: above a --walker goes a bundle's high level")
    require_libraries("onnx", "pybullet", "mujoco")
    if config.high_level is not None:
        find_bundle(str(config.high_level))
    assert config.walker is not None
    if config.walker.is_dir():
        raise UserError(
            f"--walker {config.walker} is a folder, expected the policy's file: .onnx or .pt"
        )
    for path in (config.walker, *config.config):
        if not path.is_file():
            raise UserError(f"{path}: no such file")
    return None, None
