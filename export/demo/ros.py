"""ROS 2 processes of the demo: a simulated robot and the controller."""

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


def run_ros(bundle: str, out: Path, robot: list[str], controller: list[str]) -> None:
    """Run robot and controller on a ROS domain of their own until the controller ends.

    Args:
        bundle: bundle that walks.
        out: folder of their files.
        robot: further arguments of pixelgait-sim.
        controller: further arguments of pixelgait-run.

    Raises:
        UserError: if the controller stopped with a fault.
    """
    domain = OwnDomain()
    environment = private_environment(domain.number, (out / "ros_log").resolve())
    sim = [sys.executable, "-m", "pixelgait.sim.ros.node", "--out", str(out), *robot]
    run = [sys.executable, "-m", "pixelgait.robot.ros.run", bundle, "--out", str(out), *controller]
    simulated = _start(sim, environment)
    try:
        deciding = _start([*run, "--auto-arm"], environment)
        try:
            if deciding.wait():
                raise UserError(f"the controller ended with exit code {deciding.returncode}")
        finally:
            _end(deciding)
    finally:
        _end(simulated)
        domain.close()


def _start(line: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own: Ctrl-C reaches this process, which ends it."""
    start = partial(die_with_parent, os.getpid())
    return subprocess.Popen(line, env=environment, preexec_fn=start, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process; it may still damp the robot and write its files."""
    process.terminate()
    try:
        process.wait(SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        process.kill()
