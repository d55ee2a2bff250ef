"""Random events, kill, stop, join and the like: after each the robot must be safe."""

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
from tests.faults.driver import Heard
from tests.faults.observer import JOIN, OTHER
from tests.faults.trial import START_S, Case, Trial, worst

SETTLE_S = 1.5  # after an event; whatever damps does so within a third of a second


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
            problem = judge(trial, before, since, time.monotonic(), must_damp)
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


def judge(trial: Trial, before: int, since_s: float, now_s: float, must_damp: bool) -> str | None:
    """What is wrong after an event, as its driver heard it by now; None: it is safe."""
    outside, jump = worst(trial.driver.heard[before:], trial.bundle)
    if outside > 1e-9 or jump > 1.001:
        return f"commands {outside:.2g} rad outside limits, or steps {jump:.2f} of what is allowed"
    # Before it there is what came before the event: a gap begins there.
    if gap_s := stiff_after(trial.driver.heard[max(0, before - 1) :]):
        return f"stiff again after {gap_s:.2f} s without a command"
    newest = trial.driver.heard[-1]
    stiff = newest.position is not None and now_s - newest.time_s < 0.2
    if stiff and must_damp:
        return f"still stiff {now_s - since_s:.1f} s later"
    if trial.ended() and stiff:
        return "stiff without a controller"
    return None


def stiff_after(heard: Sequence[Heard]) -> float | None:
    """After how long without a command that a driver obeys [s] a stiff robot was stiff again, if
    that is longer than a driver waits: the robot has fallen by then, and must be damped first.

    What was under way when its sender was stopped is too old to be obeyed. Stamps must have the gap
    as well: an observer that is held up itself hears all that was said meanwhile, late.
    """
    least_s = min((each.time_s - each.sent_s for each in heard), default=0.0)  # clocks differ
    motors_enabled: Heard | None = None
    for before, each in itertools.pairwise(heard):
        if before.time_s - before.sent_s - least_s <= DRIVER_TIMEOUT_S:
            motors_enabled = before
        if motors_enabled is None or motors_enabled.position is None or each.position is None:
            continue
        gap_s = each.time_s - motors_enabled.time_s
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
