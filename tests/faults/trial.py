"""Trial of one fault between real processes: the controller's and the robot's."""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry

from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import ODOMETRY, VELOCITY
from pixelgait.robot.spec import Array
from tests.faults.driver import FakeDriver, ReceivedCommand, at_rest
from tests.faults.observer import Observer
from tests.faults.starvation import STARVED

START_S = 40.0  # until the robot walks, on a busy machine
WALK_S = 1.0  # before the fault
STAND_S = 5.0  # until it stands, after the watch, on a busy machine
ATTEMPTS = 3
FOLDER = "FOLDER"
GRACE_S = 0.3  # for the last commands of a process to arrive
DAMPS, WALKS, RESTS, REFUSES, ENDS = (
    *("damps", "walks on", "damps, then stands up again"),
    *("never stiff", "ends without a word"),
)
STAYS = "stands"  # stiff, without a step; checked where it is expected
SILENT = "sends nothing"  # not even damping: the robot's own program has the motors
# Fate of a simulated body, after the reaction of its controller.
SINKS, STANDS = "; the robot sinks", "; the robot stands"
STEP = 1.001  # largest step of a target, as a share of the limit
# At a hand-over of gains, to a walker's and back, a target moves as well, as far as keeps the
# torque: by the sag of a standing Go2's knees [rad] times the ratio of the gains less one.
SAG_RAD, HANDOVERS = 0.15, 2
FALLEN = 0.7  # share of the standing height
AHEAD_M_PER_S, AHEAD_PERIOD_S = 0.2, 0.1  # velocity command of a policy without a camera


class WalkTrial(Observer, ABC):
    """The processes of one case: a controller, and the robot it is connected to."""

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(folder)
        self.case, self.bundle, self.folder = case, bundle, folder
        self.link = case.link
        self.injected = False  # False if a stall of the machine ended the walk before

    @property
    @abstractmethod
    def received(self) -> Sequence[ReceivedCommand]:
        """All commands so far that a robot would apply."""

    def start_robot(self) -> None:
        """Start the robot before the controller; if `at_start`, the case does so itself."""

    def problem(self) -> str:
        """A problem that no case may have; empty: none."""
        return "a traceback" if "Traceback" in self.printed() else ""

    def fate(self, began_s: float) -> str:
        """Fate of the robot's body since then (monotonic); empty: it has none."""
        return ""

    def refused(self, after: Sequence[ReceivedCommand]) -> str:
        """Reaction after a start without a stiff command, from the received commands."""
        return REFUSES

    def run(self) -> Outcome:
        """Start, wait until the robot walks, inject, watch."""
        case, walked = self.case, True
        if case.at_start:
            case.inject(self)
        else:
            self.start_robot()
        arguments = (each.replace(FOLDER, str(self.folder)) for each in case.arguments)
        command = ("-m", "pixelgait.robot.ros.run", str(self.bundle.folder), "--link", self.link)
        self.controller = self.start(*command, *arguments, output=self.output)
        if case.at_start:
            began_s = time.monotonic()
        else:
            self.spin(START_S, lambda: self.walking() or self.ended())
            self.spin(WALK_S, self.ended)
            walked = self.walking() and not self.ended()
            began_s = time.monotonic()
            if walked:  # a stall of the machine may have ended the controller
                case.inject(self)
        if case.at_start:  # a busy machine starts the controller late
            self.spin(START_S, lambda: self.ended() or self._said())
        self.spin(case.watch_s, self.ended)
        if case.expected == STAYS:
            self.spin(STAND_S, lambda: self.ended() or at_rest(self.received))
        self.spin(GRACE_S, lambda: False)
        sent = any(each.time_s >= began_s for each in self.received)  # or it was about to end
        self.injected = walked and (sent or case.at_start or case.expected.startswith(ENDS))
        return self._outcome(began_s)

    def _said(self) -> bool:
        """Whether the case's words were printed, or are the cause of a state."""
        return any(self.case.says in text for text in (self.printed(), *self.states))

    def _outcome(self, began_s: float) -> Outcome:
        case, received = self.case, list(self.received)
        after = [each for each in received if each.time_s >= began_s]
        happened, reaction_s = self.happening(after, began_s)
        if case.expected.endswith((SINKS, STANDS)):
            happened += self.fate(began_s)
        output = self.printed()
        lines = errors(output)
        words = lines[-1] if lines else ""
        if case.says and case.says not in words:
            texts = (*output.splitlines(), *self.states)
            words = next((s for s in reversed(texts) if case.says in s), words).split("]: ", 1)[-1]
        outside, jump = worst(received, self.bundle)
        if happened != case.expected and lines and lines[-1] not in words:
            words += f"; {lines[-1]}"  # why, perhaps
        problem = self.problem()
        words = problem or self._without_places(words)
        sound = outside <= 1e-9 and within_limit(received, self.bundle) and not problem
        passed = sound and happened == case.expected and case.says in words
        reaction = None if reaction_s is None else 1e3 * reaction_s
        return Outcome(case.name, case.expected, happened, reaction, outside, jump, words, passed)

    def _without_places(self, words: str) -> str:
        """Text without names that differ between machines."""
        words = words.replace(str(self.folder), FOLDER).replace(f"{self.bundle.folder}/", "")
        words = re.sub(r"; the computer is too busy \(.*?\): [^;]*", "", words)
        return words.replace(f" on {socket.gethostname()})", ")")

    def happening(
        self, after: Sequence[ReceivedCommand], began_s: float
    ) -> tuple[str, float | None]:
        """Reaction in words, and the time until the robot was damped [s]."""
        damped = next((i for i, each in enumerate(after) if each.damps), None)
        stiff = [i for i, each in enumerate(after) if not each.damps]
        if not stiff and (self.case.at_start or not after):
            return (self.refused(after) if self.case.at_start else ENDS), None
        if damped is None:
            if self.ended():
                return ENDS, None
            stays = self.case.expected == STAYS and at_rest(after)
            return (STAYS if stays else WALKS), None
        reaction_s = after[damped].time_s - began_s
        return (RESTS if stiff and stiff[-1] > damped + 1 else DAMPS), reaction_s


class Trial(WalkTrial):
    """A trial on ROS 2 topics with the fake driver of this process."""

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(case, bundle, folder)
        self.driver = FakeDriver(self.node, bundle.spec, bundle.image_shape)

    @property
    def received(self) -> Sequence[ReceivedCommand]:
        return self.driver.received

    def alter(self, **changes: Callable[[Any], Any]) -> None:
        """Change messages from now on: of `joints`, `imu`, `camera`, `depth` or `odom`."""
        topics = dict(joints=ros2.JOINT_STATES, imu=ros2.IMU, camera=ros2.COLOUR, depth=ros2.DEPTH)
        topics |= dict(odom=ODOMETRY)
        by_topic = {topics[sensor]: change for sensor, change in changes.items()}
        self.driver.alter = lambda topic, message: by_topic.get(topic, _same)(message)

    def close(self) -> None:
        """End all processes of this case."""
        self.driver.close()
        super().close()


class StandInTrial(WalkTrial):
    """A trial with a robot simulated in a process of its own, over a real robot's link.

    `script` runs it, and alters its messages as lines on standard input say.
    """

    script: ClassVar[str]
    scene: ClassVar[str] = "flat"
    robot: subprocess.Popen[str] | None = None

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(case, bundle, folder)
        self._heights: list[tuple[float, float]] = []  # when (monotonic), and of its base [m]
        self.node.create_subscription(Odometry, "ground_truth/odom", self._see, ros2.SENSOR_QOS)
        velocity = self.node.create_publisher(Twist, VELOCITY, 1)
        ahead = Twist()
        ahead.linear.x = AHEAD_M_PER_S
        self.node.create_timer(AHEAD_PERIOD_S, lambda: velocity.publish(ahead))

    def start_robot(self, link: str = "") -> None:
        """Start the robot and wait until it stands."""
        where = ("--scene", self.scene, "--link", link or self.link)
        self.robot = self.start("-c", self.script, "--robot", self.bundle.spec.name, *where)
        self.spin(START_S, lambda: self._heights)

    def tell(self, line: str) -> None:
        """Write a line to the robot's process."""
        assert self.robot is not None
        assert self.robot.stdin is not None
        self.robot.stdin.write(f"{line}\n")
        self.robot.stdin.flush()

    def vanish(self) -> None:
        """Kill the robot's process."""
        assert self.robot is not None
        self.robot.kill()

    def refused(self, after: Sequence[ReceivedCommand]) -> str:
        return REFUSES if after else SILENT

    def fate(self, began_s: float) -> str:
        """Whether the robot has sunk; empty if its process has ended."""
        if self.robot is None or self.robot.poll() is not None:
            return ""
        lowest = min((height for time_s, height in self._heights if time_s >= began_s), default=0.0)
        return SINKS if lowest < FALLEN * self.bundle.spec.stand_height_m else STANDS

    def _see(self, message: Any) -> None:
        self._heights.append((time.monotonic(), message.pose.pose.position.z))


@dataclass(frozen=True, slots=True)
class Case:
    """A fault and its expected outcome.

    `inject` is called with the trial when the robot walks, or before the controller starts
    (`at_start`).
    """

    name: str
    inject: Callable[[Any], object]
    expected: str = DAMPS
    says: str = ""  # part of the last error, the state's cause, or another line
    at_start: bool = False
    watch_s: float = 2.0
    arguments: tuple[str, ...] = ("--auto-arm",)  # `FOLDER` in them is one of the case's own
    bundle: str = ""  # instead of the bundle of all cases
    link: str = "ros"
    trial: Callable[[Case, Bundle, Path], WalkTrial] = Trial

    def run(self, bundle: Bundle) -> Outcome:
        """Run the trial, several times if needed: a stall of the machine may stop the robot before
        the fault, where it must walk on, or by the silence of a driver that got no time.
        """
        bundle = load_bundle(self.bundle) if self.bundle else bundle
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory() as folder:
                trial = self.trial(self, bundle, Path(folder))
                try:
                    outcome = trial.run()
                finally:
                    trial.close()
            starved = self.expected == WALKS or STARVED.search(outcome.says)
            if trial.injected and (outcome.passed or not starved):
                break
        return outcome


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a fault, measured on the robot's side of the link."""

    case: str
    expected: str
    happened: str
    reaction_ms: float | None  # until the first command that damps
    outside_rad: float  # largest excess of a stiff command over the joint limits
    jump: float  # largest step of a stiff target, as a share of the limit
    says: str
    passed: bool


def errors(output: str) -> list[str]:
    """Errors that a process has logged, or ended with."""
    lines = output.splitlines()
    return [
        line.removeprefix("error: ").split("]: ", 1)[-1]
        for line in lines
        if line.startswith("error: ") or "[ERROR]" in line
    ]


def worst(received: Sequence[ReceivedCommand], bundle: Bundle) -> tuple[float, float]:
    """Largest excess of stiff commands over the joint limits [rad], and largest step of a target as
    a share of the limit."""
    spec = bundle.spec
    stiff = [each.position for each in received if each.position is not None]
    if not stiff:
        return 0.0, 0.0
    targets = np.array(stiff)
    outside = np.maximum(targets - spec.joint_upper_rad, spec.joint_lower_rad - targets).max()
    return max(0.0, float(outside)), float(steps(received, bundle).max(initial=0.0))


def steps(received: Sequence[ReceivedCommand], bundle: Bundle) -> Array:
    """Steps of the joints' targets (n, 12), as shares of the limit.

    They count between commands sent within a control step of each other, the first not late
    itself: a busy observer misses commands, also one sent just after a late one.
    """
    stiff = [each for each in received if each.position is not None]
    if not stiff:
        return np.empty((0, len(bundle.spec.joint_names)))
    targets = np.array([each.position for each in stiff])
    on_time = np.diff([each.sent_s for each in stiff], prepend=stiff[0].sent_s) < 1.2 * CONTROL_DT_S
    together = on_time[1:] & on_time[:-1]
    return np.abs(np.diff(targets, axis=0))[together] / _step_rad(bundle)


def within_limit(received: Sequence[ReceivedCommand], bundle: Bundle) -> bool:
    """Whether no target steps beyond the limit, but at the few hand-overs of gains."""
    softer = bundle.spec.kp_nm_per_rad / bundle.legs.kp_nm_per_rad
    most = STEP + SAG_RAD * np.abs(softer - 1.0) / _step_rad(bundle)
    found = steps(received, bundle)
    beyond = (found > STEP).any(axis=1)
    allowed = HANDOVERS if (softer != 1.0).any() else 0
    return bool(beyond.sum() <= allowed and (found[beyond] <= most).all())


def _step_rad(bundle: Bundle) -> Array:
    return bundle.spec.target_speed_limit_rad_per_s * CONTROL_DT_S


def to_robot(line: str) -> Callable[[StandInTrial], None]:
    """Fault: a line to the robot's process."""
    return lambda trial: trial.tell(line)


def _same(message: Any) -> Any:
    return message
