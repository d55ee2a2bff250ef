"""Table of false alarms in docs/robot/safety.md: undisturbed walks of shipped policies.

Run as `make alarms`. A walk is judged by all that judges a robot on board: supervisor, consistency
of joints and IMU, blocked robot, pictures against the turn of the body, leg odometry. What was
counted is kept in docs/alarms.json; more walks are added to it, and another policy begins anew.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docs.figures.results.figure_store import Figures, find_cell, keep_named, read_figures
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.robot.bundle import Bundle, load_bundle, shipped_names
from pixelgait.robot.cli.options import Episodes, parse
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.control.controller import latent_within
from pixelgait.robot.control.observation import COLOURS, DEPTH_RANGE_M, goal_vector
from pixelgait.robot.errors import run_command
from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.estimation.leg_odometry import SKIDS
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.rotation import heading, inverse, to_base_frame
from pixelgait.robot.runtime.camera import NEAREST_M
from pixelgait.robot.runtime.state_machine import Inputs, Operation, OperatorCommands, RobotState
from pixelgait.robot.safety.image_checks import DepthCheck, ImageMotionCheck
from pixelgait.robot.safety.sensor_age import FrozenImageCheck
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import camera_of
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.leg_odometry import EncoderNoise
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.options import WorkerOptions
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.seeds import VALIDATION, Stream

PART = "alarms"
DIFFICULTY = 0.5
PICTURE_STEPS = 7  # control steps between pictures that are judged: 15 Hz
COMMAND_STEPS = 150  # of a drawn velocity, for policies without a camera
STANDING_S = 2.0  # until it walks, not counted among the seconds
# A robot that was blocked indeed touched something in the second before, or covered less.
MOVES_M, MOVES_STEPS = 0.18, 100
BLOCKED = "blocked"
# A camera that touches an obstacle measures no depth: these alarms are true then.
AGAINST = ("depth shows nothing", "depth the image is frozen", "image the image is frozen")
# Feet that slide faster (rms) skid indeed: others slide by 0.2 to 0.3, see `SlidingFeet`.
SLIDING_M_PER_S, SLIDING_GAIN, BEARING_M, LATELY_STEPS = 0.33, 0.01, 0.005, 100
COUNTED = ("walks", "way_m", "fell", "blocked", "skidded")
NOTHING: Figures = {**dict.fromkeys(COUNTED, 0), "alarms": []}


@dataclass(frozen=True)
class AlarmsConfig(WorkerOptions):
    """Count the false alarms in randomised walks of all shipped policies, in both simulators."""

    page: Path = Path("docs/robot/safety.md")
    """Gets the table, between its two markers."""
    figures: Path = Path("docs/alarms.json")
    """Gets the counts, and every alarm: seed, time [s], words."""
    episodes: Episodes = 100
    """Walks of a policy in each simulator."""
    seconds: float = 8.0
    """Length of a walk."""
    policies: tuple[str, ...] = ()
    """Names of policies, or all that are shipped."""


class Walk(NamedTuple):
    """A job: one walk."""

    policy: str
    body: str
    seed: int
    seconds: float


class Walked(NamedTuple):
    """A walk's length, how it ended, and what was said, each once, with its time [s]."""

    seed: int
    seconds: float
    way_m: float
    fell: bool
    blocked: bool  # it was told so, or saw nothing, and touched something or hardly moved indeed
    skidded: bool  # likewise, and its feet slid
    alarms: list[tuple[float, str]]


def main() -> None:
    """Command line."""
    run_command(lambda: write_table(parse(AlarmsConfig, "make alarms")))


def write_table(config: AlarmsConfig) -> None:
    """Walk what is missing, and write the table.

    Raises:
        UserError: if the page has no markers, or a policy is not shipped.
    """
    require_markers(config.page, PART, PART)
    kept = read_figures(config.figures) if config.figures.exists() else []
    for name in config.policies or shipped_names():
        bundle = load_bundle(name)
        for body in BODIES:
            cell: Figures = {"policy": name, "body": body, "sha256": bundle.contract["sha256"]}
            known = find_cell(kept, cell) or NOTHING
            seeds = VALIDATION[known["walks"] : config.episodes]
            jobs = [Walk(name, body, seed, config.seconds) for seed in seeds]
            if not jobs:
                continue
            with config.open_pool(_start, None, bundle.spec) as pool:
                walks = list(pool.imap(walked, jobs, f"{name}, {body}"))
            keep_named(
                config.figures,
                kept,
                {"policy": name, "body": body},
                cell
                | {
                    "walks": known["walks"] + len(walks),
                    "way_m": round(known["way_m"] + sum(each.way_m for each in walks), 1),
                    "fell": known["fell"] + sum(each.fell for each in walks),
                    "blocked": known["blocked"] + sum(each.blocked for each in walks),
                    "skidded": known["skidded"] + sum(each.skidded for each in walks),
                    "alarms": known["alarms"]
                    + [[each.seed, *alarm] for each in walks for alarm in each.alarms],
                    **git_state(),
                },
            )
    write_between(config.page, PART, PART, table(kept))


def table(kept: Sequence[Figures]) -> list[str]:
    """Rows by policy: walks in both simulators, falls, what was truly so, alarms by kind."""
    lines = table_head(
        ["policy", "walks", "way [m]", "fell", "were blocked", "skidded", "false alarms"]
    )
    for name in sorted({each["policy"] for each in kept}):
        cells = [each for each in kept if each["policy"] == name]
        kinds = Counter(text for each in cells for _, _, text in each["alarms"])
        said = "; ".join(f"{count} x {text}" for text, count in kinds.most_common()) or "none"
        walks, way, *events = (sum(each[key] for each in cells) for key in COUNTED)
        numbers = f"{walks}", f"{way:.0f}", *map(str, events)
        lines.append(table_line([f"`{name}`", *numbers, said]))
    return lines


def _start(_: Any) -> None:
    """Workers make their robots when they need them."""


@cache
def _robot(policy: str, body: str) -> tuple[Bundle, SimulatedBody]:
    """A policy and a randomised robot of its own, in the scene of its training."""
    bundle = load_bundle(policy)
    training = (bundle.contract["provenance"].get("high_level") or {}).get("config", {})
    scene = str(training.get("scene", "flat")).split(",")[0]  # without scenes of others' files
    camera = camera_of(bundle)
    graded = make_scene(scene, DIFFICULTY)
    ranges = Randomisation()
    return bundle, make_body(body, bundle.spec, graded, camera=camera, randomisation=ranges)


def walked(walk: Walk) -> Walked:
    """Walk as on board, by the legs' odometry, until the time is over or the robot falls."""
    bundle, body = _robot(walk.policy, walk.body)
    reading, rng = body.reset(walk.seed), Stream.SENSORS.rng(walk.seed, 1)
    goal = _goal(body)
    operation = Operation(bundle.controller(), needs_goal="goal" in bundle.takes)
    sees = bool(bundle.contract["provenance"].get("high_level"))
    pictures = Pictures(bundle) if sees else None
    velocities = None if sees else _velocities(bundle, rng)
    noisy, places = EncoderNoise(rng), [body.pose()[0][:2]]
    sliding = SlidingFeet(bundle.spec)
    alarms: dict[str, float] = {}
    blocked = skidded = fell = False
    touched = -MOVES_STEPS  # the last step in which it touched something
    for step in range(round((walk.seconds + STANDING_S) / CONTROL_DT_S)):
        reading = replace(noisy(reading), odometry=None)
        latent = None if velocities is None else next(velocities)
        orders = OperatorCommands(True, RobotState.WALKING, goal_position=goal)
        result = operation.step(Inputs(reading, {}, orders, CONTROL_DT_S, latent))
        if fell := fallen(body):
            break
        way = math.dist(places[-1], places[-min(len(places), MOVES_STEPS)])
        slides = sliding.found(body) > SLIDING_M_PER_S
        touched = step if body.touching() is not None else touched
        stopped = way < MOVES_M or step - touched < MOVES_STEPS
        for said in _said(operation, pictures, reading, step):
            if said == BLOCKED and (blocked or stopped):  # the manoeuvre is told as well
                blocked = True
            elif said == SKIDS and slides:
                skidded = True
            elif said.startswith(AGAINST) and step - touched < MOVES_STEPS:
                blocked = True
            else:
                alarms.setdefault(said, round(step * CONTROL_DT_S, 2))
        if operation.supervisor.fault is not None:
            break
        body.apply(result.command)
        reading = body.read()
        places.append(body.pose()[0][:2])
    way_m = sum(math.dist(a, b) for a, b in zip(places[::10], places[10::10], strict=False))
    told = [(time_s, text) for text, time_s in alarms.items()]
    return Walked(walk.seed, len(places) * CONTROL_DT_S, way_m, fell, blocked, skidded, told)


class SlidingFeet:
    """Speed at which bearing feet slide, by simulated truth: those at the height of the lowest."""

    def __init__(self, spec: RobotSpec) -> None:
        self._kinematics = LegKinematics(spec)
        self._feet: Array | None = None  # where they were (4, 3) [m]
        self._squares = deque([0.0], maxlen=LATELY_STEPS)  # means, newest last

    def found(self, body: SimulatedBody) -> float:
        """The largest root mean square of a second, lately [m/s]; call it in every step."""
        position, orientation = body.pose()
        to_world = inverse(orientation)
        found = self._kinematics.feet(body.joint_angles().tolist())
        feet = np.array([to_base_frame(foot.position, to_world) for foot in found]) + position
        bearing = feet[:, 2] < feet[:, 2].min() + BEARING_M
        if self._feet is not None:
            moved = (feet - self._feet)[bearing, :2] / CONTROL_DT_S
            last, square = self._squares[-1], float((moved**2).sum(1).mean())
            self._squares.append(last + SLIDING_GAIN * (square - last))
        self._feet = feet
        return math.sqrt(max(self._squares))


def _said(
    operation: Operation, pictures: Pictures | None, reading: Reading, step: int
) -> Iterator[str]:
    """Messages of a step, without places and numbers, so that kinds can be counted."""
    if (fault := operation.supervisor.fault) is not None:
        yield fault
    if operation.state is RobotState.WALKING and operation.cause.startswith(BLOCKED):
        yield BLOCKED
    if operation.motion is not None and operation.motion.problem is not None:
        yield operation.motion.problem
    if pictures is not None:
        yield from pictures.said(reading, step)


class Pictures:
    """The node's checks of pictures, at a camera's rate."""

    def __init__(self, bundle: Bundle) -> None:
        spec, rows = bundle.spec, bundle.image_shape[0]
        self._motion = [ImageMotionCheck(spec.camera, rows) for _ in range(2)]
        self._frozen = FrozenImageCheck()
        self._depth = DepthCheck(bundle.trained_mounts, spec.stand_height_m, DEPTH_RANGE_M)
        self._time_s = -math.inf

    def said(self, reading: Reading, step: int) -> Iterator[str]:
        """Problems of the newest picture, if it is new."""
        for motion in self._motion:
            motion.turned(reading.time_s, reading.angular_velocity)
        if step % PICTURE_STEPS:
            return
        image = reading.image()
        if image.time_s == self._time_s:
            return
        self._time_s = image.time_s
        frozen = self._frozen.judge(image.pixels.tobytes(), reading.joint_angles)
        for i, (kind, picture, depth) in enumerate(_parts(image.pixels)):
            problems = (
                None if depth is None else self._depth.judge(depth),
                frozen,
                self._motion[i].judge(picture, image.time_s),
            )
            yield from (f"{kind} {each.split(' by ')[0]}" for each in problems if each)


def _parts(pixels: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.float32], Any]]:
    """Name, picture (H, W), and depth [m] of the colours and the depth of an image."""
    depth = pixels if pixels.ndim == 2 else None
    if depth is None:
        yield "image", pixels[..., 1].astype(np.float32) / np.float32(255.0), None
        if pixels.shape[2] > COLOURS:
            far = pixels[..., COLOURS] == 255
            metres = pixels[..., COLOURS] * np.float32(DEPTH_RANGE_M / 255.0)
            depth = np.where(far, np.float32(np.inf), metres)
    if depth is not None:
        yield "depth", np.asarray(1.0 / depth.clip(min=NEAREST_M), np.float32), depth


def _goal(body: SimulatedBody) -> tuple[float, float] | None:
    """The scene's goal position in the frame of the legs' odometry, which begins here."""
    if body.scene.goal_position is None:
        return None
    (x, y, _), orientation = body.pose()
    pose = np.array((x, y, heading(orientation)))
    away, bearing = goal_vector(body.scene.goal_position, pose).tolist()
    return away * math.cos(bearing), away * math.sin(bearing)


def _velocities(bundle: Bundle, rng: np.random.Generator) -> Iterator[Array]:
    """Latent commands, step by step; another drawn velocity every 1.5 s."""
    low, high = np.array(bundle.legs.command).T
    while True:
        latent = latent_within(bundle.legs.command, rng.uniform(low, high))
        for _ in range(COMMAND_STEPS):
            yield latent


if __name__ == "__main__":
    main()
