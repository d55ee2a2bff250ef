"""Helpers of several test files: standing robots, camera views, distances, forged contracts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import imageio.v2 as imageio
import numpy as np

from pixelgait.robot.bundle import contract_hash
from pixelgait.robot.control.controller import Decision, HighLevel
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.scenes.houses.gibson import Gibson
from pixelgait.sim.scenes.registry import SCENES
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.gliding import Glide, Look, glide_episodes
from pixelgait.sim.tasks.navigate import Forward
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.scene import Layout, Scene

EVERY_SCENE = (*SCENES, Gibson.name)
HOLD = standing(A1)
IDEAL = Sample()
ROBOT_HALF_M = 0.25  # half the width of a trotting A1


@dataclass(frozen=True, slots=True)
class Only(Randomisation):
    """Every episode's robot is this one."""

    one: Sample = IDEAL

    def sample(self, rng: np.random.Generator) -> Sample:
        return self.one


def felt_by(rng: np.random.Generator) -> Reading:
    """A random reading of joints and IMU, without an image."""
    orientation = rng.standard_normal(4)
    orientation /= np.linalg.norm(orientation)
    angles, velocities, rates = (rng.standard_normal(n) for n in (12, 12, 3))
    return Reading(0.0, angles, velocities, orientation, rates, no_image)


def no_image() -> Image:
    raise AssertionError("no image is needed")


def located(scene: str, house: Path) -> str:
    """The scene's command-line name, with a folder where it needs one."""
    return f"{scene}:{house}" if scene == Gibson.name else scene


def glide_episode(high_level: HighLevel, body: KinematicBody, task: Forward, seed: int) -> Episode:
    """The episode of one robot."""

    def decide(looks: Sequence[Look]) -> list[Decision]:
        return [high_level(look.image, look.goal, look.state) for look in looks]

    return glide_episodes(decide, [Glide(0, body, task, seed)])[0]


def held_still(body: SimulatedBody, seed: int, steps: int) -> np.ndarray:
    """The base's poses and joint angles while holding still, (steps + 1, 19)."""
    reading = body.reset(seed)
    rows = [[*body.pose()[0], *body.pose()[1], *reading.joint_angles]]
    for _ in range(steps):
        body.apply(HOLD)
        reading = body.read()
        rows.append([*body.pose()[0], *body.pose()[1], *reading.joint_angles])
        assert not fallen(body)
    return np.array(rows)


def seen(body: SimulatedBody, camera: Camera) -> np.ndarray:
    body.camera, before = camera, body.camera
    pixels = body.render().pixels
    body.camera = before
    return pixels


def clearance(scene: Scene, layout: Layout, points: np.ndarray) -> np.ndarray:
    """Distance [m] of points (n, 2) to the nearest movable box above ground, (n,)."""
    nearest = np.full(len(points), np.inf)
    for box, pose in zip(scene.movable, layout.movable, strict=True):
        if pose.z > 0.0:
            away = points - (pose.x, pose.y)
            cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
            local = np.abs(away @ ((cos, -sin), (sin, cos)))
            outside = np.maximum(local - box.half_m[:2], 0.0)
            nearest = np.minimum(nearest, np.hypot(*outside.T))
    return nearest


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def change_contract(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit a contract the way a careful forger would: with a hash that fits again."""
    path = folder / "contract.json"
    contract = json.loads(path.read_text())
    edit(contract)
    if "sha256" in contract:
        contract["sha256"] = contract_hash(contract)
    path.write_text(json.dumps(contract))


def played(film: Path) -> list[np.ndarray]:
    """The frames of a film (H, W, 3), in which something has moved."""
    frames = [np.asarray(frame)[..., :3] for frame in imageio.mimread(film, memtest=False)]
    first, last = frames[0].astype(int), frames[-1].astype(int)
    assert (np.abs(last - first) > 40).mean() > 0.002  # more than compression makes of it
    return frames


def documented_keys(title: str, within: str | None = None) -> set[str]:
    """The keys that docs/commands.md lists of the file format under this heading, or `within` what
    one of them stands for."""
    text = (Path(__file__).resolve().parent.parent / "docs" / "commands.md").read_text()
    section = text.partition(f"\n### {title}")[2].partition("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    if within is not None:
        (told,) = (row.split(" | ")[-1] for row in rows if row.startswith(f"| `{within}` |"))
        return set(re.findall("`([^`]+)`", told))
    return {key for row in rows for key in re.findall("`([^`]+)`", row.split(" | ")[0])}


def image_fields(pixels: np.ndarray, encoding: str, padding: int = 0) -> Any:
    """The fields of a sensor_msgs/Image; every row ends with bytes of no meaning."""
    rows = np.frombuffer(pixels.tobytes(), np.uint8).reshape(len(pixels), -1)
    return SimpleNamespace(
        height=pixels.shape[0],
        width=pixels.shape[1],
        step=rows.shape[1] + padding,
        encoding=encoding,
        is_bigendian=pixels.dtype.byteorder == ">",
        data=np.pad(rows, ((0, 0), (0, padding)), constant_values=7).tobytes(),
    )
