"""A simulated robot and the controller, two processes that talk over ROS 2 topics."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common.discovery import OwnDomain, private_environment

SHUTDOWN_S = 10.0


def run_ros(
    bundle: str,
    out: Path,
    robot: list[str],
    controller: list[str],
    goal: tuple[float, float] | None = None,
) -> None:
    """Until the controller ends, on a ROS domain of their own; what they leave lies in `out`.

    `robot` and `controller` are further arguments of pixelgait-sim and pixelgait-run; a `goal` x, y
    [m] in the odometry's frame is told by a third process, over goal_pose.

    Raises:
        UserError: the controller stopped with a fault.
    """
    domain = OwnDomain()
    environment = private_environment(domain.number, (out / "ros_log").resolve())
    sim = [sys.executable, "-m", "pixelgait.sim.ros.node", "--out", str(out), *robot]
    run = [sys.executable, "-m", "pixelgait.robot.ros.run", bundle, "--out", str(out), *controller]
    lines = [sim]
    if goal is not None:
        lines.append([sys.executable, "-m", "pixelgait.export.demo.goal", *map(str, goal)])
    others = [_start(line, environment) for line in lines]
    try:
        deciding = _start([*run, "--auto-arm"], environment)
        try:
            if deciding.wait():
                raise UserError(f"the controller ended with exit code {deciding.returncode}")
        finally:
            _end(deciding)
    finally:
        for process in others:
            _end(process)
        domain.close()


def _start(line: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A process in a session of its own: Ctrl-C is for this one, which ends the others."""
    start = partial(die_with_parent, os.getpid())
    return subprocess.Popen(line, env=environment, preexec_fn=start, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it damp and write, if it has not ended."""
    process.terminate()
    try:
        process.wait(SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        process.kill()
