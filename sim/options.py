"""Options that several commands share: where episodes happen, what goes wrong, who works."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pixelgait.robot.cli.options import Range, Workers
from pixelgait.robot.errors import UserError
from pixelgait.sim.body.faults import Fault, parse_faults
from pixelgait.sim.body.measured_delays import make_randomisation
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.scenes.registry import MEDIUM, is_graded, make_scene
from pixelgait.sim.workers.process_pool import Pool, WorkerPool
from pixelgait.sim.workers.ray_pool import Argument, ClusterPool
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.scene import Scene

FILMS = (".mp4", ".gif", ".png")  # the last one a strip of frames


def check_film(video: Path | None) -> None:
    """Raises UserError if what --video names is no film; whether it can be written is not seen."""
    if video is not None and video.suffix not in FILMS:
        raise UserError(f"--video {video}: expected a file {', '.join(FILMS)}")


@dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """Where the robot is."""

    scene: str = "obstacle-course"
    """One of the scenes by name, as obstacle-course, gates, free-standing, slalom, clutter or
    rooms; mixture, another one in every episode, or mixture:KIND=WEIGHT,... (all: the usual ones;
    -KIND: without it); gibson:FOLDER, a house in Gibson's layout; FILE.py, a scene of your own."""
    difficulty: Annotated[float, Range(0.0, 1.0)] = MEDIUM
    """Difficulty of the scene, 0 to 1; flat and gibson:FOLDER have but one."""
    appearance: AppearanceOption = "nominal"
    """Appearance of the scene: its own colours (nominal), or surfaces, light and backdrop of the
    training or test set, drawn anew every episode; moving: with a camera that shakes before a
    backdrop that turns."""

    def check_given(self, options: Set[str]) -> None:
        """Raises UserError if a given option has no effect with the scene."""
        if "--difficulty" in options and not is_graded(self.scene):
            raise UserError(f"--difficulty has no effect with --scene {self.scene}")

    def make_scene(self) -> Scene:
        """The scene asked for.

        Raises:
            UserError: there is none, it cannot be read, or an option does not go with another.
        """
        return make_scene(self.scene, self.difficulty, self.appearance)


@dataclass(frozen=True, kw_only=True)
class DisturbanceOptions:
    """What differs from an ideal robot."""

    randomise: bool = False
    """Draw body, motors, delays, sensor noise and the camera's flaws anew every episode."""
    delays_from: Path | None = None
    """Latency report (latency.json) whose delays --randomise shall use."""
    faults: tuple[str, ...] = ()
    """What sensors fail: SENSOR-KIND[:at=S,for=S,by=S], as in camera-frozen:at=2,for=1, several of
    them, or mixed for short ones of every kind. joints and imu: frozen, late, lost, nan, spike;
    joints: degrees, offset, stuck as well; camera: frozen, late, lost, black,
    mirrored."""

    def make_randomisation(self) -> Randomisation | None:
        """What is drawn anew every episode; None: nothing.

        Raises:
            UserError: delays without randomisation, or a file that is not a latency report.
        """
        return make_randomisation(self.randomise, self.delays_from)

    def make_faults(self) -> tuple[Fault, ...]:
        """Faults of the sensors, the mixed schedule as such.

        Raises:
            UserError: a text is no fault.
        """
        return parse_faults(self.faults)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Who does the work."""

    APART: ClassVar[tuple[tuple[str, str], ...]] = (("--workers", "--cluster"),)

    workers: Workers = 2
    """Worker processes."""
    cluster: str | None = None
    """Instead of them the CPUs of a Ray cluster that this machine is part of: auto or HOST:PORT."""

    def open_pool(
        self, initialise: Callable[[Argument], None], argument: Argument, robot: str
    ) -> Pool:
        """Workers, initialised with an argument; they simulate this robot.

        Raises:
            UserError: Ray is not installed, or there is no such cluster.
        """
        if self.cluster is None:
            return WorkerPool(self.workers, initialise, argument)
        return ClusterPool(self.cluster, initialise, argument, robot)
