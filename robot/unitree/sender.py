"""Command sender of a Go2: a thread repeats the newest motor command at 500 Hz."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from cyclonedds.core import DDSException

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.runtime.timing import RateKeeper, elapsed_s
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.address import HOLD_S
from pixelgait.robot.unitree.dds import Bus, RecordWriter

COMMAND = "rt/lowcmd"
PERIOD_S = 0.002  # as in the vendor's samples
DAMP_S = 1.5  # of damping at the end, until a standing robot has sunk; assumption


class CommandSender:
    """Repeats the newest command at 500 Hz, and damps after `HOLD_S` without a new one.

    Nothing is sent before the first stiff command, nor after `settle`. An error while repeating is
    raised by the next `check`; the thread goes on trying. It runs until `close`, because nothing
    else damps when the control thread hangs.
    """

    def __init__(self, bus: Bus, spec: RobotSpec) -> None:
        self._bus, self._spec = bus, spec
        self._writer: RecordWriter | None = None
        self._held: go2.Record | None = None  # the newest command; None: send nothing
        self._held_s = self._sent_s = 0.0  # time of that command and of the last write
        self._due = self._late = 0  # number of repetitions, and of late ones
        self._problem: Exception | None = None  # while repeating, until it is raised
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._repeater = threading.Thread(target=self._repeat, name="lowcmd", daemon=True)

    def begin(self) -> None:
        """Create the writer, which sends nothing yet."""
        self._due = self._late = 0
        if self._writer is None:
            self._writer = self._bus.writer(COMMAND, go2.LOW_CMD)
            self._repeater.start()

    def send(self, command: JointCommand) -> None:
        """Send a command at once and repeat it until the next, even if the first write fails.

        Raises:
            UserError: the first write fails.
        """
        stiff = bool(command.kp.any())
        if self._held is None and not stiff:
            return
        record = self._record(command) if stiff else self._damping()
        with self._lock:
            self._held, self._held_s = record, elapsed_s()
            self._write(record)

    def check(self) -> None:
        """Raise the error of a repetition since the last call, if there was one."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def clear_problem(self) -> None:
        """Drop an error that was not raised yet."""
        self._problem = None

    def pace(self) -> Mapping[str, float]:
        """Counts of due and late commands at 500 Hz, from the first stiff one on."""
        return {"period_nominal_us": PERIOD_S * 1e6, "due": self._due, "late": self._late}

    def settle(self) -> None:
        """Damp for `DAMP_S`, then send nothing; if damping fails, go on trying."""
        if self._held is None:
            return
        self._problem = None
        time.sleep(DAMP_S)  # without new commands the thread damps
        with self._lock:
            if self._problem is None:
                self._held = None

    def close(self) -> None:
        """End the thread; damp for `DAMP_S` if it was commanding.

        Raises:
            UserError: the last of the damping commands could not be sent.
        """
        self._closing.set()
        if self._writer is not None:
            self._repeater.join()
        if self._held is None:
            return
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
        """A command in servo mode without targets and gains."""
        record = go2.LOW_CMD.new()
        record["head"], record["level_flag"] = go2.HEAD, go2.LOW_LEVEL
        motors = record["motor_cmd"]
        motors["mode"], motors["q"], motors["dq"] = go2.SERVO, go2.NO_POSITION, go2.NO_SPEED
        return record

    def _write(self, record: go2.Record) -> None:
        assert self._writer is not None
        record["crc"] = go2.checksum(record)
        try:
            self._writer.write(record)
        except DDSException as error:
            reason = " ".join(str(error).split())
            raise UserError(f"a command on {COMMAND} could not be sent: {reason}") from error
        self._sent_s = elapsed_s()

    def _repeat(self) -> None:
        """Thread: repeat the newest command, or damp once it is too old."""
        rate = RateKeeper(PERIOD_S)
        while not self._closing.is_set():
            try:
                self._write_again()
            except Exception as error:
                self._problem = self._problem or error
            missed = rate.wait()
            if self._held is not None:
                self._due, self._late = self._due + 1 + missed, self._late + missed

    def _write_again(self) -> None:
        with self._lock:  # chosen and written at once: an old command must not follow a newer one
            now_s = elapsed_s()
            if self._held is not None and now_s - self._sent_s >= PERIOD_S / 2.0:
                fresh = now_s - self._held_s < HOLD_S
                self._write(self._held if fresh else self._damping())
