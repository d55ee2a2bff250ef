"""Sensor age by stamp where the clocks of two computers differ."""

from __future__ import annotations

import pytest

from pixelgait.robot.safety.sensor_age import Freshness


@pytest.mark.parametrize(
    ("ahead_s", "new", "age_s", "warning"),
    [
        (0.049, True, 0.0, None),  # the sensor's clock is ahead: measured now at the earliest
        (0.051, False, 0.2, "messages are stamped 0.05 s in the future"),
        (-0.049, True, 0.049, None),
        (-0.051, True, 0.051, "messages arrive 0.05 s late"),
    ],
)
def test_clocks_may_differ_by_a_twentieth_of_a_second(
    ahead_s: float, new: bool, age_s: float, warning: str | None
) -> None:
    """The message before this one arrived 0.2 s ago."""
    sensor = Freshness("imu")
    assert sensor.arrived(stamp_s=99.8, now_s=99.8, monotonic_s=9.8)
    assert sensor.arrived(stamp_s=100.0 + ahead_s, now_s=100.0, monotonic_s=10.0) == new
    assert sensor.age_s(10.0) == pytest.approx(age_s)
    assert sensor.warning == warning
