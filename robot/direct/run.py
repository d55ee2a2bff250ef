"""Run without ROS 2: a Go2 over its own DDS, a camera by its library, orders over a socket."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.bundle import Bundle, controller_of, load_bundle
from pixelgait.robot.cli.processes import stopped_by_signals, stopped_by_user_signal
from pixelgait.robot.control.controller import latent_within
from pixelgait.robot.control.velocity import Response
from pixelgait.robot.direct.orders import PORT, OrderServer
from pixelgait.robot.direct.realsense import FrameMap, RealSenseFrames, camera_of
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import DRIVER_TIMEOUT_S, JointCommand
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.common.topic_names import CAMERA_TOPICS, DEPTH
from pixelgait.robot.runtime.camera import Camera, with_cameras
from pixelgait.robot.runtime.camera_images import camera_topics
from pixelgait.robot.runtime.control_loop import (
    DEACTIVATED,
    MAX_DECISION_BYTES,
    ControlLoop,
    LoopOptions,
)
from pixelgait.robot.runtime.goal_progress import GoalWatch
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.power import PowerWatch
from pixelgait.robot.runtime.realtime import freeze_collector, shorten_switch_interval
from pixelgait.robot.runtime.report import cause_of, report
from pixelgait.robot.runtime.robot_link import Driver, RobotLink
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.runtime.status import Line, StatusLines
from pixelgait.robot.safety import velocity
from pixelgait.robot.safety.supervisor import SensorTimeouts, sensor_timeouts_of
from pixelgait.robot.unitree.address import Go2, Go2Sport

WATCH_PERIOD_S = 0.1
NO_CAMERA = "none"


@dataclass(frozen=True)
class DirectOptions:
    """Options of a run without ROS 2, from the command line."""

    bundle: str
    address: Go2
    camera: str  # none, or see `camera_of`
    out: Path | None = None  # folder for reports
    auto_arm: bool = False  # stand up and walk without an operator
    dry_run: bool = False  # command no motor
    map: bool = False  # of depth frames, with a collision guard
    goal: tuple[float, float] | None = None  # the first, x ahead, y to the left of the start [m]
    duration_s: float = 0.0  # of walking; 0: until a signal
    port: int = PORT  # for orders
    timeouts: tuple[str, ...] = ()  # as lowstate=0.05/0.1/0.2
    response: Response = field(default_factory=Response)  # of a robot in its sport mode
    recorder: Recorder | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # the command's options, for reports

    @property
    def sensors(self) -> dict[str, str]:
        """The contract's name of each sensor."""
        return {**self.address.sensors, **CAMERA_TOPICS}


class NoCommands:
    """The `Shadow` of a dry run without ROS 2: commands are in the recording alone."""

    def send(self, command: JointCommand) -> None: ...

    def close(self) -> None: ...


def operate(options: DirectOptions, warnings: Iterable[str]) -> None:
    """Run until a signal that ends a process, the duration is over, or a fault occurs.

    Raises:
        UserError: the bundle, the camera or the robot cannot be used, or the controller stopped
            with a fault.
    """
    stop = stopped_by_signals()
    say(Line(each, warns=True) for each in warnings)
    bundle = load_bundle(options.bundle, options.address.robot)
    bundle.warm_up()
    say([Line(f"bundle {bundle.folder} verified, golden outputs reproduced")])
    run = DirectRun(options, bundle, stop)
    try:
        run.start()
        while not (stop.wait(WATCH_PERIOD_S) or run.ended()):
            run.watch()
    finally:
        run.close()
    if run.fault:
        raise UserError(f"controller stopped: {run.fault}")


def say(lines: Iterable[Line]) -> None:
    """Print lines for the operator on standard error; what a full `Terminal` refuses is lost."""
    for line in lines:
        if line.logged:
            with suppress(OSError):
                print(f"{'warning: ' * line.warns}{line.text}", file=sys.stderr, flush=True)


class DirectRun:
    """Driver, camera, orders and control loop of a run.

    Raises:
        UserError: one of them cannot be used with this bundle.
    """

    def __init__(self, options: DirectOptions, bundle: Bundle, stop: threading.Event) -> None:
        self._options, self._bundle, self._stop = options, bundle, stop
        self.operator = Operator(options.auto_arm, options.goal)
        self.fault: str | None = None
        self._piloted = not bundle.contract["provenance"].get("high_level")
        if self._piloted and options.address.own_gait:
            raise UserError(
                "over --link go2-sport, without ROS 2, nothing would move the robot: "
                "it needs a policy with a high level of its own, as rover-go2"
            )
        if bundle.observes("height_scan") and not options.address.own_gait:
            raise UserError(
                "the low level observes height_scan, which a local map tells: run it with ROS 2 "
                "and a depth camera"
            )
        self._to_goals = "goal" in bundle.takes and not self._piloted
        if self._to_goals and options.address.own_gait:
            raise UserError("over --link go2-sport, without ROS 2, a robot walks to no goal")
        if options.goal is not None and not self._to_goals:
            raise UserError("--goal: this policy takes no goal")
        camera = _camera(options.camera, self._piloted)
        if options.map and (options.address.own_gait or camera is None):
            raise UserError("--map, without ROS 2, is for --link go2 and a policy that sees depth")
        if options.map and DEPTH not in camera_topics(bundle.image_shape):
            raise UserError(f"--map: {options.bundle} sees no depth")
        timeouts = _timeouts(options, bundle)
        self._orders = OrderServer(self.operator, options.port, self._to_goals)
        stopped_by_user_signal(self.operator.emergency_stop)
        self._frames: RealSenseFrames | None = None
        self._map: FrameMap | None = None
        self._blind: str | None = None  # why there was no map
        try:
            self._link = self._connect(camera)
        except BaseException:
            self._orders.close()
            raise
        self._power = PowerWatch(self.operator, self._link.driver.power, lambda: True)
        self._link.also_take.append(self._power.update)
        problems = options.recorder.new_problems if options.recorder else list
        self._status = StatusLines(options.sensors, problems)
        self._loop = self._make_loop(timeouts)

    def _connect(self, source: tuple[str, str] | None) -> RobotLink:
        bundle, options, now_s, camera = self._bundle, self._options, time.time, None
        driver = _driver(options.address, bundle, self.operator)
        if source is not None:
            self._frames = RealSenseFrames(*source, bundle.image_shape, now_s)
            if options.map:
                height, width, _ = bundle.image_shape
                self._map = FrameMap(self._frames, bundle.spec, width / height)
            camera = Camera(
                self._frames,
                bundle.image_shape,
                bundle.trained_mounts,
                bundle.spec.stand_height_m,
            )
        return RobotLink(now_s, driver, camera, NoCommands() if options.dry_run else None)

    def _make_loop(self, timeouts: Mapping[str, SensorTimeouts]) -> ControlLoop:
        bundle, options, link = self._bundle, self._options, self._link
        profiler = LatencyProfiler(bundle.control_dt_s, link.sensors)
        response = options.response if options.address.own_gait else None
        controller = controller_of(bundle, response, timeouts, profiler)
        controller.supervisor.motors_enabled = not options.dry_run
        stands, recorder = latent_within(bundle.legs.command, np.zeros(3)), options.recorder
        timeout_s = velocity.VELOCITY_TIMEOUT_S if options.address.own_gait else DRIVER_TIMEOUT_S
        return ControlLoop(
            link,
            controller,
            profiler,
            bundle.control_dt_s,
            self.operator,
            LoopOptions(
                driver_timeout_s=timeout_s,
                needs_goal=self._to_goals,
                look_ahead=self._map,
                moved=GoalWatch(self.operator, self._tell).moved,
                pilot=(lambda: stands) if self._piloted else None,
                steering=self._steering,
                keep_bytes=MAX_DECISION_BYTES if options.out else 0,
                record=None if recorder is None else recorder.step,
                admit=self._admit,
            ),
        )

    def _tell(self, line: str) -> None:
        self._loop.changes.append((RobotState.WALKING, line))

    def _steering(self) -> Any:
        """Latent command (2,) of the remote control while it steers, else None."""
        return self._link.driver.remote_command() if self.operator.commands.steered else None

    def _admit(self, stop: threading.Event) -> None:
        """Check camera and power, take over the motors; before anything moves."""
        if self._frames is not None and (what := self._frames.misfit(self._bundle.spec.camera)):
            raise UserError(what)
        self._power.check(time.monotonic())
        if self.operator.auto and self._power.unfit is not None:
            raise UserError(self._power.unfit)  # it would lie there without an operator
        self._link.take_motors(stop)
        say(Line(note) for note in self._link.driver.notes())

    def start(self) -> None:
        """Start the control thread, which waits for the sensors."""
        self._link.acquire(self._stop)
        options = self._options
        if options.recorder is not None:
            options.recorder.begin(
                self._bundle, options.response if options.address.own_gait else None
            )
        freeze_collector()
        shorten_switch_interval()
        self._loop.start()

    def ended(self) -> bool:
        """Whether there was a fault, or the robot has walked for the duration."""
        since, duration_s = self._loop.walking_since, self._options.duration_s
        over = bool(duration_s and since and time.monotonic() - since > duration_s)
        return over or self._loop.fault is not None

    def watch(self) -> None:
        """Print what has changed, check for conflicts; called periodically."""
        say(self._status.take(self._loop))
        say(self._status.motors(self._power.warning()))
        before, self._blind = self._blind, None if self._map is None else self._map.blind
        if self._blind is not None and self._blind != before:
            say([Line(self._blind, warns=True)])
        if not self._loop.fault and (other := self._link.conflicting_publisher()):
            self._loop.fail(other)

    def close(self) -> None:
        """Damp the robot, write the report, disconnect; each step even if another fails."""
        try:
            self._finish()
        finally:
            try:
                self._link.close()
            except UserError as error:
                self.fault = self.fault or str(error)
            finally:
                self._orders.close()
                if self._frames is not None:
                    self._frames.close()

    def _finish(self) -> None:
        loop, options, link = self._loop, self._options, self._link
        loop.stop()
        link.settle()  # first of all: it lets the robot down
        say(self._status.rest(loop))
        if options.recorder is not None:
            options.recorder.end(loop.fault or DEACTIVATED)
        self.fault = cause_of(loop, link.conflicting_publisher)
        if not (loop.profiler.ticks and loop.walking_since is not None):
            return
        settings, pace = options.settings, link.driver.pace()
        problem = report(loop, self._bundle.contract, settings, pace, options.out)
        self.fault = self.fault or problem


def _driver(address: Go2, bundle: Bundle, operator: Operator) -> Driver:
    """The driver of a Go2, by its motors or in its sport mode."""
    if isinstance(address, Go2Sport):
        from pixelgait.robot.unitree import sport

        return sport.connected(address, operator, time.time)
    from pixelgait.robot.unitree.driver import connected

    return connected(address, bundle.spec, bundle.legs, operator, time.time)


def _camera(camera: str, piloted: bool) -> tuple[str, str] | None:
    """Module and serial number of the camera that a policy needs; None if it is piloted, and blind.

    Raises:
        UserError: the camera does not go with the policy, or see `camera_of`.
    """
    if piloted != (camera == NO_CAMERA):
        needs = "its sticks steer it: --camera none" if piloted else "this policy needs one"
        raise UserError(f"--camera {camera}: {needs}")
    return None if piloted else camera_of(camera)


def _timeouts(options: DirectOptions, bundle: Bundle) -> Mapping[str, SensorTimeouts]:
    """Time-outs by sensor: the contract's, or those of the command line.

    Raises:
        UserError: one of the command line is not understood.
    """
    given = dict(map(_timeout, options.timeouts))
    contract, sensors = dict(sensor_timeouts_of(bundle.contract)), options.sensors
    contract[velocity.ODOMETRY] = velocity.ODOMETRY_TIMEOUTS
    if unknown := given.keys() - sensors.keys():
        known = ", ".join(sensors)
        raise UserError(f"--timeouts {', '.join(unknown)}: no such sensor, there are {known}")
    found = {name: given.get(name, contract[sensor]) for name, sensor in sensors.items()}
    return with_cameras(found)


def _timeout(text: str) -> tuple[str, SensorTimeouts]:
    """A sensor and its time-outs, as in lowstate=0.05/0.1/0.2."""
    name, _, ages = text.partition("=")
    try:
        timeouts = SensorTimeouts(*map(float, ages.split("/")))
    except (ValueError, TypeError):
        timeouts = None
    if timeouts is None or not timeouts.ordered:
        raise UserError(f"--timeouts {text}: expected ages [s] in order, lowstate=0.05/0.1/0.2")
    return name, timeouts
