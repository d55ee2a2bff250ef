"""Seed ranges and random streams of episodes.

An episode depends on nothing but its seed. Every part of it draws from a stream of its own, so
that a change of one part leaves the draws of the others alone.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

# No episode is in two ranges.
TRAINING = range(9000)
VALIDATION = range(9000, 10_000)
FIRST_EVALUATION_SEED = 10_000  # without an end


def ranges_of(seeds: range) -> list[str]:
    """Purposes of the ranges that contain some of these seeds: training, validation, evaluation."""
    evaluation = range(FIRST_EVALUATION_SEED, max(FIRST_EVALUATION_SEED, seeds[-1]) + 1)
    ranges = {"training": TRAINING, "validation": VALIDATION, "evaluation": evaluation}
    return [name for name, r in ranges.items() if seeds[0] <= r[-1] and seeds[-1] >= r[0]]


def another_seed(rng: np.random.Generator, like: int) -> int:
    """Draw a seed from the same range as the seed `like`."""
    if like in TRAINING:
        return int(rng.integers(len(TRAINING)))
    first, end = (
        (VALIDATION[0], VALIDATION.stop) if like in VALIDATION else (FIRST_EVALUATION_SEED, 2**31)
    )
    return int(rng.integers(first, end))


class Stream(IntEnum):
    """Random streams of an episode; the number follows the seed in the generator's entropy.

    The shipped policies were trained and measured on these numbers. Where two names share one, no
    episode draws both, except that the first frame of a randomised camera draws `TEACHER_NOISE`.
    """

    LAYOUT = 0  # of the scene; equal to the seed alone
    TASK = 1  # pushes, velocity commands
    ROBOT = 2  # of the randomised legged robot
    GAIT = 2  # of the gliding robot: command tracking and trunk motion
    CAMERA = 3  # and the frame's number or its microsecond: loss and noise of a frame
    TEACHER_NOISE = 3  # perturbations of the teacher's commands
    SENSORS = 4  # noise and biases of joint sensors and IMU
    FAULTS = 5  # times and kinds of faults; and 1: after two minutes
    GLIDER_CAMERA = 5  # the gliding robot's randomised camera
    FAILING_SENSOR = 6  # and the fault's number: spikes
    ODOMETRY = 7  # noise, of the simulated robot under ROS 2
    COMMANDS = 8  # of the random baseline

    def rng(self, seed: int, *more: int) -> np.random.Generator:
        """Generator of this stream of an episode; `more` numbers several of the same stream.

        Raises:
            ValueError: if the seed is negative.
        """
        return np.random.default_rng((seed, int(self), *more))
