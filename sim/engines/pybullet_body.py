"""Quadruped in PyBullet: explicit PD torques every physics step, control at 100 Hz."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import temporary_file
from pixelgait.robot.interface import Reading
from pixelgait.robot.rotation import Quaternion, Vector, to_base_frame
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import GRAVITY_Z_M_PER_S2, PHYSICS_DT_S, BasePose, JointLoads
from pixelgait.sim.body.legged_body import LeggedBody
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.engines.urdf import find_urdf, missing_mesh, read_urdf, simulated_robot
from pixelgait.sim.world.scene import FRICTION, Scene


class PyBulletBody(LeggedBody):
    """One robot in one scene; a `SimulatedBody`."""

    _scene: PyBulletScene

    def __init__(
        self,
        spec: RobotSpec,
        scene: Scene,
        *,
        camera: Camera | None = None,
        randomisation: Randomisation | None = None,
    ) -> None:
        super().__init__(spec, scene, camera=camera, randomisation=randomisation)
        self.client: int = pybullet.connect(pybullet.DIRECT)
        self._set_up()
        self._scene = PyBulletScene(scene, self.client, self._reload)
        self._load()
        self._pristine = pybullet.saveState(physicsClientId=self.client)
        self._links = _dynamics(self.robot, self.client)
        # Cached since the last physics step, for sensors and motors.
        self._states: tuple[Any, ...] | None = None
        self._pose: BasePose | None = None

    def _set_up(self) -> None:
        """Set the parameters of an empty world."""
        pybullet.setGravity(0, 0, GRAVITY_Z_M_PER_S2, physicsClientId=self.client)
        pybullet.setTimeStep(PHYSICS_DT_S, physicsClientId=self.client)
        pybullet.setPhysicsEngineParameter(
            deterministicOverlappingPairs=1, physicsClientId=self.client
        )

    def _load(self) -> None:
        """Load the robot."""
        root, seen = simulated_robot(self.spec)
        with temporary_file(ElementTree.tostring(root), ".urdf") as file:
            self.robot, self.joints = load_robot(self.spec, self.client, file)
        links = _link_indices(self.robot, self.client)
        self._feet = [links[name] for name in self.spec.foot_links]
        self._hide_all_but([links[name] for name in seen])
        # PyBullet uses the trunk's inertial frame, everything else the base's: the A1's is 13 mm
        # ahead and pitched by 0.7 degrees.
        self._inertial = pybullet.getDynamicsInfo(self.robot, -1, physicsClientId=self.client)[3:5]
        self._to_base = pybullet.invertTransform(*self._inertial)

    def _reload(self) -> None:
        """Load the robot of this episode into a world that was emptied."""
        self._set_up()
        self._load()
        if self.randomisation is not None:
            self._randomise(self._sample)
        self._states = self._pose = None

    def close(self) -> None:
        """Disconnect from PyBullet."""
        if pybullet.isConnected(physicsClientId=self.client):
            pybullet.disconnect(physicsClientId=self.client)

    def _restore(self) -> None:
        # One restored state and sorted contact pairs make episodes depend on their seed alone, bit
        # for bit. Saving a state per episode instead would leak memory. Scenes that draw boxes make
        # the whole world anew.
        if not self.scene.draws_boxes:
            pybullet.restoreState(self._pristine, physicsClientId=self.client)

    def _set_joints(self, angles: Array) -> None:
        for joint, angle in zip(self.joints, angles, strict=True):
            pybullet.resetJointState(self.robot, joint, angle, physicsClientId=self.client)
        self._states = None

    def _measure(self, pose: BasePose) -> Reading:
        angles, speeds = self._joints()
        _, rate = pybullet.getBaseVelocity(self.robot, physicsClientId=self.client)
        return Reading(
            self.time_s,
            np.array(angles),
            np.array(speeds),
            np.array(pose.orientation),
            np.array(to_base_frame(rate, pose.orientation)),
            self.render,
        )

    def _joint_states(self) -> tuple[Any, ...]:
        """Angle [rad], velocity [rad/s] and more of every joint."""
        if self._states is None:
            self._states = pybullet.getJointStates(
                self.robot, self.joints, physicsClientId=self.client
            )
        return self._states

    def advance(self) -> None:
        """One physics step of the engine alone, with the set torques."""
        pybullet.stepSimulation(physicsClientId=self.client)
        self._states = self._pose = None

    def _joints(self) -> tuple[Sequence[float], Sequence[float]]:
        angles, speeds, _, _ = zip(*self._joint_states(), strict=True)
        return angles, speeds

    def _drive(self, torques: list[float]) -> None:
        if self._damped:
            self._brake([abs(torque) for torque in torques])
            return
        pybullet.setJointMotorControlArray(
            self.robot,
            self.joints,
            pybullet.TORQUE_CONTROL,
            forces=torques,
            physicsClientId=self.client,
        )

    def _brake(self, torques: list[float]) -> None:
        """Brake the joints with torques [Nm], at most to a standstill."""
        pybullet.setJointMotorControlArray(
            self.robot,
            self.joints,
            pybullet.VELOCITY_CONTROL,
            targetVelocities=[0.0] * len(torques),
            forces=torques,
            physicsClientId=self.client,
        )

    def _damp(self, kd: float) -> None:
        """Damp by brakes, which cannot reverse a joint, whatever its inertia."""
        self._brake([0.0] * len(self.joints))

    def _randomise(self, sample: Sample) -> None:
        for link, (mass, inertia) in self._links.items():
            pybullet.changeDynamics(
                self.robot,
                link,
                mass=mass * sample.mass,
                localInertiaDiagonal=[i * sample.mass * sample.inertia for i in inertia],
                # Bullet multiplies the coefficients of the two bodies in contact.
                lateralFriction=sample.friction / FRICTION,
                physicsClientId=self.client,
            )

    def _hide_all_but(self, seen: list[int]) -> None:
        """Show only these links: PyBullet would show the collision shapes of the others."""
        for link in range(-1, pybullet.getNumJoints(self.robot, physicsClientId=self.client)):
            if link not in seen:
                pybullet.changeVisualShape(
                    self.robot, link, rgbaColor=(0, 0, 0, 0), physicsClientId=self.client
                )

    def pose(self) -> BasePose:
        """True pose of the base."""
        if self._pose is None:
            inertial = pybullet.getBasePositionAndOrientation(
                self.robot, physicsClientId=self.client
            )
            self._pose = BasePose(*pybullet.multiplyTransforms(*inertial, *self._to_base))
        return self._pose

    def place(self, position: Vector, orientation: Quaternion) -> None:
        """Put the base at a pose, at rest."""
        pose = pybullet.multiplyTransforms(position, orientation, *self._inertial)
        pybullet.resetBasePositionAndOrientation(self.robot, *pose, physicsClientId=self.client)
        self._pose = None

    def touching(self) -> float | None:
        """Normal force [N] between the robot and obstacles now; None if it touches none."""
        if not self._scene.has_obstacles:
            return None
        points = pybullet.getContactPoints(bodyA=self.robot, physicsClientId=self.client)
        forces = [
            force
            for _, _, other, _, _, _, point, _, distance, force, *_ in points
            # PyBullet also lists near bodies, and separates overlapping ones without force.
            if (force > 0.0 or distance <= 0.0) and self._scene.is_obstacle(other, point)
        ]
        return sum(forces) if forces else None

    def loads(self) -> JointLoads:
        """Loads of motors and feet at this instant."""
        points = pybullet.getContactPoints(bodyA=self.robot, physicsClientId=self.client)
        forces = dict.fromkeys(self._feet, 0.0)
        for point in points:
            if point[3] in forces:
                forces[point[3]] += point[9]
        feet = pybullet.getLinkStates(
            self.robot, self._feet, computeLinkVelocity=1, physicsClientId=self.client
        )
        return JointLoads(
            np.array(self._torques),
            np.array(self._joints()[1]),
            np.array(list(forces.values())),
            np.array([-state[6][2] for state in feet]),
        )

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""
        linear, angular = pybullet.getBaseVelocity(self.robot, physicsClientId=self.client)
        pybullet.resetBaseVelocity(
            self.robot, np.add(linear, velocity), angular, physicsClientId=self.client
        )


def _dynamics(robot: int, client: int) -> dict[int, tuple[float, tuple[float, ...]]]:
    """Mass [kg] and principal inertias [kg m^2] of every link, the base being -1."""
    count = pybullet.getNumJoints(robot, physicsClientId=client)
    info = {i: pybullet.getDynamicsInfo(robot, i, physicsClientId=client) for i in range(-1, count)}
    return {i: (row[0], row[2]) for i, row in info.items()}


def _link_indices(robot: int, client: int) -> dict[str, int]:
    """PyBullet's indices of the links by their names."""
    links = range(pybullet.getNumJoints(robot, physicsClientId=client))
    return {pybullet.getJointInfo(robot, i, physicsClientId=client)[12].decode(): i for i in links}


def load_robot(spec: RobotSpec, client: int, urdf: Path | None = None) -> tuple[int, list[int]]:
    """Load a URDF of a robot, by default its own, with all its visual shapes.

    Returns the body id and the joint indices in the spec's order.

    Raises:
        UserError: if PyBullet cannot load it, as without its meshes.
    """
    if urdf is None:
        with temporary_file(ElementTree.tostring(read_urdf(spec)), ".urdf") as file:
            return load_robot(spec, client, file)
    try:
        robot = pybullet.loadURDF(
            str(urdf), flags=pybullet.URDF_USE_INERTIA_FROM_FILE, physicsClientId=client
        )
    except pybullet.error:
        gone = missing_mesh(spec)
        why = "" if gone is None else f": there is no {gone}"
        raise UserError(f"{find_urdf(spec)}: PyBullet cannot load it{why}") from None
    count = pybullet.getNumJoints(robot, physicsClientId=client)
    info = [pybullet.getJointInfo(robot, j, physicsClientId=client) for j in range(count)]
    index = {row[1].decode(): row[0] for row in info}
    for joint in range(count):  # PyBullet's default motors would hold the joints
        pybullet.setJointMotorControl2(
            robot, joint, pybullet.VELOCITY_CONTROL, force=0, physicsClientId=client
        )
    return robot, [index[name] for name in spec.joint_names]
