"""Values that a walker's files lack: from the command line, or defaults, which are printed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pixelgait.export.walkers.walker import plain
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Ranges, RobotSpec

# Assumption: within what most velocity policies are trained on.
USUAL_COMMAND: Ranges = ((-0.5, 1.0), (-0.3, 0.3), (-1.0, 1.0))
USUAL_RATE_HZ = 50.0  # Isaac Lab's and legged_gym's velocity tasks: 5 ms x 4
LEG_BY_LEG = ("fl", "fr", "rl", "rr")  # legged_gym, MuJoCo Menagerie: as the URDF or MJCF has them
ORDERS = {  # (leg, joint) of each of the policy's joints
    "sdk": [(leg, j) for leg in ("fr", "fl", "rr", "rl") for j in range(3)],
    "leg-by-leg": [(leg, j) for leg in LEG_BY_LEG for j in range(3)],
    "joint-by-joint": [(leg, j) for j in range(3) for leg in LEG_BY_LEG],  # Isaac Lab
}


OPTIONS = {
    "rate_hz": "--rate",
    "joint_order": "--joint-order",
    "command": "--speeds",
    "scales": "--scale",
}


@dataclass(frozen=True)
class Told:
    """Values of a walker from the command line."""

    rate_hz: float | None = None
    joint_order: str | None = None  # of `ORDERS`, or names with commas
    command: Ranges | None = None
    scales: Mapping[str, float] | None = None  # of observations, by name

    def require_used(self, used: Collection[str]) -> None:
        """Refuse what a format does not use, beside these fields.

        Raises:
            UserError: names the option.
        """
        for field, option in OPTIONS.items():
            if getattr(self, field) and field not in used:
                raise UserError(f"{option} has no effect: the file says it")


def joint_names(told: Told, spec: RobotSpec, usual: str) -> tuple[str, ...]:
    """Names of the policy's joints, in its order.

    Raises:
        UserError: if the order is unknown.
    """
    order = told.joint_order or usual
    if order in ORDERS:
        own = {plain(name): name for name in spec.joint_names}  # as fr_hip
        legs = [name.partition("_")[0] for name in own][::3]
        kinds = [name.partition("_")[2] for name in own][:3]
        if set(legs) != set(LEG_BY_LEG):
            raise UserError(f"--joint-order {order}: {spec.name} names its legs {', '.join(legs)}")
        return tuple(own[f"{leg}_{kinds[j]}"] for leg, j in ORDERS[order])
    if "," not in order:
        known = ", ".join(ORDERS)
        raise UserError(f"--joint-order {order}: expected {known}, or 12 names with commas")
    return tuple(name.strip() for name in order.split(","))


def ranges(command: Ranges) -> str:
    """Ranges of velocity commands as text."""
    return "; ".join(f"{low:g} to {high:g}" for low, high in command)


def commanded(told: Told, stated: Ranges | None, why: str, notes: list[str]) -> Ranges:
    """Ranges of commands: told, or stated by the files, or the usual ones, which are noted."""
    command = told.command or stated
    if command is None:
        notes.append(said("velocity commands", ranges(USUAL_COMMAND), why, "--speeds"))
    return command or USUAL_COMMAND


def said(what: str, value: object, why: str, option: str = "") -> str:
    """A line on what the files do not say, and the option, if any, that tells another value."""
    return f"{what}: {value} ({why})" + (f"; {option} tells another" if option else "")
