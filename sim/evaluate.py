"""pixelgait-eval: how well a policy bundle does on courses it has never seen."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from tqdm import tqdm

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.controller import Controller
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.spec import find_robot
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.baselines import Baseline, make_baseline
from pixelgait.sim.body.camera import camera_for
from pixelgait.sim.body.faults import parse_faults
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.measured_delays import make_randomisation
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.distractors import Split
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.forward import Forward
from pixelgait.sim.tasks.task import Task
from pixelgait.sim.video import record_video

Z95 = 1.96  # two-sided 95 % of a normal distribution


@dataclass(frozen=True)
class EvalConfig:
    """Evaluate a policy bundle over many episodes, with 95 % intervals and controls.

    Task forward: how far along the scene, by camera. Task follow: how well the low level follows
    speed and yaw-rate commands that change every second, under pushes (scene flat).

    The controls keep the low level and replace what the high level sees or decides: one gray image
    (--blind), the first image for ever (--freeze-image), a map instead of a camera (--teacher),
    or random commands (--random).
    """

    bundle: Annotated[str, tyro.conf.Positional]
    """Folder of a policy bundle, or the name of a shipped one."""
    scene: str = "obstacle-course"
    """One of the scenes by name: obstacle-course, flat, slalom, clutter, rough or rooms; or
    gibson:FOLDER, a house in Gibson's layout, or FILE.py, a scene of your own."""
    difficulty: float = 0.5
    """Difficulty of the scene, 0 to 1."""
    distractors: Split | None = None
    """Pictures behind the scene, other surfaces, light and camera poses, and hovering objects:
    those of the training or of the test set."""
    task: Literal["forward", "follow"] = "forward"
    randomise: bool = False
    """Draw body, motors, delays, sensor noise and the camera's flaws anew every episode."""
    delays_from: Path | None = None
    """Latency report (latency.json) whose delays --randomise shall use."""
    faults: tuple[str, ...] = ()
    """What sensors fail: SENSOR-KIND[:at=S,for=S,by=S], as in camera-frozen:at=2,for=1, several of
    them, or mixed for short ones of every kind. joints and imu: frozen, late, lost, nan, spike;
    camera: frozen, late, lost, black."""
    episodes: int = 100
    seed: int = 10_000
    """Seed of the first episode; from 10000 on no training has seen them."""
    seconds: float = 60.0
    """Longest episode."""
    workers: int = 2
    body: str = "pybullet"
    """Simulator: pybullet or mujoco."""
    robot: str | None = None
    """The robot the bundle must be for; by default the one it names."""
    blind: bool = False
    freeze_image: bool = False
    teacher: bool = False
    random: bool = False
    json: Path | None = None
    """Write the figures there."""
    video: Path | None = None
    """Film the first episode (.mp4 or .gif; .png for a strip of frames)."""

    def control(self) -> Baseline:
        """Which high level decides.

        Raises:
            UserError: more than one was asked for.
        """
        flags: dict[Baseline, bool] = {
            "blind": self.blind,
            "freeze-image": self.freeze_image,
            "teacher": self.teacher,
            "random": self.random,
        }
        chosen = [name for name, on in flags.items() if on]
        if len(chosen) > 1:
            raise UserError(f"--{' and --'.join(chosen)} exclude each other")
        return chosen[0] if chosen else "policy"


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(tyro.cli(EvalConfig, prog="pixelgait-eval")))


def report(config: EvalConfig) -> dict[str, Any]:
    """Evaluate, print the figures, and write the files asked for."""
    figures = evaluate(config)
    if config.json is not None:
        write_atomic(config.json, json_bytes(figures))
    for name, low, high in ((name, *interval) for name, interval in figures["interval_95"].items()):
        print(f"{name:<20}{figures[name]:8.2f}   [{low:.2f}, {high:.2f}]")
    print(f"{config.episodes} episodes, seeds {config.seed} to {config.seed + config.episodes - 1}")
    if config.video is not None:
        film(config, config.video)
    return figures


def film(config: EvalConfig, path: Path) -> None:
    """Film the first episode: .mp4, .gif, or .png for a strip of frames."""
    record_video(*_player(config), config.seed, path)


def evaluate(config: EvalConfig) -> dict[str, Any]:
    """Figures over all episodes, in the stable schema of the command."""
    return figures_of(run_episodes(config))


def run_episodes(config: EvalConfig) -> list[Episode]:
    """All episodes, in worker processes.

    Raises:
        UserError: bundle, scene, body or another value cannot be used.
    """
    if config.control() == "teacher" and config.distractors is not None:
        raise UserError("--teacher does not look: --distractors are nothing to it")
    for name in ("episodes", "workers"):
        if getattr(config, name) < 1:
            raise UserError(f"--{name} is {getattr(config, name)}, needs at least 1")
    on_flat = config.scene == FlatGround.name and config.control() == "policy"
    if config.task == "follow" and not on_flat:
        raise UserError("--task follow gives the commands itself: --scene flat, and no control")
    _player(config)[1].close()  # whatever cannot be used shows here, not in the workers
    seeds = range(config.seed, config.seed + config.episodes)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(config.workers, context, _start, (config,)) as pool:
        return list(tqdm(pool.map(_run, seeds), total=len(seeds), unit="episode"))


def figures_of(episodes: list[Episode]) -> dict[str, Any]:
    """Means with 95 % intervals: Wilson for rates, normal for the others.

    Measures of the task (tracking errors) stand beside the stable ones under their own names.
    """
    n = len(episodes)
    rates = {
        "success_rate": sum(e.success for e in episodes),
        "fall_rate": sum(e.fell for e in episodes),
    }
    values = {
        "distance_m": [e.distance_m for e in episodes],
        "return_m": [e.return_m for e in episodes],
        "images_per_episode": [float(e.images) for e in episodes],
    }
    for name in episodes[0].metrics:
        values[name] = [e.metrics[name] for e in episodes if name in e.metrics]
    intervals = {name: wilson(count, n) for name, count in rates.items()}
    for name, series in values.items():
        spread = float(np.std(series, ddof=1)) if len(series) > 1 else math.inf
        half = Z95 * spread / math.sqrt(len(series))
        mean = float(np.mean(series))
        intervals[name] = (mean - half, mean + half)
    return {
        **{name: count / n for name, count in rates.items()},
        **{name: float(np.mean(series)) for name, series in values.items()},
        "interval_95": {name: list(interval) for name, interval in intervals.items()},
        "episodes": [
            {
                "seed": e.seed,
                "success": bool(e.success),
                "distance_m": e.distance_m,
                "return_m": e.return_m,
                "fell": bool(e.fell),
                "images": e.images,
                "steps": e.steps,
            }
            for e in episodes
        ],
    }


def wilson(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate."""
    rate, z2 = count / n, Z95 * Z95
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _player(config: EvalConfig) -> tuple[Controller, SimulatedBody, Task]:
    """Controller, body and task of this process."""
    bundle = load_bundle(config.bundle, find_robot(config.robot) if config.robot else None)
    scene = make_scene(config.scene, config.difficulty, config.distractors)
    camera = camera_for(bundle.spec.camera, bundle.image_shape)
    randomisation = make_randomisation(config.randomise, config.delays_from)
    faults = parse_faults(config.faults)
    body = make_body(
        config.body,
        bundle.spec,
        scene,
        camera=camera,
        randomisation=randomisation,
        faults=faults,
    )
    steps = round(config.seconds / CONTROL_DT_S)
    if config.task == "follow":
        follow = Follow(steps)
        return Controller(follow.command, bundle.low_level, Supervisor(bundle.spec)), body, follow
    high_level = make_baseline(config.control(), bundle.high_level, body)
    controller = Controller(high_level, bundle.low_level, Supervisor(bundle.spec))
    return controller, body, Forward(steps)


_run_seed: Callable[[int], Episode]


def _start(config: EvalConfig) -> None:
    global _run_seed
    controller, body, task = _player(config)

    def run_seed(seed: int) -> Episode:
        return run_episode(controller, body, task, seed)

    _run_seed = run_seed


def _run(seed: int) -> Episode:
    return _run_seed(seed)


if __name__ == "__main__":
    main()
