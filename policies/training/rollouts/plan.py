"""Plan of a training run: what is trained, where, and in what rounds; every worker gets one."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from pixelgait.robot.cli.options import Range
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.control.observation import COLOURS
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1, Array, RobotSpec, find_robot
from pixelgait.sim.body.faults import Fault
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import simulators
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.registry import Move, moved_scene
from pixelgait.sim.world.appearance import AppearanceOption
from pixelgait.sim.world.seeds import TRAINING

if TYPE_CHECKING:  # torch is not needed to plan
    from pixelgait.policies.high_level import Architecture, HighLevelNetwork

TaskName = Literal["walk", "follow", "imitate", "course", "joint"]
BodyName = Literal["pybullet", "mujoco", "mixture"]
DeviceName = Literal["auto", "cpu", "cuda"]
DIFFICULTY_STEP = 0.1  # workers keep one course per difficulty
TRIAL_COURSES = 256  # courses on which students compete in a round, shared among them


@dataclass(frozen=True, slots=True)
class DAggerConfig:
    """What one round of DAgger takes."""

    courses: Annotated[int, Range(1, len(TRAINING))] = 24
    """On which the teacher is asked."""
    steps: Annotated[int, Range(1, 10**6)] = 400
    """Of gradient descent; three times as many where only a head is fitted."""
    batch: Annotated[int, Range(1, 2**16)] = 256
    """Images in a step."""
    students: Annotated[int, Range(1, TRIAL_COURSES)] = 64
    """With different selections, where that has no gradient; half of them leave every round."""
    rate: Annotated[float, Range(1e-6, 1.0)] = 0.003
    """Of gradient descent (Adam), falling to 0 in every round; at 0.01 one in three CNNs dies at
    once, and one twice as wide has died at the default."""
    huber: Annotated[float, Range(0.0, 10.0)] = 0.0
    """Error from which on the loss grows linearly, not with its square: of two ways that look
    alike the likelier one is then learned, not their mean, which is to stand; 0: nowhere."""
    unrolled: Annotated[int, Range(1, 1000)] = 32
    """Decisions through which gradients go back in time, where there is a memory: the length of the
    sequences in a batch."""
    recolour: bool = False
    """Other colours and light for every image in every step of gradient descent."""

    def check(self, student: HighLevelNetwork, gradient: bool, started: bool) -> None:
        """Raises UserError if an option has no effect on such a student.

        `gradient`: its encoder has one; `started`: from a run's weights.
        """
        default = DAggerConfig()
        alone = started or (gradient and not student.encoder.drawn)
        if self.students != default.students and alone:
            why = "--start gives one" if started else "a gradient reaches all of the encoder of one"
            raise UserError(f"--dagger.students: {why}, so none compete")
        if self.recolour and not gradient:
            raise UserError("--dagger.recolour: no gradient reaches the encoder, nor do colours")
        if self.recolour and student.image_shape[-1] < COLOURS:
            raise UserError("--dagger.recolour: depth images have no colours")
        if self.unrolled != default.unrolled and not student.memory:
            raise UserError("--dagger.unrolled: it has no memory through which to go back")
        if student.memory and self.batch < self.unrolled:
            raise UserError(
                f"--dagger.batch {self.batch}: expected one sequence of {self.unrolled} or more"
            )
        if self.rate != default.rate and not (gradient or student.memory):
            raise UserError("--dagger.rate: a head alone is fitted, which has its own rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is trained, and where. Picklable."""

    task: TaskName
    steps: int  # control steps of a training episode
    robot: str = A1.name
    body: str = "pybullet"  # a `BodyName`, of the tasks that walk
    high_level: Architecture | None = None  # of the tasks that see
    scene: str = ObstacleCourse.name  # of the tasks that see; the others are on flat ground
    difficulty: float = 0.5
    curriculum: int = 0  # iterations over which the difficulty rises from 0
    contact_cost: float = 0.0  # [m/s], see `Forward`
    appearance: AppearanceOption = "nominal"
    low_level: tuple[Array, Array] | None = None  # frozen matrix, bias of the task course
    randomisation: Randomisation | None = None
    mirror: bool = False  # a left-right symmetric low level
    faults: tuple[Fault, ...] = ()
    device: str = "cpu"  # torch's name of that which fits

    @property
    def spec(self) -> RobotSpec:
        """The robot that learns."""
        return find_robot(self.robot)

    def simulator(self, seed: int) -> str:
        """In which simulator the episode of a seed happens: of a mixture they take turns."""
        names = simulators(self.body)
        return names[seed % len(names)]

    @property
    def sees(self) -> bool:
        """Whether a high level is trained, in a scene."""
        return self.task in ("imitate", "course", "joint")

    @property
    def glides(self) -> bool:
        """Whether the robot has no legs, nor a low level."""
        return self.task == "imitate"

    @property
    def batched(self) -> bool:
        """Whether many robots can be stepped at once: ideal ones, on flat ground, in MuJoCo."""
        ideal = self.randomisation is None and not self.faults
        return self.body == "mujoco" and not self.sees and ideal

    @property
    def low_level_weights(self) -> int:
        """How many of the trained weights are the low level's; they come last."""
        return 0 if self.task in ("imitate", "course") else LOW_LEVEL_WEIGHTS

    def difficulty_in(self, iteration: int) -> float:
        """Of the courses of an iteration, counted from 1: the curriculum raises it in steps."""
        share = min(1.0, iteration / self.curriculum) if self.curriculum else 1.0
        steps = np.floor(share * self.difficulty / DIFFICULTY_STEP + 1e-9)
        return float(self.difficulty if share == 1.0 else steps * DIFFICULTY_STEP)

    def moved(self, move: Move) -> Plan:
        """The same, its files moved."""
        return replace(self, scene=moved_scene(self.scene, move))

    def identity(self) -> dict[str, object]:
        """What a run must say about it: ranges, and SHA-256 of the frozen low level.

        A high level belongs to the low level it was trained on.
        """
        return {
            "randomisation": self.randomisation and asdict(self.randomisation),
            "low_level_sha256": self.low_level and _sha256(*self.low_level),
        }


def _sha256(*parts: Array) -> str:
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
