"""The Gymnasium environment of a low level: gait parameters and leg poses at 100 Hz."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
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
    begun,
    features,
)
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.errors import UserError
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.engines.registry import BODIES
from pixelgait.sim.environments.argument_checks import EnvOptions, as_action
from pixelgait.sim.environments.base_env import SIZE, Observation, PixelGaitEnv, no_high_level
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.task import fallen

if TYPE_CHECKING:
    from typing_extensions import Unpack

LARGEST = 100.0  # of what working sensors say [rad], [rad/s]
NO_LATENT = np.zeros(LATENT_SIZE)  # an agent asks for motions, not for speeds
Task = Literal["forward", "follow"]
Step = tuple[Observation, float, bool, bool, dict[str, Any]]  # what `step` returns
# Of a step in parts: what `act` is given but for the robot, and its results.
Asked = tuple[Array, Array, Array, Array] | None
Stepping = Generator[Asked, Any, Step]


class GaitEnv(PixelGaitEnv):
    """The agent is the low level, and sees: gait parameters and leg poses at 100 Hz.

    Action (19,) in [-1, 1]: what the low level puts out, 12 leg-pose residuals and 7 gait
    parameters. Observation: `image`, and `proprioception` (18,): IMU (4), joint angles (12), gait
    phase (2). Task forward: the reward is the capped advance to the goal [m]. Task follow: as in
    training, how well speed and yaw-rate commands are followed that change every second, under
    pushes; `command` (2,) is the present one, in [-1, 1]. Terminated by a fall, a fault of the
    supervisor or at the goal, truncated when its time is up, or after 6 s without advance where no
    destination is told.

    Raises:
        UserError: as of `PixelGaitEnv`, there is no such task, or the body has no legs.
    """

    def __init__(
        self,
        scene: str,
        difficulty: float | None = None,
        image_size: tuple[int, int] | None = SIZE,
        frame_skip: int = 1,
        task: Task = "forward",
        **options: Unpack[EnvOptions],
    ) -> None:
        if task not in get_args(Task):
            raise UserError(f"unknown task '{task}', choose from {', '.join(get_args(Task))}")
        if options.get("body") == "glide":
            legs = ", ".join(BODIES)
            raise UserError(f"body 'glide' has no legs for an agent to move, choose from {legs}")
        super().__init__(scene, difficulty, image_size, frame_skip, **options)
        follows = task == "follow"
        self.task = Follow(steps=0) if follows else navigation_task(self.body.scene, steps=0)
        self.agent = Agent(self.robot)
        self._stepped: Step | None = None
        self.action_space = action_space()
        most = np.inf if options.get("faults") else LARGEST  # joints in degrees are beyond it
        self.observation_space = spaces.Dict({**self.seen_space(), **felt_space(task, most)})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Lay the scene out from the seed, or from the next number of the environment's own."""
        episode = self.begin(seed)
        self.task.reset(self.body, episode)
        self.agent.reset()
        self._command()
        return self._observe(), {"seed": episode}

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        """Apply one action (19,); values beyond [-1, 1] are clipped.

        Raises:
            UserError: it is of another shape.
        """
        result, self._stepped = self._stepped, None
        return result or side_by_side(self.robot, [self.stepping(action)])[0]

    def step_ahead(self, result: Step) -> None:
        """Let the next `step` return what `stepping` has come to."""
        self._stepped = result

    def stepping(self, action: NDArray[np.floating[Any]]) -> Stepping:
        """The same in parts, between which others may do theirs; see `side_by_side`."""
        self.agent.action = as_action(action, (OUTPUT_SIZE,))
        total, over = 0.0, False
        for _ in range(self.frame_skip):
            ages = self.body.ages()
            corrected_command = self.agent.corrected_command(self._latent(), self.reading, ages)
            angles = self.agent.supervisor.filtered(self.reading.joint_angles)
            low_level_output = yield (
                corrected_command,
                self.agent.action,
                self.agent.carried,
                angles,
            )
            command = self.agent.supervise(low_level_output, self.reading, ages)
            yield None
            self.body.apply(command)
            yield None
            self.reading = self.body.read()
            self.advance()
            yield None
            reward, over = self.task.step(self.body)
            total += reward
            over = over or self.agent.supervisor.fault is not None
            self._command()
            yield None
            if over or self.time_is_up():
                break
        x, y, _ = self.body.pose()[0]
        info = {"x_m": x, "y_m": y, "fell": fallen(self.body)}
        stuck = self.task.stuck and self.agent.supervisor.fault is None
        late = stuck or self.time_is_up()
        return self._observe(), float(total), bool(over and not stuck), late, info

    def _latent(self) -> Array:
        return self.task.latent if isinstance(self.task, Follow) else NO_LATENT

    def _command(self) -> None:
        """A new command every second, as in training."""
        if isinstance(self.task, Follow) and self.steps % Follow.COMMAND_STEPS == 0:
            self.task.command(None)

    def _observe(self) -> Observation:
        phase, reading = self.agent.phase, self.reading
        x = features(NO_LATENT, imu_vector(reading), reading.joint_angles, phase)
        seen = {**self.seen(), "proprioception": np.asarray(x[LATENT_SIZE:], dtype=np.float32)}
        if isinstance(self.task, Follow):
            seen["command"] = self.task.latent.astype(np.float32)
        return seen


def side_by_side(spec: RobotSpec, steps: Sequence[Stepping]) -> list[Step]:
    """What the steps of several environments come to, each part of all of them before the next.

    One after the other, code and data of every part would be out of the processor's caches by the
    time that the next environment needs them, which costs a tenth. And gaits are computed at once.
    """
    results: list[Any] = [None] * len(steps)
    going, told = list(range(len(steps))), list(results)
    while going:
        corrected_command = {}
        for place in going:
            try:
                corrected_command[place] = steps[place].send(told[place])
            except StopIteration as end:
                results[place] = end.value
        going, told = list(corrected_command), _gaits(spec, corrected_command, len(steps))
    return results


def _gaits(spec: RobotSpec, corrected_command: Mapping[int, Asked], steps: int) -> list[Any]:
    """What `act` says to each of so many steps that has asked; all are at the same part."""
    told: list[Any] = [None] * steps
    rows = [row for row in corrected_command.values() if row is not None]
    if rows:
        low_level_output = act(spec, *map(np.array, zip(*rows, strict=True)))
        for place, targets, carried in zip(corrected_command, *low_level_output, strict=True):
            told[place] = targets, carried
    return told


class Agent(Controller):
    """The controller of a robot whose low level acts as it is told: by `action` (19,)."""

    def __init__(self, spec: RobotSpec) -> None:
        super().__init__(no_high_level, self._act, Supervisor(spec))
        self.spec, self.action = spec, np.zeros(OUTPUT_SIZE)

    def begin(self) -> None:
        """See `Controller`; what is carried has its size from the first step on."""
        super().begin()
        self.carried = begun(self.spec, self.carried)

    def _act(
        self, latent: Array, imu: Array, joint_angles: Array, carried: Array
    ) -> tuple[Array, Array]:
        return act(self.spec, latent, self.action, carried, joint_angles)


def action_space() -> Any:
    """The `Box` of what a low level puts out, (19,)."""
    return spaces.Box(-1.0, 1.0, (OUTPUT_SIZE,), np.float32)


def felt_space(task: Task, largest: float = LARGEST) -> dict[str, spaces.Space[Any]]:
    """`proprioception` (18,), and the `command` (2,) that is followed."""
    sizes = {"proprioception": (INPUT_SIZE - LATENT_SIZE, largest)}
    if task == "follow":
        sizes["command"] = (LATENT_SIZE, 1.0)
    return {n: spaces.Box(-most, most, (size,), np.float32) for n, (size, most) in sizes.items()}
