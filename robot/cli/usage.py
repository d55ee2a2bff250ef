"""What is wrong with a command line that cannot be understood, in one line.

tyro says it in boxes of up to 22 lines. The line here is worked out from the configuration's
fields, not from tyro's words, which are its own and change.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from pixelgait.robot.errors import UserError

NUMBERS = {int: "a whole number", float: "a number"}
NEAR = 0.75  # of difflib's ratio, ours


@dataclass(frozen=True, slots=True)
class Option:
    """What may be typed: --episodes, or BUNDLE by its place."""

    name: str
    kind: Any
    needed: bool
    by_place: bool

    @property
    def arity(self) -> int | None:
        """How many values it takes; None: any number of them."""
        if get_origin(self.kind) is not tuple:
            return 0 if self.kind is bool else 1
        return None if Ellipsis in get_args(self.kind) else len(get_args(self.kind))

    def expected(self, value: str) -> str | None:
        """What is expected instead of this value, if it cannot be one."""
        kind = get_args(self.kind)[0] if get_origin(self.kind) is tuple else self.kind
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            return None if value in choices else f"expected {', '.join(map(str, choices))}"
        if kind in NUMBERS:
            try:
                kind(value)
            except ValueError:
                return f"expected {NUMBERS[kind]}"
        return None


def understand(kind: Any, program: str, arguments: list[str], **options: Any) -> Any:
    """What `tyro.cli` makes of a command line; --help it answers itself.

    Raises:
        UserError: it cannot be understood.
    """
    boxes = io.StringIO()
    try:
        with redirect_stderr(boxes):
            made = tyro.cli(kind, prog=program, args=arguments, **options)
    except SystemExit as end:
        if not end.code:
            raise
        whole = "default" in options  # has all that is needed
        fault = find_fault(kind, program, arguments, whole)
        raise UserError(fault or f"not understood, see {program} --help") from None
    sys.stderr.write(boxes.getvalue())
    return made


def find_fault(kind: Any, program: str, arguments: list[str], whole: bool = False) -> str | None:
    """The first thing on a command line that does not belong there, or what it lacks.

    Args:
        kind: the configuration, or a union of subcommands.
        whole: nothing has to be given.
    """
    if not (commands := _subcommands(kind)):
        return _fault(kind, program, arguments, whole, {})
    command = arguments[0] if arguments else ""
    if command not in commands:
        given = f", not '{command}'" if command else ""
        return f"{program}: expected {', '.join(commands)}{given}, see {program} --help"
    others = {name: set(options_of(other)) for name, other in commands.items()}
    return _fault(commands[command], f"{program} {command}", arguments[1:], whole, others)


def _fault(
    kind: Any, program: str, arguments: list[str], whole: bool, others: dict[str, set[str]]
) -> str | None:
    """The first fault of a command line without subcommand; others: what those know."""
    known = options_of(kind)
    places = [option for option in known.values() if option.by_place]
    needed = [] if whole else [name for name, option in known.items() if option.needed]
    words = list(arguments)
    while words:
        word, equals, value = words.pop(0).partition("=")
        if not word.startswith("--"):
            if not places:
                return f"{program}: '{word + equals + value}' is one argument too many"
            needed = [name for name in needed if name != places[0].name]
            places.pop(0)
            continue
        name = word.replace("_", "-")
        if (option := known.get(name)) is None:
            if (positive := known.get(name.replace("--no-", "--", 1))) and positive.kind is bool:
                continue
            return _unknown(word, program, known, others)
        needed = [each for each in needed if each != name]
        if equals and option.arity == 0:
            return f"{word} takes no value, here it has '{value}'"
        values = [value] if equals else _take(option, words)
        if option.arity and len(values) < option.arity:
            count = "a value" if option.arity == 1 else f"{option.arity} values"
            return f"{word}: expected {count} behind it"
        for each in values:
            if (expected := option.expected(each)) and each != "None":
                return f"{word} is '{each}', {expected}"
    return f"{needed[0]} is missing, see {program} --help" if needed else None


def _take(option: Option, words: list[str]) -> list[str]:
    """Take an option's values off the words behind it."""
    values: list[str] = []
    while words and not words[0].startswith("--") and len(values) != option.arity:
        values.append(words.pop(0))
    return values


def _unknown(word: str, program: str, known: Iterable[str], others: dict[str, set[str]]) -> str:
    """No such option; who has one, or which is nearest."""
    name = word.replace("_", "-")
    if having := [other for other, options in others.items() if name in options]:
        return f"{program} has no {word}, which is of {', '.join(having)}"
    near = get_close_matches(name, [each for each in known if each.startswith("--")], 1, NEAR)
    return f"{program} has no {word}, " + (f"but {near[0]}" if near else f"see {program} --help")


def options_of(kind: Any, prefix: str = "--") -> dict[str, Option]:
    """Everything that a configuration can be told, by name."""
    found = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, name = hints[field.name], prefix + field.name.replace("_", "-")
        by_place = tyro.conf.Positional in getattr(hint, "__metadata__", ())
        if is_dataclass(plain := _plain(hint)):
            found.update(options_of(plain, f"{name}."))
            continue
        if by_place:
            named = (getattr(note, "metavar", None) for note in hint.__metadata__)
            name = next(filter(None, named), field.name.upper())
        needed = field.default is MISSING and field.default_factory is MISSING
        found[name] = Option(name, plain, needed, by_place)
    return found


def _plain(hint: Any) -> Any:
    """A type without its notes, and without None."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return next(_plain(part) for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is tuple:
        return tuple[tuple(part if part is ... else _plain(part) for part in get_args(hint))]  # type: ignore[misc]
    return hint


def _subcommands(kind: Any) -> dict[str, Any]:
    """The configurations of a union by the names its notes give; none if it is no union."""
    found = {}
    for part in get_args(kind) if get_origin(kind) in (Union, UnionType) else ():
        plain, *notes = get_args(part)
        found.update({note.name: plain for note in notes if hasattr(note, "name")})
    return found
