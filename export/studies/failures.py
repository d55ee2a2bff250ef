"""docs/failures.png: how episodes end that are no success, and why. Run as `make failures`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from pixelgait.export.reports.contact_sheet import labelled, write_sheet
from pixelgait.robot.cli.options import Count, check_outputs, parse
from pixelgait.robot.errors import run_command
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.sim.eval_options import EvalConfig
from pixelgait.sim.evaluate import player
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.forward import Forward
from pixelgait.sim.viewing.video import FRAMES_PER_S, Frame, film_episode
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED

# Where the shipped policies fail, as the tables of results.md say: policy and what is asked of it.
CASES = {
    "strided-looks, unseen looks": EvalConfig("strided-looks", looks="test"),
    "strided-looks, all at once": EvalConfig(
        "strided-looks", looks="test", difficulty=1.0, randomise=True
    ),
    "iap, high, randomised": EvalConfig("iap", difficulty=1.0, randomise=True),
    "rover, passers-by": EvalConfig("rover", scene="passers-by"),
    "navigator, rooms": EvalConfig("navigator", scene="rooms"),
}
BEFORE_THE_END_S = (4.0, 2.0, 1.0, 0.0)  # when a failure is shown
SCALE = 0.4  # of a frame


@dataclass(frozen=True)
class FailuresConfig:
    """Walk until so many episodes have failed, and show how they ended."""

    picture: Path = Path("docs/failures.png")
    """The gallery: a failure in every row."""
    each: Count = 2
    """Failures of every case."""
    episodes: Count = 100
    """From seed 10000 on, at most."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_gallery(parse(FailuresConfig, "make failures")))


def write_gallery(config: FailuresConfig) -> None:
    """One row per failure, all of a case below each other."""
    check_outputs(("picture", config.picture))
    rows = []
    for name, evaluation in CASES.items():
        for seed, end, frames in islice(failures(evaluation, config.episodes), config.each):
            label = f"{name}, seed {seed}: {end}"
            print(label, flush=True)
            rows.append(labelled(np.hstack(frames), label))
    write_sheet(config.picture, np.vstack(rows))


def failures(evaluation: EvalConfig, episodes: int) -> Iterator[tuple[int, str, list[Frame]]]:
    """Of episodes that fall, or do not reach their goal, the seed, how it ended, and frames of its
    last seconds."""
    controller, body, task = player(evaluation)
    assert isinstance(task, Forward)
    for seed in range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + episodes):
        take, episode = film_episode(controller, body, task, seed)
        if episode.success is not False and not episode.fell:
            continue
        last = len(take.track.path) - 1
        shown = [max(0, last - round(ago * FRAMES_PER_S)) for ago in BEFORE_THE_END_S]
        frames = [_smaller(frame) for frame in take.render(body, np.array(shown))]
        yield (
            seed,
            ending(episode, body.scene, task),
            frames + frames[-1:] * (len(shown) - len(frames)),
        )
    body.close()


def _smaller(frame: Frame) -> Frame:
    small = cv2.resize(frame, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def ending(episode: Episode, scene: Scene, task: Forward) -> str:
    """How an episode ended that was no success, and when."""
    touched = f", {episode.contacts.time_s:.1f} s of contact" if episode.contacts.count else ""
    when = f"after {episode.steps * CONTROL_DT_S:.0f} s{touched}"
    if scene.ground_m(*episode.path[-1]) is None:
        return f"left the ground {when}"
    if episode.fell:
        return f"{episode.fault or 'fell'} {when}"
    if episode.steps >= task.steps:
        return f"not there in time, {when}"
    return f"no advance for {task.patience_steps * CONTROL_DT_S:.0f} s, {when}"


if __name__ == "__main__":
    main()
