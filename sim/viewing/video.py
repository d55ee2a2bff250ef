"""Films of episodes: the robot from behind, with its camera image and attention in the corner."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from pixelgait.robot.control.controller import Controller, ControlResult
from pixelgait.robot.control.observation import draw_attention
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.mapping import picture
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import Array, CameraMount, RobotSpec
from pixelgait.robot.viewing.film import FRAMES_PER_S, Frame, evenly, write_film
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose, SimulatedBody
from pixelgait.sim.engines.pybullet_body import load_robot
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene, render_view
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.local_map import SimulatedMap
from pixelgait.sim.tasks.task import Task
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import Stream

WIDTH, HEIGHT = 480, 320
INSET = 4  # largest magnification of the camera image
MOST_INSET = (160, 240)  # height and width [px]
# Film camera and its target, from the robot; indoors from above, since walls would hide the robot.
EYE_M = np.array((-1.7, 0.0, 1.1))
TARGET_M = np.array((1.2, 0.0, 0.0))
EYE_INDOORS_M = np.array((-1.0, 0.0, 6.0))
MOST_ASIDE_M = 0.75  # of the robot, from the middle of the picture
FIELD_OF_VIEW_RAD = 0.9


@dataclass(frozen=True, slots=True)
class Track:
    """Recorded path of a robot in the order of time, with at least one row."""

    path: Array  # (n, 20) time [s], base position (3) [m], orientation xyzw (4), joints (12) [rad]
    simulated_s: Array  # (n,) since the reset: clock of moving shapes

    def frame_times(self) -> Array:
        """Times of a film's frames, by the path's clock [s]."""
        first, last = self.path[[0, -1], 0]
        return np.asarray(np.arange(first, max(last, first + 0.5 / FRAMES_PER_S), 1 / FRAMES_PER_S))


class SceneRenderer:
    """Renders a robot with its meshes in a scene, from recorded poses.

    It connects a PyBullet client of its own unless one is given.
    """

    def __init__(self, spec: RobotSpec, scene: Scene, seed: int, client: int | None = None) -> None:
        self.client = pybullet.connect(pybullet.DIRECT) if client is None else client
        self._spec = spec
        self.scene = PyBulletScene(scene, self.client, self._load)
        self.lay_out(seed)
        self.indoors = scene.draws_reachable_goals
        if not scene.draws_boxes:
            self._load()

    def _load(self) -> None:
        """Load the robot."""
        self.robot, self.joints = load_robot(self._spec, self.client)
        self.inertial = pybullet.getDynamicsInfo(self.robot, -1, physicsClientId=self.client)[3:5]

    def close(self) -> None:
        pybullet.disconnect(physicsClientId=self.client)

    def lay_out(self, seed: int) -> None:
        """Lay the scene out as in the episode of this seed."""
        self.scene.reset(Stream.LAYOUT.rng(seed))

    def place(self, position: ArrayLike, orientation: ArrayLike, joint_angles: Array) -> None:
        """Put the base at a position [m] and orientation xyzw, joints at these angles [rad]."""
        pose = pybullet.multiplyTransforms(position, orientation, *self.inertial)
        pybullet.resetBasePositionAndOrientation(self.robot, *pose, physicsClientId=self.client)
        angles = [[angle] for angle in joint_angles.tolist()]
        pybullet.resetJointStatesMultiDof(  # in a window every call waits for a frame
            self.robot, self.joints, angles, physicsClientId=self.client
        )

    def frame(
        self,
        position: Array,
        orientation: Array,
        joint_angles: Array,
        inset: Frame | None,
    ) -> Frame:
        """One frame (HEIGHT, WIDTH, 3); `inset` goes into the upper left corner."""
        self.place(position, orientation, joint_angles)
        aside = np.clip(0.5 * position[1], -MOST_ASIDE_M, MOST_ASIDE_M)
        ground = np.array((position[0], position[1] - aside, self.scene.layout.start.z))
        eye, target = ground + EYE_M, ground + TARGET_M
        if self.indoors:
            eye, target = position + EYE_INDOORS_M, position
        if self.scene.layout.appearance is None:
            view = pybullet.computeViewMatrix(eye, target, (0, 0, 1))
            frame = render_view(self.client, view, FIELD_OF_VIEW_RAD, WIDTH, HEIGHT)
        else:
            frame = self._with_appearance(eye, target - eye)
        if inset is not None:
            framed = np.pad(inset, ((2, 2), (2, 2), (0, 0)), constant_values=255)
            frame[8 : 8 + framed.shape[0], 8 : 8 + framed.shape[1]] = framed
        return frame

    def _with_appearance(self, eye: Array, ahead: Array) -> Frame:
        """Frame of a film camera at `eye`, in an episode's appearance."""
        x, y, z = ahead.tolist()
        mount = CameraMount((0.0, 0.0, 0.0), math.atan2(-z, math.hypot(x, y)), FIELD_OF_VIEW_RAD)
        camera = Camera(mount, WIDTH, HEIGHT)
        pose = BasePose(tuple(eye.tolist()), upright(math.atan2(y, x)))
        return self.scene.render_from(camera, pose)[0]


def film_track(path: Path, spec: RobotSpec, scene: Scene, seed: int, track: Track) -> None:
    """Film a recorded path; only the frames of a strip are rendered for it."""
    times = track.frame_times()
    if path.suffix == ".png":
        times = times[evenly(len(times))]
    write_film(path, counted(render_track(spec, scene, seed, track, times), len(times)))


def render_track(
    spec: RobotSpec,
    scene: Scene,
    seed: int,
    track: Track,
    times: Array,
    inset: Callable[[float], Frame | None] | None = None,
) -> Iterator[Frame]:
    """Frames at these times [s] of a track; `inset` gives the picture in the corner."""
    renderer = SceneRenderer(spec, scene, seed)
    try:
        for now in times:
            i = min(int(np.searchsorted(track.path[:, 0], now)), len(track.path) - 1)
            row = track.path[i]
            renderer.scene.move(float(track.simulated_s[i]))
            corner = None if inset is None else inset(now)
            yield renderer.frame(row[1:4], row[4:8], row[8:20], corner)
    finally:
        renderer.close()


def counted(frames: Iterable[Frame], number: int) -> Iterator[Frame]:
    """The frames, with a progress bar on a terminal."""
    yield from tqdm(frames, "film", number, unit="frame", leave=False, disable=None)


class Take(NamedTuple):
    """A recorded episode: every row of the track is a frame."""

    seed: int
    track: Track
    insets: dict[float, Frame | None]  # by the track's time [s]

    def render(self, body: SimulatedBody, frames: NDArray[np.int64]) -> Iterator[Frame]:
        """Render frames of it, once each; the last one for those after its end."""
        times = self.track.path[np.unique(np.minimum(frames, len(self.track.path) - 1)), 0]
        insets = self.insets.__getitem__
        return render_track(body.spec, body.scene, self.seed, self.track, times, insets)


def record_video(
    controller: Controller,
    body: SimulatedBody,
    task: Task,
    seeds: Sequence[int],
    path: Path,
    local_map: SimulatedMap | None = None,
) -> list[Episode]:
    """Run episodes and film them, several side by side in a grid; a .png becomes a strip.

    With a `local_map` it guards the robot, and is drawn below the policy's image.

    Frames are rendered afterwards, only those that are shown.
    """
    takes, episodes = [], []
    with tqdm(
        desc="walking", total=task.steps * len(seeds), unit="step", leave=False, disable=None
    ) as bar:
        for number, seed in enumerate(seeds):
            bar.update(number * task.steps - bar.n)  # episodes may end early
            take, episode = film_episode(controller, body, task, seed, bar.update, local_map)
            takes.append(take)
            episodes.append(episode)
    longest = max(len(take.track.path) for take in takes)
    frames = evenly(longest) if path.suffix == ".png" else np.arange(longest)
    films = side_by_side([take.render(body, frames) for take in takes])
    write_film(path, counted(films, len(frames)))
    return episodes


def film_episode(
    controller: Controller,
    body: SimulatedBody,
    task: Task,
    seed: int,
    progress: Callable[[], Any] = lambda: None,
    local_map: SimulatedMap | None = None,
) -> tuple[Take, Episode]:
    """Run an episode and record it for a film; `progress` is called after every step."""
    every = round(1.0 / FRAMES_PER_S / CONTROL_DT_S)
    rows: list[Array] = []
    simulated_s: list[float] = []
    insets: dict[float, Frame | None] = {}
    inset: Frame | None = None

    def watch(step: int, result: ControlResult) -> None:
        nonlocal inset
        progress()
        if result.image and result.decision:
            inset = draw_inset(result.image.whole, result.decision.attention)
        if step % every == 1:
            now = step * CONTROL_DT_S
            rows.append(np.array((now, *np.concatenate(body.pose()), *body.joint_angles())))
            simulated_s.append(body.time_s)
            insets[now] = inset if local_map is None else with_map(inset, local_map)

    episode = run_episode(controller, body, task, seed, watch, local_map)
    return Take(seed, Track(np.array(rows), np.array(simulated_s)), insets), episode


def side_by_side(films: Sequence[Iterator[Frame]]) -> Iterator[Frame]:
    """Frames of a grid of films; ended films keep their last frame, free cells are black."""
    columns = math.ceil(math.sqrt(len(films)))
    rows = math.ceil(len(films) / columns)
    shrink = columns / 1.5 if columns > 1 else 1.0  # grids are half as wide again
    width, height = round(WIDTH / shrink), round(HEIGHT / shrink)
    grid = np.zeros((rows * height, columns * width, 3), np.uint8)
    while True:
        ended = True
        for cell, film in enumerate(films):
            if (frame := next(film, None)) is not None:
                ended = False
                y, x = cell // columns * height, cell % columns * width
                small = cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA)
                grid[y : y + height, x : x + width] = small
        if ended:
            return
        yield grid.copy()


def with_map(inset: Frame | None, local_map: SimulatedMap) -> Frame | None:
    """A policy's image with the map below it."""
    around = local_map.mapper.around
    if around is None:
        return inset
    below = picture.drawn(around, 2)
    if inset is None:
        return below
    width = max(below.shape[1], inset.shape[1])
    wide = [np.pad(p, ((0, 0), (0, width - p.shape[1]), (0, 0))) for p in (inset, below)]
    return np.concatenate(wide)


def draw_inset(pixels: Frame, attention: NDArray[np.float32] | None) -> Frame:
    """A policy's image (H, W, C), magnified or reduced to fit into a corner of the frame."""
    height, width = pixels.shape[:2]
    fits = min(MOST_INSET[0] / height, MOST_INSET[1] / width)
    drawn = draw_attention(pixels, attention, max(1, min(INSET, int(fits))))
    if fits >= 1.0:
        return drawn
    size = max(1, int(fits * width)), max(1, int(fits * height))
    return np.asarray(cv2.resize(drawn, size, interpolation=cv2.INTER_AREA), np.uint8)
