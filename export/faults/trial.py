"""One fault between real processes: the controller's, and the robot's driver that watches it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.export.faults.driver import FakeDriver, Heard
from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.ros.wire.private import private_environment
from pixelgait.robot.runtime.processes import die_with_parent

START_S = 40.0  # to walk; discovery takes seconds, a busy machine more
WALK_S = 1.0  # before something goes wrong
ATTEMPTS = 3
FOLDER = "FOLDER"
GRACE_S = 0.3  # after the end of a process, for its last commands to arrive
DAMPS, WALKS, RESTS, REFUSES, ENDS = (
    *("damps", "walks on", "damps, then stands up again"),
    *("never stiff", "ends without a word"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """What goes wrong, and what must come of it.

    `inject` is called when the robot walks, or before the controller starts where it must not get
    as far (`at_start`).
    """

    name: str
    inject: Callable[[Trial], object]
    expected: str = DAMPS
    says: str = ""  # in its last words, the state's cause, or another line
    at_start: bool = False
    watch_s: float = 2.0
    arguments: tuple[str, ...] = ("--auto-arm",)  # `FOLDER` in them is one of the case's own
    bundle: str = ""  # what walks, if not that of all cases


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it, as seen from the driver's side of the wire."""

    case: str
    expected: str
    happened: str
    reaction_ms: float | None  # until the first command that damps
    outside_rad: float  # the worst stiff command beyond the joint limits
    jump: float  # the farthest a stiff target went in a step, of what is allowed
    says: str
    passed: bool


class Observer:
    """Processes on a ROS domain of their own, and a node that watches them."""

    def __init__(self, folder: Path) -> None:
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from std_msgs.msg import String

        domain = 4 * random.randint(1, 25)  # none of those that tests beside it are on
        self.environment = private_environment(domain, folder / "log")
        self.context = Context()
        ros.rclpy.init(context=self.context, domain_id=domain)
        self.node = ros.rclpy.create_node("driver", context=self.context)
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
        """Or walking."""
        return bool(self.states) and self.states[-1].startswith(("ready", "walking"))

    def ended(self) -> bool:
        return self.controller is not None and self.controller.poll() is not None

    def start(self, *arguments: str, output: Any = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Another Python of this case."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        self.others.append(process)
        return process

    def said(self) -> str:
        """All that the controller has printed; by name, as it goes on where the file stands."""
        return Path(self.output.name).read_text()

    def signal(self, number: int) -> None:
        """To the controller."""
        assert self.controller is not None
        self.controller.send_signal(number)

    def call(self, kind: Any, name: str, request: Any, patience_s: float = 10.0) -> Any:
        """Call a service of the controller; None if it does not answer."""
        client = self.node.create_client(kind, f"pixelgait/{name}")
        client.wait_for_service(patience_s)
        future = client.call_async(request)
        self.spin(patience_s, future.done)
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
        self.output.close()


class Trial(Observer):
    """The processes of one case."""

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(folder)
        self.case, self.bundle, self.folder = case, bundle, folder
        self.driver = FakeDriver(self.node, bundle.spec, bundle.image_shape)
        self.injected = True  # or a machine that stalled has ended the walk before

    def run(self) -> Outcome:
        """Start, wait until the robot walks, inject, watch."""
        case = self.case
        if case.at_start:
            self.case.inject(self)
        arguments = (each.replace(FOLDER, str(self.folder)) for each in case.arguments)
        command = ("-m", "pixelgait.robot.ros.run", str(self.bundle.folder), *arguments)
        self.controller = self.start(*command, output=self.output)
        if case.at_start:
            began_s = time.monotonic()
        else:
            self.spin(START_S, lambda: self.walking() or self.ended())
            self.spin(WALK_S, self.ended)
            self.injected = not self.ended()
            began_s = time.monotonic()
            case.inject(self)
        self.spin(case.watch_s, self.ended)
        self.spin(GRACE_S, lambda: False)
        return self._outcome(began_s)

    def alter(self, **changes: Callable[[Any], Any]) -> None:
        """What becomes of messages from now on: of `joints`, `imu`, `camera` or `depth`."""
        topics = dict(joints=ros.JOINT_STATES, imu=ros.IMU, camera=ros.COLOUR, depth=ros.DEPTH)
        by_topic = {topics[sensor]: change for sensor, change in changes.items()}
        self.driver.alter = lambda topic, message: by_topic.get(topic, _same)(message)

    def close(self) -> None:
        """End all processes of this case."""
        self.driver.close()
        super().close()

    def _outcome(self, began_s: float) -> Outcome:
        case, heard = self.case, list(self.driver.heard)
        after = [each for each in heard if each.time_s >= began_s]
        happened, reaction_s = self._what_happened(after, began_s)
        said = self.said()
        lines = errors(said)
        words = lines[-1] if lines else ""
        if case.says and case.says not in words:
            told = (*said.splitlines(), *self.states)
            words = next((s for s in reversed(told) if case.says in s), words).split("]: ", 1)[-1]
        outside, jump = worst(heard, self.bundle)
        if happened != case.expected and lines and lines[-1] not in words:
            words += f"; {lines[-1]}"  # why, perhaps
        words = words.replace(str(self.folder), FOLDER)
        if "Traceback" in said:
            words = "a traceback"
        sound = outside <= 1e-9 and jump <= 1.001 and words != "a traceback"
        passed = sound and happened == case.expected and case.says in words
        reaction = None if reaction_s is None else 1e3 * reaction_s
        return Outcome(case.name, case.expected, happened, reaction, outside, jump, words, passed)

    def _what_happened(self, after: Sequence[Heard], began_s: float) -> tuple[str, float | None]:
        """In words, and after how long the robot was damped [s]."""
        damped = next((i for i, each in enumerate(after) if each.position is None), None)
        stiff = [i for i, each in enumerate(after) if each.position is not None]
        if not stiff and (self.case.at_start or not after):
            return (REFUSES if self.case.at_start else ENDS), None
        if damped is None:
            if self.ended():
                return ENDS, None
            return WALKS, None
        reaction_s = after[damped].time_s - began_s
        return (RESTS if stiff and stiff[-1] > damped + 1 else DAMPS), reaction_s


def run_case(case: Case, bundle: Bundle) -> Outcome:
    """Between processes of its own; again where the machine held them up before the fault, or
    where they must walk on: what is not the fault's may have stopped them, but hardly every time.
    """
    bundle = load_bundle(case.bundle) if case.bundle else bundle
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(case, bundle, Path(folder))
            try:
                outcome = trial.run()
            finally:
                trial.close()
        if trial.injected and (outcome.passed or case.expected != WALKS):
            break
    return outcome


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


def _same(message: Any) -> Any:
    return message
