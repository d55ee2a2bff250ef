"""Blocked robot: the way by odometry, and the order of manoeuvres."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.control.blocked import TRIES, Blocked, ProgressCheck, PushCheck
from pixelgait.robot.control.controller import STAND, latent_for
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1

AHEAD = latent_for(0.4, 0.0)
STANDING = A1.default_pose_rad


def reading(x: float, angles: np.ndarray = STANDING) -> Reading:
    pose = np.array((x, 0.0, 0.0))
    upright = np.array((0.0, 0.0, 0.0, 1.0))
    image = Image(np.zeros((32, 32, 3), np.uint8), 0.0)
    return Reading(0.0, angles, np.zeros(12), upright, np.zeros(3), lambda: image, pose)


def way_is_short(speed: float, share: float, noise_m: float = 0.0, seconds: float = 5.0) -> bool:
    """Whether a robot counts as stuck that covers this share of its commanded path."""
    check, rng = ProgressCheck(), np.random.default_rng(0)
    places = [np.array((0.01 * speed * share * n, 0.0, 0.0)) for n in range(round(seconds * 100))]
    noises = rng.normal(0.0, noise_m, (len(places), 3))
    return any(check.stuck(at + noise, speed) for at, noise in zip(places, noises, strict=True))


def test_odometry_shows_a_robot_that_does_not_cover_its_way() -> None:
    assert way_is_short(0.4, 0.0)
    assert way_is_short(0.4, 0.1)
    assert way_is_short(0.4, 0.0, seconds=2.0)
    assert not way_is_short(0.4, 0.6)
    assert not way_is_short(0.4, 1.0, noise_m=0.03)
    assert not way_is_short(0.15, 0.0)  # too little to be judged


@pytest.mark.parametrize(
    ("hip_rad", "turn", "slower", "found"),
    [
        (0.05, 0.0, 0.0, True),
        (0.05, -1.0, 0.0, True),
        (0.012, 0.0, 0.0, True),
        (0.012, -1.0, 0.0, False),
        (0.05, 0.0, 1.0, True),
        (0.012, 0.0, 1.0, False),
    ],
)
def test_legs_that_hold_a_force_from_ahead_push(
    hip_rad: float, turn: float, slower: float, found: bool
) -> None:
    """As if a hand held the trunk: the hips are behind their targets. A turn explains a little, and
    so does another speed.
    """
    check, pushed = PushCheck(A1, Supervisor(A1).walking), []
    for step in range(400):
        targets = STANDING + 0.05 * np.tile((0.0, 0.0, 1.0), 4)  # bears weight
        latent = np.array((1.0, turn))
        if step > 200:
            targets[1::3] -= A1.swing_signs[0] * hip_rad  # backwards
            latent[0] -= slower
        pushed.append(check.pushes(reading(0.0), targets, latent))
    assert not any(pushed[:200])
    assert any(pushed[200:]) is found


def test_a_blocked_robot_steps_back_turns_by_turns_and_gives_up() -> None:
    blocked, sides, causes = Blocked(A1, Supervisor(A1).walking), [], []
    for _ in range(TRIES + 1):
        for _ in range(300):
            if blocked.noticed(reading(0.0), AHEAD, STANDING):
                break
        causes.append(blocked.cause)
        if blocked.given_up:
            break
        latents = []
        while blocked.manoeuvres:
            latents.append(blocked.latent())
        assert latents[0][0] < -1.0  # back
        sides.append(float(np.sign(latents[-1][1])))
    assert sides == [1.0, -1.0, 1.0]
    assert [cause.partition(":")[0] for cause in causes] == [
        *3 * ["blocked"],
        "blocked after 3 tries",
    ]
    assert blocked.latent().tolist() == STAND.tolist()
    blocked.begin()
    assert not blocked.manoeuvres


def test_values_that_are_not_finite_are_no_push() -> None:
    check, nan = PushCheck(A1, Supervisor(A1).walking), reading(0.0, np.full(12, np.nan))
    assert not any(check.pushes(nan, STANDING, AHEAD) for _ in range(400))
