"""The control loop on board: wait for sensors, stand, walk, and damp at the end, always."""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.latency import LatencyProfiler
from pixelgait.robot.reading import Image
from pixelgait.robot.ros_body import RosBody

STAND_S = 1.0  # from wherever the joints are into the default pose, before the first step
SENSOR_WAIT_S = 15.0  # discovery on loopback takes up to 2.6 s
DAMP_MESSAGES = 5
# Sensors older than this damp the robot. Walking blind is worse than waiting, so the camera counts
# too, but a robot falls within tenths of a second without its joints and not without its eyes.
TIMEOUT_S = {"joint_states": 0.1, "imu/data": 0.1, "camera/color/image_raw": 2.0}


class ControlLoop:
    """Runs a controller on a robot behind ROS 2, in its own thread."""

    def __init__(
        self, body: RosBody, controller: Controller, profiler: LatencyProfiler, period_s: float
    ) -> None:
        self.body, self.controller, self.profiler = body, controller, profiler
        self.period_s = period_s
        self.decisions: deque[tuple[Image, Decision]] = deque(maxlen=10_000)
        self.walking_since: float | None = None  # monotonic [s]
        self.fault: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop; returns when the damping command is out."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            if self._wait_for_sensors():
                self._stand()
                self._walk()
        except Exception as error:  # whatever it is, the robot must not keep its last command
            self.fault = f"{type(error).__name__}: {error}"
        finally:
            self._damp()

    def _wait_for_sensors(self) -> bool:
        deadline = time.monotonic() + SENSOR_WAIT_S
        while self.body.missing() and not self._stop.wait(0.01):
            if time.monotonic() > deadline:
                missing = ", ".join(self.body.missing())
                self.fault = f"no message on {missing} within {SENSOR_WAIT_S:.0f} s"
                return False
        return not self._stop.is_set()

    def _stand(self) -> None:
        reading = self.body.reset()
        first, last = reading.joint_angles, self.body.spec.default_pose_rad
        for share in np.linspace(0.0, 1.0, round(STAND_S / self.period_s)):
            if self._stop.is_set():
                return
            targets = first + share * (last - first)
            self.body.apply(self.controller.supervisor.review(reading, targets))
            reading = self.body.read()

    def _walk(self) -> None:
        controller, supervisor = self.controller, self.controller.supervisor
        controller.reset()
        self.profiler.reset()
        self.body.rate.restart()
        self.walking_since = time.monotonic()
        images = 0
        while not self._stop.is_set():
            self.profiler.start()
            reading = self.body.read()
            for topic, limit in TIMEOUT_S.items():
                if (age := self.body.ages_s[topic]) > limit:
                    supervisor.trip(f"{topic} is {age:.2f} s old, at most {limit} s is allowed")
            command = controller.step(reading)
            if controller.images > images and controller.image and controller.decision:
                images = controller.images
                self.decisions.append((controller.image, controller.decision))
            self.fault = supervisor.fault
            self.body.apply(command)

    def _damp(self) -> None:
        if self.body.missing():
            return  # nothing has ever been commanded
        reading = self.body.read()
        for _ in range(DAMP_MESSAGES):
            self.body.send(self.controller.supervisor.damp(reading))
            time.sleep(self.period_s)
