"""Both simulators: equal robots and scenes, nearly equal motion."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.control import gait
from pixelgait.robot.control.controller import STAND, Controller, Decision, latent_for
from pixelgait.robot.control.low_level import (
    INPUT_SIZE,
    LOW_LEVEL_WEIGHTS,
    OUTPUT_SIZE,
    LinearLowLevel,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.rotation import heading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, GO2, ROBOTS, RobotSpec
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.body.interface import SUBSTEPS, SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.engines.urdf import find_urdf
from pixelgait.sim.scenes.courses.obstacle_course import WALL_COLOUR, ObstacleCourse
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import make_scene
from tests.helpers import Only

TROT = {"frequency_hz": 2.0, "lift_rad": 0.5, "duty": 0.5}


def trotting(spec: RobotSpec, **parameters: float) -> Controller:
    """A controller with a low level of these gait parameters, others in mid-range."""
    bias = np.zeros(OUTPUT_SIZE)
    for i, (name, low, high) in enumerate(gait.PARAMETERS):
        value = parameters.get(name, TROT.get(name, (low + high) / 2.0))
        bias[12 + i] = 2.0 * (value - low) / (high - low) - 1.0
    low_level = LinearLowLevel(spec, np.zeros((OUTPUT_SIZE, INPUT_SIZE)), bias)
    return Controller(lambda *_: Decision(np.zeros(2), 800), low_level, Supervisor(spec))


def run(body: SimulatedBody, controller: Controller, steps: int, seed: int = 0) -> np.ndarray:
    """Base pose and joint angles of every step, (steps, 19)."""
    reading = body.reset(seed)
    controller.reset()
    rows = []
    for _ in range(steps):
        body.apply(controller.step(reading).command)
        reading = body.read()
        rows.append([*body.pose()[0], *body.pose()[1], *reading.joint_angles])
    assert controller.supervisor.fault is None
    return np.array(rows)


@pytest.fixture(scope="module")
def flat() -> Iterator[dict[str, SimulatedBody]]:
    bodies = {name: make_body(name, A1, FlatGround()) for name in BODIES}
    yield bodies
    for body in bodies.values():
        body.close()


def test_both_simulators_stand_equally_high_with_equal_torques(
    flat: dict[str, SimulatedBody],
) -> None:
    hold = JointCommand(0.0, A1.default_pose_rad, A1.kp_nm_per_rad, A1.kd_nms_per_rad, np.zeros(12))
    heights, torques = [], []
    for body in flat.values():
        body.reset(0)
        for _ in range(200):
            body.apply(hold)
        heights.append(body.pose()[0][2])
        torques.append(A1.kp_nm_per_rad * (A1.default_pose_rad - body.read().joint_angles))
    assert heights[0] == pytest.approx(heights[1], rel=0.02)
    # Of the largest: abduction and hip carry next to nothing in this pose.
    np.testing.assert_allclose(torques[0], torques[1], atol=0.1 * np.abs(torques[0]).max())
    np.testing.assert_allclose(torques[0][2::3], torques[1][2::3], rtol=0.1)  # the knees


@pytest.mark.parametrize("stride", [0.07, -0.05])
def test_open_loop_trot_covers_equal_distances_in_both_simulators(
    flat: dict[str, SimulatedBody], stride: float
) -> None:
    ends = [run(body, trotting(A1, stride_m=stride), 300)[-1, 0] for body in flat.values()]
    assert abs(ends[0]) > 0.5
    assert ends[1] == pytest.approx(ends[0], rel=0.25)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("robot", ROBOTS)
def test_every_robot_stands_and_trots_upright_for_five_seconds(name: str, robot: str) -> None:
    """With soft legs, untrained gaits rock more and more, and fall after four seconds."""
    spec = ROBOTS[robot]
    on_the_spot = 300 if robot == "go2" else 500
    body = make_body(name, spec, FlatGround())
    standing_still, forward = trotting(spec), trotting(spec, stride_m=0.05)
    standing_still.low_level = LinearLowLevel.from_weights(spec, np.zeros(LOW_LEVEL_WEIGHTS))
    ends = []
    for controller, steps in ((standing_still, on_the_spot), (forward, 500)):
        path = run(body, controller, steps)
        up_z = 1.0 - 2.0 * (path[:, 3:5] ** 2).sum(1)
        assert up_z.min() > 0.9
        assert path[:, 2].min() > 0.75 * spec.stand_height_m
        ends.append(path[-1, 0])
    assert ends[1] > ends[0] + 0.5
    body.close()


@pytest.mark.parametrize("friction", [0.5, 0.8, 1.25])
@pytest.mark.parametrize(("mass", "strength"), [(1.0, 1.0), (0.8, 1.2)])
def test_loads_balance_the_weight_and_trot_covers_the_commanded_distance(
    mass: float, strength: float, friction: float
) -> None:
    """Four half strides of 0.12 m a second: 0.48 m/s without slip."""
    robot = Only(one=Sample(mass=mass, strength=strength, friction=friction))
    body = make_body("pybullet", GO2, FlatGround(), randomisation=robot)
    controller = trotting(GO2, frequency_hz=2.0, stride_m=0.06, lift_rad=0.45, duty=0.5)
    reading, places = body.reset(0), []
    for step in range(1000):
        latent = STAND if step < 300 else latent_for(0.6, 0.0)
        body.apply(controller.follow(latent, reading).command)
        reading = body.read()
        places.append(body.pose()[0][0])
    body.close()
    assert controller.carried[1] == pytest.approx(mass / strength - 1.0, abs=0.1)
    assert (places[-1] - places[500]) / 5.0 > 0.38


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("robot", ROBOTS)
def test_every_robot_turns_on_the_spot(name: str, robot: str) -> None:
    """Feet that stick to the ground would leave less than 0.1 rad/s."""
    body = make_body(name, ROBOTS[robot], FlatGround())
    path = run(body, trotting(ROBOTS[robot], turn_rad=0.1), 300)
    turned = np.unwrap([heading(row[3:7].tolist()) for row in path])
    assert turned[-1] / 3.0 > 0.3
    body.close()


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("robot", ROBOTS)
def test_damped_robot_sinks_down_and_lies_still(name: str, robot: str) -> None:
    """Explicit damping would diverge and make it crawl."""
    body = make_body(name, ROBOTS[robot], FlatGround())
    reading, supervisor = body.reset(0), Supervisor(ROBOTS[robot])
    heights = []
    for _ in range(1000):
        heights.append(body.pose().position[2])
        body.apply(supervisor.damp(reading.time_s))
        reading = body.read()
        if reading.time_s > 8.0:
            assert abs(reading.joint_velocities).max() < 0.3
    (x, y, z), orientation = body.pose()
    assert z < 0.5 * ROBOTS[robot].stand_height_m
    assert np.diff(heights).max() < 1e-3  # [m]
    assert np.hypot(x, y) < 0.15
    assert abs(heading(orientation)) < 0.05
    body.close()


@pytest.mark.parametrize("name", BODIES)
def test_episode_depends_on_its_seed_alone(name: str) -> None:
    body = make_body(name, A1, ObstacleCourse(0.5))
    controller = trotting(A1, stride_m=0.05)
    first = run(body, controller, 100, seed=3)
    image = body.render().pixels
    run(body, controller, 50, seed=4)
    body.apply(controller.supervisor.damp(body.time_s))  # nothing of it is left
    np.testing.assert_array_equal(first, run(body, controller, 100, seed=3))
    np.testing.assert_array_equal(image, body.render().pixels)
    body.close()
    again = make_body(name, A1, ObstacleCourse(0.5))
    np.testing.assert_array_equal(first, run(again, controller, 100, seed=3))
    again.close()


@pytest.mark.parametrize("randomisation", [None, Randomisation()], ids=["ideal", "random"])
@pytest.mark.parametrize("name", BODIES)
def test_control_step_equals_its_physics_steps(
    name: str, randomisation: Randomisation | None
) -> None:
    """With delays, weak motors and swinging shapes."""
    scene = make_scene("obstacle-course", 0.5, "train")
    body = make_body(name, A1, scene, randomisation=randomisation)
    ends = []
    for physics_steps in (False, True):
        controller, reading = trotting(A1), body.reset(3)
        for _ in range(30):
            command = controller.step(reading).command
            if physics_steps:
                for _ in range(SUBSTEPS):
                    body.step(command)
            else:
                body.apply(command)
            reading = body.read()
        state = [body.time_s, *body.pose()[0], *body.pose()[1], *reading.joint_angles]
        ends.append((state, body.render_rgb()))
    assert ends[0][0] == ends[1][0]
    np.testing.assert_array_equal(ends[0][1], ends[1][1])
    body.close()


@pytest.mark.parametrize("name", BODIES)
def test_pose_place_push_and_readings_use_the_same_frames(name: str) -> None:
    body = make_body(name, A1, FlatGround())
    body.reset(0)
    turned = (0.0, 0.0, np.sin(0.5), np.cos(0.5))  # 1 rad to the left
    body.place((1.0, 2.0, 3.0), turned)
    position, orientation = body.pose()
    assert position == pytest.approx((1.0, 2.0, 3.0))
    assert orientation == pytest.approx(turned, abs=1e-6)
    body.push(np.array((1.0, 0.0, 0.0)))
    limp = JointCommand(0.0, *(np.zeros(12) for _ in range(4)))
    for _ in range(10):
        body.apply(limp)
    moved = np.subtract(body.pose()[0], position)
    assert moved == pytest.approx((0.1, 0.0, -0.5 * 9.8 * 0.01), abs=0.01)
    assert body.time_s == pytest.approx(0.1)
    body.close()


def test_mujoco_images_show_the_scene_without_the_robot() -> None:
    body = make_body("mujoco", A1, ObstacleCourse(0.5))
    body.reset(10_000)
    pixels = body.render().pixels
    colours = np.unique(pixels.reshape(-1, 3), axis=0)
    assert pixels.shape == (32, 32, 3)
    assert len(colours) == 4  # sky, platform, ground, walls from the front
    facing = 255 * np.array(WALL_COLOUR) * (0.6 + 0.35 * 0.4 / np.sqrt(1.25))
    assert np.abs(colours - facing).max(1).min() <= 1.0
    # The foot of the first wall, by hand: 2.42 m ahead, 0.33 m below the camera, pitched by 0.2.
    body.place((0.0, 0.0, 0.28), (0.0, 0.0, 0.0, 1.0))
    below = np.arctan(0.33 / (2.42 - 0.2)) - 0.2
    row = 16 * (1 + np.tan(below) / np.tan(A1.camera.vertical_fov_rad / 2))
    walls = (body.render().pixels[..., 0] > 100) & (body.render().pixels[..., 2] < 60)
    assert walls.any(1).nonzero()[0].max() == int(row - 0.5)  # a pixel's middle


def test_depth_is_metric_and_equal_in_both_simulators() -> None:
    images = []
    for name in BODIES:
        body = make_body(name, A1, ObstacleCourse(0.5))
        body.camera = Camera(A1.camera, kind="depth")
        seen = []
        for seed in range(10_000, 10_005):
            body.reset(seed)
            body.place((0.0, 0.0, 0.28), (0.0, 0.0, 0.0, 1.0))
            seen.append(body.render().pixels)
        images.append(np.array(seen))
        body.close()
    bullet, mujoco = images
    assert bullet.shape == mujoco.shape == (5, 32, 32)
    assert bullet.dtype == mujoco.dtype == np.float32
    # The ground below the image's last row, by hand: the camera looks down by `pitch` and is
    # `height` above it.
    mount = A1.camera
    height = 0.28 + mount.position_m[2]
    slope = 31.0 / 32.0 * np.tan(mount.vertical_fov_rad / 2.0)
    below = np.sin(mount.pitch_down_rad) + slope * np.cos(mount.pitch_down_rad)
    np.testing.assert_allclose(bullet[:, -1], height / below, atol=0.002)
    # A ray that just touches an edge may hit in one and miss in the other.
    assert (np.abs(bullet - mujoco) < 0.02).mean() > 0.995
    assert 0.1 < (bullet < 3.0).mean() < 0.9  # walls, ground and sky are all there
    assert (bullet == FAR_M).any()


def test_missing_simulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown body 'gazebo', choose from pybullet, mujoco"):
        make_body("gazebo", A1, FlatGround())
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.delitem(sys.modules, "pixelgait.sim.engines.mujoco_body", raising=False)
    monkeypatch.delitem(sys.modules, "pixelgait.sim.engines.mujoco_scene", raising=False)
    monkeypatch.delitem(sys.modules, "pixelgait.sim.engines.mujoco_model", raising=False)
    with pytest.raises(UserError, match="needs mujoco"):
        make_body("mujoco", A1, FlatGround())
    monkeypatch.setattr("pixelgait.sim.engines.urdf.EXAMPLE_ROBOT_DATA", "no-such-package")
    elsewhere = replace(ROBOTS["go2"], urdf="no-such-package/go2.urdf")
    with pytest.raises(UserError, match="robot 'go2' needs no-such-package"):
        find_urdf(elsewhere)


def test_robot_stands_with_a_users_urdf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Go2 without the package of all robots' URDFs."""
    spec = ROBOTS["go2"]
    packaged = find_urdf(spec).parents[1]
    own = tmp_path / Path(*packaged.parts[-3:])
    shutil.copytree(packaged, own, ignore=shutil.ignore_patterns("visuals"))
    monkeypatch.setattr("pixelgait.sim.engines.urdf.EXAMPLE_ROBOT_DATA", "no-such-package")
    monkeypatch.setenv("PIXELGAIT_GO2_URDF", str(own / "urdf" / "go2.urdf"))
    for name in BODIES:
        body = make_body(name, spec, FlatGround())
        body.reset(0)
        assert body.pose()[0][2] == pytest.approx(spec.stand_height_m, abs=0.03)
        body.close()
    package = own.relative_to(tmp_path).parts[0]
    (tmp_path / package).rename(tmp_path / "mine")
    moved = tmp_path / "mine" / own.relative_to(tmp_path / package) / "urdf" / "go2.urdf"
    monkeypatch.setenv("PIXELGAIT_GO2_URDF", str(moved))
    lost = f"{moved}: no folder above it is called {package}, as in 'package://{package}/"
    with pytest.raises(UserError, match=re.escape(lost)):
        make_body("pybullet", spec, FlatGround())
    monkeypatch.setenv("PIXELGAIT_GO2_URDF", str(tmp_path / "gone.urdf"))
    with pytest.raises(UserError, match="PIXELGAIT_GO2_URDF: no file"):
        find_urdf(spec)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("kd", "torque_nm"), [(0.0, 2.0), (3.0, 6.0)], ids=["a torque alone", "a speed alone"]
)
def test_commands_without_stiffness_move_the_joints(name: str, kd: float, torque_nm: float) -> None:
    """As in programs for a Go2: a torque, or damping about a speed."""
    body = make_body(name, GO2, FlatGround())
    body.reset(0)
    began = body.read().joint_angles
    zeros, forward = np.zeros(12), np.zeros(12)
    forward[0] = torque_nm
    for _ in range(10):
        body.apply(JointCommand(0.0, began, zeros, np.full(12, kd), forward))
    moved = body.read().joint_angles[0] - began[0]
    body.close()
    assert moved > 0.05  # [rad]


def test_urdf_of_another_robot_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own := tmp_path / "a1.urdf").write_text("no XML", encoding="utf-8")
    monkeypatch.setenv("PIXELGAIT_A1_URDF", str(own))
    with pytest.raises(UserError, match="is not a URDF: syntax error"):
        make_body("pybullet", A1, FlatGround())
    own.write_text("<robot name='a1'><link name='base'/></robot>", encoding="utf-8")
    with pytest.raises(UserError, match=r"no FR_hip_joint, FR_upper_joint, .*, which a a1 has"):
        make_body("mujoco", A1, FlatGround())


@pytest.mark.parametrize("simulator", BODIES)
def test_the_knees_of_a_lying_mini_cheetah_stop_at_their_limits(simulator: str) -> None:
    """Its URDF's joints turn without end. Folded further, they once read impossible angles."""
    spec = ROBOTS["mini_cheetah"]
    body = make_body(simulator, spec, FlatGround(), randomisation=Randomisation())
    body.reset(2)
    damp = Supervisor(spec).damp(0.0)
    for _ in range(100):
        body.apply(damp)
    assert np.abs(body.read().joint_angles[2::3]).max() < spec.joint_upper_rad[2] + 0.15
