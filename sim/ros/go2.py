"""Simulated Go2 on its own DDS: low state and command, motion switcher, sport mode.

The body behind it may be any quadruped with legs in Unitree's order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container
from typing import Any

import numpy as np

from pixelgait.robot.interface import DRIVER_TIMEOUT_S, JointCommand, Reading
from pixelgait.robot.rotation import heading, roll_pitch
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree.dds import Bus, newest
from pixelgait.robot.unitree.driver import STATE, raw_s
from pixelgait.robot.unitree.sender import COMMAND
from pixelgait.robot.unitree.services import (
    CHECK_MODE,
    RELEASE_MODE,
    REQUEST,
    RESPONSE,
    SELECT_MODE,
    SPORT,
    SWITCHER,
    topics,
)
from pixelgait.robot.unitree.sport import SPORT_STATE
from pixelgait.sim.body.legged_body import limp
from pixelgait.sim.ros.sport_mode import MALFORMED, NOT_IMPLEMENTED, SportMode

OWN_PROGRAM = "normal"  # has the motors until it is released: sport_mode
SERVICE_STEPS = 25  # physics steps between two checks for requests: 50 ms
SPORT_STEPS = 10  # between two states of the sport mode: 50 Hz; assumption
WARM_DEG_C, CHARGED_PERCENT, VOLTS = 30, 80, 28.8  # healthy values


class Go2Wire:
    """Publishes rt/lowstate, takes rt/lowcmd once the motion switcher has released the motors.

    Until then its own program follows requests to the sport service, and rt/sportmodestate is
    published.

    Commands with a wrong checksum, head or level are dropped silently, as by the robot. So are
    commands with values that are not finite; the robot's reaction to these is not published.
    """

    services = (SWITCHER, SPORT)

    def __init__(self, bus: Bus, spec: RobotSpec) -> None:
        self._bus, self._spec = bus, spec
        self._writer = self._bus.writer(STATE, go2.LOW_STATE)
        self._reader = self._bus.reader(COMMAND, go2.LOW_CMD)
        self._services = {
            name: (self._bus.reader(asked, REQUEST), self._bus.writer(answered, RESPONSE))
            for name in self.services
            for asked, answered in (topics(name),)
        }
        self._sport = SportMode(spec)
        self._sport_writer = self._bus.writer(SPORT_STATE, go2.SPORT_MODE_STATE)
        self._reading: Reading | None = None
        self._assign_motors(OWN_PROGRAM if self.services else "")
        self.refused = 0  # number of dropped commands
        self._began_s, self._steps = raw_s(), 0
        self._newest: go2.Record | None = None
        self._received_s = 0.0

    def command(self) -> JointCommand | None:
        """The motors' current command; None while the robot's own program holds it standing."""
        self._steps += 1
        if self._steps % SERVICE_STEPS == 0:
            self._serve()
        record = newest(self._reader)
        if record is not None and self._accepts(record):
            self._newest, self._received_s = record, time.monotonic()
        if self.program:
            return self._sport.command(self._reading)
        # The real robot has a time-out, too; its length is not published.
        if self._newest is None or time.monotonic() - self._received_s > DRIVER_TIMEOUT_S:
            return limp(self._spec)
        return motor_command(self._newest, len(self._spec.joint_names))

    def _accepts(self, record: go2.Record) -> bool:
        framed = tuple(record["head"]) == go2.HEAD and record["level_flag"] == go2.LOW_LEVEL
        valid = framed and record["crc"] == go2.checksum(record) and _finite(record)
        accepted = valid and not self.program
        self.refused += not accepted
        return accepted

    def publish(self, now_ns: int, reading: Reading, lost: Container[str]) -> None:
        """Publish after a physics step; joints and IMU are lost together, being one message."""
        self._reading = reading
        if self.program and self._steps % SPORT_STEPS == 0:
            self._publish_sport(now_ns, reading)
        if "joints" in lost or "imu" in lost:
            return
        record = go2.LOW_STATE.new()
        record["head"], record["level_flag"] = go2.HEAD, go2.LOW_LEVEL
        _fill_imu(record["imu_state"], reading)
        motors = record["motor_state"][: len(self._spec.joint_names)]
        motors["mode"], motors["temperature"] = go2.SERVO, WARM_DEG_C
        motors["q"], motors["dq"] = reading.joint_angles, reading.joint_velocities
        record["bms_state"]["soc"], record["power_v"] = CHARGED_PERCENT, VOLTS
        record["tick"] = round((raw_s() - self._began_s) * 1e3)
        self._write(record)

    def _write(self, record: go2.Record) -> None:
        record["crc"] = go2.checksum(record)
        self._writer.write(record)

    def _publish_sport(self, now_ns: int, reading: Reading) -> None:
        """Publish the state of its own program: odometry and IMU."""
        record = go2.SPORT_MODE_STATE.new()
        record["stamp"]["sec"], record["stamp"]["nanosec"] = divmod(now_ns, 10**9)
        _fill_imu(record["imu_state"], reading)
        record["yaw_speed"] = reading.angular_velocity[2]
        if reading.odometry is not None:
            record["position"][:2] = reading.odometry[:2]
        self._sport_writer.write(record)

    def _serve(self) -> None:
        """Answer requests to the motion switcher and the sport service."""
        for service, (requests, responses) in self._services.items():
            for request in requests.take(N=10):
                api, answer = int(request.record["api"]), RESPONSE.new()
                answer["code"], data = self._answer(service, api, request.texts["parameter"])
                answer["id"], answer["api"] = request.record["id"], api
                responses.write(answer, data=json.dumps(data))

    def _answer(self, service: str, api: int, parameter: str) -> tuple[int, dict[str, Any]]:
        if service == SPORT:
            return self._sport.answer(api, parameter) if self.program else NOT_IMPLEMENTED, {}
        if api == CHECK_MODE:
            return 0, {"form": "0", "name": self.program}
        if api == RELEASE_MODE:
            self._newest = None
            self._assign_motors("")
            return 0, {}
        if api == SELECT_MODE:
            try:
                self._assign_motors(str(json.loads(parameter)["name"]))
            except (ValueError, KeyError, TypeError):
                return MALFORMED, {}
            return 0, {}
        return NOT_IMPLEMENTED, {}

    def _assign_motors(self, program: str) -> None:
        """Assign the motors to a program, or to none (""); only that program has a writer."""
        self.program = program
        self._sport.reset()
        self._own = self._bus.writer(COMMAND, go2.LOW_CMD) if program else None

    def close(self) -> None:
        """Close the bus."""
        self._bus.close()


def _fill_imu(imu: go2.Record, reading: Reading) -> None:
    orientation = x, y, z, w = reading.orientation.tolist()
    imu["quaternion"], imu["gyroscope"] = (w, x, y, z), reading.angular_velocity
    imu["rpy"] = (*roll_pitch(orientation), heading(orientation))
    if reading.specific_force is not None:
        imu["accelerometer"] = reading.specific_force


def _finite(record: go2.Record) -> bool:
    motors = record["motor_cmd"]
    return all(np.isfinite(motors[field]).all() for field in ("q", "dq", "tau", "kp", "kd"))


def motor_command(record: go2.Record, joints: int) -> JointCommand:
    """A command from the motor slots: torque = tau + kp (q - q') + kd (dq - dq')."""
    motors = record["motor_cmd"][:joints].copy()
    motors["kp"][motors["q"] >= go2.NO_POSITION] = 0.0
    motors["kd"][motors["dq"] >= go2.NO_SPEED] = 0.0
    off = motors["mode"] != go2.SERVO
    for field in ("kp", "kd", "tau"):
        motors[field][off] = 0.0
    stiff = motors["kp"] > 0.0
    targets = np.where(stiff, motors["q"], 0.0).astype(np.float64)
    kp, kd = (motors[field].astype(np.float64) for field in ("kp", "kd"))
    speeds = np.where(kd > 0.0, motors["dq"], 0.0)
    return JointCommand(0.0, targets, kp, kd, motors["tau"] + kd * speeds)
