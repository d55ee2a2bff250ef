"""The card of a walker: the README.md beside its bundle."""

from __future__ import annotations

from collections.abc import Sequence

from pixelgait.export.markdown_sections import table_head, table_line
from pixelgait.export.walkers.options import ranges
from pixelgait.export.walkers.trial import (
    LEAST_ANSWER,
    PUSH_M_PER_S,
    PUSHES,
    RANDOMISED,
    Answer,
    Climb,
    Trial,
)
from pixelgait.export.walkers.walker import Walker

DRIFTS = 0.05  # m/s, rad/s, of a robot that is told to stand: more is said; assumption
OF_ANSWERS = (
    "command",
    "asked: ahead, left [m/s], turn [rad/s]",
    "reached",
    "peak torque [Nm], speed [rad/s]",
    "power [W]",
    "steps limited",
)


def card(name: str, robot: str, source: str, walker: Walker, trial: Trial) -> str:
    """The card in Markdown."""
    lines = [
        f"# {name}",
        "",
        f"A walking policy for {robot}, imported from {source} ({walker.format}). Simulation only.",
        "",
        "## As it is fed",
        "",
        *_fed(walker),
        *(f"* Taken, since the files do not say it: {note}." for note in walker.notes),
        "",
        "## The trial",
        "",
        *summary(trial),
    ]
    for engine in _engines(trial.answers):
        lines += ["", f"In {engine}, one walk a command, the heading held:", ""]
        lines += table_head(OF_ANSWERS)
        lines += [_row(each) for each in trial.answers if each.engine == engine]
    return "\n".join(lines) + "\n"


def _fed(walker: Walker) -> list[str]:
    terms = ", ".join(
        term.name + (f" x {len(term.ages)}" if len(term.ages) > 1 else "") for term in walker.terms
    )
    kp, kd = (
        sorted(set(gains.tolist())) for gains in (walker.kp_nm_per_rad, walker.kd_nms_per_rad)
    )
    return [
        f"* Observation: {terms}.",
        f"* {walker.rate_hz:g} Hz, kp {_numbers(kp)}, kd {_numbers(kd)}.",
        f"* Velocity commands, ahead, left [m/s], turn [rad/s]: {ranges(walker.command)}.",
    ]


def _numbers(values: list[float]) -> str:
    return " and ".join(f"{value:g}" for value in values)


def summary(trial: Trial) -> list[str]:
    """Results of the trial, a line each."""
    cannot = [f"{each.command} in {each.engine}" for each in trial.answers if not obeyed(each)]
    falls = [f"{each.command} in {each.engine}: {each.fell}" for each in trial.answers if each.fell]
    limited = [each.limited for each in trial.answers]
    pushes = ", ".join(f"{n} of {PUSHES} in {e}" for e, n in trial.pushes_survived.items())
    lines = [
        f"* Falls: {'; '.join(falls) or 'none'}.",
        f"* Obeyed by less than {100 * LEAST_ANSWER:.0f} %: {', '.join(cannot) or 'nothing'}.",
        f"* Pushes of {PUSH_M_PER_S} m/s survived: {pushes}.",
        *(
            f"* Climbed in {engine}: {_climbed(trial, engine)}."
            for engine in _engines(trial.climbs)
        ),
        f"* Falls of randomised robots (masses, friction, motors, delays of 0 to 40 ms, noise): "
        f"{trial.randomised_falls} of {RANDOMISED}.",
        f"* Steps whose targets the supervisor limited: {100 * min(limited):.0f} to "
        f"{100 * max(limited):.0f} %.",
    ]
    for each in trial.answers:
        moved = max(map(abs, each.reached))
        if not any(each.asked) and moved > DRIFTS:
            ahead, left, turn = each.reached
            lines.append(
                f"* Told to stand in {each.engine} it moves: {ahead:.2f} m/s ahead, {left:.2f} m/s "
                f"left, {turn:.2f} rad/s."
            )
    if not trial.turns_on_the_spot:
        lines.append(f"* It does not turn on the spot: {_turning(trial)}.")
    return lines


def _engines(results: Sequence[Answer] | Sequence[Climb]) -> list[str]:
    return list(dict.fromkeys(each.engine for each in results))


def _climbed(trial: Trial, engine: str) -> str:
    climbs = [each for each in trial.climbs if each.engine == engine]
    return ", ".join(f"{each.obstacle} {each.passed} of {each.of}" for each in climbs)


def _turning(trial: Trial) -> str:
    if speed := trial.least_turning_speed_m_per_s:
        return f"it is commanded {speed:g} m/s at least in turns"
    turns = [each.asked[0] for each in trial.answers if each.command.startswith("turn")]
    if fastest := max(turns, default=0.0):
        return f"not at {fastest:g} m/s either"
    return "its ranges have no turn with a speed ahead"


def obeyed(answer: Answer) -> bool:
    """Whether each part of a command that is asked for is reached by half."""
    return answer.fell is None and all(
        reached * asked >= LEAST_ANSWER * asked * asked
        for reached, asked in zip(answer.reached, answer.asked, strict=True)
    )


def _row(answer: Answer) -> str:
    asked = ", ".join(f"{value:g}" for value in answer.asked)
    reached = ", ".join(f"{value:.2f}" for value in answer.reached)
    return table_line(
        (
            answer.command,
            asked,
            answer.fell or reached,
            f"{answer.peak_torque_nm:.0f}, {answer.peak_speed_rad_per_s:.0f}",
            f"{answer.power_w:.0f}",
            f"{100 * answer.limited:.0f} %",
        )
    )
