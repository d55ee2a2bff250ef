"""pixelgait-benchmark: speed of rollouts, vector environments and cameras."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pixelgait.robot.cli.options import Count, Range, Seed, parse
from pixelgait.robot.cli.provenance import head, settings
from pixelgait.robot.errors import run_command
from pixelgait.robot.files import json_bytes, require_writable, write_atomic
from pixelgait.robot.runtime.latency import machine
from pixelgait.robot.spec import A1, find_robot
from pixelgait.sim.engines.registry import BODIES
from pixelgait.sim.scenes.registry import make_scene


@dataclass(frozen=True)
class BenchmarkConfig:
    """Measure rollouts per core against bare physics, vector environments, and cameras.

    A rollout is the whole training loop of the follow task: sensors, low level, gait generator,
    supervisor, PD motors and reward, in both simulators; in MuJoCo also of many robots at once.
    Bare physics is the engine alone in the same motion. Gymnasium's vector environments are
    compared with a bare loop. All by processor time. Cameras are compared with PyBullet's
    getCameraImage with the robot's meshes visible. Also measured: encoding and decoding of a Go2's
    DDS messages in Python, without a network.
    """

    robot: str = A1.name
    """Robot: a1, go2, laikago, mini_cheetah, or a robot file (.yaml) by pixelgait-robot."""
    scene: str = "flat"
    """Scene of the rollouts."""
    at_once: Annotated[tuple[int, ...], Range(1, 1024)] = (8, 16, 32, 64)
    """Numbers of robots stepped at once, on flat ground."""
    steps: Count = 2000
    """Control steps (10 ms) of a round."""
    rounds: Count = 5
    """Number of rounds; the median counts."""
    camera_scenes: tuple[str, ...] = ("obstacle-course",)
    """Scenes of the cameras."""
    camera_size: Annotated[int, Range(1, 1024)] = 32
    """Width and height of the images [pixels]."""
    seed: Seed = 0
    """Seed of the first episode."""
    json: Path | None = None
    """Write the figures to this file."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: print_report(parse(BenchmarkConfig, "pixelgait-benchmark")))


def print_report(config: BenchmarkConfig) -> None:
    """Measure, print and save."""
    if config.json is not None:
        require_writable(config.json, "json")
    figures = benchmark(config)
    _print_rollouts(figures["rollouts"])
    print("robots at once in MuJoCo   rollout      bare     ratio")
    for robots, row in figures["batches"].items():
        rates = f"{row['rollout_steps_per_s']:10.0f}{row['bare_steps_per_s']:10.0f}"
        print(f"  {robots:<21}{rates}{row['ratio']:10.2f}")
    print(f"Gymnasium     {figures['vector_steps_per_s']:8.0f} control steps/s per core (vector)")
    print(f"without it    {figures['native_steps_per_s']:8.0f} control steps/s per core")
    print(f"ratio         {figures['vector_ratio']:8.2f}")
    print("robots at once in MuJoCo  Gymnasium  alone     ratio")
    for robots, row in figures["many"].items():
        rates = f"{row['vector_steps_per_s']:10.0f}{row['native_steps_per_s']:10.0f}"
        print(f"  {robots:<21}{rates}{row['vector_ratio']:10.2f}")
    for scene, rows in figures["cameras"].items():
        print(f"\n{scene}, {config.camera_size} x {config.camera_size}   frames/s   ratio   agree")
        for name, row in rows.items():
            cells = f"{row['frames_per_s']:11.0f}{row['ratio']:8.1f}{row['agreement']:8.1%}"
            print(f"{name:<25}{cells}")
    for scene, row in figures["rays"].items():
        print(f"\n{scene}, rays, 48 x 32, difficulty 1   frames/s per core")
        for name, rate in row.items():
            print(f"{name:<25}{rate:24.0f}")
    for scene, rows in figures["appearance"].items():
        print(f"\n{scene}, RGB, frames/s   nominal    train   ratio")
        for name, row in rows.items():
            rates = f"{row['nominal_frames_per_s']:9.0f}{row['appearance_frames_per_s']:9.0f}"
            print(f"{name:<25}{rates}{row['ratio']:8.2f}")
    if config.json is not None:
        about = {**head("pixelgait-benchmark"), "settings": settings(config, "json")}
        write_atomic(config.json, json_bytes({**about, **figures}))
        print(f"wrote {config.json}")


def _print_rollouts(rollouts: dict[str, dict[str, Any]]) -> None:
    """Print a column per simulator: rates, and shares of the time."""

    def row(label: str, cells: Iterable[str]) -> None:
        print(f"{label:<26}" + "".join(f"{cell:>10}" for cell in cells))

    each = list(rollouts.values())
    row("control steps/s per core", rollouts)
    row("  rollout", (f"{figures['rollout_steps_per_s']:.0f}" for figures in each))
    row("  bare physics", (f"{figures['bare_steps_per_s']:.0f}" for figures in each))
    row("  ratio", (f"{figures['ratio']:.2f}" for figures in each))
    row("of a rollout's time", ())
    for part in each[0]["shares"]:
        row(f"  {part}", (f"{figures['shares'][part]:.0%}" for figures in each))


def benchmark(config: BenchmarkConfig) -> dict[str, Any]:
    """Figures of `vector_rates`.

    For each simulator also those of `rollout_rates`, for each number of robots at once those of
    `batch_rates` and `many_rates`, for each scene those of `camera_rates`,
    `ray_rates` and `appearance_rates`.

    Raises:
        UserError: if robot or scene are unknown.
    """
    from pixelgait.sim.benchmarks.cameras import appearance_rates, camera_rates, ray_rates
    from pixelgait.sim.benchmarks.rollouts import batch_rates, rollout_rates
    from pixelgait.sim.benchmarks.vectors import many_rates, vector_rates

    scenes = {name: make_scene(name) for name in config.camera_scenes}
    spec, scene = find_robot(config.robot), make_scene(config.scene)
    return {
        "rollouts": {
            name: rollout_rates(name, spec, scene, config.steps, config.rounds, config.seed)
            for name in BODIES
        },
        "batches": {
            str(robots): batch_rates(spec, robots, config.steps, config.rounds)
            for robots in config.at_once
        },
        **vector_rates(spec, config.steps, config.rounds, config.seed),
        "many": {
            str(robots): many_rates(spec, robots, config.steps, config.rounds, config.seed)
            for robots in config.at_once
        },
        "cameras": {
            name: camera_rates(spec, scene, config.camera_size, config.seed)
            for name, scene in scenes.items()
        },
        "rays": {name: ray_rates(spec, name, config.seed) for name in scenes},
        "appearance": {
            name: appearance_rates(spec, name, config.camera_size, config.seed) for name in scenes
        },
        "machine": machine(),
    }


if __name__ == "__main__":
    main()
