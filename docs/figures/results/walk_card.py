"""Card of a low level (`make walk-card`): tracking, and loads of motors and feet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import tyro

from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.cli.options import parse
from pixelgait.robot.control.controller import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.errors import run_command
from pixelgait.sim.engines.mujoco_model import foot_friction
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.manoeuvres import TrackingResult, walk

SPEEDS = tuple(share * MAX_SPEED_M_PER_S for share in (0.0, 1 / 3, 2 / 3, 1.0))
YAW_RATES = tuple(share * MAX_YAW_RATE_RAD_PER_S for share in (-1.0, -0.5, 0.0, 0.5, 1.0))
SECONDS = 10.0
FRICTIONS = (0.8, 1.25)  # of other floors, within the range of Tan et al. 2018, Table 1
STRAIGHT_S = 10.0 / MAX_SPEED_M_PER_S  # 10 m
Pair = tuple[float, float]  # speed [m/s], yaw rate [rad/s]


@dataclass(frozen=True)
class CardConfig:
    """Measure a low level on flat ground in both simulators, and write the tables of its card."""

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE")] = "walk"
    """Folder of a policy bundle, or the name of a shipped one; its README.md gets the tables."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_card(parse(CardConfig, "make walk-card")))


def write_card(config: CardConfig) -> None:
    """Measure, and write between the markers of the bundle's card.

    Raises:
        UserError: if the card has no markers.
    """
    bundle = load_bundle(config.bundle)
    card = bundle.folder / "README.md"
    require_markers(card, "measured", "walk-card")
    measured = {engine: dict(_drive(bundle, engine)) for engine in BODIES}
    grip = {engine: dict(_drive_on_grip(bundle, engine)) for engine in BODIES}
    lines = [
        *(*_reached(measured), ""),
        *(*_borne(measured), ""),
        *_stood_and_straight(measured),
        *_gripped(grip),
    ]
    write_between(card, "measured", "walk-card", lines)
    print("\n".join(lines))


def _drive(bundle: Bundle, engine: str) -> Iterator[tuple[Pair, TrackingResult]]:
    """Every pair of commands and its result."""
    body, controller = make_body(engine, bundle.spec, FlatGround()), bundle.controller()
    for speed in SPEEDS:
        for yaw_rate in YAW_RATES:
            straight = (speed, yaw_rate) == (MAX_SPEED_M_PER_S, 0.0)
            seconds = STRAIGHT_S if straight else SECONDS
            yield (speed, yaw_rate), walk(controller, body, speed, yaw_rate, seconds)
    body.close()


def _drive_on_grip(
    bundle: Bundle, engine: str
) -> Iterator[tuple[float, tuple[TrackingResult, TrackingResult]]]:
    """Full speed ahead, and full turn on the spot, on floors of higher friction."""
    for friction in FRICTIONS:
        ground = FlatGround(friction=friction / foot_friction(bundle.spec))  # both count
        body, controller = make_body(engine, bundle.spec, ground), bundle.controller()
        ahead = walk(controller, body, MAX_SPEED_M_PER_S, 0.0, SECONDS)
        yield friction, (ahead, walk(controller, body, 0.0, MAX_YAW_RATE_RAD_PER_S, SECONDS))
        body.close()


def _reached(measured: dict[str, dict[Pair, TrackingResult]]) -> Iterator[str]:
    """Rows of reached speed and yaw rate of all pairs."""
    yield from table_head(("asked [m/s], [rad/s]", *(f"reached, {engine}" for engine in BODIES)))
    for speed, yaw_rate in measured[BODIES[0]]:
        got = [measured[engine][speed, yaw_rate] for engine in BODIES]
        cells = (_fell(w, f"{w.speed:.2f}, {w.yaw_rate:+.2f}") for w in got)
        yield table_line((f"{speed:.1f}, {yaw_rate:+.1f}", *cells))


def _borne(measured: dict[str, dict[Pair, TrackingResult]]) -> Iterator[str]:
    """Rows of loads of motors and feet in PyBullet."""
    yield from table_head(
        (
            "asked [m/s], [rad/s]",
            "power [W]",
            "cost of transport",
            "touch-down, median [m/s]",
            "impact, p95 [body weights]",
            "torque, highest [Nm]",
            "time at torque limits",
            "largest step of a target [rad]",
        )
    )
    for (speed, yaw_rate), w in measured[BODIES[0]].items():
        if yaw_rate < 0.0:  # the same as to the left
            continue
        moves = speed > 0.0
        cells = (
            f"{speed:.1f}, {yaw_rate:+.1f}",
            f"{w.power_w:.0f}",
            f"{w.transport:.2f}" if moves else "-",
            f"{w.touch_down_m_per_s:.2f}" if w.on_all_feet < 1.0 else "-",
            f"{w.impact:.2f}" if w.on_all_feet < 1.0 else "-",
            f"{w.torque_nm:.1f}",
            f"{w.at_limits:.1%}",
            f"{w.target_step_rad:.3f}",
        )
        yield table_line(cells)


def _stood_and_straight(measured: dict[str, dict[Pair, TrackingResult]]) -> Iterator[str]:
    """Rows of standing still and walking straight ahead."""
    yield from table_head(("", *BODIES))
    stood = [measured[engine][0.0, 0.0] for engine in BODIES]
    ahead = [measured[engine][MAX_SPEED_M_PER_S, 0.0] for engine in BODIES]
    yield table_line(("stand: drift in 10 s [mm]", *(f"{1e3 * w.travelled_m:.1f}" for w in stood)))
    yield table_line(("stand: power [W]", *(f"{w.power_w:.1f}" for w in stood)))
    yield table_line(("stand: time on all feet", *(f"{w.on_all_feet:.0%}" for w in stood)))
    path_m = ahead[0].travelled_m
    yield table_line(
        (f"straight ahead: aside on {path_m:.0f} m [m]", *(f"{w.aside_m:.2f}" for w in ahead))
    )


def _gripped(
    measured: dict[str, dict[float, tuple[TrackingResult, TrackingResult]]],
) -> Iterator[str]:
    """Rows of full speed and full turn on other floors."""
    for friction in FRICTIONS:
        got = [measured[engine][friction] for engine in BODIES]
        speeds, yaw_rates = zip(*got, strict=True)
        title = f"on a friction of {friction}, asked for"
        yield table_line(
            (f"{title} {MAX_SPEED_M_PER_S} m/s", *(_fell(w, f"{w.speed:.2f}") for w in speeds))
        )
        turns = (_fell(w, f"{w.yaw_rate:.2f}") for w in yaw_rates)
        yield table_line((f"{title} {MAX_YAW_RATE_RAD_PER_S} rad/s on the spot", *turns))


def _fell(walked: TrackingResult, cell: str) -> str:
    return f"{cell} fell" if walked.fell else cell


if __name__ == "__main__":
    main()
