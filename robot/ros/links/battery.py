"""Battery on `battery_state` (sensor_msgs/BatteryState): of a robot's driver, or of a Go2."""

from __future__ import annotations

import math
from typing import Any

from sensor_msgs.msg import BatteryState

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.runtime.power import PowerState

BATTERY = "battery_state"


class BatteryTopic:
    """The newest state of the battery; None before the first message. It may stay away."""

    def __init__(self, node: Any) -> None:
        self._subscription = ros2.subscribe(node, BatteryState, BATTERY)
        self._newest: PowerState | None = None

    def __call__(self) -> PowerState | None:
        """Called in the control thread."""
        if (message := ros2.take(self._subscription)) is not None:
            self._newest = power_state(message)
        return self._newest


def power_state(message: Any) -> PowerState:
    """The battery's state in a message; NaN is what its driver does not know.

    `percentage` is 0 to 1. A value above 1 is in percent, as from drivers that do not know that. A
    driver that fills in the voltage alone leaves it at 0, and the battery as not present.
    """
    share, voltage_v = message.percentage, message.voltage
    percent = share * 100.0 if share <= 1.0 else share
    known = share != 0.0 or message.present
    return PowerState(
        percent if math.isfinite(share) and share >= 0.0 and known else None,
        voltage_v if math.isfinite(voltage_v) else None,
    )


class BatteryPublisher:
    """Publishes the battery of a robot whose link is no topic."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._publisher = node.create_publisher(BatteryState, BATTERY, 1)

    def publish(self, power: PowerState | None) -> None:
        """Publish the state, if the charge is known."""
        if power is None or power.charge_percent is None:
            return
        message = BatteryState(percentage=power.charge_percent / 100.0, present=True)
        message.header.stamp = self._node.get_clock().now().to_msg()
        unknown = math.nan
        message.voltage = unknown if power.voltage_v is None else power.voltage_v
        message.current = message.charge = message.capacity = message.design_capacity = unknown
        message.temperature = unknown
        self._publisher.publish(message)

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)
