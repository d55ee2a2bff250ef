"""The control loop on board: wait for sensors, stand, walk, and damp at the end, always."""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.link import RosBody
from pixelgait.robot.runtime.latency import LatencyProfiler

STAND_S = 1.0  # from wherever the joints are into the default pose, before the first step
SENSOR_WAIT_S = 15.0  # discovery on loopback was seen to take up to 2.6 s; a robot boots slower
DAMP_MESSAGES = 5
MOST_DECISIONS = 10_000  # kept for the record: a quarter of an hour of short ones


class ControlLoop:
    """Runs a controller on a robot behind ROS 2, in its own thread.

    `fault` says why the loop has ended on its own, or is None.
    """

    def __init__(
        self, body: RosBody, controller: Controller, profiler: LatencyProfiler, period_s: float
    ) -> None:
        self.body, self.controller, self.profiler = body, controller, profiler
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
        deadline = time.monotonic() + SENSOR_WAIT_S
        self.body.forget()
        while (silent := self.body.silent()) and not self._stop.wait(0.01):
            self.body.take()
            if time.monotonic() > deadline:
                raise UserError(f"no message on {', '.join(silent)} for {SENSOR_WAIT_S:.0f} s")
        if self._stop.is_set():
            return False
        self.body.check_image()
        return True

    def _stand(self) -> None:
        reading = self.body.reset()
        first, last = reading.joint_angles, self.body.spec.default_pose_rad
        for share in np.linspace(0.0, 1.0, round(STAND_S / self.period_s)):
            targets = first + share * (last - first)
            if not self._send(self.controller.supervisor.review(reading, targets)):
                return
            reading = self._read()

    def _walk(self) -> None:
        controller = self.controller
        self.profiler.reset()
        self.body.rate.restart()
        self.walking_since = time.monotonic()
        images = 0
        running = self.fault is None and not self._stop.is_set()
        while running:
            self.profiler.start()
            command = controller.step(self._read())
            if controller.images > images and controller.image and controller.decision:
                images = controller.images
                self.decisions.append((controller.image, controller.decision))
            running = self._send(command)

    def _read(self) -> Reading:
        self.body.take()
        for topic, age in self.body.silent().items():
            allowed = self.body.timeout_s[topic]
            self.controller.supervisor.trip(
                f"{topic} is silent for {age:.2f} s, at most {allowed} s is allowed"
            )
        return self.body.read()

    def _send(self, command: JointCommand) -> bool:
        """Send a command and wait for the next step; False when there is none."""
        self.fault = self.controller.supervisor.fault
        self.body.apply(command)
        return self.fault is None and not self._stop.is_set()

    def _damp(self) -> None:
        """Whatever has happened: the last messages damp. They need no reading."""
        for _ in range(DAMP_MESSAGES):
            self.body.send(self.controller.supervisor.damp(self.body.now_s()))
            time.sleep(self.period_s)
