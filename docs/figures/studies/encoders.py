"""Comparison of encoders: what they learn on the same courses, and how it generalises."""

from __future__ import annotations

from collections.abc import Sequence

from docs.figures.results.figure_store import Figures
from docs.figures.studies.variant import Variant, images_needed, number, rates, shortest, walked
from pixelgait.export.markdown_sections import table_head, table_line

STUDY = "encoders"
# Training used the first kind alone.
COURSES = ("medium", "high", "medium, randomised", "unseen appearance")
# A claim of the SiT paper: an encoder that is invariant to rotation or reflection decides the same
# with a camera that is mounted so. Measured with invariant encoders and with others.
CAMERAS = ("camera on its side", "camera upside down", "camera mirrored")
CROOKED = ("cnn", "vit", "attention-neuron", "siet:graph=flip", "siet", "set", "sit", "sit-star")
EPISODES = 50  # of a cell; there are 96, of one seed each
BUDGET = "--iterations 4 --dagger.courses 30 --dagger.steps 300 --dagger.batch 64"
COMPETING = "--dagger.students 16"  # random selections, as a selection has no gradient
# Without a teacher: stable-baselines3's PPO on the gliding robot, with similar networks.
TRIAL = "python examples/ppo_steer.py --scene obstacle-course --seconds 60 --steps 60000"
PPO = {
    f"{name}, PPO": f"{TRIAL} --episodes 1 --encoder {name}" for name in ("cnn", "strided", "vit")
}
# Further options by encoder.
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
    """By encoder: weights, time, images to learn gliding, walking success by kind of course."""
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
    """By encoder: walking success with the camera of training, and turned or mirrored."""
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
