"""The simulators by name. Each is imported when it is asked for: nobody needs both."""

from __future__ import annotations

from collections.abc import Callable

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.randomisation import Randomisation
from pixelgait.sim.scenes import Scene
from pixelgait.sim.simulated_body import SimulatedBody


def _pybullet(spec: RobotSpec, scene: Scene, randomisation: Randomisation | None) -> SimulatedBody:
    from pixelgait.sim.pybullet_body import PyBulletBody

    return PyBulletBody(spec, scene, randomisation=randomisation)


def _mujoco(spec: RobotSpec, scene: Scene, randomisation: Randomisation | None) -> SimulatedBody:
    if randomisation is not None:
        raise UserError("body 'mujoco' cannot be randomised yet, 'pybullet' can")
    try:
        from pixelgait.sim.mujoco_body import MuJoCoBody
    except ModuleNotFoundError as error:
        if error.name != "mujoco":
            raise
        raise UserError("body 'mujoco' needs mujoco: pip install '.[sim]'") from None
    return MuJoCoBody(spec, scene)


BODIES: dict[str, Callable[[RobotSpec, Scene, Randomisation | None], SimulatedBody]] = {
    "pybullet": _pybullet,
    "mujoco": _mujoco,
}


def make_body(
    name: str, spec: RobotSpec, scene: Scene, randomisation: Randomisation | None = None
) -> SimulatedBody:
    """A simulated robot by the simulator's name.

    Raises:
        UserError: there is no such simulator, it is not installed, or it cannot be randomised.
    """
    if name not in BODIES:
        raise UserError(f"unknown body '{name}', choose from {', '.join(BODIES)}")
    return BODIES[name](spec, scene, randomisation)
