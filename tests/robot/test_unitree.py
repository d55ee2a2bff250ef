"""A Go2's wire: checksums and types against the vendor's, encoding against Cyclone's own."""

from __future__ import annotations

import ctypes
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from pixelgait.robot.control.controller import commanded
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.address import Ros2Control, Topics, parse_link
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.spec import A1
from pixelgait.robot.spec import GO2 as GO2_SPEC
from pixelgait.robot.unitree import dds
from pixelgait.robot.unitree import driver as driver_module
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.address import Go2
from pixelgait.robot.unitree.dds import Bus, RecordReader, RecordTopic, RecordWriter
from pixelgait.robot.unitree.driver import WITHOUT_OWN, Go2Driver, TickClock
from pixelgait.robot.unitree.remote import L2, STAND_UP, STOP, UP, WALK, A, B, Remote
from pixelgait.robot.unitree.services import SELECT_MODE, SWITCHER, Client
from pixelgait.sim.ros.go2 import Go2Wire, motor_command
from tests.conftest import wait_for

MESSAGES = (go2.LOW_CMD, go2.LOW_STATE)
DOMAIN = 151 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))  # of its own
# As the vendor's compiler generates them (unitree_sdk2): minimal equivalence hashes.
TYPE_IDS = {
    go2.LOW_CMD: "f1832876ceec9737d69f6ed62a3f63",
    go2.LOW_STATE: "f1853a99e23d0daa1610b65c526b40",
}
# 8-bit numbers in partners' types: of Cyclone DDS 0.10, and of the vendor's Python types on 11.
BYTE = getattr(types, "byte", types.uint8)  # which Cyclone DDS 0.10 calls uint8
OCTETS = {"0.10": BYTE, "11": types.uint8}
KINDS = {
    "u2": types.uint16,
    "u4": types.uint32,
    "i2": types.int16,
    "i4": types.int32,
    "f4": types.float32,
}


@pytest.fixture
def bus() -> Iterator[Bus]:
    bus = Bus(Go2("lo", DOMAIN))
    yield bus
    bus.close()


def random_record(message: go2.Message, seed: int = 0) -> go2.Record:
    """A record of random finite numbers; padding is zero."""
    rng = np.random.default_rng(seed)

    def fill(values: Any) -> None:
        if values.dtype.names:
            for name in values.dtype.names:
                fill(values[name])
        elif values.dtype.kind == "f":
            values[...] = rng.standard_normal(values.shape)
        else:
            values[...] = rng.integers(0, 100, values.shape)

    record = np.zeros((1,), message.dtype)
    fill(record)
    return record[0:1].reshape(())


def partners_type(message: go2.Message, octet: Any) -> Any:
    """The message as the vendor's IDL compiler declares it."""
    fields: dict[str, Any] = {}
    for name, kind, count in message.fields:
        part = isinstance(kind, go2.Message)
        each = partners_type(kind, octet) if part else KINDS.get(kind, octet)  # type: ignore[arg-type]
        fields[name] = types.array[each, count] if count > 1 else each  # type: ignore[misc]
    name = message.name.replace("::", ".")
    return make_idl_struct(name.rpartition(".")[2], name, fields)


def as_sample(message: go2.Message, record: Any, octet: Any = BYTE) -> Any:
    """The record as Cyclone's own object."""
    values = []
    for name, kind, count in message.fields:
        part = record[name]
        if not isinstance(kind, go2.Message):
            values.append(part.tolist())
        elif count == 1:
            values.append(as_sample(kind, part, octet))
        else:
            values.append([as_sample(kind, each, octet) for each in part])
    return partners_type(message, octet)(*values)


def test_checksums_are_the_vendors() -> None:
    command, state = (message.new() for message in MESSAGES)
    assert (command.dtype.itemsize, state.dtype.itemsize) == (812, 1180)
    assert go2.checksum(command) == 0x4B5A4880
    assert go2.checksum(state) == 0x85F11EA6
    command["head"], command["level_flag"] = go2.HEAD, go2.LOW_LEVEL
    motors = command["motor_cmd"]
    motors["mode"], motors["q"], motors["dq"] = go2.SERVO, go2.NO_POSITION, go2.NO_SPEED
    assert go2.checksum(command) == 0x06E577CD


@pytest.mark.parametrize("message", TYPE_IDS, ids=lambda message: message.name[-8:])
def test_types_are_the_vendors(message: go2.Message) -> None:
    kind = partners_type(message, BYTE)
    found = kind.__idl__.get_type_info().minimal.typeid_with_size.type_id
    assert found.serialize(use_version_2=True)[4:].hex() == TYPE_IDS[message]
    assert kind.__idl__.idl_transformed_typename == message.name


@pytest.mark.parametrize("octet", OCTETS)
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name[-8:])
def test_partners_of_every_version_match_and_see_the_same_values(
    message: go2.Message, octet: str, bus: Bus
) -> None:
    """Though Cyclone DDS 11 tells their 8-bit numbers apart."""
    someone = DomainParticipant(DOMAIN)
    topic = Topic(someone, "rt/both", partners_type(message, OCTETS[octet]))
    writer, reader = bus.writer("rt/both", message), bus.reader("rt/both", message)
    their_writer, their_reader = DataWriter(someone, topic), DataReader(someone, topic)
    record = random_record(message)
    writer.write(record)
    (heard,) = their_reader.take(N=2)
    sample = as_sample(message, record, OCTETS[octet])
    assert heard.serialize() == sample.serialize()
    reader.take(N=2)
    their_writer.write(heard)
    (taken,) = reader.take(N=2)
    assert taken.record.tobytes() == record.tobytes()


def test_any_flipped_bit_of_a_value_shows_in_the_checksum() -> None:
    record = random_record(go2.LOW_CMD)
    right = go2.checksum(record)
    for field in ("q", "kp", "mode"):
        changed = record.copy()
        changed["motor_cmd"][field][7] += 1
        assert go2.checksum(changed) != right


def test_motor_slots_become_a_joint_command() -> None:
    record = go2.LOW_CMD.new()
    motors = record["motor_cmd"]
    motors["mode"], motors["q"], motors["dq"] = go2.SERVO, go2.NO_POSITION, go2.NO_SPEED
    motors["kp"], motors["kd"], motors["tau"] = 20.0, 0.5, 1.0
    motors["q"][1], motors["dq"][1] = 0.8, 2.0
    motors["mode"][2], motors["q"][2], motors["dq"][2] = 0, 0.8, 0.0
    command = motor_command(record, 12)
    np.testing.assert_allclose(command.kp[:3], (0.0, 20.0, 0.0))
    np.testing.assert_allclose(command.kd[:3], (0.0, 0.5, 0.0))
    np.testing.assert_allclose(command.feed_forward[:3], (1.0, 1.0 + 0.5 * 2.0, 0.0))
    assert command.targets[1] == pytest.approx(0.8)


@pytest.mark.parametrize("damage", ["none", "head", "level", "checksum", "not released", "nan"])
def test_a_simulated_go2_accepts_complete_frames_only(damage: str, bus: Bus) -> None:
    wire = Go2Wire(bus, A1)
    writer, record = bus.writer("rt/lowcmd", go2.LOW_CMD), go2.LOW_CMD.new()
    if damage != "not released":
        wire.program = ""
    record["head"], record["level_flag"] = go2.HEAD, go2.LOW_LEVEL
    motors = record["motor_cmd"]
    motors["mode"], motors["q"], motors["kp"] = go2.SERVO, 0.5, 20.0
    if damage == "head":
        record["head"][1] = 0xEE
    if damage == "level":
        record["level_flag"] = 0xEE  # of high-level commands
    if damage == "nan":
        motors["q"][3] = np.nan
    record["crc"] = go2.checksum(record) ^ (damage == "checksum")
    deadline, command, refused = time.monotonic() + 10.0, None, 0
    while not refused and not (command is not None and command.kp.any()):
        assert time.monotonic() < deadline
        writer.write(record)
        time.sleep(0.002)
        command, refused = wire.command(), wire.refused
    assert bool(refused) == (damage != "none")
    if damage == "not released":
        assert command is None  # its own program moves the motors


def test_a_tick_becomes_a_time_on_this_computers_clock() -> None:
    clock = TickClock()

    def stamp_s(tick: int, raw_s: float) -> float:
        return clock.stamp_s(tick, raw_s, 1.7e9 + raw_s) - 1.7e9

    assert stamp_s(5000, 100.000) == pytest.approx(100.0)  # as if it took no time
    assert stamp_s(5002, 100.012) == pytest.approx(100.002, abs=1e-5)  # held up by 10 ms
    assert stamp_s(5002, 100.5) == pytest.approx(100.002, abs=1e-5)  # again: no news
    assert stamp_s(5504, 100.499) == pytest.approx(100.499)  # the first took 5 ms, it shows
    assert stamp_s(10, 130.0) == pytest.approx(130.0)  # started again
    clock.forget()
    # A clock that loses 150 us a second, as quartz and a hot board's may together, is followed.
    stamps = [stamp_s(round(1e3 * t), t * (1.0 + 1.5e-4)) for t in np.arange(1.0, 2000.0)]
    assert stamps[-1] == pytest.approx(1999.0 * (1.0 + 1.5e-4), abs=1e-3)


def receive(driver: Go2Driver, writer: Any, tick: int, damage: int = 0) -> None:
    """Write a state with this tick until the driver has taken one."""
    state, received = go2.LOW_STATE.new(), driver.received["lowstate"]
    state["tick"] = tick
    state["crc"] = go2.checksum(state) ^ damage
    deadline = time.monotonic() + 10.0
    while not writer.get_matched_subscriptions():
        assert time.monotonic() < deadline
    while driver.received["lowstate"] == received:
        assert time.monotonic() < deadline
        writer.write(state)
        time.sleep(0.05)  # a late sample would count as the next
        driver.take()


def test_a_damaged_state_does_not_spoil_the_clock(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tick may be anything: half a second ahead, all later states would count as old."""
    clock_s = 0.0
    monkeypatch.setattr(driver_module, "time", SimpleNamespace(monotonic=lambda: clock_s))
    driver = Go2Driver(bus, GO2_SPEC, lambda: 1.7e9 + clock_s, Remote({}), lambda: clock_s)
    writer = bus.writer("rt/lowstate", go2.LOW_STATE)
    receive(driver, writer, 1000)
    clock_s = 0.014
    receive(driver, writer, 1514, damage=1)
    assert driver.warnings() == {"lowstate": "what arrives has a wrong checksum"}
    clock_s = 0.104
    receive(driver, writer, 1104)
    assert driver.ages()["lowstate"] < 0.001


def test_a_writer_is_found_before_it_writes(bus: Bus) -> None:
    """By the name of its process, without this participant's own."""
    reader = bus.reader("rt/lowcmd", go2.LOW_CMD, WITHOUT_OWN)
    own = bus.writer("rt/lowcmd", go2.LOW_CMD)
    assert bus.writers(reader) == []
    someone = DomainParticipant(DOMAIN)
    writer = RecordWriter(someone, RecordTopic(someone, "rt/lowcmd", go2.LOW_CMD))
    wait_for(lambda: bus.writers(reader))
    (other,) = bus.writers(reader)
    assert f"(process {os.getpid()} on {socket.gethostname()})" in other
    del writer, someone
    wait_for(lambda: not bus.writers(reader))
    assert own.get_matched_subscriptions() == []


@pytest.mark.parametrize("commanding", [True, False], ids=["commanding", "rehearsing"])
def test_a_second_publisher_of_states_is_a_conflict(commanding: bool, bus: Bus) -> None:
    """As a recording played beside the robot: both states would count as new and mix."""
    driver = Go2Driver(bus, GO2_SPEC, time.time, Remote({}))
    robot = bus.writer("rt/lowstate", go2.LOW_STATE)
    someone = DomainParticipant(DOMAIN)
    played = RecordWriter(someone, RecordTopic(someone, "rt/lowstate", go2.LOW_STATE))
    receive(driver, robot, 800_000)
    receive(driver, robot, 1000)  # it was started again
    for tick in (1010, 1020):
        assert driver.conflicting_publisher(commanding) is None
        receive(driver, played, 500_000 + tick)
        receive(driver, robot, tick)
    other = driver.conflicting_publisher(commanding)
    assert other is not None
    assert other.startswith("rt/lowstate carries two robots in turn, or a recording: ")
    own = f"(process {os.getpid()} on {socket.gethostname()})"
    assert other.count(own) == 2  # here both are in one process
    driver.forget()
    assert driver.conflicting_publisher(commanding) is None


def test_a_closed_bus_makes_room_for_the_next() -> None:
    """Though its readers are still held."""
    for _ in range(2):
        bus = Bus(Go2("lo", DOMAIN))
        held = bus.reader("rt/lowcmd", go2.LOW_CMD)
        bus.close()
        assert held is not None


def test_the_remote_commands_once_per_press_but_repeats_a_held_stop() -> None:
    heard: list[str] = []
    remote = Remote({STOP: lambda: heard.append("stop"), STAND_UP: lambda: heard.append("up")})
    for buttons in (0, L2, L2 | B, L2 | B | A, L2, L2 | B, 0, UP, L2 | UP):
        remote.update(bytes(2) + buttons.to_bytes(2, "little") + bytes(36))
    assert heard == ["stop", "stop", "stop", "up"]


def sticks(ahead: float = 0.0, right: float = 0.0, buttons: int = 0) -> bytes:
    """The remote's bytes; deflections are -1 to 1."""
    return struct.pack("<2xHfffff16x", buttons, 0.0, right, 0.0, 0.0, ahead)


@pytest.mark.parametrize(
    ("ahead", "right", "speed", "yaw_rate"),
    [
        (1.0, 0.0, 0.6, 0.0),
        (0.55, 0.0, 0.3, 0.0),
        (0.0, 1.0, 0.0, -1.0),
        (0.0, -0.55, 0.0, 0.5),
        (0.09, -0.09, 0.0, 0.0),  # at rest
        (-1.0, 0.0, 0.0, 0.0),  # not backwards
        (7.0, math.nan, 0.6, 0.0),
    ],
)
def test_the_sticks_are_a_velocity_command_within_the_limits_of_the_contract(
    ahead: float, right: float, speed: float, yaw_rate: float
) -> None:
    remote = Remote({})
    remote.update(sticks(ahead, right))
    assert commanded(remote.latent()) == pytest.approx((speed, yaw_rate), abs=1e-6)


def test_a_deflected_stick_takes_over_until_an_order_to_walk() -> None:
    operator = Operator(first=(1.0, 2.0))
    remote = Remote({WALK: operator.walk}, operator.steer)
    operator.begin()
    operator.state = RobotState.LIMP
    assert operator.arm()[0]
    operator.state = RobotState.READY
    remote.update(sticks(ahead=1.0))
    assert not operator.commands.steered  # it does not walk
    remote.update(sticks(buttons=WALK))
    operator.state = RobotState.WALKING
    for deflection, steered in ((0.0, False), (0.2, False), (0.5, True), (0.0, True)):
        remote.update(sticks(right=deflection))
        assert operator.commands.steered is steered
    assert operator.commands.goal_position == (1.0, 2.0)
    remote.update(sticks(buttons=WALK))
    assert not operator.commands.steered
    remote.update(sticks(ahead=0.5))
    assert operator.stand_up()[0]
    remote.update(sticks(ahead=0.5))  # before the next control step
    assert not operator.commands.steered
    assert operator.walk()[0]
    remote.update(sticks(ahead=0.5))
    operator.emergency_stop("test")
    assert not operator.commands.steered


def test_a_held_stop_button_prevents_arming() -> None:
    operator = Operator()
    operator.state = RobotState.STOPPED
    remote = Remote({STOP: lambda: operator.emergency_stop("remote control")})
    for buttons, armed in ((STOP, False), (STOP, False), (0, True)):
        operator.reset_stop()
        remote.update(bytes(2) + buttons.to_bytes(2, "little") + bytes(36))
        operator.state = RobotState.STOPPED if operator.commands.stop else RobotState.LIMP
        assert operator.arm()[0] == armed


def test_a_link_is_an_interface_and_a_domain() -> None:
    assert parse_link("ros") == Topics()
    assert parse_link("ros2-control") == Ros2Control("forward_position_controller", False)
    assert parse_link("ros2-control:legs") == Ros2Control("legs", False)
    assert parse_link("joint-trajectory") == Ros2Control("joint_trajectory_controller", True)
    assert parse_link("joint-trajectory:legs") == Ros2Control("legs", True)
    another = next(name for _, name in socket.if_nameindex() if name != "lo")
    assert parse_link(f"go2:{another}") == Go2(another, 0)
    assert parse_link("go2:lo") == Go2("lo", 1)  # never that of a robot
    assert parse_link("go2:lo:7") == Go2("lo", 7)
    for wrong in (
        "go2",
        "ros2-control:",
        "ros2-control:/legs",
        "joint-trajectory:",
        "joint-trajectory:a:b",
        "go2:",
        "ros:lo",
        "a1:eth0",
        "go2:lo:",
        "go2:lo:x",
        "go2:lo:233",
        "go2:none",
    ):
        with pytest.raises(UserError, match=f"--link {wrong}: "):
            parse_link(wrong)


@pytest.mark.parametrize("parameters", [{}, {"name": "ai"}])
def test_a_simulated_go2_answers_unknown_requests(parameters: dict[str, str], bus: Bus) -> None:
    wire, client, over = Go2Wire(bus, A1), Client(bus, SWITCHER), threading.Event()

    def serve() -> None:
        while not over.wait(0.001):
            wire.command()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        if parameters:
            client.call(SELECT_MODE, **parameters)
            assert wire.program == "ai"
        else:
            with pytest.raises(UserError, match=f"call {SELECT_MODE} failed, 3204"):
                client.call(SELECT_MODE)
    finally:
        over.set()
        serving.join()


def test_a_text_that_is_no_utf8_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ctypes.create_string_buffer(b"fine\xff")
    struct = np.array([ctypes.addressof(text)], np.uint64).view(np.uint8)
    reader, message = (
        object.__new__(RecordReader),
        SimpleNamespace(dtype=np.dtype([("data", np.uint64)]), texts=("data",)),
    )
    reader._records = SimpleNamespace(message=message, descriptor=ctypes.c_int())  # type: ignore[assignment]
    library = SimpleNamespace(dds_sample_free=lambda *_: None)
    monkeypatch.setattr(dds, "_LIBRARY", library)
    assert reader._sample(struct, SimpleNamespace(source_timestamp=0)).texts == {
        "data": "fine\ufffd"
    }
