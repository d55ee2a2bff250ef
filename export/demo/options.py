"""Options of pixelgait-demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pixelgait.robot.cli.options import Range, Seed, Workers
from pixelgait.robot.spec import A1
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED


@dataclass(frozen=True)
class DemoConfig:
    """The whole path on this computer: train, export, run under ROS 2, report.

    1. A robot learns to follow velocity commands (PyBullet, ARS): an A1 from zero weights, others
       from the A1's weights.
    2. That low level and the shipped camera policy become one ONNX bundle.
    3. A simulated robot and the controller, two processes, communicate over real ROS 2 topics. The
       recording is replayed: the same commands, bit for bit.
    4. The shipped navigator receives a goal in an unseen house with unseen appearance, and walks
       there.
    5. Latency table, learning curve, paths and films are written to the output folder. The last
       line says whether the robot has reached the goal in the house; if not, the exit code is 1.
    """

    out: Path = Path("runs/demo")
    """Output folder; an older demo there is replaced."""
    robot: str = A1.name
    """Robot: a1, go2, laikago or mini_cheetah."""
    seed: Seed = 0
    """Seed of the training."""
    workers: Workers = 2
    """Worker processes of the training."""
    minutes: Annotated[float, Range(0.01, 1e6)] = 2.0
    """Time for training [min]."""
    seconds: Annotated[float, Range(1.0, 86_400.0)] = 20.0
    """Duration of the walk on the course under ROS 2 [s]."""
    course_seed: Seed = FIRST_EVALUATION_SEED
    """Seed of the course and the house."""
