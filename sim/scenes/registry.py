"""Registry of the scenes by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from pixelgait.robot.errors import UserError
from pixelgait.sim.scenes.courses.bridges import Bridges
from pixelgait.sim.scenes.courses.clutter import Clutter
from pixelgait.sim.scenes.courses.fields import Fields
from pixelgait.sim.scenes.courses.free_standing import FreeStanding
from pixelgait.sim.scenes.courses.gates import Gates
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.courses.passers_by import PassersBy
from pixelgait.sim.scenes.courses.people import People
from pixelgait.sim.scenes.courses.slalom import Slalom
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.houses.furnished import FurnishedHouse
from pixelgait.sim.scenes.houses.gibson import Gibson
from pixelgait.sim.scenes.houses.rooms import RoomChain, Rooms
from pixelgait.sim.scenes.mixture import Mixture
from pixelgait.sim.scenes.uneven_ground import Kerb, Ramps, Rough, Steps
from pixelgait.sim.scenes.user_scene import load_user_scene
from pixelgait.sim.world.appearance import AppearanceOption, AppearanceSet
from pixelgait.sim.world.house_plan import HouseKind
from pixelgait.sim.world.scene import Scene, WithAppearance, require_difficulty

# Kinds of the mixture and their weights: scenes without a goal position, more weight for those with
# more to see. `walk` masters ramps and rough ground at half of a mixture's difficulty.
MIXED = {
    ObstacleCourse.name: 2.0,
    Gates.name: 2.0,
    FreeStanding.name: 2.0,
    Slalom.name: 2.0,
    Clutter.name: 2.0,
    RoomChain.name: 2.0,
    Bridges.name: 1.0,
    Ramps.name: 0.5,
    Rough.name: 0.5,
    PassersBy.name: 1.0,
}
GENTLER = {Ramps.name: 0.5, Rough.name: 0.5}  # share of the difficulty in the mixture

HOUSE_KINDS: tuple[HouseKind, ...] = get_args(HouseKind)
HOUSES = (Rooms.name, Gibson.name, *HOUSE_KINDS)  # with a goal position
MEDIUM = 0.5  # the default difficulty
Move = Callable[[Path], Path]  # moves a file or folder and returns its new path

SCENES: dict[str, Callable[[float], Scene]] = {
    FlatGround.name: FlatGround,
    ObstacleCourse.name: ObstacleCourse,
    Gates.name: Gates,
    FreeStanding.name: FreeStanding,
    Slalom.name: Slalom,
    Clutter.name: Clutter,
    Bridges.name: Bridges,
    PassersBy.name: PassersBy,
    Fields.name: Fields,
    People.name: People,
    RoomChain.name: RoomChain,
    Rough.name: Rough,
    Ramps.name: Ramps,
    Steps.name: Steps,
    Kerb.name: Kerb,
    Rooms.name: Rooms,
    "apartment": lambda difficulty: FurnishedHouse("apartment", difficulty),
    "office": lambda difficulty: FurnishedHouse("office", difficulty),
    "hall": lambda difficulty: FurnishedHouse("hall", difficulty),
    Mixture.name: lambda difficulty: _mixture(Mixture.name, difficulty),
}


def make_scene(
    name: str,
    difficulty: float = MEDIUM,
    appearance: AppearanceOption = "nominal",
) -> Scene:
    """Make a scene by name.

    Args:
        name: A key of `SCENES`; `apartment:unseen`, `office:unseen` and `hall:unseen`, with
            furniture of kinds that training does not see; `mixture:KIND,...`, one of several in
            every episode; `gibson:FOLDER`, a scanned house; or `FILE.py`, a user scene.
        difficulty: From 0 to 1.
        appearance: Visual randomisation with the training or test set; "nominal" for none.

    Raises:
        UserError: if there is no such scene or appearance, a file cannot be read, or the difficulty
            is not in [0, 1].
    """
    require_difficulty(difficulty)
    _require("appearance", appearance, get_args(AppearanceOption))
    if appearance != "nominal":
        kind: AppearanceSet = "train" if appearance.startswith("train") else "test"
        return WithAppearance(make_scene(name, difficulty), kind, appearance.endswith("-moving"))
    if name.startswith(f"{Gibson.name}:"):
        return Gibson(Path(name.removeprefix(f"{Gibson.name}:")))
    if name.startswith(f"{Mixture.name}:"):
        return _mixture(name, difficulty)
    if name.startswith(f"{Fields.name}:"):
        return Fields(difficulty, name.removeprefix(f"{Fields.name}:"))
    for house in HOUSE_KINDS:
        if name == f"{house}:unseen":
            return FurnishedHouse(house, difficulty, "unseen")
    if name.endswith(".py"):
        return load_user_scene(Path(name), difficulty)
    if name not in SCENES:
        known = f"{', '.join(SCENES)}, {Mixture.name}:KIND,..., {Gibson.name}:FOLDER or FILE.py"
        raise UserError(f"unknown scene '{name}', choose from {known}")
    return SCENES[name](difficulty)


def _require(what: str, value: object, known: tuple[object, ...]) -> None:
    """Raises UserError if a value is not among the known ones."""
    if value not in known:
        names = ", ".join(str(each) for each in known)
        raise UserError(f"unknown {what} {value!r}, choose from {names}")


def is_graded(name: str) -> bool:
    """Whether a scene depends on the difficulty, unlike flat ground and scanned houses.

    Raises:
        UserError: if the weights of a mixture cannot be parsed.
    """
    if name.startswith(f"{Mixture.name}:"):
        return any(map(is_graded, _weights(name)))
    return name != FlatGround.name and not name.startswith(f"{Gibson.name}:")


def moved_scene(name: str, move: Move) -> str:
    """The name of the same scene after its files and folders have been moved."""
    kind, colon, rest = name.partition(":")
    if kind == Gibson.name and colon:
        return f"{kind}:{move(Path(rest))}"
    if kind == Mixture.name:
        return kind + colon + ",".join(_moved_part(part, move) for part in rest.split(","))
    return str(move(Path(name))) if name.endswith(".py") else name


def _moved_part(part: str, move: Move) -> str:
    """`moved_scene` of a part KIND=WEIGHT or -KIND of a mixture."""
    kind, sign, weight = _kind_and_weight(part)
    out = "-" if kind.startswith("-") else ""
    return f"{out}{moved_scene(kind.removeprefix(out), move)}{sign}{weight}"


def _mixture(name: str, difficulty: float) -> Mixture:
    """`mixture`, or `mixture:KIND=WEIGHT,...`."""
    return Mixture(
        [(make_scene(k, difficulty * GENTLER.get(k, 1.0)), w) for k, w in _weights(name).items()]
    )


def _weights(name: str) -> dict[str, float]:
    """Weights of a mixture's kinds: `all` are those of `MIXED`, -KIND removes one."""
    _, colon, listed = name.partition(":")
    weights: dict[str, float] = {}
    for part in listed.split(",") if colon else ["all"]:
        kind, _, weight = _kind_and_weight(part)
        if not kind:
            raise UserError(f"{name}: a kind is empty, expected {Mixture.name}:KIND=WEIGHT,...")
        if kind.startswith("-"):
            if kind[1:] not in weights or weight:
                raise UserError(f"{name}: there is no {part[1:]} to remove")
            del weights[kind[1:]]
        else:
            share = _weight(name, weight or "1")
            kinds = MIXED if kind == "all" else {kind: 1.0}
            weights |= {each: share * usual for each, usual in kinds.items()}
    if not weights:
        raise UserError(f"{name}: no kind is left")
    return weights


def _kind_and_weight(part: str) -> tuple[str, str, str]:
    """KIND, = and WEIGHT of a mixture's part; a folder may be called rate=0.1."""
    kind, sign, weight = part.rpartition("=")
    return (part, "", "") if not sign or part.endswith(".py") else (kind, sign, weight)


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0.0 < weight < math.inf:
        raise UserError(f"{name}: weight {text} is not a number above 0")
    return weight
