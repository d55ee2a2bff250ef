"""Live view: the robot in the simulator's own window, in real time."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from multiprocessing import Pipe

from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.control.controller import ControlResult
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import BasePose, SimulatedBody
from pixelgait.sim.options import SceneOptions
from pixelgait.sim.viewing.window import Moment, View

FRAME_S = 1.0 / 30.0
CATCH_UP_S = 0.5  # largest delay that is made up for
CLOSING_S = 2.0


class WindowProcess:
    """Window in a process of its own: `show` never blocks, it drops frames if drawing is slow."""

    def __init__(self, view: View) -> None:
        """Open the window.

        Raises:
            UserError: if it cannot be opened; standard error may say more.
        """
        self._pipe, theirs = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pixelgait.sim.viewing.window", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        theirs.close()
        try:
            self._pipe.send(view)
            self._pipe.recv()
        except (EOFError, ConnectionError):
            code = self.process.wait()
            raise UserError(f"--gui: the window could not be opened (exit code {code})") from None
        except BaseException:  # Ctrl-C
            self.close()
            raise
        self.frames, self._free, self._shown_s = 0, True, 0.0  # drawn so far

    def show(self, seed: int, time_s: float, pose: BasePose, joint_angles: Array) -> None:
        """Show the base and the joints (12,) [rad] at a time after the reset [s].

        Dropped if the last frame is not drawn yet, or was sent less than `FRAME_S` ago.

        Raises:
            KeyboardInterrupt: if the window was closed.
        """
        try:
            if not self._free and self._pipe.poll():
                self._pipe.recv()
                self._free, self.frames = True, self.frames + 1
            now = time.monotonic()
            if self._free and now >= self._shown_s + FRAME_S:
                self._pipe.send(Moment(seed, time_s, pose, joint_angles))
                self._free, self._shown_s = False, now
        except (EOFError, ConnectionError):
            raise KeyboardInterrupt("the window was closed") from None

    def close(self) -> None:
        """Close the window, by force if its graphics hang."""
        self._pipe.close()
        try:
            self.process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def require_display() -> None:
    """Check for a display: without one simulators end the process.

    Raises:
        UserError: if there is no display.
    """
    name = os.environ.get("DISPLAY")
    instead = "--video films instead"
    if not name:
        raise UserError(f"--gui: there is no display (DISPLAY is not set); {instead}")
    try:
        x11 = ctypes.CDLL("libX11.so.6")
    except OSError:
        raise UserError(f"--gui: libX11.so.6 is missing; {instead}") from None
    x11.XOpenDisplay.restype = ctypes.c_void_p
    display = x11.XOpenDisplay(None)
    if not display:
        raise UserError(f"--gui: the display {name} cannot be opened; {instead}")
    x11.XCloseDisplay(ctypes.c_void_p(display))


def view_of(options: SceneOptions, simulator: str, spec: RobotSpec, seed: int) -> View:
    """View of a command, with its scene options alone."""
    where = {field.name: getattr(options, field.name) for field in fields(SceneOptions)}
    return View(simulator, spec, SceneOptions(**where), seed)


@contextmanager
def opened(view: View) -> Iterator[WindowProcess]:
    """Open a simulator's own window.

    Raises:
        UserError: if there is no display, or the window cannot be opened.
    """
    require_display()
    window = WindowProcess(view)
    try:
        yield window
    finally:
        window.close()


class RealTime:
    """Shows an episode in real time: called after every control step."""

    def __init__(self, window: WindowProcess, body: SimulatedBody, seed: int) -> None:
        self.window, self.body, self.seed = window, body, seed

    def __call__(self, step: int, _: ControlResult) -> None:
        body = self.body
        self.window.show(self.seed, body.time_s, body.pose(), body.joint_angles())
        now = time.monotonic()
        if step == 1:
            self.due_s = now
        self.due_s = max(self.due_s + CONTROL_DT_S, now - CATCH_UP_S)
        time.sleep(max(0.0, self.due_s - now))
