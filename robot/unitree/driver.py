"""A Go2's motors and sensors over its own DDS, as the driver of a link."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from threading import Event

import numpy as np
from cyclonedds.core import Policy, Qos

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.safety.sensor_age import Freshness
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.address import SENSOR
from pixelgait.robot.unitree.dds import Bus, newest, sample_type
from pixelgait.robot.unitree.handover import Handover
from pixelgait.robot.unitree.messages import Record
from pixelgait.robot.unitree.robot_clock import TickClock, raw_s
from pixelgait.robot.unitree.sender import COMMAND, CommandSender

STATE = "rt/lowstate"
# No robot is started so often while one listens; ours. One whose motors we have, not once: its own
# program has them then.
MANY_RESTARTS = 3
DISCOVERY_S = 0.3  # for whoever else writes; the vendor's programs listen for 0.2 s
# Our own commands are none of its, those of any other process are.
OTHERS_ALONE = Qos(Policy.IgnoreLocal.Participant)
IN_ORDER = (1, 2, 3, 0)  # w x y z as x y z w


class Go2Driver:
    """The `Driver` behind rt/lowstate and rt/lowcmd, the motors in the order of the SDK's.

    What could not be repeated of the commands is raised by the next `take`. `now_s` is the clock of
    stamps [s], which may be set; ages are measured by `raw_s`, a clock that is not. Orders of the
    remote go to `remote`.
    """

    sensors: tuple[str, ...] = (SENSOR,)
    commands = None  # on no topic of ROS 2

    def __init__(
        self,
        bus: Bus,
        spec: RobotSpec,
        now_s: Callable[[], float],
        remote: Remote,
        raw_s: Callable[[], float] = raw_s,
    ) -> None:
        self._bus, self._spec, self._remote = bus, spec, remote
        self._now_s, self._raw_s = now_s, raw_s
        self._reader = bus.reader(STATE, sample_type(go2.LOW_STATE))
        self._foreign = bus.reader(COMMAND, sample_type(go2.LOW_CMD), OTHERS_ALONE)
        self._handover = Handover(bus, spec, self._look, self._others)
        self._sender = CommandSender(bus, spec)
        self._clock, self._freshness = TickClock(), Freshness(SENSOR)
        self.received: dict[str, int] = {SENSOR: 0}
        self._state: go2.Record | None = None
        self._stamp_s = 0.0
        self._ours = False  # the motors, from `take_motors` to `settle`
        self._restarts = 0  # of the robot, before they were

    def acquire(self, stop: Event) -> None:
        """Nothing yet: as long as sensors may be missing the robot's own programs hold it.

        What of the damping since the last fault could not be sent is of no concern any more.
        """
        self._sender.forgive()

    def take_motors(self, stop: Event) -> None:
        """Take the motors from the robot's own programs, which lay it down before.

        Until nobody else has them nothing of ours can be heard on the topic of commands: who walks
        there would take it for an intruder, and damp.

        Raises:
            UserError: they keep them, or do not answer, or do not lay the robot down, or somebody
                else commands it, or `stop` came first.
        """
        self._handover.take(stop)
        self._sender.begin()
        self._ours, self._restarts = True, self._clock.restarts
        time.sleep(DISCOVERY_S)

    def _others(self) -> str:
        """Who else could command the motors, whether it does or not; empty if nobody does."""
        others = ", ".join(self._bus.writers(self._foreign))
        return others and f"another program commands the motors on {COMMAND}: {others}"

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Who else could command the motors, once we do, or tells of the robot."""
        commanding = commanding and self._ours
        if commanding and (others := self._others()):
            return others
        if self._clock.restarts >= MANY_RESTARTS:
            there = ", ".join(self._bus.writers(self._reader))
            return f"{STATE} tells of two robots in turn, or of a recording: {there}"
        if commanding and self._clock.restarts > self._restarts:
            return "the robot was started again: its own program has the motors"
        return None

    def settle(self) -> None:
        """Let the robot sink, then be silent: once it is started again, others have its motors."""
        self._ours = False
        self._sender.settle()

    def close(self) -> None:
        """Let the robot sink, give the motors back to the robot's own programs, leave the bus.

        Each of that is tried, whatever became of the others.

        Raises:
            UserError: those programs do not answer, or refuse, or damping could not be sent.
        """
        with ExitStack() as after:  # from the last to the first
            after.callback(self._bus.close)
            after.callback(self._handover.give_back)
            self._sender.close()

    def take(self) -> None:
        """Fetch the newest state; of one with a wrong checksum nothing counts, nor its tick.

        Raises:
            UserError: a command could not be repeated since the last call.
        """
        self._sender.check()
        state = newest(self._reader)
        if state is None:
            return
        self.received[SENSOR] += 1
        if go2.checksum(state) != state["crc"]:
            self._freshness.warning = "what arrives has a wrong checksum"
            return
        raw_s, now_s = self._raw_s(), self._now_s()
        stamp_s = self._clock.stamp_s(int(state["tick"]), raw_s, now_s)
        if self._freshness.arrived(stamp_s, now_s, time.monotonic()):
            self._state, self._stamp_s = state, stamp_s
            self._remote.hear(state["wireless_remote"].tobytes())

    def forget(self) -> None:
        self._freshness.forget()
        self._clock.forget()

    def _look(self) -> Array:
        """At the joints' angles [rad], anew."""
        self.take()
        return self.angles()

    def angles(self) -> Array:
        return np.zeros(0) if self._state is None else self._motors("q")

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        assert self._state is not None
        imu = self._state["imu_state"]
        return Reading(
            self._stamp_s,
            self._motors("q"),
            self._motors("dq"),
            imu["quaternion"].astype(np.float64)[list(IN_ORDER)],
            imu["gyroscope"].astype(np.float64),
            image,
            odometry,
        )

    def _motors(self, field: str) -> Array:
        assert self._state is not None
        values = self._state["motor_state"][field][: len(self._spec.joint_names)]
        return np.asarray(values, dtype=np.float64)

    def ages(self) -> dict[str, float]:
        return {SENSOR: self._freshness.age_s(time.monotonic())}

    def warnings(self) -> dict[str, str]:
        return {SENSOR: self._freshness.warning} if self._freshness.warning else {}

    def stamps(self) -> dict[str, float]:
        return {SENSOR: self._stamp_s}

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures, lost packets and late commands, for people to read."""
        if self._state is None:
            return {}
        known = health(self._state, self._spec.joint_names)
        return {**known, "late_commands": f"{self._sender.pace()['late']:.0f}"}

    def motor_warning(self) -> str | None:
        """A low battery, a hot motor, or both."""
        return None if self._state is None else motor_warning(self._state, self._spec.joint_names)

    def pace(self) -> Mapping[str, float]:
        """Of the commands at 500 Hz."""
        return self._sender.pace()

    def send(self, command: JointCommand) -> None:
        """See the sender; raises a UserError if it could not be sent."""
        self._sender.send(command)


# What people are warned of; both ours. Of motors that stand 30 to 50 deg C are reported.
LOW_PERCENT, HOT_DEG_C = 20, 70


def health(state: Record, joints: Sequence[str]) -> Mapping[str, str]:
    """Battery, temperatures and lost packets in an rt/lowstate of a robot with these joints."""
    motors = state["motor_state"][: len(joints)]
    return {
        "battery_percent": str(state["bms_state"]["soc"]),
        "battery_v": f"{state['power_v']:.1f}",
        "hottest_motor_deg_c": str(motors["temperature"].max()),
        "lost_packets": str(motors["lost"].sum()),
    }


def motor_warning(state: Record, joints: Sequence[str]) -> str | None:
    """A low battery, a hot motor, or both; None if all is well."""
    found = []
    if (charge := int(state["bms_state"]["soc"])) < LOW_PERCENT:
        found.append(f"battery at {charge} %")
    heats = state["motor_state"]["temperature"][: len(joints)]
    if (heat := int(heats.max())) >= HOT_DEG_C:
        found.append(f"{joints[int(heats.argmax())]} has {heat} deg C")
    return ", ".join(found) or None


R1, L1, START, SELECT, R2, L2, F1, F2 = (1 << bit for bit in range(8))
A, B, X, Y, UP, RIGHT, DOWN, LEFT = (1 << bit for bit in range(8, 16))
# As in the vendor's own programs for policies (unitree_rl_mjlab), where they have one.
STOP, ARM, STAND_UP, WALK, LIE_DOWN = L2 | B, START, L2 | UP, R2 | A, L2 | DOWN


class Remote:
    """Gives orders when their buttons go down; others held meanwhile do not matter.

    Who holds those that stop wants the robot to stay stopped, whatever others order.
    """

    def __init__(self, commands: Mapping[int, Callable[[], object]]) -> None:
        self._orders = commands
        self._pressed = 0

    def hear(self, data: bytes) -> None:
        """The 40 bytes `wireless_remote` of a state."""
        pressed, before = int.from_bytes(data[2:4], "little"), self._pressed
        self._pressed = pressed
        for chord, order in self._orders.items():
            if pressed & chord == chord and (chord == STOP or before & chord != chord):
                order()
