"""A bundle's folder: where it is, and which files are in it."""

from __future__ import annotations

from pathlib import Path

from pixelgait.robot.errors import UserError

CONTRACT, GOLDEN = "contract.json", "golden.json"
HIGH_LEVEL, LOW_LEVEL = "high_level.onnx", "low_level.onnx"
FILES = (HIGH_LEVEL, LOW_LEVEL, GOLDEN)  # those whose hashes are in the contract
SHIPPED = Path(__file__).resolve().parents[2] / "policies" / "pretrained"
LOW_LEVELS = {  # shipped bundles, by the robot whose legs they move
    "a1": "walk",
    "go2": "walk-go2",
    "laikago": "walk-laikago",
    "mini_cheetah": "walk-mini-cheetah",
}


class BundleError(UserError):
    """The bundle cannot be used; the message names what is wrong with it."""


def find_bundle(name: str) -> Path:
    """The folder of a bundle: a path, or the name of a shipped one.

    Raises:
        BundleError: there is no contract in either.
    """
    for folder in (Path(name), SHIPPED / name):
        if (folder / CONTRACT).is_file():
            return folder
    if (Path(name) / "config.yaml").is_file():
        raise BundleError(f"'{name}' is a training run: pixelgait-export makes a bundle of it")
    if (file := Path(name)).is_file():
        there = f", as {file.parent}" if (file.parent / CONTRACT).is_file() else ""
        raise BundleError(f"'{name}' is a file, expected a folder with {CONTRACT}{there}")
    known = ", ".join(sorted(p.parent.name for p in SHIPPED.glob(f"*/{CONTRACT}"))) or "none"
    raise BundleError(f"bundle '{name}': no {CONTRACT} in that folder, and none shipped ({known})")


def shipped_low_level(robot: str) -> Path:
    """The folder of the bundle that moves the legs of a robot.

    Raises:
        UserError: none is shipped.
    """
    if robot not in LOW_LEVELS:
        raise UserError(f"no low level is shipped for '{robot}': train one, pixelgait-train follow")
    return SHIPPED / LOW_LEVELS[robot]
