"""Sensor faults, their schedule, and a wrapper of a simulated body that injects them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import cast

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.spec import LEGS, Array
from pixelgait.sim.body.interface import ChangedBody, SimulatedBody
from pixelgait.sim.body.sensors import DelayLine, History, nearer_quaternion
from pixelgait.sim.world.seeds import Stream

# Assumption: one reading in five has one value off by up to 1 (rad, rad/s).
SPIKE_CHANCE, SPIKE = 0.2, 1.0
OFFSET_RAD = 2.0  # assumption
AHEAD_S = 5.0  # of a fault's start: longer than its history in the mixed schedule
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


def with_faults(body: SimulatedBody, faults: tuple[Fault, ...]) -> SimulatedBody:
    """The body with faults in its sensor readings."""
    return cast(SimulatedBody, FaultyBody(body, faults)) if faults else body


class FaultyBody(ChangedBody):
    """A `SimulatedBody` that adds faults to the readings of another one."""

    def __init__(self, body: SimulatedBody, faults: tuple[Fault, ...]) -> None:
        super().__init__(body)
        self.faults = faults
        self._failures: list[Failure] = []
        self._coming: Iterator[Failure] = iter(())
        self._next: Failure | None = None  # in `_coming`

    def _begin(self, seed: int) -> None:
        """Draw the episode's faults."""
        planned = schedule(self.faults, seed)
        self._failures = [_failure(fault, seed, i) for i, fault in enumerate(planned)]
        later = enumerate(schedule_on(self.faults, seed), len(planned))
        self._coming = (_failure(fault, seed, i) for i, fault in later)
        self._next = next(self._coming, None)

    def ages(self) -> dict[str, float]:
        """Ages of lost sensors [s]."""
        now = self.body.time_s
        lost = [f.fault for f in self._failures if f.fault.kind == "lost"]
        sensors = dict.fromkeys(fault.sensor for fault in lost if fault.acts(now))
        return {sensor: now - _silent_since(sensor, lost, now) for sensor in sensors}

    def _changed(self, reading: Reading) -> Reading:
        now = self.body.time_s
        while self._next is not None and self._next.fault.start_s < now + AHEAD_S:
            # Otherwise an hour of the mixed schedule would mean a thousand faults in every reading.
            self._failures = [f for f in self._failures if now < f.fault.end_s + AHEAD_S]
            self._failures.append(self._next)
            self._next = next(self._coming, None)
        for failure in self._failures:
            reading = failure.degrade(reading, now)
        return reading


class FailingSensor:
    """Joint sensors or an IMU with one fault."""

    def __init__(self, fault: Fault, rng: np.random.Generator) -> None:
        self.fault, self.rng = fault, rng
        self._history = History(max(1.0, fault.by_s))
        self._last_s = 0.0  # time of the last reading before the fault
        self._orientation = np.zeros(4)  # newest in the history
        self._encoder: int | None = None  # index of the one that fails, of kinds offset and stuck

    def degrade(self, reading: Reading, now_s: float) -> Reading:
        """The reading with the fault, at a time since the reset [s]."""
        values = _values(reading, self.fault.sensor)
        acts = self.fault.acts(now_s)
        if self.fault.kind == "late" or not acts or self._history.empty:
            self._history.add(now_s, self._continuous(values))
        if not acts:
            self._last_s = reading.time_s
            return reading
        if (
            self.fault.kind == "lost" and self.fault.sensor == "joints"
        ):  # a reading has their time stamp
            reading = replace(reading, time_s=self._last_s)
        return _with(reading, self.fault.sensor, self._failed(values, now_s))

    def _continuous(self, values: Array) -> Array:
        """The values, with an IMU's orientation as a quaternion near to the one before."""
        if self.fault.sensor != "imu":
            return values
        self._orientation = nearer_quaternion(values[:4], self._orientation)
        return np.concatenate((self._orientation, values[4:]))

    def _failed(self, values: Array, now_s: float) -> Array:
        if self.fault.kind == "nan":
            return np.full_like(values, np.nan)
        if self.fault.kind == "late":
            return self._history.at(now_s - self.fault.by_s)
        if self.fault.kind == "spike":
            if self.rng.random() < SPIKE_CHANCE:
                values[self.rng.integers(values.size)] += self.rng.uniform(-SPIKE, SPIKE)
            return values
        if self.fault.kind == "degrees":
            return np.degrees(values)
        if self.fault.kind in ("offset", "stuck"):
            return self._failed_encoder(values, now_s)
        return self._history.at(now_s)  # frozen or lost: the last values

    def _failed_encoder(self, values: Array, now_s: float) -> Array:
        """One leg's hip encoder fails: the second of its three joints."""
        if self._encoder is None:
            self._encoder = 1 + 3 * int(self.rng.integers(len(LEGS)))
        if self.fault.kind == "offset":
            values[self._encoder] += OFFSET_RAD
            return values
        values[self._encoder] = self._history.at(now_s)[self._encoder]
        values[self._encoder + values.size // 2] = 0.0
        return values


class FailingCamera:
    """A camera with one fault, rendered on demand unless the fault must keep an image."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._late: DelayLine[Image] | None = (
            None  # its first image is the last one before the fault
        )

    def degrade(self, reading: Reading, now_s: float) -> Reading:
        """The reading with the faulty image, at a time since the reset [s]."""
        if not self.fault.acts(now_s):
            self._late = None
            return reading
        fault, capture = self.fault, reading.image
        if fault.kind == "black":
            return replace(reading, image=lambda: _black(capture()))
        if fault.kind == "mirrored":
            return replace(reading, image=lambda: _mirrored(capture()))
        if self._late is None:
            self._late = DelayLine(capture(), fault.by_s)
        elif fault.kind == "late":
            self._late.put(now_s, capture())
        image = self._late.at(now_s)
        if fault.kind == "frozen":
            image = replace(image, time_s=now_s)
        return replace(reading, image=lambda: image)


Failure = FailingSensor | FailingCamera


def _failure(fault: Fault, seed: int, number: int) -> Failure:
    """The failing sensor of a fault, by the fault's number in the episode."""
    if fault.sensor == "camera":
        return FailingCamera(fault)
    return FailingSensor(fault, Stream.FAILING_SENSOR.rng(seed, number))


def _silent_since(sensor: str, lost: list[Fault], now_s: float) -> float:
    """Time [s] since which a sensor is silent, over faults that overlap."""
    since_s = now_s
    while earlier := [
        fault.start_s
        for fault in lost
        if fault.sensor == sensor and fault.start_s < since_s and fault.acts(since_s)
    ]:
        since_s = min(earlier)
    return since_s


def _black(image: Image) -> Image:
    return replace(image, pixels=np.zeros_like(image.pixels))


def _mirrored(image: Image) -> Image:
    return replace(image, pixels=np.ascontiguousarray(np.flip(image.pixels, axis=1)))


def _values(reading: Reading, sensor: str) -> Array:
    """Measured values: joint angles and velocities, or orientation and angular velocity."""
    if sensor == "joints":
        return np.concatenate((reading.joint_angles, reading.joint_velocities))
    return np.concatenate((reading.orientation, reading.angular_velocity))


def _with(reading: Reading, sensor: str, values: Array) -> Reading:
    """The reading with other `_values` of a sensor."""
    if sensor == "joints":
        angles, velocities = np.split(values, 2)
        return replace(reading, joint_angles=angles, joint_velocities=velocities)
    return replace(reading, orientation=values[:4], angular_velocity=values[4:])
