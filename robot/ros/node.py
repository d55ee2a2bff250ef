"""Lifecycle node around the control loop: transitions, faults, reports."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from pixelgait.robot.bundle import Bundle, controller_of, load_bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import write_atomic
from pixelgait.robot.ros.address import Velocity
from pixelgait.robot.ros.commands.goal import GoalReport
from pixelgait.robot.ros.commands.services import OperatorServices
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import NODE
from pixelgait.robot.ros.connections import Connections
from pixelgait.robot.ros.monitoring.diagnostics import PERIOD_S, Diagnostics
from pixelgait.robot.ros.monitoring.status_topics import (
    AttentionTopic,
    DecisionTopic,
    LatencyTopic,
    StatusTopics,
)
from pixelgait.robot.ros.parameters import DRIVER_TIMEOUT, NodeOptions, Parameters
from pixelgait.robot.runtime.control_loop import (
    MAX_DECISION_BYTES,
    SENSOR_WAIT_S,
    ControlLoop,
    LoopOptions,
)
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.realtime import freeze_collector, shorten_switch_interval
from pixelgait.robot.runtime.report import cause_of, report
from pixelgait.robot.runtime.response_trial import ResponseTrial
from pixelgait.robot.runtime.state_machine import Operator, RobotState

DISCOVERY_S = 3.0  # until all earlier nodes are discovered; up to 2.7 s were measured
SETTLED_S = 0.3  # since all participants are known, until their topics are; assumption
WATCH_PERIOD_S = 0.1
STANDING = (RobotState.READY, RobotState.WALKING)


class ControllerNode(LifecycleNode):
    """Lifecycle node: configure loads and verifies, activate operates the robot, deactivate damps.

    A fault damps the robot and ends the loop; `follow_fault` then deactivates the node. `fault` is
    kept until the next configure or activate. `stop` ends all waiting.

    Raises:
        UserError: a parameter is invalid.
    """

    def __init__(self, options: NodeOptions, stop: threading.Event) -> None:
        super().__init__(NODE)
        self.options, self._stop = options, stop
        self._joined_s = self._diagnosed_s = time.monotonic()
        self.parameters = Parameters(self, options, self._apply_parameters)
        self.operator = Operator(options.auto_arm, options.goal)
        self.bundle: Bundle | None = None
        self.connections: Connections | None = None
        self._goal_report = GoalReport(self)
        self.loop: ControlLoop | None = None
        self.trial: ResponseTrial | None = None  # of the robot's own gait
        self.fault: str | None = None
        self.left = False  # after the shutdown transition
        self._attention, self._decision = AttentionTopic(self), DecisionTopic(self)
        self._status = StatusTopics(self, options.sensors, options.recorder)
        self._diagnostics, self._latency = Diagnostics(self), LatencyTopic(self)
        self._operator_services = OperatorServices(self, self.operator)
        ros2.every(self, WATCH_PERIOD_S, self._watch)
        ros2.every(self, PERIOD_S, self._diagnose)
        # rclpy 7.1.6: an invalid transition request ends the process (ros2/rclpy#1209).
        service = self._service_change_state
        service.callback = ros2.refusing(service.callback)

    def destroy_node(self) -> None:
        """Destroy all services, subscriptions and publishers.

        Kilted's rclpy does so at its shutdown, also where the parameters were refused.
        """
        if hasattr(self, "_operator_services"):
            self._operator_services.close()
        super().destroy_node()

    def start(self) -> None:
        """Configure and activate from within the process.

        Raises:
            UserError: a transition failed, with the cause.
        """
        for trigger in (self.trigger_configure, self.trigger_activate):
            if self._stop.is_set():
                return
            if trigger() != TransitionCallbackReturn.SUCCESS and not self._stop.is_set():
                raise UserError(self.fault or "the node could not be started")

    def ended(self, duration_s: float) -> bool:
        """Whether the robot has walked for the duration [s], or was measured."""
        if self.trial is not None and self.trial.done:
            return True
        since = self.loop.walking_since if self.loop is not None else None
        return bool(duration_s and since and time.monotonic() - since > duration_s)

    def follow_fault(self) -> bool:
        """Deactivate and publish an ERROR after a fault; returns whether there was one."""
        if self.loop is None or self.loop.fault is None:
            return False
        self.trigger_deactivate()
        self._diagnose()
        return True

    def stop_loop(self) -> None:
        """Damp the robot and write the report, if the loop was started."""
        loop, self.loop = self.loop, None
        if loop is None:
            return
        loop.stop()
        self._status.end(loop)
        conflict: Callable[[], str | None] = lambda: None  # noqa: E731
        if self.connections is not None:
            self.connections.link.settle()  # first of all: it lets the robot down
            conflict = self.connections.conflict
        self.fault = cause_of(loop, conflict)
        if self.trial is not None and self.trial.done and self.options.measure is not None:
            try:
                self._write_response(self.options.measure, self.trial)
            except (UserError, OSError) as error:
                self.fault = self.fault or str(error)
        if self.fault:
            self.get_logger().error(self.fault)
        if loop.profiler.ticks and loop.walking_since is not None:
            self._report(loop)
        elif self.options.out is not None:
            self.get_logger().info(f"{self.options.out}: no report, it has not walked")

    def _write_response(self, path: Path, trial: ResponseTrial) -> None:
        """Write what was measured, and print it.

        Raises:
            UserError: the robot did not follow.
        """
        print(trial.table(), flush=True)
        response = trial.response()
        write_atomic(path, response.to_json())
        print(f"wrote {path}")
        print(f"next: --response {shlex.quote(str(path))}", flush=True)

    def _report(self, loop: ControlLoop) -> None:
        assert self.bundle is not None
        pace = self.connections.link.driver.pace() if self.connections else {}
        options, contract = self.options, self.bundle.contract
        if problem := report(loop, contract, options.settings, pace, options.out):
            self.get_logger().error(problem)
            self.fault = self.fault or problem

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load and verify the bundle, run its graphs warm, subscribe the sensors."""
        self.fault = None
        try:
            self.bundle = bundle = load_bundle(self.options.bundle, self.options.address.robot)
            bundle.warm_up()
            self.connections = self._connect(bundle)
        except Exception as error:  # rclpy would discard it silently
            return self._failed(error)
        self.get_logger().info(f"bundle {bundle.folder} verified, golden outputs reproduced")
        return TransitionCallbackReturn.SUCCESS

    def _connect(self, bundle: Bundle) -> Connections:
        options, piloted = self.options, self.options.piloted(bundle)
        if options.goal is not None and ("goal" not in bundle.takes or piloted):
            raise UserError("--goal: this policy takes no goal")
        if piloted and isinstance(options.address, Velocity) and options.measure is None:
            raise UserError(
                "over --link velocity, cmd_vel is what this node publishes: "
                "it needs a policy with a high level of its own, as rover"
            )
        return Connections(self, bundle, self.parameters, self._operator_services, piloted, options)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the control thread; returns when all sensors send and an armed robot stands."""
        self.fault = None
        try:
            assert self.connections is not None
            self._wait_for_conflicts()
            self.connections.odometry.begin()
            # Only now: a robot that another node walks would be damped by a second publisher.
            self.connections.link.acquire(self._stop)
            self.loop = loop = self._make_loop()
            if not self.options.address.own_gait:
                self.connections.motion = lambda: loop.operation.motion
            freeze_collector()
            shorten_switch_interval()
            self.loop.start()
            self._wait_for(self.loop)
        except Exception as error:
            self.stop_loop()
            if self.fault is None:  # else the loop's fault is reported, with any conflict
                self._failed(error)
            return TransitionCallbackReturn.FAILURE
        return super().on_activate(state)

    def _wait_for_conflicts(self) -> None:
        """Wait until earlier nodes are discovered, and until killed ones have disappeared.

        Raises:
            UserError: another node publishes what this node or its driver should, or has its name.
        """
        assert self.connections is not None
        now_s = time.monotonic()
        settled_s, latest_s = now_s, self._joined_s + DISCOVERY_S
        while now_s < min(settled_s + SETTLED_S, latest_s) and not self._pause(0.05):
            now_s = time.monotonic()
            if not self.connections.all_found():
                settled_s = now_s
        deadline = time.monotonic() + SENSOR_WAIT_S
        while other := self.connections.conflict(starting=True):
            if time.monotonic() > deadline or self._pause(0.1):
                raise UserError(other)

    def _make_loop(self) -> ControlLoop:
        assert self.bundle is not None and self.connections is not None  # noqa: PT018
        link = self.connections.link
        period_s = self.bundle.control_dt_s
        profiler = LatencyProfiler(period_s, link.sensors)
        if self.options.measure is not None:
            walks = partial(self._is, RobotState.WALKING)
            self.trial = ResponseTrial(link.driver.angles, walks)
        own_gait = self.options.address.own_gait
        response = self.options.response if own_gait else None
        timeouts = self.parameters.sensor_timeouts
        controller = controller_of(self.bundle, response, timeouts, profiler)
        controller.supervisor.motors_enabled = not self.options.dry_run
        local_map = self.connections.map
        if local_map is not None:
            local_map.forget()
        recorder = self.options.recorder
        if recorder is not None:
            recorder.begin(self.bundle, response)
        return ControlLoop(
            link,
            controller,
            profiler,
            period_s,
            self.operator,
            LoopOptions(
                driver_timeout_s=self.parameters.seconds(DRIVER_TIMEOUT),
                needs_goal=self.connections.goal is not None,
                pilot=self.trial or self.connections.pilot,
                steering=self.connections.steering,
                keep_bytes=MAX_DECISION_BYTES if self.options.out else 0,
                record=None if recorder is None else recorder.step,
                moved=self.connections.odometry.publish,
                admit=self.connections.admit,
                look_ahead=local_map,
            ),
        )

    def _is(self, state: RobotState) -> bool:
        return self.operator.state is state

    def _wait_for(self, loop: ControlLoop) -> None:
        """Wait until all sensors send and, with --auto-arm, the robot stands.

        Raises:
            UserError: there was a fault.
        """
        assert self.connections is not None
        told = False
        while loop.fault is None and not self._pause(WATCH_PERIOD_S):
            self._status.publish(loop)
            if other := self.connections.conflict():
                loop.fail(other)
            elif loop.sensing.is_set():
                if not told:
                    self._tell_unchecked()
                    told = True
                self.connections.check_camera()
                rises = self.operator.auto and self.operator.commands.wanted is not RobotState.LIMP
                if self.operator.state in STANDING or not rises:
                    return
        if loop.fault is not None:
            if loop.sensing.is_set() and not told:  # a mount that is unknown may be the cause
                self._tell_unchecked()
            raise UserError(loop.fault)

    def _tell_unchecked(self) -> None:
        """Log what could not be checked of camera and IMU."""
        assert self.connections is not None
        for unchecked in self.connections.unchecked():
            self.get_logger().info(unchecked)

    def _pause(self, seconds: float) -> bool:
        """Wait in a transition, where no timer is called; returns whether `stop` was set."""
        if time.monotonic() > self._diagnosed_s + PERIOD_S:
            self._diagnose()
        return self._stop.wait(seconds)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the control thread; the robot is damped."""
        try:
            self.stop_loop()
        except Exception as error:  # FAILURE would keep it active, without a loop
            self._failed(error)
            return TransitionCallbackReturn.ERROR
        return super().on_deactivate(state)

    def leave(self) -> None:
        """Damp the robot, if the loop was started, and disconnect, even if the report fails."""
        try:
            self.stop_loop()
        finally:
            self._disconnect()

    def _disconnect(self) -> None:
        connections, self.connections = self.connections, None
        if connections is None:
            return
        try:
            connections.close()
        except UserError as error:
            self.fault = self.fault or str(error)
            self.get_logger().error(str(error))

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Disconnect from the robot."""
        self.leave()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Damp and disconnect from any state; the process ends."""
        self.fault = None
        self.left = True
        return self.on_cleanup(state)

    on_error = on_cleanup  # after a transition that raised: back to unconfigured, the robot damped

    def _failed(self, error: Exception) -> TransitionCallbackReturn:
        before, self.fault = self.fault, str(error) if isinstance(error, UserError) else repr(error)
        if self.fault != before:
            self.get_logger().error(self.fault)
        return TransitionCallbackReturn.FAILURE

    def _apply_parameters(self) -> None:
        """Apply a changed driver time-out; the supervisor shares the sensors' time-outs."""
        if self.loop is not None:
            self.loop.driver_timeout_s = self.parameters.seconds(DRIVER_TIMEOUT)

    def _watch(self) -> None:
        """Publish changes, check for conflicts, draw attention; in the executor's thread."""
        if self.loop is None or self.connections is None:
            return
        self._status.publish(self.loop)
        if not self.loop.fault and (other := self.connections.conflict()):
            self.loop.fail(other)
        if problem := self.connections.camera_problem():
            self.get_logger().warning(problem, throttle_duration_sec=60.0)
        self._attention.publish(self.loop)
        self._decision.publish(self.loop)
        self.connections.publish_map()
        if self.connections.goal is not None:
            self._goal_report.publish(self.connections.goal)

    def _diagnose(self) -> None:
        self._diagnosed_s = time.monotonic()
        link = self.connections.link if self.connections else None
        commands = self.connections.statuses() if self.connections else {}
        power = self.connections.power if self.connections else None
        self._diagnostics.publish(self.loop, link, power, self.fault, commands)
        self._status.motor_warning(power.warning() if power else None)
        if self.connections is not None:
            self.connections.publish_battery()
        if self.loop is not None:
            self._latency.publish(self.loop.profiler)
