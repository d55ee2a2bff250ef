"""Pictures against the turn of the body, depth against the ground: faults are found, no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_RANGE_M
from pixelgait.robot.safety.image_checks import FROZEN, MIRRORED, DepthCheck, ImageMotionCheck
from pixelgait.robot.spec import A1, TrainedMounts

Picture = NDArray[np.float32]
SIZE = 32
FOCAL = SIZE / 2.0 / np.tan(A1.camera.vertical_fov_rad / 2.0)
NOISE = 0.02  # of the brightness, 0 to 1


def world(seed: int = 0) -> Picture:
    """Brightness of a panorama (32, 400), in pixels of the camera."""
    drawn = np.random.default_rng(seed).random((SIZE, 400)).astype(np.float32)
    smooth = np.asarray(cv2.GaussianBlur(drawn, (0, 0), 3.0))
    return np.asarray((smooth - smooth.min()) / np.ptp(smooth), np.float32)


def view(panorama: Picture, yaw: float) -> Picture:
    """The part that a camera sees which looks so far to the left [rad]."""
    columns = 200.0 - FOCAL * yaw + np.arange(SIZE, dtype=np.float32)
    x, y = np.meshgrid(columns, np.arange(SIZE, dtype=np.float32))
    return np.asarray(cv2.remap(panorama, x.astype(np.float32), y, cv2.INTER_LINEAR), np.float32)


def turns(seconds: float) -> Iterator[tuple[float, float, float]]:
    """Time [s], yaw [rad] and yaw rate [rad/s] of a robot that turns left and right, 100 Hz."""
    for k in range(round(100 * seconds)):
        time_s = 0.01 * k
        phase = 2.0 * np.pi * 0.25 * time_s
        yield time_s, 0.5 * (1.0 - float(np.cos(phase))), 0.25 * np.pi * float(np.sin(phase))


def told(
    change: Callable[[Picture, Picture], Picture], late_s: float = 0.0, noise: float = NOISE
) -> list[str | None]:
    """What is said of every picture: changed, given the first one too, stamped late by so much."""
    check, rng = ImageMotionCheck(A1.camera, SIZE), np.random.default_rng(1)
    panorama, said = world(), []
    for k, (time_s, yaw, rate) in enumerate(turns(6.0)):
        check.turned(time_s, np.array((0.0, 0.0, np.nan if k == 5 else rate)))
        if k % 3 == 0:
            picture = change(view(panorama, yaw), view(panorama, 0.0))
            picture = picture + rng.normal(0.0, noise, picture.shape)
            said.append(check.judge(picture.astype(np.float32), time_s + late_s))
    return said


@pytest.mark.parametrize("late_s", [0.0, 0.1])
def test_a_true_picture_raises_no_alarm(late_s: float) -> None:
    assert set(told(lambda now, first: now, late_s)) == {None}
    for noise in (NOISE, 0.0):  # what shows nothing
        assert set(told(lambda now, first: np.full_like(now, 0.5), late_s, noise)) == {None}


@pytest.mark.parametrize("late_s", [0.0, 0.1])
def test_a_mirrored_picture_or_one_upside_down_is_found_by_the_turn(late_s: float) -> None:
    for change in (lambda now, _: now[:, ::-1], lambda now, _: now[::-1, ::-1]):
        said = told(change, late_s)
        assert said[-1] == MIRRORED
        assert said.index(MIRRORED) < 120  # within 3.6 s
        assert set(said) == {None, MIRRORED}


def test_a_picture_frozen_but_for_noise_is_found_and_forgiven_when_it_moves() -> None:
    said = told(lambda now, first: first)
    assert set(said) == {None, FROZEN}
    assert said.index(FROZEN) < 60
    check, panorama, rng = ImageMotionCheck(A1.camera, SIZE), world(), np.random.default_rng(2)
    answers = []
    for k, (time_s, yaw, rate) in enumerate(turns(2.0)):
        check.turned(time_s, np.array((0.0, 0.0, rate)))
        seen = view(panorama, 0.0 if k < 180 else yaw) + rng.normal(0.0, NOISE, (SIZE, SIZE))
        if k % 3 == 0:
            answers.append(check.judge(seen.astype(np.float32), time_s))
    assert (answers[59], answers[-1]) == (FROZEN, None)


def ground(eye_m: float = A1.stand_height_m + A1.camera.position_m[2]) -> Picture:
    """Depth [m] of level ground before a wall 2.5 m away; NaN above the wall."""
    down, half = A1.camera.pitch_down_rad, np.tan(A1.camera.vertical_fov_rad / 2.0)
    y = (2.0 * (np.arange(SIZE) + 0.5) / SIZE - 1.0) * half
    with np.errstate(divide="ignore"):
        depth = eye_m / (np.sin(down) + y * np.cos(down))
    column = np.where((depth > 0.0) & (depth < 2.5), depth, 2.5)
    column[:4] = np.nan
    return np.repeat(column[:, None], SIZE, axis=1).astype(np.float32)


def test_depth_is_judged_by_the_ground_below() -> None:
    def judged(depth: Picture) -> str | None:
        check = DepthCheck(TrainedMounts.one(A1.camera), A1.stand_height_m, DEPTH_RANGE_M)
        return [check.judge(depth) for _ in range(10)][-1]

    assert judged(ground()) is None
    nothing = "shows nothing within 3 m, not even the ground"
    assert judged(1000.0 * ground()) == f"{nothing}: millimetres instead of metres?"
    assert judged(np.full((SIZE, SIZE), np.inf, np.float32)) == nothing
    assert judged(ground()[::-1]) == "shows the ground in its upper half: is it upside down?"
    assert judged(np.full((SIZE, SIZE), 0.4, np.float32)) is None  # right before a wall
    cliff = ground()
    cliff[24:] = 2.0
    assert judged(cliff) is None
    below = ground()
    below[:12] = 0.5  # under a table
    assert judged(below) is None
