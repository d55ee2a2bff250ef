"""A quadruped in MuJoCo: the same robot, scenes, motors and rates as in PyBullet.

Same: the URDF's masses, inertias, joint limits and collision shapes; the scene's boxes and their
friction; gravity; 2 ms physics; explicit PD torques, clipped, in every physics step; control at
100 Hz; no self-collision.

Different, and left so, because a policy that only works with one engine's contacts works with none:

* Contacts are soft constraints (MuJoCo's default, a time constant of 20 ms) instead of hard ones,
  with elliptic friction cones. Contact stiffness and spinning friction in a URDF are ignored.
* The feet's friction counts for all links; in PyBullet every link has its own.
* PyBullet damps the base's velocity by 4 % per second; MuJoCo does not.
* Inertias that no rigid body can have (the Mini Cheetah's thighs) become those of a ball of their
  mean; PyBullet sets them to zero.
* Images are cast by rays, one through the middle of every pixel, at what the scene is made of: no
  OpenGL needed, the same on every machine. Shading is flat with PyBullet's light, without its faint
  highlights (144 instead of 150 on the course's platform). PyBullet's renderer shows everything up
  to a pixel further up and left. The endless plane is plain grey.
"""

from __future__ import annotations

import mujoco
import numpy as np

from pixelgait.robot.reading import Image, JointCommand, Reading
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.camera import Camera
from pixelgait.sim.mujoco_model import compile_model, quaternion_wxyz
from pixelgait.sim.mujoco_scene import MuJoCoScene
from pixelgait.sim.scenes import Pose, Scene
from pixelgait.sim.simulated_body import DROP_M, PHYSICS_DT_S, SUBSTEPS

# A free joint's coordinates: position, quaternion wxyz | linear velocity (world), angular (base).
POSITION, QUATERNION = slice(0, 3), slice(3, 7)
LINEAR, ANGULAR = slice(0, 3), slice(3, 6)


class MuJoCoBody:
    """One robot in one scene; a `SimulatedBody`."""

    def __init__(self, spec: RobotSpec, scene: Scene, camera: Camera | None = None) -> None:
        self.spec = spec
        self.scene = scene
        self.camera = camera or Camera(spec.camera)
        self.model = compile_model(spec, scene)
        self.data = mujoco.MjData(self.model)
        self._scene = MuJoCoScene(scene, self.model, self.data)
        joints = [self.model.joint(name) for name in spec.joint_names]
        self._q = np.array([joint.qposadr[0] for joint in joints])
        self._v = np.array([joint.dofadr[0] for joint in joints])
        self.time_s = 0.0

    def close(self) -> None:
        """Nothing to do: the model is freed with the object."""

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed and stand the robot at its start."""
        mujoco.mj_resetData(self.model, self.data)
        self._stand(self._scene.reset(np.random.default_rng(seed)))
        self.data.qpos[self._q] = self.spec.default_pose_rad
        mujoco.mj_forward(self.model, self.data)
        self.time_s = 0.0
        return self.read()

    def read(self) -> Reading:
        """Sensor values of this instant; the rate is in the base frame, as an IMU gives it."""
        data = self.data
        return Reading(
            self.time_s,
            data.qpos[self._q],
            data.qvel[self._v],
            np.array(self.pose()[1]),
            data.qvel[ANGULAR].copy(),
            self.render,
        )

    def render(self) -> Image:
        """The camera's view of this instant."""
        return Image(self._scene.render(self.camera, *self.pose()), self.time_s)

    def apply(self, command: JointCommand) -> None:
        """One control step; the motors' PD loop closes in every physics step."""
        data, limit = self.data, self.spec.torque_limit_nm
        for _ in range(SUBSTEPS):
            error = command.targets - data.qpos[self._q]
            torque = command.kp * error - command.kd * data.qvel[self._v] + command.feed_forward
            data.qfrc_applied[self._v] = np.minimum(np.maximum(torque, -limit), limit)
            mujoco.mj_step(self.model, data)
            self.time_s += PHYSICS_DT_S
        self._scene.move(self.time_s)

    # What a simulator knows and a robot does not: for tasks, tests and pictures.

    def pose(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Base position [m] and orientation (quaternion xyzw) in the world."""
        w, x, y, z = self.data.qpos[QUATERNION].tolist()
        return tuple(self.data.qpos[POSITION].tolist()), (x, y, z, w)

    def place(self, position: tuple[float, ...], orientation: tuple[float, ...]) -> None:
        """Put the base at a pose, at rest."""
        x, y, z, w = orientation
        self.data.qpos[POSITION] = position
        self.data.qpos[QUATERNION] = (w, x, y, z)
        self.data.qvel[LINEAR] = self.data.qvel[ANGULAR] = 0.0

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""
        self.data.qvel[LINEAR] += velocity

    def _stand(self, start: Pose) -> None:
        w, x, y, z = quaternion_wxyz(start.yaw)
        height = start.z + self.spec.stand_height_m + DROP_M
        self.place((start.x, start.y, height), (x, y, z, w))
