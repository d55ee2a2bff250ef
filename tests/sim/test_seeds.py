"""Seeds: disjoint ranges and independent streams."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, TRAINING, VALIDATION, Stream


def test_seed_ranges_are_disjoint() -> None:
    assert TRAINING.stop == VALIDATION.start < VALIDATION.stop == FIRST_EVALUATION_SEED


# Streams of one number, of which no episode draws both.
SHARED = {"GAIT": "ROBOT", "TEACHER_NOISE": "CAMERA", "GLIDER_CAMERA": "FAULTS"}


def test_streams_of_a_seed_differ_and_repeat() -> None:
    aliases = {name: each.name for name, each in Stream.__members__.items() if each.name != name}
    assert aliases == SHARED
    drawn = {stream: stream.rng(9000).random() for stream in Stream}
    assert len(set(drawn.values())) == len(drawn)
    assert drawn == {stream: stream.rng(9000).random() for stream in Stream}
    assert Stream.CAMERA.rng(9000, 1).random() != Stream.CAMERA.rng(9000, 2).random()


@pytest.mark.parametrize("seed", [0, 9000, 2**40])
def test_layout_stream_equals_the_seed_alone(seed: int) -> None:
    assert Stream.LAYOUT.rng(seed).random() == np.random.default_rng(seed).random()
