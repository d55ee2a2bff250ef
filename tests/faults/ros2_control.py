"""Faults of a robot behind ros2_control, whose controller holds the last target."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Float64MultiArray

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.ros.address import CONTROLLERS
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.ros2_control import YIELD_RAD_PER_S
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.ros.joint_topics import controller_joints
from tests.faults.changes import assign, degrees, each, silent
from tests.faults.driver import ReceivedCommand, take_all
from tests.faults.observer import CommandMonitor, order, other, stopped_for
from tests.faults.trial import (
    DAMPS,
    ENDS,
    RESTS,
    SILENT,
    SINKS,
    STANDS,
    WALKS,
    Case,
    StandInTrial,
    to_robot,
)

CONTROLLER = CONTROLLERS["ros2-control"]
LEGS = "ros2-control:legs"  # a controller of another name
COMMANDS = f"{CONTROLLER}/commands"
YIELDS = "yields"  # instead of damping
KEPT = 1000  # messages between two reads: 2 s of joint states
LATELY_S = 0.1  # age of the joint states that a target may follow
FOLLOWING = 10  # targets in a row that follow the joints: more than a walk has by chance
ROUNDING_RAD = 1e-9
# The simulated robot with messages altered by lines on standard input, as "joints nan".
BENT = """
import sys, threading
from tests.faults.ros2_control import CHANGES
from pixelgait.sim.ros import node
from pixelgait.sim.ros import joint_topics as standin

changes = {}

class Bent(standin.SensorTopics):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        bend("joints", self._joints)
        bend("imu", self._imu)

class Wire(standin.Ros2ControlWire):
    def command(self):
        if changes.pop("controller", None):
            self._executor.remove_node(self._node)
            self._node.destroy_node()
        return super().command()

def bend(sensor, publisher):
    send = publisher.publish
    def publish(message):
        bent = CHANGES[changes[sensor]](message) if sensor in changes else message
        if bent is not None:
            send(bent)
    publisher.publish = publish

def read_input():
    for line in sys.stdin:
        changes.update([line.split()])

standin.SensorTopics, standin.Ros2ControlWire = Bent, Wire
threading.Thread(target=read_input, daemon=True).start()
node.main()
"""
CHANGES: dict[str, Callable[[Any], Any]] = {
    "silent": silent,
    "nan": each("position", lambda q: q * np.nan),
    "degrees": degrees,
    "another": lambda message: assign(name=[f"x{name}" for name in message.name])(message),
}


class TopicMonitor(CommandMonitor):
    """A node that receives all targets and joint states."""

    period_s = 0.002

    def __init__(self, beside: Any, spec: RobotSpec) -> None:
        super().__init__()
        self._spec = spec
        self._places = ros2.joint_order(controller_joints(spec), spec.joint_names)
        self.targets: list[ReceivedCommand] = []
        self.angles: list[tuple[float, Array]] = []  # when sent [s], and (12,) [rad] or NaN
        self._node = ros2.quiet_node(beside, "observer")
        listen = self._node.create_subscription
        self._commands = listen(Float64MultiArray, COMMANDS, lambda _: None, KEPT)
        sent = QoSProfile(depth=KEPT, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._joints = listen(ros2.JointState, ros2.JOINT_STATES, lambda _: None, sent)
        self.listen()

    def close(self) -> None:
        super().close()
        self._node.destroy_node()

    def receive(self) -> None:
        for message, info in take_all(self._joints, ros2.JointState):
            self.angles.append((info["source_timestamp"] / 1e9, self._plausible(message)))
        for message, info in take_all(self._commands, Float64MultiArray):
            target = np.array(message.data)[self._places]
            sent_s = info["source_timestamp"] / 1e9
            self.targets.append(ReceivedCommand(time.monotonic(), sent_s, target))

    def _plausible(self, message: Any) -> Array:
        """Angles of joints by their names (12,) [rad], NaN where they cannot be."""
        spec, known = self._spec, dict(zip(message.name, message.position, strict=True))
        angles = np.array([known.get(name, np.nan) for name in spec.joint_names])
        possible = (spec.joint_lower_rad <= angles) & (angles <= spec.joint_upper_rad)
        return np.where(possible, angles, np.nan)


def follows(before: ReceivedCommand, target: ReceivedCommand, angles: Array) -> bool:
    """Whether a target only follows recent joint angles (n, 12) [rad], or holds."""
    assert before.position is not None
    assert target.position is not None
    step, place = target.position - before.position, before.position
    offsets = np.nan_to_num(angles - place, nan=0.0)  # of an unknown joint: none
    ahead, back = offsets.max(0, initial=0.0), offsets.min(0, initial=0.0)
    slow = np.abs(step) <= YIELD_RAD_PER_S * CONTROL_DT_S + ROUNDING_RAD
    return bool((slow & (back - ROUNDING_RAD <= step) & (step <= ahead + ROUNDING_RAD)).all())


def yielding(
    targets: Sequence[ReceivedCommand], angles: Sequence[tuple[float, Array]]
) -> list[ReceivedCommand]:
    """Targets, marked as yielding where several in a row follow the joints.

    No position damps, so yielding shows in how targets move. Times of sending count, because a busy
    observer receives many messages at once.
    """
    if not angles:
        return list(targets)
    times = np.array([time_s for time_s, _ in angles])
    places = np.array([each for _, each in angles])
    follow = [False for _ in targets[:1]]
    for before, target in itertools.pairwise(targets):
        first, last = np.searchsorted(times, (target.sent_s - LATELY_S, target.sent_s))
        follow.append(follows(before, target, places[max(0, first - 1) : last]))
    found: list[ReceivedCommand] = []
    pairs = zip(follow, targets, strict=True)
    for follows_joints, row in itertools.groupby(pairs, lambda pair: pair[0]):
        members = [target for _, target in row]
        yields = follows_joints and len(members) >= FOLLOWING
        found += [replace(each, yields=yields) for each in members]
    return found


class Ros2ControlTrial(StandInTrial):
    """A trial over ros2_control."""

    script = BENT

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(case, bundle, folder)
        self._monitor = TopicMonitor(self.node, bundle.spec)

    @property
    def received(self) -> Sequence[ReceivedCommand]:
        return yielding(list(self._monitor.targets), list(self._monitor.angles))

    def happening(
        self, after: Sequence[ReceivedCommand], began_s: float
    ) -> tuple[str, float | None]:
        happened, reaction_s = super().happening(after, began_s)
        return happened.replace(DAMPS, YIELDS), reaction_s

    def claim(self, joints: Sequence[str], interface: str) -> None:
        """Start a controller of the expected name with other joints or commands."""
        self.start_robot(LEGS)
        controller = Node(CONTROLLER, context=self.context)
        controller.declare_parameter("joints", list(joints))
        controller.declare_parameter("interface_name", interface)
        self.executor.add_node(controller)

    def close(self) -> None:
        """End all processes of this case."""
        self._monitor.close()
        super().close()


def elsewhere(trial: Ros2ControlTrial) -> None:
    """Fault: the robot's controller has another name."""
    trial.start_robot(LEGS)


def commanded(trial: Ros2ControlTrial) -> None:
    """Fault: another node could command the controller."""
    trial.start_robot()
    other(COMMANDS)(trial)


def of_others(trial: Ros2ControlTrial) -> None:
    """Fault: the controller is of another robot."""
    trial.claim([f"joint_{number}" for number in range(12)], "position")


def of_efforts(trial: Ros2ControlTrial) -> None:
    """Fault: the controller takes torques."""
    trial.claim(trial.bundle.spec.joint_names, "effort")


STOP, LONELY = order("emergency_stop"), StandInTrial.start_robot
OTHER = "another node commands the joints: /other_node"
GONE = f"controller {CONTROLLER} is gone"
row = partial(
    Case,
    bundle="walk",
    link="ros2-control",
    trial=Ros2ControlTrial,
    watch_s=4.5,
    arguments=("--arm", "--auto-arm"),
)
start = partial(row, expected=SILENT, at_start=True, watch_s=40.0)
ROS2_CONTROL_FAULTS = [
    row("joint states end", to_robot("joints silent"), YIELDS + STANDS, "joint_states is silent"),
    row("positions that are NaN", to_robot("joints nan"), YIELDS + STANDS, "not finite"),
    # Detected after 50 ms: legs may have moved to where they do not carry any more.
    row("positions in degrees", to_robot("joints degrees"), YIELDS, "degrees instead"),
    row("names of another robot", to_robot("joints another"), YIELDS + STANDS, "joint states lack"),
    row("IMU data end", to_robot("imu silent"), YIELDS + SINKS, "imu/data is silent"),
    row("the robot is gone", StandInTrial.vanish, YIELDS, "is silent"),
    row("the controller is unloaded", to_robot("controller unloaded"), YIELDS + STANDS, GONE),
    row("another node can command", other(COMMANDS), YIELDS + SINKS, OTHER, watch_s=8.0),
    row("emergency stop by service", STOP, YIELDS + SINKS, "stopped: "),
    row("stopped for 1 s", stopped_for(1.0), RESTS.replace(DAMPS, YIELDS) + SINKS, watch_s=5.0),
    row("stopped for 0.05 s", stopped_for(0.05), WALKS),
    row("kill -9", lambda t: t.signal(signal.SIGKILL), ENDS + STANDS),
    row("SIGINT", lambda t: t.signal(signal.SIGINT), YIELDS + SINKS),
    start("at the start no controller", elsewhere, says="does not answer for 10 s"),
    start("at the start a controller of other joints", of_others, says=" commands joint_0, "),
    start("at the start a controller of efforts", of_efforts, says="is no forward_command"),
    start("at the start another node can command", commanded, says=OTHER),
    start("not armed", LONELY, says="limp: ", watch_s=10.0, arguments=("--arm",)),
    start("without --arm", LONELY, says="dry run: ", watch_s=15.0, arguments=("--auto-arm",)),
]  # fmt: skip
