"""Faults of a simulated robot behind topics, where legs and body must move together.

Joints and IMU that are mixed up from the start, each value possible: names, signs, axes. Velocity
commands of another node. A pane of glass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.rotation import product, to_base_frame
from tests.faults.changes import assign, each, renamed
from tests.faults.driver import ReceivedCommand, parse_command, take_all
from tests.faults.observer import CommandMonitor
from tests.faults.ros2_control import BENT, KEPT
from tests.faults.trial import DAMPS, WALKS, Case, StandInTrial

THIGH, ACROSS, BEHIND = 1, 4, 7  # FR, FL and RR: in a trot they swing against FR
RATES = (f"angular_velocity__{axis}" for axis in "xyz")


def turned(yaw_rad: float) -> Callable[[Any], Any]:
    """The IMU is mounted with this yaw."""
    mount = (0.0, 0.0, math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0))

    def change(message: Any) -> Any:
        q, w = message.orientation, message.angular_velocity
        q.x, q.y, q.z, q.w = product((q.x, q.y, q.z, q.w), mount)
        w.x, w.y, w.z = to_base_frame((w.x, w.y, w.z), mount)
        return message

    return change


def flipped(message: Any) -> Any:
    """One joint turns the other way."""
    message.position[BEHIND] *= -1.0
    message.velocity[BEHIND] *= -1.0
    return message


CHANGES: dict[str, Callable[[Any], Any]] = {
    "half": turned(math.pi),
    "quarter": turned(math.pi / 2.0),
    "swapped": renamed(THIGH, ACROSS),
    "flipped": flipped,
    "velocities": each("velocity", lambda velocities: 0.0 * velocities),
    "rates": assign(**dict.fromkeys(RATES, 0.0)),
}


class JointCommandMonitor(CommandMonitor):
    """A node that receives all joint commands."""

    period_s = 0.002

    def __init__(self, beside: Any) -> None:
        super().__init__()
        self.received: list[ReceivedCommand] = []
        self._node = ros2.quiet_node(beside, "observer")
        self._commands = self._node.create_subscription(
            ros2.JointState, ros2.JOINT_COMMAND, lambda _: None, KEPT
        )
        self.listen()

    def receive(self) -> None:
        self.received += [
            parse_command(each) for each, _ in take_all(self._commands, ros2.JointState)
        ]

    def close(self) -> None:
        super().close()
        self._node.destroy_node()


class TopicTrial(StandInTrial):
    """A trial of a simulated robot behind topics."""

    script = BENT.replace("tests.faults.ros2_control", "tests.faults.mixed_up")

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(case, bundle, folder)
        self._monitor = JointCommandMonitor(self.node)

    @property
    def received(self) -> Sequence[ReceivedCommand]:
        return self._monitor.received

    def close(self) -> None:
        """End all processes of this case."""
        self._monitor.close()
        super().close()


class GlassTrial(TopicTrial):
    """The robot walks at a pane of glass."""

    scene = str(Path(__file__).with_name("glass.py"))


def from_the_start(line: str = "") -> Callable[[TopicTrial], None]:
    """Fault: the robot's messages are changed before the controller starts."""

    def inject(trial: TopicTrial) -> None:
        trial.start_robot()
        if line:
            trial.tell(line)

    return inject


row = partial(Case, expected=DAMPS, at_start=True, watch_s=20.0, bundle="walk", trial=TopicTrial)
AGREE = "they agree if it is turned by"
MIXED_UP = [
    row("nothing", from_the_start(), expected=WALKS),
    row("IMU turned by 180 deg", from_the_start("imu half"), says=f"{AGREE} 180 deg"),
    row("IMU turned by 90 deg", from_the_start("imu quarter"), says=f"{AGREE} 90 deg"),
    row("names of two thighs swapped", from_the_start("joints swapped"), says="_upper_joint"),
    row("sign of a thigh flipped", from_the_start("joints flipped"), says="RR_upper_joint"),
    row("velocities that are always 0", from_the_start("joints velocities"), says="its velocity"),
    row("a rate that is always 0", from_the_start("imu rates"), says="rate is the same for"),
]  # fmt: skip
