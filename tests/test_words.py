"""Language of docstrings and comments: a subject first, and the field's own terms."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("robot", "sim", "policies", "export", "docs/figures")
OPENING = re.compile(r"(Of|Who|Whose|Whoever|Nobody|Somebody|Anybody)\b")
WORDS = re.compile(
    r"\b(whoever|nobody|somebody|anybody|heeds?|who is told|(?<!there )is nothing to)\b",
    re.IGNORECASE,
)


def texts(source: str) -> Iterator[str]:
    """All docstrings and comments of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def sentences(text: str) -> list[str]:
    return [each.strip() for each in re.split(r"(?<=[.!?])\s+|\n\n+", text.strip())]


@pytest.mark.parametrize("folder", PRODUCT)
def test_docstrings_and_comments_have_a_subject_and_standard_terms(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in texts(path.read_text())
        for sentence in sentences(text)
        if OPENING.match(sentence) or WORDS.search(sentence)
    ]
    assert not found, "\n".join(found)


def test_pages_use_standard_terms() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages += (ROOT / "policies" / "pretrained").glob("*/README.md")
    found = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for page in pages
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if WORDS.search(line)
    ]
    assert not found, "\n".join(found)
