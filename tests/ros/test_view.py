"""pixelgait-view live: the topics of a walk between real processes; it never publishes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.runtime.latency import STAGES
from pixelgait.robot.spec import A1
from pixelgait.robot.viewing.entries import PLOTS, Entry, Line, Numbers, Picture
from tests import foxglove
from tests.ros.support import AUTO, DISCOVERY_S, Client, FakeRobot, Processes

NUMBERS = ("command", "decision", "latency", "longest", "period", "ages")  # besides joints


def test_all_topics_of_a_walk_are_received(processes: Processes, client: Client) -> None:
    from pixelgait.robot.ros.listener import Listener

    processes.start("pixelgait-sim", "--seed", 9000)
    entries: list[Entry] = []
    listener = Listener(entries.extend, load_bundle("iap"), client.context)
    processes.start("pixelgait-run", "iap", *AUTO)
    wanted = {"camera", "log", *NUMBERS, *(p for p in PLOTS.values() if p.startswith("joints"))}
    deadline = time.monotonic() + 2 * DISCOVERY_S
    while missing := [p for p in wanted if not any(e.path.startswith(p) for e in entries)]:
        assert time.monotonic() < deadline, missing
        listener.listen()
    listener.listen(2.0)
    now_s = client.node.get_clock().now().nanoseconds / 1e9
    assert all(now_s - 60.0 < entry.time_s < now_s + 1.0 for entry in entries)
    texts = [entry.text for entry in entries if isinstance(entry, Line)]
    assert "walking: ordered" in texts
    named = {entry.path: entry.names for entry in entries if isinstance(entry, Numbers)}
    newest = {entry.path: entry.values for entry in entries if isinstance(entry, Numbers)}
    assert named["latency"][0] == "sensor_to_command p99 [us]"
    assert 0.0 < newest["latency"][0] <= newest["longest"][0]
    assert named["period"] == ("p50 [us]", "p99 [us]", "max [us]")
    assert newest["period"][0] == pytest.approx(1e4, rel=0.5)
    assert named["ages"] == ("joint_states [s]", "imu/data [s]", "camera/color/image_raw [s]")
    assert 0.0 <= newest["command"][0] <= 0.6
    assert 0.1 <= newest["decision"][0] <= 8.0
    for leg, first in (("FR", 0), ("RL", 9)):
        for what in ("angle", "target"):
            assert newest[f"joints/{leg}/{what}"] == pytest.approx(
                A1.default_pose_rad[first : first + 3], abs=0.8
            )
    attended = [e.pixels for e in entries if isinstance(e, Picture)][-1]
    assert attended.shape == (256, 256, 3)
    assert (attended[..., 0] > attended[..., 1] + 50).any()  # something is red
    named_topics = {name for name, _ in client.node.get_topic_names_and_types()}
    assert foxglove.topics("Live") <= named_topics
    published = client.node.get_publisher_names_and_types_by_node("pixelgait_view", "/")
    assert {name for name, _ in published} <= {"/parameter_events"}  # rclpy's, of every node
    listener.close()


def test_a_damped_robot_a_plain_camera_and_a_bad_message(
    processes: Processes, client: Client, robot: FakeRobot, cnn_bundle: Path
) -> None:
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.ros.listener import Listener

    entries: list[Entry] = []
    listener = Listener(entries.extend, load_bundle(cnn_bundle), client.context)
    commands = client.node.create_publisher(ros2.JointState, ros2.JOINT_COMMAND, ros2.COMMAND_QOS)
    robot.encoding = "bayer_rggb8"

    def until(path: str, since: int) -> list[Entry]:
        deadline = time.monotonic() + DISCOVERY_S
        while not (found := [e for e in entries[since:] if e.path == path]):
            assert time.monotonic() < deadline
            commands.publish(ros2.joint_command(1, A1.joint_names, None, np.zeros(12)))
            client.spin_for(0.05)
            listener.listen(0.05)
        return found

    damped = until("joints/FR/target", 0)[0]
    assert isinstance(damped, Numbers)
    assert np.isnan(damped.values).all()
    line = until("log", 0)[0]
    assert isinstance(line, Line)
    assert line.level == "ERROR"
    assert line.text.startswith(
        "camera/color/image_raw: camera encoding 'bayer_rggb8' is not supported"
    )
    robot.encoding = "rgb8"
    picture = until("camera", len(entries))[0]
    assert isinstance(picture, Picture)
    assert picture.pixels.shape == (32, 32, 3)
    robot.names = ["wheel"] * 12
    since = len(entries)
    line = until("log", since)[0]
    assert isinstance(line, Line)
    assert "joint states lack FR_hip_joint" in line.text
    listener.close()


def test_missing_positions_are_a_line_of_the_log(client: Client) -> None:
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.ros.listener import Listener

    entries: list[Entry] = []
    listener = Listener(entries.extend, None, client.context)
    message = ros2.joint_command(1, A1.joint_names, np.zeros(5), np.zeros(12))
    for topic in (ros2.JOINT_STATES, ros2.JOINT_COMMAND):
        listener._receive(topic, message)
    listener.close()
    texts = [entry.text for entry in entries if isinstance(entry, Line)]
    assert texts[0] == f"{ros2.JOINT_STATES}: joint states need one position for every name"
    assert not any(isinstance(entry, Numbers) for entry in entries)


def test_pictures_go_on_after_the_clock_was_set_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pixelgait.robot.ros import listener as module
    from pixelgait.robot.ros.common import ros2

    entries: list[Entry] = []
    listener = module.Listener(entries.extend, load_bundle("iap"), client.context)
    picture = ros2.image_message(1, "camera", np.zeros((32, 32, 3), np.uint8))
    for now_s in (1000.0, 940.0):
        monkeypatch.setattr(ros2, "now_s", lambda _, now_s=now_s: now_s)
        listener._receive(ros2.COLOUR, picture)
        listener._receive(ros2.COLOUR, picture)  # too soon
        time.sleep(module.FRAME_S)
    listener.close()
    assert [type(entry) for entry in entries] == [Picture, Picture]


def test_messages_of_another_program_are_a_line_of_the_log(client: Client) -> None:
    """Messages of the right type with other content: the viewer goes on."""
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
    from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout

    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.ros.listener import Listener

    def latency(*labels: str, count: int) -> Float64MultiArray:
        layout = MultiArrayLayout(dim=[MultiArrayDimension(label=each) for each in labels])
        return Float64MultiArray(layout=layout, data=[0.0] * count)

    old = DiagnosticStatus(name="pixelgait: imu/data", values=[KeyValue(key="age_s", value="old")])
    foreign = [
        *(("pixelgait/decision", Float64MultiArray(data=[0.1] * n)) for n in (0, 2, 4)),
        ("pixelgait/latency", latency(count=3)),
        ("pixelgait/latency", latency("act,period", "p99_us,max_us", count=3)),
        ("pixelgait/latency", latency("act,period", "p50_us,max_us", count=4)),
        ("pixelgait/latency", latency("act,period", "p99_us,max_us", count=12)),
        ("/diagnostics", DiagnosticArray(status=[old])),
        (ros2.COLOUR, ros2.Image(encoding="rgb8")),
        (ros2.ATTENTION, ros2.Image(encoding="rgb8")),
    ]
    entries: list[Entry] = []
    listener = Listener(entries.extend, None, client.context)
    for topic, message in foreign:
        listener._receive(topic, message)
    texts = [entry.text for entry in entries if isinstance(entry, Line)]
    foreign = "unexpected content: published by another program or version?"
    assert texts[:3] == [
        *(f"pixelgait/{name}: {foreign}" for name in ("decision", "latency")),
        f"/diagnostics: {foreign}",
    ]
    assert [type(entry) for entry in entries[:3]] == 3 * [Line]  # each is logged once
    listener._receive("pixelgait/decision", Float64MultiArray(data=[0.1, 0.2, 0.3]))
    assert {"command", "decision"} <= {entry.path for entry in entries}
    listener.close()


def test_the_layout_for_foxglove_names_the_rows_of_live_latency() -> None:
    from pixelgait.robot.ros.monitoring.status_topics import LATENCY_COLUMNS

    columns, rows = list(LATENCY_COLUMNS), [*STAGES, "period"]
    panels = [foxglove.PANELS[f"Plot!live-{name}"]["paths"] for name in ("latency", "period")]
    for path in (path for panel in panels for path in panel):
        row, column = divmod(int(path["value"].split("[")[1].rstrip("]")), len(columns))
        *stage, name, _ = path["label"].split()  # as in "observe p99 [us]"
        assert (rows[row], columns[column]) == (*(stage or ["period"]), f"{name}_us")
    assert [len(panel) for panel in panels] == [len(STAGES), len(columns)]
