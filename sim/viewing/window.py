"""Windows of the simulators, each in a process of its own, see `sim.viewing.live_view`.

So the simulation neither waits for graphics nor ends with them: drawing may take longer than a
control step, and closing a window may hang or crash.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple, Protocol

from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.options import SceneOptions
from pixelgait.sim.viewing.video import SceneRenderer
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import Stream

DISTANCE_M, YAW_DEG, PITCH_DEG = 1.8, -60.0, -25.0  # of the camera from the robot
NICENESS = 5  # below the simulation


class ClosedError(Exception):
    """The window was closed."""


@dataclass(frozen=True)
class View:
    """Contents of a window."""

    simulator: str
    spec: RobotSpec
    options: SceneOptions
    seed: int


class Moment(NamedTuple):
    """State to show."""

    seed: int  # of the scene's layout
    time_s: float
    pose: BasePose
    joint_angles: Array  # (12,) [rad]


class Window(Protocol):
    """Shows one robot in one scene."""

    def show(self, moment: Moment) -> None:
        """Show a moment; raises ClosedError after the window was closed."""


class PyBulletWindow:
    """PyBullet's viewer: the robot with its meshes in the scene, followed by the camera."""

    def __init__(self, spec: RobotSpec, scene: Scene, seed: int, mode: int = pybullet.GUI) -> None:
        self._client = {"physicsClientId": pybullet.connect(mode)}
        pybullet.configureDebugVisualizer(pybullet.COV_ENABLE_GUI, 0, **self._client)
        with self._unseen():
            self.renderer = SceneRenderer(spec, scene, seed, self._client["physicsClientId"])
        self.seed = seed

    def show(self, moment: Moment) -> None:
        try:
            if moment.seed != self.seed:
                with self._unseen():
                    self.renderer.lay_out(moment.seed)
                self.seed = moment.seed
            self.renderer.scene.move(moment.time_s)
            self.renderer.place(*moment.pose, moment.joint_angles)
            pybullet.resetDebugVisualizerCamera(
                DISTANCE_M, YAW_DEG, PITCH_DEG, moment.pose.position, **self._client
            )
        except pybullet.error:
            raise ClosedError from None

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        """Suspend drawing: otherwise every call waits for a frame."""
        flag = pybullet.COV_ENABLE_RENDERING
        pybullet.configureDebugVisualizer(flag, 0, **self._client)
        yield
        pybullet.configureDebugVisualizer(flag, 1, **self._client)


class MuJoCoWindow:
    """MuJoCo's passive viewer of a separate model: user input does not change the episode."""

    def __init__(self, spec: RobotSpec, scene: Scene, seed: int) -> None:
        import mujoco
        from mujoco import viewer

        from pixelgait.sim.engines.mujoco_model import compile_model
        from pixelgait.sim.engines.mujoco_scene import MuJoCoScene

        self.model = compile_model(spec, scene)
        self.data = mujoco.MjData(self.model)
        self.scene = MuJoCoScene(scene, self.model, self.data)
        self.scene.reset(Stream.LAYOUT.rng(seed))
        self.seed = seed
        self._joints = [self.model.joint(name).qposadr[0] for name in spec.joint_names]
        self._forward = mujoco.mj_forward
        self.viewer = viewer.launch_passive(self.model, self.data)
        self.viewer.cam.distance = DISTANCE_M
        self.viewer.cam.azimuth, self.viewer.cam.elevation = YAW_DEG + 90.0, PITCH_DEG

    def show(self, moment: Moment) -> None:
        if not self.viewer.is_running():
            raise ClosedError
        with self.viewer.lock():  # it draws in another thread
            if moment.seed != self.seed:
                self.scene.reset(Stream.LAYOUT.rng(moment.seed))
                self.seed = moment.seed
            self.scene.move(moment.time_s)
            position, (x, y, z, w) = moment.pose
            self.data.qpos[:7] = (*position, w, x, y, z)
            self.data.qpos[self._joints] = moment.joint_angles
            self._forward(self.model, self.data)
            self.viewer.cam.lookat[:] = position
        self.viewer.sync()


def main() -> None:
    """Show moments from the pipe, each acknowledged after drawing."""
    pipe = Connection(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the simulation's process
    os.nice(NICENESS)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # PyBullet's messages about OpenGL
    with suppress(ClosedError, EOFError, ConnectionError):  # closed, or the simulation has ended
        window = open_window(pipe.recv())
        while True:
            pipe.send(None)
            window.show(pipe.recv())
    os._exit(0)  # at once: disconnecting may hang, and drawing threads may crash


def open_window(view: View) -> Window:
    """Open a simulator's own window on an existing display.

    Raises:
        UserError: if MuJoCo cannot compile a shape of the scene.
    """
    make = MuJoCoWindow if view.simulator == "mujoco" else PyBulletWindow
    return make(view.spec, view.options.make_scene(), view.seed)


if __name__ == "__main__":
    main()
