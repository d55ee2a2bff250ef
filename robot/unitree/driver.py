"""A Go2's motors and sensors over its own DDS, as the driver of a link."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.pub import DataWriter

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.runtime.freshness import Freshness
from pixelgait.robot.runtime.realtime import RateKeeper, elapsed_s
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.address import HOLD_S, SENSOR
from pixelgait.robot.unitree.dds import Bus, newest, sample_type
from pixelgait.robot.unitree.handover import Handover
from pixelgait.robot.unitree.health import health, worry
from pixelgait.robot.unitree.remote import Remote
from pixelgait.robot.unitree.tick import TickClock, raw_s

STATE, COMMAND = "rt/lowstate", "rt/lowcmd"
PERIOD_S = 0.002  # of commands, as in the vendor's samples
DAMP_S = 1.5  # of damping at the end: a standing robot has sunk to the ground by then; ours
# No robot is started so often while one listens; ours. One whose motors we have, not once: its own
# program has them then.
MANY_RESTARTS = 3
DISCOVERY_S = 0.3  # for whoever else writes; the vendor's programs listen for 0.2 s
# Our own commands are none of its, those of any other process are.
OTHERS_ALONE = Qos(Policy.IgnoreLocal.Participant)
IN_ORDER = (1, 2, 3, 0)  # w x y z as x y z w


class Go2Driver:
    """The `Driver` behind rt/lowstate and rt/lowcmd, the motors in the order of the SDK's.

    A thread repeats the newest command at 500 Hz, and damps when there was none for `HOLD_S`.
    What it cannot send is raised by the next `take`; it goes on trying. Nothing is sent before a
    first command that makes joints stiff. `now_s` is the clock of stamps [s], which may be set;
    ages are measured by `raw_s`, a clock that is not. Orders of the remote go to `remote`.
    """

    sensors: tuple[str, ...] = (SENSOR,)
    commands = None  # on no topic of ROS 2

    def __init__(
        self,
        bus: Bus,
        spec: RobotSpec,
        now_s: Callable[[], float],
        remote: Remote,
        raw_s: Callable[[], float] = raw_s,
    ) -> None:
        self._bus, self._spec, self._remote = bus, spec, remote
        self._now_s, self._raw_s = now_s, raw_s
        states, self._commands = sample_type(go2.LOW_STATE), sample_type(go2.LOW_CMD)
        self._codec = go2.Codec(go2.LOW_CMD)
        self._reader = bus.reader(STATE, states)
        self._foreign = bus.reader(COMMAND, self._commands, OTHERS_ALONE)
        self._handover = Handover(bus, spec, self._look, self._others)
        self._writer: DataWriter[Any] | None = None
        self._clock, self._freshness = TickClock(), Freshness(SENSOR)
        self.received: dict[str, int] = {SENSOR: 0}
        self._state: go2.Record | None = None
        self._stamp_s = 0.0
        self._held: go2.Record | None = None  # the newest command; None before a stiff one
        self._held_s = self._sent_s = 0.0  # monotonic, of that command and of the last sending
        self._restarts = 0  # of the robot, before we had the motors
        self._due = self._late = 0  # times to repeat a command, and those that were missed
        self._problem: Exception | None = None  # of repeating, until it is raised
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._repeater = threading.Thread(target=self._repeat, name="lowcmd", daemon=True)

    def acquire(self, stop: threading.Event) -> None:
        """Nothing yet: as long as sensors may be missing the robot's own programs hold it."""

    def take_motors(self, stop: threading.Event) -> None:
        """Take the motors from the robot's own programs, which lay it down before.

        Until nobody else has them nothing of ours can be heard on the topic of commands: who walks
        there would take it for an intruder, and damp.

        Raises:
            UserError: they keep them, or do not answer, or do not lay the robot down, or somebody
                else commands it, or `stop` came first.
        """
        self._handover.take(stop)
        self._problem = None  # of the damping since the last fault: nobody waits for that
        self._due = self._late = 0
        self._restarts = self._clock.restarts
        if self._writer is None:
            self._writer = self._bus.writer(COMMAND, self._commands)
            self._repeater.start()
        time.sleep(DISCOVERY_S)

    def _others(self) -> str:
        """Who else could command the motors, whether it does or not; empty if nobody does."""
        others = ", ".join(self._bus.writers(self._foreign))
        return others and f"another program commands the motors on {COMMAND}: {others}"

    def intruder(self, commanding: bool) -> str | None:
        """Who else could command the motors, once we do, or tells of the robot."""
        commanding = commanding and self._writer is not None
        if commanding and (others := self._others()):
            return others
        if self._clock.restarts >= MANY_RESTARTS:
            there = ", ".join(self._bus.writers(self._reader))
            return f"{STATE} tells of two robots in turn, or of a recording: {there}"
        if commanding and self._clock.restarts > self._restarts:
            return "the robot was started again: its own program has the motors"
        return None

    def settle(self) -> None:
        """The thread goes on damping."""

    def close(self) -> None:
        """Let the robot sink, give the motors back to the robot's own programs, leave the bus.

        Each of that is tried, whatever became of the others.

        Raises:
            UserError: those programs do not answer, or refuse, or damping could not be sent.
        """
        self._closing.set()
        with ExitStack() as after:  # from the last to the first
            after.callback(self._bus.close)
            after.callback(self._handover.give_back)
            if self._writer is not None:
                self._repeater.join()
            if self._held is not None:
                self._damp_at_the_end()

    def _damp_at_the_end(self) -> None:
        """For `DAMP_S`; raises a UserError if the last time failed: each may be heard."""
        rate, end_s = RateKeeper(PERIOD_S), time.monotonic() + DAMP_S
        problem: UserError | None = None
        while time.monotonic() < end_s:
            try:
                self._write(self._damping())
                problem = None
            except UserError as error:
                problem = error
            rate.wait()
        if problem is not None:
            raise problem

    def take(self) -> None:
        """Fetch the newest state; of one with a wrong checksum nothing counts, nor its tick.

        Raises:
            UserError: a command could not be repeated since the last call.
        """
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        state = newest(self._reader)
        if state is None:
            return
        self.received[SENSOR] += 1
        if go2.checksum(state) != state["crc"]:
            self._freshness.doubt = "what arrives has a wrong checksum"
            return
        raw_s, now_s = self._raw_s(), self._now_s()
        stamp_s = self._clock.stamp_s(int(state["tick"]), raw_s, now_s)
        if self._freshness.arrived(stamp_s, now_s, time.monotonic()):
            self._state, self._stamp_s = state, stamp_s
            self._remote.hear(state["wireless_remote"].tobytes())

    def forget(self) -> None:
        self._freshness.forget()
        self._clock.forget()

    def _look(self) -> Array:
        """At the joints' angles [rad], anew."""
        self.take()
        return self.angles()

    def angles(self) -> Array:
        return np.zeros(0) if self._state is None else self._motors("q")

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        assert self._state is not None
        imu = self._state["imu_state"]
        return Reading(
            self._stamp_s,
            self._motors("q"),
            self._motors("dq"),
            imu["quaternion"].astype(np.float64)[list(IN_ORDER)],
            imu["gyroscope"].astype(np.float64),
            image,
            odometry,
        )

    def _motors(self, field: str) -> Array:
        assert self._state is not None
        values = self._state["motor_state"][field][: len(self._spec.joint_names)]
        return np.asarray(values, dtype=np.float64)

    def ages(self) -> dict[str, float]:
        return {SENSOR: self._freshness.age_s(time.monotonic())}

    def doubts(self) -> dict[str, str]:
        return {SENSOR: self._freshness.doubt} if self._freshness.doubt else {}

    def stamps(self) -> dict[str, float]:
        return {SENSOR: self._stamp_s}

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures, lost packets and late commands, for people to read."""
        if self._state is None:
            return {}
        known = health(self._state, self._spec.joint_names)
        return {**known, "late_commands": str(self._late)}

    def worry(self) -> str | None:
        """A low battery, a hot motor, or both."""
        return None if self._state is None else worry(self._state, self._spec.joint_names)

    def pace(self) -> Mapping[str, float]:
        """Of the commands at 500 Hz, from the first stiff one on."""
        return {"period_nominal_us": PERIOD_S * 1e6, "due": self._due, "late": self._late}

    def send(self, command: JointCommand) -> None:
        """At once; repeated until the next, even if it could not be sent at once.

        Raises:
            UserError: it could not.
        """
        stiff = bool(command.kp.any())
        if self._held is None and not stiff:
            return
        record = self._record(command) if stiff else self._damping()
        with self._lock:
            self._held, self._held_s = record, elapsed_s()
            self._write(record)

    def _record(self, command: JointCommand) -> go2.Record:
        record = self._empty()
        motors = record["motor_cmd"][: len(self._spec.joint_names)]
        motors["q"], motors["dq"] = command.targets, 0.0
        motors["tau"], motors["kp"], motors["kd"] = command.feed_forward, command.kp, command.kd
        return record

    def _damping(self) -> go2.Record:
        record = self._empty()
        motors = record["motor_cmd"][: len(self._spec.joint_names)]
        motors["dq"], motors["kd"] = 0.0, self._spec.damping_nms_per_rad
        return record

    def _empty(self) -> go2.Record:
        """Motors that obey, and nothing to obey."""
        record = self._codec.new()
        record["head"], record["level_flag"] = go2.HEAD, go2.LOW_LEVEL
        motors = record["motor_cmd"]
        motors["mode"], motors["q"], motors["dq"] = go2.SERVO, go2.NO_POSITION, go2.NO_SPEED
        return record

    def _write(self, record: go2.Record) -> None:
        assert self._writer is not None
        record["crc"] = go2.checksum(record)
        try:
            self._writer.write(self._commands(record))
        except DDSException as error:
            reason = " ".join(str(error).split())
            raise UserError(f"a command on {COMMAND} could not be sent: {reason}") from error
        self._sent_s = elapsed_s()

    def _repeat(self) -> None:
        """In a thread of its own: what was said last, or damping once it is too old.

        It does not end before `close`: nobody else damps when the control thread hangs.
        """
        rate = RateKeeper(PERIOD_S)
        while not self._closing.is_set():
            try:
                self._say_again()
            except Exception as error:  # whatever it is
                self._problem = self._problem or error
            missed = rate.wait()
            if self._held is not None:
                self._due, self._late = self._due + 1 + missed, self._late + missed

    def _say_again(self) -> None:
        with self._lock:  # chosen and sent at once: nothing old may follow something newer
            now_s = elapsed_s()
            if self._held is not None and now_s - self._sent_s >= PERIOD_S / 2.0:
                fresh = now_s - self._held_s < HOLD_S
                self._write(self._held if fresh else self._damping())
