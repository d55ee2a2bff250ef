"""docs/messages.md names every message of the node, and none that it does not give."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pixelgait.robot.runtime.latency import CAUSES as STALL_CAUSES

ROOT = Path(__file__).resolve().parent.parent
ROBOT = ROOT / "robot"
VIEWER = ("view", "listener")  # another command's
REPORTS = ("latency",)  # tables, not messages
FOLDERS = (
    *("control", "estimation", "mapping", "safety", "runtime", "bundle", "cli"),
    *("unitree", "direct"),
)
FILES = [
    *(path for path in sorted((ROBOT / "ros").rglob("*.py")) if path.stem not in VIEWER),
    *(
        path
        for folder in FOLDERS
        for path in sorted((ROBOT / folder).glob("*.py"))
        if path.stem not in REPORTS
    ),
    *(ROBOT / f"{name}.py" for name in ("files", "errors", "spec")),
    *(ROBOT / "recording" / f"{name}.py" for name in ("recorder", "writer")),
    ROOT / "sim" / "ros" / "joint_topics.py",
]
# Descriptions of parameters, what contracts say, XML; what only a programming error would say, or
# training.
OTHER = (
    "[s].",
    "SI, radians",
    "xyzw, base in world",
    *("feed next_state back; anew when the goal changes", "feed next_phase back"),
    *("straight ahead", "in the order of joint_names", "pixels from the left"),
    *(
        "(REP 103)",
        "yaw, pitch, roll",
        "of height and width",
        "mean by area",
        "below the nearest's",
    ),
    *("beyond range", "from the left"),
    "the image of a recorded step is beside it",
    "train one, pixelgait-train follow",
    "Arguments similar",  # tyro's own
)
DESCRIPTIONS = ("<", "The last decision holds, no new one is taken", "The robot ")
STATE_CAUSES = ("ordered", "stands", "lies")
STATES = ("standing up", "lying down")  # above the table


def template(node: ast.AST) -> str | None:
    """A text with `…` for what differs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else "…" for v in node.values]
        return re.sub("…+", "…", "".join(map(str, parts)))
    return None


def skipped(tree: ast.AST) -> set[int]:
    """Docstrings, descriptions, and the parts of texts that are looked at as a whole."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            found.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            found |= {id(part) for part in ast.walk(node)} - {id(node)}
            found |= {id(part) for each in node.values for part in ast.walk(each)}
        elif isinstance(node, ast.keyword) and node.arg == "description":
            found |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.ClassDef):  # docstrings of a command's options
            found |= {id(each.value) for each in node.body if isinstance(each, ast.Expr)}
    return found


def messages(path: Path) -> set[str]:
    """All texts of several words in a file."""
    tree = ast.parse(path.read_text())
    skip, found = skipped(tree), set()
    for node in ast.walk(tree):
        text = None if id(node) in skip else template(node)
        if text and " " in text.strip() and re.search("[a-z]", text):
            found.add(text.strip().strip(","))
    return {
        text
        for text in found
        if not text.endswith(OTHER) and not text.startswith(DESCRIPTIONS) and text not in STATES
    }


def rows() -> list[str]:
    """What stands in the tables' first column."""
    lines = (ROOT / "docs" / "messages.md").read_text().splitlines()
    return [line.split(" | ")[0] for line in lines if line.startswith("| `")]


def test_every_message_has_its_row() -> None:
    table = "\n".join(rows())
    missing = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in FILES
        for text in messages(path)
        if text not in table
    }
    assert not missing


def test_what_the_table_of_faults_says_has_its_row() -> None:
    said = re.findall("`([^`]+)`", "\n".join(rows()))
    known = [
        re.compile(".*".join(map(re.escape, each.split("…")))) for each in said if len(each) > 8
    ]
    states = ("limp: lies",)
    lines = (ROOT / "docs" / "faults.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    for fault, *_, words in (row for row in cells if len(row) == 6 and row[0] != "fault"):
        words = words.removeprefix("controller stopped: ")
        for part in re.split("; (?!they name|the bundle)", words):
            assert part in states or any(each.search(part) for each in known), (fault, part)


def test_every_row_is_a_message() -> None:
    given = {text for path in FILES for text in messages(path)}
    for row in rows():
        for said in re.findall("`([^`]+)`", row):
            words = said.replace("odom: ", "").replace(", the robot stands", "")
            alone = {
                "back",
                "limp",
                "depth camera",
                "…: arrived",
                "was …",
                *STATE_CAUSES,
                *STALL_CAUSES,
            }
            known = any(text in said or words in text for text in given)
            assert known or words in alone, said
