"""Parts of the README that commands write, each between two lines of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import write_atomic


def markers(name: str) -> tuple[str, str]:
    """The lines around what `make <name>` writes."""
    return f"<!-- {name}: written by make {name} -->", f"<!-- end of {name} -->"


def require_markers(readme: Path, name: str) -> None:
    """To be called before hours of measuring.

    Raises:
        UserError: the README has no such lines.
    """
    text, (begin, end) = readme.read_text(), markers(name)
    if begin not in text or end not in text:
        raise UserError(f"{readme}: no lines '{begin}' and '{end}' to write between")


def write_between(readme: Path, name: str, lines: Sequence[str]) -> None:
    """Replace what stands between the markers.

    Raises:
        UserError: the README has no such lines.
    """
    require_markers(readme, name)
    text, (begin, end) = readme.read_text(), markers(name)
    before, after = text.split(begin)[0], text.split(end)[1]
    write_atomic(readme, "\n".join([before + begin, *lines, end + after]).encode())
