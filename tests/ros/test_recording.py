"""Recordings of the node between processes: replayed bit for bit, without effect on the walk."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.recording.messages import COMMAND, SEEN
from pixelgait.robot.recording.reader import read_recording
from tests.conftest import Command, children
from tests.ros.support import AUTO, Client, FakeRobot, Processes

RecordedWalk = tuple[Path, "subprocess.Popen[str]"]


@pytest.fixture
def recorded_walk(
    processes: Processes, iap_bundle: Path, tmp_path: Path, client: Client, robot: FakeRobot
) -> RecordedWalk:
    """A controller that walks, for half a second, and the file it records to."""
    file = tmp_path / "walk.mcap"
    run = processes.start("pixelgait-run", iap_bundle, "--record", file, *AUTO)
    client.wait_for_state("walking")
    client.spin_for(0.5)
    return file, run


def test_a_walk_is_replayed_bit_for_bit(
    processes: Processes, tmp_path: Path, command: Command
) -> None:
    file = tmp_path / "a walk.mcap"
    processes.start("pixelgait-sim", "--seed", 10000)
    run = processes.start("pixelgait-run", "iap", "--duration", 4, "--record", file, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert output.endswith(f"wrote {file}\nnext: pixelgait-replay '{file}'\n")
    same = command("pixelgait-replay", file, "--json", tmp_path / "same.json")
    assert same.returncode == 0, same.stderr
    figures = json.loads((tmp_path / "same.json").read_text())
    assert figures["same_bundle"]
    assert figures["complete"]
    assert figures["steps"] > 350
    assert figures["decisions"] > 3
    assert figures["endings"] == ["limp: deactivated"]
    assert figures["different"] == 0
    other = command("pixelgait-replay", file, "--bundle", "sit", "--json", tmp_path / "other.json")
    assert other.returncode == 0, other.stderr  # another bundle may command something else
    figures = json.loads((tmp_path / "other.json").read_text())
    assert not figures["same_bundle"]
    assert figures["largest_difference_rad"] > 0.0
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    half = command("pixelgait-replay", cut)
    assert half.returncode == 0, half.stderr
    assert "cut short" in half.stdout
    assert "bit for bit" in half.stdout


def test_a_recording_is_an_ordinary_file_of_ros_2(
    recorded_walk: RecordedWalk, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """Read with the library alone, as other tools do; its bundle is attached."""
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    file, run = recorded_walk
    robot.roll = 1.5
    client.spin(lambda: run.poll() is not None)
    with file.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        contract = next(a for a in reader.iter_attachments() if a.name == "contract.json")
        assert contract.data == (iap_bundle / "contract.json").read_bytes()
        topics = [COMMAND, SEEN, "pixelgait/state"]
        messages = list(reader.iter_decoded_messages(topics))
    commands = [m.decoded_message for m in messages if m.channel.topic == COMMAND]
    assert any(len(each.position) == 12 for each in commands)
    assert not len(commands[-1].position)  # damped
    seen = [m.decoded_message for m in messages if m.channel.topic == SEEN]
    assert (seen[0].height, seen[0].width, seen[0].encoding) == (32, 32, "rgb8")
    states = [m.decoded_message.data for m in messages if m.channel.topic == "pixelgait/state"]
    assert [each.split(":")[0] for each in states][:3] == ["standing up", "ready", "walking"]
    steps = read_recording(file).steps
    assert steps[-1].fault == "tilted by 1.50 rad"
    assert states[-1] == "limp: tilted by 1.50 rad"


def test_a_controller_that_is_killed_leaves_a_complete_recording(
    recorded_walk: RecordedWalk, client: Client
) -> None:
    file, run = recorded_walk
    last = client.commands[-1].header.stamp
    (writer,) = children(run.pid)
    run.kill()
    client.spin(lambda: not Path(f"/proc/{writer}").exists())
    recording = read_recording(file)
    assert recording.complete
    assert not recording.endings
    newest = recording.steps[-1].inputs.reading.time_s
    assert newest > last.sec + last.nanosec / 1e9 - 2.0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "disk full"])
def test_a_recorder_that_fails_does_not_stop_the_robot(
    processes: Processes,
    iap_bundle: Path,
    tmp_path: Path,
    client: Client,
    robot: FakeRobot,
    how: str,
) -> None:
    file = Path("/dev/full") if how == "disk full" else tmp_path / "walk.mcap"
    if how == "disk full":
        file = tmp_path / "full.mcap"
        file.symlink_to("/dev/full")
    run = processes.start("pixelgait-run", iap_bundle, "--record", file, *AUTO)
    client.wait_for_state("walking")
    if how == "killed":
        client.spin(file.exists)  # a busy machine starts the recorder late
        client.spin_for(2.0)
    last = client.commands[-1].header.stamp
    if how == "killed":
        (writer,) = children(run.pid)
        os.kill(writer, signal.SIGKILL)
    client.spin_for(1.0)
    assert run.poll() is None
    assert np.any(client.commands[-1].position)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=30)
    assert run.returncode == 0, output
    assert "warning: " in output
    assert output.count("the recording has ended") == 2  # as it ended, and at the end
    assert output.index("the recording has ended") < output.index("limp: deactivated")
    if how == "killed":  # only its last chunk is missing
        recording = read_recording(file)
        assert not recording.complete
        lost_s = last.sec + last.nanosec / 1e9 - recording.steps[-1].inputs.reading.time_s
        assert lost_s < 2.0


def test_a_file_that_another_process_records_is_not_reported_as_written(
    processes: Processes, iap_bundle: Path, tmp_path: Path, client: Client, robot: FakeRobot
) -> None:
    file = tmp_path / "walk.mcap"
    with file.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run = processes.start("pixelgait-run", iap_bundle, "--record", file, *AUTO)
        client.wait_for_state("walking")
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=30)
    assert run.returncode == 0, output
    assert f"warning: the recording has ended: {file}: another process records there" in output
    assert f"wrote {file}" not in output
    assert "pixelgait-replay" not in output


def test_a_node_that_cannot_start_leaves_no_recorder_behind(
    processes: Processes, iap_bundle: Path, tmp_path: Path
) -> None:
    arguments = ("--record", tmp_path / "walk.mcap", "--ros-args", "-p", "use_sim_time:=true")
    run = processes.start("pixelgait-run", iap_bundle, *arguments)
    output, _ = run.communicate(timeout=60)  # until every process with its output has ended
    assert run.returncode == 1
    assert "use_sim_time is not supported" in output
    assert "wrote" not in output
