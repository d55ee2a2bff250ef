"""The control loop on board: clock, thread and wire around what the robot does step by step."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pixelgait.robot.control.controller import Controller, ControlResult, Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import DRIVER_TIMEOUT_S, Image, JointCommand, Link, Reading
from pixelgait.robot.runtime.cache_warmup import CacheWarmup
from pixelgait.robot.runtime.decision_log import MOST_BYTES, Decisions
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.operator_commands import STIFF, Operator, RobotState
from pixelgait.robot.runtime.realtime import RateKeeper, elapsed_s, raise_priority
from pixelgait.robot.runtime.sensor_status import SensorStatus
from pixelgait.robot.runtime.sensor_sync import SensorSync
from pixelgait.robot.runtime.state_machine import Inputs, Operation
from pixelgait.robot.safety.supervisor import without_camera
from pixelgait.robot.spec import Array

SENSOR_WAIT_S = 15.0  # discovery on loopback was seen to take up to 2.6 s; a robot boots slower
SILENCE_S = 2.0  # after so long a wait people are told what for
DAMP_MESSAGES = 5
DEACTIVATED = "deactivated"  # why a loop has ended that was told to


@dataclass(frozen=True, slots=True)
class ControlStep:
    """All of a control step, for a recording: what went in, what came of it, what was set then."""

    inputs: Inputs
    command: JointCommand
    sent: bool  # or withheld, because the robot had been let go
    state: str
    cause: str
    fault: str | None
    image: Image | None  # as the policy saw it, if it looked anew
    decision: Decision | None  # of that look
    settings: dict[str, Any]
    took_us: float  # from when its readings were fetched until the command was out
    number: int  # of the loop's steps, from 0


class ControlLoop:
    """Operates the robot behind a link, in a thread and at a rate of its own.

    `operator` says what people want, `pilot` where to if that is not the policy's own high level;
    that may be one that `needs_destination`.
    `fault` says why the loop has ended on its own, or is None. Of `decisions` the newest is
    remembered, and those before as long as all are no more than `keep_bytes`; `record` is given
    every step, in the control thread, and `admit` is called there before anything moves, with an
    event that is set once the loop shall end: a UserError of its is a fault. Others may set
    `driver_timeout_s` and the supervisor's patience at any time: every step goes by what they were
    at its begin.
    """

    def __init__(
        self,
        link: Link,
        controller: Controller,
        profiler: LatencyProfiler,
        period_s: float,
        operator: Operator,
        pilot: Callable[[], Array] | None = None,
        driver_timeout_s: float = DRIVER_TIMEOUT_S,
        needs_goal: bool = False,
        keep_bytes: int = MOST_BYTES,
        record: Callable[[ControlStep], None] | None = None,
        admit: Callable[[threading.Event], None] = lambda _: None,
    ) -> None:
        self.link, self.controller, self.profiler = link, controller, profiler
        self.operator, self.pilot, self._record, self._admit = operator, pilot, record, admit
        self.operation = Operation(controller, driver_timeout_s, needs_goal)
        self.driver_timeout_s = driver_timeout_s
        self._sensor_timeouts = controller.supervisor.sensor_timeouts  # as others set it
        self._settings: dict[str, Any] = {}  # of this step
        self._cache_warmup = CacheWarmup(controller)
        self.rate = RateKeeper(period_s)
        self._pace = SensorSync(link, self.rate, profiler)
        self.period_s = period_s
        self.decisions = Decisions(keep_bytes)
        self.changes: deque[tuple[RobotState, str]] = deque(
            maxlen=100
        )  # of state, with their causes
        self.watch = SensorStatus(controller.supervisor.sensor_timeouts)  # of the sensors
        self.sensing = threading.Event()  # all sensors send
        self.missing: tuple[str, ...] = ()  # those that did not after `SILENCE_S`
        self.walking_since: float | None = None  # monotonic [s]
        self.fault: str | None = None
        self.steps = self.misses = 0  # of all its steps; deadlines that passed
        self._stalls = 0  # of the operation, that have been minded
        self._sent_s = 0.0  # when the last command was handed over, see `elapsed_s`
        self._late_s = 0.0  # a gap that was noticed only when a command was ready, or out
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop; returns when the damping command is out."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def fail(self, reason: str) -> None:
        """End the loop as a fault does, from any thread."""
        self.fault = self.fault or reason
        self._stop.set()

    def _run(self) -> None:
        raise_priority()
        try:
            if self._wait_for_sensors():
                self._operate()
        except UserError as error:
            self.fault = str(error)
        except Exception as error:  # whatever it is, the robot must not keep its last command
            self.fault = f"{type(error).__name__}: {error}"
        finally:
            self._damp()

    def _wait_for_sensors(self) -> bool:
        """Whether all sensors send, and a first image can be used, before anyone stops the loop."""
        began_s = time.monotonic()
        self.link.forget()
        while missing := self.controller.supervisor.silent(self.link.ages()):
            if self._stop.wait(0.01):
                return False
            self.link.take()
            self._take_settings()
            waited_s = time.monotonic() - began_s
            if waited_s > SILENCE_S and not self.missing:
                self.missing = tuple(missing)
            if waited_s > SENSOR_WAIT_S:
                warnings = self._warnings(missing)
                raise UserError(
                    f"no message on {', '.join(missing)} for {SENSOR_WAIT_S:.0f} s{warnings}"
                )
        if self.pilot is None:
            self.link.read().image()  # one that cannot be used is refused
        try:
            self._admit(self._stop)
        except UserError:
            if not self._stop.is_set():  # else it was told to end, and says so
                raise
        return not self._stop.is_set()

    def _operate(self) -> None:
        self.controller.reset()
        self.operator.begin()
        self.rate.restart()
        self._sent_s = elapsed_s()
        self._note(RobotState.LIMP, "all sensors send")
        self.sensing.set()
        reading: Reading | None = None
        while self.fault is None and not self._stop.is_set():
            began_s = self._pace.take(partial(self._warm_caches, reading))
            self.profiler.start()
            reading = self._read()
            gap_s, self._late_s = max(self._late_s, elapsed_s() - self._sent_s), 0.0
            latent = self.pilot() if self.pilot else None
            inputs = Inputs(reading, self.link.ages(), self.operator.commands, gap_s, latent)
            self._take_settings()
            result = self.operation.step(inputs)
            self.watch.look(inputs.ages, self.link.warnings(), began_s)
            self._follow_state()
            if result.image is not None and result.decision is not None:
                self.decisions.add(result.image, result.decision)
            self._mind_who_let_go(inputs.ages)
            sent = self._send(result.command, inputs.ages)
            if self._record is not None:
                self._record(self._step(inputs, result, sent, began_s))
            missed = self.rate.wait()
            self.profiler.missed_deadlines(missed)
            self.steps, self.misses = self.steps + 1, self.misses + missed

    def _warm_caches(self, reading: Reading | None) -> None:
        """The step of the last reading once more, of a robot that walks."""
        if reading is not None and self.operation.state is RobotState.WALKING:
            self.profiler.start_lap()
            self._cache_warmup.run(reading)
            self.profiler.lap("cache_warmup")

    def _read(self) -> Reading:
        """The newest values, whose age is recorded."""
        reading = self.link.read()
        now = self.link.now_s()
        for sensor, stamp in self.link.stamps().items():
            self.profiler.sensor_age[sensor].record(round((now - stamp) * 1e9))
        self.profiler.lap("read")
        return reading

    def _take_settings(self) -> None:
        """For one step: what others set meanwhile counts from the next one on."""
        controller, sensor_timeouts = self.controller, dict(self._sensor_timeouts)
        controller.supervisor.sensor_timeouts = sensor_timeouts
        self.operation.driver_timeout_s = self.driver_timeout_s
        self._settings = {
            "sensor_timeouts": sensor_timeouts,
            "driver_timeout_s": self.operation.driver_timeout_s,
            "motors_enabled": controller.supervisor.motors_enabled,
        }

    def _step(
        self, inputs: Inputs, result: ControlResult, sent: bool, began_s: float
    ) -> ControlStep:
        operation, supervisor = self.operation, self.controller.supervisor
        return ControlStep(
            inputs=replace(inputs, reading=replace(inputs.reading, image=_recorded)),
            command=result.command,
            sent=sent,
            state=operation.state.value,
            cause=operation.cause,
            fault=supervisor.fault,
            image=result.image,
            decision=None if result.image is None else result.decision,
            settings=self._settings,
            took_us=round((time.monotonic() - began_s) * 1e6, 1),
            number=self.steps,
        )

    def _send(self, command: JointCommand, ages: Mapping[str, float]) -> bool:
        """Send a command, but nothing stiff to a driver that has let go meanwhile: False then."""
        fault = self.controller.supervisor.fault
        if fault is not None and self.fault is None:
            silent = self.controller.supervisor.silent(ages)
            self.fault = fault + self._warnings(silent[:1])
        before_s, self._sent_s = self._sent_s, elapsed_s()
        late = self._note_gap(self._sent_s - before_s)
        if late:
            command = self.controller.supervisor.damp(command.time_s)
        self.profiler.start_lap()
        self.link.send(command)
        # When it came through nobody knows if that took long: it may be only now.
        self._note_gap(elapsed_s() - before_s)
        self.profiler.lap("publish")
        age = self.link.now_s() - command.time_s
        self.profiler.stages["sensor_to_command"].record(round(age * 1e9))
        return not late

    def _note_gap(self, gap_s: float) -> bool:
        """Whether the driver of a stiff robot has let go in so long [s]; the next step heeds it."""
        late = gap_s > self.operation.driver_timeout_s and self.operation.state in STIFF
        if late:
            self._late_s = gap_s
        return late

    def _follow_state(self) -> None:
        """Tell others what the robot does now."""
        operation = self.operation
        if operation.state is not self.operator.state:
            self._note(operation.state, operation.cause)
            self._cache_warmup.reset()
            if operation.state is RobotState.WALKING and self.walking_since is None:
                self.profiler.reset()
                self.profiler.start()
                self.walking_since = time.monotonic()

    def _mind_who_let_go(self, ages: Mapping[str, float]) -> None:
        """A robot that has been let go, or tells nothing, gets stiff by new orders alone."""
        operation, supervisor = self.operation, self.controller.supervisor
        stalls, self._stalls = self._stalls, operation.stalls
        silent = [] if operation.state in STIFF else supervisor.silent(without_camera(ages))
        if (operation.stalls > stalls or silent) and self.operator.let_go():
            why = f"{silent[0]} is silent" if silent else "it has let go"
            self.changes.append((operation.state, f"disarmed, {why}"))

    def _note(self, state: RobotState, cause: str) -> None:
        self.operator.state = state
        self.changes.append((state, cause))

    def _warnings(self, sensors: list[str]) -> str:
        """What is odd about what arrives from these sensors, as the end of a sentence."""
        warnings = self.link.warnings()
        return "".join(f"; {name}: {warnings[name]}" for name in sensors if name in warnings)

    def _damp(self) -> None:
        """Whatever has happened: the last messages damp. They need no reading."""
        for _ in range(DAMP_MESSAGES):
            try:
                self.link.send(self.controller.supervisor.damp(self.link.now_s()))
            except Exception as error:  # the next one may still get through
                self.fault = self.fault or f"{type(error).__name__}: {error}"
            time.sleep(self.period_s)
        self.changes.append((RobotState.LIMP, self.fault or DEACTIVATED))
        self.operator.state = None


def _recorded() -> Image:
    raise UserError("the image of a recorded step is beside it")
