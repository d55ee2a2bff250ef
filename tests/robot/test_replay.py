"""Replay of a recorded walk of every shipped policy: its commands have not changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from pixelgait.robot.bundle import load_bundle, shipped_names
from pixelgait.robot.errors import UserError
from pixelgait.robot.recording.messages import SEEN, SEEN_DEPTH, image_messages
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.replay import format_figures, replay, replayed

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
POLICIES = shipped_names()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_shipped_policy_reproduces_its_recorded_commands(policy: str) -> None:
    recording = read_recording(RECORDINGS / f"{policy}.mcap")
    figures = replay(recording, load_bundle(policy))
    assert figures["complete"]
    assert figures["steps"] > 180
    assert figures["decisions"] > 1 or policy.startswith("walk")  # without a high level
    anew = "a policy trained anew, or another controller on purpose: make recordings"
    assert not figures["different"], anew


@pytest.mark.parametrize("policy", [name for name in POLICIES if name.startswith("walk")])
def test_gains_equal_the_recorded_ones(policy: str) -> None:
    """Bit for bit on every processor, from standing up on."""
    recording = read_recording(RECORDINGS / f"{policy}.mcap")
    stiffness = set()
    for step in replayed(recording, load_bundle(policy)):
        assert step.result is not None
        assert step.result.command.kp.tobytes() == step.recorded.kp.tobytes()
        assert step.result.command.kd.tobytes() == step.recorded.kd.tobytes()
        stiffness.add(step.result.command.kp.tobytes())
    assert len(stiffness) == 50


@pytest.mark.parametrize("gain", ["kp", "kd"])
def test_a_different_gain_is_a_difference(gain: str) -> None:
    recording = read_recording(RECORDINGS / "walk.mcap")
    first = recording.steps[0]
    recording.steps[0] = replace(first, **{gain: np.nextafter(getattr(first, gain), np.inf)})
    different, *_ = replay(recording, load_bundle("walk"))["differences"]
    assert different["time_s"] == first.inputs.reading.time_s


def test_rounding_of_another_processor_is_no_difference() -> None:
    recording, bundle = read_recording(RECORDINGS / "walk.mcap"), load_bundle("walk")
    last = recording.steps[-1]
    recording.steps[-1] = replace(last, targets=last.targets + 3e-6)
    figures = replay(recording, bundle)
    assert (figures["rounded"] > 0, figures["different"]) == (True, 0)
    assert "walk commands the same, but for rounding in" in format_figures(figures)
    recording.steps[-1] = replace(last, targets=last.targets + 1e-3)
    figures = replay(recording, bundle)
    assert figures["different"] == 1
    assert "walk commands something else in 1 steps" in format_figures(figures)
    recording.steps[-1] = replace(last, targets=last.targets + 3e-6, state="limp")
    assert replay(recording, bundle)["different"] == 1


@pytest.mark.parametrize(("policy", "first", "lost"), [("walk", 160, 20), ("iap", 90, 30)])
def test_steps_after_a_gap_are_not_compared_before_the_next_activation(
    policy: str, first: int, lost: int
) -> None:
    """Decisions and images of the gap are unknown; in iap's it contains the first image."""
    recording, bundle = read_recording(RECORDINGS / f"{policy}.mcap"), load_bundle(policy)
    whole = replay(recording, bundle)
    steps = recording.steps
    assert (whole["lost"], whole["compared"]) == (0, len(steps))
    recording.steps = [*steps[:first], *steps[first + lost :]]
    recording.steps[first] = replace(recording.steps[first], lost=lost)
    again = [replace(step, session=step.session + 1) for step in steps]
    recording.steps += again
    figures = replay(recording, bundle)
    assert not figures["complete"]
    assert (figures["lost"], figures["compared"]) == (lost, first + len(steps))
    assert not figures["different"]
    rest = len(steps) - first - lost
    line = f"{lost} steps are missing, {rest} after a gap are not compared"
    assert line in format_figures(figures).splitlines()


def test_a_recording_without_comparable_steps_is_reported() -> None:
    """The first step is lost, so all others are after a gap."""
    recording = read_recording(RECORDINGS / "walk.mcap")
    recording.steps[0] = replace(recording.steps[0], lost=3)
    figures = replay(recording, load_bundle("walk"))
    assert (figures["compared"], figures["different"]) == (0, 0)
    printed = format_figures(figures).splitlines()
    assert printed[-1] == "nothing could be compared"
    assert not any("bit for bit" in line for line in printed)


def test_the_end_of_a_walk_is_reported() -> None:
    recording = read_recording(RECORDINGS / "walk.mcap")
    recording.endings[1] = "limp: tilted by 1.50 rad"
    figures = replay(recording, load_bundle("walk"))
    assert figures["endings"] == ["limp: tilted by 1.50 rad"]
    assert format_figures(figures).splitlines()[1] == "ended: limp: tilted by 1.50 rad"


def test_damage_of_a_recording_is_reported() -> None:
    recording = read_recording(RECORDINGS / "walk.mcap")
    recording.finished, recording.damaged = False, True
    first, *_ = format_figures(replay(recording, load_bundle("walk"))).splitlines()
    assert first.endswith(" steps of walk, the file is damaged after them")


@pytest.mark.parametrize("policy", ["walk-go2", "walk-laikago"])
def test_a_bundle_of_another_robot_is_refused(policy: str) -> None:
    bundle = load_bundle(policy)
    with pytest.raises(UserError) as refused:
        replay(read_recording(RECORDINGS / "walk.mcap"), bundle)
    assert str(refused.value) == (
        f"{RECORDINGS / 'walk.mcap'}: a1 was recorded, bundle '{policy}' is for {bundle.spec.name}"
    )


def test_an_unknown_robot_is_refused() -> None:
    recording = read_recording(RECORDINGS / "walk.mcap")
    recording.joint_names = recording.joint_names[::-1]
    with pytest.raises(UserError, match="another robot was recorded, bundle 'walk' is for a1"):
        replay(recording, load_bundle("walk"))


def test_the_recordings_stay_small() -> None:
    assert max(path.stat().st_size for path in RECORDINGS.glob("*.mcap")) < 130_000


@pytest.mark.parametrize("policy", POLICIES)
def test_recorded_images_have_encodings_that_viewers_know(policy: str) -> None:
    """Foxglove and RViz know none with four channels of which the last is depth."""
    with (RECORDINGS / f"{policy}.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        messages = [
            (channel.topic, message)
            for _, channel, _, message in reader.iter_decoded_messages([SEEN, SEEN_DEPTH])
        ]
    channels = load_bundle(policy).image_shape[2]
    wanted = {1: {SEEN: "mono8"}, 3: {SEEN: "rgb8"}, 4: {SEEN: "rgb8", SEEN_DEPTH: "mono8"}}
    if messages:  # there is a high level
        assert {topic: message.encoding for topic, message in messages} == wanted[channels]
    recording = read_recording(RECORDINGS / f"{policy}.mcap")
    images = [step.inputs.reading.image() for step in recording.steps if step.decided]
    again = [part for image in images for part in image_messages(image)]
    for (topic, message), (same_topic, content) in zip(messages, again, strict=True):
        assert (topic, bytes(message.data)) == (same_topic, content["data"])
