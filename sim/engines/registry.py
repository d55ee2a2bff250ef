"""Registry of the simulators by name, each imported on demand."""

from __future__ import annotations

from collections.abc import Callable

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.faults import Fault, with_faults
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.world.scene import Scene

BODIES = ("pybullet", "mujoco")
MIXTURE = "mixture"  # of all simulators


def simulators(body: str) -> tuple[str, ...]:
    """Names of the simulators of a run's body: itself, or all for a mixture."""
    return BODIES if body == MIXTURE else (body,)


def make_body(
    name: str,
    spec: RobotSpec,
    scene: Scene,
    *,
    camera: Camera | None = None,
    randomisation: Randomisation | None = None,
    faults: tuple[Fault, ...] = (),
) -> SimulatedBody:
    """A simulated robot by the simulator's name, with sensor faults.

    Raises:
        UserError: if there is no such simulator, or it is not installed.
    """
    body = find_simulator(name)(spec, scene, camera=camera, randomisation=randomisation)
    return with_faults(body, faults)


def find_simulator(name: str) -> Callable[..., SimulatedBody]:
    """The class of a simulator's robots.

    Raises:
        UserError: if there is no such simulator, or it is not installed.
    """
    if name == "pybullet":
        from pixelgait.sim.engines.pybullet_body import PyBulletBody

        return PyBulletBody
    if name == "mujoco":
        try:
            from pixelgait.sim.engines.mujoco_body import MuJoCoBody
        except ModuleNotFoundError as error:
            if error.name != "mujoco":
                raise
            raise UserError("body 'mujoco' needs mujoco: pip install 'pixelgait[sim]'") from None
        return MuJoCoBody
    raise UserError(f"unknown body '{name}', choose from {', '.join(BODIES)}")
