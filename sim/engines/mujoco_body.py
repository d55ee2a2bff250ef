"""A quadruped in MuJoCo: the same robot, scenes, motors and rates as in PyBullet.

Equal: the URDF's masses, inertias, joint limits and collision shapes; the scene's boxes and their
friction; gravity; 2 ms physics; explicit clipped PD torques in every physics step; control at
100 Hz; no self-collision. Ideal motors are MuJoCo's own, which saves a fifth of the time or more;
their torques differ by rounding.

Different on purpose, since a policy must not depend on one engine's contacts:

* Contacts are soft constraints (MuJoCo's default, a time constant of 20 ms) instead of hard ones,
  with elliptic friction cones. Contact stiffness in a URDF is ignored.
* The feet's friction applies to all links; in PyBullet every link has its own.
* PyBullet damps the base's velocity by 4 % per second; MuJoCo does not.
* A scanned house's triangles are only rendered: robots collide with boxes over the blocked cells of
  its maps (`sim.scenes.houses.gibson`).
* Images are cast with one ray per pixel at the scene's shapes: no OpenGL, equal on every machine.
  Textures and light are PyBullet's; colours differ where a ray meets an edge, and by a level or two
  on height fields. A mesh's triangles are lit as flat ones, whatever its normals.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, Vector
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import PHYSICS_DT_S, BasePose, JointLoads
from pixelgait.sim.body.legged_body import LeggedBody, only_damps
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.engines.mujoco_model import compile_model, foot_friction, foot_geoms, wxyz
from pixelgait.sim.engines.mujoco_scene import MuJoCoScene
from pixelgait.sim.world.scene import FRICTION, Scene

# A free joint's coordinates: position, quaternion wxyz | linear velocity (world), angular (base).
POSITION, QUATERNION = slice(0, 3), slice(3, 7)
LINEAR, ANGULAR = slice(0, 3), slice(3, 6)


class MuJoCoBody(LeggedBody):
    """One robot in one scene; a `SimulatedBody`."""

    _scene: MuJoCoScene

    def __init__(
        self,
        spec: RobotSpec,
        scene: Scene,
        *,
        camera: Camera | None = None,
        randomisation: Randomisation | None = None,
        foot_sensors: bool = False,
    ) -> None:
        super().__init__(spec, scene, camera=camera, randomisation=randomisation)
        self.model = model = compile_model(spec, scene, foot_sensors=foot_sensors)
        self.data = mujoco.MjData(model)
        self._scene = MuJoCoScene(scene, model, self.data)
        joints = [model.joint(name) for name in spec.joint_names]
        self.q = np.array([joint.qposadr[0] for joint in joints])
        self.v = np.array([joint.dofadr[0] for joint in joints])
        self._pristine = [
            values.copy()
            for values in (
                model.body_mass,
                model.body_inertia,
                model.geom_friction,
                model.actuator_forcerange,
            )
        ]
        self._own_bodies = model.body_rootid == model.body_rootid[joints[0].bodyid[0]]
        self._friction = foot_friction(spec)
        self._legs = {foot: leg for leg, foot in enumerate(foot_geoms(model, spec))}

    def close(self) -> None:
        """Do nothing: the model is freed with the object."""

    def _restore(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.model.actuator_gainprm[:] = self.model.actuator_biasprm[:] = 0.0  # no torque

    def _set_joints(self, angles: Array) -> None:
        self.data.qpos[self.q] = angles
        mujoco.mj_forward(self.model, self.data)

    def _measure(self, pose: BasePose) -> Reading:
        data = self.data
        return Reading(
            self.time_s,
            data.qpos[self.q],
            data.qvel[self.v],
            np.array(pose.orientation),
            data.qvel[ANGULAR].copy(),
            self.render,
        )

    def _physics(self, steps: int) -> None:
        """Use MuJoCo's own motors if they have no delay and the same strength at every speed."""
        if self._sample.delay_s or self._sample.torque_drop:
            super()._physics(steps)
            return
        command = self._commands.at(self.time_s)
        if command is not self._command:
            self._command = command
            self.stiffen(command)
            self.data.ctrl[:] = command.targets
            self._settle(only_damps(command))
        for _ in range(steps):
            self.advance()
            self._tick()
        self._torques = self.data.actuator_force.tolist()

    def stiffen(self, command: JointCommand) -> None:
        """Give MuJoCo's motors a command's gains: gain * target + bias, within their force range.

        The targets are the controls.
        """
        gain, bias = self.model.actuator_gainprm, self.model.actuator_biasprm
        strength = self._sample.strength
        gain[:, 0] = strength * command.kp
        bias[:, 0] = strength * command.feed_forward
        bias[:, 1] = -strength * command.kp
        bias[:, 2] = -strength * command.kd

    def advance(self) -> None:
        """One physics step of the engine alone, with the set torques or motors."""
        mujoco.mj_step(self.model, self.data)

    def _damp(self, kd: float) -> None:
        """Add an inertia of kd dt, which makes the same torque that of implicit Euler:
        (I + kd dt) (v' - v) / dt = -kd v is I (v' - v) / dt = -kd v'.
        """
        self.model.dof_armature[self.v] = kd * PHYSICS_DT_S

    def _joints(self) -> tuple[Sequence[float], Sequence[float]]:
        return self.data.qpos[self.q].tolist(), self.data.qvel[self.v].tolist()

    def _drive(self, torques: list[float]) -> None:
        self.data.qfrc_applied[self.v] = torques

    def _randomise(self, sample: Sample) -> None:
        model = self.model
        mass, inertia, friction, torques = self._pristine
        model.actuator_forcerange[:] = torques * sample.strength
        own = self._own_bodies
        model.body_mass[own] = mass[own] * sample.mass
        model.body_inertia[own] = inertia[own] * (sample.mass * sample.inertia)
        # The scene's geoms have priority: they hold their own friction times that of the feet.
        model.geom_friction[:, 0] = friction[:, 0] * (sample.friction / FRICTION / self._friction)
        mujoco.mj_setConst(model, self.data)  # derived from mass and inertia

    def pose(self) -> BasePose:
        """True pose of the base."""
        w, x, y, z = self.data.qpos[QUATERNION].tolist()
        return BasePose(tuple(self.data.qpos[POSITION].tolist()), (x, y, z, w))

    def place(self, position: Vector, orientation: Quaternion) -> None:
        """Put the base at a pose, at rest."""
        self.data.qpos[POSITION] = position
        self.data.qpos[QUATERNION] = wxyz(orientation)
        self.data.qvel[LINEAR] = self.data.qvel[ANGULAR] = 0.0

    def touching(self) -> float | None:
        """Normal force [N] between the robot and obstacles now; None if it touches none."""
        contacts = self.data.contact
        obstacle = self._scene.obstacles[contacts.geom].any(axis=1)
        hits = (obstacle & (contacts.dist <= 0.0)).nonzero()[0]
        if not len(hits):
            return None
        force, total = np.zeros(6), 0.0
        for contact in hits.tolist():
            mujoco.mj_contactForce(self.model, self.data, contact, force)
            total += force[0]
        return float(total)

    def loads(self) -> JointLoads:
        """Loads of motors and feet at this instant."""
        model, data, legs = self.model, self.data, self._legs
        forces, sinking, force, velocity = (np.zeros(n) for n in (len(legs), len(legs), 6, 6))
        for contact, pair in enumerate(data.contact.geom.tolist()):
            for foot in pair:
                if foot in legs:
                    mujoco.mj_contactForce(model, data, contact, force)
                    forces[legs[foot]] += force[0]
        for foot, leg in legs.items():
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_GEOM, foot, velocity, 0)
            sinking[leg] = -velocity[5]
        return JointLoads(np.array(self._torques), data.qvel[self.v], forces, sinking)

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""
        self.data.qvel[LINEAR] += velocity
