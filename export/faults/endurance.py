"""`make endurance`: courses under faults for as long as one likes, then kill, stop and join events.

One controller process walks course after course, under lifecycle management: its memory must not
grow. Then random events: after each the robot must be safe, as seen by who hears its commands.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from pixelgait.export.faults.cases import JOIN, OTHER
from pixelgait.export.faults.changes import silent
from pixelgait.export.faults.driver import Heard
from pixelgait.export.faults.trial import START_S, Case, Observer, Trial, worst
from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, require_writable, write_atomic
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.runtime.options import Range, Seed, check_numbers, parse

COURSE_S = 20.0  # of walking
CONFIGURE, ACTIVATE, DEACTIVATE = 1, 3, 4  # lifecycle_msgs/Transition
MOST_GROWTH_MB = 10.0  # of resident memory, from the second course on
SETTLE_S = 1.5  # after an event; whatever damps does so within a third of a second
FIRST_SEED = 9000


@dataclass(frozen=True)
class EnduranceConfig:
    """Walk through courses under faults, then survive random events; exit code 1 if it does not."""

    bundle: Annotated[str, tyro.conf.Positional] = "iap"
    """Folder of a policy bundle, or the name of a shipped one; it must see by colour alone."""
    minutes: Annotated[float, Range(0.0, 1e4)] = 30.0
    """Of courses."""
    events: Annotated[int, Range(0, 10**6)] = 200
    """Kill, stop, join and the like."""
    seed: Seed = 0
    """Draws the events."""
    json: Path | None = None
    """Write the figures there."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(parse(EnduranceConfig, "endurance")))


def report(config: EnduranceConfig) -> None:
    """Run both parts.

    Raises:
        UserError: something did not hold; the message says what.
    """
    check_numbers(config)
    if config.json is not None:
        require_writable(config.json)
    bundle = load_bundle(config.bundle)
    figures: dict[str, Any] = {"bundle": config.bundle}
    with tempfile.TemporaryDirectory() as folder:
        if config.minutes:
            figures["courses"] = walk_courses(bundle, 60.0 * config.minutes, Path(folder))
        if config.events:
            figures["events"] = survive(bundle, config.events, config.seed, Path(folder))
    if config.json is not None:
        write_atomic(config.json, json_bytes(figures))
    parts = (figures[part] for part in ("courses", "events") if part in figures)
    problems = [each for part in parts for each in part["wrong"]]
    if problems:
        raise UserError(f"{len(problems)} did not hold: {'; '.join(problems[:3])}")
    print("all held")


class Courses(Observer):
    """A controller, and a simulated robot for every course; hears the commands."""

    def __init__(self, bundle: Bundle, folder: Path) -> None:
        super().__init__(folder)
        self.heard: list[Heard] = []
        self.node.create_subscription(ros.JointState, ros.JOINT_COMMAND, self._hear, 100)
        command = ("-m", "pixelgait.robot.ros.run", str(bundle.folder))
        options = ("--auto-arm", "--no-autostart", "--ros-args")
        # Rendering a course on a busy machine holds the simulated robot up.
        silence = [f"timeout_s.{each}:=0.5" for each in ("joint_states", "imu.data")]
        parameters = [part for each in (*silence, "driver_timeout_s:=0.5") for part in ("-p", each)]
        self.controller = self.start(*command, *options, *parameters, output=self.output)

    def _hear(self, message: Any) -> None:
        position = np.array(message.position) if message.position else None
        # By stamp, not by arrival: what a busy observer misses must not look like a leap.
        self.heard.append(Heard(ros.seconds(message.header.stamp), position))

    def transition(self, number: int) -> bool:
        from lifecycle_msgs.srv import ChangeState

        request = ChangeState.Request()
        request.transition.id = number
        answer = self.call(ChangeState, "change_state", request, START_S)
        return answer is not None and bool(answer.success)

    def memory_mb(self) -> float:
        """Resident, of the controller."""
        assert self.controller is not None
        lines = Path(f"/proc/{self.controller.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def last_error(self) -> str:
        """The controller's."""
        lines = [line for line in self.said().splitlines() if "[ERROR]" in line]
        return lines[-1].split("]: ", 1)[-1] if lines else ""


def walk_courses(bundle: Bundle, seconds: float, folder: Path) -> dict[str, Any]:
    """One course after the other; what was seen of each."""
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
        said = observer.said()
        if observer.ended():
            wrong.append("the controller has ended")
        observer.close()
    memory = [course["memory_mb"] for course in courses]
    growth = max(memory[1:], default=0.0) - memory[min(1, len(memory) - 1)]
    for course in courses:
        if course["outside_rad"] > 1e-9 or course["step"] > 1.001:
            wrong.append(f"course {course['seed']}: commands outside limits")
        if not course["damped"]:
            wrong.append(f"course {course['seed']}: not damped at its end")
    if growth > MOST_GROWTH_MB:
        wrong.append(f"memory has grown by {growth:.0f} MB")
    if "Traceback" in said:
        wrong.append("a traceback was printed")
    ended = sum(course["ended"] != "walking" for course in courses)
    print(f"{len(courses)} courses, {ended} ended early; memory grew by {growth:.1f} MB")
    return {"courses": courses, "memory_growth_mb": growth, "wrong": wrong}


def walk_course(observer: Courses, bundle: Bundle, seed: int) -> dict[str, Any]:
    """A robot of its own under mixed faults; how it ended, and the controller's memory after it."""
    observer.heard.clear()
    observer.states.clear()
    arguments = ("--seed", str(seed), "--faults", "mixed")
    robot = observer.start("-m", "pixelgait.sim.node", *arguments)
    if observer.transition(ACTIVATE):
        observer.spin(COURSE_S, lambda: not observer.standing())
    ended = observer.states[-1] if observer.states else "never activated"
    observer.transition(DEACTIVATE)  # refused where a fault has done so
    observer.spin(0.3, lambda: False)
    robot.send_signal(signal.SIGINT)
    robot.wait()
    outside, jump = worst(observer.heard, bundle)
    ended = "walking" if ended.startswith(("walking", "ready")) else ended
    return {
        "seed": seed,
        "ended": ended,
        "says": "" if ended == "walking" else observer.last_error(),
        "outside_rad": outside,
        "step": round(jump, 3),
        "damped": bool(observer.heard) and observer.heard[-1].position is None,
        "memory_mb": round(observer.memory_mb(), 1),
    }


def survive(bundle: Bundle, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Random events; after each the robot walks on, is damped, or nobody commands it stiffly."""
    rng = random.Random(seed)
    trial = Trial(Case("events", lambda _: None), bundle, folder)
    found: Counter[str] = Counter()
    wrong: list[str] = []
    try:
        for number in tqdm(range(count), unit="event"):
            walk(trial, bundle)
            name = rng.choice(sorted(EVENTS))
            act, must_damp = EVENTS[name]
            before, since = len(trial.driver.heard), time.monotonic()
            act(trial, rng)
            trial.spin(SETTLE_S, lambda: False)
            problem = judge(trial, before, since, must_damp)
            found[name] += 1
            if problem:
                wrong.append(f"event {number}, {name}: {problem}")
                tqdm.write(wrong[-1])
    finally:
        if "Traceback" in trial.said():
            wrong.append("a traceback was printed")
        trial.close()
    print(", ".join(f"{name} {times}" for name, times in sorted(found.items())))
    return {"events": dict(found), "wrong": wrong}


def walk(trial: Trial, bundle: Bundle) -> None:
    """Whatever has happened: the robot walks again, if need be under a new controller."""
    from std_srvs.srv import Trigger

    trial.alter()
    for process in [each for each in trial.others if each is not trial.controller]:
        process.kill()
        process.wait()
        trial.others.remove(process)
    for _ in range(3):
        if trial.controller is None or trial.ended():
            trial.states.clear()
            command = ("-m", "pixelgait.robot.ros.run", str(bundle.folder), "--auto-arm")
            trial.controller = trial.start(*command, output=trial.output)
        else:
            for order in ("reset_emergency_stop", "arm", "stand_up"):
                trial.call(Trigger, order, Trigger.Request())
            trial.spin(5.0, lambda: trial.standing() or trial.ended())
            trial.call(Trigger, "walk", Trigger.Request())
        trial.spin(START_S, lambda: trial.walking() or trial.ended())
        trial.spin(0.5, trial.ended)
        if trial.walking() and not trial.ended():
            return
    raise UserError(f"it does not walk any more: {trial.states[-3:]}")


def judge(trial: Trial, before: int, since_s: float, must_damp: bool) -> str | None:
    """What is wrong after an event, as its driver heard it; None: it is safe."""
    outside, jump = worst(trial.driver.heard[before:], trial.bundle)
    if outside > 1e-9 or jump > 1.001:
        return f"commands {outside:.2g} rad outside limits, or steps {jump:.2f} of what is allowed"
    now = time.monotonic()
    newest = trial.driver.heard[-1]
    stiff = newest.position is not None and now - newest.time_s < 0.2
    if stiff and must_damp:
        return f"still stiff {now - since_s:.1f} s later"
    if trial.ended() and stiff:
        return "stiff without a controller"
    return None


def _signal(number: int) -> Callable[[Trial, random.Random], None]:
    return lambda trial, _: trial.signal(number)


def _stopped(trial: Trial, rng: random.Random) -> None:
    trial.signal(signal.SIGSTOP)
    trial.spin(rng.uniform(0.01, 1.0), lambda: False)
    trial.signal(signal.SIGCONT)


def _order(name: str) -> Callable[[Trial, random.Random], None]:
    def act(trial: Trial, _: random.Random) -> None:
        from std_srvs.srv import Trigger

        trial.call(Trigger, name, Trigger.Request())

    return act


def _silence(trial: Trial, rng: random.Random) -> None:
    trial.alter(joints=silent, imu=silent, camera=silent)
    trial.spin(rng.uniform(0.01, 0.5), lambda: False)
    trial.alter()


def _join(trial: Trial, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 3)):
        trial.start("-c", JOIN)


def _second(trial: Trial, _: random.Random) -> None:
    trial.start("-c", OTHER, ros.JOINT_COMMAND, "listen")
    trial.spin(5.0, trial.ended)


# What happens, and whether the robot must be damped, or left alone, after it.
EVENTS: dict[str, tuple[Callable[[Trial, random.Random], None], bool]] = {
    "kill -9": (_signal(signal.SIGKILL), True),
    "SIGINT": (_signal(signal.SIGINT), True),
    "SIGTERM": (_signal(signal.SIGTERM), True),
    "stopped for a while": (_stopped, False),
    "emergency stop": (_order("emergency_stop"), True),
    "lie down": (_order("lie_down"), False),
    "sensors silent for a while": (_silence, False),
    "participants join": (_join, False),
    "a second controller": (_second, True),
}


if __name__ == "__main__":
    main()
