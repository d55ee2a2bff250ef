"""Benchmark of cameras: speed and agreement of images with PyBullet's getCameraImage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.body.camera import CHANNELS, Camera, Kind
from pixelgait.sim.body.interface import BasePose, SimulatedBody
from pixelgait.sim.engines.cast_scene import first_hits, rotation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import projection_matrix, view_matrix
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.rendering import geometry
from pixelgait.sim.rendering.geometry import Geometry
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.viewing.video import SceneRenderer
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.scene import Scene

VIEWS = 5  # start poses, each in its own layout
PLAIN_FRAMES, FRAMES = 3, 30  # timed per view
PLAIN = "plain getCameraImage"
GLIDING = "gliding"  # as in imitation, where rendering is most of the cost
APPEARANCES: tuple[AppearanceOption, ...] = ("nominal", "train")
# Simulators round and shade height fields differently: tolerances of agreement.
NEAR_LEVELS, NEAR_DEPTH_M = 10, 0.02


@dataclass(frozen=True, slots=True)
class View:
    """Images from one start pose with a visible robot."""

    seed: int
    images: dict[Kind, NDArray[Any]]
    outside: NDArray[np.bool_]  # (H, W) pixels that do not show the robot
    frame_s: float


def camera_rates(
    spec: RobotSpec, scene: Scene, size: int, seed: int
) -> dict[str, dict[str, float]]:
    """Frames/s, their ratio to getCameraImage with the robot visible, and agreement with it.

    Agreement is the share of pixels outside the robot that are equal: bytes in PyBullet, within
    tolerances in MuJoCo.
    """
    camera = Camera(spec.camera, size, size)
    views = _plain_views(spec, scene, camera, seed)
    plain_s = float(np.median([view.frame_s for view in views]))
    rows = {PLAIN: _row(plain_s, plain_s, 1.0)}
    for name in BODIES:
        body = make_body(name, spec, scene)
        tolerance = 0.0 if name == "pybullet" else 1.0
        for kind in CHANNELS:
            body.camera = replace(camera, kind=kind)
            frames, shares = [], []
            for view in views:
                body.reset(view.seed)
                frames.append(_frame_s(body.render, FRAMES))
                shares.append(_agreement(body.render().pixels, view, kind, tolerance))
            rows[f"{name} {kind}"] = _row(plain_s, float(np.median(frames)), float(np.mean(shares)))
        body.close()
    return rows


def appearance_rates(
    spec: RobotSpec, scene: str, size: int, seed: int
) -> dict[str, dict[str, float]]:
    """Frames/s of RGB cameras, nominal and in appearances of the training set, and their ratio.

    Measured in turns, so that other load slows both alike.
    """
    camera = Camera(spec.camera, size, size)
    rows = {}
    for name in (GLIDING, *BODIES):
        bodies = [
            _body(name, spec, make_scene(scene, appearance=appearance), camera)
            for appearance in APPEARANCES
        ]
        times = []
        for view_seed in range(seed, seed + VIEWS):
            for body in bodies:
                body.reset(view_seed)
                body.render()  # textures are made when first rendered
            times.append([_frame_s(body.render, FRAMES) for body in bodies])
        for body in bodies:
            body.close()
        nominal_s, appearance_s = np.median(times, axis=0).tolist()
        rates = {
            "nominal_frames_per_s": 1.0 / nominal_s,
            "appearance_frames_per_s": 1.0 / appearance_s,
        }
        rows[name] = {**rates, "ratio": nominal_s / appearance_s}
    return rows


def ray_rates(spec: RobotSpec, scene: str, seed: int) -> dict[str, float]:
    """Frames/s per core of gliding robots' cameras, 32 x 48, by processor time.

    `depth` are the rays alone, `depth_camera` and `rgbd_camera` pictures of ideal cameras, textures
    included.
    """
    rates = {}
    for kind in ("depth", "rgbd"):
        body = KinematicBody(spec, make_scene(scene, 1.0), camera=Camera(spec.camera, 48, 32, kind))
        times = []
        for view_seed in range(seed, seed + VIEWS):
            body.reset(view_seed)
            body.render()
            times.append(_processor_s(body.render))
        rates[f"{kind}_camera"] = 1.0 / float(np.median(times))
    body.close()
    views = [_view_of(spec, scene, view_seed) for view_seed in range(seed, seed + VIEWS)]
    rates["depth"] = VIEWS / _processor_s(lambda: [first_hits(*view) for view in views])
    return rates


def _view_of(spec: RobotSpec, scene: str, seed: int) -> tuple[Geometry, geometry.View]:
    """Geometry and view of a gliding robot's camera at its start."""
    body = KinematicBody(spec, make_scene(scene, 1.0))
    body.reset(seed)
    shapes, pose = Geometry(body.scene), body.trunk_pose()
    shapes.lay_out(body.layout)
    return shapes, Camera(spec.camera, 48, 32).view(pose.position, rotation(pose.orientation))


def _processor_s(call: Callable[[], object]) -> float:
    """Processor time of a call [s], the least of some."""
    call()
    times = []
    for _ in range(FRAMES):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    return min(times)


def _body(
    name: str, spec: RobotSpec, scene: Scene, camera: Camera
) -> SimulatedBody | KinematicBody:
    if name == GLIDING:
        return KinematicBody(spec, scene, camera=camera)
    return make_body(name, spec, scene, camera=camera)


def _row(plain_s: float, frame_s: float, agreement: float) -> dict[str, float]:
    return {"frames_per_s": 1.0 / frame_s, "ratio": plain_s / frame_s, "agreement": agreement}


def _plain_views(spec: RobotSpec, scene: Scene, camera: Camera, seed: int) -> list[View]:
    """Images of getCameraImage, of the robot with all its meshes."""
    body, views = PyBulletBody(spec, scene), []
    for view_seed in range(seed, seed + VIEWS):
        body.reset(view_seed)
        pose, shown = body.pose(), SceneRenderer(spec, scene, view_seed)
        shown.place(*pose, spec.default_pose_rad)
        frame_s = _frame_s(partial(shown.scene.render, camera, pose), PLAIN_FRAMES)
        # The camera sits within the trunk's mesh, which would hide the scene.
        pybullet.changeVisualShape(
            shown.robot, -1, rgbaColor=(0, 0, 0, 0), physicsClientId=shown.client
        )
        images: dict[Kind, NDArray[Any]] = {
            kind: shown.scene.render(replace(camera, kind=kind), pose) for kind in CHANNELS
        }
        views.append(View(view_seed, images, _outside(shown, camera, pose), frame_s))
        shown.close()
    body.close()
    return views


def _outside(shown: SceneRenderer, camera: Camera, pose: BasePose) -> NDArray[np.bool_]:
    """Mask (H, W) of the pixels that do not show the robot."""
    labels = pybullet.getCameraImage(
        camera.width,
        camera.height,
        view_matrix(camera, pose),
        projection_matrix(camera),
        renderer=pybullet.ER_TINY_RENDERER,
        physicsClientId=shown.client,
    )[4]
    return np.asarray(np.reshape(labels, (camera.height, camera.width)) != shown.robot)


def _frame_s(render: Callable[[], object], frames: int) -> float:
    """Processor time of one frame [s], which other load changes little."""
    start = time.process_time()
    for _ in range(frames):
        render()
    return (time.process_time() - start) / frames


def _agreement(pixels: NDArray[Any], view: View, kind: Kind, tolerance: float) -> float:
    """Share of the pixels outside the robot that differ by at most `tolerance` times near."""
    near = tolerance * (NEAR_DEPTH_M if kind == "depth" else NEAR_LEVELS)
    off = np.abs(pixels.astype(np.float64) - view.images[kind].astype(np.float64))
    same = (off if off.ndim == 2 else off.max(2)) <= near
    return float(same[view.outside].mean())
