"""Houses in Gibson's layout: generated ones, and a foreign mesh."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pybullet_data
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.houses.gibson import LEVEL_M, Gibson
from pixelgait.sim.scenes.houses.write_house import write_rooms
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.world.traversability import PIXEL_M
from tests.helpers import held_still

MESH = 0  # PyBullet's number of the first body made


@pytest.fixture(scope="module")
def body(house: Path) -> Iterator[PyBulletBody]:
    body = PyBulletBody(A1, make_scene(f"gibson:{house}"))
    yield body
    body.close()


def heights(body: PyBulletBody, points: np.ndarray, top: float) -> np.ndarray:
    """Heights (n,) [m] that rays from above hit at points (n, 2)."""
    body.place((0.0, 0.0, 90.0), (0.0, 0.0, 0.0, 1.0))
    found: list[float] = []
    for some in np.array_split(points, len(points) // 2000 + 1):
        starts = np.column_stack((some, np.full(len(some), top)))
        ends = starts - (0.0, 0.0, top + 1.0)
        hits = pybullet.rayTestBatch(starts.tolist(), ends.tolist(), physicsClientId=body.client)
        found += [hit[3][2] if hit[0] >= 0 else np.nan for hit in hits]
    return np.array(found)


def test_map_agrees_with_the_mesh(house: Path, body: PyBulletBody) -> None:
    body.reset(0)
    image = cv2.imread(str(house / "floor_trav_0.png"), cv2.IMREAD_GRAYSCALE)
    sure = cv2.erode(image, np.ones((5, 5))), cv2.erode(255 - image, np.ones((5, 5)))
    counts = []
    for mask, free in zip(sure, (True, False), strict=True):
        rows, columns = (mask == 255).nonzero()
        chosen = np.random.default_rng(0).choice(len(rows), 1500, replace=False)
        pixels = np.column_stack((columns, rows))[chosen] + 0.5
        found = heights(body, (pixels - len(image) / 2) * PIXEL_M, top=5.0)
        ground = np.abs(found - LEVEL_M) < 1e-3
        inside = np.abs(pixels - len(image) / 2).max(axis=1) * PIXEL_M < 3.5  # not around the house
        counts.append((ground == free)[inside].mean())
    assert counts[0] > 0.99  # but for the post
    assert counts[1] == 1.0


def test_robots_stand_at_the_start_and_a_ball_fits_through_to_the_goal(body: PyBulletBody) -> None:
    scene = body.scene
    assert isinstance(scene, Gibson)
    client = pybullet.connect(pybullet.DIRECT)
    PyBulletScene(scene, client)
    ball = pybullet.createMultiBody(
        1.0,
        pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.2, physicsClientId=client),
        physicsClientId=client,
    )

    def touches(x: float, y: float) -> bool:
        pybullet.resetBasePositionAndOrientation(
            ball, (x, y, 0.3), (0, 0, 0, 1), physicsClientId=client
        )
        return bool(pybullet.getClosestPoints(ball, MESH, 0.0, physicsClientId=client))

    for seed in range(4):
        path = held_still(body, seed, 30)
        assert np.abs(path[-1, :2] - path[0, :2]).max() < 0.05
        assert not pybullet.getContactPoints(body.robot, MESH, physicsClientId=body.client)
        way = scene.map.path(scene.distances, scene.start)
        assert len(way) > 20
        assert not any(touches(*scene.map.place(cell)) for cell in way)
    blocked = np.argwhere(~scene.map.free)[::7]
    assert 0.1 < np.mean([touches(*scene.map.place((r, c))) for r, c in blocked]) < 0.9
    pybullet.disconnect(physicsClientId=client)


def test_house_renders_like_rooms(body: PyBulletBody) -> None:
    body.reset(0)
    colours = body.render().pixels.reshape(-1, 3).astype(int)
    assert len(np.unique(colours, axis=0)) > 200  # its texture
    assert (colours[:, 0] > colours[:, 2]).mean() > 0.8  # bricks and planks


def test_written_house_depends_on_the_seed_alone(tmp_path: Path) -> None:
    meshes = []
    for i, seed in enumerate((0, 1, 0)):
        write_rooms(tmp_path / str(i), seed, 0.5)
        meshes.append((tmp_path / str(i) / "mesh_z_up.obj").read_bytes())
    assert meshes[0] == meshes[2] != meshes[1]


def test_foreign_mesh_can_be_walked(tmp_path: Path) -> None:
    """A monastery in PyBullet's own data, y up, with a court 1.7 m above the ground."""
    source = (Path(pybullet_data.getDataPath()) / "samurai_monastry.obj").read_text().splitlines()
    x, y, z = np.array([line.split()[1:] for line in source if line.startswith("v ")], float).T
    points = np.column_stack((x - 16.0, 8.0 - z, y))
    reach = 12.0  # triangles wholly to one side of the court are left out
    sides = [
        points[:, 0] < reach,
        points[:, 0] > -reach,
        points[:, 1] < reach,
        points[:, 1] > -reach,
    ]
    sides = np.column_stack(sides)
    lines = [f"v {x:.4f} {y:.4f} {z:.4f}" for x, y, z in points.tolist()]
    for line in source:
        corners = [corner.split("/")[0] for corner in line.split()[1:]] if line[:2] == "f " else []
        if corners and sides[[int(corner) - 1 for corner in corners]].any(axis=0).all():
            lines.append(f"f {' '.join(corners)}")
    (tmp_path / "mesh_z_up.obj").write_text("\n".join(lines))
    (tmp_path / "floors.txt").write_text("1.7\n")
    side = np.arange(-8.0, 8.0, 0.2) + 0.1
    y, x = np.meshgrid(side, side, indexing="ij")
    image = np.full((1600, 1600), 255, dtype=np.uint8)
    cv2.imwrite(str(tmp_path / "floor_trav_0.png"), image)
    body = PyBulletBody(A1, make_scene(f"gibson:{tmp_path}"))
    found = heights(body, np.column_stack((x.ravel(), y.ravel())), top=30.0).reshape(x.shape)
    body.close()
    walkable = np.where(np.abs(found - 1.7) < 0.05, 255, 0).astype(np.uint8)
    assert 0.2 < (walkable > 0).mean() < 1.0
    cv2.imwrite(str(tmp_path / "floor_trav_0.png"), np.kron(walkable, np.ones((20, 20), np.uint8)))
    images = []
    for name in BODIES:
        court = make_body(name, A1, make_scene(f"gibson:{tmp_path}"))
        for seed in range(3):
            path = held_still(court, seed, 50)
            assert np.abs(path[-1] - path[0])[:2].max() < 0.1
            assert path[-1, 2] == pytest.approx(1.7 + LEVEL_M + A1.stand_height_m, abs=0.05)
        court.reset(0)
        court.place((*path[0, :2], 2.0), (0.0, 0.0, 0.0, 1.0))
        images.append(court.render().pixels.astype(int))
        assert len(np.unique(images[-1].reshape(-1, 3), axis=0)) > 2
        court.close()
    assert (np.abs(images[0] - images[1]).max(axis=2) <= 8).mean() > 0.98


FAULTS = [
    ("mesh_z_up.obj", None, "mesh_z_up.obj is missing"),
    ("mesh_z_up.mtl", None, "mesh_z_up.mtl, named in mesh_z_up.obj, is missing"),
    ("texture.png", None, "texture.png, named in mesh_z_up.mtl, is missing"),
    ("floor_trav_0.png", None, "floor_trav_0.png is missing"),
    ("floors.txt", None, "floors.txt is missing"),
    ("mesh_z_up.obj", b"v 0 0 0\n", "mesh_z_up.obj has no faces"),
    ("mesh_z_up.obj", b"v 0 0 0\nf 1 1 9\n", "mesh_z_up.obj: a face with vertex 9 of 1"),
    ("mesh_z_up.obj", b"v 0 0 0\nf 0 1 1\n", "mesh_z_up.obj: a face with vertex 0"),
    ("mesh_z_up.obj", b"v 0 0 0\nf 1 -2 1\n", "mesh_z_up.obj: a face with vertex -2"),
    ("mesh_z_up.obj", b"v 0 0 0\nf 1 x 1\n", "mesh_z_up.obj: 'f 1 x 1' is not a face"),
    ("floor_trav_0.png", b"no picture", "floor_trav_0.png is not a picture"),
    ("texture.png", b"no picture", "texture.png, named in mesh_z_up.mtl, is not a picture"),
    ("floors.txt", b"ground floor\n", "could not convert string to float: 'ground floor'"),
    ("floors.txt", b"\n", "floors.txt has no height"),
    ("floors.txt", b"nan\n", "floors.txt has no height, or one that is not finite"),
    ("floors.txt", b"0.0\n3.0\n", "floor_trav_1.png is missing, floors.txt names a height"),
]


@pytest.mark.parametrize(("name", "content", "message"), FAULTS)
def test_a_broken_folder_is_named(
    house: Path, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    for path in house.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="scene gibson: ") as caught:
        make_scene(f"gibson:{tmp_path}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_maps_must_be_square_and_have_room(house: Path, tmp_path: Path) -> None:
    for path in house.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for shape, message in (
        ((90, 80), "is 80 x 90, not square"),
        ((300, 300), "nowhere on the map"),
    ):
        cv2.imwrite(str(tmp_path / "floor_trav_0.png"), np.zeros(shape, dtype=np.uint8))
        with pytest.raises(UserError, match=message):
            make_scene(f"gibson:{tmp_path}")


def test_the_command_writes_a_house(tmp_path: Path) -> None:
    module = [sys.executable, "-m", "pixelgait.sim.scenes.houses.write_house", "house"]
    results = [
        subprocess.run([*module, *options], cwd=tmp_path, capture_output=True, text=True)
        for options in (("--seed", "5"), ("--difficulty", "2"))
    ]
    printed, scene = results[0].stdout.strip().split(" --scene gibson:")
    assert printed == "walk in it: pixelgait-eval navigator"
    assert isinstance(make_scene(f"gibson:{tmp_path / scene}"), Gibson)
    assert results[1].returncode == 1
    assert results[1].stderr == "error: --difficulty is 2.0, expected 0 to 1\n"
