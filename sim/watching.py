"""Watching: the robot in the simulator's own window, in real time."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.video import SceneRenderer

DISTANCE_M, YAW_DEG, PITCH_DEG = 1.8, -60.0, -25.0  # of the eye from the robot


class Window(Protocol):
    """Shows one robot in one scene."""

    def lay_out(self, seed: int) -> None:
        """Show the scene of another episode."""

    def show(self, joint_angles: Array) -> None:
        """Show where the body is now; raises KeyboardInterrupt once the window was closed."""

    def close(self) -> None:
        """Close the window."""


class PyBulletWindow:
    """PyBullet's viewer: the robot with its meshes, the scene, an eye that follows."""

    def __init__(self, body: SimulatedBody, seed: int, mode: int = pybullet.GUI) -> None:
        self.body = body
        self.renderer = SceneRenderer(body.spec, body.scene, seed, mode)
        client = {"physicsClientId": self.renderer.client}
        pybullet.configureDebugVisualizer(pybullet.COV_ENABLE_GUI, 0, **client)

    def lay_out(self, seed: int) -> None:
        self.renderer.lay_out(seed)

    def show(self, joint_angles: Array) -> None:
        position, orientation = self.body.pose()
        self.renderer.scene.move(self.body.time_s)
        try:
            self.renderer.place(position, orientation, joint_angles)
            pybullet.resetDebugVisualizerCamera(
                DISTANCE_M, YAW_DEG, PITCH_DEG, position, physicsClientId=self.renderer.client
            )
        except pybullet.error:
            raise KeyboardInterrupt("the window was closed") from None

    def close(self) -> None:
        if pybullet.isConnected(physicsClientId=self.renderer.client):
            self.renderer.close()


class MuJoCoWindow:
    """MuJoCo's passive viewer of the body's own model."""

    def __init__(self, body: Any) -> None:
        from mujoco import viewer

        self.body = body
        self.viewer = viewer.launch_passive(body.model, body.data)
        self.viewer.cam.distance = DISTANCE_M
        self.viewer.cam.azimuth, self.viewer.cam.elevation = YAW_DEG + 90.0, PITCH_DEG

    def lay_out(self, seed: int) -> None:
        """The body does that to itself."""

    def show(self, joint_angles: Array) -> None:
        if not self.viewer.is_running():
            raise KeyboardInterrupt("the window was closed")
        self.viewer.cam.lookat[:] = self.body.pose()[0]
        self.viewer.sync()

    def close(self) -> None:
        self.viewer.close()


def require_display() -> None:
    """To be called first: without a display simulators end the process themselves.

    Raises:
        UserError: there is none that a window could open on.
    """
    name = os.environ.get("DISPLAY")
    instead = "pixelgait-eval --video films instead"
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


@contextmanager
def opened(body: SimulatedBody, seed: int) -> Iterator[Window]:
    """The window of the simulator that a body is of.

    Raises:
        UserError: there is no display.
    """
    require_display()
    bare: Any = getattr(body, "body", body)  # of one whose sensors fail
    window: Window = MuJoCoWindow(bare) if hasattr(bare, "model") else PyBulletWindow(body, seed)
    try:
        yield window
    finally:
        window.close()


class RealTime:
    """Shows every step of an episode when its time has come."""

    def __init__(self, window: Window) -> None:
        self.window, self.due_s = window, time.monotonic()

    def __call__(self, step: int, reading: Reading) -> None:
        """After a control step; what sensors read may be nonsense, then joints stay."""
        angles = np.nan_to_num(reading.joint_angles)
        self.window.show(angles)
        now = time.monotonic()
        self.due_s = max(self.due_s + CONTROL_DT_S, now)
        time.sleep(self.due_s - now)
