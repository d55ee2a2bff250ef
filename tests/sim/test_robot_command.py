"""A robot from its URDF: derivation, robot file, and the commands that take it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pybullet
import pybullet_data
import pytest
import yaml

from pixelgait.export.exporter import export
from pixelgait.export.options import ExportConfig
from pixelgait.policies.evaluation.evaluate import player
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import BundleError, load_bundle
from pixelgait.robot.control.gait import load_map
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.spec import (
    ROBOTS,
    RobotSpec,
    find_robot,
    read_robot,
    robot_from_numbers,
    robot_numbers,
)
from pixelgait.sim.engines.derive_robot import Choices, derive_robot
from pixelgait.sim.engines.pybullet_body import load_robot
from pixelgait.sim.engines.urdf import find_urdf, parse_urdf
from pixelgait.sim.viewing.robot_command import robot_file, trot
from tests.conftest import Command, gentle_weights, write_run

ALIENGO = Path(pybullet_data.getDataPath(), "aliengo", "aliengo.urdf")
DATA = "example-robot-data/robots"
GO1 = replace(ROBOTS["go2"], name="go1", urdf=f"{DATA}/go1_description/urdf/go1.urdf")
# Fields that a URDF holds, of the robots whose URDF has them all.
FROM_THE_URDF = (
    *("joint_names", "foot_links", "swing_signs", "extension_signs", "abduction_signs", "urdf"),
    *("feet_m", "leg_length_m", "legs_m", "stand_height_m", "hip_share", "default_pose_rad"),
)


def chosen(spec: RobotSpec) -> Choices:
    """What the specification of a robot of this package chose."""
    return Choices(
        height_m=spec.leg_length_m,
        kp_nm_per_rad=float(spec.kp_nm_per_rad[2]),
        kd_nms_per_rad=float(spec.kd_nms_per_rad[2]),
    )


@pytest.mark.parametrize("spec", ROBOTS.values(), ids=ROBOTS)
def test_the_urdfs_of_this_package_give_its_specifications(spec: RobotSpec) -> None:
    found = derive_robot(find_urdf(spec), chosen(spec)).spec
    aside = spec.default_pose_rad[0]  # a Laikago spreads its legs, which no URDF says
    for name in FROM_THE_URDF:
        stated, derived = getattr(spec, name), getattr(found, name)
        if isinstance(stated, str | tuple):
            assert derived == stated
        elif name == "default_pose_rad":
            np.testing.assert_allclose(derived + np.tile((aside, 0.0, 0.0), 4), stated, atol=2e-3)
        elif not (aside and name in ("feet_m", "stand_height_m")):
            np.testing.assert_allclose(derived, stated, atol=4e-3)
    # Soft legs are told from stiff ones.
    assert found.carried_kg == pytest.approx(spec.carried_kg, rel=0.08)
    assert found.load_lag_s == pytest.approx(spec.load_lag_s)
    assert found.load_felt_s == spec.load_felt_s
    np.testing.assert_allclose(found.load_levers_m, spec.load_levers_m, atol=1e-3)
    if spec.name in ("a1", "go2"):
        np.testing.assert_allclose(found.joint_lower_rad, spec.joint_lower_rad)
        np.testing.assert_allclose(found.joint_upper_rad, spec.joint_upper_rad)
        assert found.damping_nms_per_rad == spec.damping_nms_per_rad


def test_knees_ahead_and_axes_to_both_sides_have_signs_of_their_own() -> None:
    """HyQ: knees towards each other, axes of the left legs' abduction backwards."""
    hyq = replace(GO1, urdf=f"{DATA}/hyq_description/robots/hyq_no_sensors.urdf")
    spec = derive_robot(find_urdf(hyq), Choices()).spec
    assert spec.abduction_signs == (1.0, -1.0, 1.0, -1.0)
    assert spec.extension_signs == (1.0, 1.0, -1.0, -1.0)
    np.testing.assert_allclose(spec.default_pose_rad[:6], -spec.default_pose_rad[6:])
    feet = np.array([foot.position for foot in LegKinematics(spec).feet(spec.default_pose_rad)])
    np.testing.assert_allclose(feet[:, :2], spec.feet_m, atol=1e-9)
    assert np.isfinite(load_map(spec)).all()


@pytest.mark.parametrize("body", ["pybullet", "mujoco"])
def test_a_derived_robot_trots(body: str) -> None:
    spec = derive_robot(find_urdf(GO1), Choices()).spec
    walk = trot(spec, 3.0, body)
    assert walk.fell_s is None
    assert walk.path[-1, 1] > 0.8
    assert walk.path[-1, 3] == pytest.approx(spec.stand_height_m, abs=0.05)


def a_fifth_joint(root: Element) -> None:
    joint = root.find("joint[@type='fixed']")
    assert joint is not None
    joint.set("type", "revolute")


def knee_to_the_other_side(root: Element) -> None:
    axis = root.find("joint[@name='RL_lower_joint']/axis")
    assert axis is not None
    axis.set("xyz", "0 -1 0")


def mass_without_a_number(root: Element) -> None:
    mass = root.find("link/inertial/mass")
    assert mass is not None
    mass.set("value", "${mass}")


def xacro(root: Element) -> None:
    ElementTree.SubElement(root, "{http://www.ros.org/wiki/xacro}include", filename="leg.xacro")


def without_links(root: Element) -> None:
    root.clear()


def mjcf(root: Element) -> None:
    root.tag = "mujoco"


def y_up(root: Element) -> None:
    for origin in root.iterfind("joint/origin"):
        origin.set("rpy", "1.5708 0 0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (a_fifth_joint, r"chains of joints: .*; expected four legs of three joints$"),
        (
            knee_to_the_other_side,
            "the axes of RL_upper_joint and RL_lower_joint point to",
        ),
        (
            y_up,
            r"at 0 \w+ turns about \(.*\), expected [xy]: abduction about x, hip and",
        ),
        (mjcf, r"is not a URDF: its root element is <mujoco>, expected <robot>$"),
        (xacro, r"is not a URDF: it is a xacro file, make one by: xacro FILE > robot\.urdf$"),
        (without_links, "is not a URDF: it has no link$"),
        (mass_without_a_number, "mass of a link: could not convert string to float"),
        (lambda root: None, "hips cannot be 0.900 m above FR_toe, links of 0.250 and 0.250 m"),
    ],
)
def test_what_is_no_quadruped_of_this_kind_is_refused_by_name(
    tmp_path: Path, change: Callable[[Element], None], message: str
) -> None:
    change(root := parse_urdf(ALIENGO))
    (file := tmp_path / "odd.urdf").write_bytes(ElementTree.tostring(root))
    with pytest.raises(UserError, match=message):
        derive_robot(file, Choices(height_m=0.9 if "hips" in message else None))


@pytest.mark.parametrize(
    ("given", "name"), [("Rex-2", "rex_2"), ("../Ünïc", "n_c"), ("a1", "a1_urdf"), ("é", "robot")]
)
def test_a_name_suits_files_and_variables(given: str, name: str) -> None:
    assert derive_robot(ALIENGO, Choices(name=given)).spec.name == name


def test_a_mesh_that_is_missing_is_named(tmp_path: Path) -> None:
    root = parse_urdf(ALIENGO)
    mesh = root.find("link/visual/geometry/mesh")
    assert mesh is not None
    mesh.set("filename", "gone.dae")
    (file := tmp_path / "odd.urdf").write_bytes(ElementTree.tostring(root))
    spec = derive_robot(file, Choices()).spec
    client = pybullet.connect(pybullet.DIRECT)
    with pytest.raises(UserError) as error:
        load_robot(spec, client)
    pybullet.disconnect(client)
    gone = tmp_path / "gone.dae"
    assert str(error.value) == f"{file}: PyBullet cannot load it: there is no {gone}"


def test_damping_of_zero_is_obeyed() -> None:
    spec, notes = derive_robot(ALIENGO, Choices(kp_nm_per_rad=80.0, kd_nms_per_rad=0.0))
    assert (spec.kp_nm_per_rad[0], spec.kd_nms_per_rad[0]) == (80.0, 0.0)
    assert not any("kp" in note for note in notes)


@pytest.fixture
def aliengo(tmp_path: Path) -> Path:
    spec = derive_robot(ALIENGO, Choices()).spec
    (file := tmp_path / "aliengo.yaml").write_bytes(robot_file(spec, ALIENGO))
    return file


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kp_nm_per_rad", [1.0], "kp_nm_per_rad is [1.0], expected numbers of shape (12,)"),
        ("kp_nm_per_rad", [0.0] * 12, "expected numbers above 0"),
        ("torque_limit_nm", [-1.0] * 12, "expected numbers above 0"),
        ("damping_nms_per_rad", -3.0, "damping_nms_per_rad is -3.0, expected numbers above 0"),
        ("kd_nms_per_rad", [-1.0] * 12, "expected numbers of 0 and more"),
        ("joint_lower_rad", [9.0] * 12, "joint_lower_rad of FR_hip_joint is 9.0, expected below "),
        ("leg_length_m", "long", "leg_length_m is long, expected numbers of shape ()"),
        ("leg_length_m", float("nan"), "leg_length_m is nan, expected numbers of shape ()"),
        ("swing_signs", [1.0, 1.0, 1.0, 0.5], "expected 1 and -1 of shape (4,)"),
        ("joint_names", ["a"], "joint_names is ['a'], expected 12 names"),
        ("name", 3, "name is 3, expected text"),
        ("name", "go2", "'go2' is a robot of this package"),
        ("camera", 1, "camera is 1, expected keys and values"),
        ("camera", {"position_m": [1.0, 0.0, 9.0]}, "spec.camera_position_m is [1.0, 0.0, 9.0]"),
        ("colour", "red", "unknown key 'colour', expected one of name, "),
        ("urdf", None, "key 'urdf' is missing"),
    ],
)
def test_a_wrong_robot_file_is_refused_by_key(
    aliengo: Path, key: str, value: object, message: str
) -> None:
    numbers = yaml.safe_load(aliengo.read_text())
    numbers[key] = value
    if value is None:
        del numbers[key]
    aliengo.write_text(yaml.safe_dump(numbers))
    with pytest.raises(UserError) as refused:
        find_robot(str(aliengo))
    assert f"robot file {aliengo}: " in str(refused.value)
    assert message in str(refused.value)


def test_numbers_of_a_robot_are_read_as_they_are_written() -> None:
    for spec in ROBOTS.values():
        again = robot_from_numbers(robot_numbers(spec))
        assert robot_numbers(again) == robot_numbers(spec)
    with pytest.raises(UserError, match=r"gone\.yaml is missing"):
        find_robot("gone.yaml")


@pytest.mark.slow
def test_a_bundle_holds_the_robot_of_a_robot_file(aliengo: Path, tmp_path: Path) -> None:
    kept = tmp_path / "low" / "scenes" / "1234" / "aliengo.yaml"
    low = write_run(tmp_path / "low", "follow", gentle_weights(), robot="1234/aliengo.yaml")
    kept.parent.mkdir(parents=True)
    kept.write_bytes(aliengo.read_bytes())
    export(ExportConfig(tmp_path / "b", low, pitch=0.3))
    kept.unlink()
    spec = load_bundle(tmp_path / "b").spec
    assert spec.name == "aliengo"
    assert spec.camera.pitch_down_rad == 0.3
    stated = robot_numbers(read_robot(aliengo))
    same = {name: value for name, value in robot_numbers(spec).items() if name != "camera"}
    assert same == {name: value for name, value in stated.items() if name != "camera"}
    _, body, _ = player(EvalConfig(str(tmp_path / "b"), scene="flat", robot=str(aliengo)))
    body.close()
    numbers = yaml.safe_load(aliengo.read_text()) | {"hip_share": 0.4}
    (other := tmp_path / "other.yaml").write_text(yaml.safe_dump(numbers))
    with pytest.raises(BundleError, match=r"robot_spec\.hip_share is 0\.5, this runtime works"):
        load_bundle(tmp_path / "b", read_robot(other))


@pytest.mark.slow
def test_the_command_writes_a_robot_file_that_training_takes(
    command: Command, tmp_path: Path
) -> None:
    done = command("pixelgait-robot", ALIENGO, "--seconds", 1, "--camera", 0.3, 0, 0.1)
    assert done.returncode == 0, done.stderr
    for line in ("FR: FR_hip_joint, FR_upper_joint, FR_lower_joint stand at 0.000, 0.902, -1.804",):
        assert line in done.stdout
    assert "pybullet: trots 0." in done.stdout
    assert (tmp_path / "aliengo.png").read_bytes().startswith(b"\x89PNG")
    assert find_robot(str(tmp_path / "aliengo.yaml")).camera.position_m == (0.3, 0.0, 0.1)
    line = "walk --robot aliengo.yaml --out w --iterations 1 --steps 20 --workers 1"
    small = "--es.directions 1 --es.top 1 --validation-episodes 1 --validation-steps 20"
    done = command("pixelgait-train", *line.split(), *small.split())
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "w" / "scenes").glob("*/aliengo.yaml"))
    for urdf, why in (("gone.urdf", "missing"), (".", "a folder")):
        done = command("pixelgait-robot", urdf)
        assert (done.returncode, done.stderr) == (1, f"error: {urdf} is {why}\n")
