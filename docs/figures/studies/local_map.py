"""Local map against the truth of simulated scenes: heights, obstacles, edges, cost; real depth.

Run as `make map`; as `python -m docs.figures.studies.local_map --depth FOLDER` for real depth too.
The 21 walks take about a minute each at 424 x 240 on one core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.export.markdown_sections import write_between
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import parse
from pixelgait.robot.control.controller import latent_for
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.interface import Reading
from pixelgait.robot.mapping.depth_view import Lens, depth_view
from pixelgait.robot.mapping.local_map import (
    AHEAD_M,
    ASIDE_M,
    CELL_M,
    COLUMNS,
    ROWS,
    STEP_M,
    LocalMap,
    Surroundings,
)
from pixelgait.robot.mapping.mapper import Mapper
from pixelgait.robot.mapping.picture import drawn
from pixelgait.robot.rotation import heading
from pixelgait.robot.runtime.latency import machine
from pixelgait.robot.spec import A1, Array, CameraMount
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.local_map import SimulatedMap
from pixelgait.sim.world.ground import make_ground
from pixelgait.sim.world.obstacles import obstacle_boxes
from pixelgait.sim.world.scene import ORIGIN, Box, Layout, Plane, Pose, Scene

TARGET = "map"
PAGE, PICTURE = Path("docs/robot/map.md"), Path("docs/robot/map.png")
HEIGHT, WIDTH = 240, 424
SPEED = 0.4
EDGE_M = 2.225  # of a kerb, the middle of a cell
SETTLED_S = 2.0  # a map begins blind
GREY = (0.6, 0.6, 0.6)
SAFE_M = 0.1  # beside the truth: what is so near to an edge is not judged

# Errors of a D435 at 424 x 240: the middle of `Randomisation`'s ranges.
STEREO = {
    "depth_error_per_m": 0.005,
    "depth_holes": 0.02,
    "depth_baseline_m": 0.05,
    "depth_step_per_m": 0.0015,
    "depth_nearest_m": 0.15,
    "depth_patches": 0.02,
    "depth_flying": 0.3,
    "depth_range_m": 6.0,
}
LATE = {"camera_latency_s": 0.08}
DRIFT = {"odometry_scale": 1.02, "odometry_turn_rad_per_m": 0.005}
MOUNT = {"camera_pitch_rad": 0.03, "camera_roll_rad": 0.02, "imu_bias_rad": -0.02}
NOISE = {"imu_noise_rad": 0.005, "rate_noise_rad_per_s": 0.05, "encoder_bias_rad": 0.01}
CONDITIONS: dict[str, dict[str, float]] = {
    "ideal": {},
    "80 ms late": LATE,
    "odometry drifts by 2 %": DRIFT,
    "depth of a stereo camera": STEREO,
    "mount off by 2 degrees": MOUNT,
    "all of these, noisy joints and IMU": {**LATE, **DRIFT, **STEREO, **MOUNT, **NOISE},
}


def exactly(values: dict[str, float]) -> Randomisation:
    """A randomisation that always draws the same robot."""
    sample = replace(Sample(), **values)
    ranges = {each.name: (getattr(sample, each.name),) * 2 for each in fields(Randomisation)}
    return Randomisation(**ranges)


@dataclass
class Course(Scene):
    """Level ground with boxes, or with a kerb across the way."""

    boxes: Sequence[tuple[float, float, float]] = ()  # x, y, height
    kerb: tuple[float, float] | None = None  # x, height
    name: str = "course"
    goal_m: float = math.inf

    def __post_init__(self) -> None:
        shapes = [Box(Pose(x, y, h / 2), (0.1, 0.1, h / 2), GREY) for x, y, h in self.boxes]
        if self.kerb is not None:
            x, height = self.kerb
            shapes.append(Box(Pose(x + 5.0, 0.0, height / 2), (5.0, 5.0, height / 2), GREY))
            self._ground = make_ground(
                [
                    (x, x + 10.0, -5.0, 5.0, height),
                    (-math.inf, math.inf, -math.inf, math.inf, 0.0),
                ]
            )
        self.fixed = (Plane(), *shapes)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN)


BOXES = [(1.8 + 0.6 * i, 0.45 * (-1) ** i, (0.05, 0.1, 0.2)[i % 3]) for i in range(9)]


@dataclass(frozen=True)
class Moment:
    """The map and the truth at one time."""

    around: Surroundings
    map: SimulatedMap
    body: SimulatedBody

    def world(self, points: Array) -> Array:
        """Points (n, 2) of the true heading frame in the world."""
        (x, y, _), orientation = self.body.pose()
        return Pose(x, y, 0.0, heading(orientation)).points(points)


def walk(
    scene: Scene,
    values: dict[str, float],
    seconds: float,
    seed: int,
    wanted: Callable[[float], tuple[float, float]] = lambda _: (SPEED, 0.0),
    size: tuple[int, int] = (HEIGHT, WIDTH),
) -> Generator[Moment, None, None]:
    """Walk under speeds [m/s] and yaw rates [rad/s] by time; the moments after new images."""
    bundle = load_bundle("walk")
    randomisation = exactly(values)
    camera = Camera(bundle.spec.camera, size[1], size[0], "depth")
    body = make_body("pybullet", bundle.spec, scene, camera=camera, randomisation=randomisation)
    try:
        reading = body.reset(seed)
        controller, local_map = bundle.controller(), SimulatedMap(body, randomisation)
        controller.reset()
        seen: Surroundings | None = None
        while reading.time_s < seconds:
            latent = latent_for(*wanted(reading.time_s))
            local_map(reading, latent)
            newest = local_map.mapper.around
            if newest is not None and newest is not seen:
                seen = newest
                yield Moment(newest, local_map, body)
            body.apply(controller.follow(latent, reading).command)
            reading = body.read()
    finally:
        body.close()


def cells() -> Array:
    """Middles of the map's cells (ROWS, COLUMNS, 2), ahead and left [m]."""
    ahead = AHEAD_M - (np.arange(ROWS) + 0.5) * CELL_M
    left = ASIDE_M - (np.arange(COLUMNS) + 0.5) * CELL_M
    return np.stack(np.meshgrid(ahead, left, indexing="ij"), -1)


CELLS = cells()
SCAN = np.stack(
    np.meshgrid(np.linspace(-0.8, 0.8, 17), np.linspace(-0.5, 0.5, 11), indexing="ij"), -1
).reshape(-1, 2)  # Isaac Lab's rough policies
UNDER = (np.abs(SCAN[:, 0]) < 0.25) & (np.abs(SCAN[:, 1]) < 0.15)


def away_m(places: Array, scene: Scene, layout: Layout) -> Array:
    """Distance (n,) [m] of places (n, 2) from the nearest obstacle; inside 0."""
    nearest = np.full(len(places), np.inf)
    for box, pose in obstacle_boxes(scene, layout, 0.55):
        local = Pose(0.0, 0.0, 0.0, -pose.yaw).points(places - np.array((pose.x, pose.y)))
        out = np.maximum(np.abs(local) - box.half_m[:2], 0.0)
        nearest = np.minimum(nearest, np.hypot(out[:, 0], out[:, 1]))
    return nearest


def rises(places: Array, scene: Scene) -> NDArray[np.bool_]:
    """Whether the ground changes by more than 4 cm within `SAFE_M` of places (n, 2)."""
    angles = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
    ring = SAFE_M * 1.5 * np.stack((np.cos(angles), np.sin(angles)), -1)
    heights = np.array([scene.grounds_m(places + each) for each in ring])
    return np.asarray(np.ptp(np.nan_to_num(heights, nan=-1.0), axis=0) > 0.04)


@dataclass
class Tally:
    """Errors [m] and counts of all moments."""

    under: list[Array] = field(default_factory=list)
    scan: list[Array] = field(default_factory=list)
    known_scan: list[float] = field(default_factory=list)
    known: list[float] = field(default_factory=list)
    false: float = 0.0  # cells
    seen_m2: float = 0.0

    def add(self, moment: Moment) -> None:
        """Compare a moment with the truth."""
        body, around = moment.body, moment.around
        places = moment.world(SCAN)
        clear = away_m(places, body.scene, body.layout) > SAFE_M
        clear &= ~rises(places, body.scene)
        truth = body.pose().position[2] - body.scene.grounds_m(places)
        error = moment.map.mapper.height_scan(SCAN) - truth
        self.scan.append(error[clear])
        self.under.append(error[clear & UNDER])
        row = ((AHEAD_M - SCAN[:, 0]) / CELL_M).astype(int)
        column = ((ASIDE_M - SCAN[:, 1]) / CELL_M).astype(int)
        self.known_scan.append(float(np.isfinite(around.ground[row, column]).mean()))
        seen = np.isfinite(around.ground)
        self.known.append(float(seen.mean()))
        found = CELLS[around.obstacles()]
        if len(found):
            at = moment.world(found)
            wrong = (away_m(at, body.scene, body.layout) > SAFE_M + CELL_M) & ~rises(at, body.scene)
            self.false += float(wrong.sum())
        self.seen_m2 += float(seen.sum()) * CELL_M**2

    def row(self) -> str:
        """Cells of a table."""

        def millimetres(errors: list[Array]) -> str:
            every = 1e3 * np.abs(np.concatenate(errors))
            return f"{np.median(every):.0f} / {np.percentile(every, 95):.0f}"

        shares = f"{100 * np.mean(self.known_scan):.0f} / {100 * np.mean(self.known):.0f}"
        per_m2 = self.false / self.seen_m2
        return f"{millimetres(self.under)} | {millimetres(self.scan)} | {shares} | {per_m2:.2f}"


def turning(time_s: float) -> tuple[float, float]:
    """Straight, and bends to both sides."""
    return SPEED, (0.0, 0.5, 0.0, -0.5)[int(time_s / 2.0) % 4]


def heights_table(seconds: float) -> list[str]:
    """Rows: conditions. Walks on rough ground and between boxes."""
    rows = [
        "| | ground under the robot | 187 samples round it | known: samples / map | false ones |",
        "|---|---|---|---|---|",
    ]
    for name, values in CONDITIONS.items():
        tally = Tally()
        for scene in (make_scene("rough", 0.5), Course(BOXES)):
            for moment in walk(scene, values, seconds, 9000, turning):
                if moment.around.time_s > SETTLED_S:
                    tally.add(moment)
        rows.append(f"| {name} | {tally.row()} |")
        print(rows[-1], flush=True)
    return rows


def boxes_table() -> list[str]:
    """Rows: conditions; the distances at which boxes beside the way are found."""
    heights = sorted({height for _, _, height in BOXES})
    rows = ["| | " + " | ".join(f"{100 * h:.0f} cm" for h in heights) + " |", "|---|---|---|---|"]
    for name in ("ideal", "80 ms late", "all of these, noisy joints and IMU"):
        found: dict[int, float] = {}
        beside: dict[int, bool] = {}
        for moment in walk(Course(BOXES), CONDITIONS[name], 14.0, 9001):
            _look_for_boxes(moment, found, beside)
        shown = []
        for height in heights:
            which = [i for i, box in enumerate(BOXES) if box[2] == height and i in beside]
            met = [f"{found[i]:.1f}" if i in found else "-" for i in which]
            kept = sum(beside[i] for i in which)
            shown.append(f"{', '.join(met)} m; {kept} of {len(which)} kept")
        rows.append(f"| {name} | {' | '.join(shown)} |")
        print(rows[-1], flush=True)
    return rows


def _look_for_boxes(moment: Moment, found: dict[int, float], beside: dict[int, bool]) -> None:
    """Note the distance ahead of the camera at which a box is first shown, and if beside it is."""
    around, (x, y, _) = moment.around, moment.body.pose().position
    places = moment.world(CELLS.reshape(-1, 2))
    for i, (box_x, box_y, height) in enumerate(BOXES):
        inside = (np.abs(places - np.array((box_x, box_y))) < 0.1).all(axis=1)
        tops = around.top.ravel()[inside]
        shown = np.count_nonzero(tops > height / 2.0) >= 3
        ahead_m = box_x - 0.1 - x - A1.camera.position_m[0]
        if shown and i not in found and ahead_m > 0.0:
            found[i] = ahead_m
        if abs(box_x - x) < 0.1 and abs(box_y - y) < 1.0:
            beside[i] = bool(shown)


def kerbs_table() -> list[str]:
    """Rows: kerbs; where their edges are in the map, 1 and 0.5 m ahead of the camera."""
    rows = ["| | 1 m ahead | 0.5 m ahead |", "|---|---|---|"]
    lanes = np.arange(-0.3, 0.31, 0.05)
    for height in (0.05, 0.12):
        for name in ("ideal", "all of these, noisy joints and IMU"):
            edges: dict[float, str] = {}
            for moment in walk(Course(kerb=(EDGE_M, height)), CONDITIONS[name], 6.0, 9002):
                ahead_m = EDGE_M - moment.body.pose().position[0] - A1.camera.position_m[0]
                for wanted_m in (1.0, 0.5):
                    if ahead_m < wanted_m and wanted_m not in edges:
                        edges[wanted_m] = _edge(moment, EDGE_M, lanes)
            shown = " | ".join(edges.get(each, "-") for each in (1.0, 0.5))
            rows.append(f"| {100 * height:.0f} cm, {name} | {shown} |")
            print(rows[-1], flush=True)
    return rows


def _edge(moment: Moment, edge_m: float, lanes: Array) -> str:
    """Where the map rises most from cell to cell, in lanes [m] to the left, less its true place."""
    ahead = CELLS[::-1, 0, 0]
    ahead = ahead[ahead > 0.3]
    found = []
    for lane in lanes:
        top = moment.around.top[::-1, int((ASIDE_M - lane) / CELL_M)][-len(ahead) :]
        rise = np.diff(top)
        if np.isfinite(rise).any():
            at = ahead[int(np.nanargmax(rise))] + CELL_M / 2.0
            found.append(moment.world(np.array([[at, lane]]))[0, 0] - edge_m)
    if not found:
        return "unseen"
    near = np.mean(np.abs(found) < 0.06) * len(found) / len(lanes)
    return f"{100 * np.median(found):+.0f} cm, {100 * near:.0f} % of lanes within 6 cm"


def costs() -> list[str]:
    """Microseconds of a frame and of a step, of frames of a walk."""
    laps: dict[str, list[float]] = {name: [] for name in ("frame", "step", "scan", "fill")}
    values = CONDITIONS["all of these, noisy joints and IMU"]
    frames: list[tuple[Reading, NDArray[np.float32]]] = []
    readings: list[Reading] = []
    for moment in walk(Course(BOXES), values, 8.0, 9003, turning):
        frames.append((_reading(moment), moment.map.depth()))
        readings.append(frames[-1][0])
    mapper = Mapper(A1, WIDTH / HEIGHT)
    view = mapper.view(HEIGHT, WIDTH)
    for _ in range(3):
        mapper.forget()
        for reading, depth in frames:
            used = view.used(depth)
            for i in range(5):
                now = replace(reading, time_s=reading.time_s + 0.01 * i)
                laps["step"].append(_timed(partial(_step, mapper, now)))
            laps["frame"].append(_timed(partial(mapper.add, reading.time_s, used, view)))
            laps["fill"].append(_timed(lambda: mapper.height_scan(SCAN)))
            laps["scan"].append(_timed(lambda: mapper.height_scan(SCAN)))
    about = {
        "frame": f"a frame of {WIDTH} x {HEIGHT}, {used.size} of its pixels",
        "step": "a control step: kinematics, scrolling, feet, guard",
        "fill": "the first height scan after a frame: fills",
        "scan": "a height scan of 187 points",
    }
    rows = ["| us | median | 95 % | 99 % |", "|---|---|---|---|"]
    for name, what in about.items():
        p = np.percentile(laps[name][10:], (50, 95, 99))
        rows.append(f"| {what} | {p[0]:.0f} | {p[1]:.0f} | {p[2]:.0f} |")
        print(rows[-1], flush=True)
    return [*rows, "", f"{machine()['processor']}, time of the thread on the processor."]


def _reading(moment: Moment) -> Reading:
    position, orientation = moment.body.pose()
    odometry = np.array((*position[:2], heading(orientation)))
    return Reading(
        moment.around.time_s,
        moment.body.joint_angles(),
        np.zeros(12),
        np.array(orientation),
        np.zeros(3),
        moment.body.render,
        odometry,
    )


def _step(mapper: Mapper, reading: Reading) -> None:
    mapper.step(reading)
    mapper.free_m(np.array((SPEED, 0.0, 0.1)))


def _timed(work: Callable[[], object]) -> float:
    began = time.thread_time()  # others may use the processor meanwhile
    work()
    return 1e6 * (time.thread_time() - began)


def real_depth(files: Sequence[Path]) -> list[str]:
    """Maps of single frames of a real RealSense over a laboratory's floor."""
    mount = CameraMount((0.0, 0.0, 0.0), math.radians(19.0), 1.05)
    floors, spread, known, high = [], [], [], []
    cos, sin = math.cos(math.radians(10.0)), math.sin(math.radians(10.0))
    rolled = np.array(((1.0, 0.0, 0.0), (0.0, cos, -sin), (0.0, sin, cos)))
    for file in files:
        raw = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
        depth = np.where(raw == 0, np.nan, np.asarray(raw) / 1000.0).astype(np.float32)
        view = depth_view(mount, 480, 640, Lens(384.0, 384.0, 320.0, 240.0))
        local_map = LocalMap()
        local_map.step(0.0, (0.0, 0.0, 0.62), [(0.0, 0.0, -0.62)])
        for i in range(20):
            local_map.add(0.05 * i, view.used(depth), view, (0.0, 0.0, 0.62), rolled)
        around = local_map.surroundings(1.0, (0.0, 0.0, 0.62), 0.0)
        ground = around.ground[CELLS[..., 0] < 1.8]
        floor = ground[np.abs(ground) < 0.08]
        if len(floor) < 50:
            continue
        floors.append(np.median(floor))
        spread.append(np.percentile(np.abs(floor - np.median(floor)), (50, 95)))
        known.append(np.isfinite(around.ground).mean())
        high.append((around.top > STEP_M).sum() * CELL_M**2)
    middle, most = 1e3 * np.mean(spread, axis=0)
    return [
        f"{len(floors)} frames: {100 * np.mean(known):.0f} % of the map known from one frame, the "
        f"floor off its median by {middle:.0f} mm (median), {most:.0f} mm (95 %), its median "
        f"{1e3 * np.median(np.abs(floors)):.0f} mm off the height that the data's README gives."
    ]


def picture() -> None:
    """Draw a robot between boxes: the scene, what its camera sees now, and its map."""
    from pixelgait.sim.viewing.video import SceneRenderer

    scene = Course(BOXES)
    moments = walk(scene, CONDITIONS["depth of a stereo camera"], 9.0, 9004)
    moment = next(each for each in moments if each.around.time_s > 8.0)
    body, renderer = moment.body, SceneRenderer(A1, scene, 9004)
    position, orientation = map(np.array, body.pose())
    outside = renderer.frame(position, orientation, body.joint_angles(), None)
    depth = np.nan_to_num(moment.map.depth(), nan=0.0)
    renderer.close()
    moments.close()
    height = outside.shape[0]
    shown = cv2.applyColorMap(
        (255 * np.clip(depth / 3.0, 0, 1)).astype(np.uint8), cv2.COLORMAP_BONE
    )
    shown = cv2.resize(shown, (height * WIDTH // HEIGHT, height), interpolation=cv2.INTER_NEAREST)
    above = drawn(moment.around, height // ROWS)
    parts = [outside, shown[..., ::-1], above]
    cv2.imwrite(str(PICTURE), np.hstack(parts)[..., ::-1])


@dataclass(frozen=True)
class LocalMapConfig:
    """Compare the local map with the truth, and write the tables and the picture of its page."""

    depth: Path | None = None
    """Folder of depth images of a RealSense (.png, 640 x 480, 16 bits, mm), for the table of real
    depth; without it that table stays as it is."""


def main() -> None:
    """Command line."""
    run_command(lambda: measure(parse(LocalMapConfig, f"make {TARGET}")))


def measure(config: LocalMapConfig) -> None:
    """Measure everything and write the page.

    Raises:
        UserError: if the folder has no images.
    """
    files = sorted(config.depth.glob("*.png")) if config.depth else []
    if config.depth and not files:
        raise UserError(f"--depth {config.depth}: no images (*.png)")
    write = partial(write_between, PAGE, target=TARGET)
    picture()
    write("map costs", lines=costs())
    write("map heights", lines=heights_table(6.0))
    write("map boxes", lines=boxes_table())
    write("map kerbs", lines=kerbs_table())
    if files:
        write("map real", lines=real_depth(files))


if __name__ == "__main__":
    main()
