"""Robot specifications: every number of a robot that controller, simulator and contract share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEGS = ("FR", "FL", "RR", "RL")  # Unitree SDK order


def per_leg(*values: float) -> Array:
    """Repeat one leg's (abduction, hip, knee) values for all four legs, (12,)."""
    return np.tile(np.asarray(values, dtype=np.float64), len(LEGS))


@dataclass(frozen=True, eq=False)
class CameraMount:
    """Forward camera, posed in the base frame (x forward, y left, z up; REP 103)."""

    position_m: tuple[float, float, float]
    pitch_down_rad: float
    vertical_fov_rad: float


@dataclass(frozen=True, eq=False)
class RobotSpec:
    """One quadruped. Arrays are (12,), in the order of `joint_names`."""

    name: str
    urdf: str
    joint_names: tuple[str, ...]
    joint_lower_rad: Array
    joint_upper_rad: Array
    torque_limit_nm: Array
    kp_nm_per_rad: Array
    kd_nms_per_rad: Array
    damping_nms_per_rad: float
    default_pose_rad: Array
    feet_m: Array  # (4, 2) foot x, y below the base in the default pose
    leg_length_m: float  # hip axis to foot in the default pose
    swing_sign: float
    extension_sign: float
    stand_height_m: float
    camera: CameraMount


A1 = RobotSpec(
    name="a1",
    urdf="a1/a1.urdf",  # in pybullet_data
    joint_names=tuple(f"{leg}_{j}_joint" for leg in LEGS for j in ("hip", "upper", "lower")),
    # URDF limits; tests/test_robot_spec.py compares them with the loaded model.
    joint_lower_rad=per_leg(-0.802851455917, -1.0471975512, -2.69653369433),
    joint_upper_rad=per_leg(0.802851455917, 4.18879020479, -0.916297857297),
    torque_limit_nm=per_leg(20.0, 55.0, 55.0),
    # Gains, initial angles: motion_imitation robots/a1.py (ABDUCTION/HIP/KNEE_P_GAIN, ..._D_GAIN,
    # INIT_MOTOR_ANGLES).
    kp_nm_per_rad=per_leg(100.0, 100.0, 100.0),
    kd_nms_per_rad=per_leg(1.0, 2.0, 2.0),
    damping_nms_per_rad=8.0,  # passive mode of rl_sar (kp 0, kd 8)
    default_pose_rad=per_leg(0.0, 0.9, -1.8),
    # URDF: hip joint (0.183, 0.047) from the base, hip link 0.08505 sideways, two 0.2 m links.
    feet_m=np.array([(0.183, -0.132), (0.183, 0.132), (-0.183, -0.132), (-0.183, 0.132)]),
    leg_length_m=2 * 0.2 * float(np.cos(0.9)),
    # With (0, 0.9, -1.8) as neutral pose these signs make positive swing move the foot forward
    # and positive extension lengthen the leg (tests/test_gait.py checks both on the model).
    swing_sign=-1.0,
    extension_sign=1.0,
    stand_height_m=0.27,  # measured: settles at 0.262 m under the gains above
    # Between the A1's front cameras, on the face of the trunk (URDF trunk box half length 0.134 m).
    camera=CameraMount(position_m=(0.20, 0.0, 0.05), pitch_down_rad=0.2, vertical_fov_rad=1.05),
)

ROBOTS = {A1.name: A1}
