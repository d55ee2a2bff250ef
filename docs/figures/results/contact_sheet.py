"""Contact sheets: docs/scenes.png shows every scene at three difficulties, with the camera image.

Then houses in Gibson's layout, written at each difficulty.
docs/appearance.png: scenes with appearances of training and test set, and every kind of pattern.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.files import write_atomic
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.rendering.materials import PATTERNS, draw_pattern
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.houses.write_house import write_rooms
from pixelgait.sim.scenes.registry import SCENES, make_scene
from pixelgait.sim.viewing.video import HEIGHT, INSET, WIDTH, SceneRenderer
from pixelgait.sim.world.appearance import AppearanceSet
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED

DIFFICULTIES = (0.0, 0.5, 1.0)
SEED = FIRST_EVALUATION_SEED
WITH_APPEARANCE = ("obstacle-course", "clutter", "rooms")  # shown with appearances
APPEARANCE_SEEDS = range(SEED, SEED + 4)
PATTERN_PX = 100
SCALE = 0.55  # of a view on the sheet
LABEL_PX = 22


def write_contact_sheet(path: Path) -> None:
    """One row per scene, one column per difficulty; the last row shows written houses."""
    flat = view(FlatGround.name, make_scene(FlatGround.name), SEED)  # has one difficulty
    rows = [[flat, *[np.full_like(flat, 255)] * (len(DIFFICULTIES) - 1)]]
    others = [name for name in SCENES if name != FlatGround.name]
    rows += [[_at(name, d, make_scene(name, d)) for d in DIFFICULTIES] for name in others]
    rows.append([_house(d) for d in DIFFICULTIES])
    write_sheet(path, np.vstack([np.hstack(row) for row in rows]))


def _house(difficulty: float) -> NDArray[np.uint8]:
    """A generated house, written and read again."""
    with tempfile.TemporaryDirectory() as folder:
        write_rooms(Path(folder), SEED, difficulty)
        return _at("gibson:FOLDER, written", difficulty, make_scene(f"gibson:{folder}"))


def _at(label: str, difficulty: float, scene: Scene) -> NDArray[np.uint8]:
    return view(f"{label}, difficulty {difficulty:g}", scene, SEED)


def view(label: str, scene: Scene, seed: int) -> NDArray[np.uint8]:
    """A scene with the robot at its start, labelled."""
    body = PyBulletBody(A1, scene)
    reading = body.reset(seed)
    seen = np.kron(body.render().pixels, np.ones((INSET, INSET, 1), dtype=np.uint8))
    position, orientation = map(np.array, body.pose())
    renderer = SceneRenderer(A1, scene, seed)
    frame = renderer.frame(position, orientation, reading.joint_angles, seen)
    renderer.close()
    body.close()
    size = (round(WIDTH * SCALE), round(HEIGHT * SCALE))
    return labelled(np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA)), label)


def labelled(picture: NDArray[np.uint8], label: str) -> NDArray[np.uint8]:
    """A picture with a label above it and a white margin."""
    framed = cv2.copyMakeBorder(
        picture, LABEL_PX, 2, 2, 2, cv2.BORDER_CONSTANT, value=(255, 255, 255)
    )
    cv2.putText(framed, label, (4, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
    return np.asarray(framed, dtype=np.uint8)


def write_appearance_sheet(path: Path) -> None:
    """Rows of scenes, then of patterns, for both sets of appearance."""
    rows = []
    for appearance in get_args(AppearanceSet):
        for name in WITH_APPEARANCE:
            scene = make_scene(name, appearance=appearance)
            rows.append(
                np.hstack([view(f"{name}, {appearance}", scene, seed) for seed in APPEARANCE_SEEDS])
            )
        rows.append(_patterns(appearance, rows[-1].shape[1]))
    write_sheet(path, np.vstack(rows))


def write_sheet(path: Path, image: NDArray[np.uint8]) -> None:
    """Write an RGB image (H, W, 3) as PNG, atomically."""
    _, encoded = cv2.imencode(".png", image[:, :, ::-1])
    write_atomic(path, encoded.tobytes())


def _patterns(appearance: AppearanceSet, width: int) -> NDArray[np.uint8]:
    """All patterns of a set, in rows of this width."""
    rng = np.random.default_rng(0)
    tiles = []
    for pattern in PATTERNS[appearance]:
        colours = np.array(((0.30, 0.36, 0.45), (0.78, 0.74, 0.66), (0.55, 0.25, 0.18)))
        drawn = (255.0 * draw_pattern(rng, pattern, colours)).astype(np.uint8)
        large = cv2.resize(drawn[::-1], (PATTERN_PX, PATTERN_PX), interpolation=cv2.INTER_NEAREST)
        tiles.append(labelled(np.asarray(large, np.uint8), pattern.__name__))
    each = width // tiles[0].shape[1]
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % each)
    rows = [np.hstack(tiles[i : i + each]) for i in range(0, len(tiles), each)]
    rest = width - rows[0].shape[1]
    return np.pad(np.vstack(rows), ((0, 0), (0, rest), (0, 0)), constant_values=255)


if __name__ == "__main__":
    write_contact_sheet(Path("docs/scenes.png"))
    write_appearance_sheet(Path("docs/appearance.png"))
