"""Configuration files of other programs: read safely, and asked for numbers by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, Ranges


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML that reads Python objects (Isaac Lab writes slices) as None, and runs none."""


_Loader.add_multi_constructor(
    "tag:yaml.org,2002:python/tuple", lambda loader, _, node: loader.construct_sequence(node)
)
_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        UserError: if it cannot be read.
    """
    try:
        content = yaml.load(path.read_bytes(), Loader=_Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"{path}: cannot be read as YAML ({why})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected keys and values")
    return content


def entry(content: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these keys that is there.

    Raises:
        UserError: if there is none.
    """
    for name in names:
        if content.get(name) is not None:
            return content[name]
    raise UserError(f"key '{names[0]}' is missing")


def numbers(name: str, value: Any, count: int) -> Array:
    """Numbers (count,); one stands for all.

    Raises:
        UserError: if they are others.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim == 0:
        array = np.full(count, float(array))
    if array.shape != (count,) or not np.isfinite(array).all():
        raise UserError(f"{name} is {value}, expected {count} numbers")
    return array


def number(name: str, value: Any) -> float:
    """A number.

    Raises:
        UserError: if it is none.
    """
    return float(numbers(name, value, 1)[0])


def indices(name: str, value: Any, count: int) -> list[int]:
    """A permutation of 0 to count - 1.

    Raises:
        UserError: if it is none.
    """
    if not isinstance(value, list) or sorted(map(str, value)) != sorted(map(str, range(count))):
        raise UserError(f"{name} is {value}, expected each of 0 to {count - 1} once")
    return value


def limits(name: str, value: Any) -> tuple[float, float]:
    """A range [least, most].

    Raises:
        UserError: if it is none.
    """
    least, most = numbers(name, value, 2).tolist()
    if not least < most:
        raise UserError(f"{name} is {value}, expected [least, most]")
    return least, most


def command_ranges(name: str, ranges: Mapping[str, Any]) -> Ranges:
    """Ranges of velocity commands as Isaac Lab names them; each includes a stand."""
    axes = ("lin_vel_x", "lin_vel_y", "ang_vel_z")
    found = []
    for axis in axes:
        least, most = numbers(f"{name}.{axis}", entry(ranges, axis), 2).tolist()
        if least > most:
            raise UserError(f"{name}.{axis} is {[least, most]}, expected [least, most]")
        found.append((min(least, 0.0), max(most, 0.0)))
    return tuple(found)
