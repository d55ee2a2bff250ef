"""Control loop on board: wait, read, decide, check, send, a hundred times a second."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pixelgait.robot.control.controller import Controller, ControlResult, Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.leg_odometry import LOST, Motion
from pixelgait.robot.interface import DRIVER_TIMEOUT_S, Image, JointCommand, Link, Reading
from pixelgait.robot.mapping.local_map import Surroundings
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.realtime import raise_priority
from pixelgait.robot.runtime.state_machine import STIFF, Inputs, Operation, Operator, RobotState
from pixelgait.robot.runtime.timing import CacheWarmup, RateKeeper, SensorSync, elapsed_s
from pixelgait.robot.runtime.velocity_operation import operation_of
from pixelgait.robot.safety.sensor_age import SensorStatus
from pixelgait.robot.safety.supervisor import without_camera
from pixelgait.robot.spec import Array

SENSOR_WAIT_S = 15.0  # discovery on loopback took up to 2.6 s; a robot boots more slowly
SILENCE_S = 2.0  # after such a wait the missing sensors are reported
DAMP_MESSAGES = 5
DEACTIVATED = "deactivated"  # why a loop ended that was stopped
# Assumption: more than an hour of short decisions by 32 x 32 pixels.
MAX_DECISION_BYTES = 256 << 20
MAP_S = 0.2  # between maps in a recording


@dataclass(frozen=True, slots=True)
class ControlStep:
    """Record of a control step: its inputs, its results, and the settings that applied."""

    inputs: Inputs
    command: JointCommand
    sent: bool  # False: damped instead, because the driver had timed out
    state: str
    cause: str
    fault: str | None
    image: Image | None  # as the policy saw it, if it was asked in this step
    decision: Decision | None  # on that image
    settings: dict[str, Any]
    took_us: float  # from the last poll of the link until the command was out
    number: int  # of the loop's steps, from 0
    around: Surroundings | None = None  # the local map, at most every `MAP_S`


class Decisions:
    """Log of images and decisions: the newest, and earlier ones up to `keep_bytes` in all.

    One thread adds; others may read.
    """

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes, self._kept_bytes = keep_bytes, 0
        self._kept: deque[tuple[Image, Decision]] = deque()

    def add(self, image: Image, decision: Decision) -> None:
        """Append the newest, and drop the oldest ones."""
        self._kept.append((image, decision))
        self._kept_bytes += _size_bytes(image, decision)
        while self._kept_bytes > self._keep_bytes and len(self._kept) > 1:
            self._kept_bytes -= _size_bytes(*self._kept.popleft())

    @property
    def newest(self) -> tuple[Image, Decision] | None:
        """None before the first."""
        return self._kept[-1] if self._kept else None

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[Image, Decision]]:
        return iter(list(self._kept))


def _size_bytes(image: Image, decision: Decision) -> int:
    arrays = image.pixels, image.around, decision.attention
    return sum(each.nbytes for each in arrays if each is not None)


class LookAhead(Protocol):
    """A local map, used by the control thread."""

    @property
    def around(self) -> Surroundings | None:
        """The newest map; None while there is none."""

    @property
    def height_scan(self) -> Array | None:
        """The ground around the robot for a low level, see `Reading`; None: not asked."""

    def look_ahead(self, reading: Reading, motion: Motion | None, wanted: Array) -> float:
        """Take a step's reading and motion; free distance [m] under the wanted latent command."""


@dataclass(frozen=True)
class LoopOptions:
    """Options of a `ControlLoop`."""

    driver_timeout_s: float = DRIVER_TIMEOUT_S  # initial value; the loop's attribute may be set
    needs_goal: bool = False  # stand until the operator sets a goal
    pilot: Callable[[], Array] | None = None  # latent commands (2,) that replace the high level
    # Latent command (2,) of a remote control that steers, instead of both; None: it does not.
    steering: Callable[[], Array | None] = lambda: None
    keep_bytes: int = MAX_DECISION_BYTES  # of the decision log
    record: Callable[[ControlStep], None] | None = None  # called after every step
    look_ahead: LookAhead | None = None  # called after every step
    # Likewise, with the motion by the robot's legs at the step's reading.
    moved: Callable[[Reading, Motion], None] = lambda *_: None
    # Called once all sensors send, before anything moves, with the event that ends the loop.
    # A UserError it raises is a fault.
    admit: Callable[[threading.Event], None] = lambda _: None


class ControlLoop:
    """Runs a controller on the robot behind a link, in a thread of its own.

    Every period:

        wait    for the deadline, and for a reading that is due in a moment
        read    sensors, their ages, operator commands, settings
        decide  on a command: state machine, controller, supervisor
        check   sensor health, state and faults; disarm a robot that was damped by its driver
        send    the command, or damping if the driver has timed out meanwhile

    Life cycle: `start` once, then `stop`, or until `fault` says why it ended by itself. The last
    messages damp the robot, whatever happened.

    Threads:

    * The control thread owns link, controller, profiler, operation and rate; `record`,
      `look_ahead` and `admit` run in it.
    * Any thread may call `start`, `stop`, `fail` and the operator's methods, and may read all
      attributes. `changes` and `sensor_status.changes` may be emptied by one other thread.
    * Any thread may set `driver_timeout_s`, and entries of the mapping `sensor_timeouts` that the
      supervisor was made with: a step goes by their values at its begin.
    """

    def __init__(
        self,
        link: Link,
        controller: Controller,
        profiler: LatencyProfiler,
        period_s: float,
        operator: Operator,
        options: LoopOptions | None = None,
    ) -> None:
        options = options or LoopOptions()
        self.link, self.controller, self.profiler = link, controller, profiler
        self.operator, self.options, self.period_s = operator, options, period_s
        self.operation = operation_of(controller, options.driver_timeout_s, options.needs_goal)
        self.driver_timeout_s = options.driver_timeout_s
        self._sensor_timeouts = controller.supervisor.sensor_timeouts  # other threads may set them
        self._settings: dict[str, Any] = {}  # of this step
        self.rate = RateKeeper(period_s)
        self._sensor_sync = SensorSync(link, self.rate, profiler)
        self._cache_warmup = CacheWarmup(controller)
        self._walked: tuple[Reading, Array] | None = None  # last step: reading, latent command (2,)
        self.decisions = Decisions(options.keep_bytes)
        self.changes: deque[tuple[RobotState, str]] = deque(maxlen=100)  # states and causes
        self.sensor_status = SensorStatus(self._sensor_timeouts)
        self.sensing = threading.Event()  # all sensors send
        self.reading: Reading | None = None  # the newest
        self.missing: tuple[str, ...] = ()  # sensors that did not after `SILENCE_S`
        self.walking_since: float | None = None  # monotonic [s]
        self.fault: str | None = None
        self.steps = self.misses = 0  # all steps; deadlines missed
        self._cause = ""  # of the operation's state, after the last step
        self._stalls = 0  # of the operation, after the last step
        self._sent_s = 0.0  # when the last command was sent, see `elapsed_s`
        self._late_s = 0.0  # a gap that was noticed only when sending
        self._map_s = -math.inf  # stamp of the last recorded map
        self._free_m = math.inf  # of the wanted path, see `LoopOptions.look_ahead`
        self._height_scan: Array | None = None  # likewise
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
        except Exception as error:  # the robot must not keep its last command
            self.fault = f"{type(error).__name__}: {error}"
        finally:
            self._damp()

    def _wait_for_sensors(self) -> bool:
        """Wait until all sensors send and the first image is usable; False if stopped meanwhile."""
        began_s = time.monotonic()
        self.link.forget()
        while missing := self.controller.supervisor.silent(self.link.ages()):
            if self._stop.wait(0.01):
                return False
            self.link.take()
            self._apply_settings()
            waited_s = time.monotonic() - began_s
            if waited_s > SILENCE_S and not self.missing:
                self.missing = tuple(missing)
            if waited_s > SENSOR_WAIT_S:
                warnings = self.warnings_about(missing)
                raise UserError(
                    f"no message on {', '.join(missing)} for {SENSOR_WAIT_S:.0f} s{warnings}"
                )
        if self.options.pilot is None:
            self.link.read().image()  # an unusable image raises a UserError
        try:
            self.options.admit(self._stop)
        except UserError:
            if not self._stop.is_set():  # otherwise it says that it was interrupted
                raise
        return not self._stop.is_set()

    def _operate(self) -> None:
        self.controller.reset()
        self.operator.begin()
        self.rate.restart()
        self._sent_s = elapsed_s()
        self._enter(RobotState.LIMP, "all sensors send")
        self.sensing.set()
        while self.fault is None and not self._stop.is_set():
            self._step()
            missed = self.rate.wait()
            self.profiler.deadline_misses += missed
            self.steps, self.misses = self.steps + 1, self.misses + missed

    def _step(self) -> None:
        polled_s = self._wait()
        inputs = self._read()
        result = self._decide(inputs)
        self._check(inputs.ages, polled_s)
        sent = self._send(result.command)
        if self.operation.motion is not None:
            self.options.moved(inputs.reading, self.operation.motion)
        if self.options.record is not None:
            self.options.record(self._recorded(inputs, result, sent, polled_s))
        if self.options.look_ahead is not None:
            self.profiler.start_lap()
            motion, wanted = self.operation.motion, self.controller.wanted
            self._free_m = self.options.look_ahead.look_ahead(inputs.reading, motion, wanted)
            self._height_scan = self.options.look_ahead.height_scan
            self.profiler.lap("map")

    def _wait(self) -> float:
        """Wait for a reading that is due; returns when the link was polled last [s]."""
        return self._sensor_sync.wait(self._warm_caches)

    def _warm_caches(self) -> None:
        if self._walked is not None:
            self.profiler.start_lap()
            self._cache_warmup.run(*self._walked)
            self.profiler.lap("cache_warmup")

    def _read(self) -> Inputs:
        """Collect the inputs of a step, and record the sensors' ages."""
        self.profiler.start()
        self.reading = reading = self.link.read()
        if self._height_scan is not None:
            reading = replace(reading, height_scan=self._height_scan)
        now = self.link.now_s()
        for sensor, stamp in self.link.stamps().items():
            self.profiler.sensor_age[sensor].record(round((now - stamp) * 1e9))
        self.profiler.lap("read")
        gap_s, self._late_s = max(self._late_s, elapsed_s() - self._sent_s), 0.0
        latent = self.options.steering()
        if latent is None and self.options.pilot is not None:
            latent = self.options.pilot()
        ages, commands = self.link.ages(), self.operator.commands
        inputs = Inputs(reading, ages, commands, gap_s, latent, self._free_m)
        self._apply_settings()
        return inputs

    def _apply_settings(self) -> None:
        """Copy the settings for one step: a value that changes meanwhile applies from the next."""
        supervisor, sensor_timeouts = self.controller.supervisor, dict(self._sensor_timeouts)
        supervisor.sensor_timeouts = sensor_timeouts
        self.operation.driver_timeout_s = self.driver_timeout_s
        self._settings = {
            "sensor_timeouts": sensor_timeouts,
            "driver_timeout_s": self.operation.driver_timeout_s,
            "motors_enabled": supervisor.motors_enabled,
        }

    def _decide(self, inputs: Inputs) -> ControlResult:
        result = self.operation.step(inputs)
        self._walked = None if result.latent is None else (inputs.reading, result.latent)
        if result.image is not None and result.decision is not None:
            self.decisions.add(result.image, result.decision)
        return result

    def _check(self, ages: Mapping[str, float], polled_s: float) -> None:
        """Report sensor health and state; disarm a robot that lies; end the loop on a fault."""
        operation, supervisor = self.operation, self.controller.supervisor
        self.sensor_status.update(ages, self.link.warnings(), polled_s)
        if operation.state is not self.operator.state:
            self._enter(operation.state, operation.cause)
            self._cache_warmup.reset()
            if operation.state is RobotState.WALKING and self.walking_since is None:
                self.profiler.reset()
                self.profiler.start()
                self.walking_since = time.monotonic()
        elif operation.cause != self._cause and operation.state is RobotState.WALKING:
            self._report_blocked(operation)
        if operation.lost and self.operator.commands.goal_position is not None:
            self.operator.go_to(None)
            self.changes.append((operation.state, f"{LOST}: the goal is dropped"))
        self._cause = operation.cause
        self._disarm_if_down(ages)
        if supervisor.fault is not None and self.fault is None:
            self.fault = supervisor.fault + self.warnings_about(supervisor.silent(ages)[:1])

    def _report_blocked(self, operation: Operation) -> None:
        """Report a manoeuvre; a robot that gives up loses its goal, or stands until an order."""
        if operation.blocked.given_up and not operation.needs_goal:
            self.operator.stand(operation.cause)
            return
        self._enter(operation.state, operation.cause)
        if operation.blocked.given_up:
            self.operator.go_to(None)

    def _disarm_if_down(self, ages: Mapping[str, float]) -> None:
        """After a stall, or without sensors while limp, only new commands make the robot stiff."""
        operation, supervisor = self.operation, self.controller.supervisor
        stalls, self._stalls = self._stalls, operation.stalls
        silent = [] if operation.state in STIFF else supervisor.silent(without_camera(ages))
        if (operation.stalls > stalls or silent) and self.operator.revoke():
            why = f"{silent[0]} is silent" if silent else operation.STALLED
            self.changes.append((operation.state, f"disarmed, {why}"))

    def _send(self, command: JointCommand) -> bool:
        """Send the command; False: damping instead, because the driver had timed out meanwhile."""
        before_s, self._sent_s = self._sent_s, elapsed_s()
        late = self._is_late(self._sent_s - before_s)
        if late:
            command = self.controller.supervisor.damp(command.time_s)
        self.profiler.start_lap()
        self.link.send(command)
        # If sending took long, the command may have arrived only now.
        self._is_late(elapsed_s() - before_s)
        self.profiler.lap("publish")
        age = self.link.now_s() - command.time_s
        self.profiler.stages["sensor_to_command"].record(round(age * 1e9))
        return not late

    def _is_late(self, gap_s: float) -> bool:
        """Whether the driver of a stiff robot has timed out; if so the next step stalls."""
        late = gap_s > self.operation.driver_timeout_s and self.operation.state in STIFF
        if late:
            self._late_s = gap_s
        return late

    def _recorded(
        self, inputs: Inputs, result: ControlResult, sent: bool, polled_s: float
    ) -> ControlStep:
        return ControlStep(
            inputs=replace(inputs, reading=replace(inputs.reading, image=_no_image)),
            command=result.command,
            sent=sent,
            state=self.operation.state.value,
            cause=self.operation.cause,
            fault=self.controller.supervisor.fault,
            image=result.image,
            decision=None if result.image is None else result.decision,
            settings=self._settings,
            took_us=round((time.monotonic() - polled_s) * 1e6, 1),
            number=self.steps,
            around=self._new_map(),
        )

    def _new_map(self) -> Surroundings | None:
        """The local map for the recording, if the last one there is old."""
        around = self.options.look_ahead.around if self.options.look_ahead else None
        # A stamp before the last one: the clock was set back.
        if around is None or self._map_s <= around.time_s < self._map_s + MAP_S:
            return None
        self._map_s = around.time_s
        return around

    def _enter(self, state: RobotState, cause: str) -> None:
        self.operator.state = state
        self.changes.append((state, cause))

    def warnings_about(self, sensors: Iterable[str]) -> str:
        """The link's warnings about these sensors, as the end of a sentence."""
        warnings = self.link.warnings()
        return "".join(f"; {name}: {warnings[name]}" for name in sensors if name in warnings)

    def _damp(self) -> None:
        """Send the last messages, which damp; they need no reading."""
        for _ in range(DAMP_MESSAGES):
            try:
                self.link.send(self.controller.supervisor.damp(self.link.now_s()))
            except Exception as error:  # the next one may still get through
                self.fault = self.fault or f"{type(error).__name__}: {error}"
            time.sleep(self.period_s)
        self.changes.append((RobotState.LIMP, self.fault or DEACTIVATED))
        self.operator.state = None


def _no_image() -> Image:
    raise UserError("the image of a recorded step is beside it")
