"""Fault table (`make faults`): every fault between real processes; an error if one ends wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tqdm import tqdm

from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.cli.options import check_outputs, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.spec import GO2
from pixelgait.sim.body.camera import CHANNELS
from tests.faults.cases import GROUPS, SEES_DEPTH
from tests.faults.go2 import WALKS_GO2
from tests.faults.trial import Case, Outcome

COLUMNS = (
    "| fault | what happens | reaction | beyond | step | says |",
    "|---|---|---|---|---|---|",
)
Row = tuple[str, str]  # group and name of a fault
HEAD = """# Faults

Reactions of the node to false data, lost data and signals, between real processes. `make faults`
writes this page. A controller walks with `{bundle}`. A driver in another process
(`tests/faults/driver.py`) sends it false data and records its commands.

* *Reaction*: time from the first wrong message, signal or call until a damping command arrives, on
  a busy machine, accurate to 5 ms. If another program is started, its start is included.
* *Beyond*: how far the worst stiff command was outside the joint limits [rad].
* *Step*: the farthest a target moved in a control step, as a share of the limit.
* *Walks on*: the robot has three attempts, because a stall of the machine damps it as well.

What differs between the groups:

* Faults of depth: `iap-depth` walks.
* Goals: `navigator` has a goal 5 m ahead, and makes no progress. It stands if no target moves by
  0.02 rad in the last 0.5 s.
* On a full disk no file can grow any more.
* Mixed up from the start: `walk` walks a simulated robot behind topics, whose messages are wrong
  before it stands up. The reaction includes the node's start and standing up.
* A pane of glass, which no camera sees: the simulated robot of `navigator` or `rover` walks at it.
  Random velocities go to that of `walk`.
* Commands to the simulated robot: it is commanded to stand at 100 Hz, while another node sends
  invalid commands at 50 Hz. Beyond is measured on its joints.
* Unitree Go2 over DDS: `walk-go2` walks the simulated robot. One more program on the bus records
  every command (500 a second) that a robot would apply.
* ros2_control, where no position damps: `walk` walks the robot behind a
  forward_position_controller. A separate node records the targets. The controller yields with the
  first target that only follows the joints, or holds.
* Groups named `own`: the third-party walker of `examples/clone_gait.py` below the eyes of
  `iap-rgbd`, a selection of the faults that it can have (`--bundle`). At the hand-over of gains
  its targets may move by a little more than a step, as far as keeps the torque.
* The simulated body shows whether the robot sinks or stands.
* A camera that is elsewhere according to `/tf_static` has no row, because `tf2_msgs` comes with
  ROS 2, but not as a wheel. `tests/ros/test_camera_mount.py` builds it, and checks that the camera
  is refused.
"""


@dataclass(frozen=True)
class FaultsConfig:
    """Run every fault between real processes; report reaction, its time and the worst command."""

    bundle: str = "iap"
    """Bundle that walks. Another one than `iap`, which must see colours, has rows of its own on the
    page, in place of those of a robot's own bundles and of those it cannot have."""
    only: str = ""
    """Only faults whose group and name contain this text."""
    page: Path | None = None
    """Write the table there; with `--only` the other rows stay."""
    json: Path | None = None
    """Write the figures there."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(parse(FaultsConfig, "make faults")))


def report(config: FaultsConfig) -> None:
    """Run the chosen faults and write the table.

    Raises:
        UserError: if a fault has an unexpected outcome, none is of that name, or a library is
            missing.
    """
    check_outputs(("page", config.page), ("json", config.json))
    bundle = load_bundle(config.bundle)
    groups = GROUPS if config.bundle == FaultsConfig.bundle else groups_of(bundle)
    chosen = [
        (group, case)
        for group, cases in groups.items()
        for case in cases
        if config.only in f"{group}: {case.name}"
    ]
    if not chosen:
        raise UserError(f"no fault is called '{config.only}'")
    for _, case in chosen:
        parse_link(case.link)  # fail before the first fault runs
    found: dict[Row, Outcome] = {}
    for group, case in tqdm(chosen, unit="fault"):
        found[group, case.name] = outcome = case.run(bundle)
        tqdm.write(f"{'ok   ' if outcome.passed else 'WRONG'} {group}: {line(outcome)}")
    if config.page is not None:
        lines = {row: f"| {line(outcome)} |" for row, outcome in found.items()}
        kept = {
            row: each
            for row, each in written(config.page).items()
            if config.only or row[0] not in groups
        }
        write_atomic(config.page, page(kept | lines).encode())
    if config.json is not None:
        rows = [{"group": group, **asdict(each)} for (group, _), each in found.items()]
        write_atomic(config.json, json_bytes(rows))
    wrong = [f"{group}: {line(each)}" for (group, _), each in found.items() if not each.passed]
    print(f"{len(chosen)} faults, {len(wrong)} with an unexpected outcome")
    if wrong:
        which = "; ".join(wrong)
        raise UserError(f"{len(wrong)} of {len(chosen)} faults had an unexpected outcome: {which}")


def groups_of(bundle: Bundle) -> dict[str, list[Case]]:
    """The faults that a bundle can have, in groups that name it.

    Those of the bundle `iap`, and of depth and the Go2's link if it has them.
    """
    name, channels = bundle.contract["name"], bundle.image_shape[2]
    fits = {
        "": True,
        SEES_DEPTH: CHANNELS["rgbd"] == channels,
        WALKS_GO2: bundle.spec.name == GO2.name,
    }
    found = {
        f"{group}, {name}": [
            replace(case, bundle=str(bundle.folder))
            for case in cases
            if isinstance(case, Case) and fits.get(case.bundle)
        ]
        for group, cases in GROUPS.items()
    }
    return {group: cases for group, cases in found.items() if cases}


def page(lines: Mapping[Row, str]) -> str:
    """The page in Markdown, with the given rows."""
    parts = [HEAD.format(bundle=FaultsConfig.bundle)]
    ordered = {group: [case.name for case in cases] for group, cases in GROUPS.items()}
    for group, name in lines:
        if group not in GROUPS:
            ordered.setdefault(group, []).append(name)
    for group, names in ordered.items():
        rows = [lines[group, name] for name in names if (group, name) in lines]
        if rows:
            parts += [f"## {group}", "", *COLUMNS, *rows, ""]
    return "\n".join(parts)


def written(path: Path) -> dict[Row, str]:
    """Rows of an existing page."""
    found: dict[Row, str] = {}
    group = ""
    for each in path.read_text().splitlines() if path.exists() else ():
        if each.startswith("## "):
            group = each.removeprefix("## ")
        elif each.startswith("| ") and each not in COLUMNS:
            found[group, each.split(" | ")[0].removeprefix("| ")] = each
    return found


def line(outcome: Outcome) -> str:
    """Cells of a row, in Markdown."""
    reaction = "" if outcome.reaction_ms is None else f"{outcome.reaction_ms:.0f} ms"
    what = outcome.happened
    if outcome.happened != outcome.expected:
        what += f" (must be: {outcome.expected})"
    cells = (outcome.case, what, reaction, f"{outcome.outside_rad:.2g}", f"{outcome.jump:.2f}")
    return " | ".join((*cells, outcome.says.replace("|", "/")))


if __name__ == "__main__":
    main()
