"""Plan of a training run, as every worker gets it; settings of evolution and of imitation."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from pixelgait.robot.cli.options import Count, Range
from pixelgait.robot.control.low_level import OMNI, PLANAR, LinearShape
from pixelgait.robot.control.observation import COLOURS
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1, Array, CameraMount, RobotSpec, find_robot, mounted, moved_robot
from pixelgait.sim.body.camera import Sampling
from pixelgait.sim.body.faults import Fault
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import simulators
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.registry import Move, moved_scene
from pixelgait.sim.tasks.follow import FollowReward
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.seeds import TRAINING

if TYPE_CHECKING:  # a plan needs no torch
    from pixelgait.policies.high_level import Architecture, HighLevelNetwork

TaskName = Literal["walk", "follow", "imitate", "course", "joint"]
BodyName = Literal["pybullet", "mujoco", "mixture"]
DeviceName = Literal["auto", "cpu", "cuda"]
DIFFICULTY_STEP = 0.1  # workers keep one course per difficulty
CLIMB_EVERY = 3  # of the episodes of an omnidirectional low level, one is over a kerb
TRIAL_COURSES = 256  # courses on which students compete in a round, shared among them


@dataclass(frozen=True, slots=True)
class ESConfig:
    """Settings of the evolution strategy."""

    method: Literal["ars", "openai", "cma"] = "ars"
    """ars: the best of antithetic directions (Mania et al. 2018); openai: all of them, ranked, with
    Adam (Salimans et al. 2017); cma: separable CMA-ES (Ros and Hansen 2008)."""
    directions: Annotated[int, Range(1, 10_000)] = 16
    """Directions per iteration; each gives two candidates, one at either end."""
    top: Count = 8
    """Best directions that make the step (ars)."""
    noise: Annotated[float, Range(1e-9, 1e3)] = 0.02
    """Exploration noise: standard deviation of the candidates; with cma only the first one."""
    step: Annotated[float, Range(0.0, 1e3)] = 0.02
    """Step size (ars, openai)."""
    decay: Annotated[float, Range(1e-3, 1.0)] = 1.0
    """Factor on noise and step per iteration; below 1 the search settles."""
    courses: Count = 1
    """Episodes per candidate, the same ones for all candidates of an iteration."""

    def check(self) -> None:
        """Raises UserError if the method does not use an option, or two do not fit."""
        default = ESConfig()
        for name, methods in USED_BY.items():
            if self.method not in methods and getattr(self, name) != getattr(default, name):
                raise UserError(f"--es.{name} has no effect with --es.method {self.method}")
        if self.method == "ars" and self.top > self.directions:
            raise UserError(f"--es.top is {self.top}, expected 1 to {self.directions}")
        if self.method == "cma" and self.directions == 1:  # the library injects two candidates
            raise UserError("--es.directions is 1, --es.method cma needs 2 or more")


USED_BY = {"top": ("ars",), "step": ("ars", "openai"), "decay": ("ars", "openai")}


@dataclass(frozen=True, slots=True)
class DAggerConfig:
    """Settings of a round of DAgger."""

    courses: Annotated[int, Range(1, len(TRAINING))] = 24
    """Courses per round on which the teacher labels every image."""
    steps: Annotated[int, Range(1, 10**6)] = 400
    """Most gradient steps per round; three times as many where only a head is fitted."""
    held_out: Annotated[float, Range(0.0, 0.5)] = 0.1
    """Share of the courses held out: a round's steps end when the loss on them no longer falls; 0:
    all steps."""
    batch: Annotated[int, Range(1, 2**16)] = 256
    """Images per gradient step."""
    students: Annotated[int, Range(1, TRIAL_COURSES)] = 64
    """First students where the patch selection has no gradient; half of them leave every round."""
    rate: Annotated[float, Range(1e-6, 1.0)] = 0.003
    """Learning rate (Adam); a round's weights are averaged over its last steps. At 0.01 one CNN in
    three diverges, and one of twice the width did at the default."""
    decay: Annotated[float, Range(0.5, 1.0)] = 1.0
    """Factor on the learning rate per round; below 1 a memory settles."""
    huber: Annotated[float, Range(0.0, 10.0)] = 0.0
    """Error above which the loss is linear (Huber), so that of two equally good turns the likelier
    one is learned, not their mean; 0: squared error."""
    unrolled: Annotated[int, Range(1, 1000)] = 32
    """Length of a batch's sequences, through which gradients go back in time (with --memory)."""
    knows: Literal["map", "seen"] = "map"
    """Knowledge of the teacher: the whole map, or only the part that the robot's camera has seen so
    far. In furnished houses the whole map shows paths that no student can see."""
    recolour: bool = False
    """Draw other colours and light for every image in every gradient step."""

    def check(self, student: HighLevelNetwork, gradient: bool, started: bool) -> None:
        """Raises UserError if an option has no effect on such a student.

        Args:
            gradient: whether gradients reach its encoder.
            started: whether it begins with another run's weights.
        """
        default = DAggerConfig()
        alone = started or (gradient and not student.encoder.drawn)
        if self.students != default.students and alone:
            why = "--start gives one" if started else "gradients reach all of the encoder"
            raise UserError(f"--dagger.students has no effect: {why}, so none compete")
        if self.recolour and not gradient:
            raise UserError("--dagger.recolour has no effect: no gradient reaches the encoder")
        if self.recolour and student.image_shape[-1] < COLOURS:
            raise UserError("--dagger.recolour: depth images have no colours")
        if self.unrolled != default.unrolled and not student.memory:
            raise UserError("--dagger.unrolled has no effect without --memory")
        if student.memory and self.batch < self.unrolled:
            raise UserError(
                f"--dagger.batch {self.batch}: expected one sequence of {self.unrolled} or more"
            )
        for name in ("rate", "decay"):
            changed = getattr(self, name) != getattr(default, name)
            if changed and not (gradient or student.memory):
                why = "only a head is fitted, at its own rate"
                raise UserError(f"--dagger.{name} has no effect: {why}")

    def in_round(self, number: int) -> DAggerConfig:
        """The settings of a round, counted from 1."""
        return replace(self, rate=self.rate * self.decay ** (number - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Task, robot, scene and network of a run. Picklable."""

    task: TaskName
    steps: int  # control steps of a training episode
    robot: str = A1.name
    mount: CameraMount | None = None  # of its camera; None: the robot's own
    sampling: Sampling = "centre"  # of its depth
    body: str = "pybullet"  # a `BodyName`; not used by imitate, which glides
    high_level: Architecture | None = None  # of the tasks with a camera
    scene: str = ObstacleCourse.name  # of the tasks with a camera; the others are on flat ground
    difficulty: float = 0.5
    curriculum: int = 0  # iterations over which the difficulty rises from 0
    contact_cost: float = 0.0  # [m/s], see `Forward`
    appearance: AppearanceOption = "nominal"
    low_level: tuple[Array, Array] | None = None  # frozen matrix and bias, of task course
    randomisation: Randomisation | None = None
    reward: FollowReward = field(default_factory=FollowReward)  # of task follow
    omni: bool = False  # task follow: an omnidirectional low level, which also climbs kerbs
    mirror: bool = False  # a left-right symmetric low level
    faults: tuple[Fault, ...] = ()
    device: str = "cpu"  # torch's name of the device that fits students

    @property
    def spec(self) -> RobotSpec:
        """The robot that learns."""
        spec = find_robot(self.robot)
        return spec if self.mount is None else mounted(spec, self.mount)

    def simulator(self, seed: int) -> str:
        """Simulator of a seed's episode; in a mixture they alternate."""
        names = simulators(self.body)
        return names[seed % len(names)]

    @property
    def sees(self) -> bool:
        """Whether a high level is trained, with a camera in a scene."""
        return self.task in ("imitate", "course", "joint")

    @property
    def glides(self) -> bool:
        """Whether the robot glides, without legs and low level."""
        return self.task == "imitate"

    @property
    def batched(self) -> bool:
        """Whether MuJoCo steps many robots at once, without cameras."""
        return self.body == "mujoco" and not self.sees and not self.faults and self._one_motor

    @property
    def _one_motor(self) -> bool:
        """Whether all motors have a delay or all are ideal: MuJoCo's own round differently."""
        ranges = self.randomisation
        return ranges is None or ranges.delay_s[1] > 0.0 or ranges.torque_drop[1] > 0.0

    @property
    def low_level_weights(self) -> int:
        """How many of the trained weights are the low level's, which come last."""
        return 0 if self.task in ("imitate", "course") else self.shape.weights

    @property
    def shape(self) -> LinearShape:
        """Shape of the low level."""
        return OMNI if self.omni else PLANAR

    def climbs(self, seed: int) -> bool:
        """Whether a seed's episode leads over a kerb."""
        return self.omni and seed % CLIMB_EVERY == 1

    def difficulty_in(self, iteration: int) -> float:
        """Difficulty of an iteration's courses; the curriculum raises it in steps."""
        share = min(1.0, iteration / self.curriculum) if self.curriculum else 1.0
        steps = np.floor(share * self.difficulty / DIFFICULTY_STEP + 1e-9)
        return float(self.difficulty if share == 1.0 else steps * DIFFICULTY_STEP)

    def moved(self, move: Move) -> Plan:
        """A copy whose files have moved."""
        scene, robot = moved_scene(self.scene, move), moved_robot(self.robot, move)
        return replace(self, scene=scene, robot=robot)

    def identity(self) -> dict[str, object]:
        """Part of a run's configuration: randomisation ranges, SHA-256 of the frozen low level."""
        return {
            "randomisation": self.randomisation and asdict(self.randomisation),
            "low_level_sha256": self.low_level and _sha256(*self.low_level),
        }


def _sha256(*parts: Array) -> str:
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
