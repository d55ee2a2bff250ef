"""The low-level graph: what its tensors are fed with, by name, and the state that it carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import velocity
from pixelgait.robot.control.low_level import LATENT_SIZE
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.interface import Reading
from pixelgait.robot.mapping.height_scan import POINTS
from pixelgait.robot.rotation import gravity
from pixelgait.robot.spec import AXES, Array, Legs

Feed = Callable[[Array, Reading, Legs], Any]
TURNS_RAD_PER_S = 0.1  # a slower turn needs no forward speed; assumption
# Inputs that a graph may have, by name: size and value, from latent command, reading and legs.
FEEDS: Mapping[str, tuple[int, Feed]] = {
    "latent": (LATENT_SIZE, lambda latent, *_: latent[:LATENT_SIZE]),
    "command": (len(AXES), lambda latent, _, legs: walker_velocity(legs, latent)),
    "climb": (1, lambda latent, *_: latent[3:4] if latent.size > len(AXES) else np.zeros(1)),
    "imu": (4, lambda _, reading, __: imu_vector(reading)),
    "linear_velocity": (3, lambda _, reading, __: reading.linear_velocity),
    "angular_velocity": (3, lambda _, reading, __: reading.angular_velocity),
    "gravity": (3, lambda _, reading, __: gravity(reading.orientation.tolist())),
    "joint_angles": (12, lambda _, reading, __: reading.joint_angles),
    "joint_velocities": (12, lambda _, reading, __: reading.joint_velocities),
    "height_scan": (len(POINTS), lambda _, reading, __: reading.height_scan),
}
TARGETS = "joint_targets"
# Inputs that start with 0 and are fed the output of the last step, in this order.
CARRIED = {"phase": "next_phase", "state": "next_state"}


def walker_velocity(legs: Legs, latent: Array) -> Array:
    """The velocity (3,) that a walker is commanded: within its ranges, fast enough to turn.

    A gait's turn may exceed its range, by what the heading hold adds.
    """
    if legs.gait:
        return velocity(latent)
    least, most = np.array(legs.command).T
    command: Array = np.clip(velocity(latent), least, most)
    if abs(command[2]) > TURNS_RAD_PER_S and command[0] >= 0.0:
        command[0] = max(command[0], legs.least_turning_speed_m_per_s)
    return command


def fed(
    inputs: Mapping[str, Any], legs: Legs, latent: Array, reading: Reading, carried: Array
) -> dict[str, NDArray[np.float32]]:
    """Values of a graph's inputs (tensors of a contract, by name)."""
    given = {name: FEEDS[name][1](latent, reading, legs) for name in inputs if name in FEEDS}
    begin = 0
    for name in CARRIED:
        if name in inputs:
            size = inputs[name]["shape"][0]
            part = carried[begin : begin + size]
            given[name] = part if part.size == size else np.zeros(size)  # the first step
            begin += size
    return {name: np.asarray(value, dtype=np.float32) for name, value in given.items()}


def outputs(inputs: Mapping[str, Any]) -> list[str]:
    """Names of the outputs of a graph with these inputs: targets, then what it carries."""
    return [TARGETS, *(after for name, after in CARRIED.items() if name in inputs)]
