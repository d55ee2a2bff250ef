"""Batched MuJoCo: n robots, each alone in one scene; one model, a state for each robot.

Each robot moves as a `MuJoCoBody` does, bit for bit. Motors and sensors are ideal, there is no
camera; for randomised robots see `randomised_batch`. A vector of one robot is here an array with a
row for each of n robots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import JointCommand
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import PHYSICS_DT_S, SUBSTEPS, JointLoads
from pixelgait.sim.engines.mujoco_body import ANGULAR, LINEAR, POSITION, QUATERNION, MuJoCoBody
from pixelgait.sim.engines.mujoco_model import read_feet
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.world.scene import Scene

WXYZ = np.arange(QUATERNION.start, QUATERNION.stop)  # of the coordinates
XYZW = np.roll(WXYZ, -1)


@dataclass(frozen=True, slots=True)
class BatchReading:
    """The `Reading`s of n robots, without images and odometry."""

    time_s: float
    joint_angles: Array  # (n, 12) [rad]
    joint_velocities: Array  # (n, 12) [rad/s]
    orientation: Array  # (n, 4) quaternions xyzw
    angular_velocity: Array  # (n, 3) [rad/s], base frames


class MuJoCoBatch:
    """n robots of one kind that start alike; those that `leave` are not simulated any further."""

    def __init__(self, spec: RobotSpec, robots: int, scene: Scene | None = None) -> None:
        self.spec, self.robots, self.scene = spec, robots, scene or FlatGround()
        self._flat = isinstance(self.scene, FlatGround)
        self._states = self._make_states()
        # Views, made once: to ask for one takes as long as to copy it.
        self._q, self._v = ([getattr(s, name) for s in self._states] for name in ("qpos", "qvel"))
        self._forces = [state.actuator_force for state in self._states]
        self._felt = [state.sensordata for state in self._states]
        self._targets = [state.ctrl for state in self._states]
        self.reset()

    def _make_states(self) -> list[mujoco.MjData]:
        self._first = MuJoCoBody(self.spec, self.scene, foot_sensors=True)
        self._model = self._first.model
        return [mujoco.MjData(self._model) for _ in range(self.robots)]

    def reset(self, seeds: Sequence[int] = ()) -> BatchReading:
        """Place all robots at the start, in a scene with layouts at those of their seeds."""
        self._first.reset(0)  # flat ground has one layout
        for i, state in enumerate(self._states):
            if not self._flat and seeds:
                self._first.reset(seeds[i])
            mujoco.mj_copyData(state, self._model, self._first.data)
        self._begin()
        return self.read()

    def _begin(self) -> None:
        self.staying = np.ones(self.robots, dtype=bool)
        self.time_s, self._stiff = 0.0, False

    def read(self) -> BatchReading:
        """Ideal sensor values of this instant."""
        self._coordinates, velocities = rows(self._q), rows(self._v)
        self._speeds = velocities.take(self._first.v, 1)
        return BatchReading(
            self.time_s,
            self._coordinates.take(self._first.q, 1),  # an index would not leave rows in one piece
            self._speeds,
            self.orientations,
            velocities[:, ANGULAR],
        )

    def apply(self, targets: Array) -> None:
        """One control step towards these targets (n, 12) [rad], with the robot's nominal gains."""
        if not self._stiff:
            kp, kd = self.spec.kp_nm_per_rad, self.spec.kd_nms_per_rad
            self._first.stiffen(JointCommand(self.time_s, targets[0], kp, kd, np.zeros(len(kp))))
            self._stiff = True
        self.advance(targets)
        for _ in range(SUBSTEPS):  # rounded as a single robot's clock is
            self.time_s += PHYSICS_DT_S

    def advance(self, targets: Array) -> None:
        """Step the engine alone: one control step towards these targets (n, 12) [rad]."""
        for robot in np.flatnonzero(self.staying).tolist():
            self._targets[robot][:] = targets[robot]
            mujoco.mj_step(self._model, self._states[robot], SUBSTEPS)

    def leave(self, robots: NDArray[np.bool_]) -> None:
        """Simulate these robots (n,) no further."""
        self.staying &= ~robots

    def restart(self, robot: int) -> None:
        """Place one robot at the start again; call `read` before a task rewards it."""
        mujoco.mj_copyData(self._states[robot], self._model, self._first.data)
        self.staying[robot] = True

    def advance_alone(self, robot: int, command: JointCommand) -> None:
        """Control step of one robot with gains of its own: one that its supervisor damps."""
        alone, own = self._first, self._states[robot]
        mujoco.mj_copyData(alone.data, self._model, own)
        alone.apply(command)
        mujoco.mj_copyData(own, self._model, alone.data)
        alone.reset(0)
        self._stiff = False

    @property
    def positions(self) -> Array:
        """Positions of the bases (n, 3) [m] at the last `read`."""
        return self._coordinates[:, POSITION]

    @property
    def orientations(self) -> Array:
        """Orientations of the bases (n, 4), quaternions xyzw, at the last `read`."""
        return self._coordinates.take(XYZW, 1)

    def ground(self) -> Array:
        """Heights of the ground below the bases (n,) [m]; nan: there is none."""
        if self._flat:
            return np.zeros(self.robots)
        places = self._coordinates[:, POSITION].tolist()
        found = [self.scene.ground_m(x, y) for x, y, _ in places]
        return np.array([math.nan if z is None else z for z in found])

    def loads(self) -> JointLoads:
        """Loads of motors and feet, (n, ...); joint speeds are those of the last `read`."""
        return JointLoads(rows(self._forces), self._speeds, *read_feet(rows(self._felt)))

    def push(self, velocities: Array) -> None:
        """Kick the bases: add velocities (n, 3) [m/s]."""
        for own, velocity in zip(self._v, velocities, strict=True):
            own[LINEAR] += velocity


def rows(views: list[Array]) -> Array:
    """n vectors as rows, copied."""
    return np.concatenate(views).reshape(len(views), -1)
