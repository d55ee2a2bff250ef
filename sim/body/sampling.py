"""Sampling of depth: which of a pixel's rays a simulated image shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_SAMPLES, rgbd
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose

Renderer = Callable[[Camera, BasePose], NDArray[Any]]  # image of a camera on a base


def sampled(render: Renderer, camera: Camera, pose: BasePose) -> NDArray[Any]:
    """Image of a camera on a base, its depth sampled as the camera says.

    `near` is what a robot does with the pixels of a larger image, see `runtime.camera_images`: of
    3 x 3 rays the median, or a thin thing in front of it.
    """
    if camera.sampling == "centre" or camera.kind == "rgb":
        return render(camera, pose)
    width, height = DEPTH_SAMPLES * camera.width, DEPTH_SAMPLES * camera.height
    rays = render(replace(camera, kind="depth", width=width, height=height), pose)
    depth = nearest_things(rays)
    return (
        depth if camera.kind == "depth" else rgbd(render(replace(camera, kind="rgb"), pose), depth)
    )


def nearest_things(rays: NDArray[np.float32]) -> NDArray[np.float32]:
    """Depth (H, W) [m] of rays (3 H, 3 W) without holes."""
    from pixelgait.sim.body.depth_kernels import nearest

    height, width = (side // DEPTH_SAMPLES for side in rays.shape)
    depth = np.empty((height, width), np.float32)
    nearest(rays, depth)
    return depth
