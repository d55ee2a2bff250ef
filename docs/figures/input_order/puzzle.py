"""Puzzles: camera images with patches shuffled, black or left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.control.controller import Decision, MemoryState
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import camera_of
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.navigate import navigation_task

PATCH = 8  # pixels a side: of the encoders that read patches
EPISODE_STEPS = 6000  # 60 s, as in pixelgait-eval
DIFFICULTY = 0.5


@dataclass(frozen=True, slots=True)
class Puzzle:
    """Change of images, drawn anew every so many control steps; 0: once in an episode."""

    shuffle_steps: int | None = None  # None: patches stay where they are
    hidden: float = 0.0  # share of patches that are black
    taken: float = 0.0  # share of patches that are replaced by others

    # If all other patches are repeated equally often, attention over the set of patches equals
    # attention over the others alone.

    def applied(self, image: NDArray[np.uint8], seed: int, time_s: float) -> NDArray[np.uint8]:
        """The image (H, W, C) as a puzzle, at a time since the start of an episode [s]."""
        period = self.shuffle_steps or EPISODE_STEPS
        rng = np.random.default_rng((seed, round(time_s / CONTROL_DT_S) // period))
        patches = tiles(image)
        order = rng.permutation(len(patches))
        black = order[: round(self.hidden * len(patches))]
        patches[black] = 0
        if self.taken:
            left = order[round(self.taken * len(patches)) :]
            patches[order] = patches[np.resize(left, len(order))]
        if self.shuffle_steps is not None:
            patches = patches[rng.permutation(len(patches))]
        return untiled(patches, image.shape)


def tiles(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Patches (N, PATCH, PATCH, C) of an image (H, W, C), row by row."""
    height, width, channels = image.shape
    grid = image.reshape(height // PATCH, PATCH, width // PATCH, PATCH, channels)
    return grid.swapaxes(1, 2).reshape(-1, PATCH, PATCH, channels).copy()


def untiled(patches: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The image of shape (H, W, C) with these `tiles`."""
    height, width, channels = shape
    grid = patches.reshape(height // PATCH, width // PATCH, PATCH, PATCH, channels)
    return grid.swapaxes(1, 2).reshape(shape)


class PuzzledWalker:
    """Policy that sees puzzles, on courses of medium difficulty, in a worker process."""

    def __init__(self, bundle: str) -> None:
        self.bundle: Bundle = load_bundle(bundle)
        self.scene = ObstacleCourse(DIFFICULTY)
        camera = camera_of(self.bundle)
        self.body: SimulatedBody = make_body(
            "pybullet", self.bundle.spec, self.scene, camera=camera
        )

    def run(self, puzzle: Puzzle, seed: int) -> Episode:
        """Run an episode."""

        def decide(image: NDArray[np.uint8], goal: Array, state: MemoryState) -> Decision:
            puzzled = puzzle.applied(image, seed, self.body.time_s)
            return self.bundle.high_level(puzzled, goal, state)

        task = navigation_task(self.scene, EPISODE_STEPS)
        return run_episode(self.bundle.controller(decide), self.body, task, seed)


_walker: PuzzledWalker


def start(bundle: str) -> None:
    """Initialise a worker process."""
    global _walker
    _walker = PuzzledWalker(bundle)


def walk(job: tuple[Puzzle, int]) -> Episode:
    """Run an episode of (puzzle, seed)."""
    return _walker.run(*job)
