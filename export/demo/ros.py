"""A simulated robot and the controller, two processes that talk over ROS 2 topics."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.wire.private import private_environment
from pixelgait.robot.runtime.processes import die_with_parent

SHUTDOWN_S = 10.0
# As a user types them: Ctrl-C, which they get as well, is one line even while they are loaded.
COMMAND = sys.executable, "-m", "pixelgait.robot.runtime.commands"


def run_ros(bundle: str, out: Path, robot: list[str], controller: list[str]) -> None:
    """Until the controller ends, on a ROS domain of their own; what they leave lies in `out`.

    `robot` and `controller` are further arguments of pixelgait-sim and pixelgait-run.

    Raises:
        UserError: the controller stopped with a fault.
    """
    environment = private_environment(random.randint(1, 101), (out / "ros_log").resolve())
    sim = [*COMMAND, "pixelgait-sim", "--out", str(out), *robot]
    run = [*COMMAND, "pixelgait-run", bundle, "--out", str(out), *controller]
    start = partial(die_with_parent, os.getpid())
    stand_in = subprocess.Popen(sim, env=environment, preexec_fn=start)
    try:
        done = subprocess.run([*run, "--auto-arm"], env=environment, check=False, preexec_fn=start)
        if done.returncode:
            raise UserError(f"the controller ended with exit code {done.returncode}")
    finally:
        stand_in.send_signal(signal.SIGINT)
        try:
            stand_in.wait(SHUTDOWN_S)
        except subprocess.TimeoutExpired:
            stand_in.kill()
