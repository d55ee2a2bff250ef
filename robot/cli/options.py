"""Command lines: one parser for all commands, ranges of numbers, and output files."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, fields, is_dataclass
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import tyro

from pixelgait.robot.cli.commands import own_arguments
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import require_writable

Config = TypeVar("Config")


@dataclass(frozen=True, slots=True)
class Range:
    """Allowed values of a number; annotates the option's type."""

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
    """The command line as a configuration, without the arguments between --ros-args and `--`.

    A configuration may name pairs of options that exclude each other, `APART`, and may check the
    names of the given options itself, `check_given`.

    Raises:
        UserError: if tyro rejects it, an argument is empty (such as an unset shell variable),
            options exclude each other, or a number is out of range.
    """
    arguments = own_arguments() if arguments is None else arguments
    if "" in arguments:
        place = arguments.index("")
        before = arguments[place - 1] if place else ""
        raise UserError(f"{before if before[:2] == '--' else f'argument {place + 1}'} is empty")
    if empty := [word for word in arguments if re.fullmatch("--[^=]+=", word)]:
        raise UserError(f"{empty[0]} is empty")
    config: Config = _call_tyro(kind, program, arguments, **options)
    given = {word.partition("=")[0].replace("_", "-") for word in arguments}
    for one, other in getattr(config, "APART", ()):
        if {one, other} <= given:
            raise UserError(f"{one} and {other} are mutually exclusive")
    check_values(config)
    if (check_given := getattr(config, "check_given", None)) is not None:
        check_given(given)
    return config


def parse_known(kind: type[Config], program: str, arguments: list[str]) -> Config:
    """The options of `kind` on a command line that has further ones; raises UserError likewise."""
    config: Config = _call_tyro(kind, program, arguments, return_unknown_args=True)[0]
    return config


def _call_tyro(kind: Any, program: str, arguments: list[str], **options: Any) -> Any:
    """`tyro.cli`, with its box of an error message as one line; --help ends the process.

    Raises:
        UserError: if tyro rejects the command line.
    """
    box = io.StringIO()
    try:
        with redirect_stderr(box):
            made = tyro.cli(kind, prog=program, args=arguments, **options)
    except SystemExit as end:
        if not end.code:
            raise
        raise UserError(_unboxed(box.getvalue(), program)) from None
    sys.stderr.write(box.getvalue())
    return made


def _unboxed(box: str, program: str) -> str:
    """The first paragraph of tyro's message, and the option it suggests or --help."""
    rows = [row.strip("│ ") for row in box.splitlines()[1:-1]]
    sections = [part.strip() for part in re.split("─{4,}", "\n".join(rows))]
    rows = sections[0].split("\n\n")[0].split("\n")
    why = " ".join(rows[:2] if rows[0].endswith(":") else rows).strip().rstrip(".")
    suggested = [part for part in sections[1:] if re.match("Perhaps you|Arguments similar", part)]
    if suggested:
        heading, option, *_ = suggested[0].split("\n")
        return f"{program}: {why}; {heading[0].lower()}{heading[1:]} {option.strip()}"
    return f"{program}: {why}; see {program} --help"


def require_libraries(*names: str) -> None:
    """Raises ModuleNotFoundError if one is not installed, without the seconds of importing them."""
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)


def check_outputs(*outputs: tuple[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Check before long work that every output can be written.

    Args:
        outputs: option names, each with its file.
        inputs: files that are read.

    Raises:
        UserError: if a path is no file, or the same as another output or an input.
        OSError: if no file can be made in its folder.
    """
    used = {os.path.realpath(path): "what is read" for path in inputs}
    files = [(option, path) for option, path in outputs if path is not None]
    for option, path in files:
        if other := used.get(where := os.path.realpath(path)):
            raise UserError(f"--{option} {path}: {other} is the same file")
        used[where] = f"--{option}"
    for option, path in files:
        require_writable(path, None if option == "out" else option)  # --out names a folder itself


def check_values(config: Any) -> None:
    """Check all numbers of a configuration, in nested ones too.

    Raises:
        UserError: if a number is not finite, or not in its `Range`.
    """
    for name, value, hint in _values(config):
        if isinstance(value, Real) and not math.isfinite(value):
            raise UserError(f"--{name} is {value}, needs a finite number")
        for allowed in _ranges(hint):
            if value not in allowed:
                raise UserError(f"--{name} is {value}, {allowed}")


def _values(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Name as on the command line, value and type of every option, once per value of a tuple."""
    hints = get_type_hints(type(config), include_extras=True)
    for field in fields(config):
        name, value = prefix + field.name.replace("_", "-"), getattr(config, field.name)
        if is_dataclass(value):
            yield from _values(value, f"{name}.")
        elif isinstance(value, tuple):
            yield from ((name, each, hints[field.name]) for each in value)
        elif value is not None:
            yield name, value, hints[field.name]


def _ranges(hint: Any) -> Iterator[Range]:
    """The range in a type's annotations, also within `| None` or a tuple."""
    for each in get_args(hint):
        if isinstance(each, Range):
            yield each
        else:
            yield from _ranges(each)
