"""Metadata of mjlab's ONNX files: joints, gains, pose and action scale, names of observations.

Numbers have three decimals; scales of observations, histories, rate and command ranges are not in
it. Observations are mjlab's velocity task's, unscaled; joints have MJCF order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from pixelgait.export.walkers import configuration as c
from pixelgait.export.walkers.options import USUAL_RATE_HZ, Told, commanded, said
from pixelgait.export.walkers.walker import SERVED, Term, Walker, blind
from pixelgait.robot.errors import UserError

NEEDED = ("joint_names", "joint_stiffness", "joint_damping", "default_joint_pos", "action_scale")


def metadata(network: onnx.ModelProto) -> dict[str, str]:
    """The metadata of a network."""
    return {each.key: each.value for each in network.metadata_props}


def is_mjlab(network: onnx.ModelProto) -> bool:
    """Whether a network describes its walker."""
    return "joint_names" in metadata(network)


def read_mjlab(network: onnx.ModelProto, told: Told) -> Walker:
    """The walker of a network's metadata.

    Raises:
        UserError: if a key is missing or cannot be used; names it.
    """
    found = metadata(network)
    names = tuple(_listed(found, "joint_names"))
    terms = [_term(name) for name in _listed(found, "observation_names")]
    notes: list[str] = []
    rate = told.rate_hz or USUAL_RATE_HZ
    if told.rate_hz is None:
        notes.append(said("rate", f"{rate:g} Hz", "mjlab's velocity tasks", "--rate"))
    command = commanded(told, None, "the metadata name none", notes)
    scales = {_term(name): scale for name, scale in (told.scales or {}).items()}
    for name in scales:
        if name not in terms:
            raise UserError(f"--scale {name}: the policy does not observe it")
    notes += [
        said(f"scale of {name}", 1.0, "mjlab's default", "--scale")
        for name in ("base_ang_vel", "joint_vel_rel")
        if name in terms and name not in scales
    ]
    pose = c.numbers("default_joint_pos", _listed(found, "default_joint_pos"), 12)
    return Walker(
        format="mjlab metadata",
        joint_names=names,
        terms=tuple(Term(n, np.full(SERVED[n], scales.get(n, 1.0))) for n in terms),
        action_scale=_twelve(found, "action_scale"),
        action_offset=pose,
        default_pose_rad=pose,
        kp_nm_per_rad=_twelve(found, "joint_stiffness"),
        kd_nms_per_rad=_twelve(found, "joint_damping"),
        rate_hz=rate,
        command=command,
        notes=tuple(notes),
    )


def _term(name: str) -> str:
    """The standard name of an observation; mjlab's joint_pos is relative."""
    return blind("joint_pos_rel" if name == "joint_pos" else name)


def _listed(found: dict[str, str], name: str) -> list[Any]:
    """A list with commas, or of JSON."""
    if name not in found:
        raise UserError(f"the ONNX metadata lack '{name}'")
    return [part.strip(" '\"") for part in found[name].strip("[] ").split(",")]


def _twelve(found: dict[str, str], name: str) -> Any:
    values = _listed(found, name)
    return c.numbers(name, values[0] if len(values) == 1 else values, 12)
