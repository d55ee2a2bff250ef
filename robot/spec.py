"""Robot specifications: all numbers of a robot that controller, simulator and contract share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError

Array = NDArray[np.float64]
Signs = tuple[float, float, float, float]  # of LEGS, each 1 or -1
Levers = tuple[float, float]  # about abduction and knee [m]

LEGS = ("FR", "FL", "RR", "RL")  # Unitree SDK order
ROBOT_FILES = (".yaml", ".yml")
# Limits of a camera's mount: assumptions, wide enough for any quadruped and lens.
FARTHEST_MOUNT_M, STEEPEST_MOUNT_RAD, WIDEST_FOV_RAD = 2.0, 1.5, 2.8
TRAINED_HEIGHT, TRAINED_PITCH = "trained_eye_height_m", "trained_eye_pitch_rad"  # in a contract


def mirrored(
    abduction: tuple[float, float, float],
    hip: tuple[float, float, float],
    knee: tuple[float, float, float],
    foot: tuple[float, float, float],
) -> Array:
    """`RobotSpec.legs_m` (4, 4, 3) from the vectors of the front left leg [m].

    The other legs are mirrored: all vectors to the right, the first one to the rear.
    """
    legs = np.tile(np.array((abduction, hip, knee, foot)), (len(LEGS), 1, 1))
    legs[0::2, :, 1] *= -1.0
    legs[2:, 0, 0] *= -1.0
    return legs


def per_leg(*values: float) -> Array:
    """Repeat one leg's (abduction, hip, knee) values for all four legs, (12,)."""
    return np.tile(np.asarray(values, dtype=np.float64), len(LEGS))


@dataclass(frozen=True)
class CameraMount:
    """Forward camera, posed in the base frame (x forward, y left, z up; REP 103)."""

    position_m: tuple[float, float, float]
    pitch_down_rad: float
    vertical_fov_rad: float


@dataclass(frozen=True)
class TrainedMounts:
    """Mounts that a policy knows: that of its contract, and those of its training."""

    usual: CameraMount
    up_m: tuple[float, float]  # least and most height above the base
    pitch_down_rad: tuple[float, float]

    @classmethod
    def one(cls, mount: CameraMount) -> TrainedMounts:
        """One mount alone."""
        up_m, pitch_rad = mount.position_m[2], mount.pitch_down_rad
        return cls(mount, (up_m, up_m), (pitch_rad, pitch_rad))

    def nearest(self, up_m: float, pitch_down_rad: float) -> tuple[float, float]:
        """Height above the base and pitch of the known mount that is nearest to these."""
        ends = (*self.up_m, up_m), (*self.pitch_down_rad, pitch_down_rad)
        return sorted(ends[0])[1], sorted(ends[1])[1]


@dataclass(frozen=True, eq=False)
class RobotSpec:
    """One quadruped. Arrays are (12,), in the order of `joint_names`."""

    name: str
    urdf: str  # defines zero and axes of the joints: Python package, then path within
    joint_names: tuple[str, ...]
    foot_links: tuple[str, ...]  # for simulators: in the URDF, one per leg
    joint_lower_rad: Array
    joint_upper_rad: Array
    torque_limit_nm: Array
    velocity_limit_rad_per_s: Array
    target_speed_limit_rad_per_s: Array  # of joint targets
    kp_nm_per_rad: Array
    kd_nms_per_rad: Array
    damping_nms_per_rad: float
    default_pose_rad: Array
    feet_m: Array  # (4, 2) foot x, y below the base in the default pose
    leg_length_m: float  # hip axis to foot in the default pose
    # (4, 4, 3): of each leg, with all joints at 0 and in the base frame, the vectors from the base
    # to the abduction's axis, on to the hip, the knee, the foot's centre. See `estimation/`.
    legs_m: Array
    foot_radius_m: float
    # Joint directions in the URDF, see robot/control/gait.py.
    swing_signs: Signs
    extension_signs: Signs
    stand_height_m: float
    camera: CameraMount
    abduction_signs: Signs = (1.0, 1.0, 1.0, 1.0)
    hip_share: float = 0.5  # of the knee's motion that the hip compensates
    # Soft legs only, see robot/control/gait.py: the mass of the load compensation, and the levers
    # of a foot's load about abduction and knee in the default pose.
    carried_kg: float = 0.0
    load_levers_m: Levers = (0.0, 0.0)
    load_lag_s: float = 0.0  # from the gait generator's stance to a leg's
    load_felt_s: float = 0.0  # time constant of the load estimate; 0: none
    # Speed backwards of the shipped low level's whole steps at no commanded speed: between what was
    # measured in the two engines (A1: 0.02 and 0.03).
    creep_m_per_s: float = 0.0


AXES = ("vx_m_per_s", "vy_m_per_s", "yaw_rate_rad_per_s")  # of a velocity command, base frame
Ranges = tuple[tuple[float, float], ...]  # of a velocity command, by axis


@dataclass(frozen=True, eq=False)
class Legs:
    """Legs of a bundle: gains, pose, and the velocity commands that it obeys.

    A robot stands by the gains of its specification, and walks by those of its legs.
    """

    kp_nm_per_rad: Array  # (12,)
    kd_nms_per_rad: Array  # (12,)
    default_pose_rad: Array  # (12,)
    command: Ranges  # least and most of each of `AXES`
    least_turning_speed_m_per_s: float = 0.0  # of a walker that does not turn on the spot
    gait: bool = True  # the gait generator of `robot/control/gait.py`, or a third-party policy

    @property
    def planar(self) -> bool:
        """Whether it is a gait that obeys speed and turn alone, with shrinking steps."""
        return self.gait and not any(self.command[1])


def spec_contract(spec: RobotSpec) -> dict[str, Any]:
    """The numbers that a policy relies on, as they stand in a bundle's contract."""
    return {
        "urdf": spec.urdf,
        "joint_names": list(spec.joint_names),
        "abduction_signs": list(spec.abduction_signs),
        "swing_sign": _one_for_all(spec.swing_signs),
        "extension_sign": _one_for_all(spec.extension_signs),
        "joint_lower_rad": spec.joint_lower_rad.tolist(),
        "joint_upper_rad": spec.joint_upper_rad.tolist(),
        "torque_limit_nm": spec.torque_limit_nm.tolist(),
        "velocity_limit_rad_per_s": spec.velocity_limit_rad_per_s.tolist(),
        "target_speed_limit_rad_per_s": spec.target_speed_limit_rad_per_s.tolist(),
        "kp_nm_per_rad": spec.kp_nm_per_rad.tolist(),
        "kd_nms_per_rad": spec.kd_nms_per_rad.tolist(),
        "damping_nms_per_rad": spec.damping_nms_per_rad,
        "default_pose_rad": spec.default_pose_rad.tolist(),
        "camera_position_m": list(spec.camera.position_m),
        "camera_pitch_down_rad": spec.camera.pitch_down_rad,
        "camera_vertical_fov_rad": spec.camera.vertical_fov_rad,
    }


def _one_for_all(signs: Signs) -> float | list[float]:
    """Signs of the legs as one number, if they agree."""
    return signs[0] if len(set(signs)) == 1 else list(signs)


@cache
def mounted(spec: RobotSpec, camera: CameraMount) -> RobotSpec:
    """The robot with its camera mounted so; itself if that is its own mount."""
    return spec if camera == spec.camera else replace(spec, camera=camera)


def mount_in(numbers: Mapping[str, Any]) -> CameraMount:
    """The camera's mount among the numbers of `spec_contract`: that of the bundle.

    Raises:
        UserError: if a number is missing or impossible.
    """
    position, pitch, fov = (
        _numbers(numbers, name, count, most)
        for name, count, most in (
            ("camera_position_m", 3, FARTHEST_MOUNT_M),
            ("camera_pitch_down_rad", 1, STEEPEST_MOUNT_RAD),
            ("camera_vertical_fov_rad", 1, WIDEST_FOV_RAD),
        )
    )
    return CameraMount((position[0], position[1], position[2]), pitch[0], fov[0])


def trained_mounts(
    camera: Mapping[str, Any], usual: CameraMount, stand_height_m: float
) -> TrainedMounts:
    """The mounts of a contract's `camera`, for a robot of this height.

    Raises:
        UserError: if a range is no range of possible mounts.
    """
    height_m, pitch_rad = stand_height_m + usual.position_m[2], usual.pitch_down_rad
    low_m, high_m = _range_around(height_m, camera, TRAINED_HEIGHT, FARTHEST_MOUNT_M)
    pitch = _range_around(pitch_rad, camera, TRAINED_PITCH, STEEPEST_MOUNT_RAD)
    return TrainedMounts(usual, (low_m - stand_height_m, high_m - stand_height_m), pitch)


def _range_around(
    usual: float, camera: Mapping[str, Any], name: str, most: float
) -> tuple[float, float]:
    """A range of a contract's `camera`, extended to the usual value; that alone if it is null."""
    if camera.get(name) is None:
        return usual, usual
    low, high = _numbers(camera, name, 2, most, "camera")
    if low > high:
        raise UserError(f"camera.{name} is {[low, high]}, expected LOW HIGH")
    return min(low, usual), max(high, usual)


def _numbers(
    numbers: Mapping[str, Any], name: str, count: int, most: float, within: str = "spec"
) -> list[float]:
    """Numbers of a contract; a field of view is above 0."""
    value: Any = numbers.get(name)
    listed: list[Any] = value if isinstance(value, list) else [value]
    least = 0.01 if name == "camera_vertical_fov_rad" else -most
    fits = len(listed) == count and all(type(x) in (int, float) for x in listed)
    if not fits or not all(least <= x <= most for x in listed):
        raise UserError(f"{within}.{name} is {value}, expected {count} of {least:g} to {most:g}")
    return [float(x) for x in listed]


A1 = RobotSpec(
    name="a1",
    urdf="pybullet_data/a1/a1.urdf",
    joint_names=tuple(f"{leg}_{j}_joint" for leg in LEGS for j in ("hip", "upper", "lower")),
    foot_links=tuple(f"{leg}_toe" for leg in LEGS),
    # URDF limits; tests/robot/test_robot_spec.py compares them with the loaded model.
    joint_lower_rad=per_leg(-0.802851455917, -1.0471975512, -2.69653369433),
    joint_upper_rad=per_leg(0.802851455917, 4.18879020479, -0.916297857297),
    # Newer than the URDF, and lower: Unitree's unitree_ros, a1_description, gives all joints a
    # torque of 33.5 Nm (20, 55 and 55 in the URDF) and a speed of 21 rad/s.
    torque_limit_nm=per_leg(20.0, 33.5, 33.5),
    velocity_limit_rad_per_s=per_leg(52.4, 28.6, 28.6),  # URDF
    target_speed_limit_rad_per_s=per_leg(21.0, 21.0, 21.0),
    # Gains, initial angles: motion_imitation robots/a1.py (ABDUCTION/HIP/KNEE_P_GAIN, ..._D_GAIN,
    # INIT_MOTOR_ANGLES).
    kp_nm_per_rad=per_leg(100.0, 100.0, 100.0),
    kd_nms_per_rad=per_leg(1.0, 2.0, 2.0),
    damping_nms_per_rad=8.0,  # passive mode of rl_sar (kp 0, kd 8)
    default_pose_rad=per_leg(0.0, 0.9, -1.8),
    # URDF: hip joint (0.183, 0.047) from the base, hip link 0.08505 sideways, two 0.2 m links.
    feet_m=np.array([(0.183, -0.132), (0.183, 0.132), (-0.183, -0.132), (-0.183, 0.132)]),
    leg_length_m=2 * 0.2 * float(np.cos(0.9)),
    legs_m=mirrored((0.183, 0.047, 0.0), (0.0, 0.08505, 0.0), (0.0, 0.0, -0.2), (0.0, 0.0, -0.2)),
    foot_radius_m=0.02,  # URDF, as on all robots
    # With (0, 0.9, -1.8) as neutral pose these signs make positive swing move the foot forward
    # and positive extension lengthen the leg (tests/robot/test_gait.py checks both on the model).
    swing_signs=(-1.0, -1.0, -1.0, -1.0),
    extension_signs=(1.0, 1.0, 1.0, 1.0),
    stand_height_m=0.27,  # measured: settles at 0.262 m under the gains above
    # Between the A1's front cameras, on the face of the trunk (URDF trunk box half length 0.134 m).
    camera=CameraMount(position_m=(0.20, 0.0, 0.05), pitch_down_rad=0.2, vertical_fov_rad=1.05),
    creep_m_per_s=0.018,
)

MINI_CHEETAH = RobotSpec(
    name="mini_cheetah",
    urdf="pybullet_data/mini_cheetah/mini_cheetah.urdf",
    joint_names=tuple(
        f"{joint}_{leg}_j"
        for leg in ("fr", "fl", "hr", "hl")
        for joint in ("torso_to_abduct", f"abduct_{leg}_to_thigh", f"thigh_{leg}_to_knee")
    ),
    foot_links=("toe_fr", "toe_fl", "toe_hr", "toe_hl"),
    # The URDF's joints turn without end: limits of other public models of the robot.
    joint_lower_rad=per_leg(-1.6, -2.6, -2.6),
    joint_upper_rad=per_leg(1.6, 2.6, 2.6),
    torque_limit_nm=per_leg(12.0, 18.0, 12.0),  # pybullet_envs robots/mini_cheetah.py
    velocity_limit_rad_per_s=per_leg(40.0, 40.0, 40.0),  # of the actuator, Katz et al., ICRA 2019
    target_speed_limit_rad_per_s=per_leg(40.0, 40.0, 40.0),  # the same
    # pybullet_data configs_v2/robots/mini_cheetah.gin
    kp_nm_per_rad=per_leg(100.0, 30.0, 50.0),
    kd_nms_per_rad=per_leg(1.0, 2.0, 2.0),
    damping_nms_per_rad=2.0,  # its own kd
    # Hip: neutral pose of Google's PMTG (-pi/4). Knee: the foot is below the hip.
    default_pose_rad=per_leg(0.0, -0.7854, 1.7487),
    # URDF: abduction (0.19, 0.049) from the base, hip 0.062 sideways, links of 0.209 and 0.18 m.
    feet_m=np.array([(0.19, -0.111), (0.19, 0.111), (-0.19, -0.111), (-0.19, 0.111)]),
    leg_length_m=0.2506,
    legs_m=mirrored((0.19, 0.049, 0.0), (0.0, 0.062, 0.0), (0.0, 0.0, -0.209), (0.0, 0.0, -0.18)),
    foot_radius_m=0.015,
    swing_signs=(1.0, 1.0, 1.0, 1.0),  # hip and knee turn about -y
    extension_signs=(-1.0, -1.0, -1.0, -1.0),
    stand_height_m=0.266,  # leg and toe radius (0.015 m)
    # The robot has no camera of its own: ahead of the front hips, as on the A1.
    camera=CameraMount(position_m=(0.21, 0.0, 0.05), pitch_down_rad=0.2, vertical_fov_rad=1.05),
    hip_share=0.41,  # links of unequal length: (l2^2 + l1 l2 cos q) / leg_length^2
    # URDF: all links; thigh 0.062 m beside the abduction's axis, 0.209 m from hip to knee.
    carried_kg=8.852,
    load_levers_m=(0.062, 0.209 * float(np.sin(0.7854))),
    creep_m_per_s=-0.03,
)

LAIKAGO = RobotSpec(
    name="laikago",
    urdf="pybullet_data/laikago/laikago_toes_zup.urdf",
    joint_names=tuple(
        f"{leg}_{name}_joint"
        for leg in LEGS
        for name in ("hip_motor_2_chassis", "upper_leg_2_hip_motor", "lower_leg_2_upper_leg")
    ),
    foot_links=tuple(f"toe{leg}" for leg in LEGS),
    # laikago_toes_limits.urdf; the URDF with z up, which is used, has the same joints without.
    joint_lower_rad=per_leg(-0.873, -1.3, -2.164),
    joint_upper_rad=per_leg(1.0472, 3.4, 0.0),
    torque_limit_nm=per_leg(100.0, 100.0, 100.0),  # URDF
    velocity_limit_rad_per_s=per_leg(100.0, 100.0, 100.0),  # URDF
    # Highest speed of the joints in Unitree's unitree_ros, laikago_description.
    target_speed_limit_rad_per_s=per_leg(27.0, 12.794, 12.794),
    # kp: pybullet_data configs_v2/robots/laikago.gin. Its kd of 2 lets the body sway at the trot's
    # own frequency until it falls (measured in both simulators); 6 is an assumption.
    kp_nm_per_rad=per_leg(220.0, 220.0, 220.0),
    kd_nms_per_rad=per_leg(6.0, 6.0, 6.0),
    damping_nms_per_rad=8.0,  # passive mode of rl_sar
    # Joint angles 0 are not straight legs: the URDF's upper leg leans back by 0.599 rad, its lower
    # leg by 0.088 rad. Upper leg: pi/4, neutral pose of Google's PMTG. Knee: foot below the hip.
    # Hip motor: outwards, an assumption. With its feet below the hips this robot, the tallest for
    # its width, is pushed over: 17 falls in 200 episodes in MuJoCo, none with 0.1 rad.
    default_pose_rad=per_leg(0.1, 0.1865, -1.0648),
    # URDF: hip motors, upper legs and lower legs sideways; the right is 2 mm nearer than the left.
    feet_m=np.array([(0.1991, -0.1499), (0.1991, 0.1521), (-0.2382, -0.1499), (-0.2382, 0.1521)]),
    leg_length_m=0.3549,  # links of 0.2522 and 0.2510 m
    # URDF. Its legs lean back and inwards at joint angles of 0, the right hips are 2 mm nearer.
    legs_m=np.array(
        [
            [
                (x, side * 0.081714, -0.03),
                (0.0, side * hip_y, 0.0),
                (-0.142199, side * -0.020689, -0.208331),
                (-0.021998, 0.0, -0.25),
            ]
            for x in (0.199095, -0.238195)
            for side, hip_y in ((-1, 0.053565), (1, 0.055855))
        ]
    ),
    foot_radius_m=0.03,
    swing_signs=(-1.0, -1.0, -1.0, -1.0),
    extension_signs=(1.0, 1.0, 1.0, 1.0),
    stand_height_m=0.41,  # leg, hip axis 0.03 m below the base, toe radius 0.03 m
    # Ahead of the front hips, as on the A1.
    camera=CameraMount(position_m=(0.22, 0.0, 0.05), pitch_down_rad=0.2, vertical_fov_rad=1.05),
    abduction_signs=(-1.0, 1.0, -1.0, 1.0),  # the right legs' axes point backwards
)

GO2 = RobotSpec(
    name="go2",
    urdf="example-robot-data/robots/go2_description/urdf/go2.urdf",
    joint_names=tuple(f"{leg}_{j}_joint" for leg in LEGS for j in ("hip", "thigh", "calf")),
    foot_links=tuple(f"{leg}_foot" for leg in LEGS),
    # URDF; front and rear thighs have different limits.
    joint_lower_rad=np.array(
        [-1.0472, -1.5708, -2.7227] * 2 + [-1.0472, -0.5236, -2.7227] * 2, dtype=np.float64
    ),
    joint_upper_rad=np.array(
        [1.0472, 3.4907, -0.83776] * 2 + [1.0472, 4.5379, -0.83776] * 2, dtype=np.float64
    ),
    torque_limit_nm=per_leg(23.7, 23.7, 45.43),
    velocity_limit_rad_per_s=per_leg(30.1, 30.1, 15.7),
    target_speed_limit_rad_per_s=per_leg(30.1, 30.1, 15.7),  # the same
    # Gains: the knees' of unitree_rl_mjlab; published policies have kp from 20 to 40, kd from 0.5
    # to 2. Pose: unitree_sdk2's state_machine example.
    kp_nm_per_rad=per_leg(40.0, 40.0, 40.0),
    kd_nms_per_rad=per_leg(2.0, 2.0, 2.0),
    damping_nms_per_rad=8.0,  # passive mode of rl_sar
    default_pose_rad=per_leg(0.0, 0.9, -1.8),
    # URDF: hip (0.1934, 0.0465) from the base, thigh 0.0955 sideways, two 0.213 m links.
    feet_m=np.array([(0.1934, -0.142), (0.1934, 0.142), (-0.1934, -0.142), (-0.1934, 0.142)]),
    leg_length_m=2 * 0.213 * float(np.cos(0.9)),
    legs_m=mirrored(
        (0.1934, 0.0465, 0.0), (0.0, 0.0955, 0.0), (0.0, 0.0, -0.213), (0.0, 0.0, -0.213)
    ),
    foot_radius_m=0.022,
    swing_signs=(-1.0, -1.0, -1.0, -1.0),
    extension_signs=(1.0, 1.0, 1.0, 1.0),
    stand_height_m=0.287,  # leg and foot radius (0.022 m)
    # Mass of Unitree's own model; URDF: thigh 0.0955 m beside the hip's axis, calf of 0.213 m.
    carried_kg=15.2,
    load_levers_m=(0.0955, 0.213 * float(np.sin(0.9))),
    load_lag_s=0.05,  # kd / kp; its effect: policies/pretrained/walk-go2
    load_felt_s=1.0,  # assumption: two gait cycles or three
    creep_m_per_s=0.022,
    # A D435i on the usual bracket above the front, at the least of its tilts: Robot Parkour
    # Learning's go2_distill_config.py. The field of view is the A1's.
    camera=CameraMount(position_m=(0.24, -0.018, 0.12), pitch_down_rad=0.37, vertical_fov_rad=1.05),
)

ROBOTS = {spec.name: spec for spec in (A1, MINI_CHEETAH, LAIKAGO, GO2)}


def robot_numbers(spec: RobotSpec) -> dict[str, Any]:
    """A specification as JSON and YAML write it, by field."""
    return {name: _plain(value) for name, value in asdict(spec).items()}


def robot_from_numbers(numbers: Mapping[str, Any]) -> RobotSpec:
    """The specification of `robot_numbers`.

    Raises:
        UserError: if a field is missing, unknown, or not as expected; names it.
    """
    known = {each.name: each for each in fields(RobotSpec)}
    for name in numbers:
        if name not in known:
            raise UserError(f"unknown key '{name}', expected one of {', '.join(known)}")
    values: dict[str, Any] = {}
    for name, each in known.items():
        if name in numbers:
            values[name] = _field(name, each.type, numbers[name])
        elif each.default is MISSING:
            raise UserError(f"key '{name}' is missing")
    _check_limits(values)
    return RobotSpec(**values)


POSITIVE = (
    *("torque_limit_nm", "velocity_limit_rad_per_s", "target_speed_limit_rad_per_s"),
    *("kp_nm_per_rad", "damping_nms_per_rad", "leg_length_m", "stand_height_m"),
)


def _check_limits(values: Mapping[str, Any]) -> None:
    """Raise a UserError for limits or gains by which the supervisor could not keep a robot safe."""
    for name in POSITIVE:
        if not np.all(np.asarray(values[name]) > 0.0):
            raise UserError(f"{name} is {_plain(values[name])}, expected numbers above 0")
    if not np.all(values["kd_nms_per_rad"] >= 0.0):
        found = _plain(values["kd_nms_per_rad"])
        raise UserError(f"kd_nms_per_rad is {found}, expected numbers of 0 and more")
    lower, upper = values["joint_lower_rad"], values["joint_upper_rad"]
    for name, low, high in zip(values["joint_names"], lower.tolist(), upper.tolist(), strict=True):
        if not low < high:
            raise UserError(f"joint_lower_rad of {name} is {low}, expected below {high}, its upper")


SHAPES = {"feet_m": (4, 2), "legs_m": (4, 4, 3)}  # of arrays; the others are (12,)
NAMES = {"joint_names": 3 * len(LEGS), "foot_links": len(LEGS)}


def _field(name: str, kind: Any, value: Any) -> Any:
    """A field's value of a file; `kind` is its annotation."""
    if name == "camera":
        mount = _pairs(name, value)
        return mount_in({f"camera_{key}": each for key, each in mount.items()})
    if kind == "str":
        if isinstance(value, str) and value.isprintable():
            return value
        raise UserError(f"{name} is {value}, expected text")
    if name in NAMES:
        named = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if named and len(value) == NAMES[name]:
            return tuple(value)
        raise UserError(f"{name} is {value}, expected {NAMES[name]} names")
    shape = {"float": (), "Signs": (len(LEGS),), "Levers": (2,)}.get(kind)
    shape = SHAPES.get(name, (3 * len(LEGS),)) if shape is None else shape
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    fits = array.shape == shape and bool(np.isfinite(array).all())
    if not fits or (kind == "Signs" and not (np.abs(array) == 1.0).all()):
        of = "1 and -1" if kind == "Signs" else "numbers"
        raise UserError(f"{name} is {value}, expected {of} of shape {shape}")
    if kind == "Array":
        return array
    return tuple(array.tolist()) if shape else float(array)


def _pairs(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{name} is {value}, expected keys and values")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


@cache
def read_robot(file: Path) -> RobotSpec:
    """The specification in a robot file (YAML), as pixelgait-robot writes it.

    Raises:
        UserError: if it is missing, or is none; names file and key.
    """
    import yaml  # a robot needs no robot file: a bundle holds the specification

    try:
        numbers = yaml.safe_load(file.read_text(encoding="utf-8"))
        spec = robot_from_numbers(_pairs("content", numbers))
    except FileNotFoundError:
        raise UserError(f"{file} is missing") from None
    except (UserError, OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"robot file {file}: {reason}") from None
    if spec.name in ROBOTS:
        raise UserError(f"robot file {file}: '{spec.name}' is a robot of this package")
    return spec


def moved_robot(name: str, move: Callable[[Path], Path]) -> str:
    """The name of the same robot after its robot file has been moved."""
    return str(move(Path(name))) if name.endswith(ROBOT_FILES) else name


def find_robot(name: str) -> RobotSpec:
    """A robot by name, or by its robot file.

    Raises:
        UserError: if there is no such robot, or the file is none.
    """
    if name.endswith(ROBOT_FILES):
        return read_robot(Path(name).absolute())
    if name not in ROBOTS:
        known = ", ".join(ROBOTS)
        raise UserError(f"unknown robot '{name}', choose from {known}, or a robot file (.yaml)")
    return ROBOTS[name]
