"""Manoeuvres: motion of a low level under a constant velocity command, loads of motors and feet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pixelgait.robot.control.controller import Controller, latent_for, latent_of
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import SUBSTEPS, JointLoads, SimulatedBody
from pixelgait.sim.tasks.task import fallen, planar_pose, planar_velocity

# All assumptions.
SETTLE_S = 1.5  # after the command, before anything is measured
LEAST_POSES = 2  # a velocity needs two
LEAST_AIR_STEPS = 10  # of physics: a shorter flight is a trembling foot
IMPACT_STEPS = 10  # of physics (20 ms) after a touch-down: when its force peaks
AT_LIMIT = 0.99  # share of a limit from which on it counts as reached


@dataclass(frozen=True, slots=True)
class TrackingResult:
    """Result of a constant command; means unless stated otherwise."""

    speed: float  # [m/s]
    left: float  # [m/s]
    yaw_rate: float  # [rad/s]
    travelled_m: float  # straight line, from where it settled
    aside_m: float  # largest, off the line on which it started
    power_w: float  # mechanical, of either sign
    transport: float  # cost of transport: positive work over weight times path
    touch_down_m_per_s: float  # median; nan if no foot left the ground
    impact: float  # peak force on a foot after a touch-down, 95th percentile [body weights]
    torque_nm: float  # highest
    at_limits: float  # share of the motors' time at their torque limit
    target_step_rad: float  # largest in a control step
    on_all_feet: float  # share of the time
    fell: bool


def walk(
    controller: Controller,
    body: SimulatedBody,
    speed: float,
    yaw_rate: float,
    seconds: float,
    left: float = 0.0,
    *,
    omni: bool = False,
) -> TrackingResult:
    """Drive a body under a constant velocity command, from rest in its scene's layout of seed 0.

    Args:
        controller: its high level is not used.
        body: the simulated robot.
        speed: [m/s]
        yaw_rate: [rad/s]
        seconds: measured, after `SETTLE_S`.
        left: [m/s]
        omni: whether the low level is omnidirectional.

    Raises:
        UserError: if the robot falls before there is anything to measure.
    """
    command = latent_for(speed, yaw_rate)
    if omni:
        command = latent_of(np.array((speed, left, yaw_rate, 0.0)))
    reading = body.reset(0)
    start = planar_pose(body)
    controller.reset()
    settled = round(SETTLE_S / CONTROL_DT_S)
    poses: list[Array] = []
    targets: list[Array] = []
    loads: list[JointLoads] = []
    for step in range(settled + round(seconds / CONTROL_DT_S)):
        sent = controller.follow(command, reading).command
        under_load = list(_physics(body, sent))
        reading = body.read()
        targets.append(sent.targets)
        if step >= settled:
            poses.append(planar_pose(body))
            loads += under_load
        if fallen(body):
            break
    if len(poses) < LEAST_POSES:
        raise UserError(
            f"commanded {speed:.2f} m/s and {yaw_rate:.2f} rad/s, the robot fell within "
            f"{SETTLE_S:g} s: train it longer"
        )
    return _tracking_result(body, start, np.array(poses), np.array(targets), loads)


def _physics(body: SimulatedBody, command: JointCommand) -> Iterator[JointLoads]:
    """Take one control step; yield the loads after each physics step."""
    for _ in range(SUBSTEPS):
        body.step(command)
        yield body.loads()


def _tracking_result(
    body: SimulatedBody, start: Array, poses: Array, targets: Array, loads: list[JointLoads]
) -> TrackingResult:
    torques, speeds, forces, sinking = (np.array(part) for part in zip(*loads, strict=True))
    velocities = np.array([planar_velocity(a, b) for a, b in pairwise(poses)])
    speed, left, yaw_rate = velocities.mean(0).tolist()
    power = torques * speeds
    weight = float(forces.sum(1).mean())  # mean load of the feet
    landings = list(_landings(forces, sinking))
    limits = body.spec.torque_limit_nm * AT_LIMIT
    aside = (poses[:, :2] - start[:2]) @ (-np.sin(start[2]), np.cos(start[2]))
    path_m = float(np.hypot(*np.diff(poses[:, :2], axis=0).T).sum())
    seconds = len(poses) * CONTROL_DT_S
    return TrackingResult(
        speed=speed,
        left=left,
        yaw_rate=yaw_rate,
        travelled_m=float(np.hypot(*(poses[-1, :2] - poses[0, :2]))),
        aside_m=float(np.abs(aside).max()),
        power_w=float(np.abs(power).sum(1).mean()),
        transport=float(power.clip(min=0.0).sum(1).mean()) * seconds / (weight * path_m),
        touch_down_m_per_s=float(np.median([v for v, _ in landings])) if landings else np.nan,
        impact=float(np.percentile([f for _, f in landings], 95)) / weight if landings else 0.0,
        torque_nm=float(np.abs(torques).max()),
        at_limits=float((np.abs(torques) >= limits).mean()),
        target_step_rad=float(np.abs(np.diff(targets, axis=0)).max()),
        on_all_feet=float((forces > 0.0).all(1).mean()),
        fell=fallen(body),
    )


def _landings(forces: Array, sinking: Array) -> Iterator[tuple[float, float]]:
    """For each touch-down the foot's speed before [m/s] and its peak force after [N]."""
    for foot_forces, foot_sinking in zip(forces.T, sinking.T, strict=True):
        in_air = 0
        for step, force in enumerate(foot_forces):
            if force > 0.0 and in_air >= LEAST_AIR_STEPS:
                peak = foot_forces[step : step + IMPACT_STEPS].max()
                yield float(foot_sinking[step - 1]), float(peak)
            in_air = 0 if force > 0.0 else in_air + 1
