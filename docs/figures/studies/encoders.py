"""All encoders on the same courses: what they learn there, and what of it holds elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from docs.figures.results.figure_store import Figures
from docs.figures.studies.variant import Variant, images_needed, number, rates, shortest, walked
from pixelgait.export.markdown_sections import table_head, table_line

STUDY = "encoders"
# Nobody has learned anywhere but on the first.
COURSES = ("medium", "high", "medium, randomised", "unseen appearance")
# A claim of the SiT paper: what does not depend on how a picture is turned, or mirrored, decides
# the same by a camera that is mounted so. Walked by its members and by who shall not be able to.
CAMERAS = ("camera on its side", "camera upside down", "camera mirrored")
CROOKED = ("cnn", "vit", "attention-neuron", "siet:graph=flip", "siet", "set", "sit", "sit-star")
EPISODES = 50  # of each: there are 96 of these cells, of one seed
BUDGET = "--iterations 4 --dagger.courses 30 --dagger.steps 300 --dagger.batch 64"
COMPETING = "--dagger.students 16"  # a selection has no gradient: so many are drawn, see imitation
# By trial, without a teacher: stable-baselines3's PPO on the gliding robot, with like networks.
TRIAL = "python examples/ppo_steer.py --scene obstacle-course --seconds 60 --steps 60000"
PPO = {
    f"{name}, PPO": f"{TRIAL} --episodes 1 --encoder {name}" for name in ("cnn", "strided", "vit")
}
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

IMITATION = {
    name: f"pixelgait-train imitate --encoder {name} --mirror {BUDGET} {more}".rstrip()
    for name, more in ENCODERS.items()
}

VARIANTS = tuple(
    Variant(STUDY, name, command, (*COURSES, *(CAMERAS if name in CROOKED else ())), EPISODES)
    for name, command in (IMITATION | PPO).items()
)


def table(rows: Sequence[Figures]) -> list[str]:
    """By encoder: weights, time, images until it glides, success on legs by kind of course."""
    lines = table_head(["encoder", "weights", "ms", "images to 90 %", "gliding", *COURSES])
    for name in IMITATION | PPO:
        if not (runs := [each for each in rows if each["variant"] == name]):
            continue
        cells = [
            " ".join((f"`{name.partition(', ')[0]}`", *name.split(", ")[1:])),
            str(runs[0]["weights"]),
            shortest([run["image_ms"] for run in runs if "image_ms" in run]),
            ", ".join(number(images_needed(run)) for run in runs),
            rates([max(run["gliding"]) for run in runs]),
            *(rates(walked(runs, course, "success_rate")) for course in COURSES),
        ]
        lines.append(table_line(cells))
    return lines


def cameras_table(rows: Sequence[Figures]) -> list[str]:
    """By encoder: success on legs by cameras as they were in training, turned and mirrored."""
    seen = {
        "as in training": COURSES[0],
        **{each.removeprefix("camera "): each for each in CAMERAS},
    }
    lines = table_head(["encoder", *seen])
    for name in CROOKED:
        runs = [each for each in rows if each["variant"] == name]
        cells = [rates(walked(runs, course, "success_rate")) for course in seen.values()]
        if any(course in run["walking"] for run in runs for course in CAMERAS):
            lines.append(table_line([f"`{name}`", *cells]))
    return lines


TABLES = {STUDY: table, "cameras": cameras_table}
