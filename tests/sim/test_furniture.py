"""Furniture: every number a piece that stands on the floor, with legs and bars as in houses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pixelgait.sim.world.furniture import (
    DESIGNS,
    FLOOR,
    MOST_PARTS,
    NUMBERS,
    Design,
    draw_piece,
    make_piece,
)
from pixelgait.sim.world.scene import Pose, corners


@pytest.mark.parametrize("design", DESIGNS)
def test_a_number_draws_a_piece_of_a_plausible_size_that_stands_on_the_floor(
    design: Design,
) -> None:
    pieces = [make_piece(design, number) for number in range(200)]
    assert pieces[17].parts == make_piece(design, 17).parts
    assert len({piece.parts for piece in pieces}) == len(pieces)
    for piece in pieces:
        lows = [part.pose.z - part.half_m[2] for part in piece.parts]
        assert min(lows) == pytest.approx(0.0, abs=1e-9), piece.name
        assert len(piece.parts) <= MOST_PARTS
        assert max(piece.half_m) < 1.3, piece.name
        assert 0.004 <= piece.height_m < 2.3, piece.name
        assert all(min(part.half_m) > 0.0 for part in piece.parts)


def test_low_things_thin_legs_and_bars_at_the_height_of_a_head_are_among_them() -> None:
    rng = np.random.default_rng(0)
    pieces = [draw_piece(rng, "train") for _ in range(1000)]
    low = [piece for piece in pieces if 0.02 < piece.height_m < 0.2]
    parts = [part for piece in pieces for part in piece.parts]
    legs = [part for part in parts if max(part.half_m[:2]) < 0.03 and part.half_m[2] > 0.1]
    overhangs = [part for part in parts if 0.2 < part.pose.z - part.half_m[2] < 0.5]
    assert len(low) > 100
    assert len(legs) > 1000
    assert 0.004 < min(max(part.half_m[:2]) for part in legs) < 0.01
    assert len(overhangs) > 300


def test_kinds_of_training_and_evaluation_are_apart() -> None:
    assert not set(NUMBERS["train"]) & set(NUMBERS["unseen"])
    rng = np.random.default_rng(1)
    seen = {draw_piece(rng, "train", FLOOR).name for _ in range(300)}
    unseen = {draw_piece(rng, "unseen", FLOOR).name for _ in range(300)}
    assert not seen & unseen
    assert {name.rpartition("-")[0] for name in unseen} == set(FLOOR)


def test_boxes_of_a_placed_piece_are_its_parts_turned_and_moved() -> None:
    piece, pose = make_piece("exercise", 3), Pose(2.0, -1.0, 0.5, 0.7)
    placed = piece.boxes(pose)
    local = corners([b.pose for b in piece.parts], np.array([b.half_m[:2] for b in piece.parts]))
    world = corners([b.pose for b in placed], np.array([b.half_m[:2] for b in placed]))
    np.testing.assert_allclose(world, pose.points(local.reshape(-1, 2)).reshape(-1, 4, 2))
    assert [b.pose.z for b in placed] == pytest.approx([b.pose.z + 0.5 for b in piece.parts])
    reach = np.abs(pose.points(np.zeros((1, 2))) - (2.0, -1.0)).max() + math.hypot(*piece.half_m)
    assert np.hypot(*(world.reshape(-1, 2) - (2.0, -1.0)).T).max() <= reach + 1e-9
