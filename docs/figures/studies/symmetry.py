"""Study of mirror symmetry: images needed to learn, with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from docs.figures.results.figure_store import Figures
from docs.figures.studies.variant import Variant, images_needed, number
from pixelgait.export.markdown_sections import table_head, table_line

STUDY = "mirror"
COURSES = 2  # in a round, as images are counted by rounds
NETWORKS = {
    "CNN": "--encoder cnn",
    "strided CNN": "--encoder strided --dagger.steps 200",
}
KINDS = {"symmetric": "--mirror", "free": ""}

VARIANTS = tuple(
    Variant(
        STUDY,
        f"{label}, {kind}",
        f"pixelgait-train imitate {options} {mirror} --iterations 16 --dagger.courses {COURSES}",
    )
    for label, options in NETWORKS.items()
    for kind, mirror in KINDS.items()
)


def table(rows: Sequence[Figures]) -> list[str]:
    """Images until 90 % of the validation courses are done, with and without symmetry."""
    lines = table_head(["network", *KINDS, "ratio of medians"])
    for label in dict.fromkeys(each["variant"].partition(",")[0] for each in rows):
        needed = {
            kind: [images_needed(each) for each in rows if each["variant"] == f"{label}, {kind}"]
            for kind in KINDS
        }
        cells = [", ".join(map(number, column)) or "-" for column in needed.values()]
        symmetric, free = (median(column or [float("inf")]) for column in needed.values())
        ratio = f"{free / symmetric:.1f}" if max(free, symmetric) < float("inf") else "-"
        lines.append(table_line([label, *cells, ratio]))
    return lines


TABLES = {STUDY: table}
