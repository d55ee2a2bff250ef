"""A quadruped in PyBullet: explicit PD torques every physics step, control at 100 Hz."""

from __future__ import annotations

from typing import Any

import numpy as np

from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, Vector, to_base_frame
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import GRAVITY_MS2, PHYSICS_DT_S, BasePose
from pixelgait.sim.body.legged_body import LeggedBody
from pixelgait.sim.body.motors import limited_by_speed
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.engines.urdf import find_urdf
from pixelgait.sim.world.scene import FRICTION, Scene

Motors = list[tuple[float, float, float, float, float]]


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
        pybullet.setGravity(0, 0, GRAVITY_MS2, physicsClientId=self.client)
        pybullet.setTimeStep(PHYSICS_DT_S, physicsClientId=self.client)
        pybullet.setPhysicsEngineParameter(
            deterministicOverlappingPairs=1, physicsClientId=self.client
        )
        self._scene = PyBulletScene(scene, self.client)
        self.robot, self.joints = load_robot(spec, self.client)
        self._hide()
        # PyBullet speaks of the trunk's inertial frame (for the A1 13 mm ahead of the base and
        # pitched by 0.7 degrees); everybody else speaks of the base.
        self._inertial = pybullet.getDynamicsInfo(self.robot, -1, physicsClientId=self.client)[3:5]
        self._to_base = pybullet.invertTransform(*self._inertial)
        self._pristine = pybullet.saveState(physicsClientId=self.client)
        self._links = _dynamics(self.robot, self.client)
        self._slopes: list[float] | None = None  # of the motors' torque over speed [s/rad]
        self._command: JointCommand | None = None  # that `_motors` say
        self._motors: Motors = []
        # What PyBullet was asked since the last physics step: sensors and motors ask it once.
        self._states: tuple[Any, ...] | None = None
        self._pose: BasePose | None = None

    def close(self) -> None:
        """Disconnect from PyBullet."""
        if pybullet.isConnected(physicsClientId=self.client):
            pybullet.disconnect(physicsClientId=self.client)

    def _restore(self) -> None:
        # One restored state and sorted contact pairs make an episode depend on nothing but its
        # seed, bit for bit. Saving a state per episode instead would leak memory.
        pybullet.restoreState(self._pristine, physicsClientId=self.client)

    def _set_joints(self, angles: Array) -> None:
        for joint, angle in zip(self.joints, angles, strict=True):
            pybullet.resetJointState(self.robot, joint, angle, physicsClientId=self.client)
        self._states = None

    def _measure(self, pose: BasePose) -> Reading:
        states = self._joint_states()
        _, rate = pybullet.getBaseVelocity(self.robot, physicsClientId=self.client)
        return Reading(
            self.time_s,
            np.array([q for q, *_ in states]),
            np.array([dq for _, dq, *_ in states]),
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
        """One physics step of the engine alone, with the torques that are set."""
        pybullet.stepSimulation(physicsClientId=self.client)
        self._states = self._pose = None

    def _drive(self, command: JointCommand) -> None:
        if command is not self._command:
            self._command, self._motors = command, self._parts(command)
        # Plain floats: for twelve joints numpy is slower.
        states, motors, torques = self._joint_states(), self._motors, []
        for (q, dq, _, _), (target, kp, kd, forward, limit) in zip(states, motors, strict=True):
            torque = kp * (target - q) - kd * dq + forward
            torques.append(limit if torque > limit else -limit if torque < -limit else torque)
        if self._slopes is not None:
            velocities, limits = [dq for _, dq, _, _ in states], [limit for *_, limit in motors]
            torques = limited_by_speed(torques, velocities, limits, self._slopes)
        pybullet.setJointMotorControlArray(
            self.robot,
            self.joints,
            pybullet.TORQUE_CONTROL,
            forces=torques,
            physicsClientId=self.client,
        )

    def _parts(self, command: JointCommand) -> Motors:
        """The command as the PD loop wants it: per joint, target, gains, feed-forward, limit."""
        strength = self._sample.strength
        kp, kd, forward = command.kp, command.kd, command.feed_forward
        limit = self.spec.torque_limit_nm
        if strength != 1.0:
            kp, kd, forward, limit = (part * strength for part in (kp, kd, forward, limit))
        parts = (command.targets, kp, kd, forward, limit)
        return list(zip(*(part.tolist() for part in parts), strict=True))

    def _randomise(self, sample: Sample) -> None:
        self._command = None  # its gains were those of other motors
        self._slopes = (sample.torque_drop / self.spec.velocity_limit_rad_per_s).tolist()
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

    def _hide(self) -> None:
        """Keep the camera from drawing its own robot: 22 ms a frame for the A1's meshes, against
        0.3 ms for a course."""
        for link in range(-1, pybullet.getNumJoints(self.robot, physicsClientId=self.client)):
            pybullet.changeVisualShape(
                self.robot, link, rgbaColor=(0, 0, 0, 0), physicsClientId=self.client
            )

    def pose(self) -> BasePose:
        """Where the base is."""
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
            # PyBullet also lists what is near, and pushes apart without force what overlaps.
            if (force > 0.0 or distance <= 0.0) and self._scene.is_obstacle(other, point)
        ]
        return sum(forces) if forces else None

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


def load_robot(spec: RobotSpec, client: int) -> tuple[int, list[int]]:
    """Load the URDF; returns the body id and the joint indices in the spec's order."""
    robot = pybullet.loadURDF(
        str(find_urdf(spec)),
        flags=pybullet.URDF_USE_INERTIA_FROM_FILE,
        physicsClientId=client,
    )
    count = pybullet.getNumJoints(robot, physicsClientId=client)
    info = [pybullet.getJointInfo(robot, j, physicsClientId=client) for j in range(count)]
    index = {row[1].decode(): row[0] for row in info}
    for joint in range(count):  # PyBullet's default motors would hold the joints
        pybullet.setJointMotorControl2(
            robot, joint, pybullet.VELOCITY_CONTROL, force=0, physicsClientId=client
        )
    return robot, [index[name] for name in spec.joint_names]
