"""Operator services and the emergency stop topic: arm, stand up, walk, lie down, stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.runtime.state_machine import Operator

STOP = "emergency_stop"
# An emergency stop must arrive from every publisher: best effort matches all of them, reliable
# repeats what was lost, latched receives what was sent before.
STOP_QOS = (
    QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT),
    QoSProfile(depth=10),
    ros2.latched(1),
)


class OperatorServices:
    """Serves the operator in a thread of its own, also while a transition keeps the node busy.

    std_srvs/Trigger services in the node's namespace (`pixelgait/arm`), and the topic
    `emergency_stop` (std_msgs/Bool, true stops), which the control thread takes as well.
    """

    def __init__(self, node: Any, operator: Operator) -> None:
        self.operator = operator
        self._node = ros2.quiet_node(node, f"{node.get_name()}_operator")
        for name, command in operator.orders(f"service {STOP}").items():
            service = f"{node.get_name()}/{name}"
            self._node.create_service(Trigger, service, _service_callback(command))
        self._stops = [
            self._node.create_subscription(
                Bool, STOP, self._take_stop, qos, event_callbacks=ros2.SILENT
            )
            for qos in STOP_QOS
        ]
        self._closing = threading.Event()
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="operator")
        self._thread.start()

    def take_stop(self) -> None:
        """Take emergency stops in the caller's thread, the control thread, without delay."""
        for subscription in self._stops:
            if (message := ros2.take(subscription)) is not None:
                self._take_stop(message)

    def close(self) -> None:
        """Stop the thread and destroy the services."""
        self._closing.set()
        self._executor.wake()
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()

    def _take_stop(self, message: Any) -> None:
        if message.data:
            self.operator.emergency_stop(f"topic {STOP}")

    def _spin(self) -> None:
        while not self._closing.is_set():
            try:
                self._executor.spin_once(timeout_sec=0.5)
            except ExternalShutdownException:
                return
            except Exception as error:  # a malformed request must not end the thread
                self._node.get_logger().error(f"{type(error).__name__}: {error}")


def _service_callback(command: Callable[[], tuple[bool, str]]) -> Callable[[Any, Any], Any]:
    def callback(request: Any, response: Any) -> Any:
        response.success, response.message = command()
        return response

    return callback
