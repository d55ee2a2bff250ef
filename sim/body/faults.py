"""Faults: sensors that freeze, lag, fall silent or lie, at set times or drawn from the seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.sim.world.seeds import Stream

# What can happen to which sensor:
#   frozen  the last values again and again, stamped as new
#   late    values are `by` seconds old
#   lost    nothing arrives: the last values, with their old stamp
#   nan     not a number
#   spike   now and then one value is far off
#   degrees joint angles and velocities in another unit
#   offset  one hip's angle is off, always by as much
#   stuck   one hip's encoder shows the same angle again and again, and no velocity
#   black   an image without light
#   mirrored  left and right of the image change places, as some drivers have it
FAULT_KINDS = {
    "joints": ("frozen", "late", "lost", "nan", "spike", "degrees", "offset", "stuck"),
    "imu": ("frozen", "late", "lost", "nan", "spike"),
    "camera": ("frozen", "late", "lost", "black", "mirrored"),
}
NOT_SURVIVABLE = ("nan", "degrees", "offset", "stuck")  # a robot must be damped
PIXELS = ("frozen", "black", "mirrored")  # of a camera: other pixels, and nothing else
LASTING = ("mirrored",)  # no passing fault, but a camera that is mounted or set up wrongly
SURVIVABLE = [
    (sensor, kind)
    for sensor, kinds in FAULT_KINDS.items()
    for kind in kinds
    if kind not in (*NOT_SURVIVABLE, *LASTING)
]
MIXED = "mixed"
TIMES = {"at": "start_s", "for": "for_s", "by": "by_s"}
FAULTS_HELP = (
    "SENSOR-KIND[:at=S,for=S,by=S], as in camera-frozen:at=2,for=1, or mixed; sensors and kinds: "
    + "; ".join(f"{sensor}-{'|'.join(kinds)}" for sensor, kinds in FAULT_KINDS.items())
)

# All numbers are ours.
DRAWN = -1.0  # instead of a start [s]: one drawn from the seed
FIRST_S, LAST_S = 1.0, 5.0  # a fault without `at` begins in between, drawn from the seed
MIXED_EVERY_S = 4.0  # one fault of the mixed schedule begins
MIXED_UNTIL_S = 120.0  # what is drawn with all other faults; the mixed schedule goes on after it
MIXED_STARTS_S = np.arange(FIRST_S, MIXED_UNTIL_S, MIXED_EVERY_S).tolist()
# The mixed schedule holds what a controller should survive: shorter than its watchdogs' patience.
MIXED_FOR_S = {"joints": 0.05, "imu": 0.05, "camera": 1.0}
MIXED_BY_S = {"joints": 0.03, "imu": 0.03, "camera": 0.3}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong for a while."""

    sensor: str
    kind: str
    start_s: float = DRAWN  # since the reset
    for_s: float = 1.0
    by_s: float = 0.1  # how late, of kind late

    @property
    def end_s(self) -> float:
        """When it is over, since the reset [s]."""
        return self.start_s + self.for_s

    def acts(self, now_s: float) -> bool:
        """Whether it does at this time since the reset [s]."""
        return 0.0 <= round(now_s - self.start_s, 6) < self.for_s  # times of steps add up inexactly


def parse_faults(texts: tuple[str, ...]) -> tuple[Fault, ...]:
    """Faults from their spelling on the command line (`FAULTS_HELP`); the mixed schedule as such.

    Raises:
        UserError: a text is not of that form.
    """
    return tuple(_parse(text) for text in texts)


def require_camera(faults: tuple[Fault, ...], who: str) -> None:
    """Raises UserError if a fault changes only pixels, and `who` uses no images."""
    for fault in faults:
        if fault.sensor == "camera" and fault.kind in PIXELS:
            name = f"{fault.sensor}-{fault.kind}"
            raise UserError(f"--faults {name} has no effect: {who} uses no images")


def require_time(faults: tuple[Fault, ...], seconds: float) -> None:
    """Raises UserError if a fault begins after an episode that lasts so long, whatever is drawn."""
    for fault in faults:
        first_s = FIRST_S if fault.start_s == DRAWN else fault.start_s
        if first_s >= seconds:
            name = MIXED if fault.sensor == MIXED else f"{fault.sensor}-{fault.kind}"
            raise UserError(
                f"--faults {name} begins after {first_s:g} s, an episode is over after {seconds:g}"
            )


def schedule(faults: tuple[Fault, ...], seed: int) -> list[Fault]:
    """An episode's faults with their times, of the mixed schedule the first two minutes."""
    rng = Stream.FAULTS.rng(seed)
    planned = []
    for fault in faults:
        if fault.sensor == MIXED:
            planned += _mixed(rng)
        elif fault.start_s == DRAWN:
            planned.append(replace(fault, start_s=float(rng.uniform(FIRST_S, LAST_S))))
        else:
            planned.append(fault)
    return planned


def schedule_on(faults: tuple[Fault, ...], seed: int) -> Iterator[Fault]:
    """The mixed schedule after `schedule`, in the order of time: without an end."""
    if any(fault.sensor == MIXED for fault in faults):
        rng = Stream.FAULTS.rng(seed, 1)
        for start_s in count(MIXED_STARTS_S[-1] + MIXED_EVERY_S, MIXED_EVERY_S):
            yield _survivable(start_s, rng)


def _mixed(rng: np.random.Generator) -> list[Fault]:
    """Survivable faults of all sensors, one every few seconds."""
    return [_survivable(start_s, rng) for start_s in MIXED_STARTS_S]


def _survivable(after_s: float, rng: np.random.Generator) -> Fault:
    """One of them, that is over `MIXED_EVERY_S` later."""
    sensor, kind = SURVIVABLE[rng.integers(len(SURVIVABLE))]
    start_s = after_s + float(rng.uniform(0.0, MIXED_EVERY_S - MIXED_FOR_S["camera"]))
    return Fault(sensor, kind, start_s, MIXED_FOR_S[sensor], MIXED_BY_S[sensor])


def _parse(text: str) -> Fault:
    if not isinstance(text, str):  # as Python may have it
        raise UserError(f"--faults: {text!r} is no fault, expected {FAULTS_HELP}")
    name, _, rest = text.partition(":")
    sensor, _, kind = name.partition("-")
    if name == MIXED and not rest:
        return Fault(MIXED, MIXED)
    if kind not in FAULT_KINDS.get(sensor, ()):
        raise UserError(f"--faults: '{text}' is no fault, expected {FAULTS_HELP}")
    times = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        try:
            name, seconds = TIMES[key], float(value)
        except (KeyError, ValueError):
            raise UserError(f"--faults: '{part}' in '{text}', expected {FAULTS_HELP}") from None
        if name in times:
            raise UserError(f"--faults: '{text}' says {key} twice")
        times[name] = seconds
    if not all(np.isfinite(value) and value >= 0.0 for value in times.values()):
        raise UserError(f"--faults: '{text}': at, for and by are seconds, each at least 0")
    if times.get("for_s") == 0.0:
        raise UserError(f"--faults: '{text}' is over before it begins: for is 0")
    if "by_s" in times and kind != "late":
        raise UserError(f"--faults: '{text}': by is how late, which {kind} is not")
    return Fault(sensor, kind, **times)
