"""Command-line options that several commands share: scene, disturbances and workers."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pixelgait.robot.cli.options import Range, Workers
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import (
    FARTHEST_MOUNT_M,
    STEEPEST_MOUNT_RAD,
    WIDEST_FOV_RAD,
    CameraMount,
    RobotSpec,
)
from pixelgait.sim.body.faults import Fault, parse_faults
from pixelgait.sim.body.randomisation import Randomisation, make_randomisation
from pixelgait.sim.scenes.registry import MEDIUM, is_graded, make_scene
from pixelgait.sim.workers.process_pool import Pool, WorkerPool
from pixelgait.sim.workers.ray_pool import Argument, ClusterPool
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.scene import Scene

FILMS = (".mp4", ".gif", ".png")  # the last one a strip of frames


def check_film(video: Path | None) -> None:
    """Raises UserError if --video names no film; not whether it can be written."""
    if video is not None and video.suffix not in FILMS:
        raise UserError(f"--video {video}: expected a file {', '.join(FILMS)}")


@dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """The scene."""

    scene: str = "obstacle-course"
    """Name of a scene, such as obstacle-course, gates, free-standing, slalom, clutter or rooms;
    mixture for another kind in every episode, or mixture:KIND=WEIGHT,... (all: the usual kinds;
    -KIND: without that one); gibson:FOLDER for a Gibson house; FILE.py for your own scene."""
    difficulty: Annotated[float, Range(0.0, 1.0)] = MEDIUM
    """Difficulty of the scene, 0 to 1; no effect with flat and gibson:FOLDER."""
    appearance: AppearanceOption = "nominal"
    """Appearance of the scene: its own colours (nominal), or surfaces, light and backdrop of the
    training or test set, drawn anew every episode; moving: with a camera that shakes before a
    backdrop that turns."""

    def check_given(self, options: Set[str]) -> None:
        """Raises UserError if a given option has no effect with the scene."""
        if "--difficulty" in options and not is_graded(self.scene):
            raise UserError(f"--difficulty has no effect with --scene {self.scene}")

    def make_scene(self) -> Scene:
        """The scene of these options.

        Raises:
            UserError: if it is unknown or unreadable, or options exclude each other.
        """
        return make_scene(self.scene, self.difficulty, self.appearance)


@dataclass(frozen=True, kw_only=True)
class MountOptions:
    """The camera's mount."""

    camera: Annotated[
        tuple[float, float, float] | None, Range(-FARTHEST_MOUNT_M, FARTHEST_MOUNT_M)
    ] = None
    """Place of the camera in the base frame: X ahead, Y left, Z up [m]; by default the robot's."""
    pitch: Annotated[float | None, Range(-STEEPEST_MOUNT_RAD, STEEPEST_MOUNT_RAD)] = None
    """Pitch of the camera, down [rad]; by default the robot's."""
    camera_fov: Annotated[float | None, Range(0.1, WIDEST_FOV_RAD)] = None
    """Vertical field of view of the image [rad]; by default the robot's."""

    def mount(self, usual: CameraMount) -> CameraMount:
        """The mount of these options; what is not given is as usual."""
        return CameraMount(
            usual.position_m if self.camera is None else self.camera,
            usual.pitch_down_rad if self.pitch is None else self.pitch,
            usual.vertical_fov_rad if self.camera_fov is None else self.camera_fov,
        )


@dataclass(frozen=True, kw_only=True)
class DisturbanceOptions:
    """Deviations from an ideal robot."""

    randomise: bool = False
    """Domain randomisation: draw body, motors, delays, sensor noise and camera flaws every
    episode."""
    delays_from: Path | None = None
    """Latency report (latency.json) whose delays --randomise uses."""
    faults: tuple[str, ...] = ()
    """Sensor faults SENSOR-KIND[:at=S,for=S,by=S], such as camera-frozen:at=2,for=1, or mixed for
    short ones of every kind. joints and imu: frozen, late, lost, nan, spike; joints also: degrees,
    offset, stuck; camera: frozen, late, lost, black, mirrored."""

    def make_randomisation(self) -> Randomisation | None:
        """Ranges of the domain randomisation; None: there is none.

        Raises:
            UserError: if delays are given without --randomise, or are no latency report.
        """
        return make_randomisation(self.randomise, self.delays_from)

    def make_faults(self) -> tuple[Fault, ...]:
        """Sensor faults; mixed is one of them.

        Raises:
            UserError: if a text is no fault.
        """
        return parse_faults(self.faults)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The worker processes."""

    APART: ClassVar[tuple[tuple[str, str], ...]] = (("--workers", "--cluster"),)

    workers: Workers = 2
    """Worker processes."""
    cluster: str | None = None
    """Use the CPUs of the Ray cluster that this machine is part of instead: auto or HOST:PORT."""

    def open_pool(
        self, initialise: Callable[[Argument], None], argument: Argument, robot: RobotSpec
    ) -> Pool:
        """Start workers that simulate this robot, each initialised with the argument.

        Raises:
            UserError: if Ray is not installed, or there is no such cluster.
        """
        if self.cluster is None:
            return WorkerPool(self.workers, initialise, argument)
        return ClusterPool(self.cluster, initialise, argument, robot)
