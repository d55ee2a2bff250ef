"""Helpers of the ROS 2 tests: processes on a domain of their own, a client, a fake robot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.ros.common.discovery import OwnDomain
from tests.conftest import child_environment

DISCOVERY_S = 40.0  # up to 2.6 s on an idle machine
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# The machine that runs the tests may stall for longer than a robot's driver may.
STILL_S = {  # ageing, stale, dead
    **dict.fromkeys(("joint_states", "imu.data"), (1.0, 1.5, 2.0)),
    **dict.fromkeys(("camera.color.image_raw", "camera.depth.image_rect_raw"), (0.3, 0.5, 5.0)),
}
_PARAMETERS = ["driver_timeout_s:=2.0"] + [
    f"{stage}.{sensor}:={seconds}"
    for sensor, ages in STILL_S.items()
    for stage, seconds in zip(("ageing_s", "stale_s", "timeout_s"), ages, strict=True)
]
PATIENT = ("--ros-args", *(part for each in _PARAMETERS for part in ("-p", each)))
AUTO = ("--auto-arm", *PATIENT)

# Publishes the transforms of its argument, each (parent, child, place [m], quaternion).
PUBLISH_MOUNTS = """
import sys, time
from pixelgait.robot.frames import TF_STATIC
from pixelgait.robot.ros.common.static_transforms import MAX_MESSAGES, TFMessage
from pixelgait.robot.ros.common import ros2
from geometry_msgs.msg import TransformStamped

stop = ros2.start()
node = ros2.rclpy.create_node("robot_state_publisher")
publisher = node.create_publisher(TFMessage, TF_STATIC, ros2.latched(MAX_MESSAGES))
transforms = []
for parent, child, where, turned in eval(sys.argv[1]):
    each = TransformStamped(child_frame_id=child)
    each.header.frame_id = parent
    t, q = each.transform.translation, each.transform.rotation
    (t.x, t.y, t.z), (q.x, q.y, q.z, q.w) = where, turned
    transforms.append(each)
publisher.publish(TFMessage(transforms=transforms))
print("told", flush=True)
stop.wait()
"""


PRIORITY = -10  # a nice value, where the tests may lower it


class Processes:
    """Nodes of one test, on a ROS domain of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._domain = OwnDomain()
        self.domain = self._domain.number
        self.environment = child_environment() | {
            "ROS_DOMAIN_ID": str(self.domain),
            "ROS_LOG_DIR": str(folder / "ros_log"),
            "ROS_PYTHON_CHECK_FIELDS": "1",  # Jazzy sends wrongly typed fields without an error
        }
        self.running: list[subprocess.Popen[str]] = []

    def start(self, name: str, *arguments: object) -> subprocess.Popen[str]:
        return self._run([Path(sys.executable).parent / name, *arguments])

    def script(self, code: str, *arguments: object) -> subprocess.Popen[str]:
        """Run a few lines of Python in a process."""
        return self._run([sys.executable, "-c", code, *arguments])

    def _run(self, line: list[object]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            list(map(str, line)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
        with suppress(PermissionError):  # robots and controllers have deadlines, tests have none
            os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
        self.running.append(process)
        return process

    def stop_all(self) -> None:
        """End all processes and print their output, which pytest shows when a test fails."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.running:
            try:
                output, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            print(process.args, "exit code", process.returncode, output or "", sep="\n")
        self._domain.close()


WALKING = 200  # commands: the first 100 are for standing up


class Client:
    """A second participant that asks the node for transitions and listens to its commands."""

    def __init__(self, domain: int, namespace: str = "") -> None:
        # Sets the discovery range before rclpy starts.
        from pixelgait.robot.ros.common import ros2

        rclpy = ros2.rclpy
        from lifecycle_msgs.srv import ChangeState, GetState
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from std_msgs.msg import String

        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.node = rclpy.create_node("test_client", context=self.context, namespace=namespace)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.commands: list[Any] = []
        self.node.create_subscription(
            ros2.JointState, ros2.JOINT_COMMAND, self.commands.append, ros2.COMMAND_QOS
        )
        self.change = self.node.create_client(ChangeState, "pixelgait/change_state")
        self.get = self.node.create_client(GetState, "pixelgait/get_state")
        self.triggers: dict[str, Any] = {}
        self.states: list[str] = []
        self.sensors: list[str] = []  # lines of pixelgait/sensors
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.node.create_subscription(
            String, "pixelgait/state", lambda message: self.states.append(message.data), latched
        )
        self.node.create_subscription(
            String, "pixelgait/sensors", lambda message: self.sensors.append(message.data), latched
        )

    def diagnose(self) -> dict[str, Any]:
        """Subscribe `/diagnostics`; returns the newest status of every part, by name."""
        from diagnostic_msgs.msg import DiagnosticArray

        newest: dict[str, Any] = {}

        def keep(message: Any) -> None:
            newest.update({status.name.partition(": ")[2]: status for status in message.status})

        self.node.create_subscription(DiagnosticArray, "/diagnostics", keep, 1)
        return newest

    def watch_transitions(self) -> list[str]:
        """Subscribe the node's transitions; returns the states that they lead to."""
        from lifecycle_msgs.msg import TransitionEvent

        states: list[str] = []

        def keep(event: Any) -> None:
            states.append(event.goal_state.label)

        self.node.create_subscription(TransitionEvent, "pixelgait/transition_event", keep, 10)
        return states

    def call(self, client: Any, request: Any) -> Any:
        assert client.wait_for_service(DISCOVERY_S)
        future = client.call_async(request)
        self.spin(lambda: future.done())
        return future.result()

    def order(self, name: str) -> tuple[bool, str]:
        """Call one of the operator's services."""
        from std_srvs.srv import Trigger

        if name not in self.triggers:
            self.triggers[name] = self.node.create_client(Trigger, f"pixelgait/{name}")
        answer = self.call(self.triggers[name], Trigger.Request())
        return answer.success, answer.message

    def wait_for_state(self, start: str, timeout: float = DISCOVERY_S) -> None:
        """Wait until the node reports this state, as in "walking: ordered"."""
        self.spin(lambda: self.states and self.states[-1].startswith(start), timeout)

    def spin_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.executor.spin_once(timeout_sec=0.05)

    def transition(self, number: int) -> bool:
        request = self.change.srv_type.Request()
        request.transition.id = number
        return bool(self.call(self.change, request).success)

    def state(self) -> str:
        return str(self.call(self.get, self.get.srv_type.Request()).current_state.label)

    def spin(self, until: Any, timeout: float = DISCOVERY_S) -> None:
        assert self.spins(until, timeout), "timed out"

    def spins(self, until: Any, timeout: float) -> bool:
        """Whether it comes about in time."""
        deadline = time.monotonic() + timeout
        while not until():
            if time.monotonic() > deadline:
                return False
            self.executor.spin_once(timeout_sec=0.05)
        return True

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.shutdown()


def output_of(process: subprocess.Popen[str]) -> str:
    """Standard output of a process, once it has ended."""
    assert process.wait(60) is not None
    assert process.stdout is not None
    return process.stdout.read()


def told(status: Any) -> tuple[int, str, dict[str, str]]:
    """Level, message and values of a diagnostic status."""
    return status.level[0], status.message, {value.key: value.value for value in status.values}


class FakeRobot:
    """A robot whose driver misbehaves on demand: same topics, no physics."""

    def __init__(self, client: Client) -> None:
        from pixelgait.robot.ros.common import ros2
        from pixelgait.robot.spec import A1

        self.ros2, self.spec, self.client = ros2, A1, client
        node = client.node
        self.joints = node.create_publisher(ros2.JointState, ros2.JOINT_STATES, ros2.SENSOR_QOS)
        self.imu = node.create_publisher(ros2.Imu, ros2.IMU, ros2.SENSOR_QOS)
        self.camera = node.create_publisher(ros2.Image, ros2.COLOUR, ros2.SENSOR_QOS)
        self.names = list(A1.joint_names)
        self.encoders = np.random.default_rng(0)
        self.velocity = [0.0] * 12
        self.pose = A1.default_pose_rad  # (12,) [rad], whatever it is commanded, but for
        self.sway_rad = 0.03  # of the last joint: without any motion the motors count as unpowered
        self.roll = 0.0
        self.encoding = "rgb8"
        self.publish_camera = self.publish_joints = True
        self.depth = node.create_publisher(ros2.Image, ros2.DEPTH, ros2.SENSOR_QOS)
        self.depth_age_ns = 0
        self.stamp: Callable[[str, int], int] = lambda topic, now: now  # [ns]
        self.timer = node.create_timer(0.01, self.publish)

    def publish(self) -> None:
        ros2, now = self.ros2, self.client.node.get_clock().now().nanoseconds
        message = ros2.JointState()
        message.header.stamp = ros2.stamp(self.stamp(ros2.JOINT_STATES, now))
        message.name, message.velocity = self.names, self.velocity
        noise = self.encoders.normal(0.0, 1e-3, 12)  # one that never changes is stuck
        noise[-1] += self.sway_rad * np.sin(2.0 * np.pi * 2.0 * now / 1e9)  # 2 Hz
        message.position = (self.pose + noise).tolist()
        if self.publish_joints:
            self.joints.publish(message)
        half = self.roll / 2
        orientation = np.array((np.sin(half), 0.0, 0.0, np.cos(half)))
        self.imu.publish(
            ros2.imu_message(self.stamp(ros2.IMU, now), "imu", orientation, np.zeros(3))
        )
        image = ros2.image_message(
            self.stamp(ros2.COLOUR, now), "camera", np.zeros((32, 32, 3), np.uint8)
        )
        image.encoding = self.encoding
        if self.publish_camera:
            self.camera.publish(image)
        metres = np.ones((32, 32), np.float32)
        self.depth.publish(ros2.image_message(now - self.depth_age_ns, "camera", metres))
