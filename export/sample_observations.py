"""Observations recorded in simulation, for parity and golden vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.policies.high_level import Decider
from pixelgait.policies.low_level import LowLevelGraph
from pixelgait.robot.control.controller import Controller, Decision, MemoryState
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import camera_for
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.episode import run_episode
from pixelgait.sim.tasks.navigate import Forward

RECORDED_STEPS = 1000  # 10 s
# Who has learned looks every 20 steps or so, who has not every 8 s, at two images. Here everybody
# does as often as this at least: dozens of images.
LONGEST_STEPS = 30


@dataclass(slots=True)
class Observations:
    """Inputs of both levels by name, in the order they occurred."""

    high_level: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    low_level: list[dict[str, NDArray[Any]]] = field(default_factory=list)


def record(high_level: Decider, low_level: LowLevelGraph, seed: int) -> Observations:
    """Run the policy on a medium obstacle course and keep what its levels were given.

    The destination of who is told one lies at the course's end.
    """
    observations = Observations()

    def see(image: NDArray[np.uint8], goal: Array, state: MemoryState) -> Decision:
        given: dict[str, NDArray[Any]] = {"image": image}
        if high_level.sees_goal:
            given["goal"] = goal
        if high_level.sees_ahead:
            given["ahead"] = goal[1:]
        if high_level.state_size:
            given["state"] = np.zeros(high_level.state_size) if state is None else state
        observations.high_level.append(given)
        decision = high_level.decide(image, goal, state)
        return replace(decision, duration_steps=min(decision.duration_steps, LONGEST_STEPS))

    def move(*values: Array) -> tuple[Array, Array]:
        observations.low_level.append(low_level.inputs(*values))
        return low_level.step(*values)

    camera = camera_for(low_level.spec.camera, high_level.image_shape)
    course = ObstacleCourse(0.5)
    if high_level.sees_goal:
        course.goal_position = np.array((course.goal_m, 0.0))
    body = PyBulletBody(low_level.spec, course, camera=camera)
    try:
        controller = Controller(see, move, Supervisor(low_level.spec))
        run_episode(controller, body, Forward(RECORDED_STEPS), seed)
    finally:
        body.close()
    return observations
