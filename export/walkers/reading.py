"""Reader of walkers: finds the format of the files, reads network and description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from pixelgait.export.walkers import configuration
from pixelgait.export.walkers.deploy import is_deploy, read_deploy
from pixelgait.export.walkers.legged_gym import is_legged_gym, read_legged_gym
from pixelgait.export.walkers.mjlab import is_mjlab, read_mjlab
from pixelgait.export.walkers.network import input_size, read_network
from pixelgait.export.walkers.options import Told
from pixelgait.export.walkers.rl_sar import is_rl_sar, read_rl_sar
from pixelgait.export.walkers.walker import Walker, check, places
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import RobotSpec

FORMATS = (
    "deploy.yaml (unitree_rl_lab, unitree_rl_mjlab), config.yaml with base.yaml (rl_sar), or YAML "
    "in the manner of legged_gym"
)


def read_walker(
    policy: Path, config: Sequence[Path], spec: RobotSpec, told: Told
) -> tuple[Walker, onnx.ModelProto]:
    """A walker and its network.

    Raises:
        UserError: if a file cannot be read, or they do not fit each other; names what does not.
    """
    walker = _described(config, spec, told) if config else None
    network = read_network(policy, len(walker.layout()) if walker else None)
    if walker is None:
        if not is_mjlab(network):
            raise UserError(f"{policy} has no metadata that describe it: give --config, {FORMATS}")
        told.require_used(("command", "rate_hz", "scales"))
        with _named(policy):
            walker = read_mjlab(network, told)
    with _named(config[-1] if config else policy):
        places(walker, spec)
        return check(walker, input_size(network)), network


def _described(config: Sequence[Path], spec: RobotSpec, told: Told) -> Walker:
    parts = [(path, _unwrapped(configuration.read(path))) for path in config]
    parts.sort(key=lambda part: "observations" in part[1])  # the policy's file has the last word
    file, content = parts[-1][0], {k: v for _, part in parts for k, v in part.items()}
    for fits, read, used in (
        (is_deploy, read_deploy, ("command",)),
        (is_rl_sar, read_rl_sar, ("command", "rate_hz")),
        (is_legged_gym, read_legged_gym, ("command", "rate_hz", "joint_order")),
    ):
        if fits(content):
            told.require_used(used)
            with _named(file):
                return read(content, spec, told)
    raise UserError(f"{file}: no description of a walker, expected {FORMATS}")


def _unwrapped(content: Mapping[str, Any]) -> dict[str, Any]:
    """The entries below the one key of rl_sar's files, as go2 or go2/robot_lab."""
    if len(content) == 1 and isinstance(only := next(iter(content.values())), dict):
        return dict(only)
    return dict(content)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
