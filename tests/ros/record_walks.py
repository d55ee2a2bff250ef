"""`make recordings`: a short walk of every shipped policy, which the tests replay."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from pixelgait.robot.bundle import load_bundle, shipped_names
from pixelgait.robot.recording.messages import COMMAND
from tests.ros.support import AUTO, Processes

FOLDER = Path(__file__).resolve().parents[1] / "recordings"
POLICIES = shipped_names()
SECONDS = 1.0
GOAL = ("--goal", "3.0", "0.5")  # of policies with a goal
CHUNK_BYTES = 4 << 20  # one for a whole walk: zstd makes most of it


def record(policy: str, folder: Path) -> Path:
    """A recording of the policy on an obstacle course, by two processes."""
    processes, file = Processes(folder), folder / f"{policy}.mcap"
    try:
        bundle = load_bundle(policy)
        processes.start("pixelgait-sim", "--robot", bundle.spec.name, "--seed", 9000)
        goal = GOAL if "goal" in bundle.takes else ()
        options = ("--duration", SECONDS, *goal, "--record", file)
        run = processes.start("pixelgait-run", policy, *options, *AUTO)
        output, _ = run.communicate(timeout=60)
        assert run.returncode == 0, output
        processes.running[0].send_signal(signal.SIGINT)
    finally:
        processes.stop_all()
    return file


def without_bundle(source: Path, target: Path) -> None:
    """The same, smaller: the bundle is in the checkout, commands are in the steps too."""
    with source.open("rb") as read, target.open("wb") as written:
        reader = make_reader(read)
        writer = Writer(written, CHUNK_BYTES, CompressionType.ZSTD)
        writer.start(profile="ros2")
        for metadata in reader.iter_metadata():
            writer.add_metadata(metadata.name, metadata.metadata)
        channels: dict[int, int] = {}
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            assert schema is not None
            if channel.topic == COMMAND:
                continue
            if channel.id not in channels:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(
                    channel.topic, channel.message_encoding, number
                )
            writer.add_message(
                channels[channel.id],
                message.log_time,
                message.data,
                message.publish_time,
                message.sequence,
            )
        writer.finish()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICIES:
            file = FOLDER / f"{policy}.mcap"
            without_bundle(record(policy, Path(folder)), file)
            print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
