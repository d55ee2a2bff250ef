"""base.yaml and config.yaml of rl_sar.

All arrays are in the policy's order; `joint_mapping[i]` is the place of the policy's joint i among
the `joint_names` of base.yaml. Terms are scaled, then clipped. A history lists ages, 0 the newest,
of whole observations (`time`) or by `term`, and begins with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pixelgait.export.walkers import configuration as c
from pixelgait.export.walkers.options import Told, commanded, said
from pixelgait.export.walkers.walker import SERVED, Term, Walker, blind
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, RobotSpec

SCALES = {  # keys of scales, by term
    "base_lin_vel": "lin_vel_scale",
    "base_ang_vel": "ang_vel_scale",
    "velocity_commands": "commands_scale",
    "joint_pos_rel": "dof_pos_scale",
    "joint_vel_rel": "dof_vel_scale",
}


def is_rl_sar(content: Mapping[str, Any]) -> bool:
    """Whether a configuration, without the robot's name around it, is rl_sar's."""
    return "rl_kp" in content and isinstance(content.get("observations"), list)


def read_rl_sar(content: Mapping[str, Any], spec: RobotSpec, told: Told) -> Walker:
    """The walker of the merged entries of base.yaml and config.yaml.

    Raises:
        UserError: if a key is missing or cannot be used; names it.
    """
    names = content.get("joint_names")
    if names is None:
        raise UserError("key 'joint_names' is missing: give rl_sar's base.yaml as well, --config")
    if not isinstance(names, list) or len(names) != 12:
        raise UserError(f"joint_names is {names}, expected 12 names")
    mapping = c.indices("joint_mapping", content.get("joint_mapping") or list(range(12)), 12)
    history = content.get("observations_history") or [0]
    if not all(isinstance(age, int) and age >= 0 for age in history):
        raise UserError(f"observations_history is {history}, expected ages, 0 and more")
    priority = content.get("observations_history_priority", "time")
    if priority not in ("time", "term"):
        raise UserError(f"observations_history_priority is {priority}, expected time or term")
    clip = content.get("clip_obs")
    clip = c.number("clip_obs", 100.0 if clip is None else clip)
    notes = _unsaid(content)
    command = commanded(told, None, "rl_sar names none", notes)
    pose = _twelve(content, "default_dof_pos")
    return Walker(
        format="rl_sar",
        joint_names=tuple(str(names[i]) for i in mapping),
        terms=tuple(_term(name, content, clip, tuple(history)) for name in content["observations"]),
        action_scale=_action_scale(content),
        action_offset=pose,
        default_pose_rad=pose,
        kp_nm_per_rad=_twelve(content, "rl_kp"),
        kd_nms_per_rad=_twelve(content, "rl_kd"),
        rate_hz=_rate(content, told),
        command=command,
        by_time=priority == "time",
        fill_first=False,
        scale_first=True,
        action_clip=_action_clip(content),
        notes=tuple(notes),
    )


def _twelve(content: Mapping[str, Any], name: str) -> Array:
    return c.numbers(name, c.entry(content, name), 12)


def _unsaid(content: Mapping[str, Any]) -> list[str]:
    """Lines about values that the files lack, with the defaults used instead."""
    usual = [
        ("joint_mapping", "0 to 11", "the order of joint_names"),
        ("clip_obs", "100", "legged_gym's default"),
    ]
    terms = map(blind, content["observations"])
    usual += [(SCALES[term], "1", "unscaled") for term in terms if term in SCALES]
    return [said(*each) for each in usual if content.get(each[0]) in (None, [])]


def _rate(content: Mapping[str, Any], told: Told) -> float:
    if told.rate_hz and (content.get("dt") is None or content.get("decimation") is None):
        return told.rate_hz
    told.require_used(("command",))
    dt = c.number("dt", c.entry(content, "dt"))
    return 1.0 / (dt * c.number("decimation", c.entry(content, "decimation")))


def _term(name: str, content: Mapping[str, Any], clip: float, ages: tuple[int, ...]) -> Term:
    known = blind(name)
    scale = content.get(SCALES.get(known, ""))
    return Term(
        known,
        c.numbers(SCALES.get(known, name), 1.0 if scale is None else scale, SERVED[known]),
        (-clip, clip),
        ages,
    )


def _action_scale(content: Mapping[str, Any]) -> Array:
    scale = _twelve(content, "action_scale")
    if (share := content.get("hip_scale_reduction")) is not None:  # of older configurations
        scale[list(content.get("hip_scale_reduction_indices") or [])] *= float(share)
    return scale


def _action_clip(content: Mapping[str, Any]) -> tuple[Array, Array] | None:
    if content.get("clip_actions_lower") is None:
        return None
    lower, upper = (_twelve(content, f"clip_actions_{end}") for end in ("lower", "upper"))
    if not np.all(lower < upper):
        raise UserError("clip_actions_lower is not below clip_actions_upper")
    return lower, upper
