"""A camera that is no topic of ROS 2: what OpenCV opens, read in a thread of its own."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgb
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image
from pixelgait.robot.runtime.realtime import step_back
from pixelgait.robot.safety.sensor_age import Freshness, PictureWatch
from pixelgait.robot.safety.supervisor import CAMERA
from pixelgait.robot.spec import Array

OPEN_S = 6.0  # until a first picture: 0.1 to 1.4 s were seen of streams that send; ours
STALL_S = 1.0  # without a picture, before FFMPEG begins anew; ours
RETRY_S = 0.5  # from an end to the next try; ours
FILE_FPS = 30.0  # of a file that does not say
# Decoding in several threads FFMPEG is late by a picture for each but the first (33 ms of 30 Hz, on
# two cores). A name that this OpenCV has not is left out.
FFMPEG = {
    "CAP_PROP_OPEN_TIMEOUT_MSEC": round(OPEN_S * 1e3),
    "CAP_PROP_READ_TIMEOUT_MSEC": round(STALL_S * 1e3),
    "CAP_PROP_N_THREADS": 1,
}
FFMPEG_OPTIONS, FFMPEG_LOG, LOG = (
    "OPENCV_FFMPEG_CAPTURE_OPTIONS", "OPENCV_FFMPEG_LOGLEVEL", "OPENCV_LOG_LEVEL"
)  # fmt: skip
LAST_OF_A_PIPELINE = "videoconvert ! video/x-raw,format=BGR ! appsink drop=1"
# Behind user-pw, proxy-pw of rtspsrc and souphttpsrc: in quotes, even without the last one, or not.
PIPELINES_PASSWORD = re.compile(
    r"""(-pw)\s*=\s*("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|(?:\\.|\S)+)""", re.DOTALL
)
QUIET = "-8"  # FFMPEG's AV_LOG_QUIET


@dataclass(frozen=True)
class Stream:
    """What to open, and with which of OpenCV's backends; a file is played at its own pace."""

    source: str
    backend: int = cv2.CAP_FFMPEG
    file: bool = False

    def __str__(self) -> str:
        """As it is told to people: without a password, and of a pipeline its beginning."""
        shown = PIPELINES_PASSWORD.sub(r"\1=...", self.source)
        shown = re.sub(r"//[^/\s]*@", "//", shown)  # a password may hold an @
        if not self.file:  # of a query, by which many cameras are told a password, nothing
            shown = re.sub(r"([?&]).*", r"\1...", shown, flags=re.DOTALL)
            shown = re.sub(r"//\S*@", "//", shown)  # or a /, though it belongs there as %2F
        if self.backend == cv2.CAP_GSTREAMER:
            shown = f"{shown.partition('!')[0].strip()} ! ..."
        return shown

    def open(self) -> Any:
        """A VideoCapture, be it opened or not."""
        if self.source.endswith(".sdp"):  # it names other streams, which FFMPEG wants allowed
            os.environ.setdefault(FFMPEG_OPTIONS, "protocol_whitelist;file,rtp,udp")
        if self.backend != cv2.CAP_FFMPEG:
            number = int(self.source) if self.source.isdecimal() else self.source
            return cv2.VideoCapture(number, self.backend)
        known = {name: value for name, value in FFMPEG.items() if hasattr(cv2, name)}
        pairs = [part for name, value in known.items() for part in (getattr(cv2, name), value)]
        return cv2.VideoCapture(self.source, self.backend, pairs)


def parse_stream(text: str) -> Stream:
    """A URL has `://`, a GStreamer pipeline has `!`; a video device, by its number too, or a file.

    Raises:
        UserError: it is none of these, or this OpenCV knows no GStreamer.
    """
    if re.match(r"[a-z][a-z0-9+.-]*://", text):
        return Stream(text)
    if os.path.isfile(text):  # Path.is_file fails at texts as long as some pipelines
        return Stream(text, file=not text.endswith(".sdp"))
    if "!" in text:
        if not cv2.videoio_registry.hasBackend(cv2.CAP_GSTREAMER):
            raise UserError(
                "--camera-stream: this OpenCV was built without GStreamer, as PyPI's is; the "
                "system's has it (apt install python3-opencv, PyPI's removed), a URL or an .sdp "
                "needs none"
            )
        return Stream(text, cv2.CAP_GSTREAMER)
    if text.isdecimal() or text.startswith("/dev/"):
        return Stream(text, cv2.CAP_V4L2)
    if os.path.exists(text):  # a pipe
        return Stream(text)
    raise UserError(
        f"--camera-stream {Stream(text)}: expected a URL, a GStreamer pipeline, a device or a file"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A picture as it came, and when [s], on the clock of stamps."""

    pixels: NDArray[np.uint8]  # (H, W, 3), blue, green, red
    arrived_s: float
    number: int  # the same as of the one before, if it is the same in every bit


class CameraStream:
    """The `Eyes` behind a stream: images (H, W, 3) of the shape a policy wants.

    A thread reads, keeps the newest picture alone, and opens the stream again when it has ended; a
    file is over at its end. A stream has no stamps: pictures count from their arrival, by `now_s`
    [s], so how late a camera and its encoder are is not seen. A picture that repeats is no news.
    `stop` ends the wait for the first.

    Raises:
        UserError: it cannot be opened, or there is no picture that can be used within `OPEN_S`.
    """

    sensors: tuple[str, ...] = (CAMERA,)

    def __init__(
        self,
        stream: Stream,
        image_shape: tuple[int, int, int],
        now_s: Callable[[], float],
        stop: threading.Event,
    ) -> None:
        self.stream, self.image_shape, self._now_s = stream, image_shape, now_s
        self.received: dict[str, int] = {CAMERA: 0}
        self._freshness, self._pictures = Freshness(CAMERA), PictureWatch()
        self._newest: Frame | None = None  # by the thread
        self._taken: Frame | None = None
        self._shown: Frame | None = None  # the newest that was news
        self._problem: str | None = None  # why there are no more
        self._began, self._closing = threading.Event(), threading.Event()
        if LOG not in os.environ:
            getattr(cv2.utils, "logging", cv2).setLogLevel(0)  # up to 4.6 it was cv2's own
        os.environ.setdefault(FFMPEG_LOG, QUIET)
        self._thread = threading.Thread(target=self._run, name="camera", daemon=True)
        self._thread.start()
        if not self._wait(stop):
            self._problem = f"no picture within {OPEN_S:.0f} s"
        if self._problem:
            self._closing.set()
            raise UserError(f"--camera-stream {self.stream}: {self._problem}")

    def _wait(self, stop: threading.Event) -> bool:
        """Whether it has begun in time, or nobody wants it any more."""
        deadline_s = time.monotonic() + OPEN_S
        while not (self._began.wait(0.05) or stop.is_set()):
            if time.monotonic() > deadline_s:
                return False
        return True

    def take(self, joints: Array) -> None:
        """The newest picture, with the joints' angles (12,) [rad] by now."""
        frame = self._newest
        if frame is None or frame is self._taken:
            return
        self._taken = frame
        self.received[CAMERA] += 1
        odd = self._pictures.frozen(frame.number.to_bytes(8, "little"), joints)
        if self._freshness.arrived(frame.arrived_s, self._now_s(), time.monotonic(), odd):
            self._shown = frame

    def image(self) -> Image:
        """The newest image; cropped and resized only now.

        Raises:
            UserError: there was none so far.
        """
        if self._shown is None:
            raise UserError(f"no fresh image on {self.stream} so far")
        height, width, _ = self.image_shape
        colours = rgb(self._shown.pixels, cv2.COLOR_BGR2RGB, height, width)
        return Image(colours, self._shown.arrived_s)

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        self._freshness.forget()
        self._shown = None

    def ages(self) -> dict[str, float]:
        """Since the newest news arrived [s]."""
        return {CAMERA: self._freshness.age_s(time.monotonic())}

    def warnings(self) -> dict[str, str]:
        """What is odd about the stream, where something is."""
        warning = self._problem or self._freshness.warning
        if warning is None and self.ages()[CAMERA] > STALL_S:
            warning = "sends no pictures"
        return {CAMERA: f"{self.stream}: {warning}"} if warning else {}

    def stamps(self) -> dict[str, float]:
        """When the newest has arrived [s]."""
        return {} if self._taken is None else {CAMERA: self._taken.arrived_s}

    def close(self) -> None:
        """End the thread, unless OpenCV holds it up: then it ends with the process."""
        self._closing.set()
        self._thread.join(2.0 * STALL_S)

    def _run(self) -> None:
        """In a thread of its own: open, read, again and again."""
        step_back()
        while not self._closing.is_set():
            try:
                self._open_and_read()
            except Exception as error:  # whatever it is the next try may do; may hold a password
                self._problem = f"cannot be read ({type(error).__name__})"
            self._began.set()
            if self.stream.file:
                return
            self._closing.wait(RETRY_S)

    def _open_and_read(self) -> None:
        """Until there are no more pictures, or none to begin with."""
        capture = self.stream.open()
        try:
            if capture.isOpened():
                self._problem = self._read(capture)
            elif self._newest is None:
                self._problem = "cannot be opened"
        finally:
            capture.release()

    def _read(self, capture: Any) -> str:
        """Keep the newest picture, until there are no more: why."""
        fps = capture.get(cv2.CAP_PROP_FPS)
        period_s = 1.0 / fps if 0.0 < fps < 1e3 else 1.0 / FILE_FPS
        due_s = time.monotonic()
        while not self._closing.is_set():
            ok, pixels = capture.read()
            if self.stream.file:
                self._closing.wait(max(0.0, due_s - time.monotonic()))
                due_s += period_s
            if not ok:
                break
            if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
                shape = " x ".join(map(str, pixels.shape))
                return f"pictures of {shape}, needs BGR: end the pipeline by {LAST_OF_A_PIPELINE}"
            last = self._newest
            same = last is not None and np.array_equal(pixels, last.pixels)
            number = 0 if last is None else last.number + (not same)
            self._newest, self._problem = Frame(pixels, self._now_s(), number), None
            self._began.set()
        return "has ended" if self.stream.file else "has ended, it is opened again"
