"""Invalid commands to the simulated robot, from another node while the robot stands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from nav_msgs.msg import Odometry

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.spec import RobotSpec
from tests.faults.observer import Observer
from tests.faults.trial import FALLEN, GRACE_S, START_S, Outcome, errors

COMMAND_PERIOD_S, OTHER_PERIOD_S = 0.01, 0.02
WATCH_S = 2.0
STANDS, FALLS, DIES, GARBLED = (
    "stands on",
    "falls",
    "ends",
    "publishes NaN or infinite angles",
)


@dataclass(frozen=True, slots=True)
class InvalidCommand:
    """A change that makes a command invalid, and the expected error."""

    name: str
    alter: Callable[[Any], Any]
    says: str
    link: ClassVar[str] = "ros"

    def run(self, bundle: Bundle) -> Outcome:
        """Run the trial."""
        with tempfile.TemporaryDirectory() as folder:
            trial = RobotTrial(self, bundle.spec, Path(folder))
            try:
                return trial.run()
            finally:
                trial.close()


class RobotTrial(Observer):
    """A simulated robot, a node that commands it to stand, and another node."""

    def __init__(self, case: InvalidCommand, spec: RobotSpec, folder: Path) -> None:
        super().__init__(folder)
        self.case, self.spec = case, spec
        self.angles: list[Sequence[float]] = []
        self.heights: list[float] = []
        sensor = ros2.SENSOR_QOS
        self.node.create_subscription(ros2.JointState, ros2.JOINT_STATES, self._receive, sensor)
        self.node.create_subscription(Odometry, "ground_truth/odom", self._see, sensor)
        self._publisher = self.node.create_publisher(
            ros2.JointState, ros2.JOINT_COMMAND, ros2.COMMAND_QOS
        )
        self.node.create_timer(COMMAND_PERIOD_S, lambda: self._publisher.publish(self._stand()))
        self._other = ros2.rclpy.create_node("other_node", context=self.context)
        self._wrong = self._other.create_publisher(
            ros2.JointState, ros2.JOINT_COMMAND, ros2.COMMAND_QOS
        )
        self.executor.add_node(self._other)

    def run(self) -> Outcome:
        """Start, wait until the robot stands by commands, send invalid ones, watch."""
        command = ("-m", "pixelgait.sim.ros.node", "--scene", "flat", "--robot", self.spec.name)
        self.controller = self.start(*command, output=self.output)
        self.spin(START_S, lambda: self.heights or self.ended())
        self.spin(GRACE_S, self.ended)
        alter, publish = self.case.alter, self._wrong.publish
        timer = self._other.create_timer(OTHER_PERIOD_S, lambda: publish(alter(self._stand())))
        self.spin(WATCH_S, self.ended)
        self._other.destroy_timer(timer)
        self.angles.clear()
        self.heights.clear()
        self.spin(GRACE_S, self.ended)
        return self._outcome()

    def close(self) -> None:
        """End all processes of this case."""
        self._other.destroy_node()
        super().close()

    def _receive(self, message: Any) -> None:
        self.angles.append(message.position)

    def _see(self, message: Any) -> None:
        self.heights.append(message.pose.pose.position.z)

    def _stand(self) -> Any:
        now = self.node.get_clock().now().nanoseconds
        pose, names = self.spec.default_pose_rad, self.spec.joint_names
        return ros2.joint_command(now, names, pose, np.zeros(len(names)))

    def _outcome(self) -> Outcome:
        case, spec, output = self.case, self.spec, self.printed()
        angles = np.array(self.angles)
        beyond = 0.0
        if self.ended() or not self.angles:
            happened = DIES
        elif not np.isfinite(angles).all():
            happened = GARBLED
        else:
            outside = np.maximum(angles - spec.joint_upper_rad, spec.joint_lower_rad - angles)
            beyond = max(0.0, float(outside.max()))
            stands = min(self.heights) > FALLEN * spec.stand_height_m
            happened = STANDS if stands else FALLS
        found = errors(output)
        words = found[-1] if found else ""
        if "Traceback" in output:
            words = "a traceback"
        passed = happened == STANDS and len(found) == 1 and case.says in words
        return Outcome(case.name, STANDS, happened, None, beyond, 0.0, words, passed)
