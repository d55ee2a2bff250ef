"""Mean of an accelerometer's samples between two readings.

A step of the control loop is longer than the time between samples. One of them alone shows the
blow of a foot that touches down; their mean is what the velocity changed by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pixelgait.robot.spec import Array


class SpecificForce:
    """Collects samples (3,) [m/s^2], +g upwards at rest."""

    def __init__(self) -> None:
        self._sum, self._samples = np.zeros(3), 0
        self._mean: Array | None = None

    def add(self, sample: Sequence[float] | Array) -> None:
        """Add a sample."""
        self._sum += sample
        self._samples += 1

    def read(self) -> Array | None:
        """Mean since the last call, or the last mean; None before the first sample."""
        if self._samples:
            self._mean = self._sum / self._samples
            self._sum, self._samples = np.zeros(3), 0
        return self._mean
