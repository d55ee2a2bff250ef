"""What every Gymnasium environment here can be asked for."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any, TypedDict

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import CHANNELS, Kind
from pixelgait.sim.body.faults import Fault, require_camera
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.seeds import ranges_of

MOST_SKIPPED = 6000  # control steps: a minute
LARGEST_IMAGE = 1024  # pixels a side, as of pixelgait-sim
LONGEST_S = 3600.0
MOST_ROBOTS = 4096  # at once, in one process: 0.4 MB each
MOST_WORKERS = 1024
LARGEST_SEED = 2**63 - 1  # that an array of seeds, in the infos of many, can hold


class EnvOptions(TypedDict, total=False):
    """What every environment can be asked for beside its scene; see `PixelGaitEnv` in base.py."""

    robot: str
    render_mode: str | None
    appearance: AppearanceOption
    camera: Kind
    body: str
    randomise: bool
    faults: tuple[str, ...]
    field_of_view_rad: float | None
    goal: bool
    seconds: float


def check_names(**names: object) -> None:
    """Raises UserError if one of them is no text."""
    for option, value in names.items():
        if not isinstance(value, str):
            raise UserError(f"{option} is {value!r}, needs a name")


def check_switches(**switches: object) -> None:
    """Raises UserError if one of them is neither true nor false."""
    for option, value in switches.items():
        if not isinstance(value, bool | np.bool_):
            raise UserError(f"{option} is {value!r}, expected True or False")


def check_faults(faults: object) -> None:
    """Raises UserError if they are not several."""
    if not isinstance(faults, tuple | list):
        raise UserError(f"faults is {faults!r}, needs a tuple, as in ('mixed',)")


def check_render_mode(mode: object, known: Sequence[str]) -> None:
    """Raises UserError if nothing is rendered so; None: nothing at all."""
    if mode is not None and mode not in known:
        raise UserError(f"unknown render_mode {mode!r}, choose from {', '.join(known)}")


def check_eyes(
    image_size: tuple[int, int] | None, camera: Kind, field_of_view_rad: float | None
) -> None:
    """Raises UserError if there is no such camera, or none that could be rendered in time."""
    if camera not in CHANNELS:
        raise UserError(f"unknown camera '{camera}', choose from {', '.join(CHANNELS)}")
    if image_size is not None and not _is_size(image_size):
        raise UserError(
            f"image_size is {image_size!r}, needs (height, width), whole numbers "
            f"from 1 to {LARGEST_IMAGE}"
        )
    if field_of_view_rad is not None and not _is_angle(field_of_view_rad):
        raise UserError(
            f"field_of_view_rad is {field_of_view_rad!r}, needs more than 0, less than pi"
        )


def check_blind(
    camera: Kind,
    appearance: AppearanceOption,
    field_of_view_rad: float | None,
    render_mode: str | None,
    wrong: tuple[Fault, ...],
) -> None:
    """Raises UserError if something is asked of the images of an agent that gets none."""
    if appearance != "nominal":
        raise UserError("image_size is None: there is no image for appearance")
    unseen_lens = field_of_view_rad is not None and render_mode != "camera"
    if camera != "rgb" or unseen_lens:
        raise UserError("image_size is None: there is no image for camera or field_of_view_rad")
    require_camera(wrong, "who has no image")


def check_times(frame_skip: int, seconds: float) -> None:
    """Raises UserError if an action or an episode cannot last so long."""
    if not _is_whole(frame_skip, MOST_SKIPPED):
        raise UserError(
            f"frame_skip is {frame_skip!r}, needs a whole number from 1 to {MOST_SKIPPED}"
        )
    if not isinstance(seconds, Real) or not CONTROL_DT_S <= seconds <= LONGEST_S:
        raise UserError(f"seconds is {seconds!r}, expected {CONTROL_DT_S} to {LONGEST_S:g}")


def check_count(robots: int) -> None:
    """Raises UserError if there cannot be so many robots."""
    if not _is_whole(robots, MOST_ROBOTS):
        raise UserError(f"num_envs is {robots!r}, needs a whole number from 1 to {MOST_ROBOTS}")


def check_workers(workers: int | None) -> None:
    """Raises UserError if there cannot be so many worker processes; None: one for each core."""
    if workers is not None and not _is_whole(workers, MOST_WORKERS):
        raise UserError(f"workers is {workers!r}, needs a whole number from 1 to {MOST_WORKERS}")


def check_reset(options: dict[str, Any] | None) -> None:
    """Raises UserError if only some robots of many are to begin anew."""
    if options and "reset_mask" in options:
        raise UserError("reset_mask: whoever's episode is over begins anew by itself")


def as_action(given: object, shape: tuple[int, ...]) -> Array:
    """What an agent puts out, of this shape, within [-1, 1].

    Raises:
        UserError: it is no action, or nan, or there are not as many actions as robots.
    """
    try:
        wanted = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"an action is not of {shape[-1]} numbers: {given!r}") from None
    if len(shape) > 1 and wanted.ndim and len(wanted) != shape[0]:
        raise UserError(f"actions: {len(wanted)} for {shape[0]} robots")
    if wanted.shape != shape:
        raise UserError(f"shape of an action is {wanted.shape}, expected {shape}")
    within = np.minimum(np.maximum(wanted, -1.0), 1.0)  # np.clip takes twice as long
    if math.isnan(within.sum()):  # who glides would be nowhere, at full reward
        raise UserError("an action is nan: whoever decides has diverged")
    return within


def each_seed(seed: int | Sequence[int | None] | None, robots: int) -> list[int | None]:
    """A seed for each of n robots: this one and those after it, or those given, or none.

    Raises:
        UserError: more are given than there are robots, or fewer, or something else than seeds, or
            those after this one are not for the same use, such as training.
    """
    if seed is None:
        return [None] * robots
    if not isinstance(seed, int | Sequence):
        raise UserError(f"seed is {seed!r}, needs a whole number, or one or None for each robot")
    given = list(range(seed, seed + robots) if isinstance(seed, int) else seed)
    if isinstance(seed, int) and len(uses := ranges_of(range(seed, seed + robots))) > 1:
        raise UserError(f"seed {seed} and those after it of {robots} robots: {' and '.join(uses)}")
    for each in given:
        if each is not None and not (isinstance(each, int) and 0 <= each <= LARGEST_SEED):
            raise UserError(f"seed of a robot is {each!r}, expected 0 to {LARGEST_SEED}")
    if len(given) != robots:
        raise UserError(f"seed: {len(given)} for {robots} robots")
    return given


def _is_angle(value: object) -> bool:
    """Whether a camera's view can be as wide."""
    return isinstance(value, Real) and 0.0 < float(value) < math.pi


def _is_size(size: object) -> bool:
    return (
        isinstance(size, (tuple, list))
        and len(size) == 2
        and all(_is_whole(side, LARGEST_IMAGE) for side in size)
    )


def _is_whole(value: object, most: int) -> bool:
    """Whether this is a whole number, numpy's too, from 1 to the largest one allowed."""
    try:
        return 1 <= operator.index(value) <= most  # type: ignore[arg-type]
    except TypeError:
        return False
