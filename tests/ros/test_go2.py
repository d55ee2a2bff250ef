"""The unchanged node on a Go2's own DDS: it walks the stand-in, and every fault ends safe."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ros.support import AUTO, PATIENT, Client, Processes

# Of its own for every worker beside this one.
LINK = f"go2:lo:{101 + int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw'))}"
STATE_AGES = ("ageing_s.lowstate:=1.0", "stale_s.lowstate:=1.5", "timeout_s.lowstate:=2.0")
PATIENT_GO2 = (*PATIENT, *(part for each in STATE_AGES for part in ("-p", each)))
AUTO_GO2 = ("--auto-arm", *PATIENT_GO2)

# How many commands somebody else hears, how many of them a robot would obey, and make joints stiff.
LISTEN = """
import sys, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus, sample_type
from pixelgait.robot.unitree import messages as go2
bus = Bus(parse_link(sys.argv[1]))
reader = bus.reader("rt/lowcmd", sample_type(go2.LOW_CMD))
print("listening", flush=True)
heard, until = [], time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    heard += [each.record for each in reader.take(N=16) if hasattr(each, "record")]
    time.sleep(0.0005)
right = sum(
    go2.checksum(each) == each["crc"]
    and tuple(each["head"]) == go2.HEAD
    and each["level_flag"] == go2.LOW_LEVEL
    for each in heard
)
stiff = sum(bool(each["motor_cmd"]["kp"].any()) for each in heard)
print("heard", len(heard), "right", right, "stiff", stiff)
"""
# A robot whose own program does not let go: its motion switcher answers that a release failed.
DENY = """
import json, sys, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree import services as it
from pixelgait.robot.unitree.dds import Bus
bus = Bus(parse_link(sys.argv[1]))
asked, answered = it.topics(it.SWITCHER)
requests, responses = bus.reader(asked, it.Request), bus.writer(answered, it.Response)
while True:
    asking = [each for each in requests.take(N=10) if hasattr(each, "header")]
    for identity in [each.header.identity for each in asking]:
        status = it.ResponseStatus(0 if identity.api_id == it.CHECK_MODE else 7008)
        mode = json.dumps({"form": "0", "name": "ai"})
        responses.write(it.Response(it.ResponseHeader(identity, status), mode, []))
    time.sleep(0.01)
"""
# Somebody else who commands the motors.
MEDDLE = """
import sys, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus, sample_type
from pixelgait.robot.unitree import messages as go2
bus, kind = Bus(parse_link(sys.argv[1])), sample_type(go2.LOW_CMD)
writer = bus.writer("rt/lowcmd", kind)
while True:
    writer.write(kind(go2.Codec(go2.LOW_CMD).new()))
    time.sleep(0.01)
"""

# A robot that lies still; from a signal on, its checksums are wrong.
DAMAGED = """
import signal, sys, time
from pixelgait.robot.spec import GO2
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus, sample_type
from pixelgait.robot.unitree import messages as go2
bus, kind, damage = Bus(parse_link(sys.argv[1])), sample_type(go2.LOW_STATE), [0]
signal.signal(signal.SIGUSR1, lambda *_: damage.__setitem__(0, 1))
writer, began_s = bus.writer("rt/lowstate", kind), time.monotonic()
while True:
    state = go2.Codec(go2.LOW_STATE).new()
    state["tick"] = round(1e3 * (time.monotonic() - began_s))
    state["imu_state"]["quaternion"] = 1, 0, 0, 0
    state["motor_state"]["q"][:12] = GO2.default_pose_rad
    state["crc"] = go2.checksum(state) ^ damage[0]
    writer.write(kind(state))
    time.sleep(0.004)
"""


def start_listening(
    processes: Processes, seconds: float, link: str = LINK
) -> subprocess.Popen[str]:
    """Somebody else who hears commands from now on for so long."""
    line = [sys.executable, "-c", LISTEN, link, str(seconds)]
    pipe = subprocess.PIPE
    listener = subprocess.Popen(line, stdout=pipe, text=True, env=processes.environment)
    assert listener.stdout is not None
    assert listener.stdout.readline() == "listening\n"
    return listener


def heard_by(listener: subprocess.Popen[str]) -> tuple[int, int, int]:
    """Commands it has heard, those with the right head, level and checksum, stiff ones."""
    said, _ = listener.communicate(timeout=60)
    found = re.search(r"heard (\d+) right (\d+) stiff (\d+)", said)
    assert found, said
    heard, right, stiff = (int(number) for number in found.groups())
    return heard, right, stiff


def test_the_shipped_policy_walks_past_obstacles(
    processes: Processes, client: Client, tmp_path: Path
) -> None:
    out = tmp_path / "sim"
    sim = processes.start("pixelgait-sim", "--robot", "go2", "--link", LINK, "--out", out)
    run = processes.start(
        "pixelgait-run", "iap-depth-go2", "--link", LINK, "--duration", 8, *AUTO_GO2
    )
    assert run.wait(90) == 0
    sim.send_signal(signal.SIGINT)
    assert sim.wait(20) == 0
    path = np.load(out / "trajectory.npz")["path"]
    assert path[-1, 1] - path[0, 1] > 1.0  # [m] ahead
    assert not client.commands  # nothing goes to the topics of another link


def test_nothing_is_sent_before_it_is_armed(processes: Processes, client: Client) -> None:
    """And once it is: at 500 Hz, though the policy decides at 100."""
    processes.start("pixelgait-sim", "--robot", "go2", "--link", LINK, "--scene", "flat")
    processes.start("pixelgait-run", "walk-go2", "--link", LINK, *PATIENT_GO2)
    client.wait_for_state("limp")
    assert heard_by(start_listening(processes, 2.0)) == (0, 0, 0)
    assert client.order("arm")[0]
    assert client.order("stand_up")[0]
    client.wait_for_state("ready")
    for _ in range(10):  # a busy machine may take a while to keep up
        heard, right, stiff = heard_by(start_listening(processes, 3.0))
        assert heard == right == stiff > 0
        if heard > 400:
            break
    assert heard > 400  # 1500 on an idle machine; the policy's are 300


def test_a_real_robot_is_rehearsed_unless_told_otherwise(
    processes: Processes, client: Client
) -> None:
    """In the robots' own domain; its motors stay with its own program, which lets it stand."""
    from pixelgait.robot.ros.wire import common as ros

    real = "go2:lo:0"
    processes.start("pixelgait-sim", "--robot", "go2", "--link", real, "--scene", "flat")
    shadow: list[Any] = []
    client.node.create_subscription(
        ros.JointState, ros.SHADOW_COMMAND, shadow.append, ros.COMMAND_QOS
    )
    listener = start_listening(processes, 15.0, real)
    run = processes.start("pixelgait-run", "walk-go2", "--link", real, *AUTO_GO2)
    client.wait_for_state("walking")
    client.spin(lambda: any(message.position for message in shadow))
    assert heard_by(listener) == (0, 0, 0)
    run.send_signal(signal.SIGINT)
    assert run.wait(20) == 0
    assert run.stdout is not None
    assert "dry run: only with --arm" in run.stdout.read()


def test_a_stand_in_that_dies_damps_by_name(processes: Processes, client: Client) -> None:
    sim = processes.start("pixelgait-sim", "--robot", "go2", "--link", LINK, "--scene", "flat")
    run = processes.start("pixelgait-run", "walk-go2", "--link", LINK, *AUTO_GO2)
    client.wait_for_state("walking")
    listener = start_listening(processes, 10.0)
    sim.kill()
    assert run.wait(30) == 1
    heard, right, stiff = heard_by(listener)
    assert heard == right > stiff > 0  # in the end it damps
    assert run.stdout is not None
    assert "lowstate" in run.stdout.read().splitlines()[-1]


def test_motors_that_are_not_released_are_left_alone(processes: Processes, client: Client) -> None:
    denying = subprocess.Popen([sys.executable, "-c", DENY, LINK], env=processes.environment)
    try:
        listener = start_listening(processes, 12.0)
        run = processes.start("pixelgait-run", "walk-go2", "--link", LINK, *AUTO_GO2)
        assert run.wait(30) == 1
        assert run.stdout is not None
        last = run.stdout.read().splitlines()[-1]
        assert "'ai' keeps the motors (motion_switcher: call 1003 failed, 7008)" in last
        assert heard_by(listener) == (0, 0, 0)
    finally:
        denying.kill()
        denying.wait()


def test_somebody_else_who_commands_the_motors_ends_the_walk(
    processes: Processes, client: Client
) -> None:
    processes.start("pixelgait-sim", "--robot", "go2", "--link", LINK, "--scene", "flat")
    run = processes.start("pixelgait-run", "walk-go2", "--link", LINK, *AUTO_GO2)
    client.wait_for_state("walking")
    line = [sys.executable, "-c", MEDDLE, LINK]
    meddler = subprocess.Popen(line, env=processes.environment)
    try:
        assert run.wait(30) == 1
        assert run.stdout is not None
        assert "another program commands the motors on rt/lowcmd" in run.stdout.read()
    finally:
        meddler.kill()
        meddler.wait()


def test_states_with_a_wrong_checksum_are_no_news(processes: Processes, client: Client) -> None:
    line = [sys.executable, "-c", DAMAGED, LINK]
    damaged = subprocess.Popen(line, env=processes.environment)
    from pixelgait.robot.ros.wire import common as ros

    try:
        run = processes.start("pixelgait-run", "walk-go2", "--link", LINK, "--dry-run", *AUTO_GO2)
        shadow: list[Any] = []
        topic, kind = ros.SHADOW_COMMAND, ros.JointState
        client.node.create_subscription(kind, topic, shadow.append, ros.COMMAND_QOS)
        client.wait_for_state("walking")
        client.spin(lambda: any(message.position for message in shadow))
        damaged.send_signal(signal.SIGUSR1)
        assert run.wait(30) == 1
        assert run.stdout is not None
        last = run.stdout.read().splitlines()[-1]
        assert "lowstate" in last
        assert "what arrives has a wrong checksum" in last
    finally:
        damaged.kill()
        damaged.wait()


def test_another_robots_policy_is_refused(processes: Processes) -> None:
    """Its gait and gains would be wrong, and be obeyed."""
    run = processes.start("pixelgait-run", "walk", "--link", LINK, *AUTO_GO2)
    assert run.wait(60) == 1
    assert run.stdout is not None
    assert "contract.json: made for robot 'a1', not for 'go2'" in run.stdout.read().splitlines()[-1]


@pytest.mark.parametrize("dry", [True, False])
def test_without_a_robot_it_says_so(processes: Processes, dry: bool) -> None:
    """A dry run releases no motors, and waits for the sensors alone."""
    line = ("walk-go2", "--link", LINK, *(["--dry-run"] if dry else []), *AUTO[1:])
    run = processes.start("pixelgait-run", *line)
    assert run.wait(60) == 1
    assert run.stdout is not None
    expected = "no message on lowstate for 15 s" if dry else "motion_switcher: no answer"
    assert expected in run.stdout.read().splitlines()[-1]
