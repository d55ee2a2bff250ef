"""The Gymnasium environment of a high level alone: it looks, and says where to walk."""

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
from pixelgait.sim.environments.argument_checks import EnvOptions, as_action
from pixelgait.sim.environments.base_env import SIZE, Observation, PixelGaitEnv, no_high_level
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.task import fallen

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SteerEnv(PixelGaitEnv):
    """The agent is the high level: it sees, and says how fast to walk and to turn.

    Action (2,) in [-1, 1]: the latent command, speed and yaw rate, for `frame_skip` control steps.
    Observation: `image`, and `goal` if it is told. Body pybullet or mujoco walks on a low level, by
    default the one shipped for the robot; glide has no legs, follows commands about as well, and
    is many times as fast. The reward is the capped advance to the goal [m]; ends as `GaitEnv` does.

    Raises:
        UserError: as of `PixelGaitEnv`, or there is no such low level for this robot or body.
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
            raise UserError("image_size is None: who steers has to see, needs (height, width)")
        glides = options.get("body") == "glide"
        if glides and low_level is not None:
            raise UserError(f"low_level '{low_level}' moves legs that body 'glide' does not have")
        super().__init__(scene, difficulty, image_size, frame_skip, **options)
        self.task = navigation_task(self.body.scene, steps=0)
        self.controller: Controller | None = None
        if not glides:
            name = str(shipped_low_level(self.robot.name) if low_level is None else low_level)
            walk = load_bundle(name)
            if walk.spec is not self.robot:
                raise UserError(f"low_level '{name}' is of {walk.spec.name}, see robot=")
            self.controller = Controller(no_high_level, walk.low_level, Supervisor(self.robot))
        self.action_space = spaces.Box(-1.0, 1.0, (LATENT_SIZE,), np.float32)
        self.observation_space = spaces.Dict(self.seen_space())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """As of `GaitEnv`."""
        episode = self.begin(seed)
        self.task.reset(self.body, episode)
        if self.controller is not None:
            self.controller.reset()
        return self.seen(), {"seed": episode}

    def step(
        self, action: NDArray[np.floating[Any]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Walk under one command (2,); values beyond [-1, 1] are clipped.

        Raises:
            UserError: it is of another shape.
        """
        latent = as_action(action, (LATENT_SIZE,))
        total, over, fell = 0.0, False, False
        for _ in range(self.frame_skip):
            fell = self._walk(latent)
            self.advance()
            reward, over = self.task.step(self.body)
            total += reward
            if over or fell or self.time_is_up():
                break
        x, y, _ = self.body.pose()[0]
        down = fell or fallen(self.body)  # who arrives by falling has not, as in evaluations
        info = {"x_m": x, "y_m": y, "is_success": bool(self.task.succeeded() and not down)}
        stuck = self.task.stuck and not fell
        ended = bool((over or fell) and not stuck)
        return self.seen(), float(total), ended, stuck or self.time_is_up(), info

    def _walk(self, latent: Array) -> bool:
        """One control step; whether it was the last there can be."""
        if self.controller is None:
            self.body.follow(latent)
            self.reading = self.body.read()
            return not self.body.on_ground()
        self.body.apply(self.controller.follow(latent, self.reading, self.body.ages()))
        self.reading = self.body.read()
        return self.controller.supervisor.fault is not None
