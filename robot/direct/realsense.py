"""Camera by pyrealsense2, or by a module with the same interface, in a process of its own."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pixelgait.robot.control.lens import misfit
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common.topic_names import DEPTH
from pixelgait.robot.runtime.camera_images import camera_topics
from pixelgait.robot.runtime.map_feed import MapFeed
from pixelgait.robot.runtime.newest import Newest
from pixelgait.robot.spec import CameraMount, RobotSpec

PROCESS = "pixelgait.robot.direct.camera_process"
CLOSE_S = 1.0  # at most, for the camera's process to end; assumption
AGAIN_S = 0.5  # from the end of the camera's process to the next
# Modules by the name of a camera; all have pyrealsense2's interface.
MODULES = {
    "realsense": "pyrealsense2",
    "simulated": "pixelgait.sim.ros.simulated_realsense",
}
EXTRAS = {"realsense": "realsense", "simulated": "sim"}


@dataclass(frozen=True, slots=True)
class Sent:
    """Message of the camera's process: lenses once, then frames, by topic; or a problem."""

    lenses: dict[str, Any] | None = None  # as sensor_msgs/CameraInfo
    frames: dict[str, Any] | None = None  # as sensor_msgs/Image
    problem: str | None = None


def camera_of(text: str) -> tuple[str, str]:
    """The module and the serial number (or "") of a --camera such as realsense:123.

    Raises:
        UserError: there is no such camera, or its library is not installed.
    """
    name, _, serial = text.partition(":")
    if name not in MODULES:
        raise UserError(f"--camera {text}: expected ros, none, {' or '.join(MODULES)}")
    if find_spec(MODULES[name].partition(".")[0]) is None:
        raise UserError(
            f"--camera {text} needs {MODULES[name]}: pip install 'pixelgait[{EXTRAS[name]}]'"
        )
    return MODULES[name], serial


class RealSenseFrames(Newest):
    """Newest frames of a camera, from a process that is started again whenever it ends.

    In this process pyrealsense2 would hold the interpreter lock for 15 s while it looks for a
    camera that was unplugged (2.59.1, `pipeline.start`): no command would reach the motors.
    """

    def __init__(
        self,
        module: str,
        serial: str,
        image_shape: tuple[int, int, int],
        now_s: Callable[[], float],
    ) -> None:
        super().__init__(camera_topics(image_shape), now_s)
        self._image_shape = image_shape
        self._command = [sys.executable, "-m", PROCESS, module, serial, *self.topics]
        self._arrived: dict[str, Any] = {}  # not yet fetched
        self._lenses: dict[str, Any] = {}
        self._problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="camera", daemon=True)
        self._thread.start()

    def fetch(self, topic: str) -> tuple[Any | None, str | None]:
        frame = self._arrived.pop(topic, None)
        self.received[topic] += frame is not None
        return frame, None

    def warnings(self) -> dict[str, str]:
        """As `Newest.warnings`; a camera without frames has its library's words for it."""
        problem = self._problem
        return super().warnings() if problem is None else dict.fromkeys(self.topics, problem)

    def misfit(self, mount: CameraMount) -> str | None:
        """Why a lens does not fit the policy's images, or None."""
        for topic, lens in self._lenses.items():
            if what := misfit(lens, self._image_shape, mount):
                return f"{topic}: {what}"
        return None

    def lens(self, topic: str) -> Any | None:
        """The lens of a topic, as sensor_msgs/CameraInfo; None while it is unknown."""
        return self._lenses.get(topic)

    def close(self) -> None:
        """End the camera's process."""
        self._closing.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(CLOSE_S)

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C ends the run, not its camera
            )
            if self._closing.is_set():  # `close` may not have seen it
                self._process.kill()
            self._receive(self._process)
            self._closing.wait(AGAIN_S)

    def _receive(self, process: subprocess.Popen[bytes]) -> None:
        """Take what a process sends until it ends."""
        assert process.stdout is not None
        with process, process.stdout:
            while True:
                try:
                    sent: Sent = pickle.load(process.stdout)
                except Exception:  # its end, or anything that damaged bytes may raise
                    break
                self._problem = None if sent.frames else sent.problem or self._problem
                self._lenses = sent.lenses or self._lenses
                self._arrived.update(sent.frames or {})
            process.kill()
        self._problem = self._problem or f"the camera's process has ended ({process.returncode})"


class FrameMap(MapFeed):
    """A local map of a camera's depth frames; obstacles stop the robot."""

    def __init__(self, frames: RealSenseFrames, spec: RobotSpec, aspect: float) -> None:
        super().__init__(spec, aspect, lambda: True)
        self._frames = frames
        self._last: Any = None  # frame in the map

    def take_depth(self) -> Iterator[Any]:
        newest = self._frames.newest.get(DEPTH)
        if newest is not None and newest is not self._last:
            self._last = newest
            yield newest

    def take_info(self) -> Any | None:
        return self._frames.lens(DEPTH)
