"""Controller: schedule of decisions, degradation by sensor health; limits of the supervisor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import (
    LONGEST_STEPS,
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    SHORTEST_STEPS,
    STAND,
    Controller,
    Decision,
    commanded,
    latent_for,
)
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.control.observation import NO_GOAL
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.rotation import upright
from pixelgait.robot.safety.supervisor import (
    CAMERA,
    SENSOR_TIMEOUTS,
    SensorHealth,
    SensorTimeouts,
    Supervisor,
)
from pixelgait.robot.spec import A1, Array
from tests.conftest import trotting_weights


def reading(step: int = 0) -> Reading:
    image = Image(np.full((32, 32, 3), step % 256, np.uint8), step * 0.01)
    return Reading(
        time_s=step * 0.01,
        joint_angles=A1.default_pose_rad.copy(),
        joint_velocities=np.zeros(12),
        orientation=np.array((0.0, 0.0, 0.0, 1.0)),
        angular_velocity=np.zeros(3),
        image=lambda: image,
    )


def tilted(roll: float) -> Reading:
    half = roll / 2
    return replace(reading(), orientation=np.array((np.sin(half), 0.0, 0.0, np.cos(half))))


def rolled_and_pitched(roll: float, pitch: float) -> Reading:
    (sr, cr), (sp, cp) = ((np.sin(a / 2), np.cos(a / 2)) for a in (roll, pitch))
    return replace(reading(), orientation=np.array((sr * cp, cr * sp, -sr * sp, cr * cp)))


class Legs:
    """A low level that stands still, counts its steps in its phase, and keeps its commands."""

    def __init__(self) -> None:
        self.latents: list[np.ndarray] = []

    def __call__(self, latent: Array, reading: Reading, phase: Array) -> tuple[Array, Array]:
        self.latents.append(latent)
        return A1.default_pose_rad, phase + 1.0


def test_the_high_level_runs_when_its_own_duration_is_over() -> None:
    seen: list[int] = []

    def high_level(image: np.ndarray, *_: object) -> Decision:
        seen.append(int(image[0, 0, 0]))
        return Decision(np.full(2, len(seen)), 10 * len(seen))

    legs = Legs()
    controller = Controller(high_level, legs, Supervisor(A1))
    for step in range(61):
        controller.step(reading(step))
    assert seen == [0, 10, 30, 60]
    assert [latent[0] for latent in legs.latents] == [1] * 10 + [2] * 20 + [3] * 30 + [4]
    assert controller.phase[0] == 61.0  # the low level runs every step, phase fed back
    controller.reset()
    controller.step(reading(5))
    assert seen[-1] == 5
    assert controller.phase[0] == 1.0


def test_ahead_is_the_heading_at_the_first_step() -> None:
    goals: list[np.ndarray] = []

    def high_level(image: np.ndarray, goal: np.ndarray, state: object) -> Decision:
        goals.append(goal)
        return Decision(STAND, SHORTEST_STEPS)

    def bearings_of(*headings: float) -> list[float]:
        """Bearings given to the high level, one decision per heading."""
        goals.clear()
        controller.reset()
        for i, yaw in enumerate(headings):
            for step in range(SHORTEST_STEPS):
                now = reading(i * SHORTEST_STEPS + step)
                controller.schedule(replace(now, orientation=np.array(upright(yaw))))
        assert all(np.isinf(goal[0]) for goal in goals)
        return [float(goal[1]) for goal in goals]

    controller = Controller(high_level, lambda *_: (A1.default_pose_rad, _[2]), Supervisor(A1))
    np.testing.assert_allclose(
        bearings_of(3.0, 3.1, -3.1, 2.0), (0.0, -0.1, -0.1832, 1.0), atol=1e-4
    )
    np.testing.assert_allclose(bearings_of(1.0, 0.5), (0.0, 0.5))  # a new episode, a new ahead
    assert bearings_of(np.nan, 0.7, 0.6) == pytest.approx([0.0, 0.1])  # an IMU that starts late
    controller.go_to(np.array((5.0, 0.0)))
    controller.go_to(None)
    goals.clear()
    controller.schedule(replace(reading(1), orientation=np.array(upright(0.2))))
    np.testing.assert_array_equal(goals[0], NO_GOAL)


def test_no_decision_is_made_on_an_untrusted_orientation() -> None:
    """If a decision is due in a single bad step, the last one holds and the next step decides."""
    turns: list[float] = []

    def high_level(image: np.ndarray, goal: np.ndarray, state: object) -> Decision:
        turns.append(float(goal[1]))
        return Decision(np.array((0.5, len(turns) / 10)), LONGEST_STEPS)

    controller = Controller(high_level, lambda *_: (A1.default_pose_rad, _[2]), Supervisor(A1))
    bad = with_nan("orientation").orientation
    first = controller.schedule(replace(reading(0), orientation=bad))
    assert first.latent.tolist() == STAND.tolist()
    turned = np.array(upright(0.3))
    rows = [replace(reading(i), orientation=bad if i == 801 else turned) for i in range(1, 804)]
    latents = [controller.schedule(row).latent for row in rows]
    assert turns == [0.0, 0.0]
    assert [latent[1] for latent in latents] == [0.1] * 801 + [0.2] * 2


def test_a_silent_camera_slows_the_robot_to_a_stand() -> None:
    """The last command holds for half a second, then the robot stands until a new image."""
    seen: list[int] = []

    def high_level(image: np.ndarray, *_: object) -> Decision:
        seen.append(int(image[0, 0, 0]))
        return Decision(np.array((1.0, 0.3)), 20)

    legs = Legs()
    controller = Controller(high_level, legs, Supervisor(A1))
    images = 0
    for step in range(200):
        last = 20 if 20 <= step < 150 else step  # silent from 0.2 s to 1.5 s
        result = controller.step(replace(reading(step), image=reading(last).image))
        images += result.image is not None
    standing = [step for step, latent in enumerate(legs.latents) if latent[0] < 0.0]
    assert standing == list(range(80, 150))
    assert seen == [0, 20, 150, 170, 190]
    assert images == len(seen)


@pytest.mark.parametrize("beyond", [-0.2, 0.0, 0.2])  # of the joint limits
def test_commands_keep_joint_limits_and_torque_limits_within_them(beyond: float) -> None:
    angles = A1.default_pose_rad
    if beyond:
        angles = (A1.joint_upper_rad if beyond > 0 else A1.joint_lower_rad) + beyond
    moving, still = np.linspace(-5.0, 5.0, 12), np.zeros(12)
    for wild in (np.full(12, 10.0), np.full(12, -10.0)):
        for velocities in (moving, still):
            state = replace(reading(), joint_angles=angles, joint_velocities=velocities)
            supervisor = Supervisor(A1)
            commands = [supervisor.review(state, wild) for _ in range(20)]
            assert supervisor.fault is None
            for command in commands:
                assert np.all(command.targets >= A1.joint_lower_rad)
                assert np.all(command.targets <= A1.joint_upper_rad)
            torque = command.kp * (command.targets - angles) - command.kd * velocities
            inside = (command.targets > A1.joint_lower_rad) & (command.targets < A1.joint_upper_rad)
            assert np.all(np.abs(torque)[inside] <= A1.torque_limit_nm[inside] + 1e-9)
            if beyond and velocities is still:
                assert np.all(np.sign(torque) == -np.sign(beyond))  # towards the range


def test_targets_move_no_faster_than_their_speed_limit() -> None:
    """21 rad/s, 0.21 rad in a control step, beginning at the first reading's joint angles."""
    supervisor = Supervisor(A1)
    last = A1.default_pose_rad
    calm = A1.default_pose_rad + 0.05
    np.testing.assert_array_equal(supervisor.review(reading(), calm).targets, calm)
    supervisor.reset()
    for _ in range(3):
        targets = supervisor.review(reading(), A1.default_pose_rad + 0.5).targets
        assert np.all(np.abs(targets - last) <= 0.21 + 1e-12)
        last = targets
    supervisor.reset()
    first = supervisor.review(reading(), A1.default_pose_rad - 0.5).targets
    np.testing.assert_allclose(first[1::3], A1.default_pose_rad[1::3] - 0.21)


def with_nan(field: str) -> Reading:
    value = getattr(reading(), field).copy()
    value[0] = np.nan
    return replace(reading(), **{field: value})


@pytest.mark.parametrize(
    ("state", "targets", "fault"),
    [
        (with_nan("joint_angles"), A1.default_pose_rad, "sensor value is not finite"),
        (with_nan("joint_velocities"), A1.default_pose_rad, "sensor value is not finite"),
        (with_nan("orientation"), A1.default_pose_rad, "sensor value is not finite"),
        (with_nan("angular_velocity"), A1.default_pose_rad, "sensor value is not finite"),
        (reading(), np.full(12, np.inf), "joint target is not finite"),
        (tilted(1.3), A1.default_pose_rad, "tilted by 1.30 rad"),
        (tilted(-1.3), A1.default_pose_rad, "tilted by 1.30 rad"),
        (rolled_and_pitched(1.0, 1.0), A1.default_pose_rad, "tilted by 1.27 rad"),
        (replace(reading(), orientation=np.zeros(4)), A1.default_pose_rad, "no unit quaternion"),
    ],
)
def test_a_fault_damps_the_robot_until_reset(
    state: Reading, targets: np.ndarray, fault: str
) -> None:
    supervisor = Supervisor(A1)
    for command in (supervisor.review(state, targets), supervisor.review(reading(), np.zeros(12))):
        assert fault in str(supervisor.fault)
        assert not command.kp.any()
        assert np.all(command.kd == A1.damping_nms_per_rad)
    supervisor.reset()
    assert supervisor.review(reading(), A1.default_pose_rad).kp.any()


def test_leaning_within_the_limit_is_no_fault() -> None:
    supervisor = Supervisor(A1)
    supervisor.review(tilted(1.0), A1.default_pose_rad)
    assert supervisor.fault is None


@pytest.mark.parametrize(("sensor", "allowed"), [("joints", 0.1), ("imu", 0.1), ("camera", 2.0)])
@pytest.mark.parametrize("too_long", [0.01, np.inf, np.nan])
def test_a_sensor_silent_for_too_long_damps_the_robot(
    sensor: str, allowed: float, too_long: float
) -> None:
    supervisor = Supervisor(A1)
    fresh = {"joints": 0.0, "imu": 0.0, "camera": 0.0}
    assert supervisor.review(reading(), A1.default_pose_rad, {**fresh, sensor: allowed}).kp.any()
    command = supervisor.review(reading(), A1.default_pose_rad, {sensor: allowed + too_long})
    assert not command.kp.any()
    assert str(supervisor.fault).startswith(f"{sensor} is silent for")
    assert f"at most {allowed} s" in str(supervisor.fault)


def test_sensor_timeouts_apply_to_sensors_of_any_name() -> None:
    supervisor = Supervisor(A1, {"motors": SensorTimeouts(0.01, 0.015, 0.02)})
    assert supervisor.silent({"motors": 0.02}) == []
    assert supervisor.silent({"motors": 0.03}) == ["motors"]


def test_the_worst_sensor_health_counts() -> None:
    sensor_timeouts = SensorTimeouts(ageing_s=0.1, stale_s=0.2, dead_s=0.3)
    ages = (0.0, 0.1, 0.11, 0.2, 0.21, 0.3, 0.31, np.inf, np.nan)
    assert [int(sensor_timeouts.sensor_health(age)) for age in ages] == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    disordered = SensorTimeouts(0.1, 0.2, 0.05)
    assert disordered.sensor_health(0.06) is SensorHealth.DEAD  # the strictest decides
    supervisor = Supervisor(A1, {"lidar": sensor_timeouts, "motors": SENSOR_TIMEOUTS["joints"]})
    assert supervisor.sensor_health({}) is SensorHealth.FRESH
    assert supervisor.sensor_health({"lidar": 0.15, "motors": 0.0}) is SensorHealth.AGEING
    assert supervisor.sensor_health({"lidar": 0.15, "motors": 0.07}) is SensorHealth.STALE


@pytest.mark.parametrize("turn", [-1.0, 1.0])
@pytest.mark.parametrize("sensor", SENSOR_TIMEOUTS)
def test_an_ageing_sensor_holds_the_decision_and_a_stale_one_slows_to_a_stand(
    sensor: str, turn: float
) -> None:
    decided: list[int] = []
    requested: list[np.ndarray] = []  # before the heading hold

    def high_level(image: np.ndarray, *_: object) -> Decision:
        decided.append(int(image[0, 0, 0]))
        return Decision(np.array((1.0, turn)), 10)

    legs = Legs()
    controller = Controller(high_level, legs, Supervisor(A1))
    ageing_s, stale_s = SENSOR_TIMEOUTS[sensor].stale_s, SENSOR_TIMEOUTS[sensor].dead_s
    for step in range(150):
        age_s = ageing_s if 45 <= step < 60 else stale_s if 60 <= step < 100 else 0.0
        result = controller.step(reading(step), {sensor: age_s})
        assert result.latent is not None
        requested.append(result.latent)
    assert decided == [*range(0, 50, 10), *range(100, 150, 10)]  # no decision on old data
    speeds = np.array([commanded(latent)[0] for latent in legs.latents])
    assert (speeds[:60] == MAX_SPEED_M_PER_S).all()
    assert (np.diff(speeds[59:91]) <= 0.0).all()
    assert np.abs(np.diff(speeds[59:100])).max() < 0.05  # gradually
    assert (speeds[90:100] == 0.0).all()
    assert (speeds[100:] == MAX_SPEED_M_PER_S).all()
    turns = np.array([commanded(latent)[1] for latent in requested]) * turn  # its side positive
    assert (turns[:60] == MAX_YAW_RATE_RAD_PER_S).all()
    slowing = np.linspace(MAX_YAW_RATE_RAD_PER_S, 0.0, 31)  # linear, within 0.3 s
    np.testing.assert_allclose(turns[59:90], slowing, atol=1e-9)
    assert (turns >= 0.0).all()  # never to the other side
    assert (turns[90:100] == 0.0).all()
    assert (turns[100:] == MAX_YAW_RATE_RAD_PER_S).all()


def test_a_camera_that_is_never_fresh_stops_the_robot() -> None:
    """A camera that is always late, even if one image is older for once."""
    legs = Legs()
    controller = Controller(lambda *_: Decision(np.array((1.0, 0.0)), 10), legs, Supervisor(A1))
    late, later = SENSOR_TIMEOUTS[CAMERA].stale_s, SENSOR_TIMEOUTS[CAMERA].dead_s
    for step in range(200):
        age = 0.0 if step < 10 else later if step == 100 else late
        controller.step(reading(step), {CAMERA: age})
    speeds = np.array([commanded(latent)[0] for latent in legs.latents])
    assert (speeds[:30] == MAX_SPEED_M_PER_S).all()
    assert (speeds[61:] == 0.0).all()
    controller.step(reading(200), {CAMERA: 0.0})
    assert commanded(legs.latents[-1])[0] == MAX_SPEED_M_PER_S


def test_an_episode_that_begins_with_old_images_stands_until_there_are_new_ones() -> None:
    legs = Legs()
    controller = Controller(lambda *_: Decision(np.ones(2), 10), legs, Supervisor(A1))
    for step in range(20):
        controller.step(reading(step), {"camera": 0.4 if step < 10 else 0.1})
    assert all(commanded(latent) == (0.0, 0.0) for latent in legs.latents[:10])
    assert all(commanded(latent)[0] > 0.0 for latent in legs.latents[10:])


def test_stale_joints_slow_external_velocity_commands_as_well() -> None:
    legs = Legs()
    controller = Controller(lambda *_: Decision(np.ones(2), 10), legs, Supervisor(A1))
    for step in range(20):
        controller.follow(latent_for(0.6, 0.0), reading(step), {"joints": 0.01 * step})
    speeds = [commanded(latent)[0] for latent in legs.latents]
    assert speeds[6] == pytest.approx(0.6)
    assert speeds[10] < 0.55


def test_follow_moves_the_robot_without_the_high_level() -> None:
    def high_level(image: np.ndarray, *_: object) -> Decision:
        raise AssertionError("the high level must not run")

    legs = Legs()
    controller = Controller(high_level, legs, Supervisor(A1))
    requested = latent_for(speed=0.3, yaw_rate=-0.5)
    assert commanded(requested) == (pytest.approx(0.3), pytest.approx(-0.5))
    assert controller.follow(requested, reading()).command.kp.any()
    assert not controller.follow(requested, reading(), {"imu": 1.0}).command.kp.any()
    np.testing.assert_allclose(legs.latents[0], requested, atol=1e-3)  # it has not turned yet
    assert controller.phase[0] == 2.0


def seen_at(x: float, y: float, heading: float, step: int = 0) -> Reading:
    return replace(reading(step), odometry=np.array((x, y, heading)))


def recording_controller(goals: list[np.ndarray], states: list[object]) -> Controller:
    """A controller whose high level records goals and states, and counts in its state."""

    def high_level(image: np.ndarray, goal: np.ndarray, state: np.ndarray | None) -> Decision:
        goals.append(goal)
        states.append(None if state is None else float(state[0]))
        count = 0.0 if state is None else float(state[0])
        return Decision(np.array((1.0, 0.0)), 10, state=np.array((count + 1.0,)))

    return Controller(high_level, lambda *_: (A1.default_pose_rad, np.zeros(1)), Supervisor(A1))


def test_a_goal_is_distance_and_bearing_left_positive() -> None:
    goals: list[np.ndarray] = []
    controller = recording_controller(goals, [])
    controller.schedule(seen_at(0.0, 0.0, 0.0))
    assert goals[-1].tolist() == [np.inf, 0.0]  # straight ahead
    controller.go_to(np.array((1.0, 3.0)))
    controller.schedule(seen_at(1.0, 1.0, 0.0))
    np.testing.assert_allclose(goals[-1], (2.0, np.pi / 2))
    controller.go_to(np.array((-2.0, 1.0)))
    controller.schedule(seen_at(1.0, 1.0, -3.0))
    np.testing.assert_allclose(goals[-1], (3.0, 3.0 - np.pi))  # the smaller angle


def test_a_new_goal_resets_the_recurrent_state() -> None:
    states: list[object] = []
    controller = recording_controller([], states)
    controller.go_to(np.array((9.0, 0.0)))
    for step in range(30):
        controller.schedule(seen_at(0.0, 0.0, 0.0, step))
    assert states == [None, 1.0, 2.0]
    controller.go_to(np.array((0.0, 9.0)))
    controller.schedule(seen_at(0.0, 0.0, 0.0, 30))
    assert states[3:] == [None]
    frozen = seen_at(0.0, 0.0, 0.0, 30)
    for _ in range(30):  # no new image, so no update
        controller.schedule(frozen)
    assert len(states) == 4


@pytest.mark.parametrize(("every", "late"), [(50, 0), (50, 5), (30, 5), (3, 2)])
def test_the_recurrent_state_updates_once_per_processed_image(every: int, late: int) -> None:
    """With a camera of 2 Hz as well: between two images the decision holds."""
    seen: list[int] = []
    states: list[float] = []
    speeds: list[float] = []

    def high_level(image: np.ndarray, goal: np.ndarray, state: np.ndarray | None) -> Decision:
        seen.append(int(image[0, 0, 0]))
        states.append(0.0 if state is None else float(state[0]))
        return Decision(np.array((1.0, 0.0)), 20, state=np.array((states[-1] + 1.0,)))

    def low_level(latent, reading, phase):  # noqa: ANN001, ANN202
        speeds.append(commanded(latent)[0])
        return A1.default_pose_rad, phase

    controller = Controller(high_level, low_level, Supervisor(A1))
    for step in range(250):
        shot = max(0, (step - late) // every * every)  # the newest image
        state = replace(reading(step), image=reading(shot).image)
        controller.step(state, {CAMERA: 0.01 * (step - shot)})
    assert states == list(range(len(seen)))
    if every > 20:  # longer than a decision
        assert set(np.diff(seen)) == {every}  # each once
    else:
        assert len(seen) == 13  # of 83: images during a decision are not used
    assert min(speeds) > 0.8 * MAX_SPEED_M_PER_S


@pytest.mark.parametrize(("stale_s", "stands_after_s"), [(0.5, 0.6), (1.5, 1.6)])
def test_the_robot_walks_without_a_new_image_until_the_camera_timeout(
    stale_s: float, stands_after_s: float
) -> None:
    sensor_timeouts = {**SENSOR_TIMEOUTS, "camera": SensorTimeouts(0.3, stale_s, 2.0)}
    ahead = Decision(np.array((1.0, 0.0)), SHORTEST_STEPS)
    still = A1.default_pose_rad, np.zeros(1)
    controller = Controller(lambda *_: ahead, lambda *_: still, Supervisor(A1, sensor_timeouts))
    image = reading(0).image()
    rows = [replace(reading(step), image=lambda: image) for step in range(200)]
    walked = [controller.schedule(row).latent.tolist() != STAND.tolist() for row in rows]
    assert 0.01 * walked.index(False) == pytest.approx(stands_after_s, abs=0.1)
    assert not any(walked[walked.index(False) :])


def test_the_robot_stands_at_its_goal_and_without_odometry() -> None:
    goals: list[np.ndarray] = []
    controller = recording_controller(goals, [])
    controller.go_to(np.array((2.0, 0.0)))
    stand = latent_for(0.0, 0.0).tolist()
    assert controller.schedule(seen_at(0.0, 0.0, 0.0, 0)).latent.tolist() != stand
    assert controller.schedule(reading(1)).latent.tolist() == stand  # its position is unknown
    assert controller.schedule(seen_at(np.nan, 0.0, 0.0, 2)).latent.tolist() == stand
    assert controller.schedule(seen_at(0.5, 0.0, 0.0, 3)).latent.tolist() != stand
    assert len(goals) == 2  # a new decision before it walks on
    assert controller.schedule(seen_at(1.8, 0.0, 0.0, 4)).latent.tolist() == stand
    assert controller.arrived
    assert controller.schedule(seen_at(1.0, 0.0, 0.0, 5)).latent.tolist() == stand  # pushed away
    controller.go_to(np.array((5.0, 0.0)))
    assert not controller.arrived
    assert controller.schedule(seen_at(1.0, 0.0, 0.0, 6)).latent.tolist() != stand


@pytest.mark.parametrize("bad", [1.0, -1.0, 30.0])
@pytest.mark.parametrize("policy", ["walk", "walk-go2", "walk-mini-cheetah"])
def test_an_untrusted_reading_moves_no_leg(policy: str, bad: float) -> None:
    """The other joints do not move either, though their targets depend on all readings."""
    bundle = load_bundle(policy)

    def walk(bad: float) -> np.ndarray:
        controller, q, targets = bundle.controller(), bundle.spec.default_pose_rad.copy(), []
        for step in range(240):
            seen = q + 1e-4 * np.sin(step + np.arange(12))
            seen[1] += bad * (200 <= step < 204)
            rate = 1e-3 * np.sin((step, 0.0, 0.0))  # an IMU that is not frozen
            shown = replace(reading(step), joint_angles=seen, angular_velocity=rate)
            command = controller.follow(latent_for(0.3, 0.0), shown).command
            assert controller.supervisor.fault is None
            q = q + np.clip(command.targets - q, -0.06, 0.06)
            targets.append(command.targets)
        return np.abs(np.diff(targets, axis=0))[150:].max(axis=1)

    assert np.max(walk(bad)) < np.max(walk(0.0)) + 0.02


def test_ahead_is_taken_from_a_trusted_orientation() -> None:
    bearings: list[float] = []

    def high_level(image: np.ndarray, goal: np.ndarray, state: object) -> Decision:
        bearings.append(float(goal[1]))
        return Decision(np.array((0.0, 0.0)), 10)

    low_level = LinearLowLevel.from_weights(A1, trotting_weights())
    controller = Controller(high_level, low_level, Supervisor(A1))
    for step in range(60):
        orientation = np.zeros(4) if step == 1 else np.array(upright(2.0))
        controller.step(replace(reading(step), orientation=orientation))
        if step == 0:
            controller.begin()  # an episode begins, the robot stands already
    assert np.abs(bearings).max() < 1e-9


def test_a_way_that_is_not_free_ends_the_speed_and_leaves_the_turn() -> None:
    controller = Controller(lambda *_: Decision(STAND, 10), Legs(), Supervisor(A1))
    wanted = latent_for(0.6, 0.5)
    assert controller.follow(wanted, reading(0)).latent is wanted
    controller.free_m = 0.1
    speeds = []
    for step in range(1, 40):
        latent = controller.follow(wanted, reading(step)).latent
        assert latent is not None
        speed, yaw_rate = commanded(latent)
        speeds.append(speed)
        assert yaw_rate == pytest.approx(0.5)
        assert commanded(controller.wanted) == pytest.approx((0.6, 0.5))
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[10] > 0.2
    assert speeds[31] == pytest.approx(0.0, abs=1e-9)
    controller.free_m = np.inf
    assert controller.follow(wanted, reading(40)).latent is wanted
