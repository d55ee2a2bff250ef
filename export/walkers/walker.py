"""A walking policy of others, as its files describe it, and a reference that runs it.

The reference is written from the description, term by term and in float64. The composed graph
(`compose`) is compared with it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.mapping.height_scan import POINTS
from pixelgait.robot.spec import Array, Ranges, RobotSpec

HEIGHT_SCAN = "height_scan"
SCAN_OFFSET_M = 0.5  # Isaac Lab's and legged_gym's
# Observation terms that this runtime can tell, by Isaac Lab's names, with their sizes.
SERVED = {
    "base_lin_vel": 3,
    "base_ang_vel": 3,
    "projected_gravity": 3,
    "velocity_commands": 3,
    "joint_pos": 12,
    "joint_pos_rel": 12,
    "joint_vel_rel": 12,
    "last_action": 12,
    "gait_phase": 2,
    HEIGHT_SCAN: len(POINTS),
}
# Terms of walking policies that it cannot tell, and what would.
UNSERVED = {
    "base_pos_z": "no sensor measures the body's height; train without it",
    "foot_contact": "feet have no contact sensors on every link; train without them",
}
NAMES = {  # of other programs
    "ang_vel": "base_ang_vel",
    "ang_vel_body": "base_ang_vel",
    "gravity_vec": "projected_gravity",
    "commands": "velocity_commands",
    "command": "velocity_commands",
    "generated_commands": "velocity_commands",
    "velocity_command": "velocity_commands",
    "dof_pos": "joint_pos_rel",
    "dof_vel": "joint_vel_rel",
    "joint_vel": "joint_vel_rel",
    "actions": "last_action",
    "lin_vel": "base_lin_vel",
    "height_scanner": "height_scan",
    "height_measurements": "height_scan",
    "base_height": "base_pos_z",
    "foot_contacts": "foot_contact",
    "phase": "gait_phase",
}
SLOWEST_HZ, FASTEST_HZ = 25.0, 1.0 / CONTROL_DT_S  # a walker acts in control steps
DEPTH = 100  # longest history [observations]


@dataclass(frozen=True, eq=False)
class Term:
    """One part of an observation."""

    name: str  # of `SERVED`
    scale: Array  # (n,)
    clip: tuple[float, float] = (-math.inf, math.inf)
    ages: tuple[int, ...] = (0,)  # of the observations that are fed, in order; 0: the newest
    offset: float = 0.0  # that is subtracted before


@dataclass(frozen=True, eq=False)
class Walker:
    """A walking policy. Arrays (12,) are in the order of `joint_names`, which is the policy's."""

    format: str
    joint_names: tuple[str, ...]
    terms: tuple[Term, ...]
    action_scale: Array
    action_offset: Array
    default_pose_rad: Array
    kp_nm_per_rad: Array
    kd_nms_per_rad: Array
    rate_hz: float
    command: Ranges
    by_time: bool = False  # whole observations one after another, instead of term by term
    fill_first: bool = True  # a history begins with the first observation, instead of zeros
    scale_first: bool = False  # terms are scaled, then clipped
    action_clip: tuple[Array, Array] | None = None  # of actions, before they are scaled
    target_clip: tuple[Array, Array] | None = None  # of joint targets [rad]
    phase_period_s: float = 0.0  # of the term gait_phase
    notes: tuple[str, ...] = ()  # what the files do not say, and what was taken instead

    @property
    def size(self) -> int:
        """Number of values in an observation, without its history."""
        return sum(term.scale.size for term in self.terms)

    @property
    def depth(self) -> int:
        """Number of observations that are kept."""
        return 1 + max(max(term.ages) for term in self.terms)

    @property
    def period_steps(self) -> int:
        """Control steps between two actions."""
        return round(1.0 / (self.rate_hz * CONTROL_DT_S))

    def layout(self) -> list[tuple[int, int]]:
        """(age, place in an observation) of each value that the network takes."""
        starts = np.cumsum([0, *(term.scale.size for term in self.terms)])
        blocks = [
            [[(age, starts[i] + k) for k in range(term.scale.size)] for age in term.ages]
            for i, term in enumerate(self.terms)
        ]
        ordered = zip(*blocks, strict=True) if self.by_time else blocks
        return [(age, int(at)) for group in ordered for block in group for age, at in block]


def standard(name: str) -> str:
    """The standard name of an observation term.

    Raises:
        UserError: if this runtime cannot tell it; says what would.
    """
    known = NAMES.get(name, name)
    if known in SERVED:
        return known
    if known in UNSERVED:
        raise UserError(f"observation '{name}' cannot be served: {UNSERVED[known]}")
    raise UserError(f"observation '{name}' is unknown, expected some of {', '.join(SERVED)}")


def blind(name: str) -> str:
    """The standard name of a term in a format that does not say how it samples the ground.

    Raises:
        UserError: if this runtime cannot tell it, or it is a height scan.
    """
    if (known := standard(name)) == HEIGHT_SCAN:
        raise UserError(f"observation '{name}' is read from a deploy.yaml alone")
    return known


def check(walker: Walker, inputs: int) -> Walker:
    """The walker, if its description is consistent and its network takes `inputs` values.

    Raises:
        UserError: if not; names what does not fit.
    """
    steps = 1.0 / (walker.rate_hz * CONTROL_DT_S)
    if not SLOWEST_HZ - 1e-6 <= walker.rate_hz <= FASTEST_HZ + 1e-6:
        raise UserError(
            f"rate {walker.rate_hz:g} Hz, expected {SLOWEST_HZ:g} to {FASTEST_HZ:g}, the rate of "
            "the control loop: train it with a longer decimation"
        )
    if abs(steps - round(steps)) > 1e-6:
        raise UserError(
            f"rate {walker.rate_hz:g} Hz: its period is no multiple of the control step, "
            f"{1e3 * CONTROL_DT_S:g} ms"
        )
    if walker.by_time and len({term.ages for term in walker.terms}) > 1:
        raise UserError("a history by time needs the same length for all observations")
    if walker.depth > DEPTH:
        raise UserError(f"history of {walker.depth} observations, at most {DEPTH} are kept")
    if any(term.name == "gait_phase" for term in walker.terms) and not walker.phase_period_s > 0.0:
        raise UserError("observation 'gait_phase' needs a period: give a deploy.yaml")
    if (told := len(walker.layout())) != inputs:
        parts = ", ".join(f"{t.name} {t.scale.size} x {len(t.ages)}" for t in walker.terms)
        raise UserError(f"the policy takes {inputs} values, its description has {told} ({parts})")
    return walker


def places(walker: Walker, spec: RobotSpec) -> list[int]:
    """For each joint of the policy its place among the robot's.

    Raises:
        UserError: if a name is none of the robot's joints, or comes twice.
    """
    own = [plain(name) for name in spec.joint_names]
    for name in walker.joint_names:
        if plain(name) not in own:
            raise UserError(f"joint '{name}' is none of {spec.name}'s: {', '.join(own)}")
    found = [own.index(plain(name)) for name in walker.joint_names]
    if len(set(found)) != len(own):
        raise UserError(f"the policy moves {len(set(found))} joints, {spec.name} has {len(own)}")
    return found


def plain(name: str) -> str:
    """A joint's name without what differs between descriptions of Unitree's robots."""
    short = name.lower().removesuffix("_joint")
    return short.replace("upper", "thigh").replace("lower", "calf")


class Reference:
    """Runs a walker as its description says; `network` maps an observation to an action (12,).

    `action` is the last one. It may be set to that of a graph that is compared: fed back, rounding
    would grow with every step.
    """

    def __init__(self, walker: Walker, spec: RobotSpec, network: Callable[[Array], Array]) -> None:
        self.walker, self._network = walker, network
        self._places = places(walker, spec)
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        longest = [max(term.ages) + 1 for term in self.walker.terms]
        self._history: list[deque[Array]] = [deque(maxlen=n) for n in longest]
        self.action = np.zeros(12)
        self._phase = 0.0
        self._steps = 0
        self._held = np.zeros(12)

    def step(self, given: Mapping[str, Any]) -> Array:
        """Joint targets (12,) [rad], in the robot's order; `given` are sensors by tensor name."""
        if self._steps % self.walker.period_steps == 0:
            self._held = self._act({name: np.asarray(v, np.float64) for name, v in given.items()})
        self._steps += 1
        return self._held

    def _act(self, given: Mapping[str, Array]) -> Array:
        walker = self.walker
        if walker.phase_period_s:
            self._phase = (self._phase + 1.0 / (walker.rate_hz * walker.phase_period_s)) % 1.0
        for term, kept in zip(walker.terms, self._history, strict=True):
            value = self._processed(term, self._value(term.name, given))
            if not kept:
                first = value if walker.fill_first else np.zeros_like(value)
                kept.extend([first] * (kept.maxlen or 1))
            kept.appendleft(value)
        action = np.asarray(self._network(self._observation()), dtype=np.float64)
        if walker.action_clip is not None:
            action = np.clip(action, *walker.action_clip)
        self.action = action
        target = action * walker.action_scale + walker.action_offset
        if walker.target_clip is not None:
            target = np.clip(target, *walker.target_clip)
        found = np.zeros(12)
        found[self._places] = target
        return found

    def _value(self, name: str, given: Mapping[str, Array]) -> Array:
        walker = self.walker
        joints = {key: given[key][self._places] for key in given if key.startswith("joint_")}
        if name == "gait_phase":
            turn = 2.0 * math.pi * self._phase
            return np.array((math.sin(turn), math.cos(turn)))
        if name == "last_action":
            return self.action
        if name == "joint_pos_rel":
            return joints["joint_angles"] - walker.default_pose_rad
        if name in ("joint_pos", "joint_vel_rel"):
            return joints["joint_angles" if name == "joint_pos" else "joint_velocities"]
        return given[SENSED[name]]

    def _processed(self, term: Term, value: Array) -> Array:
        value = value - term.offset
        if self.walker.scale_first:
            return np.clip(value * term.scale, *term.clip)
        return np.asarray(np.clip(value, *term.clip) * term.scale)

    def _observation(self) -> Array:
        terms = list(zip(self.walker.terms, self._history, strict=True))
        if self.walker.by_time:
            ages: Sequence[int] = self.walker.terms[0].ages
            return np.concatenate([kept[age] for age in ages for _, kept in terms])
        return np.concatenate([kept[age] for term, kept in terms for age in term.ages])


SENSED = {  # tensors of the composed graph, by term
    "base_lin_vel": "linear_velocity",
    "base_ang_vel": "angular_velocity",
    "projected_gravity": "gravity",
    "velocity_commands": "command",
    "joint_pos": "joint_angles",
    "joint_pos_rel": "joint_angles",
    "joint_vel_rel": "joint_velocities",
    HEIGHT_SCAN: "height_scan",
}
