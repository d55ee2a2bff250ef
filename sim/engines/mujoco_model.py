"""MuJoCo model, compiled from a robot's URDF and a scene."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import mujoco
import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.rotation import Quaternion, upright
from pixelgait.robot.spec import LEGS, Array, RobotSpec
from pixelgait.sim.body.drive import MASS_KG
from pixelgait.sim.body.interface import GRAVITY_Z_M_PER_S2, PHYSICS_DT_S
from pixelgait.sim.engines.urdf import find_urdf, simulated_robot
from pixelgait.sim.engines.urdf_tree import base_link
from pixelgait.sim.world.meshes import as_loaded
from pixelgait.sim.world.scene import (
    ORIGIN,
    Box,
    HeightField,
    Mesh,
    Plane,
    Scene,
    Shape,
    push_limit_n,
)

SCENE_GROUP, ROBOT_GROUP = 0, 3  # cameras render the scene's group alone
SCENE_TYPE, SCENE_AFFINITY = 2, 1  # bits of contacts: shapes of the scene touch robots alone
LINK_FRICTION = 0.5  # PyBullet's default
FOOT_CONTACTS = 4  # most that sensors report; a round foot on flat ground has one
BASE_M = 0.1  # of a height field, below its lowest point
FLATTEST_M = 1e-6  # least range of its heights: MuJoCo refuses a level one


def compile_model(robot: RobotSpec, scene: Scene, *, foot_sensors: bool = False) -> mujoco.MjModel:
    """Compile a model; actuator i drives joint i.

    Movable shapes are mocap bodies, or bodies with joints if they push with a limited force.

    With `foot_sensors` its sensor data is the input of `read_feet`.

    Raises:
        UserError: if MuJoCo cannot read the URDF, or compile a shape of the scene.
    """
    root, _ = simulated_robot(robot)
    friction = _foot_friction(root, robot)
    _prepare(root)
    try:
        spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{find_urdf(robot)}: MuJoCo cannot read it ({reason})") from None
    for geom in spec.geoms:
        bone = geom.contype == 0
        geom.group = SCENE_GROUP if bone else ROBOT_GROUP
        if not bone:
            # It touches the scene, not itself.
            geom.contype, geom.conaffinity = SCENE_AFFINITY, SCENE_TYPE
    for joint in spec.joints:  # the motor model limits torques, not the URDF's effort
        joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
    for name, limit in zip(robot.joint_names, robot.torque_limit_nm.tolist(), strict=True):
        spec.add_actuator(
            name=name,
            target=name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
            forcelimited=True,
            forcerange=(-limit, limit),
        )
    for i, shape in enumerate(scene.fixed):
        _add(spec, spec.worldbody, scene_geom(i), shape, friction)
    # The mocap body has the pose, its geom has none.
    for i, shape in enumerate(scene.movable, len(scene.fixed)):
        driven = push_limit_n(shape) is not None
        body, unposed = spec.worldbody.add_body(mocap=not driven), replace(shape, pose=ORIGIN)
        _add(spec, body, scene_geom(i), unposed, friction)
        if driven:
            _add_joints(body, scene_geom(i))
    spec.option.timestep = PHYSICS_DT_S
    spec.option.gravity = (0.0, 0.0, GRAVITY_Z_M_PER_S2)
    # As in MuJoCo Menagerie's quadrupeds: elliptic friction cones, feet that do not creep.
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 100.0
    try:
        model = spec.compile()
        if foot_sensors:
            _add_foot_sensors(spec, [spec.geoms[foot] for foot in foot_geoms(model, robot)])
            model = spec.compile()
        return model
    except ValueError as error:  # a user's mesh that cannot be used
        reason = " ".join(str(error).split())
        raise UserError(f"scene {scene.name}: MuJoCo cannot compile it ({reason})") from None


def wxyz(orientation: Quaternion) -> tuple[float, float, float, float]:
    """A quaternion xyzw in MuJoCo's order."""
    x, y, z, w = orientation
    return w, x, y, z


def scene_geom(i: int) -> str:
    """The name of the scene's shape i, fixed ones first."""
    return f"scene-{i}"


def _add(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, shape: Shape, foot_friction: float
) -> None:
    pose = ORIGIN if isinstance(shape, Plane | Mesh) else shape.pose
    geom = body.add_geom(
        name=name,
        pos=(pose.x, pose.y, pose.z),
        quat=wxyz(upright(pose.yaw)),
        group=SCENE_GROUP,
        mass=0.0,
        contype=SCENE_TYPE,
        conaffinity=SCENE_AFFINITY,
        # PyBullet multiplies the frictions of both bodies; MuJoCo uses that of the geom with
        # priority.
        friction=(shape.friction * foot_friction, 0.005, 0.0001),
        priority=1,
    )
    if isinstance(shape, Box):
        geom.type = mujoco.mjtGeom.mjGEOM_BOX
        geom.size, geom.rgba = shape.half_m, (*shape.colour, float(shape.visible))
    elif isinstance(shape, HeightField):
        geom.type = mujoco.mjtGeom.mjGEOM_HFIELD
        geom.hfieldname, geom.rgba = _height_field(spec, shape), (*shape.colour, 1.0)
        geom.pos[2] += shape.heights_m.min()
    elif isinstance(shape, Mesh):
        geom.type = mujoco.mjtGeom.mjGEOM_MESH
        geom.meshname, geom.rgba = _mesh(spec, shape), (1.0, 1.0, 1.0, 1.0)
        geom.contype = geom.conaffinity = 0  # contacts would be with its convex hull
        for i, box in enumerate(shape.boxes):
            _add(spec, body, f"{name}-{i}", box, foot_friction)
    else:
        geom.type = mujoco.mjtGeom.mjGEOM_PLANE
        geom.size = (0.0, 0.0, 1.0)


def resize(model: mujoco.MjModel, geom: int, box: Box) -> None:
    """Give the box geom of a mocap body another size and colour, and the bounds that follow."""
    model.geom_size[geom] = box.half_m
    model.geom_rgba[geom] = (*box.colour, float(box.visible))
    model.geom_rbound[geom] = np.linalg.norm(box.half_m)
    bounds = (0.0, 0.0, 0.0, *box.half_m)
    model.geom_aabb[geom] = bounds
    model.bvh_aabb[model.body_bvhadr[model.geom_bodyid[geom]]] = bounds


def _add_joints(body: mujoco.MjsBody, name: str) -> None:
    """Let a body of a driven shape move along x and y, and turn about z."""
    body.geoms[0].mass = MASS_KG
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    for axis, kind, direction in (
        ("x", slide, (1, 0, 0)),
        ("y", slide, (0, 1, 0)),
        ("yaw", hinge, (0, 0, 1)),
    ):
        body.add_joint(name=f"{name}-{axis}", type=kind, axis=direction)


def _mesh(spec: mujoco.MjSpec, mesh: Mesh) -> str:
    """Add a mesh asset of triangles that need not be closed; returns its name."""
    name = f"mesh-{len(spec.meshes)}"
    inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    spec.add_mesh(name=name, file=str(as_loaded(mesh).visual.resolve()), inertia=inertia)
    return name


def _height_field(spec: mujoco.MjSpec, field: HeightField) -> str:
    """Add a height field asset, heights from 0 to 1 with x varying fastest; returns its name."""
    rows, columns = field.heights_m.shape
    low, span = field.heights_m.min(), max(np.ptp(field.heights_m), FLATTEST_M)
    name = f"height-field-{len(spec.hfields)}"
    spec.add_hfield(
        name=name,
        nrow=columns,
        ncol=rows,
        size=((rows - 1) * field.cell_m / 2, (columns - 1) * field.cell_m / 2, span, BASE_M),
        userdata=((field.heights_m - low) / span).T.ravel(),
    )
    return name


def _prepare(root: ElementTree.Element) -> None:
    """Add a floating joint to the base, and compiler options in place of its own, to a URDF."""
    for own in root.findall("mujoco"):  # a folder of meshes, whose paths are absolute here
        root.remove(own)
    base = base_link(root)
    joint = ElementTree.SubElement(root, "joint", name="floating_base", type="floating")
    ElementTree.SubElement(root, "link", name="world")
    ElementTree.SubElement(joint, "parent", link="world")
    ElementTree.SubElement(joint, "child", link=base)
    # Keep the scene's meshes, which are only rendered.
    options = {"strippath": "false", "discardvisual": "false"}
    ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", options)


def foot_geoms(model: mujoco.MjModel, robot: RobotSpec) -> list[int]:
    """Geoms of the feet, one per leg: those furthest from their knees.

    MuJoCo merges the feet's links into the lower legs, without their names.
    """
    feet = []
    for knee in robot.joint_names[2::3]:
        body = model.joint(knee).bodyid[0]
        geoms = (model.geom_bodyid == body).nonzero()[0]
        feet.append(int(geoms[np.linalg.norm(model.geom_pos[geoms], axis=1).argmax()]))
    return feet


def _add_foot_sensors(spec: mujoco.MjSpec, feet: list[mujoco.MjsGeom]) -> None:
    """Add sensors of the feet's contact forces and velocities."""
    for foot, geom in enumerate(feet):
        geom.name = f"foot-{foot}"
        force = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
        spec.add_sensor(
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_GEOM,
            objname=geom.name,
            intprm=[force, 0, FOOT_CONTACTS],  # separately, each in its own frame: normal first
        )
    for geom in feet:
        spec.add_sensor(
            type=mujoco.mjtSensor.mjSENS_FRAMELINVEL,
            objtype=mujoco.mjtObj.mjOBJ_GEOM,
            objname=geom.name,
        )


def read_feet(sensors: Array) -> tuple[Array, Array]:
    """Normal forces (n, feet) [N] and downward speeds (n, feet) [m/s] of the feet of n robots.

    `sensors` (n, m) is the sensor data of a model with `foot_sensors`.
    """
    split = len(LEGS) * FOOT_CONTACTS * 3
    forces = sensors[:, :split:3].reshape(len(sensors), len(LEGS), FOOT_CONTACTS).sum(-1)
    return forces, -sensors[:, split + 2 :: 3]


def foot_friction(robot: RobotSpec) -> float:
    """Coulomb coefficient of the feet in the simulated robot's URDF."""
    return _foot_friction(simulated_robot(robot)[0], robot)


def _foot_friction(root: ElementTree.Element, robot: RobotSpec) -> float:
    friction = root.find(f"link[@name='{robot.foot_links[0]}']/contact/lateral_friction")
    return LINK_FRICTION if friction is None else float(friction.get("value", LINK_FRICTION))
