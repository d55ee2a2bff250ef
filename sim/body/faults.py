"""Sensor faults and their schedule: frozen, late, lost or wrong values, at given or drawn times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.sim.world.seeds import Stream

# Kinds of faults:
#   frozen  the last values, stamped as new
#   late    values are `by` seconds old
#   lost    nothing arrives: the last values, with their old time stamp
#   nan     not a number
#   spike   single values are far off now and then
#   degrees joint angles and velocities in another unit
#   offset  one hip's angle has a constant error
#   stuck   one hip's encoder shows a constant angle and no velocity
#   black   a black image
#   mirrored  an image with left and right swapped, as some drivers do
FAULT_KINDS = {
    "joints": ("frozen", "late", "lost", "nan", "spike", "degrees", "offset", "stuck"),
    "imu": ("frozen", "late", "lost", "nan", "spike"),
    "camera": ("frozen", "late", "lost", "black", "mirrored"),
}
NOT_SURVIVABLE = ("nan", "degrees", "offset", "stuck")  # the robot must be damped
PIXELS = ("frozen", "black", "mirrored")  # camera faults that change pixels alone
LASTING = ("mirrored",)  # a camera that is mounted or configured wrongly
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

# All numbers are assumptions.
DRAWN = -1.0  # as a start [s]: drawn from the seed
FIRST_S, LAST_S = 1.0, 5.0  # range of a drawn start
MIXED_EVERY_S = 4.0  # period of the mixed schedule
MIXED_UNTIL_S = 120.0  # end of the part drawn in advance; the mixed schedule goes on
MIXED_STARTS_S = np.arange(FIRST_S, MIXED_UNTIL_S, MIXED_EVERY_S).tolist()
# The mixed schedule holds faults that a controller should survive: shorter than its time-outs.
MIXED_FOR_S = {"joints": 0.05, "imu": 0.05, "camera": 1.0}
MIXED_BY_S = {"joints": 0.03, "imu": 0.03, "camera": 0.3}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one sensor, for a while."""

    sensor: str
    kind: str
    start_s: float = DRAWN  # since the reset
    for_s: float = 1.0
    by_s: float = 0.1  # delay, of kind late

    @property
    def end_s(self) -> float:
        """End of the fault since the reset [s]."""
        return self.start_s + self.for_s

    def acts(self, now_s: float) -> bool:
        """Whether the fault is active at a time since the reset [s]."""
        return 0.0 <= round(now_s - self.start_s, 6) < self.for_s  # sums of steps are inexact


def parse_faults(texts: tuple[str, ...]) -> tuple[Fault, ...]:
    """Faults from the command line (`FAULTS_HELP`); the mixed schedule is one fault.

    Raises:
        UserError: if a text is malformed.
    """
    return tuple(_parse(text) for text in texts)


def require_camera(faults: tuple[Fault, ...], who: str) -> None:
    """Raises UserError if a fault changes only pixels, and `who` uses no images."""
    for fault in faults:
        if fault.sensor == "camera" and fault.kind in PIXELS:
            name = f"{fault.sensor}-{fault.kind}"
            raise UserError(f"--faults {name} has no effect: {who} uses no images")


def require_time(faults: tuple[Fault, ...], seconds: float) -> None:
    """Raises UserError if a fault always begins after the end of an episode [s]."""
    for fault in faults:
        first_s = FIRST_S if fault.start_s == DRAWN else fault.start_s
        if first_s >= seconds:
            name = MIXED if fault.sensor == MIXED else f"{fault.sensor}-{fault.kind}"
            raise UserError(
                f"--faults {name} begins after {first_s:g} s, an episode is over after {seconds:g}"
            )


def schedule(faults: tuple[Fault, ...], seed: int) -> list[Fault]:
    """An episode's faults with their times; the first two minutes of the mixed schedule."""
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
    """The mixed schedule after the end of `schedule`, endless and in the order of time."""
    if any(fault.sensor == MIXED for fault in faults):
        rng = Stream.FAULTS.rng(seed, 1)
        for start_s in count(MIXED_STARTS_S[-1] + MIXED_EVERY_S, MIXED_EVERY_S):
            yield _survivable(start_s, rng)


def _mixed(rng: np.random.Generator) -> list[Fault]:
    """Survivable faults of all sensors, one every few seconds."""
    return [_survivable(start_s, rng) for start_s in MIXED_STARTS_S]


def _survivable(after_s: float, rng: np.random.Generator) -> Fault:
    """Draw a survivable fault that is over `MIXED_EVERY_S` after a time [s]."""
    sensor, kind = SURVIVABLE[rng.integers(len(SURVIVABLE))]
    start_s = after_s + float(rng.uniform(0.0, MIXED_EVERY_S - MIXED_FOR_S["camera"]))
    return Fault(sensor, kind, start_s, MIXED_FOR_S[sensor], MIXED_BY_S[sensor])


def _parse(text: str) -> Fault:
    if not isinstance(text, str):  # from Python
        raise UserError(f"--faults: {text!r} is not a fault, expected {FAULTS_HELP}")
    name, _, rest = text.partition(":")
    sensor, _, kind = name.partition("-")
    if name == MIXED and not rest:
        return Fault(MIXED, MIXED)
    if kind not in FAULT_KINDS.get(sensor, ()):
        raise UserError(f"--faults: '{text}' is not a fault, expected {FAULTS_HELP}")
    times = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        try:
            name, seconds = TIMES[key], float(value)
        except (KeyError, ValueError):
            raise UserError(f"--faults: '{part}' in '{text}', expected {FAULTS_HELP}") from None
        if name in times:
            raise UserError(f"--faults: '{text}' has {key} twice")
        times[name] = seconds
    if not all(np.isfinite(value) and value >= 0.0 for value in times.values()):
        raise UserError(f"--faults: '{text}': at, for and by are seconds, each at least 0")
    if times.get("for_s") == 0.0:
        raise UserError(f"--faults: '{text}' is over before it begins: for is 0")
    if "by_s" in times and kind != "late":
        raise UserError(f"--faults: '{text}': by is the delay of kind late, {kind} has none")
    return Fault(sensor, kind, **times)
