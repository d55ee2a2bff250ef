"""Faults of a Unitree Go2 over DDS, where one more program receives all commands."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.ros.common.discovery import OwnDomain
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.remote import STOP
from tests.faults.driver import ReceivedCommand
from tests.faults.observer import CommandMonitor, order, stopped_for
from tests.faults.trial import (
    DAMPS,
    ENDS,
    RESTS,
    SILENT,
    SINKS,
    WALKS,
    Case,
    StandInTrial,
    to_robot,
)

# Domains that neither ROS 2 nor the tests use.
DOMAINS = itertools.cycle(random.sample(range(151, 201), 50))
KEPT = 2000  # commands between two reads: 4 s
DECIMALS = 6  # of an angle as float32

# Another program that can command the motors, and does so every given seconds.
MEDDLE = """
import sys, time
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.unitree.dds import Bus
from pixelgait.robot.unitree import messages as go2
bus = Bus(parse_link(sys.argv[1]))
writer = bus.writer("rt/lowcmd", go2.LOW_CMD)
while True:
    time.sleep(float(sys.argv[2]))
    writer.write(go2.LOW_CMD.new())
"""
# As unitree_mujoco: without services. Its C++ bridge (cpp) has simulated time as tick; its Python
# bridge (python) neither tick nor checksum. Neither reports a battery.
MUJOCO = """
import sys
from pixelgait.robot.unitree import messages as go2
from pixelgait.sim.ros import node
from pixelgait.sim.ros import go2 as standin

bridge = sys.argv.pop(1)

class Bridge(standin.Go2Wire):
    services = ()

    def _write(self, record):
        record["bms_state"]["soc"] = record["power_v"] = 0
        record["motor_state"]["temperature"] = 0
        record["tick"] = self._steps * 2 if bridge == "cpp" else 0
        record["crc"] = go2.checksum(record) if bridge == "cpp" else 0
        self._writer.write(record)

standin.Go2Wire = Bridge
node.main()
"""
# The simulated robot with states altered by lines on standard input, as "buttons 4". With "stubborn
# 1" the robot's own program keeps the motors: the motion switcher answers with an error.
BENT = """
import sys, threading
import numpy as np
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.services import RELEASE_MODE
from pixelgait.sim.ros import node
from pixelgait.sim.ros import go2 as standin

class Bent(standin.Go2Wire):
    buttons, charge, heat, damage, nan, silent, stubborn = 0, 80, 30, 0, 0, 0, 0
    ahead, right = 0, 0  # deflections of sticks, percent

    def _answer(self, service, api, parameter):
        if self.stubborn and api == RELEASE_MODE:
            return 7008, {}
        return super()._answer(service, api, parameter)

    def _write(self, record):
        if self.silent:
            return
        record["wireless_remote"][2:4] = list(self.buttons.to_bytes(2, "little"))
        sticks = np.array((self.right, 0, 0, self.ahead), "<f4") / 100
        record["wireless_remote"][8:24] = list(sticks.tobytes())
        record["bms_state"]["soc"], record["motor_state"]["temperature"][4] = self.charge, self.heat
        if self.nan:
            record["motor_state"]["q"][1] = float("nan")
        record["crc"] = go2.checksum(record) ^ self.damage
        self._writer.write(record)

def read_input():
    for line in sys.stdin:
        name, value = line.split()
        setattr(Bent, name, int(value))

standin.Go2Wire = Bent
threading.Thread(target=read_input, daemon=True).start()
node.main()
"""


class BusMonitor(CommandMonitor):
    """One more program on the bus, which receives all commands.

    Commands without the head are dropped, as a robot drops them.
    """

    period_s = 0.001

    def __init__(self, link: str, joints: int) -> None:
        from cyclonedds.core import Policy, Qos

        from pixelgait.robot.unitree.dds import Bus
        from pixelgait.robot.unitree.sender import COMMAND

        super().__init__()
        self.received: list[ReceivedCommand] = []
        self.wrong = 0  # commands that a robot drops
        self._joints = joints
        self._bus = Bus(parse_link(link))  # type: ignore[arg-type]
        kept = Qos(Policy.History.KeepLast(KEPT))
        self._reader = self._bus.reader(COMMAND, go2.LOW_CMD, kept)
        self.listen()

    def close(self) -> None:
        super().close()
        self._bus.close()

    def receive(self) -> None:
        for sample in self._reader.take(N=KEPT):
            if tuple(sample.record["head"]) == go2.HEAD:
                self._receive(sample.record, sample.sent_s)

    def _receive(self, record: go2.Record, sent_s: float) -> None:
        whole = record["level_flag"] == go2.LOW_LEVEL and record["crc"] == go2.checksum(record)
        motors = record["motor_cmd"][: self._joints]
        stiff, resists = bool(motors["kp"].any()), bool(motors["kd"].any())
        if not whole or not (stiff or resists):
            self.wrong += 1
            return
        targets = motors["q"].astype(np.float64).round(DECIMALS) if stiff else None
        self.received.append(ReceivedCommand(time.monotonic(), sent_s, targets))


class Go2Trial(StandInTrial):
    """A trial over a Go2's DDS, in a domain of its own."""

    script = BENT

    def __init__(self, case: Case, bundle: Bundle, folder: Path) -> None:
        super().__init__(case, bundle, folder)
        self._dds = OwnDomain(DOMAINS)
        self.link = f"{case.link}:{self._dds.number}"
        self._monitor = BusMonitor(self.link, len(bundle.spec.joint_names))

    @property
    def received(self) -> Sequence[ReceivedCommand]:
        return self._monitor.received

    def problem(self) -> str:
        wrong = self._monitor.wrong
        return super().problem() or (f"{wrong} commands that a robot drops" if wrong else "")

    def close(self) -> None:
        """End all processes of this case."""
        self._monitor.close()
        super().close()
        self._dds.close()


def denies(trial: Go2Trial) -> None:
    """Fault: the robot's own program keeps the motors."""
    trial.start_robot()
    trial.tell("stubborn 1")


def meddles(trial: Go2Trial, every_s: float = 0.01) -> None:
    """Fault: another program commands the motors."""
    trial.start("-c", MEDDLE, trial.link, str(every_s))


def could_meddle(trial: Go2Trial) -> None:
    """Fault: another program could command the motors."""
    trial.start_robot()
    meddles(trial, 1000.0)


def empty(trial: Go2Trial) -> None:
    """Fault: the battery is empty."""
    trial.start_robot()
    trial.tell("charge 2")


def garbled(trial: Go2Trial) -> None:
    """Fault: every state has a wrong checksum."""
    trial.start_robot()
    trial.tell("damage 1")


UNFIT = "the robot must not stand"
CHECKSUM = "what arrives has a wrong checksum"
MEDDLED = "another program commands the motors on rt/lowcmd: "
WALKS_GO2 = "walk-go2"
row = partial(Case, bundle=WALKS_GO2, link="go2:lo", trial=Go2Trial, watch_s=4.0)
start = partial(row, expected=SILENT, at_start=True, watch_s=40.0)
GO2_FAULTS = [
    row("the robot is gone", StandInTrial.vanish, DAMPS, "lowstate is silent", watch_s=7.0),
    row("states end, motors follow", to_robot("silent 1"), DAMPS + SINKS, "lowstate is silent"),
    row("states of a wrong checksum", to_robot("damage 1"), DAMPS + SINKS, CHECKSUM),
    row("a joint angle that is NaN", to_robot("nan 1"), DAMPS + SINKS, "not finite"),
    row("another program commands", meddles, DAMPS + SINKS, MEDDLED, watch_s=6.0),
    row("battery at 2 %", to_robot("charge 2"), DAMPS + SINKS, UNFIT, watch_s=6.0),
    row("a motor of 95 deg C", to_robot("heat 95"), DAMPS + SINKS, UNFIT, watch_s=6.0),
    row("L2 and B on the remote", to_robot(f"buttons {STOP}"), DAMPS + SINKS, "by remote control"),
    row("emergency stop by service", order("emergency_stop"), DAMPS + SINKS, "stopped: "),
    row("stopped for 1 s", stopped_for(1.0), RESTS + SINKS),
    row("stopped for 0.05 s", stopped_for(0.05), WALKS),
    row("kill -9", lambda t: t.signal(signal.SIGKILL), ENDS + SINKS),
    row("SIGINT", lambda t: t.signal(signal.SIGINT), DAMPS + SINKS),
    start("at the start no robot", lambda t: None, says="no message on lowstate"),
    start("at the start its own program keeps the motors", denies, says="keeps the motors"),
    start("at the start another program could command", could_meddle, says=MEDDLED),
    start("at the start states of a wrong checksum", garbled, says=CHECKSUM),
    start("at the start battery at 2 %", empty, says=UNFIT),
    start("a bundle of another robot", lambda t: None, says="made for robot 'a1'", bundle="walk"),
    start("not armed", Go2Trial.start_robot, says="limp: ", watch_s=10.0, arguments=()),
]  # fmt: skip
