"""A quadruped in PyBullet: explicit PD torques every physics step, control at 100 Hz."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, Vector, to_base_frame, upright
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.delays import DelayLine
from pixelgait.sim.body.interface import (
    GRAVITY_MS2,
    PHYSICS_DT_S,
    START_ABOVE_M,
    SUBSTEPS,
    BasePose,
    standing,
)
from pixelgait.sim.body.motors import tapered
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sensors import Sensors
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.engines.urdf import find_urdf
from pixelgait.sim.world.scene import FRICTION, Scene
from pixelgait.sim.world.seeds import Stream

Motors = list[tuple[float, float, float, float, float]]


class PyBulletBody:
    """One robot in one scene; a `SimulatedBody`. A `Randomisation` draws its robot anew."""

    def __init__(
        self,
        spec: RobotSpec,
        scene: Scene,
        *,
        camera: Camera | None = None,
        randomisation: Randomisation | None = None,
    ) -> None:
        self.spec = spec
        self.scene = scene
        self.randomisation = randomisation
        self.camera = camera or Camera(spec.camera)
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
        self.time_s = 0.0
        self.sense()
        self._links = _dynamics(self.robot, self.client)
        self._sample = Sample()
        self._slopes: list[float] | None = None  # of the motors' torque over speed [s/rad]
        self._sensors: Sensors | None = None
        self._commands = DelayLine(self.motors(standing(spec)))

    def close(self) -> None:
        if pybullet.isConnected(physicsClientId=self.client):
            pybullet.disconnect(physicsClientId=self.client)

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed and stand the robot at its start."""
        # One restored state and sorted contact pairs make an episode depend on nothing but its
        # seed, bit for bit. Saving a state per episode instead would leak memory.
        pybullet.restoreState(self._pristine, physicsClientId=self.client)
        start = self._scene.reset(Stream.LAYOUT.rng(seed))
        z = start.z + self.spec.stand_height_m + START_ABOVE_M
        self.place((start.x, start.y, z), upright(start.yaw))
        for joint, angle in zip(self.joints, self.spec.default_pose_rad, strict=True):
            pybullet.resetJointState(self.robot, joint, angle, physicsClientId=self.client)
        self.sense()
        self.time_s = 0.0
        if self.randomisation is not None:
            self._become(self.randomisation.sample(Stream.ROBOT.rng(seed)))
            joints = len(self.joints)
            self._sensors = Sensors(self._sample, self.camera, self._view, seed, joints)
        self._commands = DelayLine(self.motors(standing(self.spec)), self._sample.delay_s)
        return self.read()

    def read(self) -> Reading:
        """Sensor values of this instant; the rate is in the base frame, as an IMU gives it."""
        pose = self.pose()
        _, rate = pybullet.getBaseVelocity(self.robot, physicsClientId=self.client)
        reading = Reading(
            self.time_s,
            np.array([q for q, *_ in self._states]),
            np.array([dq for _, dq, *_ in self._states]),
            np.array(pose.orientation),
            np.array(to_base_frame(rate, pose.orientation)),
            self.render,
        )
        return reading if self._sensors is None else self._sensors.read(reading, pose)

    def silent(self) -> dict[str, float]:
        """No sensor here ever falls silent."""
        return {}

    def render(self) -> Image:
        """The camera's view of this instant."""
        return Image(self._view(self.camera, self.pose()), self.time_s)

    def render_both(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m] of this instant, whatever the camera's kind."""
        return self._scene.render_both(self.camera, self.pose())

    def _view(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        return self._scene.render(camera, pose)

    def apply(self, command: JointCommand) -> None:
        """One control step; the motors' PD loop closes in every physics step."""
        self._commands.put(self.time_s, self.motors(command))
        for _ in range(SUBSTEPS):
            self.step_physics(self._commands.at(self.time_s))
        self.move_scene()

    def move_scene(self) -> None:
        """Put what swings where it is by now."""
        self._scene.move(self.time_s)

    def motors(self, command: JointCommand) -> Motors:
        """The command as the PD loop wants it: per joint, target, gains, feed-forward, limit."""
        strength = self._sample.strength
        kp, kd, forward = command.kp, command.kd, command.feed_forward
        limit = self.spec.torque_limit_nm
        if strength != 1.0:
            kp, kd, forward, limit = (part * strength for part in (kp, kd, forward, limit))
        parts = (command.targets, kp, kd, forward, limit)
        return list(zip(*(part.tolist() for part in parts), strict=True))

    def step_physics(self, motors: Motors) -> None:
        """One physics step with the motors' PD loop closed in it."""
        self.drive(motors)
        pybullet.stepSimulation(physicsClientId=self.client)
        self.sense()
        self.time_s += PHYSICS_DT_S

    def sense(self) -> None:
        """Note what the last physics step came to: sensors and motors then ask PyBullet once."""
        self._states = pybullet.getJointStates(self.robot, self.joints, physicsClientId=self.client)
        self._pose: BasePose | None = None

    def drive(self, motors: Motors) -> None:
        """Set explicit PD torques. Plain floats: for twelve joints numpy is slower."""
        states, torques = self._states, []
        for (q, dq, _, _), (target, kp, kd, forward, limit) in zip(states, motors, strict=True):
            torque = kp * (target - q) - kd * dq + forward
            torques.append(limit if torque > limit else -limit if torque < -limit else torque)
        if self._slopes is not None:
            velocities, limits = [dq for _, dq, _, _ in states], [limit for *_, limit in motors]
            torques = tapered(torques, velocities, limits, self._slopes)
        pybullet.setJointMotorControlArray(
            self.robot,
            self.joints,
            pybullet.TORQUE_CONTROL,
            forces=torques,
            physicsClientId=self.client,
        )

    def _become(self, sample: Sample) -> None:
        """Give body and motors what was drawn for this episode; always from pristine values."""
        self._sample = sample
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

    # What a simulator knows and a robot does not: for tasks, tests and pictures.

    def pose(self) -> BasePose:
        """Base position [m] and orientation (quaternion xyzw) in the world."""
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
