"""Picture of a local map: ground in grey, obstacles in red, what is unseen in blue."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.mapping.local_map import AHEAD_M, ASIDE_M, CELL_M, KEPT_S, Surroundings

LOWEST_M, HIGHEST_M = -0.2, 0.3  # of the ground, black and white
BODY_M = (0.25, 0.15)  # half of the robot's length and width, about
UNSEEN, OBSTACLE, ROBOT = (30, 30, 70), (255, 60, 40), (80, 220, 80)


def drawn(around: Surroundings, scale: int = 3) -> NDArray[np.uint8]:
    """The map (64 scale, 64 scale, 3) from above, ahead up; old parts are paler."""
    share = np.clip((around.ground - LOWEST_M) / (HIGHEST_M - LOWEST_M), 0.0, 1.0)
    grey = np.nan_to_num(40.0 + 200.0 * share, nan=0.0)
    pixels = np.repeat(grey[..., None], 3, axis=2)
    obstacles = around.obstacles()
    high = np.clip(around.top[obstacles] / HIGHEST_M, 0.3, 1.0)
    pixels[obstacles] = high[:, None] * np.array(OBSTACLE)
    seen = ~np.isnan(around.age_s)
    fade = np.where(seen, 0.5 * np.nan_to_num(around.age_s) / KEPT_S, 1.0)[..., None]
    pixels = (1.0 - fade) * pixels + fade * np.array(UNSEEN)
    large = np.kron(pixels.round().astype(np.uint8), np.ones((scale, scale, 1), np.uint8))
    row, column = AHEAD_M / CELL_M * scale, ASIDE_M / CELL_M * scale
    half = np.array(BODY_M) / CELL_M * scale
    first = (round(column - half[1]), round(row - half[0]))
    cv2.rectangle(large, first, (round(column + half[1]), round(row + half[0])), ROBOT, 1)
    return large
