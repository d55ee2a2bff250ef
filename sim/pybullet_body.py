"""A quadruped in PyBullet: explicit PD torques every physics step, control at 100 Hz."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.reading import Image, JointCommand, Reading
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.bullet import pybullet
from pixelgait.sim.camera import Camera
from pixelgait.sim.pybullet_scene import PyBulletScene, quaternion
from pixelgait.sim.scenes import Scene
from pixelgait.sim.simulated_body import DROP_M, GRAVITY_MS2, PHYSICS_DT_S, SUBSTEPS
from pixelgait.sim.urdf import find_urdf

Motors = list[tuple[float, float, float, float, float]]


class PyBulletBody:
    """One robot in one scene; a `SimulatedBody`."""

    def __init__(self, spec: RobotSpec, scene: Scene, camera: Camera | None = None) -> None:
        self.spec = spec
        self.scene = scene
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
        self._torque_limits = spec.torque_limit_nm.tolist()

    def close(self) -> None:
        if pybullet.isConnected(physicsClientId=self.client):
            pybullet.disconnect(physicsClientId=self.client)

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed and stand the robot at its start."""
        # One restored state and sorted contact pairs make an episode depend on nothing but its
        # seed, bit for bit. Saving a state per episode instead would leak memory.
        pybullet.restoreState(self._pristine, physicsClientId=self.client)
        start = self._scene.reset(np.random.default_rng(seed))
        z = start.z + self.spec.stand_height_m + DROP_M
        self.place((start.x, start.y, z), quaternion(start.yaw))
        for joint, angle in zip(self.joints, self.spec.default_pose_rad, strict=True):
            pybullet.resetJointState(self.robot, joint, angle, physicsClientId=self.client)
        self.time_s = 0.0
        return self.read()

    def read(self) -> Reading:
        """Sensor values of this instant; the rate is in the base frame, as an IMU gives it."""
        client, robot = self.client, self.robot
        states = pybullet.getJointStates(robot, self.joints, physicsClientId=client)
        _, orientation = self.pose()
        _, rate = pybullet.getBaseVelocity(robot, physicsClientId=client)
        return Reading(
            self.time_s,
            np.array([s[0] for s in states]),
            np.array([s[1] for s in states]),
            np.array(orientation),
            _to_base_frame(rate, orientation),
            self.render,
        )

    def render(self) -> Image:
        """The camera's view of this instant."""
        position, orientation = self.pose()
        return Image(self.camera.render(self.client, position, orientation), self.time_s)

    def apply(self, command: JointCommand) -> None:
        """One control step; the motors' PD loop closes in every physics step."""
        motors = self.motors(command)
        for _ in range(SUBSTEPS):
            self.step_physics(motors)

    def motors(self, command: JointCommand) -> Motors:
        """The command as the PD loop wants it: per joint, target, gains, feed-forward, limit."""
        return list(
            zip(
                command.targets.tolist(),
                command.kp.tolist(),
                command.kd.tolist(),
                command.feed_forward.tolist(),
                self._torque_limits,
                strict=True,
            )
        )

    def step_physics(self, motors: Motors) -> None:
        """One physics step with the motors' PD loop closed in it."""
        self.drive(motors)
        pybullet.stepSimulation(physicsClientId=self.client)
        self.time_s += PHYSICS_DT_S

    def drive(self, motors: Motors) -> None:
        """Set explicit PD torques. Plain floats: for twelve joints numpy is slower."""
        states = pybullet.getJointStates(self.robot, self.joints, physicsClientId=self.client)
        torques = []
        for (q, dq, _, _), (target, kp, kd, forward, limit) in zip(states, motors, strict=True):
            torque = kp * (target - q) - kd * dq + forward
            torques.append(limit if torque > limit else -limit if torque < -limit else torque)
        pybullet.setJointMotorControlArray(
            self.robot,
            self.joints,
            pybullet.TORQUE_CONTROL,
            forces=torques,
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

    def pose(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Base position [m] and orientation (quaternion xyzw) in the world."""
        inertial = pybullet.getBasePositionAndOrientation(self.robot, physicsClientId=self.client)
        pose: tuple[tuple[float, ...], tuple[float, ...]] = pybullet.multiplyTransforms(
            *inertial, *self._to_base
        )
        return pose

    def place(self, position: tuple[float, ...], orientation: tuple[float, ...]) -> None:
        """Put the base at a pose, at rest."""
        pose = pybullet.multiplyTransforms(position, orientation, *self._inertial)
        pybullet.resetBasePositionAndOrientation(self.robot, *pose, physicsClientId=self.client)

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""
        linear, angular = pybullet.getBaseVelocity(self.robot, physicsClientId=self.client)
        pybullet.resetBaseVelocity(
            self.robot, np.add(linear, velocity), angular, physicsClientId=self.client
        )


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


def _to_base_frame(vector: tuple[float, ...], orientation: tuple[float, ...]) -> Array:
    """Rotate a world vector (3,) into the base frame given by a quaternion xyzw."""
    x, y, z = vector
    qx, qy, qz, qw = (-orientation[0], -orientation[1], -orientation[2], orientation[3])
    tx, ty, tz = 2 * (qy * z - qz * y), 2 * (qz * x - qx * z), 2 * (qx * y - qy * x)
    return np.array(
        (
            x + qw * tx + qy * tz - qz * ty,
            y + qw * ty + qz * tx - qx * tz,
            z + qw * tz + qx * ty - qy * tx,
        )
    )
