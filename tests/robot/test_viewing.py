"""Viewer entries of recorded walks, as plain data; and, with Rerun installed, its file."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import Decision, commanded
from pixelgait.robot.control.observation import draw_attention
from pixelgait.robot.errors import UserError
from pixelgait.robot.recording.messages import COMMAND, JOINTS, TYPES
from pixelgait.robot.recording.reader import Recording, read_recording
from pixelgait.robot.recording.replay import replayed
from pixelgait.robot.rotation import heading
from pixelgait.robot.spec import A1, LEGS
from pixelgait.robot.viewing.entries import PLOTS, Entry, Line, Numbers, Picture, recorded_entries
from pixelgait.robot.viewing.rerun_viewer import shown
from tests import foxglove
from tests.conftest import alive, child_environment, wait_for
from tests.robot.test_replay import RECORDINGS


def walk(policy: str) -> Recording:
    return read_recording(RECORDINGS / f"{policy}.mcap")


def entries_of(recording: Recording, policy: str) -> list[Entry]:
    return list(recorded_entries(recording, load_bundle(policy)))


def numbers(entries: list[Entry], path: str) -> np.ndarray:
    """Values (n, m) of a path."""
    return np.array([e.values for e in entries if isinstance(e, Numbers) and e.path == path])


def decoded(policies: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """(topic, message) of recordings, read by the library alone."""
    for policy in policies:
        with (RECORDINGS / f"{policy}.mcap").open("rb") as file:
            reader = make_reader(file, decoder_factories=[DecoderFactory()])
            for _, channel, _, message in reader.iter_decoded_messages():
                yield channel.topic, message


def lines(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(e.level, e.text) for e in entries if isinstance(e, Line)]


def decisions(recording: Recording, policy: str) -> list[tuple[np.ndarray, Decision]]:
    """Images and decisions of the replay."""
    found = []
    for step in replayed(recording, load_bundle(policy)):
        result = step.result
        if result is not None and result.image is not None and result.decision is not None:
            found.append((result.image.pixels, result.decision))
    return found


def test_a_walk_has_entries_for_every_step_on_its_own_clock() -> None:
    recording = walk("iap")
    entries, steps = entries_of(recording, "iap"), recording.steps
    times = [e.time_s for e in entries if e.path == "ages"]
    assert times == [step.inputs.reading.time_s for step in steps]
    for i, leg in enumerate(LEGS):
        angles = numbers(entries, f"joints/{leg}/angle")
        wanted = [step.inputs.reading.joint_angles[3 * i : 3 * i + 3] for step in steps]
        assert np.array_equal(angles, wanted)
        targets = numbers(entries, f"joints/{leg}/target")
        assert np.array_equal(targets, [step.targets[3 * i : 3 * i + 3] for step in steps])
    assert np.array_equal(numbers(entries, "gains/kp"), [step.kp for step in steps])
    assert np.array_equal(numbers(entries, "latency")[:, 0], [step.took_us for step in steps])
    assert numbers(entries, "latency").min() > 0.0
    assert np.median(numbers(entries, "period")) == pytest.approx(1e4, rel=0.2)
    expected = [
        *(("INFO", f"{sensor} is fresh: it sends") for sensor in steps[0].inputs.ages),
        ("INFO", "standing up: ordered"),
        ("INFO", "ready: stands"),
        ("INFO", "walking: ordered"),
        ("INFO", "limp: deactivated"),
    ]
    assert lines(entries) == expected


def test_images_attention_and_decisions_are_those_of_the_replay() -> None:
    recording = walk("iap")
    entries = entries_of(recording, "iap")
    pictures = [e for e in entries if isinstance(e, Picture)]
    decided = decisions(recording, "iap")
    assert len(pictures) == len(decided) > 2
    for picture, (pixels, decision) in zip(pictures, decided, strict=True):
        assert np.array_equal(picture.pixels, draw_attention(pixels, decision.attention))
        assert not np.array_equal(picture.pixels, pixels)
    assert len({e.time_s for e in pictures}) == len(pictures)
    durations = numbers(entries, "decision")[:, 0]
    assert np.allclose(durations, [each.duration_steps * 0.01 for _, each in decided])
    command = numbers(entries, "command")
    stands = np.isnan(command).any(1)
    assert stands[:100].all()  # nothing is followed while it stands up
    assert not stands[-50:].any()
    assert tuple(command[-1]) == commanded(decided[-1][1].latent)


def test_depth_is_gray_without_attention() -> None:
    recording = walk("iap-depth")
    pictures = [e.pixels for e in entries_of(recording, "iap-depth") if isinstance(e, Picture)]
    (pixels, decision), *_ = decisions(recording, "iap-depth")
    assert decision.attention is not None
    size = pixels.shape[1], pixels.shape[0]
    plain = cv2.resize(decision.attention, size, interpolation=cv2.INTER_NEAREST) == 0.0
    assert plain.any()
    assert np.array_equal(pictures[0][plain], np.repeat(pixels, 3, axis=2)[plain])


def test_a_goal_is_shown_and_is_nan_where_unknown() -> None:
    recording = walk("navigator")
    goal = numbers(entries_of(recording, "navigator"), "goal")
    assert goal[0] == pytest.approx((math.hypot(3.0, 0.5), math.atan2(0.5, 3.0)), abs=0.2)
    assert goal[-1, 0] < goal[0, 0] - 0.1  # nearer
    last = recording.steps[-1]
    lost = replace(last.inputs, reading=replace(last.inputs.reading, odometry=None))
    recording.steps[-1] = replace(last, inputs=lost)
    assert np.isnan(numbers(entries_of(recording, "navigator"), "goal")[-1]).all()
    assert not len(numbers(entries_of(walk("iap"), "iap"), "goal"))


def test_the_bearing_of_ahead_is_shown_for_every_image() -> None:
    recording = walk("iap-depth")
    entries = entries_of(recording, "iap-depth")
    bearings = numbers(entries, "goal")
    assert np.isnan(bearings[:, 0]).all()
    assert bearings[0, 1] == 0.0  # its heading at the start
    assert len(bearings) == len(numbers(entries, "decision"))
    headings = [heading(step.inputs.reading.orientation.tolist()) for step in recording.steps]
    assert np.ptp(bearings[:, 1]) > 0.01
    assert np.ptp(bearings[:, 1]) <= np.ptp(headings)


def test_a_fault_and_a_damped_robot_are_shown() -> None:
    recording = walk("iap")
    last = recording.steps[-1]
    damped = replace(
        last, kp=np.zeros(12), fault="tilted by 1.50 rad", state="limp", cause="a test"
    )
    old = {**last.inputs.ages, "joint_states": 3.0, "imu/data": math.inf}
    recording.steps[-1] = replace(damped, inputs=replace(last.inputs, ages=old))
    recording.endings.clear()
    entries = entries_of(recording, "iap")
    assert np.isnan(numbers(entries, "joints/FR/target")[-1]).all()
    assert not np.isnan(numbers(entries, "joints/FR/angle")).any()
    assert lines(entries)[-4:] == [
        ("ERROR", "joint_states is dead, the robot is damped: nothing new for 3.00 s"),
        ("ERROR", "imu/data is dead, the robot is damped: never sent"),
        ("INFO", "limp: a test"),
        ("ERROR", "tilted by 1.50 rad"),
    ]
    ages = numbers(entries, "ages")[-1]
    assert ages[0] == 3.0
    assert math.isnan(ages[1])


def test_a_withheld_command_is_not_shown() -> None:
    """The driver's time-out had passed: the robot was damped."""
    recording = walk("iap")
    recording.steps[150] = replace(recording.steps[150], sent=False)
    entries = entries_of(recording, "iap")
    assert recording.steps[150].kp.any()
    for path in ("joints/FR/target", "gains/kp", "gains/kd"):
        values = numbers(entries, path)
        assert np.flatnonzero(np.isnan(values).all(1)).tolist() == [150]


def test_the_cause_of_the_end_follows_the_last_step() -> None:
    recording = walk("iap")
    recording.endings[recording.steps[0].session] = "limp: two publish joint_command"
    entries = entries_of(recording, "iap")
    assert lines(entries)[-1] == ("INFO", "limp: two publish joint_command")
    (line,) = [each for each in entries if isinstance(each, Line) and "two" in each.text]
    assert line.time_s == recording.steps[-1].inputs.reading.time_s


def test_damage_of_the_file_is_shown_after_the_last_step() -> None:
    recording = walk("iap")
    recording.damaged = True
    assert lines(entries_of(recording, "iap"))[-1] == (
        "WARN",
        "the file is damaged after this step",
    )


def test_a_bundle_of_another_robot_is_not_shown() -> None:
    with pytest.raises(UserError, match="a1 was recorded, bundle 'walk-go2' is for go2"):
        entries_of(walk("walk"), "walk-go2")


def test_names_have_units_and_every_path_has_a_plot() -> None:
    for policy in ("iap", "navigator"):
        named: dict[str, tuple[str, ...]] = {}
        for entry in entries_of(walk(policy), policy):
            if isinstance(entry, Numbers):
                assert named.setdefault(entry.path, entry.names) == entry.names
                assert len(entry.values) == len(entry.names)
        places = [f"{path}/" for path in PLOTS.values()]
        for path, names in named.items():
            here = [place for place in places if f"{path}/".startswith(place)]
            assert len(here) == 1 or path == "gains/kd"
            title = next((t for t, p in PLOTS.items() if [f"{p}/"] == here), "")
            assert all("[" in name or "[" in title for name in names)
        assert named["joints/RL/angle"][2] == f"{A1.joint_names[11]} angle"


def test_another_policy_is_shown_if_its_images_have_the_same_shape() -> None:
    assert entries_of(walk("iap"), "sit")
    with pytest.raises(UserError, match=r"\(32, 32, 3\) were recorded, bundle 'iap-depth' expects"):
        entries_of(walk("iap"), "iap-depth")


def test_the_layout_for_foxglove_shows_recorded_topics() -> None:
    recorded = set(TYPES)
    assert foxglove.topics("Recording") <= recorded
    assert recorded - foxglove.topics("Recording") == {"imu/data", "cmd_vel"}
    below = [panel for panels in foxglove.tabs().values() for panel in panels]
    assert sorted([*below, foxglove.LAYOUT["layout"]]) == sorted(foxglove.PANELS)
    missing = {path for panel in foxglove.tabs()["Recording"] for path in foxglove.paths(panel)}
    for topic, message in decoded(("iap", "iap-rgbd")):
        missing -= {path for path in missing if foxglove.found(path, topic, message)}
    missing.discard("local_map")  # these recordings are older
    # Those of the command, which these recordings lack, have its type in common with joint_states.
    assert {path.replace(COMMAND, JOINTS) for path in missing} <= {
        f"{JOINTS}.position[{i}]" for i in range(12)
    }


STARTED = """
import sys, time
from types import SimpleNamespace
from pixelgait.robot.viewing import rerun_viewer
rerun_viewer.find_spec = lambda name: SimpleNamespace(origin=sys.argv[1])
print(rerun_viewer._window(1234).pid, flush=True)
time.sleep(60.0)
"""


def test_the_window_is_for_this_computer_alone_and_ends_with_the_command(tmp_path: Path) -> None:
    stand_in = tmp_path / "rerun"
    stand_in.write_text('#!/bin/sh\necho "$@" > "$0.arguments"\nexec sleep 61\n')
    stand_in.chmod(0o755)
    command = [sys.executable, "-c", STARTED, str(tmp_path / "__init__.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) as p:
        assert p.stdout is not None
        window = int(p.stdout.readline())
        arguments = Path(f"{stand_in}.arguments")
        wait_for(arguments.exists)
        assert alive(window)
        p.kill()
    wait_for(lambda: not alive(window))
    assert arguments.read_text() == "--bind 127.0.0.1 --port 1234 --hide-welcome-screen\n"


# With Rerun itself: make view


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder, where Rerun would keep settings and reports."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def rows(path: Path) -> Iterator[tuple[str, int]]:
    """Number of rows by entity path of a Rerun file, without static ones."""
    from rerun.chunk import RrdReader

    for chunk in RrdReader(path).stream().to_chunks():
        if not chunk.is_static:
            yield chunk.entity_path, chunk.num_rows


@pytest.mark.view
@pytest.mark.parametrize("policy", ["iap", "navigator"])
def test_rerun_reads_back_all_entries(policy: str, tmp_path: Path, home: Path) -> None:
    file = tmp_path / "walk.rrd"
    line = [RECORDINGS / f"{policy}.mcap", "--bundle", policy, "--save", file]
    environment = {k: v for k, v in child_environment().items() if k != "CI"}
    done = subprocess.run(
        [sys.executable, "-m", "pixelgait.robot.ros.view", *map(str, line)],
        capture_output=True,
        text=True,
        env={**environment, "HOME": str(home)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"wrote {file}\n"
    read: Counter[str] = Counter()
    for path, count in rows(file):
        read[path] += count
    wanted = Counter(f"/{entry.path}" for entry in entries_of(walk(policy), policy))
    assert {path: read[path] for path in wanted} == wanted
    assert not list(home.rglob("*"))  # neither settings nor what was used
    assert [each.name for each in tmp_path.iterdir() if each != home] == ["walk.rrd"]


@pytest.mark.view
def test_without_a_window_there_is_one_line_and_no_report(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(UserError, match=r"window does not open.*--save FILE\.rrd"), shown():
        pass
    assert os.environ["CI"]  # which the window inherits
    assert not list(home.rglob("analytics*"))
