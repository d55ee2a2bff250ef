"""Reward of velocity tracking, against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import A1
from pixelgait.sim.tasks.follow import FollowReward

RIGHT_M = 0.9 * A1.stand_height_m
LEVEL = upright(0.0)
AT_SCALE = 0.2 + 0.8 * (1.0 + math.exp(-1.0)) / 2.0  # one of two halves has fallen to 1/e


@pytest.mark.parametrize(
    ("off", "reward"),
    [
        ((0.0, 0.0, 0.0), 1.0),
        ((math.sqrt(0.03), 0.0, 0.0), AT_SCALE),  # 0.17 m/s too fast
        ((-math.sqrt(0.03), 0.0, 0.0), AT_SCALE),
        ((0.0, math.sqrt(0.06), 0.0), AT_SCALE),  # aside counts half
        ((0.0, 0.0, -math.sqrt(0.15)), AT_SCALE),
        ((math.sqrt(0.015), math.sqrt(0.03), 0.0), AT_SCALE),  # half of each
        ((0.0, 9.0, 0.0), 0.6),  # a right turn rate has half of the tracking reward
        ((9.0, 0.0, 9.0), 0.2),  # no tracking at all leaves the posture
    ],
)
def test_tracking_errors_cost_as_their_scales_define(off: tuple[float, ...], reward: float) -> None:
    posture = FollowReward().posture(RIGHT_M, LEVEL, A1)
    assert FollowReward().per_second(off, posture) == pytest.approx(reward)
    several = FollowReward().per_second(
        np.array(off)[:, None] * np.ones(3), np.full(3, posture), np.exp
    )
    np.testing.assert_allclose(several, np.full(3, reward))


@pytest.mark.parametrize(
    ("lower_m", "orientation", "posture"),
    [
        (0.0, LEVEL, 1.0),
        (0.0, upright(2.0), 1.0),
        (0.03, LEVEL, math.exp(-0.9)),  # 0.0009 m2 of 0.001
        (-0.03, LEVEL, math.exp(-0.9)),  # on tiptoe
        (0.0, (math.sin(0.1), 0.0, 0.0, math.cos(0.1)), math.exp(-2.0)),  # by 0.2 rad to a side,
        (0.0, (0.0, -math.sin(0.1), 0.0, math.cos(0.1)), math.exp(-2.0)),  # or to the back
        (0.03, (math.sin(0.1), 0.0, 0.0, math.cos(0.1)), math.exp(-2.9)),
    ],
)
def test_crouching_and_leaning_lower_the_posture_term(
    lower_m: float, orientation: tuple[float, float, float, float], posture: float
) -> None:
    found = FollowReward().posture(RIGHT_M - lower_m, orientation, A1)
    assert found == pytest.approx(posture, rel=0.01)  # a tilt is that of small angles
    assert FollowReward().per_second((0.0, 0.0, 0.0), found) == pytest.approx(0.8 + 0.2 * found)


@pytest.mark.parametrize(
    ("speeds", "loss"), [((), 0.0), ((1.5,), 0.018), ((1.0, 0.5), 0.01), ((-1.0, 0.0), 0.008)]
)
def test_the_impact_cost_is_the_square_of_the_feets_speed(
    speeds: tuple[float, ...], loss: float
) -> None:
    assert FollowReward().impact_cost(np.array(speeds)) == pytest.approx(loss)
