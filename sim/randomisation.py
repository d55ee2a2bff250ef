"""Domain randomisation: robots that differ in body, motors and senses, drawn from a seed.

Body and motor ranges follow Tan et al. 2018 (arXiv 1804.10332, Table 1); encoder and rate noise
follow the published defaults of legged_gym (Rudin et al. 2021, arXiv 2109.11978).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from pixelgait.robot.reading import Reading
from pixelgait.robot.spec import Array

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one episode's robot is like."""

    mass: float = 1.0
    inertia: float = 1.0
    strength: float = 1.0
    friction: float = 0.5  # what PyBullet gives a URDF that says nothing of contact
    delay_s: float = 0.0
    imu_bias_rad: float = 0.0
    imu_noise_rad: float = 0.0
    rate_noise_rad_per_s: float = 0.0
    encoder_noise_rad: float = 0.0


@dataclass(frozen=True, slots=True)
class Randomisation:
    """Ranges that every episode draws uniformly from."""

    mass: Range = (0.8, 1.2)
    """Factor on the mass of all links."""
    inertia: Range = (0.5, 1.5)
    """Factor on the inertia of all links, beside that of the mass."""
    strength: Range = (0.8, 1.2)
    """Factor on motor torques and their limits."""
    friction: Range = (0.5, 1.25)
    """Coulomb coefficient between feet and ground."""
    delay_s: Range = (0.0, 0.04)
    """From a command to its effect at the motors [s]."""
    imu_bias_rad: Range = (-0.05, 0.05)
    """Constant error of roll, and of pitch."""
    imu_noise_rad: Range = (0.0, 0.02)
    """Standard deviation of roll and pitch. Tan et al. go to 0.05 with a filter behind it."""
    rate_noise_rad_per_s: Range = (0.0, 0.2)
    """Standard deviation of the angular velocity."""
    encoder_noise_rad: Range = (0.0, 0.01)
    """Standard deviation of the joint angles."""

    def sample(self, rng: np.random.Generator) -> Sample:
        """One robot."""
        return Sample(**{f.name: float(rng.uniform(*getattr(self, f.name))) for f in fields(self)})


def disturbed(reading: Reading, sample: Sample, rng: np.random.Generator) -> Reading:
    """The reading as this robot's sensors give it."""
    tilt = rng.normal(sample.imu_bias_rad, sample.imu_noise_rad, 2)
    n = len(reading.joint_angles)
    return replace(
        reading,
        joint_angles=reading.joint_angles + rng.normal(0.0, sample.encoder_noise_rad, n),
        orientation=_tilted(reading.orientation, tilt),
        angular_velocity=reading.angular_velocity + rng.normal(0.0, sample.rate_noise_rad_per_s, 3),
    )


def _tilted(orientation: Array, tilt: Array) -> Array:
    """A quaternion xyzw turned by small angles (roll, pitch) [rad] about its own axes."""
    x, y, z, w = orientation
    a, b = tilt / 2.0
    turned = np.array((x + w * a - z * b, y + w * b + z * a, z + x * b - y * a, w - x * a - y * b))
    return np.asarray(turned / np.linalg.norm(turned))
