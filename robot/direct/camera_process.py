"""Process of a camera: passes its frames, depth z16 and colour bgr8, to standard output."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.control.image_decoding import image_of
from pixelgait.robot.direct.realsense import Sent
from pixelgait.robot.ros.common.topic_names import DEPTH
from pixelgait.robot.runtime.newest import NANOSECONDS
from pixelgait.robot.runtime.realtime import give_up_priority

# As in the vendor's launch files for small computers: 240 rows are ten times those of a policy.
WIDTH, HEIGHT, RATE_HZ = 424, 240, 30
FRAME_MS = 1000  # without a frame for so long the camera counts as lost
MILLIMETRES = 0.001  # unit of 16 bits of depth [m]


def main() -> None:
    """Pass frames on until the camera is lost, or the parent ends; its arguments are
    `RealSenseFrames`'s.
    """
    die_with_parent(os.getppid())
    give_up_priority()  # inherited: a driver of ROS 2 has none either
    module, serial, *topics = sys.argv[1:]
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the library prints

    def send(sent: Sent) -> None:
        pickle.dump(sent, pipe, protocol=pickle.HIGHEST_PROTOCOL)
        pipe.flush()

    try:
        stream(importlib.import_module(module), serial, topics, send)
    except BrokenPipeError:  # the parent is gone
        os._exit(1)
    except Exception as error:  # the library's RuntimeError, or a shared library that is missing
        send(Sent(problem=" ".join(str(error).split()) or type(error).__name__))


def stream(rs: Any, serial: str, topics: list[str], send: Callable[[Sent], None]) -> None:
    """Pass lenses, then frames on.

    Raises:
        RuntimeError: there is no such camera, or it sends nothing any more.
    """
    pipeline, config, units = rs.pipeline(), rs.config(), MILLIMETRES
    streams = {topic: rs.stream.depth if topic == DEPTH else rs.stream.color for topic in topics}
    if serial:
        config.enable_device(serial)
    for topic, each in streams.items():
        kind = rs.format.z16 if topic == DEPTH else rs.format.bgr8
        config.enable_stream(each, WIDTH, HEIGHT, kind, RATE_HZ)
    profile = pipeline.start(config)
    try:
        if DEPTH in topics:
            units = profile.get_device().first_depth_sensor().get_depth_scale()
        send(Sent(lenses={topic: lens(profile, each) for topic, each in streams.items()}))
        while True:
            frames = pipeline.wait_for_frames(FRAME_MS)
            send(Sent(frames={topic: frame(rs, frames, topic, units) for topic in topics}))
    finally:
        pipeline.stop()


def lens(profile: Any, stream: Any) -> Any:
    """The lens of a stream, with the fields of CameraInfo that `misfit` reads."""
    found = profile.get_stream(stream).as_video_stream_profile().get_intrinsics()
    return SimpleNamespace(
        k=[found.fx, 0.0, found.ppx, 0.0, found.fy, found.ppy, 0.0, 0.0, 1.0],
        height=found.height,
        width=found.width,
        roi=SimpleNamespace(height=0, width=0, x_offset=0, y_offset=0),
        binning_x=0,
        binning_y=0,
    )


def frame(rs: Any, frames: Any, topic: str, units: float) -> Any:
    """The newest frame of a topic; depth counts `units` [m].

    Its stamp is the computer's time where the camera tells it, otherwise that of arrival.
    """
    found = frames.get_depth_frame() if topic == DEPTH else frames.get_color_frame()
    pixels = np.asanyarray(found.get_data())
    if topic == DEPTH and abs(units - MILLIMETRES) > 1e-6:
        pixels = pixels.astype(np.float32) * np.float32(units)
    own = found.get_frame_timestamp_domain() == rs.timestamp_domain.hardware_clock
    time_ns = time.time_ns() if own else round(found.get_timestamp() * 1e6)
    stamp = SimpleNamespace(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS)
    return image_of(pixels, SimpleNamespace(stamp=stamp, frame_id=""))


if __name__ == "__main__":
    main()
