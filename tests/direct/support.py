"""Runs without ROS 2: a process in which importing it fails, beside a simulated Go2."""

from __future__ import annotations

import threading

from tests.ros.support import Processes

# pixelgait-run where no ROS 2 is installed.
WITHOUT_ROS = """
import sys
class Without:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("rclpy", "sensor_msgs", "std_msgs", "builtin_interfaces"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
sys.argv[0] = "pixelgait-run"
from pixelgait.robot.cli.commands import main
main()
"""
# The machine that runs the tests may stall for longer than a robot's driver may.
PATIENT = ("--timeouts", "lowstate=1.0/1.5/2.0", "camera/depth/image_rect_raw=0.3/0.5/5.0")
WAIT_S = 60.0


class DirectProcess:
    """A run in a process of its own; `lines` are what it has said so far."""

    def __init__(self, processes: Processes, port: int, *arguments: object) -> None:
        line = (*arguments, "--orders", port, *PATIENT)
        self.process = processes.script(WITHOUT_ROS, *line)
        self.lines: list[str] = []

    def wait_for(self, text: str) -> str:
        """The next line that contains the text."""
        assert self.process.stdout is not None
        too_late = threading.Timer(WAIT_S, self.process.kill)
        too_late.start()
        try:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))
                if text in line:
                    return self.lines[-1]
        finally:
            too_late.cancel()
        raise AssertionError("\n".join((f"it never said '{text}'", *self.lines)))

    def ends(self) -> tuple[int, str]:
        """Its exit code and its last line."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait(WAIT_S), self.lines[-1]
