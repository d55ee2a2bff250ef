"""The lifecycle node around the control loop."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from pixelgait.robot import ros
from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.control_loop import ControlLoop
from pixelgait.robot.controller import Controller
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import write_atomic
from pixelgait.robot.latency import LatencyProfiler, format_table, to_json
from pixelgait.robot.overlay import draw_attention
from pixelgait.robot.ros_body import SENSORS, RosBody
from pixelgait.robot.supervisor import Supervisor

WARM_UP = 20  # inferences: the first ones are slow
OVERLAY_PERIOD_S = 0.1
OVERLAY_SCALE = 8


class ControllerNode(LifecycleNode):
    """configure: load, verify, warm up. activate: stand and walk. deactivate: damp."""

    def __init__(self, bundle: str) -> None:
        super().__init__("pixelgait")
        self.declare_parameter("bundle", bundle)
        self.loop: ControlLoop | None = None
        self.body: RosBody | None = None
        self.fault: str | None = None
        self._overlay = self.create_publisher(ros.Image, ros.ATTENTION, ros.SENSOR_QOS)
        self.create_timer(OVERLAY_PERIOD_S, _guarded(self, self._draw))
        # rclpy 7.1.6: an invalid transition request ends the process (ros2/rclpy#1209).
        service = self._service_change_state
        service.callback = _refusing(service.callback)

    def start(self) -> None:
        """Configure and activate from within the process.

        Raises:
            UserError: a transition failed; the message says why.
        """
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() != TransitionCallbackReturn.SUCCESS:
                raise UserError(self.fault or "the node could not be started")

    def finished(self, duration_s: float) -> bool:
        """Whether the loop has stopped on a fault, or has walked for the duration [s]."""
        if self.loop is None:
            return False
        if self.loop.fault:
            self.fault = self.loop.fault
            return True
        since = self.loop.walking_since
        return bool(duration_s and since and time.monotonic() - since > duration_s)

    def finish(self, out: Path | None) -> None:
        """Damp the robot, then report."""
        loop = self.loop
        self._stop_loop()
        if loop is None or not loop.profiler.ticks:
            return
        report = loop.profiler.report()
        print(format_table(report))
        if out is not None:
            write_atomic(out / "latency.json", to_json(report).encode())
            write_atomic(out / "decisions.npz", _decisions(loop))

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load and verify the bundle, run its graphs warm, subscribe the sensors."""
        try:
            bundle = load_bundle(self.get_parameter("bundle").value)
        except UserError as error:
            self.fault = str(error)
            self.get_logger().error(self.fault)
            return TransitionCallbackReturn.FAILURE
        _warm_up(bundle)
        period_s = float(bundle.contract["control_dt_s"])
        profiler = LatencyProfiler(period_s, SENSORS)
        controller = Controller(
            bundle.high_level, bundle.low_level, Supervisor(bundle.spec), profiler
        )
        self.body = RosBody(self, bundle.spec, bundle.image_shape, period_s, profiler)
        self._make_loop = lambda body: ControlLoop(body, controller, profiler, period_s)
        self.get_logger().info(f"bundle {bundle.folder} verified, golden outputs reproduced")
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the control thread."""
        self.loop = self._make_loop(self.body)
        self.loop.start()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the control thread; the robot is damped."""
        self._stop_loop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Leave the sensors' topics."""
        if self.body is not None:
            self.body.close()
            self.body = None
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """From any state: damp, then leave."""
        self._stop_loop()
        return self.on_cleanup(state)

    def _stop_loop(self) -> None:
        if self.loop is not None:
            self.loop.stop()
            self.fault = self.fault or self.loop.fault
            self.loop = None

    def _draw(self) -> None:
        """Publish what the newest decision looked at, from the executor's thread."""
        if self.loop is None or not self.loop.decisions:
            return
        image, decision = self.loop.decisions[-1]
        if decision.attention is not None:
            pixels = draw_attention(image.pixels, decision.attention, OVERLAY_SCALE)
            time_ns = round(image.time_s * 1e9)
            self._overlay.publish(ros.image_message(time_ns, "camera", pixels))


def _warm_up(bundle: Bundle) -> None:
    image = np.zeros(bundle.image_shape, np.uint8)
    for _ in range(WARM_UP):
        bundle.high_level(image)
        bundle.low_level(np.zeros(2), np.zeros(4), bundle.spec.default_pose_rad, np.zeros(1))


def _decisions(loop: ControlLoop) -> bytes:
    """Images, attention, latents and times of all decisions, as a numpy archive."""
    decisions = list(loop.decisions)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        time_s=[image.time_s for image, _ in decisions],
        images=[image.pixels for image, _ in decisions],
        attention=np.array([decision.attention for _, decision in decisions]),
        latent=[decision.latent for _, decision in decisions],
        duration_steps=[decision.duration_steps for _, decision in decisions],
    )
    return buffer.getvalue()


def _guarded(node: LifecycleNode, callback: Callable[[], None]) -> Callable[[], None]:
    """An exception in a callback would end the executor, and with it every subscription."""

    def guarded() -> None:
        try:
            callback()
        except Exception as error:
            node.get_logger().error(f"{callback.__name__}: {error}", throttle_duration_sec=5.0)

    return guarded


def _refusing(callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A change_state service callback that answers an invalid request instead of raising."""

    def refusing(request: Any, response: Any) -> Any:
        try:
            return callback(request, response)
        except rclpy_implementation.RCLError:
            response.success = False
            return response

    return refusing
