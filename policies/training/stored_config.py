"""The configuration of a run that goes on, from what lies in its folder."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pixelgait.policies.runs.run import CONFIG, DELAYS, LOW_LEVEL, SCENES, read_run_config
from pixelgait.policies.training.base_configs import TrainConfig
from pixelgait.policies.training.configs import KINDS
from pixelgait.robot.cli.options import check_values
from pixelgait.robot.errors import UserError
from pixelgait.sim.scenes.registry import moved_scene

Made = TypeVar("Made")


def config_of_run(folder: Path) -> TrainConfig:
    """The configuration that continues the run in a folder.

    Raises:
        UserError: there is no run that can go on, or its configuration is not that of one.
    """
    stored = read_run_config(folder)
    for name, copy in (("low_level", folder / LOW_LEVEL), ("delays_from", folder / DELAYS)):
        if stored.get(name) is not None and copy.exists():
            stored[name] = str(copy)
    if isinstance(scene := stored.get("scene"), str):
        stored["scene"] = moved_scene(scene, lambda path: folder / SCENES / path)
    try:
        values = {**stored, **stored.get("budget", {}), "out": str(folder), "resume": True}
        config = config_from(KINDS[stored["task"]], values)
        check_values(config)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / CONFIG}: not that of a training run ({error!r})") from None
    return config


def config_from(kind: type[TrainConfig], values: dict[str, Any]) -> TrainConfig:
    """A configuration from values as JSON holds them; what they do not name has its default.

    Raises:
        KeyError, TypeError, ValueError: they are not of that kind.
    """
    names = [field.name for field in fields(kind)]
    return _made(kind, {name: value for name, value in values.items() if name in names})


def _made(kind: type[Made], values: dict[str, Any]) -> Made:
    """A dataclass of these values."""
    hints = get_type_hints(kind)
    return kind(**{name: _from_json(name, hints[name], value) for name, value in values.items()})


def _from_json(name: str, hint: Any, value: Any) -> Any:
    """A value of a field with this type."""
    kinds = get_args(hint)
    if is_dataclass(hint):
        return _made(hint, value)  # type: ignore[arg-type]
    if type(None) in kinds:
        return None if value is None else _from_json(name, kinds[0], value)
    if get_origin(hint) is tuple and type(value) is list:
        return tuple(_from_json(name, kinds[0], each) for each in value)
    if hint is Path and type(value) is str:
        return Path(value)
    if get_origin(hint) is Literal:
        fits, expected = value in kinds, f"one of {kinds}"
    else:
        fits = type(value) is hint or (hint is float and type(value) is int)
        expected = getattr(hint, "__name__", str(hint))
    if not fits:
        raise TypeError(f"{name} is {value!r}, expected {expected}")
    return value
