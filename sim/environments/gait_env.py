"""Gymnasium environment of the low level: gait parameters and leg poses at 100 Hz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.low_level import (
    INPUT_SIZE,
    LATENT_SIZE,
    OUTPUT_SIZE,
    act,
    features,
    with_surplus,
)
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.errors import UserError
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.engines.registry import BODIES
from pixelgait.sim.environments.base_env import (
    SIZE,
    EnvOptions,
    Observation,
    PixelGaitEnv,
    as_action,
    no_high_level,
)
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.task import fallen

if TYPE_CHECKING:
    from typing_extensions import Unpack

LARGEST = 100.0  # bound of what working sensors measure [rad], [rad/s]
NO_LATENT = np.zeros(LATENT_SIZE)  # the agent's motions do not depend on a latent command
TaskName = Literal["forward", "follow"]


class GaitEnv(PixelGaitEnv):
    """The agent replaces the low level, and may see.

    Action (19,) in [-1, 1]: the low level's outputs, 12 leg-pose residuals and 7 gait parameters.
    Observation: `image` as in `PixelGaitEnv` and `proprioception` (18,): IMU (4), joint angles
    (12), gait phase (2). Task "forward": the reward is the capped advance to the goal [m]. Task
    "follow": as in training, how well velocity commands are tracked that change every second, under
    pushes; `command` (2,) in [-1, 1] is the present one. An episode terminates by a fall, a fault
    of the supervisor or at the goal. It is truncated when its time is up, or after 6 s without
    advance in a scene without a goal position.

    Raises:
        UserError: as `PixelGaitEnv`; if the task is unknown or the body has no legs.
    """

    def __init__(
        self,
        scene: str,
        difficulty: float | None = None,
        image_size: tuple[int, int] | None = SIZE,
        frame_skip: int = 1,
        task: TaskName = "forward",
        **options: Unpack[EnvOptions],
    ) -> None:
        if task not in get_args(TaskName):
            raise UserError(f"unknown task '{task}', choose from {', '.join(get_args(TaskName))}")
        if options.get("body") == "glide":
            raise UserError(f"body 'glide' has no legs, choose from {', '.join(BODIES)}")
        super().__init__(scene, difficulty, image_size, frame_skip, **options)
        follows = task == "follow"
        self.task = Follow(steps=0) if follows else navigation_task(self.body.scene, steps=0)
        self.agent = Agent(self.robot)
        self.action_space = action_space()
        most = np.inf if options.get("faults") else LARGEST  # joint angles in degrees exceed it
        self.observation_space = spaces.Dict({**self.shared_spaces(), **felt_space(task, most)})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode with this seed, or with the next of the environment's own generator."""
        episode = self.start_episode(seed)
        self.task.reset(self.body, episode)
        self.agent.reset()
        self._draw_command()
        return self._observe(), {"seed": episode}

    def step(
        self, action: NDArray[np.floating[Any]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply one action (19,) for `frame_skip` control steps; it is clipped to [-1, 1].

        Raises:
            UserError: if its shape differs or it contains nan.
        """
        self.agent.action = as_action(action, (OUTPUT_SIZE,))
        total, over = 0.0, False
        for _ in range(self.frame_skip):
            result = self.agent.follow(self._latent(), self.reading, self.body.ages())
            self.body.apply(result.command)
            self.reading = self.body.read()
            self.count_step()
            reward, over = self.task.step(self.body)
            total += reward
            over = over or self.agent.supervisor.fault is not None
            self._draw_command()
            if over or self.time_is_up():
                break
        x, y, _ = self.body.pose()[0]
        info = {"x_m": x, "y_m": y, "fell": fallen(self.body)}
        stuck = self.task.stuck and self.agent.supervisor.fault is None
        truncated = stuck or self.time_is_up()
        return self._observe(), float(total), bool(over and not stuck), truncated, info

    def _latent(self) -> Array:
        return self.task.latent if isinstance(self.task, Follow) else NO_LATENT

    def _draw_command(self) -> None:
        """Draw a velocity command every second, as in training."""
        if isinstance(self.task, Follow) and self.steps % Follow.COMMAND_STEPS == 0:
            self.task.command(None)

    def _observe(self) -> Observation:
        phase, reading = self.agent.phase, self.reading
        x = features(NO_LATENT, imu_vector(reading), reading.joint_angles, phase)
        felt = np.asarray(x[LATENT_SIZE:], dtype=np.float32)
        observation = {**self.shared_observation(), "proprioception": felt}
        if isinstance(self.task, Follow):
            observation["command"] = self.task.latent.astype(np.float32)
        return observation


class Agent(Controller):
    """A controller whose low level outputs `action` (19,)."""

    def __init__(self, spec: RobotSpec) -> None:
        super().__init__(no_high_level, self._act, Supervisor(spec))
        self.spec, self.action = spec, np.zeros(OUTPUT_SIZE)

    def _act(
        self, latent: Array, imu: Array, joint_angles: Array, carried: Array
    ) -> tuple[Array, Array]:
        carried = with_surplus(self.spec, carried)
        return act(self.spec, latent, self.action, carried, joint_angles)


def action_space() -> Any:
    """The `Box` of a low level's outputs, (19,)."""
    return spaces.Box(-1.0, 1.0, (OUTPUT_SIZE,), np.float32)


def felt_space(task: TaskName, largest: float = LARGEST) -> dict[str, spaces.Space[Any]]:
    """Spaces of `proprioception` (18,) and, in task follow, `command` (2,)."""
    sizes = {"proprioception": (INPUT_SIZE - LATENT_SIZE, largest)}
    if task == "follow":
        sizes["command"] = (LATENT_SIZE, 1.0)
    return {n: spaces.Box(-most, most, (size,), np.float32) for n, (size, most) in sizes.items()}
