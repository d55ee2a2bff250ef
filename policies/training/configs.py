"""Configurations of training: one per task, with its own defaults and only what it uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from pixelgait.policies.runs.run import LOW_LEVEL, find_run
from pixelgait.policies.training.base_configs import (
    CameraConfig,
    CurriculumConfig,
    LowLevelConfig,
    TrainConfig,
)
from pixelgait.policies.training.rollouts.plan import DAggerConfig, DeviceName, Plan
from pixelgait.robot.cli.options import Count
from pixelgait.robot.errors import UserError


@dataclass(frozen=True, kw_only=True)
class WalkConfig(LowLevelConfig):
    """Train a low level to walk straight ahead, from zero weights."""

    task = "walk"


@dataclass(frozen=True, kw_only=True)
class FollowConfig(LowLevelConfig):
    """Train a low level to follow speed and yaw-rate commands under pushes, from zero weights."""

    task = "follow"

    def check(self) -> None:
        super().check()
        if self.target_m:
            raise UserError("--target-m: who follows commands has no way to go")


@dataclass(frozen=True, kw_only=True)
class ImitateConfig(CameraConfig):
    """Train a high level to decide from images as a map-aware teacher does.

    By gradient, on gliding robots without physics, in rounds of DAgger: a start for course.
    """

    task = "imitate"

    iterations: Count = 10
    validate_every: Count = 1
    dagger: DAggerConfig = field(default_factory=DAggerConfig)
    device: DeviceName = "cpu"
    """Where students are fitted; auto: on a GPU if there is one, which rounds otherwise. On a
    cluster, by CPUs."""

    def check(self) -> None:
        from pixelgait.policies.high_level import make_high_level
        from pixelgait.policies.training.imitation.fitting import has_gradient

        super().check()
        if self.cluster is not None and self.device != "cpu":
            raise UserError(f"--device {self.device}: a cluster's workers fit on their CPUs")
        if not self.resume:
            student = make_high_level(self.architecture(), self.seed)
            self.dagger.check(student, has_gradient(student), self.start is not None)


@dataclass(frozen=True, kw_only=True)
class CourseConfig(CurriculumConfig):
    """Train a high level to steer by camera, on top of a frozen low level."""

    task = "course"

    low_level: Path
    """Run folder of the low level, or the name of a shipped one, like walk."""

    def check_names(self) -> None:
        super().check_names()
        find_run(self.low_level, LOW_LEVEL)

    def plan(self) -> Plan:
        from pixelgait.policies.runs.trained import trained_low_level

        low_level = trained_low_level(find_run(self.low_level, LOW_LEVEL))
        if (robot := low_level.spec.name) != self.robot:
            raise UserError(f"--low-level {self.low_level} is of {robot}: give --robot {robot}")
        return replace(super().plan(), low_level=(low_level.matrix, low_level.bias))


@dataclass(frozen=True, kw_only=True)
class JointConfig(CurriculumConfig):
    """Train both levels at once, from other runs or from scratch."""

    task = "joint"
    APART = (*CurriculumConfig.APART, ("--resume", "--low-level"))

    low_level: Path | None = None
    """Run folder of a low level to start from, or the name of a shipped one."""


KINDS: dict[str, type[TrainConfig]] = {
    kind.task: kind for kind in (WalkConfig, FollowConfig, ImitateConfig, CourseConfig, JointConfig)
}
