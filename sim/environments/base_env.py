"""What all Gymnasium environments here share: a robot in a scene with a camera, and pictures."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.control.observation import goal_vector, policy_image
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.spec import A1, find_robot
from pixelgait.sim.body.camera import CHANNELS, Camera, Kind
from pixelgait.sim.body.faults import parse_faults, require_time
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.environments.argument_checks import (
    check_blind,
    check_eyes,
    check_faults,
    check_names,
    check_render_mode,
    check_switches,
    check_times,
)
from pixelgait.sim.scenes.registry import MEDIUM, is_graded, make_scene
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import TRAINING, another_seed

SIZE = 36, 36  # of an image [pixels]: the least that the CNN of Mnih et al. (2015) takes
CAMERA_STEPS = 3  # from one frame of a 30 Hz camera to the next
Observation = dict[str, Any]
Infos = dict[str, Any]  # of many environments


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
        check_names(scene=scene, robot=robot, body=body, camera=camera)
        check_switches(randomise=randomise, goal=goal)
        check_faults(faults)
        check_render_mode(render_mode, self.metadata["render_modes"])
        check_times(frame_skip, seconds)
        check_eyes(image_size, camera, field_of_view_rad)
        wrong = parse_faults(tuple(faults))
        require_time(wrong, seconds)
        if image_size is None:
            check_blind(camera, appearance, field_of_view_rad, render_mode, wrong)
        if body == "glide" and faults:
            raise UserError("faults are of sensors that body 'glide' does not have")
        self.render_mode, self.frame_skip = render_mode, frame_skip
        rate = max(1, round(1.0 / (frame_skip * CONTROL_DT_S)))  # one picture a step
        self.metadata = {**self.metadata, "render_fps": rate}
        self._last_step = round(seconds / CONTROL_DT_S)
        self.robot = spec = find_robot(robot)
        self.sees, self.told = image_size is not None, goal
        height, width = image_size or SIZE
        eye = Camera(spec.camera, width, height, camera).with_field_of_view(field_of_view_rad)
        place = _place(scene, difficulty, appearance, goal)
        ranges = Randomisation() if randomise else None
        if body == "glide":
            self.body: Any = KinematicBody(spec, place, camera=eye, randomisation=ranges)
        else:
            self.body = make_body(body, spec, place, camera=eye, randomisation=ranges, faults=wrong)
        self.channels = CHANNELS[camera]
        self._like = TRAINING[0]  # the seed given last
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
        """Lay the scene out from the seed, or from the next number of the environment's own.

        That has the use of the seed that was given last: who begins with one of evaluation is not
        given any of training.
        """
        super().reset(seed=seed)
        self._like = self._like if seed is None else seed
        self.seed = another_seed(self.np_random, self._like) if seed is None else seed
        self.reading: Reading = self.body.reset(self.seed)
        self.steps = 0
        return self.seed

    def advance(self) -> None:
        """Another control step has been taken; every third has a new frame."""
        self.steps += 1
        if self.sees and self.frame_skip < CAMERA_STEPS and self.steps % CAMERA_STEPS == 0:
            self._appearance()

    def _appearance(self) -> None:
        self._image = policy_image(self.reading.image().pixels)

    def seen(self) -> Observation:
        """The newest frame, and where the destination is."""
        seen: Observation = {}
        if self.sees:
            if self.steps == 0 or self.frame_skip >= CAMERA_STEPS:
                self._appearance()
            seen["image"] = self._image.copy()
        odometry = self.reading.odometry
        if self.told and odometry is not None:  # no simulated robot is without
            goal = goal_vector(self.body.scene.goal_position, odometry)
            seen["goal"] = goal.astype(np.float32)
        return seen

    def time_is_up(self) -> bool:
        """Whether the episode has lasted for `seconds`."""
        return self.steps >= self._last_step

    def render(self) -> NDArray[np.uint8] | None:
        """The robot from behind (320, 480, 3), or what its camera sees (H, W, 3)."""
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
    """An agent's controller is never asked to look."""
    raise NotImplementedError("the agent decides")


def _place(scene: str, difficulty: float | None, appearance: AppearanceOption, goal: bool) -> Scene:
    if difficulty is not None and not is_graded(scene):
        raise UserError(f"difficulty is nothing to scene '{scene}': it has but one")
    graded = MEDIUM if difficulty is None else difficulty
    place = make_scene(scene, graded, appearance)
    if goal and not place.has_goal_position:
        raise UserError(f"goal: scene '{scene}' tells no destination, as rooms does")
    return place
