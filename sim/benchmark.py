"""pixelgait-benchmark: rollouts against bare physics, cameras against getCameraImage, looks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.errors import run_command
from pixelgait.robot.files import json_bytes, require_writable, write_atomic
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.runtime.latency import machine
from pixelgait.robot.runtime.options import Count, Range, Seed, check_numbers, parse
from pixelgait.robot.spec import A1
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.camera_benchmark import camera_rates, look_rates
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.distractors import Split
from pixelgait.sim.scenes.registry import make_scene


@dataclass(frozen=True)
class BenchmarkConfig:
    """Measure rollout speed per core against bare stepSimulation, and every camera's frames/s.

    The rollout is the whole loop of training: sensors, low level, gait generator, supervisor, PD
    motors. Its commands are then played back from the same start, timing stepSimulation alone, so
    that bare physics does the same work: the same trot, the same contacts. Cameras are compared
    with PyBullet's getCameraImage as it comes, the robot's meshes visible.
    """

    scene: str = "flat"
    steps: Count = 2000
    """Control steps (10 ms) per round."""
    rounds: Count = 5
    camera_scenes: tuple[str, ...] = ("obstacle-course",)
    """Where the cameras look."""
    distractors: Split | None = None
    """Over those scenes: those of the training or of the test set."""
    camera_size: Annotated[int, Range(1, 1024)] = 32
    """Width and height of their images."""
    seed: Seed = 0
    json: Path | None = None
    """Write the figures there."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: print_report(parse(BenchmarkConfig, "pixelgait-benchmark")))


def print_report(config: BenchmarkConfig) -> None:
    """Measure, print and save."""
    if config.json is not None:
        require_writable(config.json)
    figures = benchmark(config)
    print(f"rollout       {figures['rollout_steps_per_s']:8.0f} control steps/s per core")
    print(f"bare physics  {figures['bare_steps_per_s']:8.0f} control steps/s per core")
    print(f"ratio         {figures['ratio']:8.2f} (median of {config.rounds} rounds)")
    for scene, rows in figures["cameras"].items():
        print(f"\n{scene}, {config.camera_size} x {config.camera_size}   frames/s   ratio   agree")
        for name, row in rows.items():
            cells = f"{row['frames_per_s']:11.0f}{row['ratio']:8.1f}{row['agreement']:8.1%}"
            print(f"{name:<25}{cells}")
    for scene, rows in figures["looks"].items():
        print(f"\n{scene}, RGB, frames/s     plain    looks   ratio")
        for name, row in rows.items():
            rates = f"{row['plain_frames_per_s']:9.0f}{row['looks_frames_per_s']:9.0f}"
            print(f"{name:<25}{rates}{row['ratio']:8.2f}")
    if config.json is not None:
        write_atomic(config.json, json_bytes(figures))
        print(f"wrote {config.json}")


def benchmark(config: BenchmarkConfig) -> dict[str, Any]:
    """Rates [control steps/s], their ratio, medians over rounds; `camera_rates`, `look_rates`.

    Raises:
        UserError: unknown scene, or nothing to measure.
    """
    check_numbers(config)
    scenes = {
        name: make_scene(name, distractors=config.distractors) for name in config.camera_scenes
    }
    body = TimedBody(A1, make_scene(config.scene))
    rows = []
    for _ in range(config.rounds):
        commands, rollout_s = _rollout(body, config)
        rows.append((rollout_s, _bare_seconds(body, commands, config.seed)))
    body.close()
    rollout_s, bare_s = np.median(rows, axis=0)
    return {
        "rollout_steps_per_s": config.steps / rollout_s,
        "bare_steps_per_s": config.steps / bare_s,
        "ratio": float(np.median([bare / rollout for rollout, bare in rows])),
        "cameras": {
            name: camera_rates(scene, config.camera_size, config.seed)
            for name, scene in scenes.items()
        },
        "looks": {name: look_rates(name, config.camera_size, config.seed) for name in scenes},
        "machine": machine(),
    }


class TimedBody(PyBulletBody):
    """Counts the time that PyBullet's own steps take."""

    physics_s = 0.0

    def advance(self) -> None:
        """One physics step."""
        start = time.perf_counter()
        super().advance()
        self.physics_s += time.perf_counter() - start


def _rollout(body: PyBulletBody, config: BenchmarkConfig) -> tuple[list[JointCommand], float]:
    """The whole loop of training; returns its commands and its time [s]."""
    low_level = LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS))  # trots on the spot
    controller = Controller(lambda *_: Decision(np.zeros(2), 800), low_level, Supervisor(A1))
    commands = []
    reading = body.reset(config.seed)
    start = time.perf_counter()
    for _ in range(config.steps):
        command = controller.step(reading)
        commands.append(command)
        body.apply(command)
        reading = body.read()
    return commands, time.perf_counter() - start


def _bare_seconds(body: TimedBody, commands: list[JointCommand], seed: int) -> float:
    """Time [s] inside stepSimulation alone, while the same motion happens again."""
    body.reset(seed)
    body.physics_s = 0.0
    for command in commands:
        body.apply(command)
    return body.physics_s


if __name__ == "__main__":
    main()
