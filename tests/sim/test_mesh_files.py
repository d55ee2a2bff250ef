"""Meshes of every format: their triangles and colours, houses made of them, and misfits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import trimesh
from PIL import Image

from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import gliding_together
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.houses.gibson import Gibson
from pixelgait.sim.scenes.houses.house_from_mesh import HouseConfig, write
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.workers.process_pool import WorkerPool
from pixelgait.sim.world.mesh_maps import floor_heights
from pixelgait.sim.world.meshes import rewritten
from pixelgait.sim.world.triangles import FORMATS, TO_Z_UP, Triangles, read_triangles
from tests.conftest import Command

RED, BLUE = (255, 0, 0), (0, 0, 255)
WIDTH_M, LENGTH_M = 5.0, 6.0
Y_UP = (".glb", ".gltf", ".dae")


def box(
    size: tuple[float, ...], middle: tuple[float, ...], colour: tuple[int, ...]
) -> trimesh.Trimesh:
    made = trimesh.creation.box(size)
    made.apply_translation(middle)
    material = trimesh.visual.material.PBRMaterial(baseColorFactor=(*colour, 255))
    made.visual = trimesh.visual.TextureVisuals(material=material)
    return made


def room() -> list[trimesh.Trimesh]:
    """A red floor, its top at 0, and four blue walls on it; its middle is at x = 1, y = 2."""
    floor = box((LENGTH_M, WIDTH_M, 0.1), (1, 2, -0.05), RED)
    long = [box((LENGTH_M, 0.1, 2.5), (1, 2 + side * WIDTH_M / 2, 1.25), BLUE) for side in (-1, 1)]
    short = [box((0.1, WIDTH_M, 2.5), (1 + side * LENGTH_M / 2, 2, 1.25), BLUE) for side in (-1, 1)]
    return [floor, *long, *short]


def save(path: Path, parts: list[trimesh.Trimesh], up: str = "z", unit_m: float = 1.0) -> Path:
    """Write a mesh in a frame of its own."""
    turn = np.eye(4)
    turn[:3, :3] = TO_Z_UP[up].T / unit_m
    parts = [part.copy() for part in parts]
    for part in parts:
        part.apply_transform(turn)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gltf":
        files = trimesh.exchange.gltf.export_gltf(trimesh.Scene(parts), include_normals=False)
        for name, data in files.items():
            (path.parent / name.replace("model.gltf", path.name)).write_bytes(data)
    elif path.suffix == ".glb":
        data = trimesh.exchange.gltf.export_glb(trimesh.Scene(parts), include_normals=False)
        path.write_bytes(data)
    elif path.suffix == ".obj":
        write_obj(path, parts)
    elif path.suffix == ".dae":
        path.write_bytes(trimesh.exchange.dae.export_collada(parts).replace(b"Z_UP", b"Y_UP"))
    else:
        colours = [part.visual.material.baseColorFactor for part in parts]
        for part, colour in zip(parts, colours, strict=True):
            part.visual = trimesh.visual.ColorVisuals(part, face_colors=np.tile(colour, (12, 1)))
        joined = trimesh.util.concatenate(parts)
        path.write_bytes(joined.export(file_type=path.suffix[1:]))
    return path


def write_obj(path: Path, parts: list[trimesh.Trimesh]) -> None:
    """An OBJ file with a material for each part."""
    lines, materials, count = [f"mtllib {path.stem}.mtl"], [], 1
    for i, part in enumerate(parts):
        red, green, blue = part.visual.material.baseColorFactor[:3] / 255
        materials.append(f"newmtl m{i}\nKd {red} {green} {blue}\n")
        lines += [f"v {x} {y} {z}" for x, y, z in part.vertices]
        lines += [f"usemtl m{i}", *(f"f {a} {b} {c}" for a, b, c in part.faces + count)]
        count += len(part.vertices)
    path.write_text("\n".join(lines) + "\n")
    path.with_suffix(".mtl").write_text("".join(materials))


def colour_at(triangles: Triangles, place: tuple[float, float, float]) -> list[int]:
    """The picture's colour at the triangle whose middle is nearest to a place."""
    away = np.linalg.norm(triangles.corners.mean(axis=1) - place, axis=1)
    u, v = triangles.uv[away.argmin()].mean(axis=0)
    rows, columns = triangles.picture.shape[:2]
    return triangles.picture[int((1 - v) * rows), int(u * columns)].tolist()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_mesh_of_every_format_becomes_a_house(tmp_path: Path, suffix: str) -> None:
    up = "y" if suffix in Y_UP else "z"
    mesh = save(tmp_path / f"room{suffix}", room(), up)
    triangles = read_triangles(mesh)
    np.testing.assert_allclose(triangles.corners.min((0, 1)), (-2.05, -0.55, -0.1), atol=1e-4)
    np.testing.assert_allclose(triangles.corners.max((0, 1)), (4.05, 4.55, 2.5), atol=1e-4)
    if suffix != ".stl":  # which has no colours
        assert colour_at(triangles, (1, 2, 0)) == list(RED)
        assert colour_at(triangles, (1, 4.5, 1.25)) == list(BLUE)
    write(HouseConfig(mesh, out=tmp_path / "house"))
    house = make_scene(f"gibson:{tmp_path / 'house'}")
    assert isinstance(house, Gibson)
    assert (tmp_path / "house" / "floors.txt").read_text() == "0\n"
    image = cv2.imread(str(tmp_path / "house" / "floor_trav_0.png"), cv2.IMREAD_GRAYSCALE)
    inside_m2 = (WIDTH_M - 0.1) * (LENGTH_M - 0.1)
    assert (image > 0).sum() / 1e4 == pytest.approx(inside_m2, rel=0.02)
    assert image[len(image) // 2, len(image) // 2] == 255


def test_every_simulator_shows_a_folder_whose_mesh_has_another_format(tmp_path: Path) -> None:
    mesh = save(tmp_path / "room.obj", room())
    write(HouseConfig(mesh, out=tmp_path / "house"))
    (tmp_path / "house" / "mesh_z_up.obj").unlink()
    middle = np.eye(4)
    middle[:2, 3] = -1, -2
    save(tmp_path / "house" / "mesh_z_up.glb", [p.apply_transform(middle) for p in room()], "y")
    images = []
    for name in BODIES:
        body = make_body(name, A1, make_scene(f"gibson:{tmp_path / 'house'}"))
        body.reset(0)
        body.place((0.0, 0.0, 0.4), (0.0, 0.0, 0.0, 1.0))
        images.append(body.render().pixels.astype(int))
        body.close()
    for image in images:
        assert image[2, 16].argmax() == 2  # the wall
        assert image[-2, 16].argmax() == 0  # the floor
    assert (np.abs(images[0] - images[1]).max(axis=2) <= 8).mean() > 0.97


def test_textures_and_colours_share_one_picture_and_repeat(tmp_path: Path) -> None:
    """A 2 m floor shows two tiles of a texture each way, half green, half yellow."""
    tile = np.zeros((8, 8, 3), np.uint8)
    tile[:, :4], tile[:, 4:] = (0, 255, 0), (255, 255, 0)
    floor = trimesh.Trimesh(
        [(0, 0, 0), (2, 0, 0), (2, 2, 0), (0, 2, 0)], [(0, 1, 2), (0, 2, 3)], process=False
    )
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.fromarray(tile))
    uv = [(-1, 0), (1, 0), (1, 2), (-1, 2)]
    floor.visual = trimesh.visual.TextureVisuals(uv=uv, material=material)
    picture = Image.fromarray(np.full((4, 4, 3), (255, 0, 255), np.uint8))
    other = floor.copy()
    other.apply_translation((5, 0, 0))
    other.visual = trimesh.visual.TextureVisuals(
        uv=uv, material=trimesh.visual.material.PBRMaterial(baseColorTexture=picture)
    )
    mesh = save(tmp_path / "m.glb", [floor, other, box((1, 1, 1), (0, 9, 0), BLUE)], "y")
    triangles = read_triangles(mesh)
    assert triangles.uv.min() >= 0.0
    assert triangles.uv.max() <= 1.0
    areas = np.linalg.norm(
        np.cross(*(triangles.corners[:, i] - triangles.corners[:, 0] for i in (1, 2))), axis=1
    )
    assert areas.sum() / 2 == pytest.approx(4 + 4 + 6)
    for x, colour in ((0.25, (0, 255, 0)), (0.75, (255, 255, 0)), (1.25, (0, 255, 0))):
        assert interpolated(triangles, x, 0.6) == list(colour)
    assert interpolated(triangles, 6.0, 0.6) == [255, 0, 255]
    assert colour_at(triangles, (0, 8.5, 0)) == list(BLUE)


def interpolated(triangles: Triangles, x: float, y: float) -> list[int]:
    """The colour at a place of what is level at z = 0."""
    for corners, uv in zip(triangles.corners, triangles.uv, strict=True):
        system = np.vstack((corners[:, :2].T, np.ones(3)))
        if np.abs(corners[:, 2]).max() < 1e-6 and abs(np.linalg.det(system)) > 1e-9:
            weights = np.linalg.solve(system, (x, y, 1.0))
            if weights.min() >= -1e-9:
                u, v = weights @ uv
                rows, columns = triangles.picture.shape[:2]
                return triangles.picture[int((1 - v) * rows), int(u * columns)].tolist()
    raise AssertionError((x, y))


@pytest.mark.parametrize(
    ("up", "unit_m", "options"),
    [("z", 0.01, "--scale 0.01"), ("y", 1.0, "--up y"), ("y", 0.001, "--scale 0.001 --up y")],
)
def test_a_mesh_that_does_not_fit_its_map_is_refused_with_the_remedy(
    house: Path, tmp_path: Path, up: str, unit_m: float, options: str
) -> None:
    shutil.copytree(house, tmp_path / "wrong")
    mesh = tmp_path / "wrong" / "mesh_z_up.obj"
    lines = mesh.read_text().splitlines()
    points = np.array([line.split()[1:] for line in lines if line.startswith("v ")], float)
    turned = points @ TO_Z_UP[up] / unit_m
    rest = [line for line in lines if not line.startswith("v ")]
    mesh.write_text("\n".join([*(f"v {x} {y} {z}" for x, y, z in turned), *rest]))
    with pytest.raises(UserError, match=r"mesh_z_up\.obj does not fit") as caught:
        make_scene(f"gibson:{tmp_path / 'wrong'}")
    assert f"{mesh} {options} --out HOUSE" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_makes_a_house_or_names_units_and_axis(
    tmp_path: Path, command: Command
) -> None:
    tall = save(tmp_path / "tall.stl", room(), "y", 0.01)
    done = command("pixelgait-house", str(tall), "--out", str(tmp_path / "h"))
    assert done.returncode == 1
    assert "--up y, or --up z if that is right" in done.stderr
    for options, words in (
        ((tall, "--up", "y"), "is no building: in centimetres? --scale 0.01"),
        ((tall, "--up", "y", "--scale", "10"), "is no building, with --scale 10"),
        ((tmp_path / "room.fbx",), "is no mesh that can be read, expected one of .obj"),
        ((save_text(tmp_path / "bad.glb"),), "bad.glb: no mesh that can be read"),
        ((tmp_path / "none.ply",), "none.ply"),
    ):
        with pytest.raises((UserError, OSError)) as caught:
            write(config(*options, out=tmp_path / "h"))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    write(config(tall, "--up", "y", "--scale", "0.01", out=tmp_path / "h"))
    with pytest.raises(UserError, match=r"pixelgait-house .*tall\.stl --out HOUSE"):
        make_scene(f"gibson:{tall}")
    assert isinstance(make_scene(f"gibson:{tmp_path / 'h'}"), Gibson)


def save_text(path: Path) -> Path:
    path.write_text("no mesh\n")
    return path


def config(mesh: Path, *options: object, out: Path) -> HouseConfig:
    given = dict(zip(options[::2], options[1::2], strict=True))
    scale = given.get("--scale")
    return HouseConfig(mesh, out, None if scale is None else float(str(scale)), given.get("--up"))  # type: ignore[arg-type]


def test_a_worker_removes_its_temporary_meshes(tmp_path: Path) -> None:
    pool = WorkerPool(1, print, "")
    (mesh,) = pool.imap(rewritten, [save(tmp_path / "room.glb", room(), up="y")], "")
    assert mesh[0].is_file()
    pool.close()
    assert not mesh[0].parent.parent.exists()


def test_robots_glide_alone_in_a_house_of_a_mesh(tmp_path: Path) -> None:
    """Each would have a copy of the mesh; elsewhere twenty decide together."""
    write(HouseConfig(mesh=save(tmp_path / "room.glb", room(), up="y"), out=tmp_path / "room"))
    house = Plan(task="imitate", steps=100, scene=f"gibson:{tmp_path / 'room'}")
    assert gliding_together(house, range(3)) == [range(1), range(1, 2), range(2, 3)]
    course = replace(house, scene="obstacle-course")
    assert gliding_together(course, range(24)) == [range(20), range(20, 24)]


def test_floors_are_found_without_ceilings_roofs_and_tables() -> None:
    """Two storeys with a slab between them and a flat roof, a table in the lower one."""
    slabs = [box((5, 5, 0.2), (0, 0, z - 0.1), RED) for z in (0.0, 2.8, 5.6)]
    walls = [box((0.1, 5, 5.4), (side * 2.5, 0, 2.7), BLUE) for side in (-1, 1)]
    parts = [*slabs, *walls, box((1.2, 2, 0.05), (0, 0, 0.75), BLUE)]
    corners = np.concatenate([part.vertices[part.faces] for part in parts])
    assert floor_heights(corners) == [0.0, 2.8]


def test_the_area_around_a_place_is_kept(tmp_path: Path) -> None:
    parts = [*room(), box((12, 12, 0.1), (1, 2, -0.06), RED)]  # ground around the room
    mesh = save(tmp_path / "room.ply", parts)
    for around, area_m2 in ((None, 144 - 6.1 * 5.1 + 5.9 * 4.9), ((1.0, 2.0), 5.9 * 4.9)):
        write(HouseConfig(mesh, tmp_path / "h", around=around))
        image = cv2.imread(str(tmp_path / "h" / "floor_trav_0.png"), cv2.IMREAD_GRAYSCALE)
        assert (image > 0).sum() / 1e4 == pytest.approx(area_m2, rel=0.02)
