"""deploy.yaml of Isaac Lab tasks: unitree_rl_lab, and unitree_rl_mjlab.

Arrays are in the policy's order, but stiffness and damping in that of the vendor's SDK, which is
the robot's; `joint_ids_map[i]` is the SDK's joint of the policy's joint i. Terms are clipped, then
scaled (unless `scale_first`), their histories go from the oldest to the newest and begin with the
first observation, term by term (unless `use_gym_history`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pixelgait.export.walkers import configuration as c
from pixelgait.export.walkers.options import Told, commanded
from pixelgait.export.walkers.walker import (
    HEIGHT_SCAN,
    SCAN_OFFSET_M,
    SERVED,
    Term,
    Walker,
    standard,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, RobotSpec

SWITCHES = ("use_gym_history", "scale_first")  # among the observations


def is_deploy(content: Mapping[str, Any]) -> bool:
    """Whether a configuration is a deploy.yaml."""
    return "joint_ids_map" in content and isinstance(content.get("observations"), dict)


def read_deploy(content: Mapping[str, Any], spec: RobotSpec, told: Told) -> Walker:
    """The walker of a deploy.yaml.

    Raises:
        UserError: if a key is missing or cannot be used; names it.
    """
    order = c.indices("joint_ids_map", content["joint_ids_map"], 12)
    observations = _observations(content["observations"])
    action = _action(c.entry(content, "actions"))
    pose = c.numbers("default_joint_pos", c.entry(content, "default_joint_pos"), 12)
    period = _period(observations)
    stated = (content.get("commands") or {}).get("base_velocity", {}).get("ranges")
    by_file = None
    if stated and not told.command:
        by_file = c.command_ranges("commands.base_velocity.ranges", stated)
    notes: list[str] = []
    command = commanded(told, by_file, "deploy.yaml names none", notes)
    return Walker(
        format="deploy.yaml",
        joint_names=tuple(spec.joint_names[i] for i in order),
        terms=tuple(
            _term(name, each) for name, each in observations.items() if name not in SWITCHES
        ),
        action_scale=c.numbers("actions scale", action.get("scale", 1.0), 12),
        action_offset=c.numbers("actions offset", _or(action.get("offset"), pose), 12),
        default_pose_rad=pose,
        kp_nm_per_rad=_gains(content, "stiffness", "policy_kp")[order],
        kd_nms_per_rad=_gains(content, "damping", "policy_kd")[order],
        rate_hz=1.0 / c.number("step_dt", c.entry(content, "step_dt")),
        command=command,
        by_time=bool(observations.get("use_gym_history", False)),
        scale_first=bool(observations.get("scale_first", False)),
        target_clip=_clip(action.get("clip")),
        phase_period_s=period,
        notes=tuple(notes),
    )


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _gains(content: Mapping[str, Any], *names: str) -> Array:
    return c.numbers(names[0], c.entry(content, *names), 12)


def _observations(observations: Mapping[str, Any]) -> Mapping[str, Any]:
    """The terms of the one group that feeds the policy."""
    if any("scale" in each or "history_length" in each for each in _objects(observations)):
        return observations
    groups = [name for name, each in observations.items() if isinstance(each, dict)]
    if len(groups) != 1:
        raise UserError(f"observations has groups {', '.join(groups)}, expected one: the policy's")
    group: Mapping[str, Any] = observations[groups[0]]
    return group


def _objects(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in content.values() if isinstance(each, dict)]


def _term(name: str, content: Any) -> Term:
    known = standard(name.removeprefix("keyboard_"))
    content = content or {}
    joints = ((content.get("params") or {}).get("asset_cfg") or {}).get("joint_ids")
    if isinstance(joints, list) and joints != list(range(12)):
        raise UserError(
            f"observation '{name}' has joint_ids {joints}, expected all joints in order"
        )
    length = int(c.number(f"{name}.history_length", content.get("history_length") or 1))
    if length < 1:
        raise UserError(f"{name}.history_length is {length}, expected 1 and more")
    clip = content.get("clip")
    return Term(
        known,
        c.numbers(f"{name}.scale", _or(content.get("scale"), 1.0), SERVED[known]),
        (-math.inf, math.inf) if clip is None else c.limits(f"{name}.clip", clip),
        tuple(range(length - 1, -1, -1)),
        _offset(known, content),
    )


def _offset(name: str, content: Mapping[str, Any]) -> float:
    """Offset that is subtracted from a height scan [m]; Isaac Lab's own unless the file has one."""
    if name != HEIGHT_SCAN:
        return 0.0
    stated = (content.get("params") or {}).get("offset")
    return c.number(f"{name}.params.offset", _or(stated, SCAN_OFFSET_M))


def _period(observations: Mapping[str, Any]) -> float:
    """Period of the term gait_phase [s], 0 if there is none."""
    term = observations.get("gait_phase")
    if term is None:
        return 0.0
    period = c.entry(term.get("params") or {}, "period")
    return c.number("gait_phase.params.period", period)


def _action(actions: Any) -> Mapping[str, Any]:
    """The one action: joint positions."""
    names = list(actions)
    if len(names) != 1 or "JointPosition" not in names[0]:
        raise UserError(f"actions has {', '.join(names)}, expected JointPositionAction alone")
    action: Mapping[str, Any] = actions[names[0]] or {}
    if isinstance(ids := action.get("joint_ids"), list) and ids != list(range(12)):
        raise UserError(f"actions has joint_ids {ids}, expected all joints in order")
    return action


def _clip(value: Any) -> tuple[Array, Array] | None:
    """Limits of joint targets, from a pair, or a pair for each joint."""
    if value is None:
        return None
    try:
        pairs = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.zeros(0)
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (12, 1))
    if pairs.shape != (12, 2) or not (pairs[:, 0] < pairs[:, 1]).all():
        raise UserError(f"actions clip is {value}, expected [least, most], for all or each of 12")
    return pairs[:, 0], pairs[:, 1]
