"""Options of pixelgait-eval, and the checks which of them go together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from pixelgait.policies.evaluation.baselines import BLIND_BASELINES, Baseline
from pixelgait.policies.runs.run import files_of
from pixelgait.robot.bundle import SHIPPED, Bundle, find_bundle
from pixelgait.robot.cli.options import (
    LARGEST_SEED,
    Episodes,
    Range,
    Seed,
    check_outputs,
    check_values,
)
from pixelgait.robot.control.low_level import OMNI
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import moved_robot
from pixelgait.sim.body.camera import CHANNELS
from pixelgait.sim.body.faults import require_camera, require_time
from pixelgait.sim.options import DisturbanceOptions, SceneOptions, WorkerOptions, check_film
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import Move, moved_scene
from pixelgait.sim.scenes.uneven_ground import Rough
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, TRAINING, VALIDATION, ranges_of

MOST_S = 3600.0  # of an episode


@dataclass(frozen=True)
class EvalConfig(DisturbanceOptions, SceneOptions, WorkerOptions):
    """Evaluate a policy bundle over many episodes, with 95 % intervals and baselines.

    Task forward: how far the robot walks through the scene by its camera; indoors, whether it stops
    at the goal position. Task follow: how well the low level tracks velocity commands that change
    every second, under pushes (scene flat or rough). Task climb: whether it walks straight ahead to
    the scene's goal, at 0.3 to 0.55 m/s (scene kerb, steps, ramps or rough).

    A baseline keeps the low level and replaces the images or decisions of the high level. Ctrl-C
    ends the evaluation with the figures of the episodes that are done.
    """

    APART = (*WorkerOptions.APART, ("--gui", "--workers"), ("--gui", "--cluster"))

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE|RUN")]
    """Folder of a policy bundle or of a training run, or the name of a shipped bundle."""
    task: Literal["forward", "follow", "climb"] = "forward"
    """Task to evaluate: see above."""
    climb: Annotated[float, Range(0.0, 1.0)] = 1.0
    """Climb command of task climb, for an omnidirectional low level."""
    baseline: Baseline | None = None
    """Instead of the policy: blind (a grey image), freeze-image (the first image of the episode),
    no-goal (the goal is always straight ahead), forgetful (no memory), straight (turn to the goal
    and walk, without a camera), bug (the same, and along walls in the way), teacher (a map instead
    of a camera) or random (random commands)."""
    episodes: Episodes = 100
    """Number of episodes."""
    seed: Seed = FIRST_EVALUATION_SEED
    """Seed of the first episode; seeds from 10000 on are never used for training."""
    seconds: Annotated[float, Range(CONTROL_DT_S, MOST_S)] = 60.0
    """Longest episode [s]."""
    body: str = "pybullet"
    """Simulator: pybullet or mujoco."""
    odometry: Literal["simulated", "legs"] = "simulated"
    """Odometry: the simulator's (with --randomise it drifts), or the robot's own, by its legs and
    IMU, with the noise of encoders; its errors are then measured."""
    robot: str | None = None
    """Robot, or robot file (.yaml), that the bundle must be for; by default the one it names."""
    camera_pitch: Annotated[float, Range(-45.0, 45.0)] = 0.0
    """Additional pitch of the camera, downwards [degrees]."""
    camera_roll: Annotated[float, Range(-180.0, 180.0)] = 0.0
    """Additional roll of the camera, clockwise about its line of sight [degrees]."""
    guard: bool = False
    """Stand before obstacles on the commanded path that depth has shown, as with the parameter
    collision_guard of pixelgait-run: the local map then is in the films."""
    json: Path | None = None
    """Write the figures to this file."""
    video: Path | None = None
    """Film the first episode to this file (.mp4 or .gif; .png for a strip of frames)."""
    video_episodes: Annotated[int, Range(1, 16)] = 1
    """Number of episodes in the film, side by side."""
    gui: bool = False
    """Show the episodes in the simulator's window, one after the other, in real time."""

    def check(self) -> None:
        """Raises UserError if a value is invalid, or an output file cannot be written."""
        check_values(self)
        episodes = max(self.episodes, self.video_episodes)
        if self.seed + episodes - 1 > LARGEST_SEED:
            raise UserError(
                f"{episodes} episodes from --seed {self.seed} on: the last is {LARGEST_SEED}"
            )
        require_time(self.make_faults(), self.seconds)
        if self.task != "forward":
            self._check_appearance(f"--task {self.task}")
        elif self.baseline in (*BLIND_BASELINES, "blind"):
            self._check_appearance(f"--baseline {self.baseline}")
        open_ground = self.scene in (FlatGround.name, Rough.name) and self.baseline is None
        if self.task == "follow" and not open_ground:
            raise UserError("--task follow needs --scene flat or rough, and no --baseline")
        if self.task == "climb" and (self.baseline or _is_endless(self.make_scene())):
            raise UserError("--task climb needs a --scene with a goal line, and no --baseline")
        if self.task != "climb" and self.climb != EvalConfig.climb:
            raise UserError("--climb has no effect without --task climb")
        check_film(self.video)
        if self.video is None and self.video_episodes != 1:
            raise UserError("--video-episodes has no effect without --video")
        if self.gui:
            from pixelgait.sim.viewing.live_view import require_display

            require_display()
        check_outputs(("json", self.json), ("video", self.video), inputs=self._read())

    def _read(self) -> list[Path]:
        """Files that are read, and must not be overwritten."""
        named = [Path(self.bundle), SHIPPED / self.bundle]

        def note(path: Path) -> Path:
            named.append(path)
            return path

        moved_scene(self.scene, note)
        if self.delays_from is not None:
            named.append(self.delays_from)
        return [file for path in named for file in (path, *files_of(path))]

    def check_bundle(self, bundle: Bundle) -> None:
        """Raises UserError if an option has no effect with the bundle."""
        if self.baseline == "bug" and not self.make_scene().has_goal_position:
            raise UserError(
                f"--baseline bug: scene '{self.scene}' has no goal position, as rooms has"
            )
        kind = bundle.contract["low_level"]["kind"]
        if self.climb != EvalConfig.climb and kind != OMNI.kind:
            raise UserError(f"--climb has no effect: this low level is '{kind}', not '{OMNI.kind}'")
        if self.task != "forward" or self.baseline in BLIND_BASELINES:
            return
        if self.baseline == "no-goal" and not {"goal", "ahead"} & set(bundle.takes):
            raise UserError("--baseline no-goal: this policy has no goal input")
        if "ahead" in bundle.takes and self.make_scene().has_goal_position:
            raise UserError(
                f"--scene {self.scene} has a goal position, the policy only walks ahead"
            )
        if self.baseline == "forgetful" and "state" not in bundle.takes:
            raise UserError("--baseline forgetful: this policy has no memory")
        if not _uses_images(bundle):
            if self.baseline in ("blind", "freeze-image"):
                raise UserError(f"--baseline {self.baseline}: this policy uses no images")
            self._check_appearance("this policy")

    def note(self, bundle: Bundle) -> str | None:
        """A line on options that may not be meant.

        A user's scene without a goal, an appearance for a depth policy, or a policy with a goal
        input in a scene without a goal position.
        """
        if self.scene.endswith(".py") and _is_endless(self.make_scene()):
            return f"note: scene '{self.scene}' has no goal_m, so there is no success rate"
        if self.appearance in ("train", "test") and bundle.image_shape[2] == CHANNELS["depth"]:
            return "note: --appearance has no effect: this policy sees depth only"
        sees = self.task == "forward" and self.baseline not in (*BLIND_BASELINES, "no-goal")
        if not sees or "goal" not in bundle.takes or self.make_scene().has_goal_position:
            return None
        return f"note: this policy has a goal input, but scene '{self.scene}' has no goal position"

    def seeds_of(self) -> list[str]:
        """Uses of the episodes' seeds, see `ranges_of`."""
        return ranges_of(range(self.seed, self.seed + self.episodes))

    def seed_warning(self) -> str | None:
        """A warning if a policy may have been trained on these episodes."""
        if self.seeds_of() == ["evaluation"]:
            return None
        return (
            f"warning: seeds below {len(TRAINING)} are for training, {VALIDATION[0]} to "
            f"{VALIDATION[-1]} for validation: the policy may have been trained on these episodes; "
            f"take --seed {FIRST_EVALUATION_SEED} or above"
        )

    def _check_appearance(self, who: str) -> None:
        """Raises UserError if images shall be changed although `who` uses none."""
        changed = {
            "camera-pitch": self.camera_pitch != 0.0,
            "camera-roll": self.camera_roll != 0.0,
            "appearance": self.appearance != "nominal",
        }
        for name, given in changed.items():
            if given:
                raise UserError(f"--{name} has no effect: {who} uses no images")
        require_camera(self.make_faults(), who)

    def moved(self, move: Move) -> EvalConfig:
        """A copy of these options, for files that `move` moves."""
        return replace(
            self,
            bundle=str(move(find_bundle(self.bundle))),
            scene=moved_scene(self.scene, move),
            delays_from=self.delays_from and move(self.delays_from),
            robot=self.robot and moved_robot(self.robot, move),
        )


def _is_endless(scene: Scene) -> bool:
    """Whether a scene has neither a goal line nor a goal position."""
    return math.isinf(scene.goal_m) and not scene.has_goal_position


def _uses_images(bundle: Bundle) -> bool:
    """Whether a bundle's high level uses its images: noise and darkness give different outputs."""
    noise = np.random.default_rng(0).integers(0, 256, bundle.image_shape, np.uint8)
    first, second = (bundle.high_level(image) for image in (noise, np.zeros_like(noise)))
    outputs = (first.latent, second.latent), (first.attention, second.attention)
    return not all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in outputs)
