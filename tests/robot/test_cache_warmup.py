"""Cache warm-up does not change a command, whatever is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.runtime.timing import CacheWarmup
from tests.robot.test_supervisor import walking

STEPS = 120


def readings() -> list[Reading]:
    image = Image(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8), 0.0)
    return [replace(walking(step), image=lambda: image) for step in range(STEPS)]


def commands(warmed: bool, wrong: dict[int, Reading]) -> tuple[list[bytes], str | None, int]:
    """Targets of every step, the fault, and the number of images used."""
    controller = load_bundle("iap").controller()
    cache_warmup, found, images = CacheWarmup(controller), [], 0
    for step, reading in enumerate(readings()):
        read = wrong.get(step, reading)
        result = controller.step(read)
        found.append(result.command.targets.tobytes())
        images += result.image is not None
        if warmed:
            cache_warmup.run(replace(read, image=unseen), result.latent)
    return found, controller.supervisor.fault, images


def unseen() -> Image:
    raise AssertionError("cache warm-up uses no image")


@pytest.mark.parametrize("kind", ["right", "a spike", "tilted", "not finite"])
def test_cache_warmup_changes_no_command(kind: str) -> None:
    reading = readings()[60]
    wrong = {
        "a spike": replace(reading, joint_angles=reading.joint_angles + 1.0),
        "tilted": replace(reading, orientation=np.array((0.8, 0.0, 0.0, 0.6))),
        "not finite": replace(reading, joint_velocities=np.full(12, np.nan)),
    }
    given = {60: wrong[kind]} if kind in wrong else {}
    assert commands(True, given) == commands(False, given)
