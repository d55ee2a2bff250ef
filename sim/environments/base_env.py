"""Base class of the Gymnasium environments: a robot with a camera in a scene, and pictures."""

from __future__ import annotations

import math
from typing import Any, TypedDict

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.control.observation import goal_vector, policy_image
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.spec import A1, Array, find_robot
from pixelgait.sim.body.camera import CHANNELS, Camera, Kind
from pixelgait.sim.body.faults import parse_faults, require_camera, require_time
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.registry import MEDIUM, is_graded, make_scene
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import TRAINING, another_seed

SIZE = 36, 36  # (height, width) of an image [pixels]: the least the CNN of Mnih et al. (2015) takes
LARGEST_IMAGE = 1024  # pixels a side, as in pixelgait-sim
CAMERA_STEPS = 3  # control steps from one frame of a 30 Hz camera to the next
MAX_FRAME_SKIP = 6000  # control steps: a minute
LONGEST_S = 3600.0
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
