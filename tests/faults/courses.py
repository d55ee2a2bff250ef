"""Endurance on courses: one controller walks course after course under mixed faults."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common import ros2
from pixelgait.sim.world.seeds import VALIDATION
from tests.faults.driver import ReceivedCommand, parse_command
from tests.faults.observer import Observer
from tests.faults.trial import START_S, worst

COURSE_S = 20.0  # of walking
CONFIGURE, ACTIVATE, DEACTIVATE = 1, 3, 4  # lifecycle_msgs/Transition
LEAST_WALKED = 0.5  # share of the time; faults may end a walk
MOST_GROWTH_MB = 10.0  # of resident memory, from the second course on
DAMPED_S = 5.0  # until a busy observer has received the last command
FIRST_SEED = VALIDATION.start


class Courses(Observer):
    """A controller, and a simulated robot for every course; receives the commands."""

    def __init__(self, bundle: Bundle, folder: Path) -> None:
        super().__init__(folder)
        self.received: list[ReceivedCommand] = []
        self.node.create_subscription(ros2.JointState, ros2.JOINT_COMMAND, self._receive, 100)
        command = ("-m", "pixelgait.robot.ros.run", str(bundle.folder))
        options = ("--auto-arm", "--no-autostart", "--ros-args")
        # Rendering a course on a busy machine delays the simulated robot.
        silence = [f"timeout_s.{each}:=0.5" for each in ("joint_states", "imu.data")]
        parameters = [part for each in (*silence, "driver_timeout_s:=0.5") for part in ("-p", each)]
        self.controller = self.start(*command, *options, *parameters, output=self.output)

    def _receive(self, message: Any) -> None:
        self.received.append(parse_command(message))

    def transition(self, number: int) -> bool:
        from lifecycle_msgs.srv import ChangeState

        request = ChangeState.Request()
        request.transition.id = number
        answer = self.call(ChangeState, "change_state", request, START_S)
        return answer is not None and bool(answer.success)

    def memory_mb(self) -> float:
        """Resident memory of the controller [MB]."""
        assert self.controller is not None
        lines = Path(f"/proc/{self.controller.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def last_error(self) -> str:
        """The controller's last error; empty: none."""
        lines = [line for line in self.printed().splitlines() if "[ERROR]" in line]
        return lines[-1].split("]: ", 1)[-1] if lines else ""


def walk_courses(bundle: Bundle, seconds: float, folder: Path) -> dict[str, Any]:
    """Walk one course after the other; returns figures of each, and what was wrong."""
    observer = Courses(bundle, folder)
    courses: list[dict[str, Any]] = []
    wrong: list[str] = []
    until = time.monotonic() + seconds
    try:
        if not observer.transition(CONFIGURE):
            raise UserError("the controller could not be configured")
        with tqdm(total=round(seconds), unit="s") as bar:
            while time.monotonic() < until and not observer.ended():
                began = time.monotonic()
                courses.append(walk_course(observer, bundle, FIRST_SEED + len(courses)))
                tqdm.write(", ".join(f"{k} {v}" for k, v in courses[-1].items()))
                bar.update(round(time.monotonic() - began))
    finally:
        output = observer.printed()
        if observer.ended():
            wrong.append("the controller has ended")
        observer.close()
    if not courses:
        wrong.append("no course was walked")
    memory = [course["memory_mb"] for course in courses[1:]]  # since the first one
    growth = max(memory) - memory[0] if memory else 0.0
    for course in courses:
        if course["outside_rad"] > 1e-9 or course["step"] > 1.001:
            wrong.append(f"course {course['seed']}: commands outside limits")
        if not course["damped"]:
            wrong.append(f"course {course['seed']}: not damped at its end")
    if growth > MOST_GROWTH_MB:
        wrong.append(f"memory has grown by {growth:.0f} MB")
    walked = sum(course["walked_s"] for course in courses) / (COURSE_S * max(len(courses), 1))
    if walked < LEAST_WALKED:
        wrong.append(f"it walked for only {walked:.0%} of the time")
    if "Traceback" in output:
        wrong.append("a traceback was printed")
    ended = sum(course["ended"] != "walking" for course in courses)
    print(
        f"{len(courses)} courses, {ended} ended early, it walked for {walked:.0%} of the time; "
        f"memory grew by {growth:.1f} MB"
    )
    figures = {"courses": courses, "walked": walked, "memory_growth_mb": growth}
    return {**figures, "wrong": wrong}


def walk_course(observer: Courses, bundle: Bundle, seed: int) -> dict[str, Any]:
    """Walk one course under mixed faults; returns how it ended, and the controller's memory."""
    observer.received.clear()
    observer.states.clear()
    arguments = ("--seed", str(seed), "--faults", "mixed")
    robot = observer.start("-m", "pixelgait.sim.ros.node", *arguments)
    active = observer.transition(ACTIVATE)
    began = time.monotonic()
    if active:
        observer.spin(COURSE_S, lambda: not observer.standing())
    walked_s = (time.monotonic() - began) * active
    ended = observer.states[-1] if observer.states else "never activated"
    observer.transition(DEACTIVATE)  # refused where a fault has done so
    observer.spin(DAMPED_S, lambda: observer.received and observer.received[-1].position is None)
    robot.send_signal(signal.SIGINT)
    robot.wait()
    outside, jump = worst(observer.received, bundle)
    ended = "walking" if ended.startswith(("walking", "ready")) else ended
    return {
        "seed": seed,
        "ended": ended,
        "walked_s": round(walked_s, 1),
        "says": "" if ended == "walking" else observer.last_error(),
        "outside_rad": outside,
        "step": round(jump, 3),
        "damped": bool(observer.received) and observer.received[-1].position is None,
        "memory_mb": round(observer.memory_mb(), 1),
    }
