"""Gymnasium environments over the same bodies, tasks and low level that training here uses.

Registered on import: `gymnasium.make("pixelgait.sim.envs:PixelGait/ObstacleCourse-v0")`.
"""

from __future__ import annotations

from typing import Any

import gymnasium

ENTRIES = "pixelgait.sim.environments"


def _register(name: str, entry: str, many: str, **options: Any) -> None:
    # No limit in actions: how long one of them lasts is the agent's choice.
    gymnasium.register(
        f"PixelGait/{name}-v0",
        entry_point=f"{ENTRIES}.{entry}",
        vector_entry_point=f"{ENTRIES}.{many}",
        kwargs=options,
    )


LOW_LEVEL = ("gait_env:GaitEnv", "shared_vector_env:gaits")
HIGH_LEVEL = ("steer_env:SteerEnv", "shared_vector_env:steers")
_register("Walk", *LOW_LEVEL, scene="flat", seconds=10.0)
FOLLOW = {"scene": "flat", "seconds": 10.0, "task": "follow", "image_size": None}
_register("Follow", LOW_LEVEL[0], "follow_vector_env:followers", **FOLLOW)
_register("ObstacleCourse", *LOW_LEVEL, scene="obstacle-course")
_register("Steer", *HIGH_LEVEL, scene="obstacle-course")
