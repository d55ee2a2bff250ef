"""Images by OpenCV instead of a topic: files, real UDP streams, refusals, a node that looks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import imageio_ffmpeg
import numpy as np
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.links.camera_stream import STALL_S, CameraStream, Stream, parse_stream
from pixelgait.robot.runtime.realtime import PRIORITY, request_priority
from tests.ros.support import PATIENT, Client, FakeRobot, Processes

SHAPE = (32, 32, 3)
STILL = np.zeros(12)  # joints' angles [rad]
FPS = 20.0


def write_film(path: Path, levels: list[int]) -> Path:
    """A film of grey pictures (120, 160), their left border red, as bright as `levels` say."""
    film = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), FPS, (160, 120))
    for level in levels:
        picture = np.full((120, 160, 3), level, np.uint8)
        picture[:, :60] = (0, 0, 200)  # blue, green, red
        film.write(picture)
    film.release()
    return path


def free_url() -> str:
    """A UDP port of this computer that nobody uses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"udp://127.0.0.1:{probe.getsockname()[1]}"


class Sender:
    """FFMPEG, which sends a picture that moves as MPEG-TS to a UDP port of this computer."""

    def __init__(self) -> None:
        self.url = free_url()
        self.start()

    def start(self) -> None:
        source = ("-re", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=30")
        codec = ("-c:v", "mpeg2video", "-g", "5", "-f", "mpegts")
        line = (imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *source, *codec)
        self.process = subprocess.Popen([*line, f"{self.url}?pkt_size=1316"])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def sender() -> Iterator[Sender]:
    process = Sender()
    yield process
    process.stop()


@pytest.fixture
def look() -> Iterator[Callable[[str], CameraStream]]:
    """Opens eyes, which are closed in the end."""
    opened: list[CameraStream] = []

    def begin(source: str) -> CameraStream:
        opened.append(CameraStream(parse_stream(source), SHAPE, time.time, threading.Event()))
        return opened[-1]

    yield begin
    for eyes in opened:
        eyes.close()


def take(eyes: CameraStream, until: Callable[[], Any], seconds: float = 10.0) -> float:
    """As the control thread does, until something is so: after how long [s]."""
    began_s = time.monotonic()
    while not until():
        assert time.monotonic() - began_s < seconds, eyes.warnings()
        eyes.take(STILL)
        time.sleep(0.002)
    return time.monotonic() - began_s


def test_a_file_is_seen_once_at_its_own_pace(tmp_path: Path, look: Any) -> None:
    eyes = look(str(write_film(tmp_path / "film.mp4", list(range(60, 240, 6)))))
    assert not eyes.stamps()
    took_s = take(eyes, lambda: "ended" in str(eyes.warnings()))
    assert 1.3 < took_s < 4.0  # 30 pictures of 20 Hz
    assert 20 <= eyes.received["camera"] <= 30
    assert eyes.warnings() == {"camera": f"{tmp_path / 'film.mp4'}: has ended"}
    assert abs(eyes.stamps()["camera"] - time.time()) < 0.5
    last = eyes.image()
    assert last.pixels[16, 20, 0] > 200  # the last picture, and it stays
    take(eyes, lambda: eyes.ages()["camera"] > 0.8)
    assert eyes.image().time_s == last.time_s


def test_an_image_is_that_of_a_topic(tmp_path: Path, look: Any) -> None:
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.ros.links.camera_images import rgb_frame

    eyes = look(str(write_film(tmp_path / "film.mp4", [80] * 30)))
    take(eyes, lambda: eyes.stamps())
    image = eyes.image().pixels
    read, pixels = cv2.VideoCapture(str(tmp_path / "film.mp4")).read()
    assert read
    message = ros2.image_message(1, "camera", pixels)
    message.encoding = "bgr8"
    assert np.array_equal(image, rgb_frame(message, 32, 32))
    assert image.shape == SHAPE
    red, green, blue = image[16, 0].astype(int)
    assert red > 150 > 60 > max(green, blue)


def test_a_picture_that_stays_while_joints_move_is_no_news(tmp_path: Path, look: Any) -> None:
    eyes = look(str(write_film(tmp_path / "film.mp4", [80] * 40)))
    take(eyes, lambda: eyes.received["camera"] > 3)
    assert eyes.ages()["camera"] < 0.4
    began_s = time.monotonic()
    while eyes.ages()["camera"] < 0.5:
        eyes.take(STILL + time.monotonic() - began_s)
        time.sleep(0.01)
        assert time.monotonic() - began_s < 1.7
    assert "the same picture again and again" in eyes.warnings()["camera"]


def test_only_the_newest_of_a_stream_counts_and_it_is_opened_again(
    sender: Sender, look: Any
) -> None:
    eyes = look(sender.url)
    take(eyes, lambda: eyes.received["camera"] == 20)
    time.sleep(0.5)  # nobody takes: 15 pictures
    eyes.take(STILL)
    assert eyes.received["camera"] == 21
    assert eyes.ages()["camera"] < 0.4
    assert eyes.image().pixels.std() > 30
    sender.stop()
    take(eyes, lambda: eyes.ages()["camera"] > STALL_S + 0.3)
    assert eyes.warnings() == {"camera": f"{sender.url}: has ended, it is opened again"}
    sender.start()
    take(eyes, lambda: eyes.ages()["camera"] < 0.1)
    assert not eyes.warnings()


def test_a_stream_that_raises_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = str(write_film(tmp_path / "film.mp4", list(range(60, 240, 6))))
    opened: list[Any] = []

    class Camera:
        """The film, at 20 Hz; the first time its fifth picture is an error of OpenCV's."""

        def __init__(self, *_: Any) -> None:
            self._film, self._left = VideoCapture(film), 0 if opened else 5
            opened.append(self)

        def read(self) -> Any:
            time.sleep(1.0 / FPS)
            self._left -= 1
            if not self._left:
                raise cv2.error("retrieve of rtsp://me:secret@cam/x failed")
            return self._film.read()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._film, name)

    VideoCapture = cv2.VideoCapture  # noqa: N806
    monkeypatch.setattr(cv2, "VideoCapture", Camera)
    eyes = CameraStream(Stream("rtsp://me:secret@cam/x"), SHAPE, time.time, threading.Event())
    raised = {"camera": "rtsp://cam/x: cannot be read (error)"}
    take(eyes, lambda: eyes.warnings() == raised)
    taken = eyes.received["camera"]
    take(eyes, lambda: eyes.received["camera"] > taken + 5)
    assert not eyes.warnings()
    assert len(opened) == 2
    eyes.close()


def test_it_is_read_just_below_the_control_threads_priority(tmp_path: Path, look: Any) -> None:
    film, priorities = str(write_film(tmp_path / "film.mp4", [80] * 10)), []

    def start() -> None:
        if request_priority() is None:
            thread = look(film)._thread.native_id
            priorities.extend(os.sched_getparam(each).sched_priority for each in (0, thread))

    control = threading.Thread(target=start)
    control.start()
    control.join()
    if not priorities:
        pytest.skip("no right to real-time priority")
    assert priorities == [PRIORITY, PRIORITY - 1]


def test_what_is_no_stream_is_refused_in_a_line(tmp_path: Path, look: Any) -> None:
    with pytest.raises(UserError, match=r"^--camera-stream nosuch\.mp4: expected a URL, a GStr"):
        parse_stream("nosuch.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("no film")
    for source in (str(text), "/dev/video99", "99"):
        with pytest.raises(UserError, match=rf"^--camera-stream {source}: cannot be opened$"):
            look(source)
    with pytest.raises(UserError, match=r"^--camera-stream 99999999999: cannot be read \(.*\)$"):
        look("99999999999")
    with pytest.raises(UserError) as refused:
        look("rtsp://me:secret@127.0.0.1:9/x")
    assert str(refused.value) == "--camera-stream rtsp://127.0.0.1:9/x: cannot be opened"


def test_no_password_is_told_to_anybody() -> None:
    passwords = "me:p@ss:w@rd@", "p@ss@", "me:pass/w@rd/@", ""
    for source in (f"rtsp://{password}cam/x" for password in passwords):
        assert str(parse_stream(source)) == "rtsp://cam/x"
    with pytest.raises(UserError) as refused:
        parse_stream("RTSP://me:secret@cam/x")
    assert "RTSP://cam/x: expected a URL" in str(refused.value)
    pipeline = Stream("rtspsrc location=rtsp://cam user-pw=secret ! x", cv2.CAP_GSTREAMER)
    assert "secret" not in str(pipeline)


@pytest.mark.parametrize(
    "source",
    [
        "http://host/v.cgi?user=admin&pwd=secret",
        "http://host/v.cgi?pwd=ge heim secret",
        "http://host?user=me@home&pwd=secret",
        "rtsp://me:p?secret@host/x",
        "host/v.cgi?pwd=secret",
    ],
)
def test_nothing_of_a_query_is_told(source: str) -> None:
    shown = str(Stream(source))
    assert "secret" not in shown
    assert "pwd" not in shown


def test_of_a_query_it_is_told_that_there_is_one() -> None:
    shown = str(parse_stream("http://host:80/v.cgi?user=admin&pwd=secret"))
    assert shown == "http://host:80/v.cgi?..."
    pipeline = 'souphttpsrc location="http://host/v.cgi?pwd=ge secret" ! jpegdec ! appsink'
    assert str(Stream(pipeline, cv2.CAP_GSTREAMER)) == (
        'souphttpsrc location="http://host/v.cgi?... ! ...'
    )


@pytest.mark.parametrize(
    "password",
    [
        '"ge heim"',
        "'ge heim'",
        r"ge\ heim",
        r'"ge\" heim"',
        '"ge ! heim"',
        '"ge heim',
    ],
)
def test_a_password_of_several_words_is_told_to_nobody(password: str) -> None:
    for equals in ("=", " = "):
        source = f"rtspsrc location=rtsp://cam user-id=me user-pw{equals}{password} ! x"
        shown = str(Stream(source, cv2.CAP_GSTREAMER))
        assert shown == "rtspsrc location=rtsp://cam user-id=me user-pw=... ! ..."


def test_a_files_name_is_told_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "what? & when?.mp4"
    file.touch()
    assert str(parse_stream(str(file))) == str(file)


@pytest.mark.parametrize(
    "rest", ["decodebin", " ! ".join(40 * ["identity"])], ids=["short", "long"]
)
def test_a_pipeline_needs_an_opencv_with_gstreamer(
    monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    pipeline = f"udpsrc address=230.1.1.1 port=1720 ! {rest} ! videoconvert ! appsink"
    has = cv2.videoio_registry.hasBackend(cv2.CAP_GSTREAMER)
    assert not has, "another OpenCV than PyPI's: then the next lines show nothing"
    with pytest.raises(UserError, match="built without GStreamer, as PyPI's is"):
        parse_stream(pipeline)
    monkeypatch.setattr(cv2.videoio_registry, "hasBackend", lambda backend: True)
    stream = parse_stream(pipeline)
    assert stream == Stream(pipeline, cv2.CAP_GSTREAMER)
    assert str(stream) == "udpsrc address=230.1.1.1 port=1720 ! ..."


SILENT = "timeout_s.camera:=1.5"


@pytest.mark.slow
def test_a_policy_walks_by_a_stream_and_is_damped_after_its_end(
    processes: Processes, client: Client, robot: FakeRobot, sender: Sender
) -> None:
    from std_msgs.msg import Float64MultiArray

    robot.publish_camera = False  # nobody is on the camera's topic
    decisions: list[Any] = []
    client.node.create_subscription(Float64MultiArray, "pixelgait/decision", decisions.append, 10)
    ages = (*(each for each in PATIENT if ":=" in each and "camera" not in each), SILENT)
    parameters = (part for each in ages for part in ("-p", each))
    line = ("--camera-stream", sender.url, "--auto-arm", "--ros-args", *parameters)
    run = processes.start("pixelgait-run", "iap", *line)
    client.wait_for_state("walking")
    client.spin(lambda: len(decisions) > 3)
    assert [told for told in client.sensors if "camera" in told] == ["camera is fresh: it sends"]
    assert client.commands[-1].position
    sender.stop()
    client.spin(lambda: any("camera is stale" in told for told in client.sensors), 3.0)
    assert client.commands[-1].position  # it stands
    client.spin(lambda: not client.commands[-1].position, 5.0)
    output, _ = run.communicate(timeout=15)
    assert run.returncode == 1, output
    last = output.splitlines()[-1]
    assert last.startswith("error: controller stopped: camera is silent for 1.5")
    assert last.endswith(f"; camera: {sender.url}: has ended, it is opened again")


def test_ctrl_c_ends_the_wait_for_a_stream(processes: Processes) -> None:
    """Nobody sends on that port."""
    url = free_url()
    run = processes.start("pixelgait-run", "iap", "--camera-stream", url)
    port = f":{int(url.rpartition(':')[2]):04X} "
    deadline_s = time.monotonic() + 30.0
    while port not in Path("/proc/net/udp").read_text():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=5)
    assert run.returncode == 0
    assert "error" not in output


REFUSED = {
    "iap-depth": "--camera-stream: it has colours alone, this policy needs depth",
    "walk": "--camera-stream: this policy does not look",
    "iap": "--camera-stream rtsp://127.0.0.1:9/x: cannot be opened",
}


def test_a_stream_that_is_nothing_to_a_policy_ends_the_node(processes: Processes) -> None:
    stream = ("--camera-stream", "rtsp://127.0.0.1:9/x")
    runs = {bundle: processes.start("pixelgait-run", bundle, *stream) for bundle in REFUSED}
    for bundle, run in runs.items():
        output, _ = run.communicate(timeout=60)
        assert run.returncode == 1
        assert output.splitlines()[-1] == f"error: {REFUSED[bundle]}"
