"""Rotations: quaternions against the rotation matrices of their Euler angles."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.rotation import (
    heading,
    roll_pitch,
    tilted,
    to_base_frame,
    turned,
    up_z,
    upright,
    wrap_angle,
)

ANGLES = [(0.0, 0.0, 0.0), (0.3, -0.2, 2.5), (-1.0, 0.7, -3.0), (2.8, 1.2, 0.4)]


def about(axis: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Rotation about an axis of the frame: matrix (3, 3) and quaternion xyzw."""
    first, second = ((1, 2), (2, 0), (0, 1))[axis]
    matrix, quaternion = np.eye(3), np.array((0.0, 0.0, 0.0, np.cos(angle / 2.0)))
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[second, first], matrix[first, second] = np.sin(angle), -np.sin(angle)
    quaternion[axis] = np.sin(angle / 2.0)
    return matrix, quaternion


def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Product of two quaternions xyzw."""
    a, b = one[:3], other[:3]
    vector = one[3] * b + other[3] * a + np.cross(a, b)
    return np.array((*vector, one[3] * other[3] - a @ b))


def rotation(roll: float, pitch: float, yaw: float) -> tuple[np.ndarray, np.ndarray]:
    (x, qx), (y, qy), (z, qz) = about(0, roll), about(1, pitch), about(2, yaw)
    return z @ y @ x, product(qz, product(qy, qx))


@pytest.mark.parametrize(("roll", "pitch", "yaw"), ANGLES)
def test_angles_and_axes_are_those_of_the_matrix(roll: float, pitch: float, yaw: float) -> None:
    matrix, orientation = rotation(roll, pitch, yaw)
    assert roll_pitch(orientation.tolist()) == pytest.approx((roll, pitch))
    assert heading(orientation.tolist()) == pytest.approx(yaw)
    assert up_z(orientation.tolist()) == pytest.approx(matrix[2, 2])
    vector = (0.3, -1.0, 2.0)
    assert to_base_frame(vector, orientation.tolist()) == pytest.approx(matrix.T @ vector)


@pytest.mark.parametrize("yaw", [-3.0, 0.0, 1.0])
def test_upright_is_level(yaw: float) -> None:
    assert (*roll_pitch(upright(yaw)), heading(upright(yaw))) == pytest.approx((0.0, 0.0, yaw))


@pytest.mark.parametrize(("roll", "pitch", "yaw"), ANGLES)
def test_a_small_tilt_turns_about_the_bases_own_axes(roll: float, pitch: float, yaw: float) -> None:
    _, orientation = rotation(roll, pitch, yaw)
    tipped = tilted(orientation, np.array((0.01, -0.02)))
    expected = product(orientation, product(about(0, 0.01)[1], about(1, -0.02)[1]))
    np.testing.assert_allclose(tipped, expected, atol=1e-4)
    assert np.linalg.norm(tipped) == pytest.approx(1.0)


@pytest.mark.parametrize(("roll", "pitch", "yaw"), ANGLES)
def test_a_turn_is_about_the_worlds_axis(roll: float, pitch: float, yaw: float) -> None:
    _, orientation = rotation(roll, pitch, yaw)
    _, expected = rotation(roll, pitch, yaw + 0.7)
    np.testing.assert_allclose(turned(orientation, 0.7), expected, atol=1e-12)


def test_angles_are_wrapped_into_half_a_turn() -> None:
    for angle in np.linspace(-20.0, 20.0, 101).tolist():
        wrapped = wrap_angle(angle)
        assert -np.pi <= wrapped <= np.pi
        assert np.exp(1j * wrapped) == pytest.approx(np.exp(1j * angle))
