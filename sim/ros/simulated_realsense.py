"""The camera of pixelgait-sim with the interface of pyrealsense2, as far as it is used here.

The serial number is the robot's DDS domain, by default that of `go2:lo`. Streams have the size that
pixelgait-sim renders, whichever is asked for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.unitree.address import SIMULATED_DOMAIN
from pixelgait.sim.ros.camera_memory import KINDS, MILLIMETRES, CameraReader

POLL_S = 0.002
stream = SimpleNamespace(depth="depth", color="colour")
format = SimpleNamespace(z16="z16", bgr8="bgr8")
timestamp_domain = SimpleNamespace(
    hardware_clock="hardware clock", system_time="system time", global_time="global time"
)


class config:  # noqa: N801 (pyrealsense2's names)
    """Which device and which streams."""

    def __init__(self) -> None:
        self.serial, self.streams = str(SIMULATED_DOMAIN), list[str]()

    def enable_device(self, serial: str) -> None:
        self.serial = serial

    def enable_stream(self, kind: str, *_: Any) -> None:
        self.streams.append(kind)


@dataclass(frozen=True)
class Frame:
    """A frame of one stream."""

    pixels: NDArray[Any]
    time_ns: int

    def get_data(self) -> NDArray[Any]:
        return self.pixels

    def get_timestamp(self) -> float:
        """Its stamp [ms]."""
        return self.time_ns / 1e6

    def get_frame_timestamp_domain(self) -> str:
        return str(timestamp_domain.global_time)


@dataclass(frozen=True)
class Frames:
    """Frames of one instant, by stream."""

    by_stream: dict[str, Frame]

    def get_depth_frame(self) -> Frame:
        return self.by_stream[stream.depth]

    def get_color_frame(self) -> Frame:
        return self.by_stream[stream.color]


class Profile:
    """Profile of a pipeline that runs, of its device, and of a stream."""

    def __init__(self, header: Any, stream: str = "") -> None:
        self._header, self._stream = header, stream

    def get_device(self) -> Profile:
        return self

    def first_depth_sensor(self) -> Profile:
        return self

    def get_depth_scale(self) -> float:
        """Length of a depth unit [m]."""
        return 1.0 / MILLIMETRES

    def get_stream(self, stream: str) -> Profile:
        return Profile(self._header, stream)

    def as_video_stream_profile(self) -> Profile:
        return self

    def get_intrinsics(self) -> Any:
        kind = KINDS.index(self._stream)
        height, width = self._header["size"][kind].tolist()
        focal, x, y = float(self._header["focal"][kind]), (width - 1) / 2.0, (height - 1) / 2.0
        return SimpleNamespace(height=height, width=width, fx=focal, fy=focal, ppx=x, ppy=y)


class pipeline:  # noqa: N801
    """Waits for frames of the simulated camera."""

    def start(self, settings: config) -> Profile:
        """Open the camera.

        Raises:
            RuntimeError: no robot is simulated in this domain.
        """
        try:
            self._reader = CameraReader(settings.serial)
        except FileNotFoundError:
            raise RuntimeError(f"no robot is simulated in domain {settings.serial}") from None
        self._streams = tuple(settings.streams)
        self._number = int(self._reader.header["number"])  # an image of before is no new one
        return Profile(self._reader.header)

    def wait_for_frames(self, timeout_ms: int) -> Frames:
        """The next frames.

        Raises:
            RuntimeError: there are none within this time [ms].
        """
        end_s = time.monotonic() + timeout_ms / 1e3
        while time.monotonic() < end_s:
            self._reader.ask(self._streams)
            if (frames := self._read()) is not None:
                return frames
            time.sleep(POLL_S)
        raise RuntimeError(f"Frame didn't arrive within {timeout_ms}")

    def _read(self) -> Frames | None:
        """New frames, None if there are none or they are just written."""
        header = self._reader.header
        number, time_ns = int(header["number"]), int(header["time_ns"])
        if number == self._number or number % 2:
            return None
        found = {kind: Frame(self._pixels(kind), time_ns) for kind in self._streams}
        if int(header["number"]) != number or not all(np.any(f.pixels) for f in found.values()):
            return None
        self._number = number
        return Frames(found)

    def _pixels(self, kind: str) -> NDArray[Any]:
        pixels = self._reader.read(kind)
        return pixels[..., ::-1] if kind == stream.color else pixels  # blue first

    def stop(self) -> None:
        """Nothing: the memory is freed with the process."""
