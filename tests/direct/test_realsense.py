"""A camera by pyrealsense2's interface: the simulated one, through shared memory."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.controller import latent_for
from pixelgait.robot.direct import realsense
from pixelgait.robot.direct.camera_process import frame, stream
from pixelgait.robot.direct.realsense import MODULES, PROCESS, FrameMap, RealSenseFrames, Sent
from pixelgait.robot.interface import Reading
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH
from pixelgait.robot.runtime.camera import Camera
from pixelgait.robot.spec import GO2, TrainedMounts
from pixelgait.sim.ros import simulated_realsense
from pixelgait.sim.ros.camera_memory import CameraWriter, path_of
from tests.conftest import child_environment

HEIGHT, WIDTH = 24, 32
SHAPES = {DEPTH: (HEIGHT, WIDTH, 1), COLOUR: (HEIGHT, WIDTH, 3), "both": (HEIGHT, WIDTH, 4)}


class Robot:
    """Writes an image every 10 ms, until it is lost."""

    def __init__(self, domain: str) -> None:
        rows = np.linspace(3.0, 1.5, 3 * HEIGHT, dtype=np.float32)
        self.metres = np.tile(rows[:, None], 3 * WIDTH)  # larger than colour
        self.pixels = np.random.default_rng(0).integers(1, 255, (HEIGHT, WIDTH, 3), np.uint8)
        self._memory = CameraWriter(domain, (3 * HEIGHT, 3 * WIDTH), (HEIGHT, WIDTH), GO2.camera)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._over.wait(0.01):
            depth, colour = self._memory.wanted()
            if depth or colour:
                metres, pixels = self.metres if depth else None, self.pixels if colour else None
                self._memory.write(time.time_ns(), metres, pixels)

    def close(self) -> None:
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._memory.close()


@pytest.fixture
def domain() -> str:
    return f"test-{os.getpid()}"


@pytest.fixture
def robot(domain: str) -> Iterator[Robot]:
    robot = Robot(domain)
    yield robot
    robot.close()


@pytest.fixture
def open_camera(domain: str) -> Iterator[Callable[[str], tuple[RealSenseFrames, Camera]]]:
    opened: list[RealSenseFrames] = []

    def open_it(kind: str) -> tuple[RealSenseFrames, Camera]:
        frames = RealSenseFrames(MODULES["simulated"], domain, SHAPES[kind], time.time)
        opened.append(frames)
        mounts = TrainedMounts.one(GO2.camera)
        return frames, Camera(frames, SHAPES[kind], mounts, GO2.stand_height_m)

    yield open_it
    for each in opened:
        each.close()


def take(camera: Camera, until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60.0
    while not until():
        assert time.monotonic() < deadline, camera.warnings()
        camera.take(np.zeros(12))
        time.sleep(0.005)


@pytest.mark.parametrize("kind", SHAPES)
def test_images_are_those_of_the_robot(robot: Robot, open_camera: Any, kind: str) -> None:
    frames, camera = open_camera(kind)
    take(camera, lambda: max(camera.ages().values()) < 1.0)
    image = camera.image()
    assert abs(time.time() - image.time_s) < 5.0
    if kind == DEPTH:
        np.testing.assert_allclose(image.pixels, robot.metres[1::3, 1::3], atol=0.0006)
    elif kind == COLOUR:
        np.testing.assert_array_equal(image.pixels, robot.pixels)
    else:
        np.testing.assert_array_equal(image.pixels[..., :3], robot.pixels)
    assert frames.misfit(GO2.camera) is None
    narrow = replace(GO2.camera, vertical_fov_rad=0.5 * GO2.camera.vertical_fov_rad)
    assert "the policy would see" in frames.misfit(narrow)


def test_a_wall_in_its_depth_stops_the_robot_by_a_map(robot: Robot, open_camera: Any) -> None:
    robot.metres[:] = 0.4
    frames, camera = open_camera(DEPTH)
    around = FrameMap(frames, GO2, WIDTH / HEIGHT)
    level = np.array((0.0, 0.0, 0.0, 1.0))

    def free_m() -> float:
        values = GO2.default_pose_rad, np.zeros(12), level, np.zeros(3)
        reading = Reading(time.time(), *values, camera.image, odometry=np.zeros(3))
        return around.look_ahead(reading, None, latent_for(0.4, 0.0))

    assert free_m() == 0.0
    assert around.blind == "no map: no depth image so far, the robot stands"
    take(camera, lambda: 0.0 < free_m() < 0.4)
    assert around.blind is None


def test_a_camera_that_is_not_there_says_why_and_comes(
    domain: str, open_camera: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realsense, "AGAIN_S", 0.05)
    _, camera = open_camera(DEPTH)
    take(camera, lambda: f"no robot is simulated in domain {domain}" in str(camera.warnings()))
    robot = Robot(domain)
    try:
        take(camera, lambda: camera.received[DEPTH])
        assert camera.warnings() == {}
    finally:
        robot.close()
    assert not path_of(domain).exists()


def test_a_silent_camera_is_an_error_of_its_process(domain: str, robot: Robot) -> None:
    sent: list[Sent] = []

    def keep(each: Sent) -> None:
        sent.append(each)
        if each.frames:
            robot.close()

    with pytest.raises(RuntimeError, match="Frame didn't arrive within 1000"):
        stream(simulated_realsense, domain, [DEPTH], keep)
    assert sent[0].lenses is not None
    assert sent[1].frames is not None


def test_depth_in_other_units_becomes_metres() -> None:
    """A D405 counts in tenths of a millimetre."""
    counts = np.full((2, 2), 15_000, np.uint16)
    counts[0, 0] = 0
    shown = simulated_realsense.Frames({"depth": simulated_realsense.Frame(counts, 10**18)})
    found = frame(simulated_realsense, shown, DEPTH, 1e-4)
    assert (found.encoding, found.step, found.header.stamp.sec) == ("32FC1", 8, 10**9)
    np.testing.assert_allclose(
        np.frombuffer(found.data.tobytes(), np.float32), [0.0, 1.5, 1.5, 1.5]
    )


def test_what_a_camera_library_prints_is_no_frame(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text("import os; os.write(1, b'searching'); print('found')")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ran = subprocess.run(
        [sys.executable, "-m", PROCESS, "noisy", "", DEPTH],
        env={**child_environment(), "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    assert "has no attribute 'pipeline'" in str(pickle.loads(ran.stdout).problem)
    assert b"searching" in ran.stderr


def test_damaged_frames_start_the_camera_again() -> None:
    """Bytes that are no pickle may raise anything, as ModuleNotFoundError."""

    class Process(nullcontext[None]):
        stdout, returncode, kills = io.BytesIO(b"cnowhere\nNothing\n."), -9, 0

        def kill(self) -> None:
            self.kills += 1

    frames, process = object.__new__(RealSenseFrames), Process()
    frames._problem = None
    frames._receive(process)  # type: ignore[arg-type]
    assert process.kills == 1
    assert frames._problem == "the camera's process has ended (-9)"
