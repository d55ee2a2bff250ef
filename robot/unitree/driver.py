"""Driver of a Unitree Go2 over its own DDS: rt/lowstate in, rt/lowcmd out; clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Event

import numpy as np
from cyclonedds.core import Policy, Qos

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.runtime.power import PowerState
from pixelgait.robot.runtime.specific_force import SpecificForce
from pixelgait.robot.runtime.state_machine import Operator
from pixelgait.robot.safety.sensor_age import Freshness
from pixelgait.robot.spec import Array, Legs, RobotSpec
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.address import LOOPBACK, SENSOR, Go2
from pixelgait.robot.unitree.dds import KEEPS_SOME, Bus, arrived
from pixelgait.robot.unitree.remote import ARM, LIE_DOWN, STAND_UP, STOP, WALK, Remote
from pixelgait.robot.unitree.sender import COMMAND, CommandSender
from pixelgait.robot.unitree.services import MotorHandover

STATE = "rt/lowstate"
MANY_RESTARTS = 3  # more than while one node receives: two robots, or a recording; assumption
DISCOVERY_S = 0.3  # of other writers; the vendor's programs listen for 0.2 s
WITHOUT_OWN = Qos(Policy.IgnoreLocal.Participant)  # does not receive this process's commands
XYZW = (1, 2, 3, 0)  # order of a quaternion w x y z
DRIFT = 2e-4  # relative drift of two cheap quartz clocks
# The same of a simulator: unitree_mujoco's tick is simulated time, which may be slower by half.
SIMULATED_DRIFT = 0.5
RESTART_S = 1.0  # a tick that goes back by more means that the robot was restarted


def raw_s() -> float:
    """Time on a clock that is neither set nor slewed by network time [s]."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


class TickClock:
    """Stamps from a tick [ms]: the smallest delay seen counts as zero, more than that as age.

    Delays are measured on the clock of `raw_s`: chrony sets other clocks and slews them by up to
    0.08 s/s, which would look like delays. `restarts` counts the robot's restarts since the first
    message.
    """

    def __init__(self, drift: float = DRIFT) -> None:
        self._drift = drift
        self.forget()

    def forget(self) -> None:
        """Start anew with the next message."""
        self._tick: int | None = None
        self.restarts = 0
        self._stamp_s = self._offset_s = self._received_s = 0.0

    def stamp_s(self, tick: int, raw_s: float, now_s: float) -> float:
        """Stamp [s] of a message with this tick that arrives now, at most `now_s`.

        `now_s` (clock of the stamp) and `raw_s` are the same moment on two clocks.
        """
        if tick != self._tick:  # a repeated message keeps its stamp
            self._stamp_s = now_s - self._age_s(tick, raw_s)
        return self._stamp_s

    def _age_s(self, tick: int, raw_s: float) -> float:
        delay_s = raw_s - tick / 1e3
        went_back = self._tick is not None and (tick - self._tick) / 1e3 < -RESTART_S
        grown_s = self._offset_s + self._drift * (raw_s - self._received_s)
        first = self._tick is None or went_back
        self.restarts += went_back
        self._offset_s = delay_s if first else min(delay_s, grown_s)
        self._tick, self._received_s = tick, raw_s
        return delay_s - self._offset_s


class Go2Sensors:
    """The receiving half of a Go2's `Driver`: rt/lowstate, with motors in the SDK's order.

    `now_s` is the clock of stamps [s], which may jump; ages are measured by `raw_s`, a clock that
    does not. `remote` receives the state of the remote control.
    """

    sensors: tuple[str, ...] = (SENSOR,)
    commands = None  # no ROS 2 topic

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
        self._reader = bus.reader(STATE, go2.LOW_STATE, KEEPS_SOME)
        self._simulated = bus.address.simulated
        self._clock = TickClock(SIMULATED_DRIFT if self._simulated else DRIFT)
        self._freshness = Freshness(SENSOR)
        self._unusual: dict[str, None] = {}  # notes, in order
        self.received: dict[str, int] = {SENSOR: 0}
        self._state: go2.Record | None = None
        self._force = SpecificForce()
        self._stamp_s = 0.0
        self._has_robot = False  # while this node commands it
        self._restarts = 0  # of the robot, before that

    def mount_imu(self, transforms: object) -> None:
        """Nothing: the robot's own IMU measures in the base's frame."""

    def take(self) -> None:
        """Fetch the newest state; one with a wrong checksum is ignored, tick included."""
        states = arrived(self._reader)
        if not states:
            return
        state = states[-1]
        self.received[SENSOR] += 1
        unsigned = self._simulated and not state["crc"]
        if unsigned:
            self._unusual[f"{SENSOR} has no checksum: taken from a simulator on {LOOPBACK}"] = None
        elif go2.checksum(state) != state["crc"]:
            self._freshness.warning = "what arrives has a wrong checksum"
            return
        for each in states:
            self._force.add(each["imu_state"]["accelerometer"])
        raw_s, now_s = self._raw_s(), self._now_s()
        stamp_s = self._stamp_s_of(int(state["tick"]), raw_s, now_s)
        if self._freshness.arrived(stamp_s, now_s, time.monotonic()):
            self._state, self._stamp_s = state, stamp_s
            self._remote.update(state["wireless_remote"].tobytes())

    def _stamp_s_of(self, tick: int, raw_s: float, now_s: float) -> float:
        """Stamp [s] of a state; its arrival, if a simulator does not count ticks."""
        if not (self._simulated and tick == 0):
            return self._clock.stamp_s(tick, raw_s, now_s)
        self._unusual[f"{SENSOR} has no tick: its age is counted from its arrival"] = None
        return now_s

    def notes(self) -> list[str]:
        """Deviations of the wire that are accepted from a simulator alone."""
        return list(self._unusual)

    def forget(self) -> None:
        self._freshness.forget()
        self._clock.forget()

    def angles(self) -> Array:
        return np.zeros(0) if self._state is None else self._motors("q")

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        return Reading(
            self._stamp_s,
            self._motors("q"),
            self._motors("dq"),
            self._imu("quaternion")[list(XYZW)],
            self._imu("gyroscope"),
            image,
            odometry,
            specific_force=self._force.read(),
        )

    def _imu(self, field: str) -> Array:
        assert self._state is not None
        return np.asarray(self._state["imu_state"][field], dtype=np.float64)

    def _motors(self, field: str) -> Array:
        assert self._state is not None
        values = self._state["motor_state"][field][: len(self._spec.joint_names)]
        return np.asarray(values, dtype=np.float64)

    def ages(self) -> dict[str, float]:
        return {SENSOR: self._freshness.age_s(time.monotonic())}

    def warnings(self) -> dict[str, str]:
        if not self.received[SENSOR]:
            return {SENSOR: self._absence()}
        return {SENSOR: self._freshness.warning} if self._freshness.warning else {}

    def _absence(self) -> str:
        """Findings on the network about a robot that never sent."""
        others, address = self._bus.other_participants(), self._bus.address
        found = f"{others or 'no other'} DDS participants on {address.interface}"
        if address.simulated:
            return f"{found}, none is a simulated Go2"
        return f"{found}, none writes {STATE}: cable, 192.168.123.x, or no Go2 EDU"

    def stamps(self) -> dict[str, float]:
        return {SENSOR: self._stamp_s}

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures, lost packets, for the diagnostics."""
        if self._state is None:
            return {}
        state = self._state
        motors = state["motor_state"][: len(self._spec.joint_names)]
        return {
            "battery_percent": str(state["bms_state"]["soc"]),
            "battery_v": f"{state['power_v']:.1f}",
            "hottest_motor_deg_c": str(motors["temperature"].max()),
            "lost_packets": str(motors["lost"].sum()),
        }

    def power(self) -> PowerState | None:
        """Battery and hottest motor; a simulator may leave them at 0, which counts as unknown."""
        if (state := self._state) is None:
            return None
        heats = state["motor_state"]["temperature"][: len(self._spec.joint_names)]
        volts = float(state["power_v"])
        return PowerState(
            float(state["bms_state"]["soc"]) if volts > 0.0 else None,
            volts or None,
            self._spec.joint_names[int(heats.argmax())],
            float(heats.max()) or None,
        )

    def remote_command(self) -> Array:
        """Latent command (2,) of the remote's sticks."""
        return self._remote.latent()

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """A second source of states, or a restart of the robot while this node commands it."""
        if self._clock.restarts >= MANY_RESTARTS:
            there = ", ".join(self._bus.writers(self._reader))
            return f"{STATE} carries two robots in turn, or a recording: {there}"
        if commanding and self._has_robot and self._clock.restarts > self._restarts:
            return "the robot was started again: its own program has the motors"
        return None


class Go2Driver(Go2Sensors):
    """The `Driver` of rt/lowstate and rt/lowcmd.

    A command that could not be repeated is raised by the next `take`.
    """

    def __init__(
        self,
        bus: Bus,
        spec: RobotSpec,
        now_s: Callable[[], float],
        remote: Remote,
        raw_s: Callable[[], float] = raw_s,
    ) -> None:
        super().__init__(bus, spec, now_s, remote, raw_s)
        self._foreign = bus.reader(COMMAND, go2.LOW_CMD, WITHOUT_OWN)
        self._handover = MotorHandover(bus, spec, self._take_angles, self._other_writers)
        self._sender = CommandSender(bus, spec)

    def acquire(self, stop: Event) -> None:
        """Clear errors of earlier commands; the motors stay with the robot's own programs."""
        self._sender.clear_problem()

    def take_motors(self, stop: Event) -> None:
        """Take the motors from the robot's own programs, which lay the robot down before.

        This node writes nothing on the command topic before: another controller that walks the
        robot would see a conflict, and damp.

        Raises:
            UserError: those programs keep the motors, do not answer or do not lay the robot down,
                another process commands it, or `stop` was set first.
        """
        self._handover.take(stop)
        self._sender.begin()
        self._has_robot, self._restarts = True, self._clock.restarts
        time.sleep(DISCOVERY_S)

    def _other_writers(self) -> str:
        """Other processes with a writer of commands, whether they send or not; empty if none."""
        others = ", ".join(self._bus.writers(self._foreign))
        return others and f"another program commands the motors on {COMMAND}: {others}"

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Another writer of commands or a second source of states, or a restart of the robot."""
        if commanding and self._has_robot and (others := self._other_writers()):
            return others
        return super().conflicting_publisher(commanding)

    def settle(self) -> None:
        """Damp until the robot has sunk, then send nothing: a restarted robot moves by itself."""
        self._has_robot = False
        self._sender.settle()

    def close(self) -> None:
        """Damp, give the motors back to the robot's own programs, leave the bus.

        Each step is tried, even if another fails.

        Raises:
            UserError: those programs do not answer, or refuse, or damping could not be sent.
        """
        with ExitStack() as after:  # in reverse order
            after.callback(self._bus.close)
            after.callback(self._handover.give_back)
            self._sender.close()

    def take(self) -> None:
        """Fetch the newest state.

        Raises:
            UserError: a command could not be repeated since the last call.
        """
        self._sender.check()
        super().take()

    def notes(self) -> list[str]:
        """Deviations of the wire that are accepted from a simulator alone."""
        return [*super().notes(), *self._handover.notes]

    def _take_angles(self) -> Array:
        """The current joint angles (12,) [rad]."""
        self.take()
        return self.angles()

    def health(self) -> Mapping[str, str]:
        """Battery, temperatures, lost packets and late commands, for the diagnostics."""
        if not (known := super().health()):
            return {}
        return {**known, "late_commands": f"{self._sender.pace()['late']:.0f}"}

    def pace(self) -> Mapping[str, float]:
        """Counts of due and late commands at 500 Hz."""
        return self._sender.pace()

    def send(self, command: JointCommand) -> None:
        """Send a command, see `CommandSender.send`; raises a UserError if that fails."""
        self._sender.send(command)


def connected(
    address: Go2, spec: RobotSpec, legs: Legs, operator: Operator, now_s: Callable[[], float]
) -> Go2Driver:
    """The driver of a Go2, whose remote control is an operator, too.

    Raises:
        UserError: the bus cannot be joined.
    """
    commands = {
        STOP: lambda: operator.emergency_stop("remote control"),
        ARM: operator.arm,
        STAND_UP: operator.stand_up,
        WALK: operator.walk,
        LIE_DOWN: operator.lie_down,
    }
    bus = Bus(address)
    try:
        return Go2Driver(bus, spec, now_s, Remote(commands, operator.steer, legs.command))
    except BaseException:  # a process can open a domain only once
        bus.close()
        raise
