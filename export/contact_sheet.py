"""docs/scenes.png: every scene at three difficulties, from behind and as the robot sees it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import A1
from pixelgait.sim.film import HEIGHT, INSET, WIDTH, Studio
from pixelgait.sim.pybullet_body import PyBulletBody
from pixelgait.sim.scene_list import SCENES, make_scene

DIFFICULTIES = (0.0, 0.5, 1.0)
SEED = 10_000
SCALE = 0.75  # of a view on the sheet
LABEL_PX = 22


def write_contact_sheet(path: Path) -> None:
    """One row per scene, one column per difficulty."""
    rows = [np.hstack([_view(name, d) for d in DIFFICULTIES]) for name in SCENES]
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.vstack(rows)[:, :, ::-1])


def _view(name: str, difficulty: float) -> NDArray[np.uint8]:
    """One scene with the robot at its start, labelled."""
    scene = make_scene(name, difficulty)
    body = PyBulletBody(A1, scene)
    reading = body.reset(SEED)
    seen = np.kron(body.render().pixels, np.ones((INSET, INSET, 1), dtype=np.uint8))
    position, orientation = map(np.array, body.pose())
    studio = Studio(A1, scene, SEED)
    frame = studio.frame(position, orientation, reading.joint_angles, seen)
    studio.close()
    body.close()
    size = (round(WIDTH * SCALE), round(HEIGHT * SCALE))
    small = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
    labelled = cv2.copyMakeBorder(
        small, LABEL_PX, 2, 2, 2, cv2.BORDER_CONSTANT, value=(255, 255, 255)
    )
    text = f"{name}, difficulty {difficulty:g}"
    cv2.putText(labelled, text, (4, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
    return np.asarray(labelled, dtype=np.uint8)


if __name__ == "__main__":
    write_contact_sheet(Path("docs/scenes.png"))
