"""Service client of a Go2; handover of its motors, from its own programs to this node and back.

Types of unitree_sdk2 (module unitree_api::msg::dds_); numbers and names of the motion switcher are
those of its own client.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from threading import Event
from typing import Any

from cyclonedds.core import DDSException

from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.robot.unitree.dds import Bus
from pixelgait.robot.unitree.messages import BYTES, TEXT, Message

SWITCHER, SPORT = "motion_switcher", "sport"
CHECK_MODE, SELECT_MODE, RELEASE_MODE = 1001, 1002, 1003
STAND_DOWN = 1005  # of sport, the robot's own program
NO_LOW_LEVEL = "motor commands need a Go2 EDU with firmware 1.0.24 or newer"
BUSY, THERE_ALREADY = 7002, 7004  # of the switcher; the second also for a wrong name
ANSWER_S = 10.0  # the vendor's samples wait 5 to 10 s
AGAIN_S = 0.5  # a request before the service was discovered is lost
RELEASE_S = 30.0  # until the motors are free; a release takes seconds, and is repeated
FAREWELL_S = 5.0  # for an answer at the end: it takes seconds, or the robot is gone
NEVER = Event()  # a `stop` that is never set
PAUSE_S = 1.0  # from one release to the next, as in the vendor's samples
KNEES = slice(2, None, 3)  # of the joints
POLL_S = 0.3  # between two checks for other writers; assumption
ALONE_S = 15.0  # for other writers to disappear; a killed one stays visible for 10 s
DOWN_S = 5.0  # for the robot's own program to lay it down after it has agreed; assumption
# Until a simulator's motion switcher was discovered, if it has one: up to 2.6 s on loopback.
SWITCHER_S = 3.0
SETTLE_S = 0.5  # from folded legs to the ground; assumption


# Without the IDL's nested structs (header, identity, lease, policy, status): their members are the
# same on the wire. The parameter of a request and the data of a response are JSON.
REQUEST = Message(
    "unitree_api::msg::dds_::Request_",
    (
        ("id", "i8", 1),
        ("api", "i8", 1),
        ("lease", "i8", 1),
        ("priority", "i4", 1),
        ("no_reply", "u1", 1),
        ("parameter", TEXT, 1),
        ("binary", BYTES, 1),
    ),
)
RESPONSE = Message(
    "unitree_api::msg::dds_::Response_",
    (("id", "i8", 1), ("api", "i8", 1), ("code", "i4", 1), ("data", TEXT, 1), ("binary", BYTES, 1)),
)


def topics(service: str) -> tuple[str, str]:
    """The topics of a service's requests and responses."""
    return f"rt/api/{service}/request", f"rt/api/{service}/response"


class RefusalError(UserError):
    """A service has refused a request; `code` is its error code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Client:
    """Calls one service, and waits for its answers."""

    def __init__(self, bus: Bus, service: str) -> None:
        requests, responses = topics(service)
        self.service, self._bus = service, bus
        self._requests = bus.writer(requests, REQUEST)
        self._responses = bus.reader(responses, RESPONSE)

    def answers(self, timeout_s: float, stop: Event) -> bool:
        """Whether the service is there, within this time [s]."""
        deadline = time.monotonic() + timeout_s
        while not self._bus.writers(self._responses):
            if time.monotonic() > deadline or stop.wait(AGAIN_S / 10.0):
                return False
        return True

    def call(
        self,
        api: int,
        timeout_s: float = ANSWER_S,
        stop: Event = NEVER,
        again: bool = False,
        **parameters: Any,
    ) -> str:
        """Call the service; returns the data of its answer, JSON or empty.

        Args:
            api: number of the request.
            timeout_s: time to wait for the answer [s].
            stop: ends the wait.
            again: repeat the request until it is answered, for requests that may be repeated.
            parameters: of the request.

        Raises:
            RefusalError: the service refuses.
            UserError: it does not answer, or cannot be called, or `stop` was set first.
        """
        try:
            return self._call(api, timeout_s, stop, again, parameters)
        except DDSException as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{self.service}: call {api} failed, {reason}") from error

    def _call(
        self, api: int, timeout_s: float, stop: Event, again: bool, parameters: dict[str, Any]
    ) -> str:
        self._responses.take(N=100)  # drop late answers to earlier requests
        request, number = REQUEST.new(), time.monotonic_ns()
        request["id"], request["api"] = number, api
        parameter = json.dumps(parameters) if parameters else ""
        deadline, sent_s = time.monotonic() + timeout_s, -math.inf
        while (now_s := time.monotonic()) < deadline:
            if now_s - sent_s >= (AGAIN_S if again else math.inf):
                self._requests.write(request, parameter=parameter)
                sent_s = now_s
            for answer in self._responses.take(N=100):
                if answer.record["id"] != number:
                    continue
                if code := int(answer.record["code"]):
                    raise RefusalError(f"{self.service}: call {api} failed, {code}", code)
                return answer.texts["data"]
            if stop.wait(0.005):
                raise UserError(f"{self.service}: stopped before it answered call {api}")
        raise UserError(f"{self.service}: no answer to call {api} for {timeout_s:.0f} s")


class MotionSwitcher:
    """Takes the motors from the robot's own programs, and gives them back."""

    def __init__(self, bus: Bus) -> None:
        self._client = Client(bus, SWITCHER)
        self.released: str | None = None  # the program that had the motors

    def exists(self, stop: Event) -> bool:
        """Whether there is a motion switcher: unitree_mujoco has none."""
        return self._client.answers(SWITCHER_S, stop)

    def mode(self, stop: Event = NEVER) -> str:
        """The program that has the motors; empty if none has.

        Raises:
            UserError: the answer is invalid or missing, or `stop` was set first.
        """
        answer = self._client.call(CHECK_MODE, stop=stop, again=True)
        try:
            return str(json.loads(answer)["name"])
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{SWITCHER}: call {CHECK_MODE} failed, {answer!r}") from None

    def release(self, stop: Event) -> None:
        """Release the motors; returns when no program has them.

        Raises:
            UserError: a program keeps them, the service refuses or does not answer, or `stop` was
                set first.
        """
        deadline = time.monotonic() + RELEASE_S
        while name := self.mode(stop):
            if time.monotonic() > deadline:
                raise UserError(f"{SWITCHER}: '{name}' keeps the motors")
            self.released = self.released or name  # also if only the answer is lost
            try:
                self._client.call(RELEASE_MODE, stop=stop)
            except UserError as error:
                if not (isinstance(error, RefusalError) and error.code == BUSY):
                    raise UserError(f"{SWITCHER}: '{name}' keeps the motors ({error})") from None
            if self.mode(stop):
                stop.wait(PAUSE_S)

    def give_back(self) -> None:
        """Give the motors back to the program that had them.

        Raises:
            UserError: the service does not answer, or refuses.
        """
        name, self.released = self.released, None
        if name is None:
            return
        try:
            self._client.call(SELECT_MODE, FAREWELL_S, name=name)
        except RefusalError as refusal:
            if refusal.code != THERE_ALREADY or self.mode() != name:
                raise


class MotorHandover:
    """Takes the motors of a robot that lies from the program that has them.

    `angles` returns the current joint angles (12,) [rad]. `others` describes other writers of
    commands, empty if there are none.
    """

    def __init__(
        self, bus: Bus, spec: RobotSpec, angles: Callable[[], Array], others: Callable[[], str]
    ) -> None:
        self._bus, self._spec, self._angles, self._others = bus, spec, angles, others
        self._switcher: MotionSwitcher | None = None
        self.notes: list[str] = []  # for the log

    def take(self, stop: Event) -> None:
        """Wait until neither the robot's own programs nor another writer have the motors.

        Raises:
            UserError: those programs keep the motors, do not answer or do not lay the robot down,
                another process keeps commanding it, or `stop` was set first.
        """
        self._switcher = switcher = self._switcher or MotionSwitcher(self._bus)
        self.notes = []
        free = self._bus.address.simulated and not switcher.exists(stop)
        if free:
            self.notes.append(f"there is no {SWITCHER}: the motors of a simulator are free")
        deadline = time.monotonic() + ALONE_S
        while (name := "" if free else self._mode(switcher, stop)) or (others := self._others()):
            if name:
                self._lay_down(name, stop)
                switcher.release(stop)
                deadline = time.monotonic() + ALONE_S  # its writer may stay visible as long
            elif time.monotonic() > deadline:
                raise UserError(others)
            else:
                stop.wait(POLL_S)

    def _mode(self, switcher: MotionSwitcher, stop: Event) -> str:
        """See `MotionSwitcher.mode`; a robot that does not answer may have no low level."""
        try:
            return switcher.mode(stop)
        except UserError as error:
            if stop.is_set():
                raise
            raise UserError(f"{error}: {NO_LOW_LEVEL}") from None

    def give_back(self) -> None:
        """Give the motors back to the program that had them.

        Raises:
            UserError: the service does not answer, or refuses.
        """
        if self._switcher is not None:
            self._switcher.give_back()

    def _lay_down(self, name: str, stop: Event) -> None:
        """Have the robot's own program lay it down: a standing robot would fall at the release."""
        if self._lies():
            return
        try:
            # Repeated until it answers, as in the vendor's samples.
            Client(self._bus, SPORT).call(STAND_DOWN, stop=stop, again=True)
            self._wait_until_it_lies(stop)
        except UserError as error:
            raise UserError(
                f"the robot stands, and '{name}' does not lay it down ({error}): "
                "do so by its remote"
            ) from None
        stop.wait(SETTLE_S)

    def _wait_until_it_lies(self, stop: Event) -> None:
        deadline = time.monotonic() + DOWN_S
        while not self._lies():
            if time.monotonic() > deadline:
                raise UserError(f"its legs are not folded after {DOWN_S:.0f} s")
            if stop.wait(0.05):
                raise UserError("stopped")

    def _lies(self) -> bool:
        """Whether all knees are nearer to the lying pose than to the standing pose."""
        return lies(self._angles(), self._spec)


def lies(angles: Array, spec: RobotSpec) -> bool:
    """Whether all knees are nearer to the lying pose than to the standing pose."""
    knees = angles[KNEES]
    folded, standing = lying_pose(spec)[KNEES], spec.default_pose_rad[KNEES]
    return bool(knees.size and (abs(knees - folded) < abs(knees - standing)).all())
