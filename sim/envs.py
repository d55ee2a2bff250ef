"""Gymnasium environments, registered on import, over the bodies, tasks and low level of training.

`gymnasium.make("pixelgait.sim.envs:PixelGait/ObstacleCourse-v0")`.
"""

from __future__ import annotations

from typing import Any

import gymnasium


def _register(name: str, entry: str, vector_entry: str | None = None, **options: Any) -> None:
    folder = "pixelgait.sim.environments"
    gymnasium.register(  # no max_episode_steps: the agent chooses how long an action lasts
        f"PixelGait/{name}-v0",
        entry_point=f"{folder}.{entry}",
        vector_entry_point=vector_entry and f"{folder}.{vector_entry}",
        kwargs=options,
    )


GAIT, STEER = "robot_envs:GaitEnv", "robot_envs:SteerEnv"
FOLLOW = {"scene": "flat", "seconds": 10.0, "task": "follow", "image_size": None}
_register("Walk", GAIT, scene="flat", seconds=10.0)
_register("Follow", GAIT, "follow_vector_env:FollowVectorEnv", **FOLLOW)
_register("ObstacleCourse", GAIT, scene="obstacle-course")
_register("Steer", STEER, scene="obstacle-course")
