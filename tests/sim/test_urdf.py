"""URDFs of users: read alike by both simulators, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1, ROBOTS, RobotSpec
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.engines.urdf import find_urdf, parse_urdf, read_urdf
from pixelgait.sim.engines.urdf_tree import UrdfTree
from pixelgait.sim.scenes.flat import FlatGround

Own = Callable[[Callable[[Element], None]], Path]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Own:
    """The A1's URDF after a change, as a user's file for the A1."""

    def write(change: Callable[[Element], None]) -> Path:
        change(root := parse_urdf(find_urdf(A1)))
        (file := tmp_path / "mine.urdf").write_bytes(ElementTree.tostring(root))
        monkeypatch.setenv("PIXELGAIT_A1_URDF", str(file))
        return file

    return write


def under_a_world(kind: str) -> Callable[[Element], None]:
    def change(root: Element) -> None:
        base = UrdfTree(root).base
        SubElement(root, "link", name="world")
        joint = SubElement(root, "joint", name="floating_base", type=kind)
        SubElement(joint, "parent", link="world")
        SubElement(joint, "child", link=base)

    return change


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", ["floating", "fixed"])
def test_a_robot_below_a_world_link_stands_as_without_it(own: Own, body: str, kind: str) -> None:
    heights = []
    for change in (lambda root: None, under_a_world(kind)):
        own(change)
        robot = make_body(body, A1, FlatGround())
        robot.reset(0)
        for _ in range(20):
            robot.apply(robot._stand)  # type: ignore[attr-defined]
        heights.append(robot.pose().position[2])
        robot.close()
    assert heights[0] == heights[1] == pytest.approx(A1.stand_height_m, abs=0.02)


def knees_that_turn_the_other_way(root: Element) -> None:
    for joint in root.iterfind("joint"):
        if "lower_joint" in joint.get("name", ""):
            axis, limit = joint.find("axis"), joint.find("limit")
            assert axis is not None
            assert limit is not None
            axis.set("xyz", "0 -1 0")
            lower, upper = limit.get("lower", ""), limit.get("upper", "")
            limit.attrib |= {"lower": f"{-float(upper)}", "upper": f"{-float(lower)}"}


def a_thigh_that_is_held_back(root: Element) -> None:
    limit = root.find("joint[@name='FL_upper_joint']/limit")
    assert limit is not None
    limit.set("upper", "1.0")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            knees_that_turn_the_other_way,
            r"mine\.urdf: as robot a1 stands, FR_toe is at -0\.06, -0\.13 m and -0\.06 m below "
            r"its hip, expected 0\.18, -0\.13 and 0\.25 m: another robot, or a joint that",
        ),
        (
            a_thigh_that_is_held_back,
            r"mine\.urdf: FL_upper_joint turns from -1\.0472 to 1 rad, robot a1 from -1\.0",
        ),
    ],
)
def test_another_robots_joints_are_refused_by_name(
    own: Own, body: str, change: Callable[[Element], None], message: str
) -> None:
    own(change)
    with pytest.raises(UserError, match=message):
        make_body(body, A1, FlatGround())


def test_a_urdf_may_have_options_for_mujoco_of_its_own(own: Own) -> None:
    """As a Lite3's has, with a folder of meshes relative to the file."""

    def options(root: Element) -> None:
        SubElement(
            SubElement(root, "mujoco"), "compiler", meshdir="../meshes/", balanceinertia="false"
        )

    own(options)
    make_body("mujoco", A1, FlatGround())


def test_what_mujoco_cannot_read_is_one_line(own: Own) -> None:
    def twice(root: Element) -> None:
        SubElement(root, "link", name="trunk")

    own(twice)
    with pytest.raises(UserError, match=r"mine\.urdf: MuJoCo cannot read it \("):
        make_body("mujoco", A1, FlatGround())


@pytest.mark.parametrize("spec", ROBOTS.values(), ids=ROBOTS)
def test_forward_kinematics_is_the_simulators(spec: RobotSpec) -> None:
    body = PyBulletBody(spec, FlatGround())
    body.reset(0)
    angles = spec.default_pose_rad + 0.1 * np.sin(np.arange(12))
    body._set_joints(angles)
    states = pybullet.getLinkStates(
        body.robot, body._feet, computeForwardKinematics=True, physicsClientId=body.client
    )
    there = np.array([state[4] for state in states]) - body.pose().position
    body.close()
    tree, pose = UrdfTree(read_urdf(spec)), dict(zip(spec.joint_names, angles, strict=True))
    for foot, place in zip(spec.foot_links, there, strict=True):
        np.testing.assert_allclose(tree.place(foot, pose), place, atol=1e-6)
