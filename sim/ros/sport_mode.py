"""Sport mode of a simulated Go2: its own program, which stands, walks, lies down as requested."""

from __future__ import annotations

import json
import math
import time

import numpy as np

from pixelgait.robot.bundle.bundle import LOW_LEVELS
from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.safety.velocity import STILL
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.unitree.services import STAND_DOWN
from pixelgait.robot.unitree.sport import BALANCE_STAND, DAMP, MOVE, STAND_UP, STOP_MOVE
from pixelgait.sim.body.interface import PHYSICS_DT_S
from pixelgait.sim.body.legged_body import damped, stiff
from pixelgait.sim.ros.own_gait import OwnGait

NOT_IMPLEMENTED, MALFORMED = 3203, 3204  # the robot's error codes
LIE_S = 1.8  # from standing to the ground, as in the vendor's stand example
MOVE_S = 1.0  # a move is followed for so long (unitree_webrtc_connect, issue 30: a second or two)


class SportMode:
    """Commands the joints of a robot that stands at first.

    As by the robot, a move is accepted and not followed after StandUp, until BalanceStand.
    """

    def __init__(self, spec: RobotSpec) -> None:
        self._spec = spec
        self._gait = OwnGait(spec) if spec.name in LOW_LEVELS else None
        self.reset()

    def reset(self) -> None:
        """Stand."""
        self._lying = self._wanted = 0.0  # share of the way to the ground
        self._damped = self._locked = self._walked = False
        self._velocity, self._received_s = STILL, -math.inf

    def answer(self, api: int, parameter: str) -> int:
        """Follow a request; returns its code, 0 if it is accepted."""
        if api == MOVE and self._gait is not None:
            return self._move(parameter)
        if api not in (DAMP, BALANCE_STAND, STOP_MOVE, STAND_UP, STAND_DOWN):
            return NOT_IMPLEMENTED
        self._received_s = -math.inf
        if api == DAMP:
            self._damped, self._lying = True, 1.0
        elif api == BALANCE_STAND:
            self._locked = False
        elif api in (STAND_UP, STAND_DOWN):
            self._damped, self._locked, self._walked = False, True, False
            self._wanted = float(api == STAND_DOWN)
        return 0

    def _move(self, parameter: str) -> int:
        try:
            wanted = json.loads(parameter)
            self._velocity = np.array([float(wanted[axis]) for axis in "xyz"])
        except (ValueError, KeyError, TypeError):
            return MALFORMED
        self._received_s = time.monotonic()
        self._walked = self._walked or not self._locked
        return 0

    def command(self, reading: Reading | None) -> JointCommand | None:
        """The joints' command in a physics step; None: stand."""
        if self._damped:
            return damped(self._spec)
        most = PHYSICS_DT_S / LIE_S
        self._lying += min(most, max(-most, self._wanted - self._lying))
        if self._lying > 0.0:
            up, down = self._spec.default_pose_rad, lying_pose(self._spec)
            return stiff(self._spec, up + self._lying * (down - up))
        if reading is None or self._gait is None or not self._walked:
            return None
        moves = not self._locked and time.monotonic() - self._received_s < MOVE_S
        return self._gait.command(self._velocity if moves else STILL, reading)
