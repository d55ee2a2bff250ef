"""Scenes: where a robot can be. A new one is a file with a class like FlatGround, and a name in
`scene_list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pixelgait.sim.bullet import pybullet

FRICTION = 1.0


@dataclass(frozen=True, slots=True)
class Start:
    """Where the robot stands at reset: ground point [m] and heading [rad]."""

    x: float
    y: float
    z: float
    yaw: float


class Scene(Protocol):
    """Static surroundings of one robot. Made once per client, laid out anew at every reset."""

    name: str
    goal_x_m: float  # reached: success

    def build(self, client: int) -> None:
        """Create what never changes."""

    def reset(self, client: int, rng: np.random.Generator) -> Start:
        """Lay the scene out from the generator."""

    def supports(self, x: float, y: float) -> bool:
        """Whether there is ground to walk on at (x, y)."""


def add_box(
    client: int,
    centre: tuple[float, float, float],
    half: tuple[float, float, float],
    colour: tuple[float, float, float],
) -> int:
    """A static box; returns its body id."""
    shape = pybullet.createCollisionShape(
        pybullet.GEOM_BOX, halfExtents=half, physicsClientId=client
    )
    visual = pybullet.createVisualShape(
        pybullet.GEOM_BOX,
        halfExtents=half,
        rgbaColor=(*colour, 1.0),
        specularColor=(0, 0, 0),
        physicsClientId=client,
    )
    body: int = pybullet.createMultiBody(0, shape, visual, centre, physicsClientId=client)
    pybullet.changeDynamics(body, -1, lateralFriction=FRICTION, physicsClientId=client)
    return body


class FlatGround:
    """An endless flat floor."""

    name = "flat"
    goal_x_m = np.inf

    def __init__(self, difficulty: float = 0.0) -> None:
        del difficulty  # flat is flat

    def build(self, client: int) -> None:
        plane = pybullet.createCollisionShape(
            pybullet.GEOM_PLANE, planeNormal=(0, 0, 1), physicsClientId=client
        )
        body = pybullet.createMultiBody(0, plane, physicsClientId=client)
        pybullet.changeDynamics(body, -1, lateralFriction=FRICTION, physicsClientId=client)

    def reset(self, client: int, rng: np.random.Generator) -> Start:
        return Start(0.0, 0.0, 0.0, 0.0)

    def supports(self, x: float, y: float) -> bool:
        return True
