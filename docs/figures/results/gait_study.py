"""Gait study (`make gait-study`): open-loop sweeps of the gait generator.

They show which part of a step turns the robot, how fast and how tightly, and what stops it. The
ranges in `robot.control.gait.PARAMETERS` follow from these plots; the last plot shows a trained low
level that uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from pixelgait.policies.runs.curve_picture import picture_of
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import parse
from pixelgait.robot.control import gait
from pixelgait.robot.control.controller import Controller, Decision, LowLevel, latent_for
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable, write_atomic
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.task import fallen, planar_pose, planar_velocity

SETTLE_STEPS, MEASURE_STEPS = 100, 300
STOP_STEPS = 150


@dataclass(frozen=True)
class StudyConfig:
    """Sweep the gait generator open loop on the A1 and plot what it does."""

    out: Path = Path("docs/gait_study.png")
    bundle: str = "walk"
    """Bundle whose low level is shown following commands."""


@dataclass(frozen=True)
class Gait:
    """Parameters of the generator; the stride and abduction parts of a turn are separate."""

    frequency_hz: float = 2.5
    stride_m: float = 0.0
    turn_by_stride_rad: float = 0.0
    turn_by_abduction_rad: float = 0.0
    lift_rad: float = 0.45
    height_rad: float = 0.0
    duty: float = 0.5


def turning(turn_rad: float, **others: float) -> Gait:
    """A turn as a policy commands it, with both parts equal."""
    return Gait(turn_by_stride_rad=turn_rad, turn_by_abduction_rad=turn_rad, **others)


def open_loop(setting: Callable[[], Gait]) -> LowLevel:
    """A low level that ignores its inputs; `setting` may change during the walk."""

    def low_level(_: Array, reading: Reading, phase: Array) -> tuple[Array, Array]:
        now = setting()
        poses = _leg_poses(phase, now, now.turn_by_stride_rad)
        # The generator gives one turn to both parts: take the abduction of the other one.
        poses[:, 0] = _leg_poses(phase, now, now.turn_by_abduction_rad)[:, 0]
        targets = A1.default_pose_rad + joint_map(A1) @ poses.reshape(-1)
        return targets, gait.next_phase(phase, now.frequency_hz, CONTROL_DT_S)

    return low_level


def _leg_poses(phase: Array, setting: Gait, turn_rad: float) -> Array:
    """The generator's leg poses (4, 3) [rad] for a setting and a turn."""
    values = {
        "frequency_hz": setting.frequency_hz,
        "stride_m": setting.stride_m,
        "turn_rad": turn_rad,
        "lift_rad": setting.lift_rad,
        "height_rad": setting.height_rad,
        "bank_rad": 0.0,
        "duty": setting.duty,
    }
    parameters = np.array([values[name] for name, _, _ in gait.PARAMETERS])
    return np.asarray(gait.leg_poses(A1, phase, parameters)).reshape(-1, 3)


class Track:
    """Robot on flat ground; measures the base's planar velocity."""

    def __init__(self) -> None:
        self.body = PyBulletBody(A1, FlatGround())

    def velocities(self, low_level: LowLevel, steps: int, latent: Array | None = None) -> Array:
        """Forward, left [m/s] and yaw rate [rad/s] of every control step, (steps, 3).

        NaN after a fall.
        """
        decision = Decision(np.zeros(2) if latent is None else latent, steps)
        controller = Controller(lambda *_: decision, low_level, Supervisor(A1))
        reading = self.body.reset(0)
        pose, rows = planar_pose(self.body), np.full((steps, 3), np.nan)
        for row in rows:
            self.body.apply(controller.step(reading).command)
            reading = self.body.read()
            if fallen(self.body):
                break
            before, pose = pose, planar_pose(self.body)
            row[:] = planar_velocity(before, pose)
        return rows

    def steady(self, low_level: LowLevel, latent: Array | None = None) -> Array:
        """Mean velocity (3,) after the gait has settled."""
        rows = self.velocities(low_level, SETTLE_STEPS + MEASURE_STEPS, latent)
        return np.asarray(rows[SETTLE_STEPS:].mean(0))

    def of(self, settings: Sequence[Gait]) -> Array:
        """Mean velocities (n, 3) of several settings."""
        return np.array([self.steady(open_loop(lambda s=s: s)) for s in settings])  # type: ignore[misc]


def main() -> None:
    """Command line."""
    program = "python -m docs.figures.results.gait_study"
    run_command(lambda: study(parse(StudyConfig, program)))


def study(config: StudyConfig) -> None:
    """Sweep, plot, and print the main figures.

    Raises:
        UserError: if the picture cannot be written, or there is no such bundle.
    """
    if config.out.suffix != ".png":
        raise UserError(f"--out {config.out}: expected a file .png")
    require_writable(config.out)
    bundle = load_bundle(config.bundle)
    track = Track()
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    _turn_parts(axes[0, 0], track)
    _frequency(axes[0, 1], track)
    _stride(axes[0, 2], track)
    _radius(axes[1, 0], track)
    _stopping(axes[1, 1], track)
    _following(axes[1, 2], track, bundle.low_level)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    write_atomic(config.out, picture_of(figure, dpi=90))
    print(config.out)


def _turn_parts(axes: Any, track: Track) -> None:
    turns = np.linspace(0.0, 0.4, 9)
    parts = {
        "stride difference": [Gait(turn_by_stride_rad=t) for t in turns],
        "abduction": [Gait(turn_by_abduction_rad=t) for t in turns],
        "both (the parameter turn)": [turning(t) for t in turns],
    }
    for name, settings in parts.items():
        yaw_rates = track.of(settings)[:, 2]
        axes.plot(turns, yaw_rates, "o-", label=name)
        print(f"turn by {name}: up to {np.nanmax(yaw_rates):.2f} rad/s at 2.5 Hz")
    axes.set(title="on the spot: what turns the robot", xlabel="turn [rad]", ylabel="yaw [rad/s]")


def _frequency(axes: Any, track: Track) -> None:
    frequencies = np.linspace(1.0, 3.0, 9)
    for turn in (0.1, 0.2, 0.4):
        settings = [turning(turn, frequency_hz=f) for f in frequencies]
        axes.plot(frequencies, track.of(settings)[:, 2], "o-", label=f"turn {turn} rad")
    axes.set(title="turning faster", xlabel="frequency [Hz]", ylabel="yaw [rad/s]")


def _stride(axes: Any, track: Track) -> None:
    strides = np.linspace(-0.12, 0.12, 9)
    for frequency in (1.5, 2.0, 2.5, 3.0):
        settings = [Gait(stride_m=s, frequency_hz=frequency) for s in strides]
        axes.plot(strides, track.of(settings)[:, 0], "o-", label=f"{frequency} Hz")
    axes.set(title="speed", xlabel="stride [m]", ylabel="forward [m/s]")


def _radius(axes: Any, track: Track) -> None:
    strides = np.linspace(0.01, 0.1, 7)
    for turn in (0.1, 0.2, 0.4):
        forward, _, yaw_rate = track.of([turning(turn, stride_m=s) for s in strides]).T
        axes.plot(forward, forward / yaw_rate, "o-", label=f"turn {turn} rad")
    axes.axhline(0.5, color="gray", ls="--", lw=1)
    axes.set(title="turning radius", xlabel="forward [m/s]", ylabel="radius [m]", ylim=(-0.2, 2.0))


def _stopping(axes: Any, track: Track) -> None:
    """Speed over time for several ways to stop, from a trot with strides of 0.08 m."""
    walking = Gait(stride_m=0.08)
    stops = {
        "stride 0, trot on": replace(walking, stride_m=0.0),
        "stride 0, feet down": replace(walking, stride_m=0.0, lift_rad=0.0),
        "stride 0, crouch": replace(walking, stride_m=0.0, height_rad=0.3),
        "stride 0, slow": replace(walking, stride_m=0.0, frequency_hz=1.0),
    }
    for name, stopped in stops.items():
        count = 0

        def setting(stopped: Gait = stopped) -> Gait:
            nonlocal count
            count += 1
            return walking if count <= SETTLE_STEPS + 100 else stopped

        rows = track.velocities(open_loop(setting), SETTLE_STEPS + 100 + STOP_STEPS)
        forward = np.convolve(rows[SETTLE_STEPS:, 0], np.full(20, 1 / 20), "same")
        distance = rows[-STOP_STEPS:, 0].cumsum().max() * CONTROL_DT_S
        axes.plot(np.arange(len(forward)) * CONTROL_DT_S - 1.0, forward, label=name)
        print(f"stop by {name}: {distance:.2f} m at most")
    axes.set(title="stopping", xlabel="time after the command [s]", ylabel="forward [m/s]")


def _following(axes: Any, track: Track, low_level: LowLevel) -> None:
    asked = np.linspace(-1.0, 1.0, 9)
    for speed in (0.0, 0.2, 0.4, 0.6):
        rows = np.array([track.steady(low_level, latent_for(speed, rate)) for rate in asked])
        axes.plot(asked, rows[:, 2], "o-", label=f"{speed} m/s asked")
        tight = rows[[0, -1]]
        radii = ", ".join(f"{math.hypot(*row[:2]) / abs(row[2]):.2f}" for row in tight)
        errors = np.abs(rows[:, 0] - speed).mean(), np.abs(rows[:, 2] - asked).mean()
        print(f"trained, {speed} m/s: off by {errors[0]:.2f} m/s, {errors[1]:.2f} rad/s, ", end="")
        print(f"radius at full turn {radii} m")
    axes.plot(asked, asked, color="gray", ls="--", lw=1)
    axes.set(title="trained low level", xlabel="yaw rate asked [rad/s]", ylabel="yaw [rad/s]")


if __name__ == "__main__":
    main()
