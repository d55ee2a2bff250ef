"""Image checks: pictures that contradict the turn of the body, depth without the ground below.

A picture and the gyroscope see the same rotation. A mirrored picture, or one that is upside down,
moves the other way; a frozen one does not move, whatever its noise.
"""

from __future__ import annotations

import math
from collections import deque

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array, CameraMount, TrainedMounts

Picture = NDArray[np.float32]

KEPT_S = 1.0  # of the gyroscope's readings; longer than an image's age
BLUR_PIXELS = 1.5  # of pictures: their gradients must be longer than their motion
PAIR_S = 0.02, 0.25  # between two compared pictures; faster cameras are not compared more often
MOST_PIXELS = 3.0  # motion between two pictures that gradients can show
# Stamps may be late by so much, and are then compared with an earlier turn: a trot's yaw swings at
# 2.6 Hz, and a delay alone could reverse its sign.
STAMP_DELAYS_S = np.array((0.0, 0.05, 0.1, 0.15))
# Mirrored: over about the last radian of turning the picture moves by more than this share of the
# turn the wrong way, three times as well explained as by any delay, ten times beyond noise, and so
# in 40 pictures in a row. 252 walks of shipped policies raised no alarm: docs/robot/camera.md.
MEMORY_RAD, LEAST_TURN_RAD = 1.0, 0.4
WRONG_WAY, CLEARER, SIGNIFICANT = 0.4, 3.0, 10.0
WRONG_PAIRS = 40  # in a row: 1.3 s
# Frozen: the motion's energy is below this share of the turn's. Walks had at least 0.69, frozen
# pictures with noise 0.02 at most.
STILL_SHARE, MEMORY_S = 0.1, 0.5
LEAST_PAIRS = 8  # that would show the turn: a first step decides nothing, nor a repeated picture
LEAST_ENERGY_RAD2 = 0.0013  # of the turn within the memory: 0.28 rad/s
LEAST_SHOWN = 1e-6  # sum of squares: what is all alike, as a wall before the lens, shows less
CHANGED = 10.0  # times the usual difference of two pictures: no longer the frozen one
MIRRORED = "the image moves against the turn of the body: is it mirrored or upside down?"
FROZEN = "the image is frozen, but for noise, while the body turns"

# Depth, assumptions. Near: nearer than twice the ground at the image's lower edge.
LEAST_NEAR = 0.005  # share of pixels within the range that an image of the ground has, at least
EDGE = 8  # share of rows at the upper and lower edge
MOST, LIKE = 0.8, (0.6, 1.6)  # share of an edge's pixels, of the ground's inverse depth
TURNED_IMAGES, MOST_TURNED = 5, 30  # images in a row that decide, and that are remembered
UPSIDE_DOWN = "shows the ground in its upper half: is it upside down?"


def blurred(picture: Picture) -> Picture:
    """A picture (H, W), smooth, its holes (NaN) filled from beside."""
    known = ~np.isnan(picture)
    if known.all():
        return np.asarray(cv2.GaussianBlur(picture, (0, 0), BLUR_PIXELS))
    share = cv2.GaussianBlur(known.astype(np.float32), (0, 0), BLUR_PIXELS)
    values = cv2.GaussianBlur(np.where(known, picture, np.float32(0.0)), (0, 0), BLUR_PIXELS)
    return np.asarray(values / np.maximum(share, np.float32(0.1)))


class ImageMotionCheck:
    """Compares the motion of a camera's pictures (H, W) with the gyroscope, one after the other.

    A verdict stays until the pictures contradict it.
    """

    def __init__(self, mount: CameraMount, height: int) -> None:
        self._cos, self._sin = math.cos(mount.pitch_down_rad), math.sin(mount.pitch_down_rad)
        self._focal = height / 2.0 / math.tan(mount.vertical_fov_rad / 2.0)  # [pixels]
        self.forget()

    def forget(self) -> None:
        """Forget all readings, pictures and verdicts."""
        self._turns: deque[tuple[float, float, float]] = deque()  # time, yaw, pitch of the camera
        self._last: tuple[float, Picture, Array, float] | None = None  # stamp, yaws, pitch
        self._agreed, self._texture = (np.zeros(STAMP_DELAYS_S.size) for _ in range(2))
        self._turned_rad = self._noise = 0.0
        self._turn_energy = self._motion_energy = 0.0
        self._pairs = 0  # compared pictures that would show the turn
        self._wrong = 0  # those in a row that moved the wrong way
        self._mirrored = self._frozen = False

    def turned(self, time_s: float, rates: Array) -> None:
        """Add the angular velocity (3,) of the base [rad/s] at a time [s]; finite ones alone."""
        if not np.isfinite(rates).all():  # as a limp robot's may be
            return
        turns = self._turns
        last_s, yaw, pitch = turns[-1] if turns else (time_s, 0.0, 0.0)
        step_s = time_s - last_s
        if step_s < 0.0 or step_s > KEPT_S:  # the clock was set
            turns.clear()
        elif step_s == 0.0 and turns:
            return
        x, y, z = rates.tolist()
        yaw_rate = self._cos * z + self._sin * x
        turns.append((time_s, yaw + step_s * yaw_rate, pitch + step_s * y))
        if turns[0][0] < time_s - KEPT_S:
            turns.popleft()

    def judge(self, picture: Picture, time_s: float) -> str | None:
        """Warning about a camera whose newest picture (H, W) has this stamp [s], or None."""
        if len(self._turns) > 1 and (self._last is None or time_s - self._last[0] > PAIR_S[0]):
            times, yaws, pitches = zip(*self._turns, strict=True)
            yaw = np.interp(time_s - STAMP_DELAYS_S, times, yaws)
            pitch = float(np.interp(time_s, times, pitches))
            last, self._last = self._last, (time_s, blurred(picture), yaw, pitch)
            if last is not None and time_s - last[0] < PAIR_S[1]:
                self._compare(last, self._last)
        if self._mirrored:
            return MIRRORED
        return FROZEN if self._frozen else None

    def _compare(
        self,
        before: tuple[float, Picture, Array, float],
        now: tuple[float, Picture, Array, float],
    ) -> None:
        """Update both verdicts with two pictures."""
        right = self._focal * (now[2] - before[2])  # expected motion [pixels], by delay
        down = -self._focal * (now[3] - before[3])
        if max(np.abs(right).max(), abs(down)) > MOST_PIXELS:
            return
        products, count = _products(before[1], now[1])
        (seen_xx, seen_xd), (_, seen_dd) = _without(products, [0, 3], [1, 2])
        noise = max(seen_dd - seen_xd * seen_xd / max(seen_xx, 1e-12), 0.0) / count
        changed = 0.0 < CHANGED * self._noise < noise
        self._noise = noise if self._noise == 0.0 else 0.9 * self._noise + 0.1 * noise
        self._find_mirrored(right, seen_xx, seen_xd)
        # With late stamps the gyroscope turns first: the latest turn is compared.
        self._find_frozen(float(right[-1]), down, products, now[0] - before[0], changed)

    def _find_mirrored(self, right: Array, seen_xx: float, seen_xd: float) -> None:
        """Regress the motion that the pictures show on the expected one, by delay of the stamps."""
        turn_rad = float(np.abs(right).mean()) / self._focal
        keep = math.exp(-turn_rad / MEMORY_RAD)
        self._agreed = keep * self._agreed - right * seen_xd
        self._texture = keep * self._texture + right * right * seen_xx
        self._turned_rad = keep * self._turned_rad + turn_rad
        shares = self._agreed / np.maximum(self._texture, 1e-9)
        worst = int(np.argmin(shares))
        share, best = float(shares[worst]), max(0.0, float(shares.max()))
        noise = math.sqrt(max(float(self._texture[worst]) * self._noise, 1e-12))
        clear = float(self._agreed[worst]) < -SIGNIFICANT * noise
        wrong = self._turned_rad > LEAST_TURN_RAD and share < -max(WRONG_WAY, CLEARER * best)
        self._wrong = self._wrong + 1 if wrong and clear else 0
        self._mirrored = (self._mirrored or self._wrong > WRONG_PAIRS) and best < -share

    def _find_frozen(
        self, right: float, down: float, products: Array, step_s: float, changed: bool
    ) -> None:
        """Compare the energies of the expected motion and of that which the pictures show.

        A turn counts if it would change the picture by more than all that no motion explains. A
        plain wall hardly shows it, and noise hides the little that it does.
        """
        table = _without(products, [0, 1, 3], [2])
        gradients = table[:2, :2] + np.diag(1e-4 * np.diag(table[:2, :2]) + 1e-12)
        motion = np.linalg.solve(gradients, -table[:2, 2])
        turn = np.array((right, down))
        unexplained = table[2, 2] - motion @ gradients @ motion
        shows = turn @ gradients @ turn > max(unexplained, LEAST_SHOWN)
        self._pairs += shows
        keep = math.exp(-step_s / MEMORY_S)
        self._turn_energy = keep * self._turn_energy + shows * float(turn @ turn)
        self._motion_energy = keep * self._motion_energy + float(motion @ motion)
        if changed:
            self._frozen, self._turn_energy, self._motion_energy = False, 0.0, 0.0
            self._pairs = 0
        elif self._pairs > LEAST_PAIRS and self._turn_energy > LEAST_ENERGY_RAD2 * self._focal**2:
            self._frozen = self._motion_energy < STILL_SHARE * self._turn_energy


def _products(before: Picture, now: Picture) -> tuple[Array, int]:
    """Scalar products (4, 4) of two pictures' gradients right and down, mean and difference.

    Without their means: brightness may change. Also the number of pixels.
    """
    mean = (before + now) * np.float32(0.5)
    rows = np.stack(
        (
            (mean[1:-1, 2:] - mean[1:-1, :-2]).ravel() * np.float32(0.5),
            (mean[2:, 1:-1] - mean[:-2, 1:-1]).ravel() * np.float32(0.5),
            mean[1:-1, 1:-1].ravel(),
            (now - before)[1:-1, 1:-1].ravel(),
        )
    ).astype(np.float64)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows @ rows.T, rows.shape[1]


def _without(products: Array, kept: list[int], removed: list[int]) -> Array:
    """Products of the kept rows after the part that the removed ones explain is taken away."""
    own, cross = products[np.ix_(kept, kept)], products[np.ix_(kept, removed)]
    other = products[np.ix_(removed, removed)]
    other = other + np.diag(1e-6 * np.diag(other) + 1e-12)
    return np.asarray(own - cross @ np.linalg.solve(other, cross.T))


class DepthCheck:
    """Checks depth images (H, W) [m] for the ground that the robot stands on.

    Depth in other units, or upside down, lacks it. Only for cameras that look at it.
    """

    def __init__(self, mounts: TrainedMounts, stand_height_m: float, range_m: float) -> None:
        self._range_m = range_m  # that the policy sees
        # The least and most inverse depth [1/m] that level ground may have.
        self._ground = ground_per_m(mounts, stand_height_m)
        self._looks_down = self._ground[0] > 2.0 / range_m
        self.forget()

    def forget(self) -> None:
        """Forget all images."""
        self._turned = 0  # images that are upside down, less those that are not

    def judge(self, depth: Picture) -> str | None:
        """Warning about an image (H, W) [m], NaN where not measured, or None."""
        if not self._looks_down:
            return None
        measured = ~np.isnan(depth)
        if np.count_nonzero(depth < self._range_m) < LEAST_NEAR * np.count_nonzero(measured):
            return f"shows nothing within {self._range_m:g} m, not even the ground" + _unit(depth)
        rows = max(1, depth.shape[0] // EDGE)
        with np.errstate(divide="ignore"):
            upper, lower = 1.0 / depth[:rows], 1.0 / depth[-rows:]
        if np.count_nonzero(lower >= 0.5 * self._ground[0]) < (1.0 - MOST) * lower.size:
            least, most = LIKE[0] * self._ground[0], LIKE[1] * self._ground[1]
            if np.count_nonzero((upper > least) & (upper < most)) > MOST * upper.size:
                self._turned = min(self._turned + 1, MOST_TURNED)
        else:
            self._turned = max(self._turned - 1, 0)
        return UPSIDE_DOWN if self._turned >= TURNED_IMAGES else None


def ground_per_m(mounts: TrainedMounts, stand_height_m: float) -> tuple[float, float]:
    """Least and most inverse depth [1/m] of level ground at the lower edge of the image, while the
    robot stands, of the mounts.
    """
    half = math.tan(mounts.usual.vertical_fov_rad / 2.0)
    inverses = [
        (math.sin(pitch) + half * math.cos(pitch)) / (stand_height_m + up_m)
        for pitch in mounts.pitch_down_rad
        for up_m in mounts.up_m
    ]
    return min(inverses), max(inverses)


def _unit(depth: Picture) -> str:
    """A hint, if millimetres as metres would explain a depth beyond any camera's range."""
    far = np.nanmedian(depth) > 100.0 and np.isfinite(np.nanmedian(depth))
    return ": millimetres instead of metres?" if far else ""
