"""Command lines: one parser, and one validation of numbers for every option."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from pixelgait.robot.cli.commands import own_arguments
from pixelgait.robot.cli.usage import understand
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import require_writable

Config = TypeVar("Config")


@dataclass(frozen=True, slots=True)
class Range:
    """What values of an option make sense; it stands beside the option's type."""

    least: float
    most: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        if math.isinf(self.most):
            return f"needs at least {self.least:g}"
        return f"expected {self.least:g} to {self.most:.10g}"


LARGEST_SEED = 2**32 - 1
Seed = Annotated[int, Range(0, LARGEST_SEED)]
Episodes = Annotated[int, Range(1, 10**6)]
Count = Annotated[int, Range(1, 10**9)]
Workers = Annotated[int, Range(1, 256)]
Minutes = Annotated[float, Range(0.0, 1e6)]  # two years


def parse(
    kind: type[Config], program: str, arguments: list[str] | None = None, **options: Any
) -> Config:
    """The command line as a configuration; behind --ros-args it is not ours.

    A configuration may have pairs of options of which only one means something, `APART`, and may
    look at all that were given itself, `check_given`.

    Raises:
        UserError: it is not understood, an argument is empty, as of a shell variable that is not
            set, both of a pair are given, or one that is nothing to another, or a number makes no
            sense, see `check_numbers`.
    """
    arguments = own_arguments() if arguments is None else arguments
    if "" in arguments:
        place = arguments.index("")
        before = arguments[place - 1] if place else ""
        raise UserError(f"{before if before[:2] == '--' else f'argument {place + 1}'} is empty")
    if empty := [word for word in arguments if re.fullmatch("--[^=]+=", word)]:
        raise UserError(f"{empty[0]} is empty")
    config: Config = understand(kind, program, arguments, **options)
    options_given = {word.partition("=")[0].replace("_", "-") for word in arguments}
    for one, other in getattr(config, "APART", ()):
        if {one, other} <= options_given:
            raise UserError(f"{one} and {other}: one of them would be ignored, give the other")
    check_numbers(config)
    if (check_given := getattr(config, "check_given", None)) is not None:
        check_given(options_given)
    return config


def check_outputs(*outputs: tuple[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """To be called before long work: every file, behind its option's name, can be written.

    Raises:
        UserError: something else than a file is there, two options name the same one, or one of
            the files that are read.
        OSError: no file can be made in its folder.
    """
    taken = {os.path.realpath(path): "what is read" for path in inputs}
    for option, path in outputs:
        if path is None:
            continue
        if other := taken.get(where := os.path.realpath(path)):
            raise UserError(f"--{option} {path}: {other} is the same file")
        require_writable(path)
        taken[where] = f"--{option}"


def check_numbers(config: Any) -> None:
    """Check all numbers of a configuration, in the ones it holds too.

    Raises:
        UserError: a number is not finite, or not in its `Range`.
    """
    for name, value, allowed in _numbers(config):
        if not math.isfinite(value):
            raise UserError(f"--{name} is {value}, needs a finite number")
        if allowed is not None and value not in allowed:
            raise UserError(f"--{name} is {value}, {allowed}")


def _numbers(config: Any, prefix: str = "") -> Iterator[tuple[str, float, Range | None]]:
    """Name as on the command line, value and range of every number."""
    hints = get_type_hints(type(config), include_extras=True)
    for field in fields(config):
        name, value = prefix + field.name.replace("_", "-"), getattr(config, field.name)
        if is_dataclass(value):
            yield from _numbers(value, f"{name}.")
            continue
        metadata = getattr(hints[field.name], "__metadata__", ())
        allowed = next((each for each in metadata if isinstance(each, Range)), None)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, (int, float)) and not isinstance(each, bool):
                yield name, each, allowed
