"""Command lines: one parser, and one validation of values for every option."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

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
            set, both of a pair are given, one has no effect with another, or a value makes no
            sense, see `check_values`.
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
    check_values(config)
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
        require_writable(path, None if option == "out" else option)  # --out names a folder itself
        taken[where] = f"--{option}"


def check_values(config: Any) -> None:
    """Check all numbers and choices of a configuration, in the ones it holds too.

    A command line has them right but for the numbers' ranges; a program may have mistyped them.

    Raises:
        UserError: a number is not finite, not whole or not in its `Range`, or there is no such
            choice.
    """
    for name, value, hint in _values(config):
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        allowed = next((each for each in get_args(hint) if isinstance(each, Range)), None)
        if get_origin(kind) is Literal and value not in get_args(kind):
            choices = ", ".join(map(str, get_args(kind)))
            raise UserError(f"--{name} is {value!r}, choose from {choices}")
        if kind in (int, float) and (isinstance(value, bool) or not isinstance(value, Real)):
            raise UserError(f"--{name} is {value!r}, needs a number")
        if kind is int and not isinstance(value, Integral):
            raise UserError(f"--{name} is {value}, needs a whole number")
        if isinstance(value, Real) and not math.isfinite(value):
            raise UserError(f"--{name} is {value}, needs a finite number")
        if allowed is not None and value not in allowed:
            raise UserError(f"--{name} is {value}, {allowed}")


def _values(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Name as on the command line, value and type of every option, of each in a tuple."""
    hints = get_type_hints(type(config), include_extras=True)
    for field in fields(config):
        name, value = prefix + field.name.replace("_", "-"), getattr(config, field.name)
        if is_dataclass(value):
            yield from _values(value, f"{name}.")
        elif isinstance(value, tuple):
            yield from ((name, each, hints[field.name]) for each in value)
        elif value is not None:
            yield name, value, _given(hints[field.name])


def _given(hint: Any) -> Any:
    """The type of an option that may be left out, once it is there."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if type(None) in get_args(hint) and len(kinds) == 1 else hint
