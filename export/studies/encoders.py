"""All encoders on the same courses: what they learn there, and what of it holds elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from pixelgait.export.reports.figure_store import Figures
from pixelgait.export.reports.generated import table_head, table_line
from pixelgait.export.studies.variant import (
    Variant,
    images_needed,
    number,
    rates,
    walked,
)

STUDY = "encoders"
# Nobody has learned anywhere but on the first. The last is a claim of the SiT paper: what does not
# depend on rotations sees the same by a camera that lies on its side.
COURSES = ("medium", "high", "medium, randomised", "unseen looks", "camera on its side")
BUDGET = "--iterations 4 --dagger.courses 30 --dagger.steps 300 --dagger.batch 64"
COMPETING = "--dagger.students 16"  # a selection has no gradient: so many are drawn, see imitation
# By encoder, what it has beside the budget.
ENCODERS = {
    "cnn": "",
    "strided": "",
    "vit": "",
    "iap": COMPETING,
    "attention-agent": f"--memory lstm:16 {COMPETING}",
    "attention-neuron": "",
    "attention-neuron:selected=10": COMPETING,
    "latformer": "",
    "ge-vit": "",
    "gsa-net": "",
    "siet:graph=flip": "",
    "siet": "",
    "set": "",
    "sit": "",
    "sit-star": "",
}

VARIANTS = tuple(
    Variant(
        STUDY, name, " ".join(filter(None, (f"--encoder {name} --mirror", BUDGET, more))), COURSES
    )
    for name, more in ENCODERS.items()
)


def table(rows: Sequence[Figures]) -> list[str]:
    """By encoder: weights, time, images until it glides, success on legs by kind of course."""
    lines = table_head(["encoder", "weights", "ms", "images to 90 %", "gliding", *COURSES])
    for name in ENCODERS:
        if not (runs := [each for each in rows if each["variant"] == name]):
            continue
        cells = [
            f"`{name}`",
            str(runs[0]["weights"]),
            f"{min(run['image_ms'] for run in runs):.2g}",
            ", ".join(number(images_needed(run)) for run in runs),
            rates([max(run["gliding"]) for run in runs]),
            *(rates(walked(runs, course, "success_rate")) for course in COURSES),
        ]
        lines.append(table_line(cells))
    return lines
