"""docs/foxglove.json: the layout, tab by tab."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.test_architecture import ROOT

LAYOUT: dict[str, Any] = json.loads((ROOT / "docs" / "foxglove.json").read_text())
PANELS: dict[str, dict[str, Any]] = LAYOUT["configById"]


def leaves(node: Any) -> Iterator[str]:
    """Panels of a layout, which is one panel, or divided into two layouts."""
    if isinstance(node, str):
        yield node
        return
    assert set(node) == {"direction", "first", "second", "splitPercentage"}
    assert node["direction"] in ("row", "column")
    assert 0.0 < node["splitPercentage"] < 100.0
    yield from leaves(node["first"])
    yield from leaves(node["second"])


def tabs() -> dict[str, list[str]]:
    """Titles, and the panels below them."""
    return {tab["title"]: list(leaves(tab["layout"])) for tab in PANELS[LAYOUT["layout"]]["tabs"]}


def paths(panel: str) -> list[str]:
    """All message paths, or topics, that a panel shows."""
    config = PANELS[panel]
    kind = panel.partition("!")[0]
    if kind == "Image":
        return [config["imageMode"]["imageTopic"]]
    if kind == "DiagnosticSummary":
        return [config["topicToRender"]]
    if kind == "RawMessages":
        return [config["topicPath"]]
    return [path["value"] for path in config["paths"]]


def topics(tab: str) -> set[str]:
    """All topics that a tab names."""
    named = [path for panel in tabs()[tab] for path in paths(panel)]
    return {path.partition(".")[0] for path in named}


def found(path: str, topic: str, message: Any) -> bool:
    """Whether a message of this topic has what a path speaks of: `topic.a[:]{b=="c"}.d[0]`."""
    named, *parts = re.split(r"\.(?![^{]*})", path)
    if named != topic:
        return False
    values = [message]
    for part in parts:
        name, index, key, wanted = re.fullmatch(
            r'(\w+)(?:\[(\d+|:)])?(?:{(\w+)=="(.+)"})?', part
        ).groups()  # type: ignore[union-attr]  # AttributeError: no path
        values = [getattr(value, name) for value in values]
        if index is not None:
            chosen = slice(None) if index == ":" else slice(int(index), int(index) + 1)
            values = [item for value in values for item in value[chosen]]
        if key is not None:
            values = [value for value in values if getattr(value, key) == wanted]
    return bool(values)
