"""Left-right symmetry through the whole controller and in simulation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.policies.mirror import mirrored_poses, tie
from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.scene import Layout

POSES = joint_map(A1) @ mirrored_poses() @ np.linalg.inv(joint_map(A1))


def mirrored_angles(angles: np.ndarray) -> np.ndarray:
    return A1.default_pose_rad + POSES @ (angles - A1.default_pose_rad)


def mirrored(reading: Reading) -> Reading:
    x, y, z, w = reading.orientation
    rx, ry, rz = reading.angular_velocity
    return Reading(
        reading.time_s,
        mirrored_angles(reading.joint_angles),
        POSES @ reading.joint_velocities,
        np.array((-x, y, -z, w)),
        np.array((-rx, ry, -rz)),
        reading.image,
    )


def random_reading(rng: np.random.Generator, time_s: float) -> Reading:
    orientation = np.array((*(0.1 * rng.standard_normal(3)), 1.0))
    return Reading(
        time_s,
        A1.default_pose_rad + 0.2 * rng.standard_normal(12),
        rng.standard_normal(12),
        orientation / np.linalg.norm(orientation),
        rng.standard_normal(3),
        lambda: Image(np.zeros((1, 1, 3), np.uint8), time_s),
    )


def controller_of(low_level: LinearLowLevel, latent: tuple[float, float]) -> Controller:
    """It decides on one latent command, once and for all."""
    decision = Decision(np.array(latent), 10_000)
    return Controller(lambda *_: decision, low_level, Supervisor(A1))


def random_low_level() -> LinearLowLevel:
    return LinearLowLevel.from_weights(
        A1, 0.2 * np.random.default_rng(0).standard_normal(LOW_LEVEL_WEIGHTS)
    )


def test_the_left_front_leg_mirrors_the_right_one() -> None:
    angles = A1.default_pose_rad.copy()
    angles[:3] += (0.1, 0.2, 0.3)  # FR: abduction, upper, lower
    other = mirrored_angles(angles) - A1.default_pose_rad
    np.testing.assert_allclose(other[3:6], (-0.1, 0.2, 0.3), atol=1e-12)
    np.testing.assert_allclose(np.delete(other, (3, 4, 5)), 0.0, atol=1e-12)


def test_a_tied_low_level_commands_the_mirror_image() -> None:
    rng = np.random.default_rng(1)
    tied = tie(random_low_level())
    left, right = controller_of(tied, (0.3, 0.7)), controller_of(tied, (0.3, -0.7))
    right.carried = np.array([np.pi])  # half a period apart
    for step in range(200):
        reading = random_reading(rng, 0.01 * step)
        for controller in (left, right):
            controller.supervisor.reset()  # which would call random readings jumps
        one, other = left.step(reading).command, right.step(mirrored(reading)).command
        assert one.kp.any()
        np.testing.assert_allclose(mirrored_angles(one.targets), other.targets, atol=1e-9)


def test_an_untied_low_level_is_asymmetric_and_tying_is_idempotent() -> None:
    free = random_low_level()
    left, right = controller_of(free, (0.3, 0.7)), controller_of(free, (0.3, -0.7))
    right.carried = np.array([np.pi])
    reading = random_reading(np.random.default_rng(1), 0.0)
    one, other = left.step(reading).command, right.step(mirrored(reading)).command
    difference = mirrored_angles(one.targets) - other.targets
    assert np.abs(difference).max() > 0.05
    tied = tie(free)
    np.testing.assert_allclose(tie(tied).matrix, tied.matrix, atol=1e-12)
    np.testing.assert_allclose(tie(tied).bias, tied.bias, atol=1e-12)


def test_a_tied_robot_turns_left_as_it_turns_right() -> None:
    tied = tie(LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS)))
    tied.matrix[12 + 2, 1] = 0.4  # yaw command to turn
    body = PyBulletBody(A1, FlatGround())
    poses = []
    for latent, phase in ((1.0, 0.0), (-1.0, np.pi)):
        controller = controller_of(tied, (0.0, latent))
        controller.carried = np.array([phase])
        reading = body.reset(0)
        for _ in range(200):
            body.apply(controller.step(reading).command)
            reading = body.read()
        poses.append(planar_pose(body))
    body.close()
    (x, y, yaw), other = poses
    assert yaw > 0.5
    np.testing.assert_allclose(other, (x, -y, -yaw), atol=0.05)


@pytest.mark.parametrize(
    ("encoder", "tolerance"),
    [
        ("iap", 0.0),
        ("iap:selected=16,values=8,sparse=true,stem=32", 0.0),
        ("cnn", 0.0),
        ("strided", 0.0),
        ("siet:graph=flip", 1e-6),
        ("ge-vit", 1e-6),
        ("gsa-net", 0.0),
        ("latformer", 0.0),
        ("attention-neuron", 0.0),
        ("attention-neuron:selected=10", 0.0),
        ("attention-agent", 0.0),
        ("sit", 0.0),
        ("sit-star", 0.0),
        ("siet", 0.0),
        ("set", 0.0),
        ("vit", 0.0),
    ],
)
def test_a_mirrored_image_negates_only_the_steering(encoder: str, tolerance: float) -> None:
    symmetric, free = HighLevelNetwork(encoder, mirror=True), HighLevelNetwork(encoder)
    rng = np.random.default_rng(0)
    asymmetry = 0.0
    for _ in range(20):
        image = rng.integers(0, 256, symmetric.image_shape, dtype=np.uint8)
        image[rng.integers(4, 28) :, :] = rng.integers(0, 256, 3)  # flat, with ties
        flipped = np.ascontiguousarray(image[:, ::-1])
        one, other = symmetric.decide(image), symmetric.decide(flipped)
        np.testing.assert_allclose(one.latent * (1.0, -1.0), other.latent, rtol=0, atol=tolerance)
        assert one.duration_steps == other.duration_steps
        assert one.attention is not None
        assert other.attention is not None
        np.testing.assert_allclose(one.attention[:, ::-1], other.attention, rtol=0, atol=1e-5)
        asymmetry += abs(free.decide(image).latent[1] + free.decide(flipped).latent[1])
    assert asymmetry > 0.1
    count = sum(p.numel() for p in symmetric.parameters())
    assert count == sum(p.numel() for p in free.parameters())


def test_a_bias_common_to_both_views_does_not_reduce_a_turn() -> None:
    """Imitation fits the mean over both; each of the two may be far beyond the limits."""
    torch.manual_seed(0)
    network = HighLevelNetwork("strided", mirror=True).eval()
    image = torch.randint(0, 256, (1, 32, 32, 3), dtype=torch.uint8)
    asked = torch.tensor([[torch.inf, 0.0]]), torch.zeros(1, 0)
    turn = float(network(image, *asked)[0][0, 1])
    assert 0.0 < abs(turn) < 0.5
    with torch.no_grad():
        network.output.bias[2] += 3.0
    assert float(network(image, *asked)[0][0, 1]) == pytest.approx(turn, abs=1e-5)


@pytest.mark.parametrize("encoder", ["iap", "cnn", "siet:graph=flip"])
def test_the_whole_controller_commands_the_mirror_image(encoder: str) -> None:
    high_level, low_level = HighLevelNetwork(encoder, mirror=True), tie(random_low_level())
    with torch.no_grad():
        high_level.output.bias[0] = -1.0  # short holds: it looks often
        high_level.output.weight[0] *= 0.0
    left, right = (Controller(high_level.decide, low_level, Supervisor(A1)) for _ in range(2))
    right.carried = np.array([np.pi])
    rng = np.random.default_rng(2)
    steered, images = [], 0
    for step in range(100):
        reading = random_reading(rng, 0.01 * step)
        other = mirrored(reading)
        pixels = np.kron(rng.integers(0, 256, (4, 4, 3)), np.ones((8, 8, 1))).astype(np.uint8)
        for controller in (left, right):
            controller.supervisor.reset()  # which would call random readings jumps
        one = left.step(replace(reading, image=partial(Image, pixels, reading.time_s)))
        flipped = np.ascontiguousarray(pixels[:, ::-1])
        two = right.step(replace(other, image=partial(Image, flipped, reading.time_s)))
        np.testing.assert_allclose(
            mirrored_angles(one.command.targets), two.command.targets, atol=1e-6
        )
        assert one.decision is not None
        steered.append(one.decision.latent[1])
        assert (one.image is None) == (two.image is None)
        images += one.image is not None
    assert images == 10
    assert np.ptp(steered) > 1e-5  # an untrained one steers little, but it does


class MirroredCourse(ObstacleCourse):
    """A course with left and right exchanged."""

    def layout(self, rng: np.random.Generator) -> Layout:
        plain = super().layout(rng)
        start = replace(plain.start, y=-plain.start.y, yaw=-plain.start.yaw)
        return Layout(start, [replace(pose, y=-pose.y) for pose in plain.movable])


def steering_network(image: np.ndarray) -> HighLevelNetwork:
    """An untrained network whose steering moves with what it sees, from a third of its range on."""
    torch.manual_seed(0)
    high_level = HighLevelNetwork("cnn", mirror=True)
    batch = torch.from_numpy(np.stack([image, image[:, ::-1]]))
    with torch.no_grad():
        one, other = high_level.head(high_level.encoder(batch)[0])[:, 2]
        high_level.output.weight[2] *= 0.6 / (one - other).abs()
        high_level.output.bias[0] = -1.0  # short holds
    return high_level


def test_on_a_mirrored_course_the_robot_walks_the_mirrored_path() -> None:
    low_level = tie(LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS)))
    low_level.bias[12 + 1], low_level.matrix[12 + 2, 1] = 0.5, 0.4  # strides, turns when told
    paths, images = [], []
    for course, phase in ((ObstacleCourse(0.5), 0.0), (MirroredCourse(0.5), np.pi)):
        body = PyBulletBody(A1, course)
        reading = body.reset(9000)
        images.append(reading.image().pixels)
        controller = Controller(steering_network(images[0]).decide, low_level, Supervisor(A1))
        controller.carried = np.array([phase])
        path = []
        for _ in range(160):
            body.apply(controller.step(reading).command)
            reading = body.read()
            path.append(planar_pose(body))
        paths.append(np.array(path))
        body.close()
    differing = (images[0] != images[1][:, ::-1]).any(-1).mean()
    assert differing == 0.0  # of the pixels
    walked, turned = np.ptp(paths[0][:, 0]), np.ptp(paths[0][:, 2])
    assert walked > 0.4
    assert turned > 0.4
    # Policy and low level are exact, contacts and the renderer's edges are not.
    mirrored_path = paths[0] * (1.0, -1.0, -1.0)
    np.testing.assert_allclose(mirrored_path[:, :2], paths[1][:, :2], atol=0.1 * walked)
    np.testing.assert_allclose(mirrored_path[:, 2], paths[1][:, 2], atol=0.4 * turned)
