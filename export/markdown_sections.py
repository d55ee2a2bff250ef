"""Generated sections of Markdown pages, between two marker lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import write_atomic


def markers(part: str, target: str) -> tuple[str, str]:
    """The marker lines around a part that `make <target>` writes."""
    return f"<!-- {part}: written by make {target} -->", f"<!-- end of {part} -->"


def require_markers(page: Path, part: str, target: str) -> None:
    """Check a page before hours of measuring.

    Raises:
        UserError: if the page is missing, not UTF-8, or has no such markers.
    """
    begin, end = markers(part, target)
    try:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
    except UnicodeDecodeError:
        raise UserError(f"{page}: no page of text (UTF-8)") from None
    _, found, after = text.partition(begin)
    if not found or end not in after:
        raise UserError(f"{page}: no lines '{begin}' and '{end}' to write between")


def table_head(names: Sequence[str]) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [table_line(names), f"|{'---|' * len(names)}"]


def table_line(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def write_between(page: Path, part: str, target: str, lines: Sequence[str]) -> None:
    """Replace the lines between the markers.

    Raises:
        UserError: as `require_markers`.
    """
    require_markers(page, part, target)
    begin, end = markers(part, target)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    write_atomic(page, "\n".join([before + begin, *lines, end + after]).encode())
