"""The vendor's Python SDK as a client of the simulated Go2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ros.support import Client, Processes

SDK = "unitree-sdk2py-dimos==1.0.3"  # the vendor's Python SDK, its crc libraries included
# States for 2 s, the motion switcher, then its stand: to a crouch, up, and held, as its example
# does (kp 60, kd 5). Prints what it saw as JSON, then keeps the robot standing.
CLIENT = """
import json, sys, time
from unitree_sdk2py.core.channel import ChannelFactoryInitialize, ChannelPublisher
from unitree_sdk2py.core.channel import ChannelSubscriber
from unitree_sdk2py.comm.motion_switcher.motion_switcher_client import MotionSwitcherClient
from unitree_sdk2py.idl.default import unitree_go_msg_dds__LowCmd_
from unitree_sdk2py.idl.unitree_go.msg.dds_ import LowCmd_, LowState_
from unitree_sdk2py.utils.crc import CRC

ChannelFactoryInitialize(int(sys.argv[1]), "lo")
crc, states = CRC(), []
subscriber = ChannelSubscriber("rt/lowstate", LowState_)
subscriber.Init(states.append, 10)
switcher = MotionSwitcherClient()
switcher.SetTimeout(10.0)
switcher.Init()
end_s = time.monotonic() + 30.0
while not states and time.monotonic() < end_s:
    time.sleep(0.05)
first, begin_s = len(states), time.monotonic()
time.sleep(2.0)
rate_hz = (len(states) - first) / (time.monotonic() - begin_s)
wrong = sum(crc.Crc(each) != each.crc for each in states)
modes = [switcher.CheckMode()]
released = switcher.ReleaseMode()
modes.append(switcher.CheckMode())
publisher = ChannelPublisher("rt/lowcmd", LowCmd_)
publisher.Init()
command = unitree_go_msg_dds__LowCmd_()
command.head[0], command.head[1], command.level_flag = 0xFE, 0xEF, 0xFF
angles = [each.q for each in states[-1].motor_state[:12]]
poses = [angles, [0.0, 1.36, -2.65] * 4, [0.0, 0.67, -1.3] * 4]
began_s = time.monotonic()
said = False
while True:
    elapsed_s = time.monotonic() - began_s
    phase = min(elapsed_s / 1.0, 1.9999)
    before, after = poses[int(phase)], poses[int(phase) + 1]
    share = phase - int(phase)
    for i in range(12):
        motor = command.motor_cmd[i]
        motor.mode, motor.dq, motor.tau, motor.kp, motor.kd = 1, 0.0, 0.0, 60.0, 5.0
        motor.q = before[i] + share * (after[i] - before[i])
    command.crc = crc.Crc(command)
    publisher.Write(command)
    stands = abs(states[-1].motor_state[2].q - poses[2][2]) < 0.2
    if elapsed_s > 4.0 and not said and (stands or elapsed_s > 30.0):
        said = True
        found = {"rate_hz": rate_hz, "wrong": wrong, "modes": modes, "released": released}
        print(json.dumps({**found, "knee": states[-1].motor_state[2].q}), flush=True)
    time.sleep(0.002)
"""


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the SDK alone: it uses the DDS of this environment."""
    folder = tmp_path_factory.mktemp("sdk")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, SDK]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{SDK} cannot be installed: {done.stderr.splitlines()[-1]}")
    return folder


@pytest.mark.long
def test_the_vendors_sdk_stands_the_robot_up(
    processes: Processes, client: Client, link: str, heights: list[float], sdk: Path
) -> None:
    processes.start("pixelgait-sim", "--robot", "go2", "--link", link, "--scene", "flat")
    client.spin(lambda: heights)
    processes.environment["PYTHONPATH"] = f"{sdk}:{processes.environment.get('PYTHONPATH', '')}"
    vendor = processes.script(CLIENT, link.rpartition(":")[2])
    assert vendor.stdout is not None
    said = next(line for line in vendor.stdout if line.startswith("{"))
    found = json.loads(said)
    assert found["rate_hz"] > 50.0  # 500 on an idle machine
    assert found["wrong"] == 0
    assert found["modes"] == [[0, {"form": "0", "name": "normal"}], [0, {"form": "0", "name": ""}]]
    assert found["released"] == [0, None]
    assert found["knee"] == pytest.approx(-1.3, abs=0.2)
    client.spin(lambda: heights[-1] > 0.3)
