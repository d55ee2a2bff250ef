"""Latency live: `~/latency`, a table of the last second, once a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from pixelgait.robot.ros.common.topic_names import LATENCY
from pixelgait.robot.runtime.latency import STAGES, Histogram, LatencyProfiler, percentile_ns

COLUMNS = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}


class LatencyTopic:
    """std_msgs/Float64MultiArray: a row for every stage and the period, p50, p99, maximum [us].

    The layout's labels name rows and columns; a stage that did not occur is NaN.
    """

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, f"~/{LATENCY}", 1)
        self._before: dict[str, NDArray[np.uint64]] = {}

    def publish(self, profiler: LatencyProfiler) -> None:
        """What has been measured since the last call."""
        histograms = {**profiler.stages, "period": profiler.period}
        message = Float64MultiArray(data=np.ravel([self._row(n, h) for n, h in histograms.items()]))
        sizes = {
            ",".join((*STAGES, "period")): len(histograms),
            ",".join(COLUMNS): len(COLUMNS),
        }
        strides = (len(histograms) * len(COLUMNS), len(COLUMNS))
        message.layout.dim = [
            MultiArrayDimension(label=label, size=size, stride=stride)
            for (label, size), stride in zip(sizes.items(), strides, strict=True)
        ]
        self._publisher.publish(message)

    def _row(self, name: str, histogram: Histogram) -> list[float]:
        counts = np.array(histogram.counts)
        before = self._before.get(name, np.zeros_like(counts))
        self._before[name] = counts
        # A profiler that has begun anew has counted less than before.
        new = counts - before if (counts >= before).all() else counts
        return [percentile_ns(new, fraction) / 1e3 for fraction in COLUMNS.values()]
