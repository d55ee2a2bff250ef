"""Observer of processes on a ROS domain of their own, and faults that need no other file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.discovery import OwnDomain, private_environment

# Another node that publishes on a topic, or only could.
OTHER = """
import sys
from std_msgs.msg import Float64MultiArray
from pixelgait.robot.ros.common import ros2
ros2.rclpy.init()
node = ros2.rclpy.create_node("other_node")
kind = {"imu/data": ros2.Imu, "joint_states": ros2.JointState, "joint_command": ros2.JointState}
kind = kind.get(sys.argv[1], Float64MultiArray)
publisher = node.create_publisher(kind, sys.argv[1], 1)
def publish():
    message = kind()
    if kind is not Float64MultiArray:
        message.header.stamp = node.get_clock().now().to_msg()
    if kind is ros2.JointState:
        message.name, message.position, message.velocity = ["gripper"], [0.0], [0.0]
    if sys.argv[2] == "publish":
        publisher.publish(message)
node.create_timer(0.02, publish)
ros2.rclpy.spin(node)
"""
JOIN = """
import rclpy
rclpy.init()
node = rclpy.create_node("listener")
for _ in range(10):
    rclpy.spin_once(node, timeout_sec=0.05)
"""


class CommandMonitor(ABC):
    """Receives commands in a thread of its own, from `listen` to `close`."""

    period_s: ClassVar[float]  # between two calls of `receive`

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="monitor")

    @abstractmethod
    def receive(self) -> None:
        """Store what has arrived since the last call."""

    def listen(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop receiving."""
        self._stop.set()
        self._thread.join()

    def _listen(self) -> None:
        while not self._stop.wait(self.period_s):
            self.receive()


class Observer:
    """Processes on a ROS domain of their own, and a node that watches them."""

    def __init__(self, folder: Path) -> None:
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from std_msgs.msg import String

        self._domain = OwnDomain()
        self.environment = private_environment(self._domain.number, folder / "log")
        self.context = Context()
        ros2.rclpy.init(context=self.context, domain_id=self._domain.number)
        self.node = ros2.rclpy.create_node("driver", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.states: list[str] = []
        self.node.create_subscription(String, "pixelgait/state", self._keep_state, 10)
        self.others: list[subprocess.Popen[str]] = []
        self.output = (folder / "output.txt").open("w+")
        self.controller: subprocess.Popen[str] | None = None

    def _keep_state(self, message: Any) -> None:
        self.states.append(message.data)

    def walking(self) -> bool:
        return bool(self.states) and self.states[-1].startswith("walking")

    def standing(self) -> bool:
        """Whether the robot stands or walks."""
        return bool(self.states) and self.states[-1].startswith(("ready", "walking"))

    def ended(self) -> bool:
        return self.controller is not None and self.controller.poll() is not None

    def start(self, *arguments: str, output: Any = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start another Python process, which ends with this one."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        self.others.append(process)
        return process

    def printed(self) -> str:
        """All output of the controller, read by name: the open file is at its end."""
        return Path(self.output.name).read_text()

    def signal(self, number: int) -> None:
        """Send a signal to the controller."""
        assert self.controller is not None
        self.controller.send_signal(number)

    def call(self, kind: Any, name: str, request: Any, timeout_s: float = 10.0) -> Any:
        """Call a service of the controller; None if it does not answer."""
        client = self.node.create_client(kind, f"pixelgait/{name}")
        client.wait_for_service(timeout_s)
        future = client.call_async(request)
        self.spin(timeout_s, future.done)
        return future.result() if future.done() else None

    def spin(self, seconds: float, until: Callable[[], object]) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            self.executor.spin_once(timeout_sec=0.01)

    def close(self) -> None:
        """End all processes."""
        for process in self.others:
            process.kill()
            process.wait()
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.shutdown()
        self._domain.close()
        self.output.close()


def other(topic: str, publishes: bool = False) -> Callable[[Observer], None]:
    """Fault: another node can publish on a topic, and does if it `publishes`."""

    def inject(trial: Observer) -> None:
        before = trial.node.count_publishers(topic)
        trial.start("-c", OTHER, topic, "publish" if publishes else "idle")
        trial.spin(10.0, lambda: trial.node.count_publishers(topic) > before)

    return inject


def joins(trial: Observer) -> None:
    """Fault: five participants come and go."""
    for _ in range(5):
        trial.start("-c", JOIN)


def stopped_for(seconds: float) -> Callable[[Observer], None]:
    """Fault: the controller is stopped for so long."""

    def inject(trial: Observer) -> None:
        trial.signal(signal.SIGSTOP)
        trial.spin(seconds, lambda: False)
        trial.signal(signal.SIGCONT)

    return inject


def order(name: str) -> Callable[[Observer], object]:
    """Call one of the operator's services."""
    from std_srvs.srv import Trigger

    return lambda trial: trial.call(Trigger, name, Trigger.Request())
