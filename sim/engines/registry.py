"""The simulators by name. Each is imported when it is asked for: nobody needs both."""

from __future__ import annotations

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.faults import Fault
from pixelgait.sim.body.faulty_body import FaultyBody
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.world.scene import Scene

BODIES = ("pybullet", "mujoco")


def make_body(
    name: str,
    spec: RobotSpec,
    scene: Scene,
    randomisation: Randomisation | None = None,
    camera: Camera | None = None,
    faults: tuple[Fault, ...] = (),
) -> SimulatedBody:
    """A simulated robot by the simulator's name, its sensors failing as `faults` say.

    Raises:
        UserError: there is no such simulator, or it is not installed.
    """
    body = _simulator(name, spec, scene, randomisation, camera)
    return FaultyBody(body, faults) if faults else body


def _simulator(
    name: str,
    spec: RobotSpec,
    scene: Scene,
    randomisation: Randomisation | None,
    camera: Camera | None,
) -> SimulatedBody:
    if name == "pybullet":
        from pixelgait.sim.engines.pybullet_body import PyBulletBody

        return PyBulletBody(spec, scene, camera, randomisation)
    if name == "mujoco":
        try:
            from pixelgait.sim.engines.mujoco_body import MuJoCoBody
        except ModuleNotFoundError as error:
            if error.name != "mujoco":
                raise
            raise UserError("body 'mujoco' needs mujoco: pip install '.[sim]'") from None
        return MuJoCoBody(spec, scene, camera, randomisation)
    raise UserError(f"unknown body '{name}', choose from {', '.join(BODIES)}")
