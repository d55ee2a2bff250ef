"""pixelgait-eval: evaluation of a policy bundle over many unseen episodes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pixelgait.policies.evaluation.baselines import make_baseline
from pixelgait.policies.evaluation.metrics import figures_of, format_figures
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.run import CONFIG, read_yaml, refuse_many, robot_of
from pixelgait.robot.bundle import CONTRACT, SHIPPED, Bundle, load_bundle, shipped_low_level
from pixelgait.robot.cli.options import parse
from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.cli.provenance import head
from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.low_level import OMNI
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import find_robot
from pixelgait.sim.body.camera import camera_of
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.leg_odometry import LegOdometryBody, with_leg_odometry
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.follow import Climb, Follow
from pixelgait.sim.tasks.local_map import SimulatedMap, with_height_scan
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.task import Task

# The console script, by its module; it reports what has to be installed.
EXPORT = "import sys; sys.argv[0] = 'pixelgait-export'; "
EXPORT += "from pixelgait.robot.cli.commands import main; main()"


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(parse(EvalConfig, "pixelgait-eval")))


def report(config: EvalConfig) -> None:
    """Evaluate, print the figures, and write the files asked for.

    Raises:
        UserError: see `run_episodes`.
        KeyboardInterrupt: on Ctrl-C, after the report on the episodes that are done, if any.
    """
    config.check()
    with as_bundle(config.bundle) as bundle:
        _report(replace(config, bundle=bundle), config.bundle)


def _report(config: EvalConfig, name: str) -> None:
    """Report on a bundle under this name."""
    bundle = load_bundle(config.bundle)
    described = {**_described(config, bundle), "bundle": name}
    if (note := config.note(bundle)) is not None:
        print(note, file=sys.stderr)
    if (warning := config.seed_warning()) is not None:
        print(warning, file=sys.stderr)
    episodes: list[Episode] = []
    try:
        for episode in watch_episodes(config) if config.gui else run_episodes(config):
            episodes.append(episode)
    except KeyboardInterrupt:
        if not episodes:
            raise
    figures = {**described, "seeds_of": config.seeds_of(), **figures_of(episodes)}
    print(format_description(figures))
    print(format_figures(figures))
    print(f"{len(episodes)} episodes, seeds {config.seed} to {episodes[-1].seed}")
    if config.json is not None:
        write_atomic(config.json, json_bytes(figures))
        print(f"wrote {config.json}")
    if len(episodes) < config.episodes:
        raise KeyboardInterrupt(f"{config.episodes} episodes were requested")
    if config.video is not None:
        film(config, config.video)
        print(f"wrote {config.video}")


def evaluate(config: EvalConfig) -> dict[str, Any]:
    """Figures over all episodes, in the schema of --json.

    Raises:
        UserError: see `run_episodes`.
    """
    figures = figures_of(list(run_episodes(config)))
    return {**describe(config), "seeds_of": config.seeds_of(), **figures}


def describe(config: EvalConfig) -> dict[str, Any]:
    """Head of the figures in JSON: the options and the versions.

    Raises:
        BundleError: if there is no such bundle.
    """
    return _described(config, load_bundle(config.bundle))


def _described(config: EvalConfig, bundle: Bundle) -> dict[str, Any]:
    return {**head("pixelgait-eval"), **evaluation_key(config, bundle)}


def evaluation_key(config: EvalConfig, bundle: Bundle) -> dict[str, Any]:
    """The evaluation as figures name it: policy and options, but no version of the code."""
    return {
        "bundle": config.bundle,
        "sha256": bundle.contract["sha256"],
        "robot": bundle.contract["robot"],
        "task": config.task,
        "scene": config.scene,
        "difficulty": config.difficulty,
        "appearance": config.appearance,
        "body": config.body,
        "baseline": config.baseline,
        "randomise": config.randomise,
        "delays_from": config.delays_from and str(config.delays_from),
        "faults": list(config.faults),
        "camera_pitch_deg": config.camera_pitch,
        "camera_roll_deg": config.camera_roll,
        "seed": config.seed,
        "seconds": config.seconds,
        "requested_episodes": config.episodes,
        **({"guard": True} if config.guard else {}),
        **({"odometry": config.odometry} if config.odometry != "simulated" else {}),
        **({"climb": config.climb} if config.task == "climb" else {}),
    }


def format_description(described: dict[str, Any]) -> str:
    """The evaluation in a line."""
    parts = [
        f"{described['bundle']} ({described['sha256'][:8]}) on {described['robot']}",
        f"task {described['task']}",
        f"scene {described['scene']} at difficulty {described['difficulty']:g}",
        f"body {described['body']}",
    ]
    if "odometry" in described:
        parts.append(f"odometry {described['odometry']}")
    for name in ("appearance", "baseline"):
        if described[name] and described[name] != "nominal":
            parts.append(f"{name} {described[name]}")
    if described["randomise"]:
        parts.append("randomised")
    if described["faults"]:
        parts.append(f"faults {' '.join(described['faults'])}")
    if "guard" in described:
        parts.append("collision guard")
    if described["camera_pitch_deg"]:
        parts.append(f"camera {described['camera_pitch_deg']:+g} degrees down")
    if described["camera_roll_deg"]:
        parts.append(f"camera rolled by {described['camera_roll_deg']:+g} degrees")
    return ", ".join(parts)


def film(config: EvalConfig, path: Path) -> None:
    """Film the first episodes: .mp4, .gif, or .png for a strip of frames."""
    from pixelgait.sim.viewing.video import record_video

    seeds = range(config.seed, config.seed + config.video_episodes)
    controller, body, task = player(config)
    record_video(controller, body, task, seeds, path, local_map(config, body))


def run_episodes(config: EvalConfig) -> Iterator[Episode]:
    """Run all episodes in worker processes; yields them in the order of their seeds.

    Raises:
        UserError: if a value cannot be used, or there is no such cluster.
    """
    from tqdm import tqdm

    config.check()
    _, body, _ = player(config)  # raises here what would be raised in the workers
    body.close()
    seeds = range(config.seed, config.seed + config.episodes)
    with config.open_pool(_start, config, body.spec) as pool:
        # No smoothing: workers finish in bursts, so only the mean over all predicts the end.
        episodes = pool.imap(_run, seeds)
        yield from tqdm(episodes, total=len(seeds), unit="episode", smoothing=0)
        if pool.replaced:
            print(f"{pool.replaced} workers died; their episodes were repeated", file=sys.stderr)


def watch_episodes(config: EvalConfig) -> Iterator[Episode]:
    """Run all episodes in a window, in real time."""
    from pixelgait.sim.viewing.live_view import RealTime, opened, view_of

    controller, body, task = player(config)
    guard = local_map(config, body)
    with opened(view_of(config, config.body, body.spec, config.seed)) as window:
        for seed in range(config.seed, config.seed + config.episodes):
            shown = RealTime(window, body, seed)
            episode = run_episode(controller, body, task, seed, shown, guard)
            yield with_errors(config, episode, body)


def player(config: EvalConfig) -> tuple[Controller, SimulatedBody, Task]:
    """Controller, body and task of an evaluation.

    Raises:
        UserError: if bundle, scene, body or another value cannot be used.
    """
    bundle = load_bundle(config.bundle, find_robot(config.robot) if config.robot else None)
    config.check_bundle(bundle)
    scene = config.make_scene()
    camera = camera_of(bundle).moved((0.0, 0.0, 0.0), math.radians(config.camera_pitch))
    camera = replace(camera, roll_rad=math.radians(config.camera_roll))
    body = make_body(
        config.body,
        bundle.spec,
        scene,
        camera=camera,
        randomisation=config.make_randomisation(),
        faults=config.make_faults(),
    )
    if config.odometry == "legs":
        body = with_leg_odometry(body)
    if bundle.observes("height_scan"):
        body = with_height_scan(body, config.make_randomisation())
    steps = round(config.seconds / CONTROL_DT_S)
    if config.task != "forward":
        omni = bundle.contract["low_level"]["kind"] == OMNI.kind
        task = Follow(steps, omni=omni)
        if config.task == "climb":
            task = Climb(steps, omni=omni, climb=config.climb)
        return bundle.controller(task.command), body, task
    high_level = make_baseline(config.baseline, bundle.high_level, body)
    return bundle.controller(high_level), body, navigation_task(scene, steps)


def local_map(config: EvalConfig, body: SimulatedBody) -> SimulatedMap | None:
    """The map of an evaluation with a collision guard."""
    return SimulatedMap(body, config.make_randomisation()) if config.guard else None


def with_errors(config: EvalConfig, episode: Episode, body: SimulatedBody) -> Episode:
    """The episode, with the errors of the body's leg odometry among its metrics, if it has one."""
    if config.odometry == "legs":
        episode.metrics.update(cast(LegOdometryBody, body).errors())
    return episode


_run_seed: Callable[[int], Episode]


def _start(config: EvalConfig) -> None:
    global _run_seed
    controller, body, task = player(config)
    guard = local_map(config, body)

    def run_seed(seed: int) -> Episode:
        episode = run_episode(controller, body, task, seed, look_ahead=guard)
        return with_errors(config, episode, body)

    _run_seed = run_seed


def _run(seed: int) -> Episode:
    return _run_seed(seed)


@contextmanager
def as_bundle(name: str) -> Iterator[str]:
    """The name of a bundle, or the folder of a temporary one that is exported from a run.

    A high level that was trained without a low level gets the one shipped for its robot.

    Raises:
        UserError: if the run cannot be exported, or the folder holds several runs.
    """
    folder = Path(name)
    if not (SHIPPED / name / CONTRACT).is_file():
        refuse_many(folder)
    if (folder / CONTRACT).is_file() or not (folder / CONFIG).is_file():
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="pixelgait-") as aside:
        levels = levels_of(folder)
        print(f"exporting {name}: {' '.join(levels)}", file=sys.stderr)
        # In a process of its own: exporting needs torch, evaluating does not.
        line = [sys.executable, "-c", EXPORT, *levels, "--out", aside]
        start = partial(die_with_parent, os.getpid())
        done = subprocess.run(line, capture_output=True, text=True, check=False, preexec_fn=start)
        if done.returncode < 0 or done.returncode == 130:
            raise KeyboardInterrupt
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise UserError(last[0].removeprefix("error: "))
        yield aside


def levels_of(run: Path) -> list[str]:
    """Options of pixelgait-export for the levels of a run's policy."""
    config = read_yaml(run / CONFIG)
    task = config.get("task")
    if task in ("walk", "follow"):
        return ["--low-level", str(run)]
    own = task == "joint" or (task == "course" and (run / "low_level" / CONFIG).is_file())
    low_level = run if own else shipped_low_level(robot_of(run).name)
    return ["--low-level", str(low_level), "--high-level", str(run)]


if __name__ == "__main__":
    from pixelgait.policies.evaluation.evaluate import (
        main as run,  # the name by which other machines know it
    )

    run()
