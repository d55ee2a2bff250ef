"""`PixelGait/Follow-v0`, many at once: robots in MuJoCo that share a process and a model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pixelgait.robot.control.low_level import LATENT_SIZE, OUTPUT_SIZE, features
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.spec import A1, Array, find_robot
from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch
from pixelgait.sim.batched.tasks import FollowBatch, Who, fallen
from pixelgait.sim.body.interface import PHYSICS_DT_S, SUBSTEPS
from pixelgait.sim.environments.argument_checks import (
    as_action,
    check_count,
    check_names,
    check_reset,
    check_times,
    each_seed,
)
from pixelgait.sim.environments.base_env import Infos, Observation, PixelGaitEnv
from pixelgait.sim.environments.gait_env import Agent, GaitEnv, action_space, felt_space
from pixelgait.sim.environments.shared_vector_env import gaits
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.world.seeds import TRAINING, another_seed

OWN = ("robot", "seconds", "frame_skip")  # what many robots in one process can be asked for
# What they cannot, but a single one: each as it is if nothing is said.
UNTOUCHED = {
    name: parameter.default
    for entry in (PixelGaitEnv, GaitEnv)
    for name, parameter in inspect.signature(entry).parameters.items()
} | {"scene": "flat", "task": "follow", "image_size": None}


def followers(num_envs: int = 1, **options: Any) -> VectorEnv[Any, Any, Any]:
    """n robots that follow commands: in one process if they can be, otherwise in workers.

    In one process are ideal robots in MuJoCo; see `SharedVectorEnv` for what else can be asked for.

    Raises:
        UserError: an argument that `GaitEnv` would not take.
    """
    own = {name: value for name, value in options.items() if name in OWN}
    others = {name: value for name, value in options.items() if name not in OWN}
    if others.pop("body", None) == "mujoco" and all(
        name in UNTOUCHED and value == UNTOUCHED[name] for name, value in others.items()
    ):
        return FollowVectorEnv(num_envs, **own)
    return gaits(num_envs, **options)


class FollowVectorEnv(VectorEnv[Observation, NDArray[np.floating[Any]], NDArray[Any]]):
    """n robots on flat ground, each as `GaitEnv` has it in MuJoCo with task follow, bit for bit.

    As of Gymnasium's own vector environments, an episode that is over begins anew in the next step.

    Raises:
        UserError: an argument that `GaitEnv` would not take.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        robot: str = A1.name,
        seconds: float = 10.0,
        frame_skip: int = 1,
    ) -> None:
        check_count(num_envs)
        check_names(robot=robot)
        check_times(frame_skip, seconds)
        self.num_envs, self.frame_skip = num_envs, frame_skip
        self.robot = find_robot(robot)
        self.body = MuJoCoBatch(self.robot, num_envs)
        self.agents = [Agent(self.robot) for _ in range(num_envs)]
        self._rngs = [np_random()[0] for _ in range(num_envs)]
        self._like = [TRAINING[0]] * num_envs  # seeds given last
        self._last_step = round(seconds / CONTROL_DT_S)
        self._begun = False
        self.single_action_space = action_space()
        self.single_observation_space = spaces.Dict(felt_space("follow"))
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, Infos]:
        """Begin everywhere, with this seed and those after it, or a seed or None for each.

        Raises:
            UserError: there are more seeds than robots, or fewer, or only some are to begin.
        """
        check_reset(options)
        given = each_seed(seed, self.num_envs)
        seeds = [self._seed(robot, own) for robot, own in enumerate(given)]
        self.reading = self.body.reset()
        self.task = FollowBatch(seeds, steps=0)
        self.task.reset(self.body)
        self.task.draw(range(self.num_envs))
        for agent in self.agents:
            agent.reset()
        self._begun, self._times_s = True, np.zeros(self.num_envs)
        self._over = np.zeros(self.num_envs, dtype=bool)
        return self._observe(), self._infos(~self._over, seed=np.array(seeds))

    def step(
        self, actions: NDArray[np.floating[Any]]
    ) -> tuple[Observation, Array, Who, Who, Infos]:
        """Apply actions (n, 19); where an episode was over, the next one begins instead.

        Raises:
            UserError: there are more actions than robots, or fewer, or of another shape.
            ResetNeeded: nobody has begun, as of Gymnasium's own.
        """
        if not self._begun:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        wanted = as_action(actions, (self.num_envs, OUTPUT_SIZE))
        for agent, action in zip(self.agents, wanted, strict=True):
            agent.action = action
        begins = self._over
        rewards, ended, stays = np.zeros(self.num_envs), begins.copy(), begins.copy()
        for _ in range(self.frame_skip):
            gained, over = self._control_step(~stays)
            rewards += np.where(stays, 0.0, gained)
            ended |= over & ~stays
            stays |= ended | (self.task.clocks >= self._last_step)
            if stays.all():
                break
        where, fell = self.body.positions[:, :2].T.copy(), fallen(self.body)
        terminated = ended & ~begins
        truncated = (self.task.clocks >= self._last_step) & ~begins
        infos = self._infos(~begins, x_m=where[0], y_m=where[1], fell=fell)
        if begins.any():
            infos |= self._infos(begins, seed=self._begin_anew(begins))
        self._over = terminated | truncated
        return self._observe(), rewards, terminated, truncated, infos

    def close_extras(self, **_: Any) -> None:
        """Nothing to do: the model is freed with the object."""

    def _control_step(self, moves: Who) -> tuple[Array, Who]:
        """Of those that move: rewards (n,), and whose episode is over."""
        body, robots = self.body, np.flatnonzero(moves).tolist()
        commands = {robot: self._command(robot) for robot in robots}
        targets = np.zeros((self.num_envs, len(self.robot.joint_names)))
        odd = np.zeros(self.num_envs, dtype=bool)
        for robot, command in commands.items():
            targets[robot], odd[robot] = command.targets, command.kp is not self.robot.kp_nm_per_rad
        body.staying = moves & ~odd
        kp, kd = self.robot.kp_nm_per_rad, self.robot.kd_nms_per_rad
        body.apply(JointCommand(self.reading.time_s, targets, kp, kd, np.zeros(len(kp))))
        for robot in np.flatnonzero(odd).tolist():
            body.advance_alone(robot, commands[robot])
        body.staying = moves
        for _ in range(SUBSTEPS):  # rounded as a single robot's clock is
            self._times_s += PHYSICS_DT_S
        self.reading = body.read()
        rewards, over = self.task.step(body)
        faults = [agent.supervisor.fault is not None for agent in self.agents]
        due = moves & (self.task.clocks % Follow.COMMAND_STEPS == 0)
        self.task.draw(np.flatnonzero(due).tolist())
        return rewards, over | faults

    def _command(self, robot: int) -> JointCommand:
        """What a robot's controller sends, in this step of its episode."""
        all_read = self.reading
        reading = Reading(
            float(self._times_s[robot]),
            all_read.joint_angles[robot],
            all_read.joint_velocities[robot],
            all_read.orientation[robot],
            all_read.angular_velocity[robot],
            all_read.image,
        )
        return self.agents[robot].follow(self.task.latents[robot], reading)

    def _begin_anew(self, who: Who) -> NDArray[np.int64]:
        """The next episode of some: their seeds (n,)."""
        seeds = np.zeros(self.num_envs, dtype=np.int64)
        robots = np.flatnonzero(who).tolist()
        for robot in robots:
            seeds[robot] = self._seed(robot, None)
            self.body.restart(robot)
            self.agents[robot].reset()
        self._times_s[robots] = 0.0
        self.reading = self.body.read()
        self.task.begin(robots, seeds[robots].tolist(), self.body)
        self.task.draw(robots)
        return seeds

    def _seed(self, robot: int, given: int | None) -> int:
        """The seed of a robot's next episode, as `PixelGaitEnv.begin` has it."""
        if given is not None:
            self._rngs[robot], self._like[robot] = np_random(given)[0], given
            return given
        return another_seed(self._rngs[robot], self._like[robot])

    def _observe(self) -> Observation:
        """Of all, (n, ...)."""
        phases = np.array([agent.phase for agent in self.agents])
        nothing = np.zeros((self.num_envs, LATENT_SIZE))
        x = features(nothing, imu_vector(self.reading), self.reading.joint_angles, phases)
        felt = np.asarray(x[:, LATENT_SIZE:], dtype=np.float32)
        return {"proprioception": felt, "command": self.task.latents.astype(np.float32)}

    def _infos(self, whose: Who, **values: Any) -> Infos:
        """Figures (n,) of some, and under `_name` whose they are."""
        if not whose.any():
            return {}
        own = {
            name: np.where(whose, value, 0).astype(value.dtype) for name, value in values.items()
        }
        return own | {f"_{name}": whose for name in values}
