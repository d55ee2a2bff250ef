"""Episodes of a high level alone, on a robot without legs."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.controller import HighLevel
from pixelgait.robot.low_level import INPUT_SIZE
from pixelgait.robot.observation import policy_image
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.tasks.episode import SAMPLE_STEPS, Episode
from pixelgait.sim.tasks.task import Task, progress_m


def glide_episode(high_level: HighLevel, body: KinematicBody, task: Task, seed: int) -> Episode:
    """One episode of a high level without legs below it; see `sim.episode.run_episode`."""
    reading = body.reset(seed)
    task.reset(body, seed)
    start = progress_m(body)
    total, step, held = 0.0, 0, 0
    path, decisions = [], []
    for step in range(1, task.steps + 1):
        if held == 0:
            decision = high_level(policy_image(body.render().pixels))
            held = decision.duration_steps
            decisions.append((*decision.latent, decision.duration_steps))
        held -= 1
        body.follow(decision.latent)
        if step % SAMPLE_STEPS == 1:
            path.append(body.pose()[0][:2])
        reward, over = task.step(body, reading)
        total += reward
        if over or not body.on_ground():
            break
    progress = progress_m(body)
    fell = not body.on_ground()
    return Episode(
        seed=seed,
        success=progress > body.scene.goal_m and not fell,
        distance_m=progress - start,
        return_m=total,
        fell=fell,
        images=len(decisions),
        steps=step,
        path=np.array(path),
        observations=np.zeros((0, INPUT_SIZE)),
        decisions=np.array(decisions),
        metrics=task.metrics(),
    )
