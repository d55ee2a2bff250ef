"""`make faults`: every fault between real processes, as a table; an error if one ends wrongly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from pixelgait.export.faults.cases import GROUPS
from pixelgait.export.faults.trial import Outcome, run_case
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, require_writable, write_atomic
from pixelgait.robot.runtime.options import parse

HEAD = """# Faults

Written by `make faults`. A controller walks on `{bundle}`; a driver in another process
(`export/faults/driver.py`) lies to it, and watches what it commands. Reaction: from the first
wrong message, signal or call until a command that damps arrives, on a busy machine, within 5 ms.
Beyond: the worst stiff command outside the joint limits [rad]. Step: the farthest a target went in
a control step, as a share of what is allowed.
"""


@dataclass(frozen=True)
class FaultsConfig:
    """Every fault between real processes: what happens, how soon, and the worst command seen."""

    bundle: str = "iap"
    only: str = ""
    """Faults whose group and name hold this text."""
    page: Path | None = None
    """Write the table there."""
    json: Path | None = None
    """Write the figures there."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: report(parse(FaultsConfig, "make faults")))


def report(config: FaultsConfig) -> None:
    """Run the table.

    Raises:
        UserError: a fault ended otherwise than it must, or there is none of that name.
    """
    for path in (config.page, config.json):
        if path is not None:
            require_writable(path)
    bundle = load_bundle(config.bundle)
    chosen = [
        (group, case)
        for group, cases in GROUPS.items()
        for case in cases
        if config.only in f"{group}: {case.name}"
    ]
    if not chosen:
        raise UserError(f"no fault is called '{config.only}'")
    found: dict[str, list[Outcome]] = {}
    for group, case in tqdm(chosen, unit="fault"):
        outcome = run_case(case, bundle)
        found.setdefault(group, []).append(outcome)
        tqdm.write(f"{'ok   ' if outcome.passed else 'WRONG'} {group}: {line(outcome)}")
    if config.page is not None:
        write_atomic(config.page, page(config.bundle, found).encode())
    if config.json is not None:
        rows = [{"group": group, **asdict(each)} for group, all_ in found.items() for each in all_]
        write_atomic(config.json, json_bytes(rows))
    wrong = sum(not each.passed for outcomes in found.values() for each in outcomes)
    print(f"{len(chosen)} faults, {wrong} ended otherwise than they must")
    if wrong:
        raise UserError(f"{wrong} of {len(chosen)} faults ended otherwise than they must")


def page(bundle: str, found: dict[str, list[Outcome]]) -> str:
    """The table in Markdown."""
    lines = [HEAD.format(bundle=bundle)]
    for group, outcomes in found.items():
        lines += [f"## {group}", "", "| fault | what happens | reaction | beyond | step | says |"]
        lines.append("|---|---|---|---|---|---|")
        lines += [f"| {line(each)} |" for each in outcomes]
        lines.append("")
    return "\n".join(lines)


def line(outcome: Outcome) -> str:
    """A row of it."""
    reaction = "" if outcome.reaction_ms is None else f"{outcome.reaction_ms:.0f} ms"
    what = outcome.happened
    if outcome.happened != outcome.expected:
        what += f" (must be: {outcome.expected})"
    cells = (outcome.case, what, reaction, f"{outcome.outside_rad:.2g}", f"{outcome.jump:.2f}")
    return " | ".join((*cells, outcome.says.replace("|", "/")))


if __name__ == "__main__":
    main()
