"""n robots in MuJoCo, each alone on flat ground: one model, a state each.

Each moves as a `MuJoCoBody` does, bit for bit. Motors and sensors are ideal, nobody has a camera.
What is a vector of one robot is an array with a row for each of n.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import PHYSICS_DT_S, SUBSTEPS, JointLoads
from pixelgait.sim.engines.mujoco_body import ANGULAR, LINEAR, POSITION, QUATERNION, MuJoCoBody
from pixelgait.sim.engines.mujoco_model import read_feet
from pixelgait.sim.scenes.flat import FlatGround

BLANK = np.zeros((1, 1, 3), dtype=np.uint8)  # what a robot without eyes sees
WXYZ = np.arange(QUATERNION.start, QUATERNION.stop)  # of the coordinates
XYZW = np.roll(WXYZ, -1)


class MuJoCoBatch:
    """n robots of one kind that start alike, until they `leave`: then they stay as they are."""

    def __init__(self, spec: RobotSpec, robots: int) -> None:
        self.spec, self.robots = spec, robots
        self._first = MuJoCoBody(spec, FlatGround(), foot_sensors=True)
        self._model = self._first.model
        self._states = [mujoco.MjData(self._model) for _ in range(robots)]
        # Views, made once: to ask for one takes as long as to copy it.
        self._q, self._v = ([getattr(s, name) for s in self._states] for name in ("qpos", "qvel"))
        self._forces = [state.actuator_force for state in self._states]
        self._felt = [state.sensordata for state in self._states]
        self._targets = [state.ctrl for state in self._states]
        self.reset()

    def reset(self) -> Reading:
        """Stand all of them at the start."""
        self._first.reset(0)  # flat ground has one layout
        for state in self._states:
            mujoco.mj_copyData(state, self._model, self._first.data)
        self.staying = np.ones(self.robots, dtype=bool)
        self.time_s, self._stiff = 0.0, False
        return self.read()

    def read(self) -> Reading:
        """Ideal sensor values of this instant, (n, ...)."""
        self._coordinates, velocities = _rows(self._q), _rows(self._v)
        self._speeds = velocities.take(self._first.v, 1)
        return Reading(
            self.time_s,
            self._coordinates.take(self._first.q, 1),  # an index would not leave rows in one piece
            self._speeds,
            self.orientations,
            velocities[:, ANGULAR],
            lambda: Image(BLANK, self.time_s),
        )

    def apply(self, command: JointCommand) -> None:
        """One control step of who has not left; targets (n, 12), gains (12,) that never change."""
        if not self._stiff:
            self._first.stiffen(command)
            self._stiff = True
        self.advance(command.targets)
        for _ in range(SUBSTEPS):  # rounded as a single robot's clock is
            self.time_s += PHYSICS_DT_S

    def advance(self, targets: Array) -> None:
        """The engine alone: a control step towards these targets (n, 12)."""
        for robot in np.flatnonzero(self.staying).tolist():
            self._targets[robot][:] = targets[robot]
            mujoco.mj_step(self._model, self._states[robot], SUBSTEPS)

    def leave(self, who: NDArray[np.bool_]) -> None:
        """Those (n,) move no more."""
        self.staying &= ~who

    def restart(self, robot: int) -> None:
        """Stand one of them at the start again; `read` what all do before it is judged."""
        mujoco.mj_copyData(self._states[robot], self._model, self._first.data)
        self.staying[robot] = True

    def advance_alone(self, robot: int, command: JointCommand) -> None:
        """A control step of one of them under other gains than all have: of one to be damped."""
        alone, own = self._first, self._states[robot]
        mujoco.mj_copyData(alone.data, self._model, own)
        alone.apply(command)
        mujoco.mj_copyData(own, self._model, alone.data)
        alone.reset(0)
        self._stiff = False

    @property
    def positions(self) -> Array:
        """(n, 3) of the bases, when they were read [m]."""
        return self._coordinates[:, POSITION]

    @property
    def orientations(self) -> Array:
        """(n, 4) of the bases, when they were read: quaternions xyzw."""
        return self._coordinates.take(XYZW, 1)

    def loads(self) -> JointLoads:
        """What motors and feet bear, (n, ...); joints' speeds are those that were read."""
        return JointLoads(_rows(self._forces), self._speeds, *read_feet(_rows(self._felt)))

    def push(self, velocities: Array) -> None:
        """Kick the bases: add velocities (n, 3) [m/s]."""
        for own, velocity in zip(self._v, velocities, strict=True):
            own[LINEAR] += velocity


def _rows(views: list[Array]) -> Array:
    """A copy of n vectors, one below the other."""
    return np.concatenate(views).reshape(len(views), -1)
