"""Decisions of a policy on a camera recording of others: a report, and a film with attention.

The recording is played to the node's own camera and decision scheduler, on the clock of arrivals:
a new decision when the last one has run out, the last one again while no new image came, a stand
when images are stale. Nothing moves by these decisions, so the pictures do not answer to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.control.controller import DecisionScheduler, ScheduledDecision, commanded
from pixelgait.robot.control.lens import calibrated, misfit, misplaced
from pixelgait.robot.control.observation import draw_attention
from pixelgait.robot.errors import UserError
from pixelgait.robot.frames import TF_STATIC, FrameTree, turn_of
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.recording import camera_recordings as recordings
from pixelgait.robot.recording.camera_recordings import Arrival, CameraRecording
from pixelgait.robot.rotation import heading, inverse, is_unit, product, upright
from pixelgait.robot.runtime.camera_images import APART_NS, CameraImages, depth_frame, rgb_frame
from pixelgait.robot.spec import Array
from pixelgait.robot.viewing.film import FRAMES_PER_S, Frame

BASE_FRAME = "base_link"
MISFIT = "its decisions here say little about a camera that fits"
GOAL_M = (5.0, 0.0)  # of a policy that needs one, where none is given
STEP_NS = round(CONTROL_DT_S * recordings.NANOSECONDS)
FRAME_STEPS = round(1.0 / FRAMES_PER_S / CONTROL_DT_S)
LONGEST_GAP_S = 60.0  # without a message: two recordings in one; assumption
PICTURE_ROWS, SIDE = 360, 280  # of a film [px]
NEEDED = {1: (recordings.DEPTH,), 3: (recordings.COLOUR,),
          4: (recordings.COLOUR, recordings.DEPTH)}  # fmt: skip
STANDS_M_PER_S, STRAIGHT_RAD_PER_S = 0.05, 0.1  # of the report's shares
WHITE, GREY, GREEN = (255, 255, 255), (110, 110, 110), (60, 200, 90)


@dataclass(frozen=True, slots=True)
class Moment:
    """A control step that a film may show."""

    time_s: float  # since the first image
    scheduled: ScheduledDecision
    image: NDArray[np.uint8]  # (H, W, C) as the policy saw it last
    picture: tuple[str, Any]  # kind and message of the newest image of the camera


@dataclass
class CameraReplay:
    """The state of a replay: sensors, scheduler, and what is to be reported."""

    recording: CameraRecording
    bundle: Bundle
    goal: tuple[float, float] | None
    warnings: list[str] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    images: int = 0  # complete ones
    steps: int = 0
    standing_steps: int = 0

    def __post_init__(self) -> None:
        self._camera = CameraImages(self.bundle.image_shape)
        self._topic_of = dict(zip(NEEDED[self.bundle.image_shape[2]], self._camera.topics,
                                  strict=True))  # fmt: skip
        self._scheduler = DecisionScheduler(self.bundle.high_level, around=self.bundle.map())
        if "goal" in self.bundle.takes:
            self._scheduler.go_to(np.array(self.goal or GOAL_M))
        self._frames = FrameTree(BASE_FRAME)
        self._camera_frames: dict[str, str] = {}  # by kind, of the newest images
        self._orientation = np.array(upright(0.0))
        self._has_orientation = False
        self._odometry = np.zeros(3) if "goal" in self.bundle.takes else None
        self._origin: Array | None = None  # first odometry, where the goal is given from
        self._picture: tuple[str, Any] | None = None
        self._image: NDArray[np.uint8] | None = None
        self._checked: set[str] = set()
        self._first_ns = 0

    def moments(self) -> Iterator[Moment]:
        """All control steps from the first image on.

        Raises:
            UserError: if an image cannot be read, or there is none.
        """
        now_ns: int | None = None  # of the next step
        for arrival in self.recording.arrivals():
            if now_ns is not None:
                if arrival.time_ns - now_ns > LONGEST_GAP_S * recordings.NANOSECONDS:
                    gap_s = (arrival.time_ns - now_ns) / recordings.NANOSECONDS
                    self._warn(f"nothing arrives for {gap_s:.0f} s: skipped")
                    now_ns = arrival.time_ns
                while now_ns < arrival.time_ns:
                    yield self._step(now_ns)
                    now_ns += STEP_NS
            if self._take(arrival) and now_ns is None:
                now_ns = self._first_ns = arrival.time_ns
        if now_ns is None:
            raise UserError(self._no_image())
        yield self._step(now_ns)

    def _no_image(self) -> str:
        seen = " and ".join(self._topic_of)
        apart = self._camera.apart_ns
        why = "" if apart is None else f": stamps are {apart / 1e6:.0f} ms apart"
        more = f", at most {APART_NS / 1e6:.0f} ms are one image" if why else ""
        return f"no image of {seen} was found{why}{more}"

    def _take(self, arrival: Arrival) -> bool:
        """Keep what has arrived; returns whether it completes an image."""
        kind, _, message = arrival
        if kind in (recordings.COLOUR_INFO, recordings.DEPTH_INFO):
            self._check_lens(kind, message)
        elif kind == recordings.TRANSFORMS:
            self._frames.add(message.transforms)
        elif kind == recordings.IMU:
            self._turn(message)
        elif kind == recordings.ODOMETRY:
            self._move(message.pose.pose)
        elif kind in (recordings.COLOUR, recordings.DEPTH):
            if self._picture is None or kind == recordings.COLOUR or self._picture[0] == kind:
                self._picture = kind, message
            if kind in self._topic_of:
                self._camera_frames[kind] = message.header.frame_id
                complete = self._camera.put(self._topic_of[kind], message)
                self.images += complete
                return complete
        return False

    def _turn(self, imu: Any) -> None:
        if imu.orientation_covariance[0] == -1.0:  # REP 145: not measured
            return
        q = imu.orientation
        orientation = q.x, q.y, q.z, q.w
        if not is_unit(orientation):
            return
        pose = self._frames.pose(imu.header.frame_id)
        if pose is not None and (turn := turn_of(pose)) is not None:
            orientation = product(orientation, inverse(turn[0]))
        self._orientation, self._has_orientation = np.array(orientation), True

    def _move(self, pose: Any) -> None:
        """Odometry: its first pose becomes the origin, x ahead."""
        turned = np.array([getattr(pose.orientation, each) for each in "xyzw"])
        here = np.array((pose.position.x, pose.position.y, heading(turned.tolist())))
        if not np.isfinite(here).all() or "goal" not in self.bundle.takes:
            return
        self._origin = here if self._origin is None else self._origin
        away, cos, sin = here - self._origin, math.cos(self._origin[2]), math.sin(self._origin[2])
        x, y = cos * away[0] + sin * away[1], cos * away[1] - sin * away[0]
        self._odometry = np.array((x, y, away[2]))

    def _check_lens(self, kind: str, info: Any) -> None:
        image = recordings.COLOUR if kind == recordings.COLOUR_INFO else recordings.DEPTH
        if kind in self._checked or image not in self._topic_of or not calibrated(info):
            return
        self._checked.add(kind)
        if what := misfit(info, self.bundle.image_shape, self.bundle.spec.camera):
            where = self.recording.topics[kind]
            self._warn(f"{image}, {where}: {what}; {MISFIT}")

    def _warn(self, text: str) -> None:
        self.warnings.append(text)

    def _step(self, now_ns: int) -> Moment:
        time_s = (now_ns - self._first_ns) / recordings.NANOSECONDS
        if self._origin is None and self._odometry is not None and self._has_orientation:
            self._odometry[2] = heading(self._orientation.tolist())
        none = np.zeros(len(self.bundle.spec.joint_names))
        reading = Reading(
            time_s, none, none, self._orientation, np.zeros(3), self._camera.image, self._odometry
        )
        scheduled = self._scheduler.schedule(reading)
        self.steps += 1
        self.standing_steps += commanded(scheduled.latent)[0] < STANDS_M_PER_S
        if scheduled.image is not None and scheduled.decision is not None:
            self._image = scheduled.image.whole
            self._note(time_s, scheduled, reading)
        assert self._picture is not None
        image = np.zeros(self.bundle.image_shape, np.uint8) if self._image is None else self._image
        return Moment(time_s, scheduled, image, self._picture)

    def _note(self, time_s: float, scheduled: ScheduledDecision, reading: Reading) -> None:
        decision, image = scheduled.decision, scheduled.image
        assert decision is not None
        assert image is not None
        speed, yaw_rate = commanded(decision.latent)
        goal = self._scheduler.goal(reading)
        distance, bearing = (math.nan, math.nan) if goal is None else goal.tolist()
        self.decisions.append(
            {
                "time_s": time_s,
                "image_time_s": image.time_s,
                "speed_m_per_s": speed,
                "yaw_rate_rad_per_s": yaw_rate,
                "duration_s": decision.duration_steps * CONTROL_DT_S,
                "goal_distance_m": distance if math.isfinite(distance) else None,
                "goal_bearing_rad": bearing if math.isfinite(bearing) else None,
            }
        )

    def assumptions(self) -> list[str]:
        """Assumptions about inputs that the recording does not have."""
        assumed = []
        for kind in (recordings.COLOUR, recordings.DEPTH):
            info = recordings.COLOUR_INFO if kind == recordings.COLOUR else recordings.DEPTH_INFO
            if kind in self._topic_of and info not in self._checked:
                mount = self.bundle.spec.camera
                degrees = math.degrees(mount.vertical_fov_rad)
                assumed.append(f"no calibrated camera_info of {kind}: a lens {degrees:.0f} degrees "
                               "high is assumed")  # fmt: skip
        takes = self.bundle.takes
        if {"goal", "ahead"} & takes.keys() and not self._has_orientation:
            imu = self.recording.topics.get(recordings.IMU)
            why = "no IMU" if imu is None else f"{imu} measures no orientation"
            assumed.append(f"{why}: a robot that never turns is assumed, ahead is where it looks")
        if "goal" in takes:
            x, y = self.goal or GOAL_M
            given = "--goal" if self.goal is not None else "no --goal"
            assumed.append(f"{given}: {x:g} m ahead, {y:g} m to the left of the first image")
            if self._origin is None:
                assumed.append("no odometry: a robot that stays where it is is assumed")
        if len(self._camera_poses()) == len(set(self._camera_frames.values())):
            return assumed
        mount = self.bundle.spec.camera
        height_m = self.bundle.spec.stand_height_m + mount.position_m[2]
        where = f"{height_m:.2f} m above the floor, {mount.pitch_down_rad:.2f} rad down"
        assumed.append(f"the camera is where the policy's is: {where}")
        return assumed

    def _camera_poses(self) -> dict[str, Array]:
        """Poses (4, 4) of the cameras' body frames in the base frame, by frame, where known."""
        found = {frame: self._frames.camera_pose(frame) for frame in self._camera_frames.values()}
        return {frame: pose for frame, pose in found.items() if pose is not None}

    def _misplaced(self) -> list[str]:
        """Warnings of cameras that the recording's robot has elsewhere."""
        mounts, poses = self.bundle.trained_mounts, self._camera_poses()
        return [
            f"{TF_STATIC}: '{frame}' {what}; {MISFIT}"
            for frame, pose in poses.items()
            if (what := misplaced(pose, mounts))
        ]

    def figures(self, path: Path) -> dict[str, Any]:
        """The report."""
        speeds = np.array([each["speed_m_per_s"] for each in self.decisions])
        rates = np.array([each["yaw_rate_rad_per_s"] for each in self.decisions])
        return {
            "recording": str(path),
            "bundle": self.bundle.contract["name"],
            "topics": self.recording.topics,
            "seconds": self.steps * CONTROL_DT_S,
            "images": self.images,
            "mean_speed_m_per_s": float(speeds.mean()),
            "left_share": float((rates > STRAIGHT_RAD_PER_S).mean()),
            "right_share": float((rates < -STRAIGHT_RAD_PER_S).mean()),
            "standing_share": self.standing_steps / self.steps,
            "warnings": self.warnings + self._misplaced(),
            "assumed": self.assumptions(),
            "decisions": self.decisions,
        }


def format_figures(figures: dict[str, Any]) -> str:
    """The report for a terminal."""
    topics = ", ".join(f"{kind} {name}" for kind, name in figures["topics"].items())
    lines = [f"{figures['recording']}: {figures['images']} images in {figures['seconds']:.1f} s"]
    lines += [f"read: {topics}"]
    lines += [f"warning: {warning}" for warning in figures["warnings"]]
    lines += [f"assumed: {assumption}" for assumption in figures["assumed"]]
    lines += [
        f"{figures['bundle']}: {len(figures['decisions'])} decisions, "
        f"{figures['mean_speed_m_per_s']:.2f} m/s on average, {figures['left_share']:.0%} to the "
        f"left, {figures['right_share']:.0%} to the right; stood {figures['standing_share']:.0%} "
        "of the time"
    ]
    return "\n".join(lines)


def film_frames(moments: Iterator[Moment], image_shape: tuple[int, int, int]) -> Iterator[Frame]:
    """Frames of a film, ten a second: the camera's picture, the policy's, and its decision."""
    picture: tuple[str, Any] | None = None
    for number, moment in enumerate(moments):
        if number % FRAME_STEPS:
            continue
        if picture is None or moment.picture[1] is not picture[1]:
            picture, drawn = moment.picture, _camera_picture(moment.picture, image_shape)
        yield np.hstack((drawn, _side(moment)))


def _camera_picture(picture: tuple[str, Any], image_shape: tuple[int, int, int]) -> Frame:
    """A message's picture (PICTURE_ROWS, W, 3), paler outside of what the policy sees."""
    kind, message = picture
    columns = max(8, round(PICTURE_ROWS * message.width / message.height / 8) * 8)
    columns = min(columns, 2 * PICTURE_ROWS)
    if kind == recordings.COLOUR:
        full = rgb_frame(message, message.height, message.width)
        drawn = cv2.resize(full, (columns, PICTURE_ROWS), interpolation=cv2.INTER_AREA)
    else:
        depth = depth_frame(message, PICTURE_ROWS // 4, columns // 4)
        drawn = _depth_picture(depth, columns)
    height, width, _ = image_shape
    rows = min(PICTURE_ROWS, columns * height // width)
    seen = min(columns, PICTURE_ROWS * width // height)
    top, left = (PICTURE_ROWS - rows) // 2, (columns - seen) // 2
    pale = (drawn // 3).astype(np.uint8)
    inside = slice(top, top + rows), slice(left, left + seen)
    pale[inside] = drawn[inside]
    return pale


def _depth_picture(depth: NDArray[np.float32] | None, columns: int) -> Frame:
    if depth is None:
        return np.zeros((PICTURE_ROWS, columns, 3), np.uint8)
    near = np.clip(255.0 * (1.0 - depth / 5.0), 0.0, 255.0).astype(np.uint8)
    near = cv2.resize(near, (columns, PICTURE_ROWS), interpolation=cv2.INTER_NEAREST)
    return np.asarray(cv2.applyColorMap(near, cv2.COLORMAP_BONE)[:, :, ::-1], np.uint8)


def _side(moment: Moment) -> Frame:
    """The policy's image with its attention, and its command as an arrow and numbers."""
    side = np.zeros((PICTURE_ROWS, SIDE, 3), np.uint8)
    decision = moment.scheduled.decision
    height, width = moment.image.shape[:2]
    seen = draw_attention(moment.image, None if decision is None else decision.attention, 4)
    scale = min((SIDE - 16) / width, 170 / height)
    size = round(width * scale), round(height * scale)
    seen = np.asarray(cv2.resize(seen, size, interpolation=cv2.INTER_AREA))
    left = (SIDE - size[0]) // 2
    side[8 : 8 + size[1], left : left + size[0]] = seen
    speed, yaw_rate = commanded(moment.scheduled.latent)
    _arrow(side, speed, yaw_rate)
    _text(side, f"{moment.time_s:.1f} s", (8, 200), GREY)
    _text(side, f"{speed:.2f} m/s", (8, 330), WHITE)
    _text(side, f"{yaw_rate:+.2f} rad/s", (8, 350), WHITE)
    if decision is not None:
        _text(side, f"for {decision.duration_steps * CONTROL_DT_S:.2f} s", (170, 350), GREY)
    return side


def _arrow(side: Frame, speed: float, yaw_rate: float) -> None:
    """The way of the next second, ahead is up, 160 pixels a metre."""
    foot = np.array((SIDE / 2.0, 310.0))
    points = [foot]
    for _ in range(20):
        turned = yaw_rate * 0.05 * (len(points) - 0.5)
        step = speed * 0.05 * 160.0 * np.array((-math.sin(turned), -math.cos(turned)))
        points.append(points[-1] + step)
    line = np.round(points).astype(np.int32)
    cv2.circle(side, (int(foot[0]), int(foot[1])), 4, GREEN, -1, cv2.LINE_AA)
    cv2.polylines(side, [line], False, GREEN, 2, cv2.LINE_AA)
    if speed < STANDS_M_PER_S and abs(yaw_rate) > STRAIGHT_RAD_PER_S:  # it turns on the spot
        middle, turned = (int(foot[0]), int(foot[1])), -90.0 - math.degrees(yaw_rate)
        cv2.ellipse(side, middle, (30, 30), 0.0, -90.0, turned, GREEN, 2, cv2.LINE_AA)
    elif speed >= STANDS_M_PER_S:
        a, b = line[-2].tolist(), line[-1].tolist()
        cv2.arrowedLine(side, a, b, GREEN, 2, cv2.LINE_AA, tipLength=2.0)


def _text(side: Frame, text: str, place: tuple[int, int], colour: tuple[int, int, int]) -> None:
    cv2.putText(side, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour, 1, cv2.LINE_AA)
