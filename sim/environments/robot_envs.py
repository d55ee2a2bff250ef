"""Gymnasium environments of one robot in a scene; the agent replaces its low or high level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.bundle import load_bundle, shipped_low_level
from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.low_level import (
    INPUT_SIZE,
    LATENT_SIZE,
    OUTPUT_SIZE,
    act,
    completed,
    felt,
)
from pixelgait.robot.control.observation import goal_vector, policy_image
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, Array, RobotSpec, find_robot
from pixelgait.sim.body.camera import CHANNELS, Camera, Kind
from pixelgait.sim.body.faults import parse_faults, require_camera, require_time
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.registry import MEDIUM, is_graded, make_scene
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import TRAINING, another_seed

if TYPE_CHECKING:
    from typing_extensions import Unpack

SIZE = 36, 36  # (height, width) of an image [pixels]: the least the CNN of Mnih et al. (2015) takes
LARGEST_IMAGE = 1024  # pixels a side, as in pixelgait-sim
CAMERA_STEPS = 3  # control steps from one frame of a 30 Hz camera to the next
MAX_FRAME_SKIP = 6000  # control steps: a minute
LONGEST_S = 3600.0
LARGEST = 100.0  # bound of what working sensors measure [rad], [rad/s]
NO_LATENT = np.zeros(LATENT_SIZE)  # the agent's motions do not depend on a latent command
TaskName = Literal["forward", "follow"]
Observation = dict[str, Any]


class EnvOptions(TypedDict, total=False):
    """Options of every environment beside its scene; see `PixelGaitEnv`."""

    robot: str
    render_mode: str | None
    appearance: AppearanceOption
    camera: Kind
    body: str
    randomise: bool
    faults: tuple[str, ...]
    field_of_view_rad: float | None
    goal: bool
    seconds: float


class PixelGaitEnv(gymnasium.Env[Observation, NDArray[np.floating[Any]]]):
    """A robot in a scene with a camera. Subclasses define the task, action and observation.

    Args:
        scene: name of a scene, or a Python file with one.
        difficulty: 0 to 1; None: medium.
        image_size: (height, width) [pixels]; None: no image.
        frame_skip: control steps (10 ms) of an action, whose rewards add up.
        robot: name of the robot.
        render_mode: "rgb_array" (robot from behind) or "camera" (its camera's view, in colour).
        appearance: nominal, train or test, as pixelgait-eval --appearance.
        camera: rgb, depth or rgbd.
        body: pybullet, mujoco, or glide (no legs).
        randomise: domain randomisation, drawn anew every episode.
        faults: sensor faults, as pixelgait-eval --faults.
        field_of_view_rad: vertical; None: as the robot's camera.
        goal: add distance and bearing of the scene's goal position, from odometry.
        seconds: an episode is truncated after this simulated time.

    Raises:
        UserError: if a value is invalid or two exclude each other.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "camera"]}  # noqa: RUF012
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
        appearance: AppearanceOption = "nominal",
        camera: Kind = "rgb",
        body: str = "pybullet",
        randomise: bool = False,
        faults: tuple[str, ...] = (),
        field_of_view_rad: float | None = None,
        goal: bool = False,
        seconds: float = 60.0,
    ) -> None:
        _require_one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        _require_one_of("camera", camera, CHANNELS)
        check_times(frame_skip, seconds)
        _check_image(image_size, field_of_view_rad)
        parsed_faults = parse_faults(tuple(faults))
        require_time(parsed_faults, seconds)
        if image_size is None:
            unused_lens = field_of_view_rad is not None and render_mode != "camera"
            if appearance != "nominal" or camera != "rgb" or unused_lens:
                raise UserError(
                    "image_size is None: appearance, camera and field_of_view_rad have no effect"
                )
            require_camera(parsed_faults, "the agent")
        if body == "glide" and faults:
            raise UserError("faults have no effect with body 'glide': it has no such sensors")
        self.render_mode, self.frame_skip = render_mode, frame_skip
        rate = max(1, round(1.0 / (frame_skip * CONTROL_DT_S)))  # one picture a step
        self.metadata = {**self.metadata, "render_fps": rate}
        self._last_step = round(seconds / CONTROL_DT_S)
        self.robot = spec = find_robot(robot)
        self.has_image, self.has_goal = image_size is not None, goal
        height, width = image_size or SIZE
        lens = Camera(spec.camera, width, height, camera).with_field_of_view(field_of_view_rad)
        place = _make_scene(scene, difficulty, appearance, goal)
        ranges = Randomisation() if randomise else None
        if body == "glide":
            self.body: Any = KinematicBody(spec, place, camera=lens, randomisation=ranges)
        else:
            self.body = make_body(
                body, spec, place, camera=lens, randomisation=ranges, faults=parsed_faults
            )
        self.channels = CHANNELS[camera]
        self._last_given_seed = TRAINING[0]
        self._renderer: Any = None

    def shared_spaces(self) -> dict[str, spaces.Space[Any]]:
        """Spaces of `image` (H, W, C) uint8 and `goal` (2,) [m, rad], where there are such."""
        shape = (self.body.camera.height, self.body.camera.width, self.channels)
        by_name: dict[str, spaces.Space[Any]] = {}
        if self.has_image:
            by_name["image"] = spaces.Box(0, 255, shape, np.uint8)
        if self.has_goal:
            most = np.array((np.inf, np.pi), np.float32)
            by_name["goal"] = spaces.Box(np.array((0.0, -np.pi), np.float32), most)
        return by_name

    def start_episode(self, seed: int | None) -> int:
        """Reset the body with this seed, or with the next of the environment's own generator.

        A seed drawn there has the use (training, validation, evaluation) of the seed given last:
        an environment that began with an evaluation seed never gets one of training.
        """
        super().reset(seed=seed)
        self._last_given_seed = self._last_given_seed if seed is None else seed
        self.seed = another_seed(self.np_random, self._last_given_seed) if seed is None else seed
        self.reading: Reading = self.body.reset(self.seed)
        self.steps = 0
        return self.seed

    def count_step(self) -> None:
        """Count a control step; every third one has a new camera frame."""
        self.steps += 1
        if self.has_image and self.frame_skip < CAMERA_STEPS and self.steps % CAMERA_STEPS == 0:
            self._grab_image()

    def _grab_image(self) -> None:
        self._image = policy_image(self.reading.image().pixels)

    def shared_observation(self) -> Observation:
        """The newest frame and the goal, as in `shared_spaces`."""
        observation: Observation = {}
        if self.has_image:
            if self.steps == 0 or self.frame_skip >= CAMERA_STEPS:
                self._grab_image()
            observation["image"] = self._image.copy()
        odometry = self.reading.odometry
        if self.has_goal and odometry is not None:  # every simulated robot has odometry
            goal = goal_vector(self.body.scene.goal_position, odometry)
            observation["goal"] = goal.astype(np.float32)
        return observation

    def time_is_up(self) -> bool:
        """Whether the episode has lasted for `seconds`."""
        return self.steps >= self._last_step

    def render(self) -> NDArray[np.uint8] | None:
        """The robot from behind (320, 480, 3), or its camera's view (H, W, 3)."""
        if self.render_mode == "camera":
            return np.asarray(self.body.render_rgb())
        return self._from_behind() if self.render_mode == "rgb_array" else None

    def _from_behind(self) -> NDArray[np.uint8]:
        from pixelgait.sim.viewing.video import SceneRenderer

        if self._renderer is None:
            self._renderer = SceneRenderer(self.robot, self.body.scene, self.seed)
        self._renderer.lay_out(self.seed)
        self._renderer.scene.move(self.body.time_s)
        position, orientation = map(np.array, self.body.pose())
        joints = self.body.joint_angles()
        frame: NDArray[np.uint8] = self._renderer.frame(position, orientation, joints, None)
        return frame

    def close(self) -> None:
        """Free the simulators."""
        self.body.close()
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


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
        proprioception = felt(NO_LATENT, reading, phase)[LATENT_SIZE:].astype(np.float32)
        observation = {**self.shared_observation(), "proprioception": proprioception}
        if isinstance(self.task, Follow):
            observation["command"] = self.task.latent.astype(np.float32)
        return observation


class Agent(Controller):
    """A controller whose low level outputs `action` (19,)."""

    def __init__(self, spec: RobotSpec) -> None:
        super().__init__(no_high_level, self._act, Supervisor(spec))
        self.spec, self.action = spec, np.zeros(OUTPUT_SIZE)

    def _act(self, latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        carried = completed(self.spec, carried)
        return act(self.spec, latent, self.action, carried, reading.joint_angles)


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
            if not bundle.legs.gait:
                raise UserError(f"low_level '{name}' is a walker's, expected the gait generator's")
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


def action_space() -> Any:
    """The `Box` of a low level's outputs, (19,)."""
    return spaces.Box(-1.0, 1.0, (OUTPUT_SIZE,), np.float32)


def felt_space(task: TaskName, largest: float = LARGEST) -> dict[str, spaces.Space[Any]]:
    """Spaces of `proprioception` (18,) and, in task follow, `command` (2,)."""
    sizes = {"proprioception": (INPUT_SIZE - LATENT_SIZE, largest)}
    if task == "follow":
        sizes["command"] = (LATENT_SIZE, 1.0)
    return {n: spaces.Box(-most, most, (size,), np.float32) for n, (size, most) in sizes.items()}


def no_high_level(*_: object) -> Decision:
    """A high level that must never be called: the agent takes its place."""
    raise NotImplementedError("the agent decides")


def check_times(frame_skip: int, seconds: float) -> None:
    """Raises UserError if an action or an episode cannot last that long."""
    if not 1 <= frame_skip <= MAX_FRAME_SKIP or int(frame_skip) != frame_skip:
        raise UserError(f"frame_skip is {frame_skip!r}, expected an integer 1 to {MAX_FRAME_SKIP}")
    if not CONTROL_DT_S <= seconds <= LONGEST_S:
        raise UserError(f"seconds is {seconds!r}, expected {CONTROL_DT_S} to {LONGEST_S:g}")


def as_action(given: object, shape: tuple[int, ...]) -> Array:
    """An agent's action of this shape, clipped to [-1, 1].

    Raises:
        UserError: if its shape differs or it contains nan.
    """
    action = np.asarray(given, dtype=np.float64)
    if action.shape != shape:
        raise UserError(f"action has shape {action.shape}, expected {shape}")
    clipped = np.minimum(np.maximum(action, -1.0), 1.0)  # np.clip takes twice as long
    if math.isnan(clipped.sum()):  # a gliding robot would be nowhere, at full reward
        raise UserError("action contains nan: the policy has diverged")
    return clipped


def _require_one_of(option: str, value: Any, choices: Any) -> None:
    if value not in choices:
        known = ", ".join(choice for choice in choices if choice is not None)
        raise UserError(f"unknown {option} {value!r}, choose from {known}")


def _check_image(image_size: tuple[int, int] | None, field_of_view_rad: float | None) -> None:
    if image_size is not None:
        sides = range(1, LARGEST_IMAGE + 1)
        if np.shape(image_size) != (2,) or not all(side in sides for side in image_size):
            raise UserError(
                f"image_size is {image_size!r}, expected (height, width) from 1 to {LARGEST_IMAGE}"
            )
    if field_of_view_rad is not None and not 0.0 < field_of_view_rad < math.pi:
        raise UserError(f"field_of_view_rad is {field_of_view_rad!r}, expected between 0 and pi")


def _make_scene(
    name: str, difficulty: float | None, appearance: AppearanceOption, goal: bool
) -> Scene:
    if difficulty is not None and not is_graded(name):
        raise UserError(f"difficulty has no effect with scene '{name}'")
    scene = make_scene(name, MEDIUM if difficulty is None else difficulty, appearance)
    if goal and not scene.has_goal_position:
        raise UserError(f"goal: scene '{name}' has no goal position, as rooms has")
    return scene
