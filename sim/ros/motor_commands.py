"""Motor commands of a simulated robot: stiff, damped or limp."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.interface import JointCommand
from pixelgait.robot.spec import Array, RobotSpec


def stiff(spec: RobotSpec, targets: Array, feed_forward: Array | None = None) -> JointCommand:
    """Targets (12,) [rad] with the robot's own gains, and feed-forward torques (12,) [Nm]."""
    effort = np.zeros_like(targets) if feed_forward is None else feed_forward
    return JointCommand(0.0, targets, spec.kp_nm_per_rad, spec.kd_nms_per_rad, effort)


def damped(spec: RobotSpec) -> JointCommand:
    """Damping without stiffness."""
    zeros = np.zeros(len(spec.joint_names))
    return JointCommand(0.0, zeros, zeros, zeros + spec.damping_nms_per_rad, zeros)


def limp(spec: RobotSpec) -> JointCommand:
    """No torque at all."""
    zeros = np.zeros(len(spec.joint_names))
    return JointCommand(0.0, zeros, zeros, zeros, zeros)
