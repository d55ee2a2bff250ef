"""Who else is on a Go2's DDS: processes that listen; a stand-in that is told what to say."""

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
