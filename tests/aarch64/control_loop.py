"""Control loop over a recorded link, recorded again and replayed: what a robot's computer runs.

python -m tests.aarch64.control_loop [BUNDLE]
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.recording.replay import format_figures, replay
from pixelgait.robot.runtime.control_loop import ControlLoop, LoopOptions
from pixelgait.robot.runtime.latency import LatencyProfiler, format_table
from pixelgait.robot.runtime.state_machine import Operator
from tests.aarch64 import emulation  # noqa: F401  time to close the recording

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"


class RecordedLink:
    """The readings of a recording, one for each control step; then all sensors fall silent."""

    sensors = ("joints", "imu", "camera")
    synchronised_sensors = ()

    def __init__(self, readings: Sequence[Reading], period_s: float) -> None:
        self.readings, self.period_s = readings, period_s
        self.commands: list[JointCommand] = []
        self._taken = 0

    def take(self) -> None:
        self._taken += 1

    def forget(self) -> None:
        self._taken = 0

    def read(self) -> Reading:
        return self.readings[max(0, min(self._taken, len(self.readings)) - 1)]

    def ages(self) -> dict[str, float]:
        since_s = self.period_s * max(0, self._taken - len(self.readings))
        return dict.fromkeys(self.sensors, since_s if self._taken else math.inf)

    def warnings(self) -> dict[str, str]:
        return {}

    def stamps(self) -> dict[str, float]:
        return dict.fromkeys(self.sensors, self.read().time_s)

    def send(self, command: JointCommand) -> None:
        self.commands.append(command)

    def now_s(self) -> float:
        return self.read().time_s + self.period_s * max(0, self._taken - len(self.readings))


def recorded_readings(name: str) -> list[Reading]:
    """Readings of the recorded walk of a shipped bundle, each with an image."""
    steps = read_recording(RECORDINGS / f"{name}.mcap").steps
    first = next(number for number, step in enumerate(steps) if step.decided)
    image = steps[first].inputs.reading.image()
    before = [replace(step.inputs.reading, image=lambda: image) for step in steps[:first]]
    return [*before, *(step.inputs.reading for step in steps[first:])]


def main(name: str = "iap") -> None:
    """Walk on a recording of the shipped bundle; exit code 1 if it does not end as it must."""
    bundle = load_bundle(name)
    link = RecordedLink(recorded_readings(name), bundle.control_dt_s)
    profiler = LatencyProfiler(bundle.control_dt_s, link.sensors)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "walk.mcap"
        with closing(Recorder(file)) as recorder:
            recorder.begin(bundle)
            options = LoopOptions(driver_timeout_s=math.inf, record=recorder.step)
            controller = bundle.controller(stopwatch=profiler)
            operator = Operator(auto=True)
            loop = ControlLoop(link, controller, profiler, bundle.control_dt_s, operator, options)
            loop.start()
            while loop.fault is None:
                time.sleep(0.1)
            loop.stop()
            recorder.end(loop.fault)
        print(f"{loop.fault}; {len(loop.decisions)} decisions, {len(link.commands)} commands")
        print(recorder.problem or "recorded in full")
        figures = replay(read_recording(file), bundle)
    print(format_table(profiler.report(bundle.contract)))
    print(format_figures(figures))
    walked = len(loop.decisions) > 1 and loop.fault.startswith("joints is silent")
    sys.exit(not walked or bool(figures["different"]) or not figures["complete"])


if __name__ == "__main__":
    main(*sys.argv[1:])
