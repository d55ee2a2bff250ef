"""Films of walks under unseen appearance and of failed episodes; run as `make gallery`.

Writes docs/unseen-appearance.png and docs/failures.png.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from docs.figures.results.contact_sheet import labelled, write_sheet
from pixelgait.policies.evaluation.evaluate import player
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.cli.options import Count, check_outputs, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.viewing.film import FRAMES_PER_S, Frame
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.navigate import Forward
from pixelgait.sim.viewing.video import Take, film_episode
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED

APPEARANCES = EvalConfig("iap-rgbd", appearance="test")
# Conditions under which the shipped policies fail, according to docs/results.md.
FAILURES = {
    "strided-looks, unseen appearance": EvalConfig("strided-looks", appearance="test"),
    "strided-looks, all at once": EvalConfig(
        "strided-looks", appearance="test", difficulty=1.0, randomise=True
    ),
    "iap, unseen appearance": EvalConfig("iap", appearance="test"),
    "rover, passers-by": EvalConfig("rover", scene="passers-by"),
    "navigator, rooms": EvalConfig("navigator", scene="rooms"),
}
BEFORE_THE_END_S = (4.0, 2.0, 1.0, 0.0)  # when a failure is shown
ON_THE_WAY = (0.15, 0.35, 0.55, 0.75)  # of a walk: when it is shown
SCALE = 0.4  # of a frame


@dataclass(frozen=True)
class GalleryConfig:
    """Film walks under unseen appearance, and episodes that fail."""

    appearance: Path = Path("docs/unseen-appearance.png")
    """A walk in every row, camera image and attention in the corner."""
    walks: Count = 6
    """Walks under unseen appearance, from seed 10000 on."""
    failures: Path = Path("docs/failures.png")
    """A failure in every row."""
    each: Count = 2
    """Failures of every case."""
    episodes: Count = 100
    """Episodes to search at most, from seed 10000 on."""


class Filmed(NamedTuple):
    """An episode and the inputs of its film."""

    take: Take
    episode: Episode
    body: SimulatedBody
    task: Forward

    @property
    def last(self) -> int:
        """Index of the last frame."""
        return len(self.take.track.path) - 1

    def row(self, shown: NDArray[np.int64]) -> tuple[str, list[Frame]]:
        """Label with the end of the episode, and these frames, small; the last may repeat."""
        label = f"seed {self.take.seed}: {ending(self.episode, self.body, self.task)}"
        frames = [_smaller(frame) for frame in self.take.render(self.body, shown)]
        return label, frames + frames[-1:] * (len(shown) - len(frames))


def main() -> None:
    """Command line."""
    run_command(lambda: write_gallery(parse(GalleryConfig, "make gallery")))


def write_gallery(config: GalleryConfig) -> None:
    """Write both pictures, one row per episode."""
    check_outputs(("appearance", config.appearance), ("failures", config.failures))
    write_rows(config.appearance, walks(APPEARANCES, config.walks))
    rows = (
        (f"{name}, {label}", frames)
        for name, case in FAILURES.items()
        for label, frames in islice(failures(case, config.episodes), config.each)
    )
    write_rows(config.failures, rows)


def write_rows(picture: Path, rows: Iterable[tuple[str, list[Frame]]]) -> None:
    """Labels and frames below each other, as PNG.

    Raises:
        UserError: there are none.
    """
    drawn = []
    for label, frames in rows:
        print(label, flush=True)
        drawn.append(labelled(np.hstack(frames), label))
    if not drawn:
        raise UserError(f"{picture}: no such episode among those; take more --episodes")
    write_sheet(picture, np.vstack(drawn))


def walks(evaluation: EvalConfig, episodes: int) -> Iterator[tuple[str, list[Frame]]]:
    """Label with the end of every episode, and frames of the walk."""
    for filmed in filmed_episodes(evaluation, episodes):
        yield filmed.row(np.array([round(share * filmed.last) for share in ON_THE_WAY]))


def failures(evaluation: EvalConfig, episodes: int) -> Iterator[tuple[str, list[Frame]]]:
    """Label and last frames of episodes that fell or missed their goal."""
    for filmed in filmed_episodes(evaluation, episodes):
        if filmed.episode.success is False or filmed.episode.fell:
            frames = [filmed.last - round(ago * FRAMES_PER_S) for ago in BEFORE_THE_END_S]
            yield filmed.row(np.maximum(frames, 0))


def filmed_episodes(evaluation: EvalConfig, episodes: int) -> Iterator[Filmed]:
    """Episodes from the first evaluation seed on; render each before the next."""
    controller, body, task = player(evaluation)
    assert isinstance(task, Forward)
    try:
        for seed in range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + episodes):
            yield Filmed(*film_episode(controller, body, task, seed), body, task)
    finally:
        body.close()


def _smaller(frame: Frame) -> Frame:
    small = cv2.resize(frame, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def ending(episode: Episode, body: SimulatedBody, task: Forward) -> str:
    """The end of an episode and its time, in words."""
    touched = f", {episode.contacts.time_s:.1f} s of contact" if episode.contacts.count else ""
    when = f"after {episode.steps * CONTROL_DT_S:.0f} s{touched}"
    if body.scene.ground_m(*episode.path[-1]) is None:
        return f"left the ground {when}"
    if episode.fell:
        return f"{episode.fault or 'fell'} {when}"
    if episode.success:
        return f"reached the goal {when}"
    if episode.steps >= task.steps:
        return f"not there in time, {when}"
    return f"no advance for {task.stall_steps * CONTROL_DT_S:.0f} s, {when}"


if __name__ == "__main__":
    main()
