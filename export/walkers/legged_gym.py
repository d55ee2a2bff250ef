"""Configurations in the manner of legged_gym.

Two kinds: the flat YAML of unitree_rl_gym's deployment (`kps`, `kds`, `default_angles`, ...), and
the classes of legged_gym as YAML (`init_state`, `control`, `normalization`), which name joints.
Observations are rates, gravity, command, angles, velocities, last action, each scaled; with the
body's velocity in front in legged_gym itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pixelgait.export.walkers import configuration as c
from pixelgait.export.walkers.options import Told, commanded, joint_names, said
from pixelgait.export.walkers.walker import SERVED, Term, Walker
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, RobotSpec

BLIND = 45  # observations without the body's velocity, which needs three more
WITH_HEIGHTS = BLIND + 3 + 187  # points in another order than Isaac Lab's
USUAL_ORDER = "leg-by-leg"
ORDER_WHY = "Isaac Gym's order of a URDF with legs FL, FR, RL, RR"
USUAL = {  # legged_gym's own, of what its classes do not set
    "sim.dt": 0.005,  # [s]
    "control.decimation": 4.0,
    "obs_scales.lin_vel": 2.0,
    "obs_scales.ang_vel": 0.25,
    "obs_scales.dof_pos": 1.0,
    "obs_scales.dof_vel": 0.05,
    "normalization.clip_observations": 100.0,
    "normalization.clip_actions": 100.0,
}


def is_legged_gym(content: Mapping[str, Any]) -> bool:
    """Whether a configuration is one of the two kinds."""
    return {"kps", "default_angles"} <= content.keys() or {
        "init_state",
        "control",
    } <= content.keys()


def read_legged_gym(content: Mapping[str, Any], spec: RobotSpec, told: Told) -> Walker:
    """The walker of a configuration.

    Raises:
        UserError: if a key is missing or cannot be used; names it.
    """
    names = joint_names(told, spec, USUAL_ORDER)
    notes: list[str] = []
    if told.joint_order is None:
        notes.append(said("order of the joints", USUAL_ORDER, ORDER_WHY, "--joint-order"))
    rate_hz = _rate(content, told, notes)
    given = _flat(content, notes) if "kps" in content else _classes(content, names, notes)
    if given["num_obs"] == WITH_HEIGHTS:
        raise UserError(
            f"{WITH_HEIGHTS} observations end with measured heights: they are read from a "
            "deploy.yaml alone"
        )
    first = ("base_lin_vel",) if given["num_obs"] == BLIND + 3 else ()
    command = commanded(told, given["command"], "the file names none", notes)
    clip = given["clip_observations"]
    scales = given["scales"]
    terms = tuple(
        Term(
            name, c.numbers(f"scale of {name}", scales.get(name, 1.0), SERVED[name]), (-clip, clip)
        )
        for name in (
            *(*first, "base_ang_vel", "projected_gravity", "velocity_commands"),
            *("joint_pos_rel", "joint_vel_rel", "last_action"),
        )
    )
    most = np.full(12, given["clip_actions"])
    return Walker(
        format="legged_gym",
        joint_names=names,
        terms=terms,
        action_scale=np.full(12, given["action_scale"]),
        action_offset=given["pose"],
        default_pose_rad=given["pose"],
        kp_nm_per_rad=given["kp"],
        kd_nms_per_rad=given["kd"],
        rate_hz=rate_hz,
        command=command,
        scale_first=True,
        action_clip=(-most, most) if math.isfinite(given["clip_actions"]) else None,
        notes=tuple(notes),
    )


def _or_usual(name: str, value: Any, notes: list[str], option: str = "") -> Any:
    """A value of the file, or legged_gym's own, which is said.

    Raises:
        UserError: if neither is there.
    """
    if value is None and name in USUAL:
        notes.append(said(name, f"{USUAL[name]:g}", "legged_gym's default", option))
        return USUAL[name]
    return c.entry({name: value}, name)


def _rate(content: Mapping[str, Any], told: Told, notes: list[str]) -> float:
    """Actions a second: those told, if the file lacks a part of their period."""
    if "kps" not in content:
        period = {
            "sim.dt": (content.get("sim") or {}).get("dt"),
            "control.decimation": content["control"].get("decimation"),
        }
    elif content.get("control_dt") is not None:
        period = {"control_dt": content["control_dt"]}
    else:
        period = {name: content.get(name) for name in ("simulation_dt", "control_decimation")}
    if told.rate_hz and None in period.values():
        return told.rate_hz
    told.require_used(("command", "joint_order"))
    parts = (c.number(n, _or_usual(n, value, notes, "--rate")) for n, value in period.items())
    return 1.0 / math.prod(parts)


def _flat(content: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The entries of unitree_rl_gym's deploy_mujoco and deploy_real."""

    def of(*names: str) -> float:
        return c.number(names[0], c.entry(content, *names))

    observed = int(of("num_obs"))
    linear = 1.0
    if observed == BLIND + 3:
        linear = _or_usual("obs_scales.lin_vel", content.get("lin_vel_scale"), notes)
    clip_observations = USUAL["normalization.clip_observations"]
    notes.append(said("clip of observations", f"{clip_observations:g}", "legged_gym's default"))
    if (command_scale := content.get("cmd_scale")) is None:
        notes.append(said("cmd_scale", "1", "unscaled"))
        command_scale = 1.0
    return {
        "num_obs": observed,
        "scales": {
            "base_lin_vel": linear,
            "base_ang_vel": of("ang_vel_scale"),
            "velocity_commands": c.numbers("cmd_scale", command_scale, 3),
            "joint_pos_rel": of("dof_pos_scale"),
            "joint_vel_rel": of("dof_vel_scale"),
        },
        "clip_observations": clip_observations,
        "clip_actions": math.inf,
        "action_scale": of("action_scale"),
        "pose": c.numbers("default_angles", content["default_angles"], 12),
        "kp": c.numbers("kps", content["kps"], 12),
        "kd": c.numbers("kds", c.entry(content, "kds"), 12),
        "command": None,
    }


def _classes(
    content: Mapping[str, Any], names: tuple[str, ...], notes: list[str]
) -> dict[str, Any]:
    """The entries of legged_gym's `LeggedRobotCfg`; gains and angles are by names of joints."""
    control, normal = content["control"], content.get("normalization") or {}
    scales = normal.get("obs_scales") or {}
    linear, angular, pose, rate = (
        _or_usual(f"obs_scales.{name}", scales.get(name), notes)
        for name in ("lin_vel", "ang_vel", "dof_pos", "dof_vel")
    )
    clips = {
        name: c.number(name, _or_usual(f"normalization.{name}", normal.get(name), notes))
        for name in ("clip_observations", "clip_actions")
    }
    env = content.get("env") or {}
    stated = (content.get("commands") or {}).get("ranges")
    if stated:
        stated = {**stated, "ang_vel_z": c.entry(stated, "ang_vel_yaw", "ang_vel_z")}
    return {
        "num_obs": int(c.number("env.num_observations", env.get("num_observations", BLIND))),
        "scales": {
            "base_lin_vel": linear,
            "base_ang_vel": angular,
            "velocity_commands": [linear, linear, angular],
            "joint_pos_rel": pose,
            "joint_vel_rel": rate,
        },
        **clips,
        "action_scale": c.number("control.action_scale", c.entry(control, "action_scale")),
        "pose": _by_name(content["init_state"], "default_joint_angles", names),
        "kp": _by_name(control, "stiffness", names),
        "kd": _by_name(control, "damping", names),
        "command": c.command_ranges("commands.ranges", stated) if stated else None,
    }


def _by_name(content: Mapping[str, Any], key: str, names: tuple[str, ...]) -> Array:
    """Values (12,) whose keys are parts of the joints' names, as joint or calf."""
    values = c.entry(content, key)
    if not isinstance(values, dict):
        raise UserError(f"{key} is {values}, expected names and values")
    found = []
    for name in names:
        fitting = [part for part in values if part in name]
        if not fitting:
            raise UserError(f"{key} has no value for joint '{name}'")
        found.append(c.number(key, values[max(fitting, key=len)]))
    return np.array(found)
