"""Collision guard in an evaluation: a robot that walks blindly stands before a wall."""

from __future__ import annotations

from pathlib import Path

import pytest

from pixelgait.policies.evaluation.evaluate import local_map as map_of
from pixelgait.policies.evaluation.evaluate import player
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.sim.tasks.episode import run_episode
from tests.ros.test_local_map import WALL, WALL_M


@pytest.mark.long
@pytest.mark.parametrize("guard", [False, True])
def test_a_blind_robot_with_a_guard_touches_no_wall(tmp_path: Path, guard: bool) -> None:
    scene = tmp_path / "wall.py"
    scene.write_text(WALL)
    config = EvalConfig(
        "rover", scene=str(scene), baseline="straight", seconds=5.0, episodes=1, guard=guard
    )
    controller, body, task = player(config)
    episode = run_episode(controller, body, task, 9000, look_ahead=map_of(config, body))
    body.close()
    assert (episode.contacts.count == 0) == guard
    if guard:
        assert WALL_M - 0.8 < episode.path[-1, 0] < WALL_M - 0.25
