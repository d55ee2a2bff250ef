"""One fault between real processes: the controller's, and the robot's, which others watch."""

from __future__ import annotations

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
from pixelgait.robot.ros.commands.cmd_vel import VELOCITY
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import ODOMETRY
from tests.faults.driver import FakeDriver, Heard, at_rest
from tests.faults.observer import Observer

START_S = 40.0  # to walk; discovery takes seconds, a busy machine more
WALK_S = 1.0  # before something goes wrong
ATTEMPTS = 3
FOLDER = "FOLDER"
GRACE_S = 0.3  # after the end of a process, for its last commands to arrive
DAMPS, WALKS, RESTS, REFUSES, ENDS = (
    *("damps", "walks on", "damps, then stands up again"),
    *("never stiff", "ends without a word"),
)
STAYS = "stands"  # stiff, without a step: looked for where it is expected
SILENT = "sends nothing"  # where a robot's own program has the motors, not even damping
# What must become of a robot with a body, behind the words for what its controller does.
SINKS, STANDS = "; the robot sinks", "; the robot stands"
FALLEN = 0.7  # of the height at which it stands
AHEAD_M_PER_S, AHEAD_PERIOD_S = 0.2, 0.1  # what a policy without eyes is told


class WalkTrial(Observer, ABC):
    """The processes of one case: a controller, and the robot it is connected to."""

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(folder)
        self.case, self.bundle, self.folder = case, bundle, folder
        self.link = case.link
        self.injected = False  # yet; and not if a machine that stalled has ended the walk before

    @property
    @abstractmethod
    def heard(self) -> Sequence[Heard]:
        """All commands so far that a robot would obey."""

    def start_robot(self) -> None:
        """Before the controller; if `at_start`, the case itself says who is there."""

    def problem(self) -> str:
        """What must not be, whatever the case, or nothing."""
        return "a traceback" if "Traceback" in self.said() else ""

    def fate(self, began_s: float) -> str:
        """What has become of the robot's body since then (monotonic), if it has one."""
        return ""

    def refused(self, after: Sequence[Heard]) -> str:
        """What it did after a start at which it was never stiff, by what was heard."""
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
            case.inject(self)
        self.spin(case.watch_s, self.ended)
        self.spin(GRACE_S, lambda: False)
        spoke = any(each.time_s >= began_s for each in self.heard)  # or it was about to end
        self.injected = walked and (spoke or case.at_start or case.expected.startswith(ENDS))
        return self._outcome(began_s)

    def _outcome(self, began_s: float) -> Outcome:
        case, heard = self.case, list(self.heard)
        after = [each for each in heard if each.time_s >= began_s]
        happened, reaction_s = self.happening(after, began_s)
        if case.expected.endswith((SINKS, STANDS)):
            happened += self.fate(began_s)
        said = self.said()
        lines = errors(said)
        words = lines[-1] if lines else ""
        if case.says and case.says not in words:
            told = (*said.splitlines(), *self.states)
            words = next((s for s in reversed(told) if case.says in s), words).split("]: ", 1)[-1]
        outside, jump = worst(heard, self.bundle)
        if happened != case.expected and lines and lines[-1] not in words:
            words += f"; {lines[-1]}"  # why, perhaps
        problem = self.problem()
        words = problem or self._without_places(words)
        sound = outside <= 1e-9 and jump <= 1.001 and not problem
        passed = sound and happened == case.expected and case.says in words
        reaction = None if reaction_s is None else 1e3 * reaction_s
        return Outcome(case.name, case.expected, happened, reaction, outside, jump, words, passed)

    def _without_places(self, words: str) -> str:
        """What differs from machine to machine."""
        words = words.replace(str(self.folder), FOLDER).replace(f"{self.bundle.folder}/", "")
        return words.replace(f" on {socket.gethostname()})", ")")

    def happening(self, after: Sequence[Heard], began_s: float) -> tuple[str, float | None]:
        """In words, and after how long the robot was damped [s]."""
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
    """One on ROS 2 topics, whose robot is this process: a driver that says what it is told to."""

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(case, bundle, folder)
        self.driver = FakeDriver(self.node, bundle.spec, bundle.image_shape)

    @property
    def heard(self) -> Sequence[Heard]:
        return self.driver.heard

    def alter(self, **changes: Callable[[Any], Any]) -> None:
        """What becomes of messages from now on: of `joints`, `imu`, `camera`, `depth` or `odom`."""
        topics = dict(joints=ros2.JOINT_STATES, imu=ros2.IMU, camera=ros2.COLOUR, depth=ros2.DEPTH)
        topics |= dict(odom=ODOMETRY)
        by_topic = {topics[sensor]: change for sensor, change in changes.items()}
        self.driver.alter = lambda topic, message: by_topic.get(topic, _same)(message)

    def close(self) -> None:
        """End all processes of this case."""
        self.driver.close()
        super().close()


class StandInTrial(WalkTrial):
    """One whose robot is simulated in a process of its own, behind the wire of a real one.

    `script` runs it, and bends what it says as standard input tells.
    """

    script: ClassVar[str]
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
        """Until it stands: the controller waits for its answers, but not for ever."""
        where = ("--robot", self.bundle.spec.name, "--scene", "flat", "--link", link or self.link)
        self.robot = self.start("-c", self.script, *where)
        self.spin(START_S, lambda: self._heights)

    def tell(self, line: str) -> None:
        """To the robot's process."""
        assert self.robot is not None
        assert self.robot.stdin is not None
        self.robot.stdin.write(f"{line}\n")
        self.robot.stdin.flush()

    def vanish(self) -> None:
        """The robot's process is killed."""
        assert self.robot is not None
        self.robot.kill()

    def refused(self, after: Sequence[Heard]) -> str:
        return REFUSES if after else SILENT

    def fate(self, began_s: float) -> str:
        """Whether it has sunk; nothing of a robot that is gone."""
        if self.robot is None or self.robot.poll() is not None:
            return ""
        lowest = min((height for time_s, height in self._heights if time_s >= began_s), default=0.0)
        return SINKS if lowest < FALLEN * self.bundle.spec.stand_height_m else STANDS

    def _see(self, message: Any) -> None:
        self._heights.append((time.monotonic(), message.pose.pose.position.z))


@dataclass(frozen=True, slots=True)
class Case:
    """What goes wrong, and what must come of it.

    `inject` is called with the trial when the robot walks, or before the controller starts where
    it must not get as far (`at_start`).
    """

    name: str
    inject: Callable[[Any], object]
    expected: str = DAMPS
    says: str = ""  # in its last words, the state's cause, or another line
    at_start: bool = False
    watch_s: float = 2.0
    arguments: tuple[str, ...] = ("--auto-arm",)  # `FOLDER` in them is one of the case's own
    bundle: str = ""  # what walks, if not that of all cases
    link: str = "ros"
    trial: Callable[[Case, Bundle, Path], WalkTrial] = Trial

    def run(self, bundle: Bundle) -> Outcome:
        """Between processes of its own; again where the machine held them up before the fault, or
        where they must walk on: what is not the fault's may have stopped them, but hardly every
        time.
        """
        bundle = load_bundle(self.bundle) if self.bundle else bundle
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory() as folder:
                trial = self.trial(self, bundle, Path(folder))
                try:
                    outcome = trial.run()
                finally:
                    trial.close()
            if trial.injected and (outcome.passed or self.expected != WALKS):
                break
        return outcome


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it, as seen from the robot's side of the wire."""

    case: str
    expected: str
    happened: str
    reaction_ms: float | None  # until the first command that damps
    outside_rad: float  # the worst stiff command beyond the joint limits
    jump: float  # the farthest a stiff target went in a step, of what is allowed
    says: str
    passed: bool


def errors(said: str) -> list[str]:
    """What a process has logged as an error, or ended with."""
    lines = said.splitlines()
    return [
        line.removeprefix("error: ").split("]: ", 1)[-1]
        for line in lines
        if line.startswith("error: ") or "[ERROR]" in line
    ]


def worst(heard: Sequence[Heard], bundle: Bundle) -> tuple[float, float]:
    """How far stiff commands were outside the limits [rad], and how far targets went in a step, as
    a share of what is allowed.

    Only between those sent within a step of each other, the first of them not late itself: what a
    busy observer misses, also one sent just after a late one, must not look like a leap.
    """
    spec = bundle.spec
    stiff = [each for each in heard if each.position is not None]
    if not stiff:
        return 0.0, 0.0
    targets = np.array([each.position for each in stiff])
    outside = np.maximum(targets - spec.joint_upper_rad, spec.joint_lower_rad - targets).max()
    most = spec.target_speed_limit_rad_per_s * CONTROL_DT_S
    jumps = np.abs(np.diff(targets, axis=0)) / most
    on_time = np.diff([each.sent_s for each in stiff], prepend=stiff[0].sent_s) < 1.2 * CONTROL_DT_S
    together = on_time[1:] & on_time[:-1]
    return max(0.0, float(outside)), float(jumps[together].max(initial=0.0))


def tells(line: str) -> Callable[[StandInTrial], None]:
    """A fault of which the robot's process is told."""
    return lambda trial: trial.tell(line)


def _same(message: Any) -> Any:
    return message
