"""Camera recordings of others: bags and folders, played to a policy by pixelgait-replay."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import imageio.v2 as imageio
import numpy as np
import pytest
from rosbags.rosbag2 import Writer
from rosbags.rosbag2.enums import StoragePlugin
from rosbags.typesys import Stores, get_typestore

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import DecisionScheduler, commanded
from pixelgait.robot.errors import UserError
from pixelgait.robot.recording.camera_recordings import Topic, choose_topics
from pixelgait.robot.recording.replay import ReplayConfig
from pixelgait.robot.rotation import heading
from pixelgait.robot.runtime.camera_images import CameraImages
from pixelgait.robot.spec import A1
from pixelgait.robot.viewing.replay_command import run
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.scenes.registry import make_scene
from tests.conftest import Command, run_code
from tests.helpers import documented_keys

TYPES = get_typestore(Stores.ROS2_JAZZY)
CAMERA = "/camera/camera"
COLOUR, DEPTH = f"{CAMERA}/color/image_raw", f"{CAMERA}/depth/image_rect_raw"
ALIGNED = f"{CAMERA}/aligned_depth_to_color/image_raw"
ROWS, COLUMNS = 120, 160
FOCAL = ROWS / 2 / math.tan(A1.camera.vertical_fov_rad / 2)
HERTZ, SECOND = 15, 10**9
START = 1_700_000_000 * SECOND


def message(kind: str, **fields: Any) -> Any:
    package, name = kind.split("/")
    return TYPES.types[f"{package}/msg/{name}"](**fields)


def header(time_ns: int, frame: str = "camera_optical_frame") -> Any:
    stamp = message("builtin_interfaces/Time", sec=time_ns // SECOND, nanosec=time_ns % SECOND)
    return message("std_msgs/Header", stamp=stamp, frame_id=frame)


def depth_mm(side: int) -> np.ndarray:
    """A floor and a wall 0.35 m aside, seen from the A1's camera; its far end is 0.9 m ahead."""
    v, u = np.mgrid[0.5:ROWS, 0.5:COLUMNS]
    down, right = (v - ROWS / 2) / FOCAL, (u - COLUMNS / 2) / FOCAL
    pitch, eye_m = A1.camera.pitch_down_rad, A1.stand_height_m + A1.camera.position_m[2]
    fall = math.sin(pitch) + down * math.cos(pitch)
    floor = np.where(fall > 0.01, eye_m / np.maximum(fall, 0.01), np.inf)
    front = np.where(-side * right > -0.2, 0.7 / (math.cos(pitch) - down * math.sin(pitch)), np.inf)
    depth = np.minimum(floor, front)
    return np.where(depth < 10, 1000 * depth, 0).astype(np.uint16)


def image(pixels: np.ndarray, encoding: str, time_ns: int) -> Any:
    height, width = pixels.shape[:2]
    return message(
        "sensor_msgs/Image", header=header(time_ns), height=height, width=width, encoding=encoding,
        is_bigendian=0, step=pixels.nbytes // height,
        data=np.frombuffer(pixels.tobytes(), np.uint8),
    )  # fmt: skip


def compressed(data: bytes, text: str, time_ns: int) -> Any:
    pixels = np.frombuffer(data, np.uint8)
    return message("sensor_msgs/CompressedImage", header=header(time_ns), format=text, data=pixels)


def camera_info(time_ns: int, focal: float = FOCAL) -> Any:
    k = np.array((focal, 0, COLUMNS / 2, 0, focal, ROWS / 2, 0, 0, 1.0))
    roi = message("sensor_msgs/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0,
                  do_rectify=False)  # fmt: skip
    return message(
        "sensor_msgs/CameraInfo", header=header(time_ns), height=ROWS, width=COLUMNS,
        distortion_model="plumb_bob", d=np.zeros(5), k=k, r=np.eye(3).ravel(), p=np.zeros(12),
        binning_x=0, binning_y=0, roi=roi,
    )  # fmt: skip


def imu(time_ns: int, yaw: float | None) -> Any:
    unknown = np.zeros(9)
    turned = (0.0, 0.0, math.sin((yaw or 0) / 2), math.cos((yaw or 0) / 2))
    none = message("geometry_msgs/Vector3", x=0.0, y=0.0, z=0.0)
    return message(
        "sensor_msgs/Imu", header=header(time_ns),
        orientation=message("geometry_msgs/Quaternion", **dict(zip("xyzw", turned, strict=True))),
        orientation_covariance=unknown if yaw is not None else np.r_[-1.0, unknown[1:]],
        angular_velocity=none, angular_velocity_covariance=unknown,
        linear_acceleration=none, linear_acceleration_covariance=unknown,
    )  # fmt: skip


def odometry(time_ns: int, x: float, y: float) -> Any:
    """A robot that walks along y of a frame, and looks there."""
    turned = message("geometry_msgs/Quaternion", x=0.0, y=0.0, z=math.sqrt(0.5), w=math.sqrt(0.5))
    pose = message("geometry_msgs/Pose", position=message("geometry_msgs/Point", x=x, y=y, z=0.0),
                   orientation=turned)  # fmt: skip
    none = message("geometry_msgs/Vector3", x=0.0, y=0.0, z=0.0)
    twist = message("geometry_msgs/Twist", linear=none, angular=none)
    return message(
        "nav_msgs/Odometry", header=header(time_ns), child_frame_id="base",
        pose=message("geometry_msgs/PoseWithCovariance", pose=pose, covariance=np.zeros(36)),
        twist=message("geometry_msgs/TwistWithCovariance", twist=twist, covariance=np.zeros(36)),
    )  # fmt: skip


def write_bag(path: Path, stream: Iterator[tuple[str, int, Any]], plugin: str = "mcap") -> Path:
    with Writer(path, version=9, storage_plugin=StoragePlugin[plugin.upper()]) as writer:
        connections: dict[str, Any] = {}
        for topic, time_ns, content in stream:
            kind = content.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=TYPES)
            writer.write(connections[topic], time_ns, TYPES.serialize_cdr(content, kind))
    return path


def realsense(side: int, seconds: float = 1.5, focal: float = FOCAL) -> Iterator[Any]:
    """The topics of a RealSense with its infrared and its IMU, which has no orientation."""
    grey = np.zeros((ROWS, COLUMNS), np.uint8)
    for i in range(round(seconds * HERTZ)):
        now = START + i * SECOND // HERTZ
        depth = depth_mm(side)
        yield f"{CAMERA}/infra1/image_rect_raw", now, image(grey, "mono8", now)
        for topic in (DEPTH, ALIGNED, COLOUR):
            yield f"{topic.rpartition('/')[0]}/camera_info", now, camera_info(now, focal)
        yield COLOUR, now, image(np.full((ROWS, COLUMNS, 3), 120, np.uint8), "rgb8", now)
        yield DEPTH, now, image(depth, "16UC1", now)
        yield ALIGNED, now, image(depth, "16UC1", now + 5_000_000)
        yield f"{CAMERA}/imu", now, imu(now, None)


def played(tmp_path: Path, recording: Path, bundle: str, **options: Any) -> dict[str, Any]:
    run(ReplayConfig(recording, bundle, json=tmp_path / "report.json", **options))
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return report


@pytest.mark.parametrize("plugin", ["mcap", "sqlite3"])
def test_a_bag_shows_what_a_policy_would_decide(tmp_path: Path, plugin: str) -> None:
    rates = []
    for side in (-1, 1):
        bag = write_bag(tmp_path / f"bag{side}", realsense(side), plugin)
        report = played(tmp_path, bag, "rover")
        assert report["topics"] == {
            "colour": COLOUR, "depth": DEPTH, "imu": f"{CAMERA}/imu",
            "colour info": f"{CAMERA}/color/camera_info",
            "depth info": f"{CAMERA}/depth/camera_info",
        }  # fmt: skip
        assert report["images"] == round(1.5 * HERTZ)
        assert report["warnings"] == []
        assert any("no orientation: a robot that never turns" in a for a in report["assumed"])
        assert report.keys() == documented_keys("Camera replay")
        times = [each["time_s"] for each in report["decisions"]]
        assert times[0] == 0.0
        assert all(0.1 <= b - a <= 0.8 for a, b in pairwise(times))
        rates.append(np.array([each["yaw_rate_rad_per_s"] for each in report["decisions"]]))
    assert rates[0].mean() > 0.2  # the wall is on the right
    np.testing.assert_allclose(rates[1], -rates[0], atol=0.02)
    (bag / "metadata.yaml").unlink()  # as of a recording that was killed
    (file,) = bag.iterdir()
    assert [played(tmp_path, path, "rover")["decisions"] for path in (bag, file)] == [
        report["decisions"]
    ] * 2


@pytest.mark.slow
def test_the_command_films_attention_and_decisions(tmp_path: Path, command: Command) -> None:
    bag = write_bag(tmp_path / "bag", realsense(1, 0.8))
    done = command("pixelgait-replay", str(bag), "--bundle", "rover", "--video", "f.mp4")
    assert done.returncode == 0, done.stderr
    assert "of the time\nwrote f.mp4\n" in done.stdout
    frames = np.array(imageio.mimread(tmp_path / "f.mp4"))
    assert len(frames) == pytest.approx(8, abs=1)
    red = (frames[..., 0].astype(int) - frames[..., 1] > 60).any(axis=(0, 1))
    assert red[-280:].any()  # attention on the policy's image


def test_colour_and_depth_are_paired_and_the_goal_follows_imu_and_odometry(tmp_path: Path) -> None:
    def stream() -> Iterator[Any]:
        for topic, now, content in realsense(1):
            yield topic, now, content
            seconds = (now - START) / SECOND
            yield "/odom", now, odometry(now, 3.0, 7.0 + seconds)
            yield "/imu/data", now, imu(now, 0.1)

    bag = write_bag(tmp_path / "bag", stream())
    report = played(tmp_path, bag, "navigator-sit", goal=(4.0, 1.0))
    assert report["topics"]["depth"] == ALIGNED
    first, *_, last = report["decisions"]
    assert first["goal_distance_m"] == pytest.approx(math.hypot(4, 1))
    assert first["goal_bearing_rad"] == pytest.approx(math.atan2(1, 4))
    walked = last["time_s"] - last["time_s"] % (1 / HERTZ)
    assert last["goal_distance_m"] == pytest.approx(math.hypot(4 - walked, 1), abs=0.08)
    assert not any("odometry" in each or "IMU" in each for each in report["assumed"])


def mounts(time_ns: int, camera_up_m: float) -> Any:
    """The A1's camera at another height, and an IMU that was mounted backwards."""
    x, y, z = A1.camera.position_m
    half = A1.camera.pitch_down_rad / 2.0
    frames = {
        "camera_link": ((x, y, z + camera_up_m), (0.0, math.sin(half), 0.0, math.cos(half))),
        "imu_link": ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
    }
    optical = ("camera_link", "camera_optical_frame", (0.0, 0.0, 0.0), (-0.5, 0.5, -0.5, 0.5))
    return message(
        "tf2_msgs/TFMessage",
        transforms=[
            message(
                "geometry_msgs/TransformStamped", header=header(time_ns, parent),
                child_frame_id=child,
                transform=message(
                    "geometry_msgs/Transform",
                    translation=message(
                        "geometry_msgs/Vector3", **dict(zip("xyz", where, strict=True))
                    ),
                    rotation=message(
                        "geometry_msgs/Quaternion", **dict(zip("xyzw", turned, strict=True))
                    ),
                ),
            )
            for parent, child, where, turned in (
                *(("base_link", child, *pose) for child, pose in frames.items()), optical
            )
        ],
    )  # fmt: skip


@pytest.mark.parametrize("up_m", [0.0, 0.4])
def test_static_transforms_tell_where_camera_and_imu_are(tmp_path: Path, up_m: float) -> None:
    def stream(frame: str) -> Iterator[Any]:
        yield "/tf_static", START, mounts(START, up_m)
        for topic, now, content in realsense(1, 0.5):
            yield topic, now, content
            turned = imu(now, 0.3 if frame == "base_link" else 0.3 + math.pi)
            turned.header.frame_id = frame
            yield "/imu/data", now, turned

    plain, backwards = (
        played(tmp_path, write_bag(tmp_path / frame, stream(frame)), "navigator", imu="/imu/data")
        for frame in ("base_link", "imu_link")
    )
    bearings = [[each["goal_bearing_rad"] for each in r["decisions"]] for r in (plain, backwards)]
    assert bearings[0] == pytest.approx(bearings[1], abs=1e-6)
    assert not any("the camera is where" in each for each in plain["assumed"])
    found = [each for each in plain["warnings"] if each.startswith("/tf_static: 'camera_optical")]
    assert len(found) == (up_m > 0.0)
    assert all("sits at" in each for each in found)


def test_compressed_images_are_read_as_raw_ones(tmp_path: Path) -> None:
    def stream() -> Iterator[Any]:
        for topic, now, content in realsense(1):
            if topic in (COLOUR, DEPTH):
                pixels = np.asarray(content.data).tobytes()
                if topic == DEPTH:
                    png = cv2.imencode(".png", np.frombuffer(pixels, np.uint16).reshape(ROWS, -1))
                    data = b"\0" * 12 + png[1].tobytes()
                    yield (
                        f"{topic}/compressedDepth",
                        now,
                        compressed(data, "16UC1; compressedDepth png", now),
                    )
                else:
                    jpeg = cv2.imencode(
                        ".jpg", np.frombuffer(pixels, np.uint8).reshape(ROWS, COLUMNS, 3)
                    )
                    yield (
                        f"{topic}/compressed",
                        now,
                        compressed(jpeg[1].tobytes(), "rgb8; jpeg compressed bgr8", now),
                    )
            elif "info" in topic:
                yield topic, now, content

    bag = write_bag(tmp_path / "bag", stream())
    raw = played(tmp_path, write_bag(tmp_path / "raw", realsense(1)), "rover")
    report = played(tmp_path, bag, "rover")
    assert report["topics"]["depth"] == f"{DEPTH}/compressedDepth"
    assert report["decisions"] == raw["decisions"]
    assert played(tmp_path, bag, "strided-looks")["images"] == round(1.5 * HERTZ)


def test_a_lens_that_does_not_fit_is_a_warning(tmp_path: Path) -> None:
    bag = write_bag(tmp_path / "bag", realsense(1, 0.5, focal=1.5 * FOCAL))
    (warning,) = played(tmp_path, bag, "rover")["warnings"]
    assert warning.startswith(f"depth, {CAMERA}/depth/camera_info: the policy would see 0.7")


def folder(path: Path, names: list[str], intrinsics: str | None) -> Path:
    (path / "rgb").mkdir(parents=True)
    (path / "depth").mkdir()
    for name in names:
        cv2.imwrite(str(path / "rgb" / f"{name}.jpg"), np.full((ROWS, COLUMNS, 3), 120, np.uint8))
        cv2.imwrite(str(path / "depth" / f"{name}.png"), depth_mm(1))
    if intrinsics is not None:
        (path / "intrinsics.yaml").write_text(intrinsics)
    return path


def test_a_folder_of_images_is_played_as_a_bag(tmp_path: Path) -> None:
    k = f"{{fx: {FOCAL}, fy: {FOCAL}, cx: {COLUMNS / 2}, cy: {ROWS / 2}}}"
    plain = folder(tmp_path / "a", [str(8 * i) for i in range(12)], f"colour: {k}\ndepth: {k}\n")
    report = played(tmp_path, plain, "iap-rgbd", rate=5.0)
    assert report["images"] == 12
    assert report["seconds"] == pytest.approx(11 / 5.0, abs=0.02)
    assert not any("lens" in each for each in report["assumed"])
    assert report["warnings"] == []
    stamps = [f"{1_305_031_102 + 0.1 * i:.6f}" for i in range(12)]
    timed = folder(tmp_path / "b", stamps, None)
    report = played(tmp_path, timed, "rover")
    assert report["seconds"] == pytest.approx(1.1, abs=0.02)
    assert any("no calibrated camera_info of depth" in each for each in report["assumed"])


def test_a_recording_is_played_without_ros_2(tmp_path: Path) -> None:
    images = folder(tmp_path / "images", ["0", "1"], None)
    code = (
        "import sys; sys.modules.update(rclpy=None, sensor_msgs=None)\n"
        "from pixelgait.robot.viewing.replay_command import main\n"
        f"sys.argv = ['pixelgait-replay', {str(images)!r}, '--bundle', 'rover']\n"
        "main()"
    )
    done = run_code(code)
    assert done.returncode == 0, done.stderr
    assert "2 images" in done.stdout


def test_bad_recordings_are_one_clear_line(tmp_path: Path) -> None:
    bag = write_bag(tmp_path / "bag", ((t, n, m) for t, n, m in realsense(1, 0.3) if t == COLOUR))
    cut = tmp_path / "cut.mcap"
    whole = next(bag.glob("*.mcap")).read_bytes()
    cut.write_bytes(whole[:200])
    (endless := tmp_path / "endless.mcap").write_bytes(whole[:-100])
    no_database = tmp_path / "no.db3"
    no_database.write_text("no database")
    (tmp_path / "empty").mkdir()
    deep = folder(tmp_path / "deep", ["0"], None)
    cv2.imwrite(str(deep / "depth" / "0.png"), np.zeros((4, 4), np.uint8))
    wrong = folder(tmp_path / "wrong", ["0"], "fx: none\n")
    for recording, options, words in (
        (bag, {}, f"no topic with depth images, which the policy sees; it has {COLOUR}; name one"),
        (bag, {"depth": "/d"}, "no sensor_msgs/msg/Image or sensor_msgs/msg/CompressedImage on /d"),
        (bag, {"bundle": None}, "has no bundle: name the policy with --bundle"),
        (bag, {"video": Path("film.avi")}, "--video film.avi: expected a file .mp4, .gif, .png"),
        (cut, {}, "cut.mcap"),
        (
            endless,
            {},
            "endless.mcap: no bag that can be read (AnyReaderError: File end magic is invalid",
        ),
        (endless, {}, "): was it cut off? mcap recover FILE -o NEW"),
        (no_database, {}, "no.db3: no bag that can be read"),
        (tmp_path / "empty", {}, "no depth images, which the policy sees; expected a bag, or PNG"),
        (deep, {}, "0.png: depth needs 16 bits and one channel, it has uint8"),
        (wrong, {}, "intrinsics.yaml: fx, fy, cx, cy and depth_scale need numbers above 0"),
    ):
        with pytest.raises(UserError) as caught:
            run(ReplayConfig(recording, **{"bundle": "rover", **options}))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_options_of_a_camera_are_refused_with_a_recording_of_the_node() -> None:
    own = Path(__file__).parents[1] / "recordings" / "walk.mcap"
    with pytest.raises(UserError, match="--video is for recordings of a camera"):
        run(ReplayConfig(own, video=Path("film.mp4")))


@pytest.mark.parametrize(
    ("topics", "needed", "colour", "depth"),
    [
        (  # Orbbec, two cameras of one kind: the one with more images
            [("/ob/color/image_raw", "bgr8", 3), ("/ob/depth/image_raw", "16UC1", 9),
             ("/left/depth/image_raw", "16UC1", 2)],
            ("depth",), "/ob/color/image_raw", "/ob/depth/image_raw",
        ),
        (  # ZED
            [("/zed/rgb/color/rect/image", "bgra8", 5), ("/zed/depth/depth_registered", "32FC1", 5),
             ("/zed/confidence/confidence_map", "32FC1", 5)],
            ("colour", "depth"), "/zed/rgb/color/rect/image", "/zed/depth/depth_registered",
        ),
    ],
)  # fmt: skip
def test_topics_are_chosen_by_type_and_name(
    topics: list[tuple[str, str, int]], needed: tuple[str, ...], colour: str, depth: str
) -> None:
    found = [Topic(name, "sensor_msgs/msg/Image", count, code) for name, code, count in topics]
    chosen = choose_topics(Path("bag"), found, needed, {})
    assert (chosen["colour"], chosen["depth"]) == (colour, depth)


def test_decisions_on_a_bag_are_those_of_the_walk_that_it_recorded(tmp_path: Path) -> None:
    """A gliding robot among boxes, its camera at 17 Hz and its IMU at 100 Hz."""
    bundle = load_bundle("rover")
    body = KinematicBody(
        A1, make_scene("clutter"), camera=Camera(A1.camera, COLUMNS, ROWS, kind="depth")
    )
    camera, scheduler = CameraImages(bundle.image_shape), DecisionScheduler(bundle.high_level)
    decided: list[tuple[float, float]] = []

    def walk() -> Iterator[Any]:
        body.reset(9003)
        for step in range(400):
            reading, now = body.read(), START + step * SECOND // 100
            if step % 6 == 0:
                depth = 1000.0 * reading.image().pixels
                taken = image(np.where(depth < 20e3, depth, 0).astype(np.uint16), "16UC1", now)
                camera.put(camera.topics[0], taken)
                yield DEPTH, now, taken
            yield "/imu/data", now, imu(now, heading(reading.orientation.tolist()))
            seen = replace(reading, image=camera.image, time_s=step / 100)
            scheduled = scheduler.schedule(seen)
            if scheduled.image is not None:
                decided.append(commanded(scheduled.latent))
            body.follow(scheduled.latent)

    bag = write_bag(tmp_path / "bag", walk())
    body.close()
    played_back = played(tmp_path, bag, "rover")["decisions"]
    assert len(decided) > 15
    assert len({speed for speed, _ in decided}) > 10
    assert decided == [(d["speed_m_per_s"], d["yaw_rate_rad_per_s"]) for d in played_back]
