"""Camera recordings of others: rosbag2 and ROS 1 bags, and folders of images.

Both are a stream of messages with the fields of sensor_msgs and nav_msgs, in the order of their
arrival. Topics are chosen by their types and names, see `choose_topics`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import cv2
import numpy as np

from pixelgait.robot.cli.options import require_libraries
from pixelgait.robot.control.image_decoding import DEPTHS, decompressed, image_of
from pixelgait.robot.errors import UserError
from pixelgait.robot.frames import TF_STATIC

COLOUR, DEPTH, IMU, ODOMETRY = "colour", "depth", "imu", "odometry"
COLOUR_INFO, DEPTH_INFO, TRANSFORMS = "colour info", "depth info", "static transforms"
IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
TYPES = {
    COLOUR: (IMAGE, COMPRESSED),
    DEPTH: (IMAGE, COMPRESSED),
    COLOUR_INFO: ("sensor_msgs/msg/CameraInfo",),
    DEPTH_INFO: ("sensor_msgs/msg/CameraInfo",),
    IMU: ("sensor_msgs/msg/Imu",),
    ODOMETRY: ("nav_msgs/msg/Odometry",),
    TRANSFORMS: ("tf2_msgs/msg/TFMessage",),
}
OTHER_IMAGES = re.compile(r"infra|/ir/|/ir_|confidence|mask|disparity|theora|thermal|semantic")
CUT_OFF = "end magic is invalid"  # rosbags, of an MCAP file without its end
BAGS = (".mcap", ".db3", ".bag")
COLOUR_FOLDERS, DEPTH_FOLDERS = ("rgb", "color", "colour", "image", "images"), ("depth",)
PICTURES = (".png", ".jpg", ".jpeg")
INTRINSICS = ("intrinsics.yaml", "intrinsics.yml", "intrinsics.json")
EPOCH_S, EPOCH_NS = 1e8, 1e17  # stamps in file names: larger numbers than any index
NANOSECONDS = 1_000_000_000


class Arrival(NamedTuple):
    """A message, what it is, and when it arrived [ns]."""

    kind: str
    time_ns: int
    message: Any


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a bag: its type, number of messages, and the encoding of its first image."""

    name: str
    type: str
    count: int
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class CameraRecording:
    """An open recording: its topics by kind, and all their messages."""

    topics: dict[str, str]
    duration_s: float
    arrivals: Callable[[], Iterator[Arrival]]


@contextmanager
def open_camera_recording(
    path: Path, needed: Sequence[str], named: dict[str, str], rate_hz: float
) -> Iterator[CameraRecording]:
    """Open a bag or a folder of images that has the images of a policy.

    Args:
        path: a bag's folder or file, or a folder of images.
        needed: COLOUR, DEPTH or both.
        named: topics by kind, where the guess is wrong.
        rate_hz: images a second of a folder whose file names are no stamps.

    Raises:
        UserError: if it cannot be read, or lacks what is needed.
    """
    if not path.exists():
        raise UserError(f"{path} is missing")
    if path.is_dir() and not (path / "metadata.yaml").exists():
        files = sorted(file for file in path.iterdir() if file.suffix in BAGS)
        if not files:
            yield _image_folder(path, needed, rate_hz)
            return
        if len(files) > 1:
            raise UserError(f"{path}: {len(files)} bags and no metadata.yaml, name one of them")
        path = files[0]
    elif path.is_file() and path.suffix not in BAGS:
        raise UserError(f"{path} is no bag, expected {', '.join(BAGS)} or a folder")
    with _bag(path) as reader:
        topics = choose_topics(path, _topics(reader), needed, named)
        duration_s = max(0, reader.end_time - reader.start_time) / NANOSECONDS
        yield CameraRecording(topics, duration_s, lambda: _arrivals(path, reader, topics))


@contextmanager
def _bag(path: Path) -> Iterator[Any]:
    """A bag's reader of rosbags.

    Raises:
        UserError: if the bag cannot be read.
    """
    try:
        require_libraries("rosbags")
    except ModuleNotFoundError:
        needs = "bags need rosbags: pip install 'pixelgait[bags]'"
        raise UserError(needs) from None
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    try:  # a bag in sqlite3 may lack definitions, those of ROS 2 are alike in all releases
        reader = AnyReader([path], default_typestore=get_typestore(Stores.ROS2_JAZZY))
        reader.open()
    except Exception as error:  # whatever a damaged file makes the parsers raise
        raise _unreadable(path, error) from None
    try:
        yield reader
    finally:
        reader.close()


def _unreadable(path: Path, error: Exception) -> UserError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    repair = ": was it cut off? mcap recover FILE -o NEW" if CUT_OFF in reason else ""
    return UserError(f"{path}: no bag that can be read ({reason}){repair}")


def _topics(reader: Any) -> list[Topic]:
    """Topics with messages; those of images with the first one's encoding."""
    counts: dict[tuple[str, str], int] = {}
    for each in reader.connections:
        key = each.topic, each.msgtype
        counts[key] = counts.get(key, 0) + each.msgcount
    images = {name for (name, kind), count in counts.items() if kind == IMAGE and count}
    encodings: dict[str, str] = {}
    for connection in reader.connections:
        if connection.topic in images - encodings.keys():
            for _, _, data in reader.messages([connection]):
                encodings[connection.topic] = reader.deserialize(data, connection.msgtype).encoding
                break
    return [
        Topic(name, kind, count, encodings.get(name, ""))
        for (name, kind), count in counts.items()
        if count
    ]


def choose_topics(
    path: Path, topics: Sequence[Topic], needed: Sequence[str], named: dict[str, str]
) -> dict[str, str]:
    """The topic of each kind that a bag has.

    Depth has 16 bits or 32FC1; compressed, a name with `depth`. Infrared and masks are neither. Raw
    images come before compressed ones. With colours, aligned depth comes first; without, depth in
    the camera's own view. `camera_info` is beside the images, transforms are on `/tf_static`.

    Raises:
        UserError: if an image topic that is needed, or one that is named, is missing.
    """
    known = {topic.name: topic for topic in topics}
    for kind, name in named.items():
        if name not in known or known[name].type not in TYPES[kind]:
            types = " or ".join(TYPES[kind])
            raise UserError(f"{path}: no {types} on {name}; {_listed(topics, kind)}")
    chosen = dict(named)
    both = len(needed) > 1
    for kind in (COLOUR, DEPTH):
        fitting = [topic for topic in topics if _kind_of_image(topic) == kind]
        if kind not in chosen and fitting:
            chosen[kind] = max(fitting, key=lambda topic: _rank(topic, both)).name
        if kind in needed and kind not in chosen:
            raise UserError(
                f"{path}: no topic with {kind} images, which the policy sees; "
                f"{_listed(topics, kind)}; name one with --{kind}"
            )
    for kind, image in ((COLOUR_INFO, COLOUR), (DEPTH_INFO, DEPTH)):
        beside = _info_of(chosen.get(image, ""))
        if kind not in chosen and beside in known:
            chosen[kind] = beside
    for kind in (IMU, ODOMETRY):
        fitting = [topic for topic in topics if topic.type in TYPES[kind]]
        if kind not in chosen and fitting:
            chosen[kind] = max(fitting, key=lambda topic: topic.count).name
    if TF_STATIC in known and known[TF_STATIC].type in TYPES[TRANSFORMS]:
        chosen[TRANSFORMS] = TF_STATIC
    return chosen


def _kind_of_image(topic: Topic) -> str | None:
    """COLOUR, DEPTH, or None."""
    name = topic.name.lower()
    if topic.type not in (IMAGE, COMPRESSED) or OTHER_IMAGES.search(name):
        return None
    if topic.encoding:
        return DEPTH if topic.encoding in DEPTHS else COLOUR
    return DEPTH if "depth" in name else COLOUR


def _rank(topic: Topic, both: bool) -> tuple[bool, bool, int]:
    is_aligned = "aligned" in topic.name or "registered" in topic.name
    return topic.type == IMAGE, is_aligned == both, topic.count


def _info_of(image: str) -> str:
    """The `camera_info` beside an image topic, also of a compressed one."""
    base = re.sub(r"/(compressed|compressedDepth)$", "", image)
    return f"{base.rpartition('/')[0]}/camera_info"


def _listed(topics: Sequence[Topic], kind: str) -> str:
    fitting = [topic.name for topic in topics if topic.type in TYPES[kind]]
    return f"it has {', '.join(fitting) if fitting else 'none'}"


def _arrivals(path: Path, reader: Any, topics: dict[str, str]) -> Iterator[Arrival]:
    kinds = {name: kind for kind, name in topics.items()}
    chosen = [each for each in reader.connections if each.topic in kinds]
    # Static transforms hold from the start, whenever the recorder heard them.
    fixed = [each for each in chosen if kinds[each.topic] == TRANSFORMS]
    others = [each for each in chosen if kinds[each.topic] != TRANSFORMS]
    try:
        for connection, time_ns, data in chain(
            reader.messages(fixed) if fixed else (), reader.messages(others)
        ):
            message = reader.deserialize(data, connection.msgtype)
            kind = kinds[connection.topic]
            if kind in (COLOUR, DEPTH):
                message = _image(kind, message, connection.msgtype, time_ns)
            yield Arrival(kind, time_ns, message)
    except (UserError, GeneratorExit):
        raise
    except Exception as error:  # whatever a damaged file makes the parsers raise
        raise _unreadable(path, error) from None


def _image(kind: str, message: Any, message_type: str, time_ns: int) -> Any:
    """An image, decompressed; without a stamp of its driver it gets the time of its arrival."""
    stamp = message.header.stamp
    if not (stamp.sec or stamp.nanosec):
        stamp = _stamp(time_ns)
    header = SimpleNamespace(stamp=stamp, frame_id=message.header.frame_id)
    if message_type != COMPRESSED:
        fields = {name: getattr(message, name) for name in IMAGE_FIELDS}
        return SimpleNamespace(header=header, **fields)
    return image_of(decompressed(message, kind == DEPTH), header)


IMAGE_FIELDS = ("height", "width", "encoding", "is_bigendian", "step", "data")


def _stamp(time_ns: int) -> SimpleNamespace:
    return SimpleNamespace(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS)


def _image_folder(path: Path, needed: Sequence[str], rate_hz: float) -> CameraRecording:
    """A folder of images: `rgb` and `depth` in it, or files of one kind.

    Files in both folders belong together by name, or, if names are times, by time.
    """
    found = {COLOUR: _files(path, COLOUR_FOLDERS), DEPTH: _files(path, DEPTH_FOLDERS)}
    if not any(found.values()):
        found[needed[0]] = _pictures(path)
    for kind in needed:
        if not found[kind]:
            folders = " or ".join(COLOUR_FOLDERS[:3] if kind == COLOUR else DEPTH_FOLDERS)
            raise UserError(
                f"{path}: no {kind} images, which the policy sees; expected a bag, or PNG or JPEG "
                f"files in a folder {folders}"
            )
    lens = _intrinsics(path)
    stems = sorted({file.stem for files in found.values() for file in files}, key=_number)
    times_ns = _times_ns(stems, rate_hz)
    where = {kind: str(files[0].parent) for kind, files in found.items() if files}
    if lens is not None:
        file = str(_intrinsics_file(path))
        where |= {COLOUR_INFO: file, DEPTH_INFO: file}

    def arrivals() -> Iterator[Arrival]:
        files = [(times_ns[f.stem], kind, f) for kind in (COLOUR, DEPTH) for f in found[kind]]
        for time_ns, kind, file in sorted(files, key=lambda each: each[0]):
            message = _image_message(file, kind, time_ns, lens)
            if info := _info(lens, kind, message):
                yield Arrival(COLOUR_INFO if kind == COLOUR else DEPTH_INFO, time_ns, info)
            yield Arrival(kind, time_ns, message)

    duration_s = (max(times_ns.values()) - min(times_ns.values())) / NANOSECONDS
    return CameraRecording(where, duration_s, arrivals)


def _files(path: Path, names: Sequence[str]) -> list[Path]:
    return next((found for name in names if (found := _pictures(path / name))), [])


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [file for file in folder.iterdir() if file.suffix.lower() in PICTURES]


def _number(stem: str) -> tuple[float, str]:
    """Sorts names by the number that they end with."""
    digits = re.search(r"\d+(\.\d+)?$", stem)
    return float(digits.group()) if digits else -1.0, stem


def _times_ns(stems: Sequence[str], rate_hz: float) -> dict[str, int]:
    """Times of files by their names: as written there, or evenly spread."""
    try:
        numbers = [float(stem) for stem in stems]
    except ValueError:
        numbers = [0.0]
    if min(numbers) >= EPOCH_NS:
        return {stem: int(stem) for stem in stems}
    if min(numbers) >= EPOCH_S:
        return {stem: round(float(stem) * NANOSECONDS) for stem in stems}
    return {stem: NANOSECONDS + round(i * NANOSECONDS / rate_hz) for i, stem in enumerate(stems)}


def _image_message(file: Path, kind: str, time_ns: int, lens: dict[str, Any] | None) -> Any:
    """An image file as a message.

    Raises:
        UserError: if it is no picture, or depth without 16 bits.
    """
    flags = cv2.IMREAD_COLOR if kind == COLOUR else cv2.IMREAD_UNCHANGED
    pixels = cv2.imread(str(file), flags)
    if pixels is None:
        raise UserError(f"{file} is not a picture")
    if kind == DEPTH:
        if pixels.dtype != np.uint16 or pixels.ndim != 2:
            raise UserError(f"{file}: depth needs 16 bits and one channel, it has {pixels.dtype}")
        if (scale := float((lens or {}).get("depth_scale", 1000.0))) != 1000.0:
            pixels = (pixels / np.float32(scale)).astype(np.float32)
    return image_of(pixels, SimpleNamespace(stamp=_stamp(time_ns), frame_id=""))


def _intrinsics(path: Path) -> dict[str, Any] | None:
    """Intrinsics of a folder's camera, `fx fy cx cy`, or `colour:` and `depth:` with these.

    Raises:
        UserError: if the file cannot be read.
    """
    file = _intrinsics_file(path)
    if file is None:
        return None
    try:
        if file.suffix == ".json":
            content = json.loads(file.read_text())
        else:
            import yaml

            content = yaml.safe_load(file.read_text())
    except Exception as error:  # of two parsers
        raise UserError(f"{file}: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"{file}: expected fx, fy, cx and cy")
    for part in (content, *(content[k] for k in (COLOUR, DEPTH) if k in content)):
        numbers = [part.get(name) for name in ("fx", "fy", "cx", "cy", "depth_scale")]
        if any(each is not None and not _is_positive(each) for each in numbers):
            raise UserError(f"{file}: fx, fy, cx, cy and depth_scale need numbers above 0")
    return content


def _intrinsics_file(path: Path) -> Path | None:
    return next((path / name for name in INTRINSICS if (path / name).exists()), None)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def _info(lens: dict[str, Any] | None, kind: str, image: Any) -> Any | None:
    """The CameraInfo of a folder's images; None: unknown."""
    own = (lens or {}).get(kind, lens)
    if not own or not all(name in own for name in ("fx", "fy", "cx", "cy")):
        return None
    whole = SimpleNamespace(height=0, width=0, x_offset=0, y_offset=0)
    k = [own["fx"], 0.0, own["cx"], 0.0, own["fy"], own["cy"], 0.0, 0.0, 1.0]
    size = {"height": image.height, "width": image.width}
    return SimpleNamespace(**size, k=k, roi=whole, binning_x=0, binning_y=0)
