"""Domain randomisation in both simulators: every range has an effect, a seed repeats."""

from __future__ import annotations

import math
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.interface import Reading
from pixelgait.robot.rotation import heading, roll_pitch, upright
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, ROBOTS
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose, SimulatedBody
from pixelgait.sim.body.legged_body import motor_torques, standing
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sensors import Sensors
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.mujoco_body import MuJoCoBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.episode import run_episode
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.viewing.video import record_video
from tests.conftest import gentle_weights

IDEAL = {name: value for name, value in asdict(Sample()).items() if value is not None}
NOMINAL = Randomisation(**{name: (value, value) for name, value in IDEAL.items()})
STAND = standing(A1)

both = pytest.mark.parametrize("name", BODIES)


def body_with(name: str, **ranges: tuple[float, float]) -> SimulatedBody:
    return make_body(name, A1, FlatGround(), randomisation=replace(NOMINAL, **ranges))


def mass_of(body: SimulatedBody) -> float:
    if isinstance(body, MuJoCoBody):
        return float(body.model.body_mass.sum())
    assert isinstance(body, PyBulletBody)
    links = range(-1, pybullet.getNumJoints(body.robot, physicsClientId=body.client))
    info = [pybullet.getDynamicsInfo(body.robot, i, physicsClientId=body.client) for i in links]
    return float(sum(row[0] for row in info))


def after_standing(name: str, steps: int = 100, **ranges: tuple[float, float]) -> SimulatedBody:
    body = body_with(name, **ranges)
    body.reset(0)
    for _ in range(steps):
        body.apply(STAND)
    return body


def test_every_value_is_drawn_from_its_range() -> None:
    ranges = Randomisation(eye_height_m=(0.25, 0.7), eye_pitch_rad=(0.03, 0.37))
    samples = [ranges.sample(np.random.default_rng(seed)) for seed in range(300)]
    for field in fields(ranges):
        low, high = getattr(ranges, field.name)
        values = np.array([getattr(sample, field.name) for sample in samples])
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high >= values.max() > high - 0.05 * (high - low)
        assert abs(values.mean() - (low + high) / 2) < 0.1 * (high - low)


@pytest.mark.parametrize("name", ["gliding", *BODIES])
def test_the_eye_is_drawn_anew_every_episode(name: str) -> None:
    """Level ground straight below the picture's lower edge tells height and pitch."""
    ranges = replace(NOMINAL, eye_height_m=(0.25, 0.7), eye_pitch_rad=(0.03, 0.37))
    camera = Camera(A1.camera, kind="depth")
    if name == "gliding":
        body: Any = KinematicBody(A1, FlatGround(), camera=camera, randomisation=ranges)
    else:
        body = make_body(name, A1, FlatGround(), camera=camera, randomisation=ranges)
    half = np.tan(A1.camera.vertical_fov_rad / 2.0) * 31.0 / 32.0  # the lowest pixels' centres
    depths = []
    for seed in range(8):
        depths.append(float(np.median(body.reset(seed).image().pixels[-1])))
    body.close()
    least, most = (
        height_m / (math.sin(pitch) + half * math.cos(pitch))
        for height_m, pitch in ((0.25, 0.37), (0.7, 0.03))
    )
    assert 0.8 * least < min(depths) < 0.5  # a gliding robot sways and stands lower
    assert 0.6 < max(depths) < 1.1 * most


@both
def test_mass_changes_with_the_seed_and_does_not_add_up_over_episodes(name: str) -> None:
    body = body_with(name, mass=(0.8, 1.2))
    plain = mass_of(make_body(name, A1, FlatGround()))
    masses = []
    for seed in (*range(20), 0):
        body.reset(seed)
        masses.append(mass_of(body) / plain)
    assert masses[0] == masses[-1]
    assert 0.8 <= min(masses) < 0.9
    assert 1.1 < max(masses) <= 1.2
    body.close()


@both
def test_heavier_robot_has_higher_knee_torques(name: str) -> None:
    torques = []
    for mass in (1.0, 1.2):
        body = after_standing(name, mass=(mass, mass))
        bent = body.read().joint_angles - A1.default_pose_rad
        torques.append(np.abs(A1.kp_nm_per_rad * bent)[2::3].sum())
        body.close()
    assert torques[1] == pytest.approx(1.2 * torques[0], rel=0.05)


@both
def test_more_inertia_turns_more_slowly(name: str) -> None:
    """Limp legs swing as pendulums: independently of mass, slower with more inertia."""
    swings = []
    for inertia in (0.5, 1.5):
        body = body_with(name, inertia=(inertia, inertia))
        body.reset(0)
        body.place((0.0, 0.0, 3.0), (0.0, 0.0, 0.0, 1.0))
        kick = replace(STAND, kp=np.zeros(12), kd=np.zeros(12), feed_forward=np.full(12, 0.5))
        body.apply(kick)
        swings.append(np.abs(body.read().joint_velocities).sum())
        body.close()
    assert swings[1] < 0.9 * swings[0]


@both
def test_slippery_feet_slide_further(name: str) -> None:
    slid = []
    for friction in (0.3, 1.2):
        body = after_standing(name, friction=(friction, friction))
        x = body.pose()[0][0]
        body.push(np.array((0.8, 0.0, 0.0)))
        for _ in range(40):
            body.apply(STAND)
        slid.append(body.pose()[0][0] - x)
        body.close()
    assert slid[0] > 1.5 * slid[1]


@both
def test_delayed_command_reaches_the_motors_after_the_delay(name: str) -> None:
    first_moves = []
    for delay_s in (0.0, 0.02, 0.04):
        body = body_with(name, delay_s=(delay_s, delay_s))
        start = body.reset(0).joint_angles
        command = replace(STAND, targets=A1.default_pose_rad + 0.4)
        moved = []
        for _ in range(8):
            body.apply(command)
            moved.append(np.abs(body.read().joint_angles - start).max())
        first_moves.append(int(np.argmax(np.array(moved) > 0.05)))
        body.close()
    assert first_moves[1] == first_moves[0] + 2  # control steps of 10 ms
    assert first_moves[2] == first_moves[0] + 4


@both
def test_weak_motor_gives_less_torque(name: str) -> None:
    sag = {}
    for strength in (1.0, 0.5):
        body = after_standing(name, strength=(strength, strength))
        sag[strength] = A1.stand_height_m - body.pose()[0][2]
        body.close()
    assert sag[0.5] > 1.5 * sag[1.0] > 0.0


def test_torque_limit_falls_from_stall_to_no_load_speed() -> None:
    wanted, speeds = [20.0, 20.0, 20.0, -20.0, 4.0, 30.0], [0.0, 15.0, 40.0, 15.0, -15.0, 0.0]
    motors = [(0.0, 0.0, 0.0, torque, 20.0, 1 / 30) for torque in wanted]
    given = motor_torques(motors, [0.0] * 6, speeds)
    assert given == pytest.approx([20.0, 10.0, 0.0, -20.0, 4.0, 20.0])  # two of them brake


def test_torque_equals_the_pd_law() -> None:
    motors = [(0.5, 100.0, 2.0, 1.0, 33.5, 0.0), (0.5, 100.0, 2.0, 1.0, 33.5, 0.0)]
    assert motor_torques(motors, [0.3, -0.3], [4.0, 4.0]) == pytest.approx([13.0, 33.5])


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("strength", [0.9, 1.2])
def test_mujocos_motors_equal_the_motor_model(robot: str, strength: float) -> None:
    """The motor model is used with a negligible drop of torque with speed."""
    spec, joints = ROBOTS[robot], np.arange(12)
    stand, ways = standing(spec), np.sign(np.sin(joints + 1.0))
    swing = replace(stand, targets=spec.default_pose_rad + 0.2 * ways)
    beyond_rad = 3.0 * ways * spec.torque_limit_nm / spec.kp_nm_per_rad
    commands = {
        "stands": stand,
        "leans on feed-forward torques": replace(stand, feed_forward=np.cos(joints)),
        "swings": swing,
        "swings softly, joint by joint": replace(swing, kp=spec.kp_nm_per_rad / (2.0 + joints)),
        "goes to its limits": replace(stand, targets=spec.default_pose_rad + beyond_rad),
        "is damped": Supervisor(spec).damp(0.0),
    }
    moved = []
    for drop in (0.0, 1e-13):
        ranges = replace(NOMINAL, strength=(strength, strength), torque_drop=(drop, drop))
        body = make_body("mujoco", spec, FlatGround(), randomisation=ranges)
        rows = []
        for _ in range(2):  # nothing of an episode is left in the next
            body.reset(0)
            for command in commands.values():
                for _ in range(10):
                    body.apply(command)
                    body.step(command)
                    rows.append([*body.pose()[0], *body.read().joint_angles, *body.loads().torques])
        moved.append(np.array(rows))
        body.close()
    np.testing.assert_allclose(moved[0], moved[1], rtol=0.0, atol=1e-9)
    shares = np.abs(moved[0][:, -12:]) / (strength * spec.torque_limit_nm)
    assert shares.max() == pytest.approx(1.0)
    again = len(moved[0]) // 2
    np.testing.assert_array_equal(moved[0][:again], moved[0][again:])


@both
def test_motor_stays_below_its_no_load_speed(name: str) -> None:
    fastest = []
    for drop in (0.0, 1.0):
        body = body_with(name, torque_drop=(drop, drop))
        body.reset(0)
        body.place((0.0, 0.0, 3.0), (0.0, 0.0, 0.0, 1.0))
        hips = np.tile((0.0, 1.0, 0.0), 4)
        full = replace(STAND, kp=100.0 * (1 - hips), kd=2.0 * (1 - hips), feed_forward=20.0 * hips)
        speeds = []
        for _ in range(8):
            body.apply(full)
            speeds.append(np.abs(body.read().joint_velocities[1::3]).max())
        fastest.append(max(speeds))
        body.close()
    limit = A1.velocity_limit_rad_per_s[1]
    assert fastest[0] > 1.3 * limit
    assert fastest[1] < 1.05 * limit


@both
def test_sensors_have_the_drawn_errors(name: str) -> None:
    noisy = body_with(
        name,
        imu_bias_rad=(0.05, 0.05),
        encoder_noise_rad=(0.01, 0.01),
        encoder_bias_rad=(0.1, 0.1),
        rate_noise_rad_per_s=(0.2, 0.2),
        rate_bias_rad_per_s=(0.5, 0.5),
    )
    noisy.reset(0)
    readings = [noisy.read() for _ in range(500)]  # of one instant: only the noise differs
    angles = np.array([r.joint_angles for r in readings])
    rates = np.array([r.angular_velocity for r in readings])
    np.testing.assert_allclose(angles.std(0), 0.01, rtol=0.15)
    np.testing.assert_allclose(rates.std(0), 0.2, rtol=0.15)
    np.testing.assert_allclose(np.abs(rates.mean(0)), 0.5, atol=0.05)
    offsets = angles.mean(0) - A1.default_pose_rad
    assert 0.05 < np.abs(offsets).max() <= 0.102
    assert len(np.unique(offsets)) == 12  # every joint has its own
    x, y, z, w = readings[0].orientation
    tilt = (2 * (w * x + y * z), 2 * (w * y - z * x))  # roll, pitch, small
    np.testing.assert_allclose(tilt, 0.05, atol=1e-3)
    noisy.close()


@both
def test_late_sensors_interpolate_past_values(name: str) -> None:
    """Half a control step ago is half-way between two readings, for joints and IMU."""
    late = body_with(name, encoder_delay_s=(0.015, 0.015), imu_delay_s=(0.005, 0.005))
    ideal = make_body(name, A1, FlatGround())
    shown, true = [late.reset(0)], [ideal.reset(0)]
    command = replace(STAND, targets=A1.default_pose_rad + 0.2)
    for _ in range(10):
        for body, readings in ((late, shown), (ideal, true)):
            body.apply(command)
            readings.append(body.read())
    half = (true[8].joint_angles + true[9].joint_angles) / 2
    np.testing.assert_allclose(shown[10].joint_angles, half, atol=1e-9)
    rate = (true[9].angular_velocity + true[10].angular_velocity) / 2
    np.testing.assert_allclose(shown[10].angular_velocity, rate, atol=1e-9)
    assert shown[10].time_s == true[10].time_s  # the controller does not know the delay
    late.close()
    ideal.close()


def test_late_imu_is_continuous_where_its_quaternion_changes_sign() -> None:
    """Both signs are the same orientation; their mean is none."""
    sample = replace(Sample(), imu_delay_s=0.005)
    sensors = Sensors(sample, Camera(A1.camera, 8, 8), lambda *_: np.zeros((8, 8, 3)), 0, 12)
    for step, yaw in enumerate((-2.08, -2.09, -2.10, -2.11)):
        sign = 1.0 if step < 2 else -1.0
        orientation = sign * np.array(upright(yaw))
        still = np.zeros(12), np.zeros(12), orientation, np.zeros(3)
        true = Reading(0.01 * step, *still, image=lambda: None)  # type: ignore[arg-type,return-value]
        read = sensors.read(true, BasePose((0.0, 0.0, 0.3), tuple(orientation.tolist())))
        assert heading(read.orientation.tolist()) == pytest.approx(yaw, abs=0.011)
        assert np.max(np.abs(roll_pitch(read.orientation.tolist()))) < 1e-6


@both
def test_default_sample_equals_no_randomisation(name: str) -> None:
    ends = []
    for body in (body_with(name), make_body(name, A1, FlatGround())):
        reading = body.reset(1)
        for _ in range(30):
            body.apply(replace(STAND, targets=A1.default_pose_rad + 0.1))
            reading = body.read()
        ends.append((*body.pose()[0], *reading.joint_angles))
        body.close()
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)


@both
def test_randomised_episode_depends_on_its_seed_bit_for_bit(name: str) -> None:
    body = make_body(name, A1, FlatGround(), randomisation=Randomisation())
    task = Follow(200)
    low_level = LinearLowLevel.from_weights(A1, gentle_weights())
    controller = Controller(task.command, low_level, Supervisor(A1))
    first, other, again = (run_episode(controller, body, task, seed) for seed in (3, 4, 3))
    np.testing.assert_array_equal(first.path, again.path)
    np.testing.assert_array_equal(first.observations, again.observations)
    assert not np.array_equal(first.path[:10], other.path[:10])
    assert first.return_m == again.return_m
    body.close()


def test_tracking_is_not_judged_before_the_first_command() -> None:
    """A wrong IMU from the start delays the first command."""
    body = make_body("pybullet", A1, FlatGround())
    task, returns = Follow(50), []
    for command in (None, np.array((1.0, 1.0))):
        if command is not None:
            task.latent = command  # of an episode before
        body.reset(3)
        task.reset(body, 3)
        returns.append([task.step(body)[0] for _ in range(5)])
    body.close()
    assert returns[0] == returns[1]


def test_filming_does_not_change_an_episode(tmp_path: Path) -> None:
    """Filming draws no sensor noise."""
    body = make_body("pybullet", A1, FlatGround(), randomisation=Randomisation())
    task = Follow(100)
    low_level = LinearLowLevel.from_weights(A1, gentle_weights())
    controller = Controller(task.command, low_level, Supervisor(A1))
    evaluated = run_episode(controller, body, task, 3)
    (filmed,) = record_video(controller, body, task, [3], tmp_path / "strip.png")
    body.close()
    np.testing.assert_array_equal(filmed.path, evaluated.path)
    assert filmed.return_m == evaluated.return_m


@both
def test_imu_heading_drifts_and_its_tilt_does_not(name: str) -> None:
    body = after_standing(name, 200, heading_drift_rad_per_s=(0.02, 0.02))
    said, true = body.read().orientation, np.array(body.pose().orientation)
    assert heading(said) - heading(true) == pytest.approx(0.04, abs=1e-3)
    np.testing.assert_allclose(roll_pitch(said), roll_pitch(true), atol=1e-3)
    body.close()
