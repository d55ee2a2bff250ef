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
* A scanned house's triangles are only seen: robots collide with boxes where its maps say that they
  cannot walk (`sim.barriers`).
* Images are cast by one ray per pixel at what the scene is made of: no OpenGL needed, the same on
  every machine. Textures and light are PyBullet's; colours differ where a ray meets an edge, and by
  a level or two on height fields. A mesh's triangles are lit as flat ones, whatever its normals.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, Vector, upright
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.delays import DelayLine
from pixelgait.sim.body.interface import PHYSICS_DT_S, START_ABOVE_M, SUBSTEPS, BasePose, standing
from pixelgait.sim.body.motors import tapered
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sensors import Sensors
from pixelgait.sim.engines.mujoco_model import compile_model, foot_friction, wxyz
from pixelgait.sim.engines.mujoco_scene import MuJoCoScene
from pixelgait.sim.world.scene import FRICTION, Pose, Scene
from pixelgait.sim.world.seeds import Stream

# A free joint's coordinates: position, quaternion wxyz | linear velocity (world), angular (base).
POSITION, QUATERNION = slice(0, 3), slice(3, 7)
LINEAR, ANGULAR = slice(0, 3), slice(3, 6)


class MuJoCoBody:
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
        self.model = compile_model(spec, scene)
        self.data = mujoco.MjData(self.model)
        self._scene = MuJoCoScene(scene, self.model, self.data)
        joints = [self.model.joint(name) for name in spec.joint_names]
        self._q = np.array([joint.qposadr[0] for joint in joints])
        self._v = np.array([joint.dofadr[0] for joint in joints])
        self.time_s = 0.0
        model = self.model
        self._pristine = [
            values.copy() for values in (model.body_mass, model.body_inertia, model.geom_friction)
        ]
        self._feet = foot_friction(spec)
        self._sample = Sample()
        self._sensors: Sensors | None = None
        self._commands = DelayLine(standing(spec))

    def close(self) -> None:
        """Nothing to do: the model is freed with the object."""

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed and stand the robot at its start."""
        if self.randomisation is not None:
            self._become(self.randomisation.sample(Stream.ROBOT.rng(seed)))
            joints = len(self._q)
            self._sensors = Sensors(self._sample, self.camera, self._view, seed, joints)
        self._commands = DelayLine(standing(self.spec), self._sample.delay_s)
        mujoco.mj_resetData(self.model, self.data)
        self._stand(self._scene.reset(Stream.LAYOUT.rng(seed)))
        self.data.qpos[self._q] = self.spec.default_pose_rad
        mujoco.mj_forward(self.model, self.data)
        self.time_s = 0.0
        return self.read()

    def read(self) -> Reading:
        """Sensor values of this instant; the rate is in the base frame, as an IMU gives it."""
        data, pose = self.data, self.pose()
        reading = Reading(
            self.time_s,
            data.qpos[self._q],
            data.qvel[self._v],
            np.array(pose.orientation),
            data.qvel[ANGULAR].copy(),
            self.render,
        )
        return reading if self._sensors is None else self._sensors.read(reading, pose)

    def silent(self) -> dict[str, float]:
        """No sensor here ever falls silent."""
        return {}

    def render(self) -> Image:
        """The camera's view of this instant."""
        return Image(self._view(self.camera, self.pose()), self.time_s)

    def _view(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        return self._scene.render(camera, pose)

    def apply(self, command: JointCommand) -> None:
        """One control step; the motors' PD loop closes in every physics step."""
        self._commands.put(self.time_s, command)
        for _ in range(SUBSTEPS):
            self._drive(self._commands.at(self.time_s))
            mujoco.mj_step(self.model, self.data)
            self.time_s += PHYSICS_DT_S
        self._scene.move(self.time_s)

    def _drive(self, command: JointCommand) -> None:
        """Set explicit PD torques."""
        data, sample = self.data, self._sample
        limit = self.spec.torque_limit_nm * sample.strength
        velocities = data.qvel[self._v]
        error = command.targets - data.qpos[self._q]
        torque = command.kp * error - command.kd * velocities + command.feed_forward
        torque = np.minimum(np.maximum(torque * sample.strength, -limit), limit)
        if sample.torque_drop:
            slopes = sample.torque_drop / self.spec.velocity_limit_rad_per_s
            torque = np.array(tapered(torque, velocities, limit, slopes))
        data.qfrc_applied[self._v] = torque

    def _become(self, sample: Sample) -> None:
        """Give body and motors what was drawn for this episode; always from pristine values."""
        self._sample = sample
        model = self.model
        mass, inertia, friction = self._pristine
        model.body_mass[:] = mass * sample.mass  # the scene has none
        model.body_inertia[:] = inertia * (sample.mass * sample.inertia)
        # What counts is the scene's geoms: they hold their own friction times that of the feet.
        model.geom_friction[:, 0] = friction[:, 0] * (sample.friction / FRICTION / self._feet)
        mujoco.mj_setConst(model, self.data)  # what follows from mass and inertia

    # What a simulator knows and a robot does not: for tasks, tests and pictures.

    def pose(self) -> BasePose:
        """Base position [m] and orientation (quaternion xyzw) in the world."""
        w, x, y, z = self.data.qpos[QUATERNION].tolist()
        return BasePose(tuple(self.data.qpos[POSITION].tolist()), (x, y, z, w))

    def place(self, position: Vector, orientation: Quaternion) -> None:
        """Put the base at a pose, at rest."""
        self.data.qpos[POSITION] = position
        self.data.qpos[QUATERNION] = wxyz(orientation)
        self.data.qvel[LINEAR] = self.data.qvel[ANGULAR] = 0.0

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""
        self.data.qvel[LINEAR] += velocity

    def _stand(self, start: Pose) -> None:
        height = start.z + self.spec.stand_height_m + START_ABOVE_M
        self.place((start.x, start.y, height), upright(start.yaw))
