"""Vector environment of `PixelGait/Follow-v0`: many robots in MuJoCo in one process."""

from __future__ import annotations

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
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, Image, JointCommand, Reading
from pixelgait.robot.spec import A1, Array, find_robot
from pixelgait.sim.batched.controller import imu_vectors
from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch
from pixelgait.sim.batched.tasks import FollowBatch, Robots, fallen
from pixelgait.sim.body.interface import PHYSICS_DT_S, SUBSTEPS
from pixelgait.sim.environments.robot_envs import (
    Agent,
    Observation,
    action_space,
    as_action,
    check_times,
    felt_space,
)
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.world.seeds import TRAINING, another_seed, ranges_of

MAX_ROBOTS = 4096  # 0.4 MB each
LARGEST_SEED = 2**63 - 1  # seeds are an int64 array in the infos
FIXED = {"scene": "flat", "task": "follow", "image_size": None, "body": "mujoco"}
Infos = dict[str, Any]


class FollowVectorEnv(VectorEnv[Observation, NDArray[np.floating[Any]], NDArray[Any]]):
    """n ideal robots on flat ground, each bit-equal to a `GaitEnv` in MuJoCo with task follow.

    An episode that is over restarts in the next step, as in Gymnasium's own vector environments.

    Raises:
        UserError: if a value is invalid, or an option needs a `GaitEnv` for each robot.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        robot: str = A1.name,
        seconds: float = 10.0,
        frame_skip: int = 1,
        body: str = "pybullet",
        **options: Any,
    ) -> None:
        if {**FIXED, **options, "body": body} != FIXED:
            raise UserError(
                "many robots in one process need body='mujoco' and accept robot, seconds and "
                "frame_skip; for anything else pass vectorization_mode='async'"
            )
        if num_envs not in range(1, MAX_ROBOTS + 1):
            raise UserError(f"num_envs is {num_envs!r}, expected an integer 1 to {MAX_ROBOTS}")
        check_times(frame_skip, seconds)
        self.num_envs, self.frame_skip = num_envs, frame_skip
        self.robot = find_robot(robot)
        self.body = MuJoCoBatch(self.robot, num_envs)
        self.agents = [Agent(self.robot) for _ in range(num_envs)]
        self._rngs = [np_random()[0] for _ in range(num_envs)]
        self._last_given_seeds = [TRAINING[0]] * num_envs
        self._last_step = round(seconds / CONTROL_DT_S)
        self._started = False
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
        """Start all episodes: with this seed and those after it, or a seed or None for each robot.

        Raises:
            UserError: if the seeds are not one for each robot, or only some robots shall restart.
        """
        if options and "reset_mask" in options:
            raise UserError("reset_mask has no effect: an episode that is over restarts by itself")
        given = _seed_of_each(seed, self.num_envs)
        seeds = [self._seed(robot, own) for robot, own in enumerate(given)]
        self.reading = self.body.reset()
        self.task = FollowBatch(seeds, Follow(steps=0))
        self.task.reset(self.body)
        self.task.draw(range(self.num_envs))
        for agent in self.agents:
            agent.reset()
        self._started, self._times_s = True, np.zeros(self.num_envs)
        self._over = np.zeros(self.num_envs, dtype=bool)
        return self._observe(), self._infos(~self._over, seed=np.array(seeds))

    def step(
        self, actions: NDArray[np.floating[Any]]
    ) -> tuple[Observation, Array, Robots, Robots, Infos]:
        """Apply actions (n, 19); where an episode was over, the next one starts instead.

        Raises:
            UserError: if their shape differs or they contain nan.
            ResetNeeded: before the first reset.
        """
        if not self._started:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        wanted = as_action(actions, (self.num_envs, OUTPUT_SIZE))
        for agent, action in zip(self.agents, wanted, strict=True):
            agent.action = action
        restarts = self._over
        rewards, ended, rests = np.zeros(self.num_envs), restarts.copy(), restarts.copy()
        for _ in range(self.frame_skip):
            gained, over = self._control_step(~rests)
            rewards += np.where(rests, 0.0, gained)
            ended |= over & ~rests
            rests |= ended | (self.task.clocks >= self._last_step)
            if rests.all():
                break
        x_y, fell = self.body.positions[:, :2].T.copy(), fallen(self.body)
        terminated = ended & ~restarts
        truncated = (self.task.clocks >= self._last_step) & ~restarts
        infos = self._infos(~restarts, x_m=x_y[0], y_m=x_y[1], fell=fell)
        if restarts.any():
            infos |= self._infos(restarts, seed=self._restart(restarts))
        self._over = terminated | truncated
        return self._observe(), rewards, terminated, truncated, infos

    def close_extras(self, **_: Any) -> None:
        """Free nothing: the model goes with the object."""

    def _control_step(self, moves: Robots) -> tuple[Array, Robots]:
        """Move some robots (n,); return the rewards (n,) and whose episode is over (n,)."""
        body, robots = self.body, np.flatnonzero(moves).tolist()
        commands = {robot: self._command(robot) for robot in robots}
        targets = np.zeros((self.num_envs, len(self.robot.joint_names)))
        damped = np.zeros(self.num_envs, dtype=bool)
        for robot, command in commands.items():
            targets[robot] = command.targets
            damped[robot] = command.kp is not self.robot.kp_nm_per_rad
        body.staying = moves & ~damped
        body.apply(targets)
        for robot in np.flatnonzero(damped).tolist():
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
        """Joint command of one robot's controller in this control step."""
        readings = self.reading
        reading = Reading(
            float(self._times_s[robot]),
            readings.joint_angles[robot],
            readings.joint_velocities[robot],
            readings.orientation[robot],
            readings.angular_velocity[robot],
            no_image,
        )
        return self.agents[robot].follow(self.task.latents[robot], reading).command

    def _restart(self, which: Robots) -> NDArray[np.int64]:
        """Start the next episode of some robots (n,); return their seeds (n,)."""
        seeds = np.zeros(self.num_envs, dtype=np.int64)
        robots = np.flatnonzero(which).tolist()
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
        """Seed of a robot's next episode, as in `PixelGaitEnv.start_episode`."""
        if given is not None:
            self._rngs[robot], self._last_given_seeds[robot] = np_random(given)[0], given
            return given
        return another_seed(self._rngs[robot], self._last_given_seeds[robot])

    def _observe(self) -> Observation:
        """Observations of all robots (n, ...)."""
        phases = np.array([agent.phase for agent in self.agents])
        no_latents = np.zeros((self.num_envs, LATENT_SIZE))
        x = features(no_latents, imu_vectors(self.reading), self.reading.joint_angles, phases)
        felt = np.asarray(x[:, LATENT_SIZE:], dtype=np.float32)
        return {"proprioception": felt, "command": self.task.latents.astype(np.float32)}

    def _infos(self, of: Robots, **values: Any) -> Infos:
        """Values (n,) of some robots (n,), and under `_name` which robots have them."""
        if not of.any():
            return {}
        own = {name: np.where(of, value, 0).astype(value.dtype) for name, value in values.items()}
        return own | {f"_{name}": of for name in values}


def _seed_of_each(seed: int | Sequence[int | None] | None, robots: int) -> list[int | None]:
    """A seed or None for each of n robots.

    Raises:
        UserError: if their number differs, one is out of range, or those after a single seed have
            another use, such as validation instead of training.
    """
    if seed is None:
        return [None] * robots
    if isinstance(seed, int) and len(uses := ranges_of(range(seed, seed + robots))) > 1:
        raise UserError(f"seeds {seed} to {seed + robots - 1} are of {' and '.join(uses)}")
    given = list(range(seed, seed + robots) if isinstance(seed, int) else seed)
    if len(given) != robots:
        raise UserError(f"{len(given)} seeds for {robots} robots")
    for each in given:
        if each is not None and not 0 <= each <= LARGEST_SEED:
            raise UserError(f"seed is {each!r}, expected 0 to {LARGEST_SEED}")
    return given


def no_image() -> Image:
    """These robots have no camera, and nothing decides by images."""
    raise AssertionError
