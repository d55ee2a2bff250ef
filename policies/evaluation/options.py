"""What pixelgait-eval is asked for, and which options go together."""

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
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.sim.body.camera import CHANNELS
from pixelgait.sim.body.faults import require_camera, require_time
from pixelgait.sim.options import DisturbanceOptions, SceneOptions, WorkerOptions, check_film
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import Move, moved_scene
from pixelgait.sim.scenes.rough import Rough
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, TRAINING, VALIDATION, ranges_of

MOST_S = 3600.0  # of an episode


@dataclass(frozen=True)
class EvalConfig(DisturbanceOptions, SceneOptions, WorkerOptions):
    """Evaluate a policy bundle over many episodes, with 95 % intervals and baselines.

    Task forward: how far along the scene, by camera; indoors, whether it stops at its destination.
    Task follow: how well the low level follows
    speed and yaw-rate commands that change every second, under pushes (scene flat or rough).

    A baseline keeps the low level and replaces what the high level sees or decides. Ctrl-C ends
    the evaluation with the figures of the episodes that are done.
    """

    APART = (*WorkerOptions.APART, ("--gui", "--workers"), ("--gui", "--cluster"))

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE|RUN")]
    """Folder of a policy bundle or of a training run, or the name of a shipped bundle."""
    task: Literal["forward", "follow"] = "forward"
    """What is evaluated, see above."""
    baseline: Baseline | None = None
    """Instead of the policy: blind (one gray image), freeze-image (the first image for ever),
    no-goal (straight ahead, wherever the destination is), forgetful (nothing is remembered),
    straight (to the destination, seeing nothing), bug (so, and along the walls it meets), teacher
    (a map instead of a camera) or random (random commands)."""
    episodes: Episodes = 100
    """How many are walked, each another one."""
    seed: Seed = FIRST_EVALUATION_SEED
    """Seed of the first episode; from 10000 on no training has seen them."""
    seconds: Annotated[float, Range(CONTROL_DT_S, MOST_S)] = 60.0
    """Longest episode."""
    body: str = "pybullet"
    """Simulator: pybullet or mujoco."""
    robot: str | None = None
    """The robot the bundle must be for; by default the one it names."""
    camera_pitch: Annotated[float, Range(-45.0, 45.0)] = 0.0
    """How much further down the camera looks than the policy was made for [degrees]."""
    camera_roll: Annotated[float, Range(-180.0, 180.0)] = 0.0
    """How far to the right the camera is turned about its line of sight [degrees]."""
    json: Path | None = None
    """Write the figures there."""
    video: Path | None = None
    """Film the first episode (.mp4 or .gif; .png for a strip of frames)."""
    video_episodes: Annotated[int, Range(1, 16)] = 1
    """How many episodes the film shows, side by side."""
    gui: bool = False
    """Watch the episodes in the simulator's own window, one after the other, in real time."""

    def check(self) -> None:
        """Raises UserError if a value makes no sense, or a file cannot be written."""
        check_values(self)
        episodes = max(self.episodes, self.video_episodes)
        if self.seed + episodes - 1 > LARGEST_SEED:
            raise UserError(
                f"{episodes} episodes from --seed {self.seed} on: the last is {LARGEST_SEED}"
            )
        require_time(self.make_faults(), self.seconds)
        if self.task == "follow":
            self._check_appearance("--task follow")
        elif self.baseline in (*BLIND_BASELINES, "blind"):
            self._check_appearance(f"--baseline {self.baseline}")
        open_ground = self.scene in (FlatGround.name, Rough.name) and self.baseline is None
        if self.task == "follow" and not open_ground:
            raise UserError(
                "--task follow gives the commands itself: --scene flat or rough, no --baseline"
            )
        check_film(self.video)
        if self.video is None and self.video_episodes != 1:
            raise UserError("--video-episodes says what --video shows: give both")
        if self.gui:
            from pixelgait.sim.viewing.live_view import require_display

            require_display()
        check_outputs(("json", self.json), ("video", self.video), inputs=self._read())

    def _read(self) -> list[Path]:
        """Files that are read, and must not be written over."""
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
        if self.task == "follow" or self.baseline in BLIND_BASELINES:
            return
        if self.baseline == "no-goal" and not {"goal", "ahead"} & set(bundle.takes):
            raise UserError("--baseline no-goal: this policy is not told where to go")
        if "ahead" in bundle.takes and self.make_scene().has_goal_position:
            raise UserError(f"--scene {self.scene} tells a destination, this policy walks ahead")
        if self.baseline == "forgetful" and "state" not in bundle.takes:
            raise UserError("--baseline forgetful: this policy has no memory")
        if not _looks(bundle):
            if self.baseline in ("blind", "freeze-image"):
                raise UserError(f"--baseline {self.baseline}: this policy uses no images")
            self._check_appearance("this policy")

    def note(self, bundle: Bundle) -> str | None:
        """What may not be meant: a scene of one's own in which there is nothing to reach, looks for
        who sees none, and a policy that is told places, where there is none to tell."""
        if self.scene.endswith(".py") and _is_endless(self.make_scene()):
            return f"note: scene '{self.scene}' has no goal_m to be reached, so no success rate"
        if self.appearance in ("train", "test") and bundle.image_shape[2] == CHANNELS["depth"]:
            return "note: this policy sees depth alone, of which --appearance changes nothing"
        sees = self.task != "follow" and self.baseline not in (*BLIND_BASELINES, "no-goal")
        if not sees or "goal" not in bundle.takes or self.make_scene().has_goal_position:
            return None
        return f"note: this policy can be told a place to go to, and '{self.scene}' has none"

    def seeds_of(self) -> list[str]:
        """What the seeds of the episodes are for, see `ranges_of`."""
        return ranges_of(range(self.seed, self.seed + self.episodes))

    def seen_before(self) -> str | None:
        """What is to be known of figures on episodes that are not new to whoever was trained."""
        if self.seeds_of() == ["evaluation"]:
            return None
        return (
            f"warning: seeds below {len(TRAINING)} are of training, {VALIDATION[0]} to "
            f"{VALIDATION[-1]} of validation: a policy may have learned by these episodes; "
            f"--seed {FIRST_EVALUATION_SEED} and above are new to it"
        )

    def _check_appearance(self, who: str) -> None:
        """Raises UserError if images shall be changed although `who` uses none."""
        seen = {
            "camera-pitch": self.camera_pitch != 0.0,
            "camera-roll": self.camera_roll != 0.0,
            "appearance": self.appearance != "nominal",
        }
        for name, asked in seen.items():
            if asked:
                raise UserError(f"--{name} has no effect: {who} uses no images")
        require_camera(self.make_faults(), who)

    def moved(self, move: Move) -> EvalConfig:
        """The same, its files moved."""
        return replace(
            self,
            bundle=str(move(find_bundle(self.bundle))),
            scene=moved_scene(self.scene, move),
            delays_from=self.delays_from and move(self.delays_from),
        )


def _is_endless(scene: Scene) -> bool:
    """Whether there is nothing in it to be reached."""
    return math.isinf(scene.goal_m) and not scene.has_goal_position


def _looks(bundle: Bundle) -> bool:
    """Whether a bundle's high level looks at its images: noise is not what darkness is to it."""
    noise = np.random.default_rng(0).integers(0, 256, bundle.image_shape, np.uint8)
    first, second = (bundle.high_level(image) for image in (noise, np.zeros_like(noise)))
    outputs = (first.latent, second.latent), (first.attention, second.attention)
    return not all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in outputs)
