"""Episodes of gliding robots, many at once: all robots that are due decide together.

No low level, no supervisor. Decisions are scheduled as in a controller; between two decisions a
robot's control steps are one call of machine code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import (
    SHORTEST_STEPS,
    Decision,
    MemoryState,
    commanded,
)
from pixelgait.robot.control.low_level import INPUT_SIZE, LATENT_SIZE
from pixelgait.robot.control.observation import goal_vector, policy_image
from pixelgait.robot.control.policy_map import PolicyMap
from pixelgait.robot.interface import Image
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.engines.kinematic_body import SAMPLED_REACH_M, KinematicBody
from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.tasks.episode import Contacts, Episode
from pixelgait.sim.tasks.glide_kernels import SAMPLE_STEPS, TALLY, advance
from pixelgait.sim.tasks.navigate import Forward
from pixelgait.sim.tasks.task import progress_m
from pixelgait.sim.world.scene import Scene, SceneWrapper
from pixelgait.sim.world.traversability import CELL_M

NO_MAP = np.zeros((0, 0)), (0.0, 0.0)  # progress is along x


@dataclass(frozen=True, slots=True)
class Look:
    """A robot that has to decide: the inputs of its high level."""

    robot: int  # its number among those that glide together
    image: NDArray[np.uint8]  # (H, W, C), with the map below if there is one
    goal: Array  # (2,) distance [m] and bearing [rad]
    state: MemoryState


# From the robots that are due to a decision of each.
HighLevels = Callable[[Sequence[Look]], Sequence[Decision]]


class Glide:
    """One robot's episode."""

    def __init__(
        self,
        number: int,
        body: KinematicBody,
        task: Forward,
        seed: int,
        around: PolicyMap | None = None,
    ) -> None:
        """`around` is the map of a high level that sees one."""
        self.number, self.body, self.task, self.seed = number, body, task, seed
        body.reset(seed)
        self._around = around
        if around is not None:
            around.mount(body.mount)
        task.reset(body, seed)
        self._start_m = progress_m(body)
        self._tally = np.zeros(1, TALLY).view(np.recarray)
        self._path = np.zeros((task.steps // SAMPLE_STEPS + 1, 2))
        self._map = _map_of(body)
        self._ahead_rad = body.heading_rad()
        self._decision: Decision | None = None  # the newest
        self._decisions: list[tuple[float, ...]] = []
        self._exposed_s = -math.inf  # time of the newest image
        self._advance(0.0, 0.0, 0)  # it may begin at its goal

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        episode = self.task.episode[0]
        return bool(episode.over or episode.steps >= episode.limit_steps)

    def look(self) -> Look | None:
        """Inputs of the next decision; None: no frame is new, so the last one goes on."""
        frame = self.body.render()
        if self._decision is not None and frame.time_s == self._exposed_s:
            return None
        self._exposed_s = frame.time_s
        state = self._decision.state if self._decision else None
        image, goal = Image(policy_image(frame.pixels), frame.time_s), self._goal()
        if self._around is not None:
            image = replace(image, around=self._map_with(self._around, image, goal))
        return Look(self.number, image.whole, goal, state)

    def _map_with(self, around: PolicyMap, image: Image, goal: Array) -> NDArray[np.uint8]:
        robot = self.body.robot[0]
        x, y = float(robot.odometry_x), float(robot.odometry_y)
        around.add(image.pixels[..., -1], *self.body.odometry_at(image.time_s))
        return around.image(x, y, float(robot.odometry_yaw), goal)

    def decided(self, decision: Decision) -> None:
        """Walk on by a new decision until the next one is due."""
        self._decision = decision
        self._decisions.append((*decision.latent, decision.duration_steps))
        self._advance(*commanded(decision.latent), decision.duration_steps)

    def go_on(self) -> None:
        """Walk on by the last decision until a new frame may be there."""
        assert self._decision is not None
        self._advance(*commanded(self._decision.latent), SHORTEST_STEPS)

    def _goal(self) -> Array:
        goal_position = self.body.scene.goal_position
        robot = self.body.robot[0]
        if goal_position is None:
            return np.array((math.inf, wrap_angle(self._ahead_rad - self.body.heading_rad())))
        odometry = np.array((robot.odometry_x, robot.odometry_y, robot.odometry_yaw))
        return goal_vector(goal_position, odometry)

    def _advance(self, speed: float, yaw_rate: float, steps: int) -> None:
        body, task = self.body, self.task
        if body.sample_anew():
            self._map = _map_of(body)
        advance(
            body.robot,
            task.episode,
            self._tally,
            task.places,
            self._path,
            speed,
            yaw_rate,
            steps,
            body.around,
            body.trunk,
            *self._map,
        )

    def episode(self) -> Episode:
        """The result, once the episode is over."""
        tally, steps = self._tally[0], int(self.task.episode.steps[0])
        samples = -(-steps // SAMPLE_STEPS)
        fell = not self.body.on_ground()
        return Episode(
            seed=self.seed,
            success=self.task.succeeded() and not fell,
            distance_m=progress_m(self.body) - self._start_m,
            return_m=float(tally.return_m),
            fell=fell,
            fault=None,
            images=len(self._decisions),
            steps=steps,
            path=np.vstack((self._path[:samples], self.body.pose().position[:2])),
            observations=np.zeros((0, INPUT_SIZE)),
            decisions=np.array(self._decisions).reshape(-1, LATENT_SIZE + 1),
            metrics=self.task.metrics(fell),
            contacts=Contacts(int(tally.contacts), float(tally.contact_s)),
        )


def glide_episodes(high_levels: HighLevels, glides: Sequence[Glide]) -> list[Episode]:
    """Run episodes until all are over; those that are due decide at once."""
    while waiting := [glide for glide in glides if not glide.over]:
        looks = []
        for glide in waiting:
            look = glide.look()
            if look is None:
                glide.go_on()
            else:
                looks.append(look)
        if looks:
            for look, decision in zip(looks, high_levels(looks), strict=True):
                glides[look.robot].decided(decision)
    return [glide.episode() for glide in glides]


def _map_of(body: KinematicBody) -> tuple[Array, tuple[float, float]]:
    """Distances to the goal on a map [m], and its corner [m]; progress along x needs none.

    A scene's own `progress_m` is sampled.
    """
    scene: Any = body.scene
    while type(scene).progress_m is SceneWrapper.progress_m:
        scene = scene.scene
    if type(scene).progress_m is Indoor.progress_m:
        return scene.distances, scene.map.corner_m
    if type(scene).progress_m is Scene.progress_m:
        return NO_MAP
    (x, y), cells = body.middle_m, round(2.0 * SAMPLED_REACH_M / CELL_M)
    corner_m = x - SAMPLED_REACH_M, y - SAMPLED_REACH_M
    xs, ys = ((low + (np.arange(cells) + 0.5) * CELL_M).tolist() for low in corner_m)
    return np.array([[-scene.progress_m(x, y) for x in xs] for y in ys]), corner_m
