"""Gymnasium environments over the same bodies, tasks and low level that the ES trainer uses.

Registered on import: `gymnasium.make("pixelgait.sim.envs:PixelGait/ObstacleCourse-v0")`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.interface import Reading
from pixelgait.robot.low_level import INPUT_SIZE, LATENT_SIZE, OUTPUT_SIZE, act, features
from pixelgait.robot.observation import imu_vector, policy_image
from pixelgait.robot.spec import A1, Array
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.body.camera import CHANNELS, Camera, Kind
from pixelgait.sim.body.faults import parse_faults
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.distractors import Split
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.navigate import way_through
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.seeds import TRAINING

NO_LATENT = np.zeros(LATENT_SIZE)  # an agent asks for motions, not for speeds
Observation = dict[str, Any]  # image (32, 32, 3) uint8, proprioception (18,) float32


class GaitEnv(gymnasium.Env[Observation, NDArray[np.floating[Any]]]):
    """One control step (10 ms) per step; the reward is the capped advance to the goal [m].

    Action (19,) in [-1, 1]: what the low level puts out, 12 leg-pose residuals and 7 gait
    parameters. Observation: `image` (32, 32, C) uint8, the newest of a 30 Hz camera (C is 3 for
    rgb, 1 for depth and 4 for rgbd; depth as `depth_bytes`), and `proprioception` (18,): IMU (4),
    joint angles (12), gait phase (2). Terminated by a fall, a fault of the supervisor or at the
    goal; truncation is left to Gymnasium's TimeLimit. `faults` as in pixelgait-eval --faults.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (Gymnasium's name)
    CAMERA_STEPS = 3

    def __init__(
        self,
        scene: str,
        difficulty: float = 0.5,
        render_mode: str | None = None,
        distractors: Split | None = None,
        camera: Kind = "rgb",
        body: str = "pybullet",
        randomise: bool = False,
        faults: tuple[str, ...] = (),
    ) -> None:
        self.render_mode = render_mode
        self.body = make_body(
            body,
            A1,
            make_scene(scene, difficulty, distractors),
            camera=Camera(A1.camera, kind=camera),
            randomisation=Randomisation() if randomise else None,
            faults=parse_faults(faults),
        )
        self.task = way_through(self.body.scene, steps=0)
        self.controller = Controller(_no_high_level, self._act, Supervisor(A1))
        self.action_space = spaces.Box(-1.0, 1.0, (OUTPUT_SIZE,), np.float32)
        shape = (self.body.camera.height, self.body.camera.width, CHANNELS[camera])
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, shape, np.uint8),
                "proprioception": spaces.Box(
                    -100.0, 100.0, (INPUT_SIZE - LATENT_SIZE,), np.float32
                ),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Lay the scene out from the seed, or from the next number of the environment's own."""
        super().reset(seed=seed)
        episode = seed if seed is not None else int(self.np_random.integers(len(TRAINING)))
        self.reading = self.body.reset(episode)
        self.task.reset(self.body, episode)
        self.controller.reset()
        self.steps = 0
        return self._observe(), {"seed": episode}

    def step(
        self, action: NDArray[np.floating[Any]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply one action (19,); values beyond [-1, 1] are clipped."""
        self._action = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        self.body.apply(self.controller.follow(NO_LATENT, self.reading, self.body.ages()))
        self.reading = self.body.read()
        self.steps += 1
        reward, over = self.task.step(self.body)
        over = over or self.controller.supervisor.fault is not None
        x, y, _ = self.body.pose()[0]
        info = {"x_m": x, "y_m": y, "fell": fallen(self.body)}
        return self._observe(), float(reward), bool(over), False, info

    def render(self) -> NDArray[np.uint8] | None:
        """What the camera, as it sits in this episode, sees in colour: (H, W, 3) of any kind."""
        return self.body.render_rgb() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Free the simulator."""
        self.body.close()

    def _act(
        self, latent: Array, imu: Array, joint_angles: Array, phase: Array
    ) -> tuple[Array, Array]:
        """The controller's low level: what the agent asked for."""
        return act(A1, latent, self._action, phase)

    def _observe(self) -> Observation:
        if self.steps % self.CAMERA_STEPS == 0:
            self._image = policy_image(self.reading.image().pixels)
        return {"image": self._image.copy(), "proprioception": self._proprioception(self.reading)}

    def _proprioception(self, reading: Reading) -> NDArray[np.float32]:
        phase = self.controller.phase
        x = features(NO_LATENT, imu_vector(reading), reading.joint_angles, phase)
        return np.asarray(x[LATENT_SIZE:], dtype=np.float32)


def _no_high_level(*_: object) -> Decision:
    raise NotImplementedError("the agent decides")


gymnasium.register(
    "PixelGait/Walk-v0",
    entry_point="pixelgait.sim.envs:GaitEnv",
    kwargs={"scene": "flat"},
    max_episode_steps=1000,
)
gymnasium.register(
    "PixelGait/ObstacleCourse-v0",
    entry_point="pixelgait.sim.envs:GaitEnv",
    kwargs={"scene": "obstacle-course"},
    max_episode_steps=6000,
)
