"""Gymnasium environment of the high level: velocity commands from camera images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.bundle import load_bundle, shipped_low_level
from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.low_level import LATENT_SIZE
from pixelgait.robot.errors import UserError
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.environments.base_env import (
    SIZE,
    EnvOptions,
    Observation,
    PixelGaitEnv,
    as_action,
    no_high_level,
)
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.task import fallen

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SteerEnv(PixelGaitEnv):
    """The agent replaces the high level: it sees, and sends velocity commands.

    Action (2,) in [-1, 1]: the latent command (speed, yaw rate) for `frame_skip` control steps.
    Observation: `image` and `goal` as in `PixelGaitEnv`. Bodies pybullet and mujoco walk on a low
    level, by default the one shipped for the robot. Body glide has no legs, follows commands about
    as well, and is many times as fast. The reward is the capped advance to the goal [m]; episodes
    end as in `GaitEnv`.

    Raises:
        UserError: as `PixelGaitEnv`; if there is no such low level for this robot or body.
    """

    def __init__(
        self,
        scene: str,
        difficulty: float | None = None,
        image_size: tuple[int, int] = SIZE,
        frame_skip: int = 20,
        low_level: str | None = None,
        **options: Unpack[EnvOptions],
    ) -> None:
        if image_size is None:
            raise UserError("image_size is None, expected (height, width): the agent sees")
        glides = options.get("body") == "glide"
        if glides and low_level is not None:
            raise UserError(f"low_level '{low_level}' has no effect: body 'glide' has no legs")
        super().__init__(scene, difficulty, image_size, frame_skip, **options)
        self.task = navigation_task(self.body.scene, steps=0)
        self.controller: Controller | None = None
        if not glides:
            name = str(shipped_low_level(self.robot.name) if low_level is None else low_level)
            bundle = load_bundle(name)
            if bundle.spec is not self.robot:
                raise UserError(f"low_level '{name}' is for robot {bundle.spec.name}, see robot=")
            self.controller = Controller(no_high_level, bundle.low_level, Supervisor(self.robot))
        self.action_space = spaces.Box(-1.0, 1.0, (LATENT_SIZE,), np.float32)
        self.observation_space = spaces.Dict(self.shared_spaces())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode with this seed, or with the next of the environment's own generator."""
        episode = self.start_episode(seed)
        self.task.reset(self.body, episode)
        if self.controller is not None:
            self.controller.reset()
        return self.shared_observation(), {"seed": episode}

    def step(
        self, action: NDArray[np.floating[Any]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Walk under one command (2,) for `frame_skip` control steps; it is clipped to [-1, 1].

        Raises:
            UserError: if its shape differs or it contains nan.
        """
        latent = as_action(action, (LATENT_SIZE,))
        total, over, failed = 0.0, False, False
        for _ in range(self.frame_skip):
            failed = self._walk(latent)
            self.count_step()
            reward, over = self.task.step(self.body)
            total += reward
            if over or failed or self.time_is_up():
                break
        x, y, _ = self.body.pose()[0]
        down = failed or fallen(self.body)  # falling across the goal is no success
        info = {"x_m": x, "y_m": y, "is_success": bool(self.task.succeeded() and not down)}
        stuck = self.task.stuck and not failed
        terminated = bool((over or failed) and not stuck)
        truncated = stuck or self.time_is_up()
        return self.shared_observation(), float(total), terminated, truncated, info

    def _walk(self, latent: Array) -> bool:
        """Take one control step; return whether the robot is damped or off the ground."""
        if self.controller is None:
            self.body.follow(latent)
            self.reading = self.body.read()
            return not self.body.on_ground()
        result = self.controller.follow(latent, self.reading, self.body.ages())
        self.body.apply(result.command)
        self.reading = self.body.read()
        return self.controller.supervisor.fault is not None
