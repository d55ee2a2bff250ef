"""Fault injection: the supervisor's reaction to sensor faults, in both simulators."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.training.config import FollowConfig, ImitateConfig
from pixelgait.policies.training.loop import train
from pixelgait.robot.control.controller import STAND, Controller, ControlResult, Decision
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.safety.supervisor import NO_AGES, Supervisor
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.faults import (
    FAULT_KINDS,
    FailingSensor,
    Fault,
    FaultyBody,
    parse_faults,
    schedule,
    schedule_on,
)
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.body.randomisation import (
    BUS_DELAY_S,
    Randomisation,
    require_camera,
    with_measured_delays,
)
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.navigate import Forward
from tests.conftest import Command, trotting_weights

COLOUR = "camera/color/image_raw"
both = pytest.mark.parametrize("name", BODIES)


class Recorder(Controller):
    """A controller that records its readings and commands."""

    def __init__(self) -> None:
        low_level = LinearLowLevel.from_weights(A1, trotting_weights())
        super().__init__(lambda *_: Decision(np.zeros(2), 10), low_level, Supervisor(A1))
        self.rows: list[tuple[Reading, JointCommand, str | None]] = []
        self.latents: list[np.ndarray] = []

    def step(self, reading: Reading, ages: Mapping[str, float] = NO_AGES) -> ControlResult:
        result = super().step(reading, ages)
        self.rows.append((reading, result.command, self.supervisor.fault))
        assert result.decision is not None
        assert result.latent is not None
        self.latents.append(result.latent)
        return result

    def first_fault(self) -> tuple[float, str] | None:
        """Time [s] and name of the fault that damped the robot."""
        for i, (_, _, fault) in enumerate(self.rows):
            if fault is not None:
                return 0.01 * i, fault
        return None


def episode(name: str, *faults: str, steps: int = 150, seed: int = 0) -> tuple[Recorder, Episode]:
    body = make_body(name, A1, FlatGround(), faults=parse_faults(faults))
    controller = Recorder()
    result = run_episode(controller, body, Forward(steps), seed)
    body.close()
    return controller, result


@both
@pytest.mark.parametrize("sensor", ["joints", "imu"])
def test_nan_damps_the_robot_at_once_and_never_reaches_the_motors(name: str, sensor: str) -> None:
    controller, result = episode(name, f"{sensor}-nan:at=0.5,for=0.02")
    assert controller.first_fault() == (0.5, "a sensor value is not finite")
    for reading, command, fault in controller.rows:
        numbers = (command.targets, command.kp, command.kd, command.feed_forward)
        assert all(np.isfinite(values).all() for values in numbers)
        damped = not command.kp.any() and (command.kd == A1.damping_nms_per_rad).all()
        assert damped == (fault is not None)  # and it stays so, though the sensor has recovered
        del reading
    assert result.fell
    assert np.isfinite(result.observations).all()


@both
@pytest.mark.parametrize("sensor", ["joints", "imu"])
def test_silent_sensor_damps_the_robot_in_time(name: str, sensor: str) -> None:
    short, _ = episode(name, f"{sensor}-lost:at=0.5,for=0.08")
    assert short.first_fault() is None
    controller, _ = episode(name, f"{sensor}-lost:at=0.5,for=9")
    found = controller.first_fault()
    assert found is not None
    assert found[1].startswith(f"{sensor} is silent for 0.1")
    assert 0.6 <= found[0] <= 0.63


@both
def test_lost_camera_makes_the_robot_hold_then_stand_then_damp(name: str) -> None:
    controller, _ = episode(name, "camera-lost:at=0.5,for=9", steps=300)
    found = controller.first_fault()
    assert found is not None
    assert 2.5 < found[0] <= 2.53
    assert "camera" in found[1]
    held = [reading.image() for reading, *_ in controller.rows[50:250]]
    assert all(image.time_s == pytest.approx(0.5) for image in held)
    assert all(image.pixels is held[0].pixels for image in held)
    stands = np.flatnonzero([(latent == STAND).all() for latent in controller.latents])
    assert 95 <= stands[0] <= 140  # half a second later it slows down
    back, _ = episode(name, "camera-lost:at=0.5,for=1.5", steps=300)
    assert back.first_fault() is None
    assert (back.latents[-1] == 0.0).all()  # it walks on


@pytest.mark.parametrize(
    ("sensor", "kind"),
    [(sensor, kind) for sensor in ("joints", "imu") for kind in FAULT_KINDS[sensor]],
)
def test_sensor_that_fails_from_the_start_is_read_once(sensor: str, kind: str) -> None:
    body = make_body("pybullet", A1, FlatGround(), faults=parse_faults((f"{sensor}-{kind}:at=0",)))
    first = body.reset(0)
    body.apply(Supervisor(A1).damp(0.0))
    second = body.read()  # of a robot that sinks
    value = {"joints": "joint_angles", "imu": "orientation"}[sensor]
    same = np.array_equal(getattr(first, value), getattr(second, value))
    if kind != "spike":  # which comes now and then
        assert same == (kind in ("frozen", "lost", "late"))
    body.close()


def test_late_orientation_is_a_unit_quaternion_at_any_heading() -> None:
    """A simulator may switch between a quaternion and its negative, an equal orientation."""
    (fault,) = parse_faults(("imu-late:at=0,for=9,by=0.025",))
    sensor = FailingSensor(fault, np.random.default_rng(0))
    body = make_body("pybullet", A1, FlatGround())
    standing_reading = body.reset(0)
    body.close()
    for step in range(100):
        half = np.radians(170.0 + 0.2 * step) / 2.0
        orientation = np.array((0.0, 0.0, np.sin(half), np.cos(half))) * (1 - 2 * (step > 50))
        reading = replace(standing_reading, time_s=0.01 * step, orientation=orientation)
        shown = sensor.degrade(reading, reading.time_s).orientation
        late = np.radians(170.0 + 0.2 * max(0.0, step - 2.5))
        assert abs(shown @ (0.0, 0.0, np.sin(late / 2), np.cos(late / 2))) == pytest.approx(1.0)


@both
def test_every_fault_degrades_its_sensor(name: str) -> None:
    def readings(fault: str) -> list[Reading]:
        body = make_body(name, A1, ObstacleCourse(0.5), faults=parse_faults((fault,)))
        rows = [body.reset(0)]
        body.push(np.array((0.5, 0.0, 0.0)))
        controller = Recorder()
        for _ in range(30):
            body.apply(controller.step(rows[-1]).command)
            row = body.read()
            rows.append(replace(row, image=partial(Image, *astuple(row.image()))))
        body.close()
        return rows

    angles: Callable[[Reading], np.ndarray] = lambda reading: reading.joint_angles  # noqa: E731
    true = readings("camera-black:at=99")
    frozen = readings("joints-frozen:at=0.2,for=0.05")
    for i in range(20, 25):  # what came last, stamped as new
        np.testing.assert_array_equal(angles(frozen[i]), angles(frozen[19]))
        assert frozen[i].time_s == pytest.approx(0.01 * i)
    assert not np.array_equal(angles(frozen[25]), angles(frozen[24]))
    late = readings("imu-late:at=0.2,by=0.03")
    np.testing.assert_allclose(late[20].orientation, true[17].orientation, atol=1e-9)
    np.testing.assert_array_equal(late[19].orientation, true[19].orientation)
    spiky = readings("imu-spike:at=0.1,for=0.2")
    off = [np.abs(a.orientation - b.orientation).max() for a, b in zip(spiky, true, strict=True)]
    assert max(off[:10]) == 0.0
    assert max(off[10:]) > 0.1
    black = readings("camera-black:at=0.1,for=0.05")
    assert [bool(row.image().pixels.any()) for row in black[9:16]] == [True] + 5 * [False] + [True]
    mirrored = readings("camera-mirrored:at=0.1,for=0.05")
    for i in range(9, 16):
        straight = true[i].image().pixels
        seen = straight[:, ::-1] if 10 <= i < 15 else straight
        np.testing.assert_array_equal(mirrored[i].image().pixels, seen)
    assert not np.array_equal(true[10].image().pixels, mirrored[10].image().pixels)
    stuck = readings("camera-frozen:at=0.1")
    assert stuck[20].image().time_s == pytest.approx(0.2)
    np.testing.assert_array_equal(stuck[20].image().pixels, stuck[10].image().pixels)
    lagging = readings("camera-late:at=0.05,by=0.1")
    assert lagging[30].image().time_s == pytest.approx(0.2)


def test_mixed_schedule_depends_on_the_seed_and_contains_every_kind() -> None:
    mixed = parse_faults(("mixed",))
    assert schedule(mixed, 3) == schedule(mixed, 3) != schedule(mixed, 4)
    kinds = {(f.sensor, f.kind) for seed in range(5) for f in schedule(mixed, seed)}
    assert len(kinds) == 12  # all but NaN, after which a robot must be damped
    for fault in schedule(mixed, 3):
        assert fault.for_s < {"joints": 0.1, "imu": 0.1, "camera": 2.0}[fault.sensor]


def test_the_mixed_schedule_never_ends() -> None:
    class Standing:
        """A body that only grows older."""

        spec, scene, camera, time_s = A1, FlatGround(), Camera(A1.camera, 2, 2), 0.0

        def reset(self, seed: int) -> Reading:
            self.time_s = 0.0
            return self.read()

        def read(self) -> Reading:
            image = Image(np.full((2, 2, 3), 255, np.uint8), self.time_s)
            one = np.full(12, self.time_s)
            return Reading(self.time_s, one, one, one[:4], one[:3], lambda: image)

    clock = Standing()
    body = FaultyBody(clock, parse_faults(("mixed",)))  # type: ignore[arg-type]
    for _ in range(2):
        body.reset(3)
        wrong = set()  # minutes of an hour
        for i in range(1, 36_000):
            clock.time_s = 0.1 * i
            reading, true = body.read(), clock.read()
            read, real = ((each.orientation[0], each.image().time_s) for each in (reading, true))
            if read != real or body.ages():
                wrong.add(clock.time_s // 60.0)
        assert len(wrong) > 55
    kinds = parse_faults(("mixed",))
    later = list(islice(schedule_on(kinds, 3), 30))
    assert later == list(islice(schedule_on(kinds, 3), 30))
    assert later != list(islice(schedule_on(kinds, 4), 30))
    for one, other in pairwise((schedule(kinds, 3)[-1], *later)):
        assert one.end_s <= other.start_s < one.start_s + 8.0
    assert not list(schedule_on(parse_faults(("imu-lost",)), 3))


def test_overlapping_losses_count_from_the_first() -> None:
    lost = ("camera-lost:at=0.1,for=1", "camera-lost:at=0.5,for=0.2", "camera-lost:at=1,for=1")
    body = make_body("pybullet", A1, FlatGround(), faults=parse_faults((*lost, "imu-lost:at=0.6")))
    body.reset(0)
    for _ in range(150):
        body.apply(standing(A1))
        camera = body.time_s - 0.1 if body.time_s > 0.105 else None
        imu = body.time_s - 0.6 if body.time_s > 0.605 else None
        for sensor, age in (("camera", camera), ("imu", imu)):
            if age is not None:
                assert body.ages()[sensor] == pytest.approx(age)
    body.close()


@pytest.mark.parametrize("rate_hz", [100, 500])
@pytest.mark.parametrize("by_s", [0.1, 0.3, 2.0])
def test_late_values_have_the_given_age(rate_hz: int, by_s: float) -> None:
    fault = Fault("joints", "late", 0.0, 100.0, by_s)
    sensor = FailingSensor(fault, np.random.default_rng(0))
    for i in range(8 * rate_hz):
        now = i / rate_hz
        clock = np.full(12, now)
        reading = Reading(now, clock, clock, clock[:4], clock[:3], lambda: None)  # type: ignore
        seen = sensor.degrade(reading, now).joint_angles[0]
        assert seen == pytest.approx(max(0.0, now - by_s))


@both
def test_the_controller_survives_the_mixed_schedule(name: str) -> None:
    controller, result = episode(name, "mixed", steps=1000)
    assert controller.first_fault() is None
    assert not result.fell


@pytest.mark.parametrize(
    "text",
    ["camera", "camera-nan", "lidar-lost", "imu-lost:when=2", "imu-lost:at=x", "imu-lost:at=-1"],
)
def test_malformed_fault_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"--faults: '.*'") as error:
        parse_faults((text,))
    assert "\n" not in str(error.value)


def test_environments_accept_faults() -> None:
    env = gymnasium.make("pixelgait.sim.envs:PixelGait/Walk-v0", faults=("camera-black:at=0",))
    observation, _ = env.reset(seed=0)
    assert not observation["image"].any()
    env.close()


def report_of(times_us: list[float], ages_us: list[float]) -> dict:
    profiler = LatencyProfiler(0.01, ("camera/color/image_raw",))
    for time_us in times_us:
        profiler.stages["sensor_to_command"].record(round(1e3 * time_us))
    for age_us in ages_us:
        profiler.sensor_age["camera/color/image_raw"].record(round(1e3 * age_us))
    return profiler.report({"name": "iap", "sha256": ""})


def test_delays_are_read_from_a_latency_report(tmp_path: Path) -> None:
    path = tmp_path / "latency.json"
    latency_us, frame_us = 50_000.0, 1e6 / 30
    ages = [latency_us + share * frame_us for share in np.linspace(0.0, 1.0, 1001)]
    path.write_text(json.dumps(report_of([1000.0] * 90 + [5000.0] * 10, ages)))
    measured = with_measured_delays(Randomisation(), path)
    assert measured.delay_s == pytest.approx((0.001, 0.005 + BUS_DELAY_S[1]), rel=0.02)
    assert measured.camera_latency_s == pytest.approx((0.05, 0.05), rel=0.02)
    assert measured.mass == Randomisation().mass
    path.write_text(json.dumps(report_of([], [])))
    with pytest.raises(UserError, match="sensor_to_command was not measured"):
        with_measured_delays(Randomisation(), path)


@pytest.mark.parametrize("ages", [{COLOUR: {}}, {COLOUR: 5}, [COLOUR], 3])
def test_latency_report_with_a_damaged_camera_row_is_refused(tmp_path: Path, ages: object) -> None:
    path = tmp_path / "latency.json"
    report = report_of([1000.0] * 100, []) | {"sensor_age_us": ages}
    path.write_text(json.dumps(report), encoding="utf-8")
    line = rf"latency\.json: not a latency report, no percentiles of {COLOUR}"
    with pytest.raises(UserError, match=line):
        with_measured_delays(Randomisation(), path)


def test_eval_combines_randomisation_delays_and_faults(command: Command) -> None:
    options = ("--episodes", 1, "--seconds", 2, "--workers", 1, "--randomise", "--faults", "mixed")
    where = ("--scene", "rough", "--body", "mujoco", "--robot", "a1", "--difficulty", 0.2)
    done = command("pixelgait-eval", "iap", *where, *options)
    assert done.returncode == 0, done.stderr
    assert "seeds 10000 to 10000" in done.stdout


def test_eval_refuses_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    plain = EvalConfig("iap", episodes=1)
    for config, message in (
        (replace(plain, faults=("camera-nan",)), "--faults: 'camera-nan' is not a fault"),
        (replace(plain, delays_from=other), "--delays-from has no effect without --randomise"),
        (replace(plain, delays_from=other, randomise=True), "other.json: not a latency report"),
        (replace(plain, robot="go2"), "made for robot 'a1', not for 'go2'"),
    ):
        with pytest.raises(UserError, match=message) as error:
            evaluate(config)
        assert "\n" not in str(error.value)


def test_a_run_records_the_delays_and_faults_it_was_trained_with(tmp_path: Path) -> None:
    path = tmp_path / "latency.json"
    path.write_text(json.dumps(report_of([2000.0] * 10, [])))
    faults = ("mixed", "imu-late:at=0,by=0.02")
    config = FollowConfig(out=tmp_path, randomise=True, delays_from=path, faults=faults)
    recorded = json.loads(json_bytes({**config.identity(), **config.plan().identity()}))
    assert recorded["randomisation"]["delay_s"] == pytest.approx([0.002, 0.006], rel=0.02)
    assert recorded["faults"] == ["mixed", "imu-late:at=0,by=0.02"]


def test_gliding_robots_need_a_report_with_a_camera(tmp_path: Path) -> None:
    path = tmp_path / "latency.json"
    path.write_text(json.dumps(report_of([2000.0] * 10, [])))
    config = ImitateConfig(out=tmp_path / "run", randomise=True, delays_from=path)
    with pytest.raises(UserError, match=r"latency\.json: no camera was measured in it"):
        train(config)
    assert not config.out.exists()
    path.write_text(json.dumps(report_of([2000.0] * 10, [5000.0] * 10)))
    require_camera(path)


@both
def test_wrong_imu_does_not_end_an_episode_of_a_standing_robot(name: str) -> None:
    """Falls are judged by the true pose, and single spikes are filtered."""
    controller, result = episode(name, "imu-spike:at=0.5,for=9", steps=300)
    assert controller.first_fault() is None
    assert controller.supervisor.bridged > 20  # one reading in five
    assert result.steps == 300
    assert not result.fell


def test_tracking_is_judged_after_settling_also_with_late_commands() -> None:
    """A command waits for an image, so all later ones are as late."""
    plain = EvalConfig("walk", task="follow", scene="flat", seconds=10.0, episodes=2, seed=9000)
    late = replace(plain, faults=("camera-lost:at=0.5,for=0.7",))
    errors = [evaluate(replace(each, workers=1))["speed_error"] for each in (plain, late)]
    assert errors[1] < 1.25 * errors[0]
