"""Speed calibration of a low level: the robot walks at the commanded speed.

Two of the 399 weights map a speed command to a stride: the latent's and the bias. Evolution gets
near them; here they are computed from the trained robot's measured speeds. An omnidirectional low
level has four such among its 460: forward, left, yaw rate, and the stride's bias. Run as
`python -m pixelgait.policies.training.calibration RUN`, after `pixelgait-train follow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from pixelgait.policies.low_level import searched_low_level
from pixelgait.policies.runs.run import Checkpoint, Run, find_run, robot_of
from pixelgait.policies.runs.trained import body_of, trained_low_level
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.cli.options import parse
from pixelgait.robot.control import gait
from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    Controller,
    Decision,
    latent_for,
)
from pixelgait.robot.control.gait import SIDE, STRIDE, TURN
from pixelgait.robot.control.low_level import (
    LOW_LEVEL_WEIGHTS,
    OMNI,
    RESIDUAL_SIZE,
    LinearLowLevel,
    felt,
)
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import locked
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.registry import make_body, simulators
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.manoeuvres import walk

ROUNDS = 4
SECONDS = 4.0
SPEEDS = (MAX_SPEED_M_PER_S / 3.0, MAX_SPEED_M_PER_S)
ROW = RESIDUAL_SIZE + STRIDE  # row of the weights that gives the stride
LONGEST = 1.0  # largest stride action: the low level's outputs are clipped to it
# Velocity commands along one axis each, on which an omnidirectional low level is calibrated.
ALONG = (
    ((-0.5, 0.0, 0.0), (-0.2, 0.0, 0.0), (0.2, 0.0, 0.0), (0.6, 0.0, 0.0), (1.0, 0.0, 0.0)),
    ((0.0, 0.2, 0.0), (0.0, 0.4, 0.0)),
    ((0.0, 0.0, 0.5), (0.0, 0.0, 1.0)),
)
GAIT_OF_AXIS = (STRIDE, SIDE, TURN)  # the parameter that moves it so
LEAST_GAIN = 0.2  # least share of the speed difference that a secant is based on; assumption


@dataclass(frozen=True)
class CalibrateConfig:
    """Calibrate the best low level of a run, in place, on an ideal robot in the run's simulator.

    The robot then reaches a third of the highest speed and all of it, in a mixture on average; an
    omnidirectional one follows forward, sideways and yaw-rate commands with the least error."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of a low level."""


class Recorder:
    """A low level that records its inputs."""

    def __init__(self, low_level: LinearLowLevel) -> None:
        self.low_level = low_level
        self.inputs: list[Array] = []  # (20,) or (22,) each

    def __call__(self, latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        command = self.low_level.followed(latent, carried)
        self.inputs.append(felt(command, reading, carried[:1]))
        return self.low_level(latent, reading, carried)


def main() -> None:
    """Command line."""
    program = "python -m pixelgait.policies.training.calibration"
    run_command(lambda: calibrate_run(parse(CalibrateConfig, program)))


def calibrate_run(config: CalibrateConfig) -> None:
    """Calibrate the run's best checkpoint and print the speeds of each round.

    Raises:
        UserError: if the folder holds no run of a low level, is shipped or in use, or the robot
            falls or does not walk faster at a higher command.
    """
    folder = find_run(config.run, "low_level")
    if folder.resolve().is_relative_to(SHIPPED):
        raise UserError(f"{config.run} is shipped, and calibrated: name a run folder of your own")
    if folder.resolve() != config.run.resolve():
        raise UserError(f"{config.run}: its low level is a copy: calibrate the run it is of")
    trained_low_level(folder)  # refuses other runs
    with locked(folder):
        run = Run(folder)
        best, mirror = run.load("best"), bool(run.config.get("mirror"))
        spec = robot_of(folder)
        bodies = [make_body(name, spec, FlatGround()) for name in simulators(body_of(folder))]
        try:
            turn = _round if best.weights.size != OMNI.weights else _omni_round
            for _ in range(ROUNDS):
                best = turn(best, mirror, bodies)
            if turn is _round:
                _reached(best, mirror, bodies)
        finally:
            for body in bodies:
                body.close()
        run.save(best, "best")


def _round(checkpoint: Checkpoint, mirror: bool, bodies: list[SimulatedBody]) -> Checkpoint:
    """The checkpoint with corrected strides at both speeds, by a secant between them."""
    spec = bodies[0].spec
    (slow, short), (fast, long) = _reached(checkpoint, mirror, bodies)
    if fast - slow < LEAST_GAIN * (SPEEDS[1] - SPEEDS[0]):
        raise UserError(
            f"at commands of {SPEEDS[0]:.2f} and {SPEEDS[1]:.2f} m/s it reached {slow:.2f} and "
            f"{fast:.2f}: expected a low level that walks faster at a higher one, train it longer"
        )
    stride_per_speed = (long - short) / (fast - slow)
    less, more = (stride_per_speed * (a - b) for a, b in zip(SPEEDS, (slow, fast), strict=True))
    if more > LONGEST - long:  # larger strides are clipped
        print(f"stride at its limit: {SPEEDS[1]:.2f} m/s is out of reach")
        more = LONGEST - long
    from_latent, to_latent = (latent_for(speed, 0.0)[0] for speed in SPEEDS)
    per_latent = (more - less) / (to_latent - from_latent)
    weights = checkpoint.weights.copy()
    part = LinearLowLevel.from_weights(spec, weights[-LOW_LEVEL_WEIGHTS:])  # views
    part.matrix[ROW, 0] += per_latent
    part.bias[ROW] += more - per_latent * to_latent
    return replace(checkpoint, weights=weights)


def _reached(
    checkpoint: Checkpoint, mirror: bool, bodies: list[SimulatedBody]
) -> list[tuple[float, float]]:
    """Speed [m/s] and stride action at each of the commanded speeds; prints them."""
    weights, normaliser = checkpoint.weights, checkpoint.normaliser
    low_level = searched_low_level(bodies[0].spec, weights, normaliser, mirror)
    reached = [
        np.mean([_measure(low_level, body, speed) for body in bodies], axis=0).tolist()
        for speed in SPEEDS
    ]
    (slow, _), (fast, _) = reached
    print(f"asked {SPEEDS[0]:.2f}, {SPEEDS[1]:.2f} m/s, reached {slow:.3f}, {fast:.3f} m/s")
    return reached


def _omni_round(checkpoint: Checkpoint, mirror: bool, bodies: list[SimulatedBody]) -> Checkpoint:
    """The checkpoint with corrected strides, sideways strides and turns.

    A robot moves by 2 f / duty times its stride. What is missing is asked for in addition, as an
    affine function of the command along each axis; sideways and turns without a constant.
    """
    low_level = searched_low_level(
        bodies[0].spec, checkpoint.weights, checkpoint.normaliser, mirror
    )
    weights = checkpoint.weights.copy()
    part = LinearLowLevel.from_weights(bodies[0].spec, weights)  # views
    for axis, commands in enumerate(ALONG):
        row = RESIDUAL_SIZE + GAIT_OF_AXIS[axis]
        asked = np.array([command[axis] for command in commands])
        measured = np.array(
            [np.mean([_missing(low_level, b, c, axis) for b in bodies], 0) for c in commands]
        )
        print(f"asked {asked.tolist()}, missing {measured[:, 0].round(3).tolist()}")
        basis = np.stack([asked, np.ones_like(asked)], 1)[:, : 2 if axis == 0 else 1]
        change = np.linalg.lstsq(basis, measured[:, 1], rcond=None)[0]
        part.matrix[row, axis] += change[0]
        part.bias[row] += change[1:].sum()
    return replace(checkpoint, weights=weights)


def _missing(
    low_level: LinearLowLevel, body: SimulatedBody, command: Sequence[float], axis: int
) -> tuple[float, float]:
    """Velocity missing along an axis at a command, and the action that would make it."""
    recorder = Recorder(low_level)
    controller = Controller(lambda *_: Decision(np.zeros(2), 1), recorder, Supervisor(body.spec))
    forward, left, yaw_rate = command
    walked = walk(controller, body, forward, yaw_rate, SECONDS, left, omni=True)
    if walked.fell:
        raise UserError(f"the robot fell at {forward}, {left} m/s, {yaw_rate} rad/s")
    inputs = recorder.inputs[-round(SECONDS / CONTROL_DT_S) :]
    low, high = gait.OMNI_LOW, gait.OMNI_HIGH
    action = np.mean([low_level.action(x) for x in inputs], 0)[RESIDUAL_SIZE:]
    parameters = low + (action + 1.0) / 2.0 * (high - low)
    half_s = 0.5 * parameters[gait.DUTY] / parameters[gait.FREQUENCY]
    turns = np.mean([x[2] for x in inputs])
    missing = (
        forward - walked.speed,
        left - walked.left,
        float(turns) - yaw_rate,  # which the heading hold adds
    )[axis]
    return missing, half_s * missing / float(high[GAIT_OF_AXIS[axis]])


def _measure(low_level: LinearLowLevel, body: SimulatedBody, speed: float) -> tuple[float, float]:
    """Speed reached [m/s] at a speed command, and the mean stride action."""
    recorder, row = Recorder(low_level), low_level.matrix[ROW]
    controller = Controller(lambda *_: Decision(np.zeros(2), 1), recorder, Supervisor(body.spec))
    walked = walk(controller, body, speed, 0.0, SECONDS)
    if walked.fell:
        raise UserError(f"the robot fell at {speed:.2f} m/s: cannot be calibrated")
    inputs = recorder.inputs[-round(SECONDS / CONTROL_DT_S) :]
    strides = [float(row @ x + low_level.bias[ROW]) for x in inputs]
    return walked.speed, float(np.mean(np.clip(strides, -LONGEST, LONGEST)))


if __name__ == "__main__":
    main()
