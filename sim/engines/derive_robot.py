"""Robot specification from a URDF: joints, signs, lengths, standing pose, limits, gains.

A leg is a chain of three joints below the base: abduction about x, hip and knee about y, all joints
at 0. Its foot is the link that is furthest below the knee. Feet stand below their hips.

A URDF says nothing about gains, and its limits of a torque or speed may be missing: those come from
weight and leg lengths, and each is noted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import GRAVITY_M_PER_S2
from pixelgait.robot.spec import LEGS, ROBOTS, Array, CameraMount, RobotSpec, Signs, per_leg
from pixelgait.sim.engines.urdf import packaged, parse_urdf
from pixelgait.sim.engines.urdf_tree import FIXED, FREE, UrdfJoint, UrdfTree

HEIGHT_SHARE = 0.62  # of a straight leg: cos 0.9, as A1 and Go2 stand
SAME = 0.02  # largest difference between legs, as a share of their length
SQUARE = 0.95  # least component of an axis along the base's
MARGIN_RAD = 0.1  # between standing pose and limits
TURN_RAD = 2.0 * math.pi
# Assumptions, where a URDF has no limits: angles about the standing pose, and the knee's from the
# straight leg; torque in units of the knee's that bears the robot on two legs; speed.
FREE_RANGE_RAD = (1.0, 2.0)
KNEE_RANGE_RAD = (0.3, 2.7)
FREE_TORQUE, FREE_SPEED_RAD_PER_S = 3.0, 20.0
MOST_TORQUE_NM, MOST_SPEED_RAD_PER_S = 900.0, 900.0  # more is a placeholder, as a Solo's 1000
# Gains: position error of the knee that bears the robot on two legs (0.09 rad on an A1, 0.11 on a
# Laikago), kd / kp (0.02 and 0.03), damping / kd (4 on A1 and Go2; 8 at most, as the passive
# mode of rl_sar). Above the first of two errors legs are soft, above the other the softest: a Mini
# Cheetah's is 0.13, a Go2's 0.31 rad.
SAG_RAD, KD_PER_KP, DAMPING_PER_KD, MOST_DAMPING = 0.1, 0.025, 4.0, 8.0
SOFT_RAD, SOFTEST_RAD = 0.12, 0.2
LOAD_FELT_S = 1.0  # as of a Go2
FOOT_RADIUS_M = 0.02  # assumption, of a foot without a sphere
# The camera: ahead of the front hips and above the base, tilt and field of view as on an A1.
CAMERA_M, CAMERA_PITCH_RAD, CAMERA_FOV_RAD = (0.02, 0.0, 0.05), 0.2, 1.05


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Values that a URDF lacks; None: derived."""

    name: str | None = None
    height_m: float | None = None  # of the hips above the feet
    kp_nm_per_rad: float | None = None
    kd_nms_per_rad: float | None = None


class Derived(NamedTuple):
    """A specification, and notes on what the URDF does not say."""

    spec: RobotSpec
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Leg:
    """A leg in the plane of its hip and knee (x ahead, z up), all joints at 0."""

    joints: tuple[UrdfJoint, UrdfJoint, UrdfJoint]  # abduction, hip, knee
    foot: str
    vectors_m: Array  # (4, 3): of `RobotSpec.legs_m`
    signs: tuple[float, float]  # of the axes of abduction and hip

    @property
    def lengths_m(self) -> tuple[float, float]:
        """Lengths of thigh and shank in the plane."""
        thigh, shank = np.hypot(self.vectors_m[2:, 0], self.vectors_m[2:, 2]).tolist()
        return thigh, shank

    @property
    def rest_rad(self) -> tuple[float, float]:
        """Angles of thigh and shank from straight down, backwards, all joints at 0."""
        thigh, shank = (math.atan2(-x, -z) for x, _, z in self.vectors_m[2:].tolist())
        return thigh, shank


@dataclass(frozen=True)
class Stance:
    """A standing pose of a leg: thigh and shank from straight down, backwards [rad]."""

    thigh_rad: float
    shank_rad: float

    def joints(self, leg: Leg) -> tuple[float, float]:
        """Angles of hip and knee [rad]."""
        thigh, shank = leg.rest_rad
        sign = leg.signs[1]
        hip = _wrapped(self.thigh_rad - thigh)
        knee = _wrapped(self.shank_rad - self.thigh_rad - (shank - thigh))
        return sign * hip, sign * knee

    @property
    def knee_sign(self) -> float:
        """Whether a turn of the knee about +y lengthens the leg (1) or folds it (-1)."""
        return 1.0 if self.thigh_rad > self.shank_rad else -1.0


def derive_robot(urdf: Path, choices: Choices) -> Derived:
    """The specification of the robot in a URDF.

    Raises:
        UserError: if it cannot be read, has no four legs of this kind, or no standing pose.
    """
    root = parse_urdf(urdf)
    tree, notes = UrdfTree(root), list[str]()
    legs = find_legs(urdf, tree)
    lengths = [leg.lengths_m for leg in legs]
    if np.ptp(lengths, axis=0).max() > SAME * max(lengths[0]):
        raise UserError(f"{urdf}: its legs have different lengths, expected four equal ones")
    height_m = choices.height_m or HEIGHT_SHARE * sum(legs[0].lengths_m)
    stances = [stance(urdf, leg, height_m) for leg in legs]
    mass_kg = _mass_kg(urdf, root)
    lever_m = abs(legs[0].lengths_m[0] * math.sin(stances[0].thigh_rad))
    bearing_nm = mass_kg * GRAVITY_M_PER_S2 / 2.0 * lever_m  # a knee's, on two legs
    kp, kd = _gains(choices, bearing_nm, notes)
    pose = np.concatenate([(0.0, *s.joints(leg)) for s, leg in zip(stances, legs, strict=True)])
    names = tuple(joint.name for leg in legs for joint in leg.joints)
    angles = dict(zip(names, pose.tolist(), strict=True))
    feet = np.array([tree.place(leg.foot, angles) for leg in legs])
    radius_m = _foot_radius(root, legs, notes)
    lower, upper = _ranges(legs, stances, notes)
    torque = _limits(legs, "effort_nm", FREE_TORQUE * bearing_nm, MOST_TORQUE_NM, notes)
    speed = _limits(legs, "velocity_rad_per_s", FREE_SPEED_RAD_PER_S, MOST_SPEED_RAD_PER_S, notes)
    knee = stances[0].shank_rad - stances[0].thigh_rad
    thigh_m, shank_m = legs[0].lengths_m
    soft, softest = (bearing_nm / kp > limit for limit in (SOFT_RAD, SOFTEST_RAD))
    aside_m = abs(float(feet[0, 1] - legs[0].vectors_m[0, 1]))
    spec = RobotSpec(
        name=_name(urdf, choices),
        urdf=packaged(urdf),
        joint_names=names,
        foot_links=tuple(leg.foot for leg in legs),
        joint_lower_rad=lower,
        joint_upper_rad=upper,
        torque_limit_nm=torque,
        velocity_limit_rad_per_s=speed,
        target_speed_limit_rad_per_s=speed,
        kp_nm_per_rad=per_leg(kp, kp, kp),
        kd_nms_per_rad=per_leg(kd, kd, kd),
        damping_nms_per_rad=min(_rounded(DAMPING_PER_KD * kd), MOST_DAMPING),
        default_pose_rad=pose,
        feet_m=feet[:, :2].copy(),
        leg_length_m=height_m,
        legs_m=np.array([leg.vectors_m for leg in legs]),
        foot_radius_m=radius_m,
        swing_signs=_signs([-leg.signs[1] for leg in legs]),
        extension_signs=_signs(
            [leg.signs[1] * s.knee_sign for leg, s in zip(legs, stances, strict=True)]
        ),
        stand_height_m=float(-feet[:, 2].min()) + radius_m,
        camera=_camera(feet),
        abduction_signs=_signs([leg.signs[0] for leg in legs]),
        hip_share=(shank_m**2 + thigh_m * shank_m * math.cos(knee)) / height_m**2,
        carried_kg=mass_kg if soft else 0.0,
        load_levers_m=(aside_m, lever_m) if soft else (0.0, 0.0),
        load_lag_s=kd / kp if softest else 0.0,
        load_felt_s=LOAD_FELT_S if softest else 0.0,
    )
    return Derived(spec, list(dict.fromkeys(notes)))


def _mass_kg(urdf: Path, root: Element) -> float:
    masses = [each.get("value", "0") for each in root.iter("mass")]
    try:
        mass_kg = sum(map(float, masses))
    except ValueError as error:  # a xacro file that was not expanded
        raise UserError(f"{urdf}: mass of a link: {error}") from None
    if not mass_kg > 0.0:
        raise UserError(f"{urdf}: its links have no mass")
    return mass_kg


def find_legs(urdf: Path, tree: UrdfTree) -> list[Leg]:
    """The legs of a URDF, in the order of `LEGS`.

    Raises:
        UserError: if there are others than four of three joints, at four corners, or axes that are
            no quadruped's.
    """
    chains = {
        chain[-1].name: chain
        for joint in tree.joints.values()
        if _moves(joint) and not any(_moves(each) for each in _below(tree, joint))
        if (chain := [each for each in tree.chain(joint.child) if _moves(each)])
    }
    if len(chains) != len(LEGS) or any(len(chain) != 3 for chain in chains.values()):
        found = ", ".join(f"{len(chain)} to {name}" for name, chain in chains.items()) or "none"
        raise UserError(f"{urdf}: chains of joints: {found}; expected four legs of three joints")
    legs = [_leg(urdf, tree, chain) for chain in chains.values()]
    middle = np.mean([leg.vectors_m[0] for leg in legs], axis=0)
    corners = {_corner(leg.vectors_m[0] - middle): leg for leg in legs}
    if set(corners) != set(LEGS):
        raise UserError(
            f"{urdf}: its legs are not at four corners of the base, x ahead and y to the left"
        )
    return [corners[name] for name in LEGS]


def _moves(joint: UrdfJoint) -> bool:
    return joint.kind not in (FIXED, FREE)


def _below(tree: UrdfTree, joint: UrdfJoint) -> list[UrdfJoint]:
    """All joints below a joint."""
    own = [each for each in tree.joints.values() if each.parent == joint.child]
    return [*own, *(below for each in own for below in _below(tree, each))]


def _leg(urdf: Path, tree: UrdfTree, chain: list[UrdfJoint]) -> Leg:
    abduction, hip, knee = chain
    axes = [tree.axis(joint) for joint in chain]
    for joint, axis, along in zip(chain, axes, (0, 1, 1), strict=True):
        if abs(axis[along]) < SQUARE:
            turns = ", ".join(f"{each:.2f}" for each in axis.tolist())
            raise UserError(
                f"{urdf}: at 0 {joint.name} turns about ({turns}), expected {'xy'[along]}: "
                "abduction about x, hip and knee about y, z up (REP 103)"
            )
    if axes[1][1] * axes[2][1] < 0.0:
        raise UserError(
            f"{urdf}: the axes of {hip.name} and {knee.name} point to different sides; "
            "expected the same side of the robot"
        )
    links = [knee.child, *(each.child for each in _below(tree, knee))]
    places = {link: tree.place(link) for link in links}
    at_knee = places[knee.child]
    foot = max(links, key=lambda link: float(np.linalg.norm(places[link] - at_knee)))
    if foot == knee.child:
        raise UserError(f"{urdf}: no link below {knee.name}, expected a foot at its end")
    ends = [tree.place(abduction.child), tree.place(hip.child), at_knee, places[foot]]
    vectors = np.diff(np.array([np.zeros(3), *ends]), axis=0)
    return Leg(
        (abduction, hip, knee),
        foot,
        vectors,
        (float(np.sign(axes[0][0])), float(np.sign(axes[1][1]))),
    )


def _corner(place: Array) -> str:
    return ("F" if place[0] > 0.0 else "R") + ("L" if place[1] > 0.0 else "R")


def stance(urdf: Path, leg: Leg, height_m: float) -> Stance:
    """The standing pose of a leg, its foot below its hip: knee behind if limits allow it.

    Raises:
        UserError: if the leg is too short, or limits allow no such pose.
    """
    thigh_m, shank_m = leg.lengths_m
    if not abs(thigh_m - shank_m) < height_m < thigh_m + shank_m:
        raise UserError(
            f"{urdf}: hips cannot be {height_m:.3f} m above {leg.foot}, links of {thigh_m:.3f} "
            f"and {shank_m:.3f} m"
        )
    thigh = math.acos((thigh_m**2 + height_m**2 - shank_m**2) / (2.0 * thigh_m * height_m))
    aside, down = -thigh_m * math.sin(thigh), height_m - thigh_m * math.cos(thigh)
    shank = math.atan2(aside, down)
    for found in (Stance(thigh, shank), Stance(-thigh, -shank)):
        angles = zip(leg.joints, (0.0, *found.joints(leg)), strict=True)
        if all(_within(joint, angle) for joint, angle in angles):
            return found
    raise UserError(
        f"{urdf}: limits of {', '.join(joint.name for joint in leg.joints)} allow no pose with "
        f"{leg.foot} {height_m:.3f} m below its hip; another --height?"
    )


def _within(joint: UrdfJoint, angle: float) -> bool:
    if not _limited(joint):
        return True
    assert joint.lower_rad is not None
    assert joint.upper_rad is not None
    return joint.lower_rad + MARGIN_RAD < angle < joint.upper_rad - MARGIN_RAD


def _limited(joint: UrdfJoint) -> bool:
    """Whether a joint has limits that hold it back: a range below a turn."""
    if joint.kind == "continuous" or joint.lower_rad is None or joint.upper_rad is None:
        return False
    return 0.0 < joint.upper_rad - joint.lower_rad < TURN_RAD


def _ranges(legs: list[Leg], stances: list[Stance], notes: list[str]) -> tuple[Array, Array]:
    """Lower and upper limits (12,) of the joints [rad]."""
    rows = []
    for leg, found in zip(legs, stances, strict=True):
        hip, knee = found.joints(leg)
        straight = knee + leg.signs[1] * (found.thigh_rad - found.shank_rad)
        longer = leg.signs[1] * found.knee_sign
        least, most = sorted(straight - longer * bend for bend in KNEE_RANGE_RAD)
        aside, ahead = FREE_RANGE_RAD
        free = ((-aside, aside), (hip - ahead, hip + ahead), (least, most))
        for joint, assumed in zip(leg.joints, free, strict=True):
            if not _limited(joint):
                notes.append("joints that the URDF does not limit have assumed limits")
            rows.append((joint.lower_rad, joint.upper_rad) if _limited(joint) else assumed)
    lower, upper = np.array(rows, dtype=np.float64).T
    return lower, upper


def _limits(
    legs: list[Leg], name: str, assumed: float, placeholder: float, notes: list[str]
) -> Array:
    """Limits (12,) of torque or speed; those that are missing are assumed."""
    stated = [getattr(joint, name) for leg in legs for joint in leg.joints]
    known = [each is not None and 0.0 < each < placeholder for each in stated]
    if not all(known):
        notes.append(f"{name} of the URDF is missing, 0 or a placeholder: {assumed:.3g} assumed")
    return np.array([v if k else assumed for v, k in zip(stated, known, strict=True)])


def _gains(choices: Choices, bearing_nm: float, notes: list[str]) -> tuple[float, float]:
    """Stiffness and damping of the joints."""
    kp = choices.kp_nm_per_rad or _rounded(bearing_nm / SAG_RAD)
    kd = choices.kd_nms_per_rad
    kd = _rounded(KD_PER_KP * kp) if kd is None else kd
    if choices.kp_nm_per_rad is None:
        notes.append(f"kp {kp:g} and kd {kd:g} are assumed, by weight and leg: --kp, --kd")
    return kp, kd


def _foot_radius(root: Element, legs: list[Leg], notes: list[str]) -> float:
    """Radius of a foot: that of its sphere."""
    sphere = root.find(f"link[@name='{legs[0].foot}']/collision/geometry/sphere")
    if sphere is not None:
        return float(sphere.get("radius", "nan"))
    notes.append(f"{legs[0].foot} is no sphere: a radius of {FOOT_RADIUS_M:g} m is assumed")
    return FOOT_RADIUS_M


def _camera(feet: Array) -> CameraMount:
    x, y, z = CAMERA_M
    place = (round(float(feet[:, 0].max()) + x, 3), y, z)
    return CameraMount(place, CAMERA_PITCH_RAD, CAMERA_FOV_RAD)


def _name(urdf: Path, choices: Choices) -> str:
    """The robot's name, by default the file's; that of a robot of this package gets `_urdf`."""
    name = choices.name or urdf.stem
    name = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_") or "robot"
    return f"{name}_urdf" if name in ROBOTS else name


def _signs(values: list[float]) -> Signs:
    first, second, third, fourth = values
    return first, second, third, fourth


def _rounded(value: float) -> float:
    """Two significant digits."""
    return float(f"{value:.2g}")


def _wrapped(angle: float) -> float:
    """An angle in (-pi, pi]."""
    return -((math.pi - angle) % TURN_RAD - math.pi)
