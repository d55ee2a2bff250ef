"""The trial of a walker: what it obeys, what it climbs, in both simulators, before a robot does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.bundle.low_level_graph import fed
from pixelgait.robot.control.controller import Controller, Decision, latent_of
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array, Ranges
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.uneven_ground import Flight
from pixelgait.sim.tasks.local_map import with_height_scan
from pixelgait.sim.tasks.task import fallen, planar_pose, planar_velocity
from pixelgait.sim.world.scene import Scene

SETTLE_S, MEASURE_S = 1.5, 2.5  # of every command; assumptions
CURVE = (0.6, 0.0, 0.8)
# Commands by name: ahead, left [m/s], yaw rate [rad/s]; clipped to the walker's ranges.
COMMANDS: dict[str, tuple[float, float, float]] = {
    "stand": (0.0, 0.0, 0.0),
    "ahead": (0.3, 0.0, 0.0),
    "ahead, faster": (0.6, 0.0, 0.0),
    "ahead, fast": (1.0, 0.0, 0.0),
    "back": (-0.3, 0.0, 0.0),
    "left": (0.0, 0.3, 0.0),
    "right": (0.0, -0.3, 0.0),
    "turn left": (0.0, 0.0, 0.8),
    "turn right": (0.0, 0.0, -0.8),
    "curve": CURVE,
}
MUST = ("stand", "ahead")  # a walker that falls here is described wrongly
LEAST_ANSWER = 0.5  # share of a command that counts as obeyed; assumption
CREEPS_M_PER_S = (0.1, 0.2, 0.3)  # tried in turn by a walker that does not turn on the spot
TURN_RAD_PER_S = 0.8
PUSH_M_PER_S, PUSHES, BETWEEN_PUSHES_S = 0.5, 4, 1.5
CLIMB_M_PER_S, CLIMB_S, CLIMBS = 0.6, 14.0, 3
RANDOMISED = 8  # robots of the ranges of training, each a walk ahead with a turn
KERBS_M = (0.03, 0.05, 0.08, 0.12)
STAIRS = (0.1,) * 5  # of 30 cm
PARITY_OF = ("ahead, faster", "curve", "turn left")  # commands whose steps are compared


@dataclass(frozen=True)
class Answer:
    """Response of a walker to one command, mean of `MEASURE_S`."""

    engine: str
    command: str
    asked: tuple[float, ...]  # ahead, left [m/s], yaw rate [rad/s]
    reached: tuple[float, ...]
    fell: str | None  # when, and why
    peak_torque_nm: float  # sampled every 10 ms, as are the next two
    peak_speed_rad_per_s: float
    power_w: float
    limited: float  # share of the steps whose targets the supervisor limited


@dataclass(frozen=True)
class Climb:
    """How often a walker got up."""

    engine: str
    obstacle: str
    passed: int
    of: int


@dataclass
class Trial:
    """Results of a walker's trial; `sensed` are its inputs in the walks that are compared."""

    answers: list[Answer] = field(default_factory=list)
    climbs: list[Climb] = field(default_factory=list)
    pushes_survived: dict[str, int] = field(default_factory=dict)  # by engine, of `PUSHES`
    least_turning_speed_m_per_s: float = 0.0
    turns_on_the_spot: bool = True
    randomised_falls: int = 0  # of `RANDOMISED`
    sensed: list[list[dict[str, Any]]] = field(default_factory=list)

    def contract(self) -> dict[str, Any]:
        """The results as they stand in a contract."""
        found = asdict(self)
        del found["sensed"]
        return found


def hold_trial(bundle: Bundle) -> Trial:
    """Walk a bundle's low level in both simulators.

    Raises:
        UserError: if it falls when told to stand or to walk slowly.
    """
    trial = Trial()
    for engine in BODIES:
        with closing(_body(bundle, engine, FlatGround())) as body:
            for name, asked in _within(bundle.legs.command).items():
                compared = engine == next(iter(BODIES)) and name in (*MUST, *PARITY_OF)
                seen: list[dict[str, Any]] | None = [] if compared else None
                answer = drive(bundle, body, engine, name, asked, seen)
                trial.answers.append(answer)
                if answer.fell and name in MUST:
                    raise UserError(_wrong(answer))
                if seen:
                    trial.sensed.append(seen)
            trial.pushes_survived[engine] = _pushed(bundle, body)
            if engine == next(iter(BODIES)):
                _find_turning_speed(bundle, body, engine, trial)
    trial.climbs = [each for engine in BODIES for each in _climbed(bundle, engine)]
    trial.randomised_falls = _randomised(bundle)
    return trial


def _body(
    bundle: Bundle, engine: str, scene: Scene, randomisation: Randomisation | None = None
) -> SimulatedBody:
    """A robot with what its low level observes."""
    body = make_body(engine, bundle.spec, scene, randomisation=randomisation)
    return with_height_scan(body, randomisation) if bundle.observes("height_scan") else body


def _randomised(bundle: Bundle) -> int:
    """Number of randomised robots that fall: masses, friction, motors, delays, sensors."""
    asked = _clipped(CURVE, bundle.legs.command)
    ranges, falls = Randomisation(), 0
    with closing(_body(bundle, "mujoco", FlatGround(), ranges)) as body:
        for seed in range(RANDOMISED):
            controller = controller_of(bundle)
            for _ in _steps(controller, body, asked, SETTLE_S + MEASURE_S, seed):
                if fallen(body) or controller.supervisor.fault:
                    falls += 1
                    break
    return falls


def _within(ranges: Ranges) -> dict[str, Array]:
    """Commands within a walker's ranges, without those that would repeat another."""
    found: dict[str, Array] = {}
    for name, asked in COMMANDS.items():
        command = _clipped(asked, ranges)
        if not any(np.allclose(command, other) for other in found.values()):
            found[name] = command
    return found


def _wrong(answer: Answer) -> str:
    asked = ", ".join(f"{value:g}" for value in answer.asked)
    return (
        f"told ({asked}) in {answer.engine} the walker {answer.fell}: are order of joints, scales, "
        "gains and pose those of its training?"
    )


def controller_of(bundle: Bundle, sensed: list[dict[str, Any]] | None = None) -> Controller:
    """A controller of a bundle's low level, which may note what that is fed."""
    inputs = bundle.contract["graphs"]["low_level.onnx"]["inputs"]

    def noted(latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        if sensed is not None:
            sensed.append(fed(inputs, bundle.legs, latent, reading, carried))
        return bundle.low_level(latent, reading, carried)

    guard = Supervisor(bundle.spec, legs=bundle.legs)
    return Controller(_no_high_level, noted, guard, odometry=bundle.odometry())


def _no_high_level(*_: object) -> Decision:
    raise AssertionError("a trial has no high level")


def drive(
    bundle: Bundle,
    body: SimulatedBody,
    engine: str,
    name: str,
    asked: Array,
    sensed: list[dict[str, Any]] | None = None,
) -> Answer:
    """One command from a stand; its inputs go to `sensed`."""
    controller, begin = controller_of(bundle, sensed), round(SETTLE_S / CONTROL_DT_S)
    velocities, loads, fell, pose = [], [], None, np.zeros(3)
    for step in _steps(controller, body, asked, SETTLE_S + MEASURE_S):
        if step >= begin:
            loads.append(body.loads())
            velocities.append(planar_velocity(pose, planar_pose(body)))
        pose = planar_pose(body)
        if fallen(body) or controller.supervisor.fault:
            fell = f"{controller.supervisor.fault or 'falls'} after {step * CONTROL_DT_S:.1f} s"
            break
    torques, speeds = (np.array([each[i] for each in loads]).reshape(-1, 12) for i in range(2))
    reached = np.mean(velocities, axis=0).tolist() if velocities else (0.0, 0.0, 0.0)
    return Answer(
        engine,
        name,
        tuple(float(value) for value in asked),
        tuple(round(value, 3) for value in reached),
        fell,
        round(float(np.abs(torques).max(initial=0.0)), 1),
        round(float(np.abs(speeds).max(initial=0.0)), 1),
        round(float(np.abs(torques * speeds).sum(1).mean()) if loads else 0.0, 0),
        round(controller.limited_share, 3),
    )


def _steps(
    controller: Controller,
    body: SimulatedBody,
    asked: Array,
    seconds: float,
    seed: int = 0,
    before: Callable[[int], None] = lambda _: None,
) -> Iterator[int]:
    """Control steps under a command, from a reset."""
    reading, latent = body.reset(seed), latent_of(asked)
    controller.reset()
    for step in range(round(seconds / CONTROL_DT_S)):
        before(step)
        body.apply(controller.follow(latent, reading).command)
        reading = body.read()
        yield step


def _pushed(bundle: Bundle, body: SimulatedBody) -> int:
    """Number of pushes from four sides that a walking robot survives."""
    controller, every = controller_of(bundle), round(BETWEEN_PUSHES_S / CONTROL_DT_S)

    def push(step: int) -> None:
        if step and step % every == 0:
            side = step // every * np.pi / 2.0
            body.push(PUSH_M_PER_S * np.array((np.cos(side), np.sin(side), 0.0)))

    asked = _clipped((CLIMB_M_PER_S, 0.0, 0.0), bundle.legs.command)
    seconds, survived = (PUSHES + 1) * BETWEEN_PUSHES_S, 0
    for step in _steps(controller, body, asked, seconds, before=push):
        if fallen(body) or controller.supervisor.fault:
            return max(0, step // every - 1)
        survived = step // every
    return min(PUSHES, survived)


def _find_turning_speed(bundle: Bundle, body: SimulatedBody, engine: str, trial: Trial) -> None:
    """Find the least speed ahead with which a walker turns, if it does not on the spot."""
    turns = [each for each in trial.answers if each.command.startswith("turn")]
    trial.turns_on_the_spot = bool(turns) and all(_obeys(each) for each in turns)
    if trial.turns_on_the_spot or not turns:
        return
    for speed in CREEPS_M_PER_S:
        if speed > bundle.legs.command[0][1]:
            return
        answers = [
            drive(bundle, body, engine, f"{name} at {speed:g} m/s", asked)
            for name, asked in _turns_at(speed, bundle.legs.command).items()
        ]
        trial.answers += answers
        if all(_obeys(each) for each in answers):
            trial.least_turning_speed_m_per_s = speed
            return


def _turns_at(speed: float, ranges: Ranges) -> dict[str, Array]:
    """Turns to both sides within a walker's ranges, with a speed ahead [m/s]."""
    sides = {"turn left": TURN_RAD_PER_S, "turn right": -TURN_RAD_PER_S}
    found = {name: _clipped((speed, 0.0, r), ranges) for name, r in sides.items()}
    return {name: asked for name, asked in found.items() if asked[2]}


def _clipped(asked: Sequence[float] | Array, ranges: Ranges) -> Array:
    """A command (3,) within a walker's ranges."""
    return np.asarray(np.clip(asked, *np.array(ranges).T))


def _obeys(answer: Answer) -> bool:
    turned, asked = answer.reached[2], answer.asked[2]
    return answer.fell is None and turned * np.sign(asked) >= LEAST_ANSWER * abs(asked)


def _climbed(bundle: Bundle, engine: str) -> Iterator[Climb]:
    """Kerbs up to the first that is too high, then stairs."""
    for rise in KERBS_M:
        yield (kerb := climb(bundle, engine, f"kerb of {100 * rise:.0f} cm", [rise]))
        if not kerb.passed:
            break
    yield climb(bundle, engine, "5 stairs of 10 x 30 cm", STAIRS)


def climb(bundle: Bundle, engine: str, name: str, rises_m: Sequence[float]) -> Climb:
    """Walk up, from several starts."""
    scene = Flight(rises_m)
    asked = _clipped((CLIMB_M_PER_S, 0.0, 0.0), bundle.legs.command)
    passed = 0
    with closing(_body(bundle, engine, scene)) as body:
        for seed in range(CLIMBS):
            controller = controller_of(bundle)
            for _ in _steps(controller, body, asked, CLIMB_S, seed):
                if fallen(body) or controller.supervisor.fault:
                    break
                if body.pose().position[0] > scene.top_m + 1.0:
                    passed += 1
                    break
    return Climb(engine, name, passed, CLIMBS)
