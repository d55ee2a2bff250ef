"""The motors: a PD loop that closes in every physics step, and what a turning motor can give.

In plain floats: for twelve joints numpy is slower, and this runs five times a control step.
"""

from __future__ import annotations

from collections.abc import Iterable

from pixelgait.robot.interface import JointCommand
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.body.randomisation import Sample

# Of a joint: target [rad], kp [Nm/rad], kd [Nm s/rad], feed-forward [Nm], limit [Nm], slope [s/rad]
Motor = tuple[float, float, float, float, float, float]


def motors_under(command: JointCommand, spec: RobotSpec, sample: Sample) -> list[Motor]:
    """An episode's motors under a command.

    The slope is the share of the limit that is lost per speed of the joint.
    """
    kp, kd, forward = command.kp, command.kd, command.feed_forward
    limit, slope = spec.torque_limit_nm, sample.torque_drop / spec.velocity_limit_rad_per_s
    if sample.strength != 1.0:
        kp, kd, forward, limit = (part * sample.strength for part in (kp, kd, forward, limit))
    parts = (command.targets, kp, kd, forward, limit, slope)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def only_damps(command: JointCommand) -> bool:
    """Whether motors do nothing but slow joints down: no target, no torque and no speed wanted."""
    return not command.kp.any() and not command.feed_forward.any()


def motor_torques(
    motors: Iterable[Motor], angles: Iterable[float], speeds: Iterable[float]
) -> list[float]:
    """What motors give [Nm] at these angles [rad] and speeds [rad/s] of their joints.

    Explicit PD torque within the limit. Driving a joint, a motor loses the line from stall torque
    to no-load speed of Isaac Lab's DCMotor; braking it, nothing.
    """
    torques = []
    for (target, kp, kd, forward, limit, slope), q, dq in zip(motors, angles, speeds, strict=True):
        torque = kp * (target - q) - kd * dq + forward
        if torque * dq > 0.0:
            left = 1.0 - slope * (dq if dq > 0.0 else -dq)
            limit = limit * left if left > 0.0 else 0.0
        torques.append(limit if torque > limit else -limit if torque < -limit else torque)
    return torques
