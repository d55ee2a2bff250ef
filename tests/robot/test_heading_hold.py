"""Heading hold: a robot that turns too little, too much or by itself reaches its heading."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pixelgait.robot.control.controller import STAND, HeadingHold, commanded, latent_for
from pixelgait.robot.rotation import heading, upright, wrap_angle

DT_S = 0.01


class Turner:
    """A robot that turns by a share of the command, and drifts."""

    def __init__(self, gain: float = 1.0, drift_rad_per_s: float = 0.0, yaw: float = 0.0) -> None:
        self.hold, self.gain, self.drift, self.yaw = HeadingHold(), gain, drift_rad_per_s, yaw
        self.rates: list[float] = []

    def turn(self, latent: np.ndarray, seconds: float) -> float:
        """The angle it has turned [rad]."""
        total = 0.0
        for _ in range(round(seconds / DT_S)):
            corrected = self.hold.corrected(latent, np.array(upright(self.yaw)))
            assert corrected[0] == latent[0]
            assert abs(corrected[1]) <= 1.5
            self.rates.append(self.gain * commanded(corrected)[1] + self.drift)
            self.yaw = wrap_angle(self.yaw + self.rates[-1] * DT_S)
            total += self.rates[-1] * DT_S
        return total


@pytest.mark.parametrize(("gain", "drift"), [(1.0, 0.0), (0.8, 0.0), (1.25, 0.0), (1.0, 0.15)])
def test_the_robot_turns_as_far_as_commanded(gain: float, drift: float) -> None:
    turner = Turner(gain, drift, yaw=3.0)  # across pi
    turner.turn(latent_for(0.3, 0.8), 3.0)  # to settle
    assert turner.turn(latent_for(0.3, 0.8), 5.0) == pytest.approx(0.8 * 5.0, abs=0.02)


def test_it_walks_straight_ahead_and_is_left_right_symmetric() -> None:
    turners = [Turner(drift_rad_per_s=drift) for drift in (0.1, -0.1)]
    for turner in turners:
        turner.turn(latent_for(0.6, 0.0), 10.0)
        assert abs(turner.yaw) < 0.06  # drift over gain, at any time
    assert turners[0].yaw == pytest.approx(-turners[1].yaw)


def test_a_turn_begins_without_overshoot() -> None:
    turner = Turner()
    turner.turn(latent_for(0.0, 1.0), 3.0)
    assert max(turner.rates) < 1.3
    assert max(turner.rates[100:]) < 1.1


def test_a_stand_is_not_corrected_and_resets_the_error() -> None:
    turner = Turner(gain=0.5)
    turner.turn(latent_for(0.0, 1.0), 2.0)
    assert turner.hold.error_rad > 0.1
    np.testing.assert_array_equal(turner.hold.corrected(STAND, np.array(upright(1.0))), STAND)
    assert turner.hold.error_rad == 0.0


def test_the_correction_is_limited_when_a_wall_holds_the_robot() -> None:
    turner = Turner(gain=0.0)
    turner.turn(latent_for(0.3, 0.5), 30.0)
    assert turner.hold.error_rad == HeadingHold.MOST_RAD


def test_a_heading_that_jumps_or_is_nan_changes_nothing() -> None:
    hold, ahead = HeadingHold(), latent_for(0.6, 0.0)
    for orientation in ((0.0, 0.0, 0.0, 1.0), upright(2.0), (math.nan,) * 4, upright(2.0)):
        np.testing.assert_array_equal(hold.corrected(ahead, np.array(orientation)), ahead)
    turned = hold.corrected(ahead, np.array(upright(2.01)))
    assert heading(upright(2.01)) - 2.0 == pytest.approx(0.01)
    assert turned[1] == pytest.approx(-HeadingHold.GAIN_PER_S * 0.01)
