"""Episodes of a high level alone, on a robot without legs."""

from __future__ import annotations

from pixelgait.robot.control.controller import DecisionScheduler, HighLevel
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.tasks.episode import Episode, EpisodeLog
from pixelgait.sim.tasks.task import Task


def glide_episode(high_level: HighLevel, body: KinematicBody, task: Task, seed: int) -> Episode:
    """One episode of a high level without legs below it; see `sim.tasks.episode.run_episode`.

    Decisions are scheduled as the controller's are; there is nothing to move, nor to supervise.
    """
    reading = body.reset(seed)
    scheduler = DecisionScheduler(high_level)
    scheduler.go_to(body.scene.goal_position)
    task.reset(body, seed)
    log, over = EpisodeLog(body, scheduler), False
    while not over and log.steps < task.steps:
        log.before_step()
        body.follow(scheduler.latent(reading))
        reading = body.read()
        reward, over = task.step(body)
        over = over or not body.on_ground()
        log.after_step(reward)
    return log.episode(seed, task, fell=not body.on_ground(), fault=None)
