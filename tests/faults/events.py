"""Endurance under random events (kill, stop, join ...): after each the robot must be safe."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import DRIVER_TIMEOUT_S
from pixelgait.robot.ros.common import ros2
from tests.faults.changes import silent
from tests.faults.driver import ReceivedCommand
from tests.faults.observer import JOIN, OTHER
from tests.faults.trial import START_S, Case, Trial, worst

SETTLE_S = 1.5  # after an event; damping takes a third of a second


def survive(bundle: Bundle, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Random events; after each the robot walks on, is damped, or receives no stiff command."""
    rng = random.Random(seed)
    trial = Trial(Case("events", lambda _: None), bundle, folder)
    found: Counter[str] = Counter()
    wrong: list[str] = []
    try:
        for number in tqdm(range(count), unit="event"):
            walk(trial, bundle)
            name = rng.choice(sorted(EVENTS))
            act, must_damp = EVENTS[name]
            before, since = len(trial.driver.received), time.monotonic()
            act(trial, rng)
            trial.spin(SETTLE_S, lambda: False)
            problem = judge(trial, before, since, time.monotonic(), must_damp)
            found[name] += 1
            if problem:
                wrong.append(f"event {number}, {name}: {problem}")
                tqdm.write(wrong[-1])
    finally:
        if "Traceback" in trial.printed():
            wrong.append("a traceback was printed")
        trial.close()
    print(", ".join(f"{name} {times}" for name, times in sorted(found.items())))
    return {"events": dict(found), "wrong": wrong}


def walk(trial: Trial, bundle: Bundle) -> None:
    """Make the robot walk again, under a new controller if needed."""
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


def judge(trial: Trial, before: int, since_s: float, now_s: float, must_damp: bool) -> str | None:
    """Problem after an event, from the received commands; None: the robot is safe."""
    outside, jump = worst(trial.driver.received[before:], trial.bundle)
    if outside > 1e-9 or jump > 1.001:
        return f"commands {outside:.2g} rad outside limits, or steps of {jump:.2f} times the limit"
    # A gap begins with the last command before the event.
    if gap_s := stiff_after(trial.driver.received[max(0, before - 1) :]):
        return f"stiff again after {gap_s:.2f} s without a command"
    newest = trial.driver.received[-1]
    stiff = newest.position is not None and now_s - newest.time_s < 0.2
    if stiff and must_damp:
        return f"still stiff {now_s - since_s:.1f} s later"
    if trial.ended() and stiff:
        return "stiff without a controller"
    return None


def stiff_after(received: Sequence[ReceivedCommand]) -> float | None:
    """Longest time without an applied command [s] after which a stiff robot was stiff again, if it
    exceeds the driver's time-out: the robot has fallen by then, and must be damped first.

    A driver drops commands that were in transit while their sender was stopped. The stamps must
    have the gap as well: a stalled observer receives all commands of the meantime late.
    """
    least_s = min((each.time_s - each.sent_s for each in received), default=0.0)  # clocks differ
    applied: ReceivedCommand | None = None
    for before, each in itertools.pairwise(received):
        if before.time_s - before.sent_s - least_s <= DRIVER_TIMEOUT_S:
            applied = before
        if applied is None or applied.position is None or each.position is None:
            continue
        gap_s = each.time_s - applied.time_s
        if min(gap_s, each.sent_s - before.sent_s) > DRIVER_TIMEOUT_S:
            return gap_s
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
    trial.start("-c", OTHER, ros2.JOINT_COMMAND, "listen")
    trial.spin(5.0, trial.ended)


# Action, and whether the robot must be damped, or receive nothing, after it.
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
