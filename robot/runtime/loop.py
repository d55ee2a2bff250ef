"""The control loop on board: wait for sensors, stand, walk, and damp at the end, always."""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Link, Reading
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.realtime import RateKeeper

STAND_S = 1.0  # from wherever the joints are into the default pose, before the first step
SENSOR_WAIT_S = 15.0  # discovery on loopback was seen to take up to 2.6 s; a robot boots slower
DAMP_MESSAGES = 5
MOST_DECISIONS = 10_000  # kept for the record: a quarter of an hour of short ones


class ControlLoop:
    """Runs a controller on the robot behind a link, in a thread and at a rate of its own.

    `fault` says why the loop has ended on its own, or is None.
    """

    def __init__(
        self, link: Link, controller: Controller, profiler: LatencyProfiler, period_s: float
    ) -> None:
        self.link, self.controller, self.profiler = link, controller, profiler
        self.rate = RateKeeper(period_s)
        self.period_s = period_s
        self.decisions: deque[tuple[Image, Decision]] = deque(maxlen=MOST_DECISIONS)
        self.walking_since: float | None = None  # monotonic [s]
        self.fault: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop; returns when the damping command is out."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            if self._wait_for_sensors():
                self.controller.reset()
                self._stand()
                self._walk()
        except UserError as error:
            self.fault = str(error)
        except Exception as error:  # whatever it is, the robot must not keep its last command
            self.fault = f"{type(error).__name__}: {error}"
        finally:
            self._damp()

    def _wait_for_sensors(self) -> bool:
        """Whether all sensors send, and a first image can be used, before anyone stops the loop."""
        deadline = time.monotonic() + SENSOR_WAIT_S
        self.link.forget()
        while missing := self.controller.supervisor.silent(self.link.ages()):
            if self._stop.wait(0.01):
                return False
            self.link.take()
            if time.monotonic() > deadline:
                raise UserError(f"no message on {', '.join(missing)} for {SENSOR_WAIT_S:.0f} s")
        self.link.read().image()
        return not self._stop.is_set()

    def _stand(self) -> None:
        """Move the joints into the default pose."""
        self.rate.restart()
        supervisor, reading = self.controller.supervisor, self._read()
        first, last = reading.joint_angles, supervisor.spec.default_pose_rad
        for share in np.linspace(0.0, 1.0, round(STAND_S / self.period_s)):
            targets = first + share * (last - first)
            if not self._send(supervisor.review(reading, targets, self.link.ages())):
                return
            reading = self._read()

    def _walk(self) -> None:
        controller = self.controller
        self.profiler.reset()
        self.rate.restart()
        self.walking_since = time.monotonic()
        images = 0
        running = self.fault is None and not self._stop.is_set()
        while running:
            self.profiler.start()
            reading = self._read()
            command = controller.step(reading, self.link.ages())
            if controller.images > images and controller.image and controller.decision:
                images = controller.images
                self.decisions.append((controller.image, controller.decision))
            running = self._send(command)

    def _read(self) -> Reading:
        """The newest values, whose age is recorded."""
        self.link.take()
        reading = self.link.read()
        now = self.link.now_s()
        for sensor, stamp in self.link.stamps().items():
            self.profiler.sensor_age[sensor].record(round((now - stamp) * 1e9))
        return reading

    def _send(self, command: JointCommand) -> bool:
        """Send a command and wait until the next step is due; False when there is none."""
        self.fault = self.controller.supervisor.fault
        self.link.send(command)
        self.profiler.lap("publish")
        age = self.link.now_s() - command.time_s
        self.profiler.stages["sensor_to_command"].record(round(age * 1e9))
        if not self.rate.wait():
            self.profiler.missed_deadline()
        return self.fault is None and not self._stop.is_set()

    def _damp(self) -> None:
        """Whatever has happened: the last messages damp. They need no reading."""
        for _ in range(DAMP_MESSAGES):
            self.link.send(self.controller.supervisor.damp(self.link.now_s()))
            time.sleep(self.period_s)
