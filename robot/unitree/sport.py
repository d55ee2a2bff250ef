"""Driver of a Go2 that walks by its own sport mode: requests to rt/api/sport, rt/sportmodestate."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from threading import Event

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.interface import (
    NO_JOINTS,
    Image,
    JointCommand,
    Posture,
    Reading,
    VelocityCommand,
)
from pixelgait.robot.rotation import heading, to_base_frame
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.safety.sensor_age import Freshness
from pixelgait.robot.spec import GO2, Array
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.address import SPORT_SENSOR, Go2
from pixelgait.robot.unitree.dds import Bus, newest
from pixelgait.robot.unitree.driver import WITHOUT_OWN, XYZW, Go2Sensors
from pixelgait.robot.unitree.remote import STOP, Remote
from pixelgait.robot.unitree.services import (
    AGAIN_S,
    ANSWER_S,
    REQUEST,
    RESPONSE,
    SPORT,
    STAND_DOWN,
    SWITCHER,
    MotionSwitcher,
    lies,
    topics,
)

SPORT_STATE = "rt/sportmodestate"
# Requests, as numbered by the vendor's own client.
DAMP, BALANCE_STAND, STOP_MOVE, STAND_UP, MOVE = 1001, 1002, 1003, 1004, 1008
NAMES = {
    DAMP: "Damp",
    BALANCE_STAND: "BalanceStand",
    STOP_MOVE: "StopMove",
    STAND_UP: "StandUp",
    STAND_DOWN: "StandDown",
    MOVE: "Move",
}
MOVE_S = 0.05  # between two moves: one is followed for about a second, and must be repeated
OTHERS_S = 1.0  # a request of another program counts for so long
OF_OTHERS = (DAMP, STOP_MOVE, STAND_DOWN, MOVE)  # requests of another commander
EVERY_STICK = ((-1.0, 1.0),) * 3  # also one to the side takes over
# Standard deviations of the robot's own odometry, which publishes none; assumptions.
POSITION_M, HEADING_RAD, SPEED_M_PER_S = 0.3, 0.1, 0.1


class SportDriver(Go2Sensors):
    """The `Driver` of a Go2 whose own program walks, stands up and lies down as requested.

    StandUp locks its joints, so BalanceStand comes before the first Move (unitree_webrtc_connect,
    issue 17). While it stands nothing is sent: the remote control may move it. Requests but Move
    are repeated until they are answered, one after the other: a reader keeps the newest alone.
    """

    sensors: tuple[str, ...] = (SPORT_SENSOR, *Go2Sensors.sensors)

    def __init__(self, bus: Bus, now_s: Callable[[], float], remote: Remote) -> None:
        super().__init__(bus, GO2, now_s, remote)
        asked, answered = topics(SPORT)
        self._requests = bus.writer(asked, REQUEST)
        self._responses = bus.reader(answered, RESPONSE)
        self._others = bus.reader(asked, REQUEST, WITHOUT_OWN)
        self._others_s = -OTHERS_S  # when another program moved or stopped it [s]
        self._sport_states = bus.reader(SPORT_STATE, go2.SPORT_MODE_STATE)
        self._sport_freshness = Freshness(SPORT_SENSOR)
        self._sport: go2.Record | None = None
        self._sport_stamp_s = 0.0
        self.motion: Motion | None = None  # the newest, by the robot's own odometry
        self.moved: Callable[[Reading, Motion], None] = lambda *_: None  # called for each
        self.received[SPORT_SENSOR] = 0
        self._posture, self._moves = Posture.IDLE, False  # as commanded
        self._balances = False  # whether it may be moved
        self._down = False  # whether it was told down, and has not agreed to stand up since
        self._rises_s: float | None = None  # when it agreed, until it was seen to stand
        self._moved_s = 0.0  # when the last move was sent
        self._pending: deque[int] = deque()  # requests to send; the first may have been sent
        self._numbers: set[int] = set()  # of the first of them
        self._first_s = self._asked_s = -math.inf  # when it was sent first, and last

    def take(self) -> None:
        """Fetch the newest states, answers, and other programs' requests.

        Raises:
            UserError: the robot has refused a request, or does not answer it.
        """
        super().take()
        if (state := newest(self._sport_states)) is not None:
            self.received[SPORT_SENSOR] += 1
            now_s = self._now_s()  # by arrival: its stamps are of another clock
            if self._sport_freshness.arrived(now_s, now_s, time.monotonic()):
                self._sport, self._sport_stamp_s = state, now_s
                self._locate(state)
        if any(each.record["api"] in OF_OTHERS for each in self._others.take(N=10)):
            self._others_s = time.monotonic()
        for answer in self._responses.take(N=10):
            if int(answer.record["id"]) in self._numbers:
                self._answered(int(answer.record["code"]))

    def _locate(self, state: go2.Record) -> None:
        """Take the motion of a state."""
        if self._state is None:
            return
        reading, position = self.read(_no_image, None), (POSITION_M**2, 0.0, POSITION_M**2)
        ahead, left, _ = state["velocity"].tolist()  # in the base's frame; assumption
        height_m, turn = float(state["position"][2]), float(state["yaw_speed"])
        up = to_base_frame((0.0, 0.0, 1.0), reading.orientation.tolist())
        x, y, heading_rad = self.angles().tolist()
        speeds, unsure = (ahead, left, turn), (position, HEADING_RAD**2, SPEED_M_PER_S**2)
        self.motion = Motion(x, y, heading_rad, height_m, *speeds, *unsure, None, up)
        self.moved(reading, self.motion)

    def _answered(self, code: int) -> None:
        """The robot's answer to the first of the pending requests."""
        api = self._pending.popleft()
        self._numbers.clear()
        self._asked_s = -math.inf
        if code:
            raise UserError(f"{SPORT}: the robot refuses {NAMES[api]}, code {code}")
        if api == STAND_UP:
            self._down, self._rises_s = False, time.monotonic()

    def forget(self) -> None:
        super().forget()
        self._sport_freshness.forget()

    def angles(self) -> Array:
        """x, y [m], heading [rad] (3,), which tell whether it moves; empty if unknown."""
        if self._sport is None or self._state is None:
            return np.zeros(0)
        x, y = self._sport["position"][:2].tolist()
        return np.array((x, y, heading(self._orientation().tolist())))

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        """The newest state, and the robot's own odometry."""
        return Reading(
            self._stamp_s,
            NO_JOINTS,
            NO_JOINTS,
            self._orientation(),
            self._imu("gyroscope"),
            image,
            self.angles() if odometry is None else odometry,
            self._lies(),
        )

    def ages(self) -> dict[str, float]:
        return {SPORT_SENSOR: self._sport_freshness.age_s(time.monotonic()), **super().ages()}

    def warnings(self) -> dict[str, str]:
        warnings = super().warnings()
        if not self.received[SPORT_SENSOR] and self.received[self.sensors[-1]]:
            warnings[SPORT_SENSOR] = "its own program does not run: is it released?"
        return warnings

    def stamps(self) -> dict[str, float]:
        return {SPORT_SENSOR: self._sport_stamp_s, **super().stamps()}

    def pace(self) -> dict[str, float]:
        """Nothing: every request is sent once."""
        return {}

    def acquire(self, stop: Event) -> None:
        """Forget what was requested before; the robot stays with its own program."""
        self._plan()
        self._posture, self._moves, self._balances = Posture.IDLE, False, False
        self._rises_s = None

    def take_motors(self, stop: Event) -> None:
        """Check that the robot's own program walks it.

        Raises:
            UserError: none does, or it does not answer, or `stop` was set first.
        """
        if not MotionSwitcher(self._bus).mode(stop):
            raise UserError(f"{SWITCHER}: no program of its own walks the robot: restart it")
        self._has_robot, self._restarts = True, self._clock.restarts

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Another program that moves or stops the robot, or see `Go2Sensors`."""
        if commanding and self._is_commanded_by_others():
            others = ", ".join(self._bus.writers(self._others))
            return f"another program moves or stops the robot by {topics(SPORT)[0]}: {others}"
        return super().conflicting_publisher(commanding)

    def _is_commanded_by_others(self) -> bool:
        return time.monotonic() - self._others_s < OTHERS_S

    def send(self, command: JointCommand) -> None:
        """Request what the command is about, and repeat what must be repeated.

        Raises:
            UserError: the robot does not answer, or does not stand up.
        """
        assert isinstance(command, VelocityCommand)
        before, self._posture = self._posture, command.posture
        if before is not self._posture:
            self._change(before)
        if self._posture is Posture.UP:
            self._check_the_stand()
            self._move(command.velocity)
        self._ask()

    def _change(self, before: Posture) -> None:
        """Request another posture than before."""
        stop = (STOP_MOVE,) if before is Posture.UP else ()
        self._moves = self._balances = False
        self._rises_s = None
        if self._posture is Posture.STOP:
            self._down = True
            self._plan(DAMP)
        elif self._posture is Posture.DOWN:
            self._down = True
            self._plan(*stop, STAND_DOWN)
        elif self._posture is Posture.UP and (self._down or self._lies()):
            self._plan(STAND_UP)
        elif stop:
            self._plan(*stop)

    def _lies(self) -> bool:
        return lies(self._motors("q"), GO2)

    def _check_the_stand(self) -> None:
        """Raises UserError: the robot has agreed to stand up, and lies long after."""
        if self._rises_s is None:
            return
        if not self._lies():
            self._rises_s = None
        elif time.monotonic() - self._rises_s > ANSWER_S:
            raise UserError(f"{SPORT}: the robot lies {ANSWER_S:.0f} s after StandUp")

    def _move(self, velocity: Array) -> None:
        """Move with a velocity (3,), or end the last move; not against another program."""
        before, self._moves = self._moves, bool(velocity.any())
        if not self._moves:
            if before and not self._pending:  # else no move was sent since
                self._plan(STOP_MOVE)
            return
        if self._is_commanded_by_others():
            return
        if not self._balances:
            self._balances = True
            self._plan(*self._pending, BALANCE_STAND)
        if not self._pending and time.monotonic() - self._moved_s >= MOVE_S:
            self._moved_s = time.monotonic()
            x, y, z = velocity.tolist()
            self._request(MOVE, x=x, y=y, z=z)

    def _plan(self, *apis: int) -> None:
        """Replace the pending requests."""
        self._pending = deque(apis)
        self._numbers.clear()
        self._asked_s = -math.inf

    def _ask(self) -> None:
        """Send the first of the pending requests, again if it was not answered."""
        now_s = time.monotonic()
        if not self._pending or now_s - self._asked_s < AGAIN_S:
            return
        if not self._numbers:
            self._first_s = now_s
        elif now_s - self._first_s > ANSWER_S:
            name = NAMES[self._pending[0]]
            raise UserError(f"{SPORT}: the robot does not answer {name} for {ANSWER_S:.0f} s")
        self._asked_s = now_s
        self._numbers.add(self._request(self._pending[0]))

    def _request(self, api: int, **parameters: float) -> int:
        """Send a request; returns its number. The vendor's moves want no answer."""
        record, number = REQUEST.new(), time.monotonic_ns()
        record["id"], record["api"], record["no_reply"] = number, api, api == MOVE
        self._requests.write(record, parameter=json.dumps(parameters) if parameters else "")
        return number

    def settle(self) -> None:
        """Nothing: the robot stands, or lies, by its own program."""
        self._has_robot = False

    def close(self) -> None:
        """Leave the bus."""
        self._bus.close()

    def _orientation(self) -> Array:
        """The newest orientation (4,), xyzw."""
        return self._imu("quaternion")[list(XYZW)]


def _no_image() -> Image:
    raise AssertionError


def connected(address: Go2, operator: Operator, now_s: Callable[[], float]) -> SportDriver:
    """The driver of a Go2 in its sport mode.

    On the remote control L2 + B stops. A stick takes the robot over: it is commanded no more until
    the next order.

    Raises:
        UserError: the bus cannot be joined.
    """

    def take_over() -> None:
        if operator.state is RobotState.WALKING:
            operator.stand_up()

    bus = Bus(address)
    try:
        stops = {STOP: lambda: operator.emergency_stop("remote control")}
        return SportDriver(bus, now_s, Remote(stops, take_over, EVERY_STICK))
    except BaseException:  # a process can open a domain only once
        bus.close()
        raise
