"""Processes on a Go2's DDS: a listener of commands, and a simulated Go2 with adjustable states."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import dataclass

from tests.ros.support import WORKER, Processes

# A new domain for every test: a killed process stays visible in the old one for 10 s.
DOMAINS = itertools.cycle(range(103 + WORKER % 4, 151, 4))

# Receives commands until `stop`: counts of all, of valid ones, of those of stiff and of damping
# ones, and the time of the first.
LISTEN = """
import sys, threading, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus
from pixelgait.robot.unitree import messages as go2
bus = Bus(parse_link(sys.argv[1]))
reader = bus.reader("rt/lowcmd", go2.LOW_CMD)
print("listening", flush=True)
told, heard, first_s = threading.Event(), [], 0.0
threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
while not told.is_set():
    new = [each.record for each in reader.take(N=16)]
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
    """Numbers of commands: all, valid, stiff, damping; time of the first."""

    heard: int
    right: int
    stiff: int
    damping: int
    first_s: float  # monotonic; 0 if there were none


class Listener:
    """A process that receives commands from now on."""

    def __init__(self, processes: Processes, link: str) -> None:
        self.process = processes.script(LISTEN, link)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "listening\n"

    def heard(self) -> Heard:
        """The counts so far; ends the process."""
        tell(self.process, "stop")
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.fullmatch(r"heard (\d+) (\d+) (\d+) (\d+) ([\d.]+)\n", said)
        assert found, said
        *counts, first_s = found.groups()
        return Heard(*map(int, counts), first_s=float(first_s))


def tell(process: subprocess.Popen[str], line: str) -> None:
    """Write a line to a process's standard input."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def press(robot: subprocess.Popen[str], buttons: int) -> None:
    """Hold these buttons of its remote, until the next call."""
    tell(robot, f"buttons {buttons}")
