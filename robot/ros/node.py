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

from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import Image
from pixelgait.robot.low_level import SIGNATURE
from pixelgait.robot.ros import common as ros
from pixelgait.robot.ros.link import TIMEOUT_S, RosLink, timeouts
from pixelgait.robot.runtime.attention import draw_attention
from pixelgait.robot.runtime.latency import LatencyProfiler, format_table
from pixelgait.robot.runtime.loop import ControlLoop

WARM_UP = 20  # inferences: the first ones are slow
OVERLAY_PERIOD_S = 0.1
OVERLAY_PIXELS = 256  # of the longer side: 192 KiB, well within a shared-memory segment


class ControllerNode(LifecycleNode):
    """configure: load, verify, warm up. activate: stand and walk. deactivate: damp.

    A fault damps the robot and ends the loop; the node then stays active but idle until it is
    deactivated. `fault` keeps the reason until the next configure or activate.
    """

    def __init__(self, bundle: str, out: Path | None) -> None:
        super().__init__("pixelgait")
        self.declare_parameter("bundle", bundle)
        for topic, timeout in TIMEOUT_S.items():
            self.declare_parameter(_timeout_parameter(topic), timeout)
        self.out = out
        self.bundle: Bundle | None = None
        self.link: RosLink | None = None
        self.loop: ControlLoop | None = None
        self.fault: str | None = None
        self.left = False  # shut down for good
        self._drawn: Image | None = None
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

    def ended(self, duration_s: float) -> bool:
        """Whether the loop has stopped on a fault, or has walked for the duration [s]."""
        if self.loop is None:
            return False
        since = self.loop.walking_since
        over = bool(duration_s and since and time.monotonic() - since > duration_s)
        return over or self.loop.fault is not None

    def stop_loop(self) -> None:
        """Damp the robot and report, if the loop was started."""
        loop, self.loop = self.loop, None
        if loop is None:
            return
        loop.stop()
        self.fault = loop.fault
        if loop.fault:
            self.get_logger().error(loop.fault)
        if not loop.profiler.ticks:
            return
        assert self.bundle is not None
        report = loop.profiler.report(self.bundle.contract)
        print(format_table(report), flush=True)
        if self.out is not None:
            write_atomic(self.out / "latency.json", json_bytes(report))
            write_atomic(self.out / "decisions.npz", _decisions(loop))

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load and verify the bundle, run its graphs warm, subscribe the sensors."""
        self.fault = None
        try:
            self.bundle = load_bundle(self.get_parameter("bundle").value)
            _warm_up(self.bundle)
        except Exception as error:  # rclpy would swallow it without a word
            return self._failed(error)
        self.link = RosLink(self, self.bundle.spec, self.bundle.image_shape)
        self.get_logger().info(f"bundle {self.bundle.folder} verified, golden outputs reproduced")
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the control thread."""
        assert self.bundle is not None
        assert self.link is not None
        self.fault = None
        period_s = self.bundle.control_dt_s
        profiler = LatencyProfiler(period_s, self.link.sensors)
        allowed = {
            topic: self.get_parameter(_timeout_parameter(topic)).value for topic in TIMEOUT_S
        }
        controller = self.bundle.controller(timeout_s=timeouts(allowed), stopwatch=profiler)
        self.loop = ControlLoop(self.link, controller, profiler, period_s)
        self.loop.start()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the control thread; the robot is damped."""
        try:
            self.stop_loop()
        except Exception as error:
            return self._failed(error)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Leave the sensors' topics."""
        if self.link is not None:
            self.link.close()
            self.link = None
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """From any state: damp, then leave; the process ends."""
        self.stop_loop()
        self.left = True
        return self.on_cleanup(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After a transition that raised: back to unconfigured, the robot damped."""
        self.stop_loop()
        return self.on_cleanup(state)

    def _failed(self, error: Exception) -> TransitionCallbackReturn:
        self.fault = str(error) if isinstance(error, UserError) else repr(error)
        self.get_logger().error(self.fault)
        return TransitionCallbackReturn.FAILURE

    def _draw(self) -> None:
        """Publish what the newest decision looked at, from the executor's thread."""
        if self.loop is None or not self.loop.decisions:
            return
        image, decision = self.loop.decisions[-1]
        watched = self._overlay.get_subscription_count() > 0
        if image is self._drawn or decision.attention is None or not watched:
            return
        self._drawn = image
        scale = max(1, OVERLAY_PIXELS // max(image.pixels.shape[:2]))
        pixels = draw_attention(image.pixels, decision.attention, scale)
        self._overlay.publish(ros.image_message(round(image.time_s * 1e9), "camera", pixels))


def _timeout_parameter(topic: str) -> str:
    """Name of the parameter with a topic's timeout [s], as in timeout_s.imu.data."""
    return f"timeout_s.{topic.replace('/', '.')}"


def _warm_up(bundle: Bundle) -> None:
    image = np.zeros(bundle.image_shape, np.uint8)
    for _ in range(WARM_UP):
        bundle.high_level(image)
        bundle.low_level(*(np.zeros(size) for size in SIGNATURE.values()))


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
