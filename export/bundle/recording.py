"""Observations recorded in simulation, for parity and golden vectors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pixelgait.policies.high_level import Decider
from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.low_level import LinearLowLevel
from pixelgait.robot.spec import Array
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.body.camera import camera_for
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.episode import run_episode
from pixelgait.sim.tasks.forward import Forward

RECORDED_STEPS = 1000  # 10 s, with tens of images


@dataclass(slots=True)
class Recording:
    """Inputs of both levels, in the order they occurred."""

    images: list[NDArray[np.uint8]] = field(default_factory=list)
    low_level: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)


def record(high_level: Decider, low_level: LinearLowLevel, seed: int) -> Recording:
    """Run the policy on a medium obstacle course and keep what its levels were given."""
    recording = Recording()

    def see(image: NDArray[np.uint8]) -> Decision:
        recording.images.append(image)
        return high_level.decide(image)

    def move(latent: Array, imu: Array, joint_angles: Array, phase: Array) -> tuple[Array, Array]:
        recording.low_level.append((latent, imu, joint_angles, phase))
        return low_level(latent, imu, joint_angles, phase)

    camera = camera_for(low_level.spec.camera, high_level.image_shape)
    body = PyBulletBody(low_level.spec, ObstacleCourse(0.5), camera=camera)
    try:
        controller = Controller(see, move, Supervisor(low_level.spec))
        run_episode(controller, body, Forward(RECORDED_STEPS), seed)
    finally:
        body.close()
    return recording
