"""Gymnasium environments over the same bodies, tasks and low level that training here uses.

Registered on import: `gymnasium.make("pixelgait.sim.envs:PixelGait/ObstacleCourse-v0")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.robot.low_level import (
    CONTROL_DT_S,
    INPUT_SIZE,
    LATENT_SIZE,
    OUTPUT_SIZE,
    act,
    features,
)
from pixelgait.robot.observation import goal_vector, imu_vector, policy_image
from pixelgait.robot.spec import A1, Array, find_robot
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.body.camera import CHANNELS, Camera, Kind
from pixelgait.sim.body.faults import parse_faults, require_eyes
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.env_options import EnvOptions, check_eyes, check_times
from pixelgait.sim.scenes.distractors import Split
from pixelgait.sim.scenes.registry import MEDIUM, is_graded, make_scene
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.forward import Forward
from pixelgait.sim.tasks.navigate import way_through
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.appearance import LooksOption
from pixelgait.sim.world.seeds import TRAINING

if TYPE_CHECKING:
    from typing_extensions import Unpack

NO_LATENT = np.zeros(LATENT_SIZE)  # an agent asks for motions, not for speeds
SIZE = 36, 36  # of an image [pixels]: the least that the CNN of Mnih et al. (2015) takes
CAMERA_STEPS = 3  # from one frame of a 30 Hz camera to the next
Task = Literal["forward", "follow"]
Observation = dict[str, Any]


class PixelGaitEnv(gymnasium.Env[Observation, NDArray[np.floating[Any]]]):
    """What all of them share: a robot in a scene with a camera, a task, and pictures of it.

    `image_size` is (height, width) [pixels], or None for no image; `field_of_view_rad` is vertical,
    by default the robot's. An action lasts `frame_skip` control steps (10 ms), and rewards add up;
    an episode is truncated after `seconds` of the robot's time.
    `render_mode` is "rgb_array", the robot from behind, or "camera", what its camera sees, in
    colour of any kind. `faults` as in pixelgait-eval --faults. With `goal` the agent is told where
    the scene's destination is, as a high level is: by its distance and bearing, from the odometry.

    Raises:
        UserError: a value cannot be used, or not with another.
    """

    metadata = {"render_modes": ["rgb_array", "camera"], "render_fps": 30}  # noqa: RUF012
    frame_skip: int

    def __init__(
        self,
        scene: str,
        difficulty: float | None,
        image_size: tuple[int, int] | None,
        frame_skip: int,
        *,
        robot: str = A1.name,
        render_mode: str | None = None,
        distractors: Split | None = None,
        looks: LooksOption = "plain",
        camera: Kind = "rgb",
        body: str = "pybullet",
        randomise: bool = False,
        faults: tuple[str, ...] = (),
        field_of_view_rad: float | None = None,
        goal: bool = False,
        seconds: float = 60.0,
    ) -> None:
        check_times(frame_skip, seconds)
        check_eyes(image_size, camera, field_of_view_rad)
        if image_size is None and (distractors is not None or looks != "plain"):
            raise UserError("image_size is None: there is no image for looks or distractors")
        wrong = parse_faults(faults)
        if image_size is None:
            require_eyes(wrong, "who has no image")
        if body == "glide" and faults:
            raise UserError("faults are of sensors that body 'glide' does not have")
        self.render_mode, self.frame_skip = render_mode, frame_skip
        self._last_step = round(seconds / CONTROL_DT_S)
        self.robot = spec = find_robot(robot)
        self.sees, self.told = image_size is not None, goal
        height, width = image_size or SIZE
        eye = Camera(spec.camera, width, height, camera).with_field_of_view(field_of_view_rad)
        if difficulty is not None and not is_graded(scene):
            raise UserError(f"difficulty is nothing to scene '{scene}': it has but one")
        graded = MEDIUM if difficulty is None else difficulty
        place, ranges = make_scene(scene, graded, distractors, looks), None
        if goal and not place.tells_destination:
            raise UserError(f"goal: scene '{scene}' tells no destination, as rooms does")
        if randomise:
            ranges = Randomisation()
        if body == "glide":
            self.body: Any = KinematicBody(spec, place, camera=eye, randomisation=ranges)
        else:
            self.body = make_body(body, spec, place, camera=eye, randomisation=ranges, faults=wrong)
        self.channels = CHANNELS[camera]
        self._renderer: Any = None

    def seen_space(self) -> dict[str, spaces.Space[Any]]:
        """`image` (H, W, C) uint8, unless there is none; `goal` (2,) [m, rad], if it is told."""
        shape = (self.body.camera.height, self.body.camera.width, self.channels)
        seen: dict[str, spaces.Space[Any]] = {}
        if self.sees:
            seen["image"] = spaces.Box(0, 255, shape, np.uint8)
        if self.told:
            most = np.array((np.inf, np.pi), np.float32)
            seen["goal"] = spaces.Box(np.array((0.0, -np.pi), np.float32), most)
        return seen

    def begin(self, seed: int | None) -> int:
        """Lay the scene out from the seed, or from the next number of the environment's own."""
        super().reset(seed=seed)
        self.seed = seed if seed is not None else int(self.np_random.integers(len(TRAINING)))
        self.reading: Reading = self.body.reset(self.seed)
        self.steps = 0
        return self.seed

    def seen(self) -> Observation:
        """The newest frame, every third control step a new one, and where the destination is."""
        seen: Observation = {}
        if self.sees:
            if self.steps % CAMERA_STEPS == 0 or self.frame_skip >= CAMERA_STEPS:
                self._image = policy_image(self.reading.image().pixels)
            seen["image"] = self._image.copy()
        odometry = self.reading.odometry
        if self.told and odometry is not None:  # no simulated robot is without
            goal = goal_vector(self.body.scene.destination, odometry)
            seen["goal"] = goal.astype(np.float32)
        return seen

    def truncated(self) -> bool:
        """Whether the episode's time is up."""
        return self.steps >= self._last_step

    def render(self) -> NDArray[np.uint8] | None:
        """The robot from behind (320, 480, 3), or what its camera sees (H, W, 3)."""
        if self.render_mode == "camera":
            return np.asarray(self.body.render_rgb())
        return self._from_behind() if self.render_mode == "rgb_array" else None

    def _from_behind(self) -> NDArray[np.uint8]:
        from pixelgait.sim.viewing.video import SceneRenderer
        from pixelgait.sim.world.seeds import Stream

        if self._renderer is None:
            self._renderer = SceneRenderer(self.robot, self.body.scene, self.seed)
        self._renderer.scene.reset(Stream.LAYOUT.rng(self.seed))
        self._renderer.scene.move(self.body.time_s)
        position, orientation = map(np.array, self.body.pose())
        joints = self.reading.joint_angles
        if isinstance(self.body, KinematicBody):
            joints = self.robot.default_pose_rad
        frame: NDArray[np.uint8] = self._renderer.frame(position, orientation, joints, None)
        return frame

    def close(self) -> None:
        """Free the simulators."""
        self.body.close()
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


class GaitEnv(PixelGaitEnv):
    """The agent is the low level, and sees: gait parameters and leg poses at 100 Hz.

    Action (19,) in [-1, 1]: what the low level puts out, 12 leg-pose residuals and 7 gait
    parameters. Observation: `image`, and `proprioception` (18,): IMU (4), joint angles (12), gait
    phase (2). Task forward: the reward is the capped advance to the goal [m]. Task follow: as in
    training, how well speed and yaw-rate commands are followed that change every second, under
    pushes; `command` (2,) is the present one, in [-1, 1]. Terminated by a fall, a fault of the
    supervisor or at the goal, truncated when its time is up.

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
        self.task: Follow | Forward = way_through(self.body.scene, steps=0)
        if task == "follow":
            self.task = Follow(steps=0)
        self.controller = Controller(no_high_level, self._act, Supervisor(self.robot))
        self.action_space = spaces.Box(-1.0, 1.0, (OUTPUT_SIZE,), np.float32)
        sizes = {"proprioception": (INPUT_SIZE - LATENT_SIZE, 100.0)}
        if task == "follow":
            sizes["command"] = (LATENT_SIZE, 1.0)
        vectors = {
            n: spaces.Box(-most, most, (size,), np.float32) for n, (size, most) in sizes.items()
        }
        self.observation_space = spaces.Dict({**self.seen_space(), **vectors})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Lay the scene out from the seed, or from the next number of the environment's own."""
        episode = self.begin(seed)
        self.task.reset(self.body, episode)
        self.controller.reset()
        self._command()
        return self._observe(), {"seed": episode}

    def step(
        self, action: NDArray[np.floating[Any]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply one action (19,); values beyond [-1, 1] are clipped."""
        self._action = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        total, over = 0.0, False
        for _ in range(self.frame_skip):
            self.body.apply(self.controller.follow(self._latent(), self.reading, self.body.ages()))
            self.reading = self.body.read()
            self.steps += 1
            reward, over = self.task.step(self.body)
            total += reward
            over = over or self.controller.supervisor.fault is not None
            self._command()
            if over:
                break
        x, y, _ = self.body.pose()[0]
        info = {"x_m": x, "y_m": y, "fell": fallen(self.body)}
        return self._observe(), float(total), bool(over), self.truncated(), info

    def _latent(self) -> Array:
        return self.task.latent if isinstance(self.task, Follow) else NO_LATENT

    def _command(self) -> None:
        """A new command every second, as in training."""
        if isinstance(self.task, Follow) and self.steps % Follow.COMMAND_STEPS == 0:
            self.task.command(None)

    def _act(
        self, latent: Array, imu: Array, joint_angles: Array, phase: Array
    ) -> tuple[Array, Array]:
        """The controller's low level: what the agent asked for."""
        return act(self.robot, latent, self._action, phase)

    def _observe(self) -> Observation:
        phase, reading = self.controller.phase, self.reading
        x = features(NO_LATENT, imu_vector(reading), reading.joint_angles, phase)
        seen = {**self.seen(), "proprioception": np.asarray(x[LATENT_SIZE:], dtype=np.float32)}
        if isinstance(self.task, Follow):
            seen["command"] = self.task.latent.astype(np.float32)
        return seen


def no_high_level(*_: object) -> Decision:
    """An agent's controller is never asked to look."""
    raise NotImplementedError("the agent decides")


def _register(name: str, entry: str, **options: Any) -> None:
    # No limit in actions: how long one of them lasts is the agent's choice.
    gymnasium.register(f"PixelGait/{name}-v0", entry_point=f"pixelgait.sim.{entry}", kwargs=options)


_register("Walk", "envs:GaitEnv", scene="flat", seconds=10.0)
_register("Follow", "envs:GaitEnv", scene="flat", seconds=10.0, task="follow", image_size=None)
_register("ObstacleCourse", "envs:GaitEnv", scene="obstacle-course")
_register("Steer", "steer_env:SteerEnv", scene="obstacle-course")
