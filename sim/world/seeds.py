"""Seed ranges and random streams of episodes.

An episode depends on nothing but its seed. Everything it draws has a stream of its own, so that
what one part draws more or less shifts nothing for the others.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

# An episode of one range is seen in no other.
TRAINING = range(9000)
VALIDATION = range(9000, 10_000)
FIRST_EVALUATION_SEED = 10_000  # no end: evaluations take as many as they want


def ranges_of(seeds: range) -> list[str]:
    """What the ranges are for that some of these seeds lie in: training, validation, evaluation."""
    evaluation = range(FIRST_EVALUATION_SEED, max(FIRST_EVALUATION_SEED, seeds[-1]) + 1)
    ranges = {"training": TRAINING, "validation": VALIDATION, "evaluation": evaluation}
    return [name for name, r in ranges.items() if seeds[0] <= r[-1] and seeds[-1] >= r[0]]


def another_seed(rng: np.random.Generator, like: int) -> int:
    """One for an episode of the same use as that with the seed `like`."""
    if like in TRAINING:
        return int(rng.integers(len(TRAINING)))
    first, end = (
        (VALIDATION[0], VALIDATION.stop) if like in VALIDATION else (FIRST_EVALUATION_SEED, 2**31)
    )
    return int(rng.integers(first, end))


class Stream(IntEnum):
    """What is drawn from an episode's seed; its number stands behind the seed.

    The shipped policies were trained and measured on these numbers: another one is another episode.
    Where two names share one, no episode draws both; but `TEACHER_NOISE` is also what the first
    frame of a randomised camera draws.
    """

    LAYOUT = 0  # of the scene; the same as the seed alone
    TASK = 1  # pushes, velocity commands
    ROBOT = 2  # the randomised body with legs
    GAIT = 2  # of the gliding robot: how it follows commands, and how its trunk sways
    CAMERA = 3  # and the frame's number, or its microsecond: loss and noise of a frame
    TEACHER_NOISE = 3  # where the teacher is led astray
    SENSORS = 4  # noise and biases of joint sensors and IMU
    FAULTS = 5  # when which sensor fails; and 1: later than two minutes
    GLIDER_CAMERA = 5  # the gliding robot's randomised camera
    FAILING_SENSOR = 6  # and the fault's number: what a spike does
    ODOMETRY = 7  # noise of the stand-in robot's
    COMMANDS = 8  # of the baseline that says anything

    def rng(self, seed: int, *more: int) -> np.random.Generator:
        """The generator of this stream of an episode; `more` tells apart those it has several of.

        Raises:
            ValueError: the seed is negative.
        """
        return np.random.default_rng((seed, int(self), *more))
