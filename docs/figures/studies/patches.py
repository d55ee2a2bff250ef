"""Study of IAP's patch sizes: table 2 of the paper."""

from __future__ import annotations

from collections.abc import Sequence

from docs.figures.results.figure_store import Figures
from docs.figures.studies.variant import Variant, rates, walked
from pixelgait.export.markdown_sections import table_head, table_line

STUDY = "patches"
# Side and stride of a patch [pixels], and the reward the IAP paper gives for it (table 2).
PAPER = {
    **{(1, 1): 8.0, (4, 2): 6.9, (4, 4): 7.5, (8, 4): 6.3, (8, 8): 7.5},
    **{(16, 8): 6.6, (16, 16): 7.6},
}
IMAGE = 32  # pixels a side
SELECTED = 1 / 16  # of the patches: 64 of the smallest, as in figure 9; assumption


def count_patches(patch: int, stride: int) -> int:
    """Number of patches of an image."""
    return ((IMAGE - patch) // stride + 1) ** 2


def selected(patch: int, stride: int) -> int:
    """Number of selected patches."""
    return max(1, round(SELECTED * count_patches(patch, stride)))


VARIANTS = tuple(
    Variant(
        STUDY,
        f"{patch} / {stride}",
        f"pixelgait-train imitate --encoder iap:patch={patch},stride={stride},"
        f"selected={selected(patch, stride)} --mirror --iterations 3 --dagger.students 16",
        walks=("medium",),
    )
    for patch, stride in PAPER
)


def table(rows: Sequence[Figures]) -> list[str]:
    """By patch size: gliding and walking success, mean of the seeds, each in brackets."""
    head = ("patch / stride", "patches", "selected", "weights", "gliding", "walking")
    lines = table_head([*head, "advance walking [m]", "reward in the paper"])
    for (patch, stride), reward in PAPER.items():
        name = f"{patch} / {stride}"
        if not (runs := [each for each in rows if each["variant"] == name]):
            continue
        advance = walked(runs, "medium", "distance_m")
        cells = [
            name,
            str(count_patches(patch, stride)),
            str(selected(patch, stride)),
            str(runs[0]["weights"]),
            rates([max(run["gliding"]) for run in runs]),
            rates(walked(runs, "medium", "success_rate")),
            f"{sum(advance) / len(advance):.1f}" if advance else "-",
            f"{reward:.1f}",
        ]
        lines.append(table_line(cells))
    return lines


TABLES = {STUDY: table}
