"""Recordings: ROS 2 messages that any reader understands, with every bit of a step."""

from __future__ import annotations

import errno
import io
import json
import math
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.stream_reader import StreamReader
from mcap.writer import Writer
from mcap_ros2.decoder import DecoderFactory

from pixelgait.robot.bundle import SHIPPED, load_bundle
from pixelgait.robot.control.controller import Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.mapping.local_map import LocalMap
from pixelgait.robot.recording import recorder as recorder_module
from pixelgait.robot.recording.messages import STEP, TYPES, VELOCITY
from pixelgait.robot.recording.reader import RecordedStep, read_recording
from pixelgait.robot.recording.recorder import Recorder, require_recordable
from pixelgait.robot.recording.writer import StepWriter
from pixelgait.robot.runtime.control_loop import ControlStep
from pixelgait.robot.runtime.state_machine import Inputs, OperatorCommands, RobotState
from pixelgait.robot.safety.supervisor import SensorTimeouts
from tests.conftest import child_environment, wait_for
from tests.helpers import documented_keys
from tests.robot.test_replay import POLICIES, RECORDINGS
from tests.test_architecture import ROOT

THIRD = 1.0 / 3.0
VALUES = np.nextafter(np.arange(1, 13) / 10.0, 2.0)  # (12,) whose last bits any rounding would lose


def written(folder: Path) -> tuple[Path, ControlStep, ControlStep]:
    """A recording of a step with every optional value, and one with none."""
    bundle = load_bundle("navigator")
    image = Image(np.full(bundle.image_shape, 7, np.uint8), THIRD)
    reading = Reading(
        *(THIRD, VALUES, -VALUES, VALUES[:4], VALUES[:3], lambda: image, -VALUES[:3], True),
        height_scan=VALUES,
    )
    commands = OperatorCommands(True, RobotState.WALKING, "remote control", (THIRD, -THIRD), 4)
    ages = {"joint_states": 1e-300, "imu/data": math.inf}
    sensor_timeouts = {"imu/data": SensorTimeouts(THIRD, 1.0, 2.0)}
    full = ControlStep(
        inputs=Inputs(reading, ages, commands, THIRD, VALUES[:2], THIRD),
        command=JointCommand(THIRD, VALUES, -VALUES, VALUES / 3.0, np.zeros(12)),
        sent=True,
        state="walking",
        cause="ordered",
        fault="tilted by 1.50 rad",
        image=image,
        decision=Decision(VALUES[:2], 17),
        settings={
            "sensor_timeouts": sensor_timeouts,
            "driver_timeout_s": THIRD,
            "motors_enabled": False,
        },
        took_us=1234.5,
        number=0,
        around=LocalMap().surroundings(THIRD, (0.0, 0.0, 0.3), 0.0),
    )
    without_odometry = Inputs(
        replace(reading, odometry=None, height_scan=None), ages, OperatorCommands()
    )
    bare = replace(full, inputs=without_odometry, fault=None, image=None, decision=None, number=1)
    bare = replace(bare, sent=False, around=None)
    file = folder / "walk.mcap"
    with file.open("wb") as stream:
        writer = StepWriter(stream)
        writer.begin({}, {}, bundle.spec.joint_names)
        writer.step(full)
        writer.step(bare)
        writer.finish()
    return file, full, bare


def blind() -> Image:
    raise AssertionError


def as_handed_over(step: ControlStep) -> ControlStep:
    """A step as the loop passes it: its reading fetches no image."""
    reading = replace(step.inputs.reading, image=blind)
    return replace(step, inputs=replace(step.inputs, reading=reading))


def numbered(file: Path, *sessions: tuple[int, ...]) -> Path:
    """A recording of steps with these numbers, by activation."""
    _, full, _ = written(file.parent)
    with file.open("wb") as stream:
        writer = StepWriter(stream)
        for numbers in sessions:
            writer.begin({}, {}, load_bundle("navigator").spec.joint_names)
            for number in numbers:
                writer.step(replace(full, number=number, around=None))
        writer.finish()
    return file


def messages(file: Path) -> Iterator[tuple[str, str, str, Any]]:
    """(topic, encoding, encoding of the type, message) of all messages, by the library alone."""
    with file.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        for schema, channel, _, message in reader.iter_decoded_messages():
            assert schema is not None
            yield channel.topic, channel.message_encoding, schema.encoding, message


def test_any_reader_of_ros_2_messages_can_read_a_recording(tmp_path: Path) -> None:
    """rosbag2's player refuses a file of several encodings; all types are defined in the file."""
    recorded, _, _ = written(tmp_path)
    seen = set()
    for file in (recorded, *(RECORDINGS / f"{policy}.mcap" for policy in POLICIES)):
        for topic, *encodings, message in messages(file):
            assert encodings == ["cdr", "ros2msg"]
            assert message is not None
            seen.add(topic)
    assert seen == set(TYPES) - {VELOCITY}  # of a robot with a gait of its own


def test_a_recording_is_as_documented() -> None:
    assert documented_keys("Recording") == set(TYPES)
    definition = TYPES[STEP][1].partition("\n=")[0]
    fields = {line.split()[1] for line in definition.splitlines()}
    assert documented_keys("Recording", STEP) == {*fields, "ros2 bag play"}  # who leaves it out
    page = (ROOT / "docs" / "commands.md").read_text()
    _, _, metadata = page.partition("The metadata `pixelgait` name the bundle and the code:")
    recording = read_recording(RECORDINGS / "iap.mcap")
    assert recording.about.keys() == {*re.findall("`(\\w+)`", metadata.partition(". ")[0])}


def test_inputs_of_a_step_are_read_back_bit_for_bit(tmp_path: Path) -> None:
    file, full, bare = written(tmp_path)
    one, two = read_recording(file).steps
    for recorded, step in ((one, full), (two, bare)):
        same_bits(recorded, step)
    assert (one.decided, two.decided) == (True, False)
    assert (one.sent, two.sent) == (True, False)
    assert read_recording(file).joint_names == load_bundle("navigator").spec.joint_names
    assert one.inputs.reading.image().time_s == two.inputs.reading.image().time_s == THIRD
    step = next(message for topic, *_, message in messages(file) if topic == "step")
    assert (*step.decision[0].latent, step.decision[0].duration_steps) == (*VALUES[:2], 17)


def same_bits(recorded: RecordedStep, step: ControlStep) -> None:
    """Values that a replay depends on, or is compared with."""
    mine, theirs = recorded.inputs, step.inputs
    assert mine.ages == theirs.ages
    assert mine.commands == theirs.commands
    assert (mine.gap_s, mine.reading.time_s) == (theirs.gap_s, theirs.reading.time_s)
    assert mine.free_m == theirs.free_m
    assert (recorded.local_map is None) == (step.around is None)
    assert recorded.sensor_timeouts == step.settings["sensor_timeouts"]
    for name in ("driver_timeout_s", "motors_enabled"):
        assert getattr(recorded, name) == step.settings[name]
    for name in ("state", "cause", "fault", "took_us"):
        assert getattr(recorded, name) == getattr(step, name)
    pairs = [(getattr(recorded, name), getattr(step.command, name)) for name in ("targets", "kp")]
    pairs += [(recorded.kd, step.command.kd), (mine.latent, theirs.latent)]
    names = ("joint_angles", "joint_velocities", "orientation", "angular_velocity", "odometry")
    names = (*names, "height_scan")
    assert mine.reading.lies == theirs.reading.lies
    pairs += [(getattr(mine.reading, name), getattr(theirs.reading, name)) for name in names]
    for found, given in pairs:
        assert (found is None) == (given is None)
        assert found is None or found.tobytes() == given.tobytes()


def test_a_recording_with_missing_steps_is_incomplete(tmp_path: Path) -> None:
    """Missing within an activation, or at its start."""
    whole = read_recording(numbered(tmp_path / "a.mcap", (0, 1, 2), (0, 1)))
    assert (whole.complete, whole.lost, len(whole.steps)) == (True, 0, 5)
    gaps = read_recording(numbered(tmp_path / "b.mcap", (0, 1, 4, 5), (2, 3)))
    assert (gaps.complete, gaps.finished, gaps.lost) == (False, True, 4)
    assert [step.lost for step in gaps.steps] == [0, 0, 2, 0, 2, 0]
    first = read_recording(numbered(tmp_path / "c.mcap", (3, 4)))
    assert (first.complete, first.lost) == (False, 3)


def chunks(file: Path) -> list[tuple[int, bytes]]:
    """(offset, compressed data) of every chunk."""
    with file.open("rb") as stream:
        found = [r.data for r in StreamReader(stream, emit_chunks=True).records if type(r) is Chunk]
    return [(file.read_bytes().index(data), data) for data in found]


def in_chunks(folder: Path) -> tuple[Path, bytes, int, int]:
    """A recording of several chunks: file, content, offset of a later chunk, steps before it."""
    file = numbered(folder / "whole.mcap", tuple(range(300)))
    content = file.read_bytes()
    start, _ = chunks(file)[1]
    file.write_bytes(content[: start - 50])  # before the header of that chunk
    recording = read_recording(file)
    assert not recording.finished
    return file, content, start, len(recording.steps)


@pytest.mark.parametrize("where", [0, 100, 500])
def test_a_damaged_recording_is_read_up_to_the_damage(where: int, tmp_path: Path) -> None:
    """Damage in zstd's header or content: it must not appear as a difference of the controller."""
    file, content, start, before = in_chunks(tmp_path)
    damaged = bytearray(content)
    damaged[start + where] ^= 0x10
    file.write_bytes(damaged)
    recording = read_recording(file)
    assert (recording.damaged, recording.complete) == (True, False)
    assert len(recording.steps) == before > 10


@pytest.mark.parametrize("error", [OverflowError, MemoryError, UnicodeError])
def test_a_damaged_length_or_name_gives_no_traceback(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bytes:
        raise error

    file, *_ = in_chunks(tmp_path)
    monkeypatch.setattr("zstandard.decompress", fail)
    with pytest.raises(UserError) as refused:
        read_recording(file)
    assert str(refused.value) == f"{file}: the recording is damaged from the beginning"


def test_a_truncated_recording_is_read_up_to_its_end(tmp_path: Path) -> None:
    """Truncated within a chunk, as by kill -9: not damaged."""
    file, content, start, before = in_chunks(tmp_path)
    file.write_bytes(content[: start + 100])
    recording = read_recording(file)
    assert (recording.damaged, recording.complete) == (False, False)
    assert len(recording.steps) == before


def test_lost_steps_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step is in the file, so that it shows what is missing before it."""
    _, full, _ = written(tmp_path)
    full = as_handed_over(full)
    recorder, file = Recorder(tmp_path / "gap.mcap"), tmp_path / "gap.mcap"
    with closing(recorder):
        recorder.begin(load_bundle("navigator"))
        recorder.step(full)
        assert recorder.new_problems() == []
        monkeypatch.setattr(recorder_module, "MOST_WAITING", 0)  # a disk that stalls
        for number in range(1, 6):
            recorder.step(replace(full, number=number))
            gap = f"{file}: the recording has a gap, disk or processor are too slow"
            assert recorder.new_problems() == ([gap] if number == 1 else [])
    assert recorder.problem == f"{file}: 4 steps were lost, disk or processor were too slow"
    recording = read_recording(file)
    assert [step.lost for step in recording.steps] == [0, 4]
    assert not recording.complete


def test_a_recorder_has_no_thread_and_never_waits_for_its_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of lower priority would make the control thread wait for Python's interpreter."""
    monkeypatch.setattr(recorder_module, "PIPE_BYTES", 1 << 12)
    monkeypatch.setattr(recorder_module, "MOST_WAITING", 5)
    _, full, _ = written(tmp_path)
    full, number, before = as_handed_over(full), 0, threading.active_count()
    with closing(Recorder(tmp_path / "paused.mcap")) as recorder:
        recorder._writer.send_signal(signal.SIGSTOP)
        recorder.begin(load_bundle("navigator"))
        while not recorder.lost:  # until the pipe and all that may wait are full
            recorder.step(replace(full, number=number))
            number += 1
        assert threading.active_count() == before
        recorder._writer.send_signal(signal.SIGCONT)
    assert recorder.problem is None
    assert len(read_recording(recorder.path).steps) == number >= 5


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_recording_is_finished_although_all_processes_receive_the_signal(
    tmp_path: Path, name: str
) -> None:
    """As by systemd, which signals the writer as well as the controller."""
    _, full, _ = written(tmp_path)
    recorder, file = Recorder(tmp_path / "service.mcap"), tmp_path / "service.mcap"
    with closing(recorder):
        recorder.begin(load_bundle("navigator"))
        recorder.step(as_handed_over(full))
        wait_for(file.is_file)
        recorder._writer.send_signal(signal.Signals[name])
        recorder.step(as_handed_over(replace(full, number=1)))
    assert recorder.problem is None
    recording = read_recording(file)
    assert (recording.complete, len(recording.steps)) == (True, 2)


def test_a_second_recorder_of_the_same_file_leaves_it_alone(tmp_path: Path) -> None:
    _, full, _ = written(tmp_path)
    first, second = Recorder(tmp_path / "one.mcap"), Recorder(tmp_path / "one.mcap")
    with closing(first):
        first.begin(load_bundle("navigator"))
        first.step(as_handed_over(full))
        wait_for(lambda: first.path.is_file() and first.path.stat().st_size)  # then it holds it
        with closing(second):
            second.begin(load_bundle("navigator"))
            second.step(as_handed_over(full))
        problem = f"the recording has ended: {first.path}: another process records there"
        assert second.new_problems() == [problem]
        first.step(as_handed_over(replace(full, number=1)))
    assert first.problem is None
    assert (first.written, second.written) == (True, False)
    recording = read_recording(first.path)
    assert (recording.complete, len(recording.steps)) == (True, 2)


@pytest.mark.parametrize("change", [lambda file: file.write_bytes(b"other"), Path.unlink])
def test_a_bundle_changed_after_loading_is_not_recorded(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    _, full, _ = written(tmp_path)
    bundle = load_bundle(shutil.copytree(SHIPPED / "navigator", tmp_path / "bundle"))
    change(tmp_path / "bundle" / "high_level.onnx")
    with closing(Recorder(tmp_path / "changed.mcap")) as recorder:
        recorder.begin(bundle)
        recorder.step(as_handed_over(full))
    assert str(recorder.problem).startswith("the recording has ended: ")
    assert str(recorder.problem).endswith("high_level.onnx was changed since it was loaded")
    assert not (tmp_path / "changed.mcap").exists()


def test_a_recording_ends_when_another_bundle_walks(tmp_path: Path) -> None:
    """A replay would use the wrong bundle."""
    _, full, _ = written(tmp_path)
    with closing(Recorder(tmp_path / "first.mcap")) as recorder:
        for bundle in ("navigator", "iap"):
            recorder.begin(load_bundle(bundle))
            recorder.step(as_handed_over(full))
            recorder.end("deactivated")
    problem = "it holds bundle 'navigator', and another one walks now"
    assert recorder.problem == f"the recording has ended: {problem}"
    recording = read_recording(tmp_path / "first.mcap")
    assert (recording.complete, len(recording.steps)) == (True, 1)
    assert recording.about["bundle"] == "navigator"
    assert recording.endings == {1: "limp: deactivated"}


def test_the_cause_of_every_end_is_recorded(tmp_path: Path) -> None:
    """Not of an activation without a step, nor of one that was killed."""
    _, full, _ = written(tmp_path)
    with closing(Recorder(tmp_path / "three.mcap")) as recorder:
        for cause, steps in (("no camera", 0), ("tilted", 2), ("deactivated", 1), (None, 1)):
            recorder.begin(load_bundle("navigator"))
            for number in range(steps):
                recorder.step(as_handed_over(replace(full, number=number)))
            if cause is not None:
                recorder.end(cause)
    assert recorder.problem is None
    recording = read_recording(recorder.path)
    assert recording.complete
    ended = [recording.endings.get(step.session) for step in recording.steps]
    assert ended == ["limp: tilted", "limp: tilted", "limp: deactivated", None]


def test_a_walk_that_does_not_begin_keeps_an_older_recording(tmp_path: Path) -> None:
    file, *_ = written(tmp_path)
    before = file.read_bytes()
    for path in (file, tmp_path / "new.mcap"):
        with closing(Recorder(path)) as recorder:
            recorder.begin(load_bundle("navigator"))
        assert (recorder.begun, recorder.problem) == (False, None)
    assert file.read_bytes() == before
    assert not path.exists()


@pytest.mark.parametrize("how", ["killed", "disk full"])
def test_a_writer_that_fails_at_once_has_written_nothing(tmp_path: Path, how: str) -> None:
    """A file of that name may exist: an older recording, or another content."""
    file, full, _ = written(tmp_path)
    before = file.read_bytes()
    with closing(Recorder(file)) as recorder:
        if how == "killed":
            recorder._writer.kill()
        else:
            resource.prlimit(recorder._writer.pid, resource.RLIMIT_FSIZE, (0, 0))
        recorder.begin(load_bundle("navigator"))
        recorder.step(as_handed_over(full))
    assert str(recorder.problem).startswith("the recording has ended: ")
    assert file.read_bytes() == (before if how == "killed" else b"")
    assert (recorder.begun, recorder.written) == (True, False)


def test_older_recordings_are_kept(tmp_path: Path) -> None:
    """A restart after a fall must not overwrite the recording of the fall."""
    file, full, _ = written(tmp_path)
    before = [file.read_bytes()]
    for number in (1, 2):
        with closing(Recorder(file)) as recorder:
            assert not recorder.written
            recorder.begin(load_bundle("navigator"))
            recorder.step(as_handed_over(full))
        assert (recorder.problem, recorder.written) == (None, True)
        assert len(read_recording(file).steps) == 1
        kept = [tmp_path / f"walk-{1 + i}.mcap" for i in range(number)]
        assert [each.read_bytes() for each in kept] == before
        before.append(file.read_bytes())


def test_a_write_protected_recording_is_refused_before_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, *_ = written(tmp_path)
    before = file.read_bytes()
    file.chmod(0o444)
    really = io.open

    def as_for_users(path: Any, mode: str = "r", *rest: Any) -> Any:
        """Root may write everywhere, and tests may run as root."""
        if path == file and set(mode) & set("wax+"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path, mode, *rest)

    monkeypatch.setattr("io.open", as_for_users)
    with pytest.raises(UserError) as refused:
        require_recordable(file)
    problem = "the existing file cannot be overwritten (Permission denied)"
    assert str(refused.value) == f"--record {file}: {problem}"
    assert file.read_bytes() == before


def test_a_recording_of_an_older_version_is_refused_in_a_line(tmp_path: Path) -> None:
    """Steps of an older version were JSON."""
    file = tmp_path / "old.mcap"
    with file.open("wb") as stream:
        writer = Writer(stream)
        writer.start(profile="ros2")
        schema = writer.register_schema("pixelgait/Step", "jsonschema", b'{"type": "object"}')
        channel = writer.register_channel("step", "json", schema)
        writer.add_message(channel, 0, json.dumps({"time_s": 0.0}).encode(), 0)
        writer.finish()
    with pytest.raises(UserError) as refused:
        read_recording(file)
    assert str(refused.value) == (
        f"{file}: topic step is json, expected cdr: recorded by an older version? Record it anew"
    )


def test_a_recording_with_other_fields_names_the_version(tmp_path: Path) -> None:
    file = tmp_path / "fields.mcap"
    names: dict[int, str] = {}
    with (RECORDINGS / "iap.mcap").open("rb") as source, file.open("wb") as stream:
        writer = Writer(stream)
        writer.start(profile="ros2")
        for schema, channel, message in make_reader(source).iter_messages():
            assert schema is not None
            if channel.topic not in names.values():
                text = schema.data.replace(b"goal_position", b"destination")
                kind = writer.register_schema(schema.name, schema.encoding, text)
                names[writer.register_channel(channel.topic, "cdr", kind)] = channel.topic
            number = next(key for key, topic in names.items() if topic == channel.topic)
            time_ns = message.log_time
            writer.add_message(number, time_ns, message.data, time_ns, message.sequence)
        writer.finish()
    with pytest.raises(UserError, match=r"recorded by another version \(.*goal_position.*\)"):
        read_recording(file)


@pytest.mark.view
@pytest.mark.parametrize("policy", ["iap", "navigator"])
def test_rerun_imports_a_recording(policy: str, tmp_path: Path) -> None:
    """Rerun's own reader of ROS 2 messages finds all messages, and steps bit for bit."""
    from rerun.chunk import RrdReader

    file, imported = RECORDINGS / f"{policy}.mcap", tmp_path / "walk.rrd"
    done = subprocess.run(
        [Path(sys.executable).parent / "rerun", "mcap", "convert", file, "-o", imported],
        capture_output=True,
        text=True,
        env=child_environment() | {"HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    read: Counter[str] = Counter()
    steps: list[Any] = []
    for chunk in RrdReader(imported).stream().to_chunks():
        if not chunk.is_static:
            read[chunk.entity_path] += chunk.num_rows
            if chunk.entity_path == "/step":
                column = chunk.to_record_batch().column("pixelgait.msg.Step:message")
                steps += [row[0] for row in column.to_pylist()]
    topics = Counter(f"/{topic}" for topic, *_ in messages(file))
    assert {topic: read[topic] for topic in topics} == topics
    wanted = read_recording(file).steps
    assert [each["time_s"] for each in steps] == [each.inputs.reading.time_s for each in wanted]
    assert np.array_equal([each["targets"] for each in steps], [each.targets for each in wanted])
    ages = [{age["sensor"]: age["age_s"] for age in each["ages"]} for each in steps]
    assert ages == [each.inputs.ages for each in wanted]
