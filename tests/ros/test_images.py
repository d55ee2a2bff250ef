"""Images as drivers send them: encodings, holes, compressed forms, wrong types, reliability."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from tests.helpers import image_fields as message
from tests.ros.support import AUTO, WALKING, Client, FakeRobot, Processes, output_of

COLOUR, DEPTH = "camera/color/image_raw", "camera/depth/image_rect_raw"
SIZE = 64


def picture() -> NDArray[np.uint8]:
    """Smooth colours (64, 64, 3) RGB, another one in each corner."""
    across, down = np.meshgrid(np.linspace(0, 200, SIZE), np.linspace(0, 200, SIZE))
    return np.stack((across, down, 255 - across), axis=-1).astype(np.uint8)


def yuv(colours: NDArray[np.uint8], first: int) -> NDArray[np.uint8]:
    """YUV 4:2:2 (H, W, 2) of colours: brightness is channel `first`."""
    planes = cv2.cvtColor(colours, cv2.COLOR_RGB2YUV)
    packed = np.empty((*colours.shape[:2], 2), np.uint8)
    packed[..., first] = 16 + planes[..., 0] * (219.0 / 255.0)
    red, green, blue = (colours[:, ::2, i].astype(float) for i in range(3))
    packed[:, ::2, 1 - first] = 128 - 0.148 * red - 0.291 * green + 0.439 * blue
    packed[:, 1::2, 1 - first] = 128 + 0.439 * red - 0.368 * green - 0.071 * blue
    return packed


def encoded(encoding: str) -> NDArray[np.uint8]:
    colours = picture()
    opaque = np.full((SIZE, SIZE, 1), 255, np.uint8)
    forms = {
        "rgba8": np.dstack((colours, opaque)),
        "bgra8": np.dstack((colours[..., ::-1], opaque)),
        "8UC4": np.dstack((colours[..., ::-1], opaque)),
        "8UC3": colours[..., ::-1],
        "8UC1": cv2.cvtColor(colours, cv2.COLOR_RGB2GRAY)[..., None],
    }
    if encoding in forms:
        return np.ascontiguousarray(forms[encoding])
    return yuv(colours, 1 if encoding in ("yuv422", "uyvy") else 0)


@pytest.mark.parametrize(
    "encoding",
    ["bgra8", "rgba8", "8UC4", "8UC3", "8UC1", "yuv422", "uyvy", "yuv422_yuy2", "yuyv"],
)
def test_colours_are_what_the_encoding_says(encoding: str) -> None:
    from pixelgait.robot.control.image_decoding import brightness
    from pixelgait.robot.runtime.camera_images import rgb_frame

    sent = message(encoded(encoding), encoding, padding=6)
    wanted = cv2.resize(picture(), (32, 32), interpolation=cv2.INTER_AREA).astype(int)
    if encoding == "8UC1":
        wanted = np.repeat(wanted @ (0.299, 0.587, 0.114), 3).reshape(32, 32, 3)
    assert np.abs(rgb_frame(sent, 32, 32) - wanted).mean() < 4.0
    bright = 255.0 * brightness(sent, 32, 32)
    assert np.corrcoef(bright.ravel(), wanted[..., 1].ravel())[0, 1] > 0.9  # mostly green


@pytest.mark.parametrize("encoding", ["nv12", "bayer_rggb8", "16SC1", "64FC1", "16UC1"])
def test_other_encodings_are_refused_by_name(encoding: str) -> None:
    from pixelgait.robot.runtime.camera_images import depth_frame, rgb_frame

    known = r"rgb8, bgr8, mono8, rgba8, bgra8, .* yuv422_yuy2, yuyv"
    sent = message(np.ones((8, 8), np.uint16), encoding)
    with pytest.raises(UserError, match=rf"^camera encoding '{encoding}' .* need {known}$"):
        rgb_frame(sent, 4, 4)
    if encoding != "16UC1":
        with pytest.raises(UserError, match=rf"'{encoding}' .* need 32FC1, 16UC1, mono16$"):
            depth_frame(sent, 4, 4)


def test_depth_of_other_drivers_is_what_it_means() -> None:
    from pixelgait.robot.runtime.camera_images import depth_frame

    blocks = np.kron(np.random.default_rng(0).random((8, 8)) < 0.3, np.ones((12, 12)))
    depth = np.random.default_rng(1).integers(500, 2500, (96, 96)).astype(np.uint16)
    holes = depth_frame(message(np.where(blocks, 0, depth).astype(np.uint16), "16UC1"), 32, 32)
    for encoding in ("16UC1", "mono16"):
        none = message(np.where(blocks, 65535, depth).astype(np.uint16), encoding)
        np.testing.assert_array_equal(depth_frame(none, 32, 32), holes)
    assert depth_frame(message(np.full((8, 8), 65535, np.uint16), "16UC1"), 4, 4) is None


def compressed(topic: str, pixels: NDArray[Any], kind: str, suffix: str) -> tuple[str, bytes]:
    """Format and data of a CompressedImage, as image_transport's plugins write them."""
    if topic == COLOUR:
        data = cv2.imencode(f".{kind}", np.ascontiguousarray(pixels[..., ::-1]))[1].tobytes()
        return f"rgb8; {kind} compressed bgr8", data
    if pixels.dtype == np.uint16:
        data = cv2.imencode(".png", pixels)[1].tobytes()
        head = struct.pack("<iff", 0, 0.0, 0.0) if suffix == "compressedDepth" else b""
        return f"16UC1; {suffix} png", head + data
    a = 100.0 * 101.0  # depth_quantization 100, depth_max 10 m
    b = 1.0 - a / 10.0
    steps = np.where(np.isnan(pixels), 0.0, a / np.nan_to_num(pixels, nan=1.0) + b)
    data = cv2.imencode(".png", steps.astype(np.uint16))[1].tobytes()
    return "32FC1; compressedDepth png", struct.pack("<iff", 1, a, b) + data


def as_message(kind: str, data: bytes) -> Any:
    from std_msgs.msg import Header

    return SimpleNamespace(format=kind, data=data, header=Header())


def test_compressed_images_are_decoded() -> None:
    from pixelgait.robot.ros.links.camera import raw_image
    from pixelgait.robot.runtime.camera_images import depth_frame, rgb_frame

    for kind, most in (("jpeg", 4.0), ("png", 0.0)):
        raw = raw_image(COLOUR, as_message(*compressed(COLOUR, picture(), kind, "")))
        assert np.abs(rgb_frame(raw, SIZE, SIZE) - picture().astype(int)).mean() <= most
    metres = np.random.default_rng(0).uniform(0.5, 4.0, (8, 8)).astype(np.float32)
    for suffix in ("compressedDepth", "compressed"):
        form = compressed(DEPTH, (1000.0 * metres).astype(np.uint16), "png", suffix)
        depth = depth_frame(raw_image(DEPTH, as_message(*form)), 8, 8)
        np.testing.assert_allclose(depth, metres, atol=1e-3)
    metres[3, 3] = np.nan
    form = compressed(DEPTH, metres, "png", "compressedDepth")
    raw = raw_image(DEPTH, as_message(*form))
    assert raw.encoding == "32FC1"
    kept = np.frombuffer(raw.data, np.float32).reshape(8, 8)
    np.testing.assert_allclose(kept, metres, rtol=5e-3)  # a step of inverse depth


@pytest.mark.parametrize(
    ("topic", "kind", "data", "says"),
    [
        (COLOUR, "jpeg", b"\xff\xd8 broken", "compressed as 'jpeg' cannot be decoded"),
        (COLOUR, "h264", b"", "compressed as 'h264' cannot be decoded"),
        (DEPTH, "16UC1; compressedDepth rvl", b"\0" * 40, "'16UC1; compressedDepth rvl' is not"),
        (DEPTH, "jpeg", cv2.imencode(".jpg", picture())[1].tobytes(), "'jpeg' is not supported"),
        (DEPTH, "png", cv2.imencode(".png", picture())[1].tobytes(), "'png' has no 16 bits"),
    ],
)
def test_other_compressed_images_are_refused_by_name(
    topic: str, kind: str, data: bytes, says: str
) -> None:
    from pixelgait.robot.ros.links.camera import raw_image

    with pytest.raises(UserError, match=says):
        raw_image(topic, as_message(kind, data))


class AtOnce:
    """A pool without threads."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        result: Future[Any] = Future()
        try:
            result.set_result(function(*arguments))
        except UserError as error:
            result.set_exception(error)
        return result


def next_of(decoder: Any) -> Any:
    """The next converted message."""
    deadline = time.monotonic() + 20.0
    while (taken := decoder.exchange(None)) == (None, None):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert taken[1] is None
    return taken[0]


def test_a_slow_decoder_never_delays_the_control_thread_and_takes_the_newest_image() -> None:
    from pixelgait.robot.ros.links.decoder import Decoder

    begun, release = SimpleQueue[int](), Event()

    def convert(number: int) -> int:
        begun.put(number)
        assert release.wait(20.0)
        return -number

    decoder = Decoder(convert)
    assert decoder.exchange(1) == (None, None)
    assert begun.get(timeout=20.0) == 1
    for number in (2, 3, 4):  # arrive while the first is decoded
        assert decoder.exchange(number) == (None, None)
    release.set()
    assert [next_of(decoder), next_of(decoder)] == [-1, -4]
    release.clear()
    decoder.exchange(5)
    decoder.forget()
    release.set()
    decoder.exchange(6)
    assert next_of(decoder) == -6


def test_a_damaged_compressed_image_is_like_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A camera on a cable with errors: one damaged JPEG must not let a walking robot sink."""
    from functools import partial

    from pixelgait.robot.ros.links import decoder, topic_driver
    from pixelgait.robot.ros.links.camera import raw_image

    sent: list[Any] = []
    monkeypatch.setattr(decoder, "ThreadPoolExecutor", AtOnce)
    ros2 = topic_driver.ros2
    monkeypatch.setattr(ros2, "take", lambda _: sent.pop() if sent else None)
    monkeypatch.setattr(ros2, "now_s", lambda _: 100.0)
    monkeypatch.setattr(ros2, "subscribe", lambda *_: None)
    messages = topic_driver.NewestMessages(None, {COLOUR: ros2.Image})
    messages._decoders[COLOUR] = decoder.Decoder(partial(raw_image, COLOUR))
    form = compressed(COLOUR, picture(), "jpeg", "")
    for number, (data, new) in enumerate(((form[1], 1), (b"\xff\xd8 broken", 0), (form[1], 1))):
        sent.append(ros2.CompressedImage(format=form[0], data=data))
        sent[0].header.stamp.sec, sent[0].header.stamp.nanosec = 99, number
        assert not list(messages.take())
        assert len(list(messages.take())) == new
        warning = messages.warnings()[COLOUR]
        assert ("cannot be decoded" in warning) == (not new)
        assert messages.newest[COLOUR].height == SIZE
    assert messages.received[COLOUR] == 3


class Compressing:
    """A publisher of raw images that sends them compressed, on the topic of image_transport."""

    def __init__(self, client: Client, raw: Any, topic: str, name: str) -> None:
        from pixelgait.robot.ros.common import ros2

        client.node.destroy_publisher(raw)
        self._ros2, self._topic, self._suffix = ros2, topic, name.rpartition("/")[2]
        self._publisher = client.node.create_publisher(ros2.CompressedImage, name, 10)

    def publish(self, image: Any) -> None:
        kind = np.float32 if self._topic == DEPTH else np.uint8
        pixels = np.frombuffer(image.data, kind).reshape(image.height, image.width, -1)
        pixels = pixels[..., 0] if self._topic == DEPTH else pixels
        sent = self._ros2.CompressedImage(header=image.header)
        sent.format, sent.data = compressed(self._topic, pixels, "jpeg", self._suffix)
        self._publisher.publish(sent)


def test_a_camera_that_sends_only_compressed_images_is_found(
    processes: Processes, rgbd_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", rgbd_bundle, *AUTO)
    robot.camera = Compressing(client, robot.camera, COLOUR, f"{COLOUR}/compressed")
    robot.depth = Compressing(client, robot.depth, DEPTH, f"{DEPTH}/compressedDepth")
    client.spin(lambda: len(client.commands) > WALKING)
    assert run.poll() is None


@pytest.mark.long
def test_another_type_on_the_cameras_topic_is_named(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    robot.camera = Compressing(client, robot.camera, COLOUR, COLOUR)
    client.spin(lambda: run.poll() is not None)
    named = "is of sensor_msgs/msg/CompressedImage, not sensor_msgs/msg/Image"
    assert f"no message on {COLOUR} for 15 s; {COLOUR}: {named}" in output_of(run)


def test_a_subscription_with_the_default_qos_hears_the_simulated_robot(
    processes: Processes, client: Client
) -> None:
    processes.start("pixelgait-sim", "--scene", "flat")
    from nav_msgs.msg import Odometry
    from sensor_msgs.msg import CameraInfo

    from pixelgait.robot.ros.common import ros2

    heard: set[str] = set()
    kinds = {
        **{"joint_states": ros2.JointState, "imu/data": ros2.Imu},
        **{"odom": Odometry, "ground_truth/odom": Odometry},
        **{COLOUR: ros2.Image, DEPTH: ros2.Image, "camera/color/camera_info": CameraInfo},
    }
    for topic, kind in kinds.items():
        client.node.create_subscription(kind, topic, lambda _, t=topic: heard.add(t), 10)
    client.spin(lambda: heard == set(kinds))
