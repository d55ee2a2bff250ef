"""Who else is on a Go2's DDS: processes that listen, deny, meddle, or tell what is not so."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import dataclass

from tests.ros.support import WORKER, Processes

# A new domain for every test: who is killed stays known in the old one for 10 s.
DOMAINS = itertools.cycle(range(103 + WORKER % 4, 151, 4))

# What somebody else hears of commands until told to stop: how many, how many of them a robot would
# obey, of those how many make joints stiff and damp, and when the first came.
LISTEN = """
import sys, threading, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus, sample_type
from pixelgait.robot.unitree import messages as go2
bus = Bus(parse_link(sys.argv[1]))
reader = bus.reader("rt/lowcmd", sample_type(go2.LOW_CMD))
print("listening", flush=True)
told, heard, first_s = threading.Event(), [], 0.0
threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
while not told.is_set():
    new = [each.record for each in reader.take(N=16) if hasattr(each, "record")]
    first_s = first_s or (time.monotonic() if new else 0.0)
    heard += new
    time.sleep(0.0005)
right = [
    each["motor_cmd"]
    for each in heard
    if go2.checksum(each) == each["crc"]
    and tuple(each["head"]) == go2.HEAD
    and each["level_flag"] == go2.LOW_LEVEL
]
stiff = sum(bool(motors["kp"].any()) for motors in right)
damping = sum(bool(motors["kd"].any() and not motors["kp"].any()) for motors in right)
print("heard", len(heard), len(right), stiff, damping, first_s, flush=True)
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
# Somebody else who can command the motors, and does every so many seconds, or never.
MEDDLE = """
import sys, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus, sample_type
from pixelgait.robot.unitree import messages as go2
bus, kind = Bus(parse_link(sys.argv[1])), sample_type(go2.LOW_CMD)
writer = bus.writer("rt/lowcmd", kind)
while True:
    time.sleep(float(sys.argv[2]))
    writer.write(kind(go2.Codec(go2.LOW_CMD).new()))
"""
# The stand-in, whose states tell as well what standard input says: lines as "buttons 4".
BENT = """
import sys, threading
from pixelgait.robot.unitree import messages as go2
from pixelgait.sim import node
from pixelgait.sim.standin import go2 as standin

class Bent(standin.Go2Wire):
    buttons, charge, heat, damage = 0, 80, 30, 0

    def _tell(self, record):
        record["wireless_remote"][2:4] = list(self.buttons.to_bytes(2, "little"))
        record["bms_state"]["soc"], record["motor_state"]["temperature"][4] = self.charge, self.heat
        record["crc"] = go2.checksum(record) ^ self.damage
        self._writer.write(self._states(record))

def heed():
    for line in sys.stdin:
        name, value = line.split()
        setattr(Bent, name, int(value))

standin.Go2Wire = Bent
threading.Thread(target=heed, daemon=True).start()
node.main()
"""


@dataclass(frozen=True)
class Heard:
    """Commands, those that a robot obeys, of those stiff ones and damping ones."""

    heard: int
    right: int
    stiff: int
    damping: int
    first_s: float  # monotonic; 0 if there were none


class Listener:
    """Somebody else who hears commands from now on."""

    def __init__(self, processes: Processes, link: str) -> None:
        self.process = processes.script(LISTEN, link)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "listening\n"

    def heard(self) -> Heard:
        """Until now; then it is over."""
        tell(self.process, "stop")
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.fullmatch(r"heard (\d+) (\d+) (\d+) (\d+) ([\d.]+)\n", said)
        assert found, said
        *counts, first_s = found.groups()
        return Heard(*map(int, counts), first_s=float(first_s))


def tell(process: subprocess.Popen[str], line: str) -> None:
    """A line to its standard input."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def press(robot: subprocess.Popen[str], buttons: int) -> None:
    """Of its remote: down until others are."""
    tell(robot, f"buttons {buttons}")
