"""Restamp of stored figures after a change of code that was shown to be bit-equal.

Figures of baselines and of houses carry the SHA-256 of the files they depend on (see
`figure_store.versions`). Any edit of such a file, even of a comment, puts them out of date. Run
`python -m docs.figures.results.restamp` after such an edit, if nothing that a policy or a baseline
does has changed. Otherwise measure again: `make results`, `make navigation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from docs.figures.results.figure_store import restamp
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import run_command


@dataclass(frozen=True)
class RestampConfig:
    """Give stored figures the hashes of the present code, which was shown to be bit-equal."""

    figures: tuple[Path, ...] = (Path("docs/results.json"), Path("docs/navigation.json"))
    """Files of figures."""


def main() -> None:
    """Command line."""
    run_command(lambda: restamp_files(parse(RestampConfig, "docs.figures.results.restamp")))


def restamp_files(config: RestampConfig) -> None:
    """Restamp every file and print how many figures changed."""
    for path in config.figures:
        print(f"{path}: {restamp(path)} figures have new hashes")


if __name__ == "__main__":
    main()
