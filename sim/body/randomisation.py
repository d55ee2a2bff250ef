"""Domain randomisation: ranges of body, motors, sensors and camera, drawn anew every episode.

Sources: Tan et al. 2018 (arXiv 1804.10332), Table 1; the defaults of legged_gym (Rudin et al. 2021,
arXiv 2109.11978); for the camera the Intel RealSense D435, common on quadrupeds. Ranges without a
source are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH
from pixelgait.robot.spec import FARTHEST_MOUNT_M, STEEPEST_MOUNT_RAD

# Latency reports do not include the bus to the motors: in either direction a value waits up to one
# cycle before it is sent. Unitree's low-level link runs at 500 Hz.
BUS_PERIOD_S = 0.002
BUS_DELAY_S = (0.0, 2 * BUS_PERIOD_S)
FRAME_S = 1.0 / 30.0
LONGEST_S = 1.0  # assumption: largest delay that a robot can be operated with
Range = tuple[float, float]
SIGNED = ("eye_pitch_rad",)  # of the ranges without a default


@dataclass(frozen=True, slots=True)
class Sample:
    """Parameters of one episode's robot; the defaults are those without randomisation."""

    mass: float = 1.0
    inertia: float = 1.0
    strength: float = 1.0
    friction: float = 0.5  # PyBullet's default for a URDF without contact parameters
    delay_s: float = 0.0
    imu_bias_rad: float = 0.0
    imu_noise_rad: float = 0.0
    rate_noise_rad_per_s: float = 0.0
    encoder_noise_rad: float = 0.0
    torque_drop: float = 0.0
    rate_bias_rad_per_s: float = 0.0
    imu_delay_s: float = 0.0
    encoder_bias_rad: float = 0.0
    encoder_delay_s: float = 0.0
    camera_latency_s: float = 0.0
    camera_period_s: float = 0.0
    camera_dropout: float = 0.0
    camera_gain: float = 1.0
    camera_noise: float = 0.0
    depth_error_per_m: float = 0.0
    camera_ahead_m: float = 0.0
    camera_left_m: float = 0.0
    camera_up_m: float = 0.0
    camera_pitch_rad: float = 0.0
    depth_range_m: float = 100.0  # beyond any surface
    depth_holes: float = 0.0
    odometry_scale: float = 1.0
    odometry_turn_rad_per_m: float = 0.0
    camera_yaw_rad: float = 0.0
    camera_roll_rad: float = 0.0
    camera_zoom: float = 1.0
    camera_shutter_s: float = 0.0
    camera_exposure: float = 0.0
    camera_exposure_lag_s: float = 0.0
    camera_red: float = 1.0
    camera_blue: float = 1.0
    camera_vignetting: float = 0.0
    depth_baseline_m: float = 0.0
    depth_step_per_m: float = 0.0
    depth_nearest_m: float = 0.0
    depth_patches: float = 0.0
    depth_flying: float = 0.0
    heading_drift_rad_per_s: float = 0.0
    eye_height_m: float | None = None  # None: that of the mount; likewise the pitch
    eye_pitch_rad: float | None = None


@dataclass(frozen=True, slots=True)
class Randomisation:
    """Ranges of the uniform distributions that every episode draws from."""

    mass: Range = (0.8, 1.2)
    """Factor on the mass of all links: Tan et al."""
    inertia: Range = (0.5, 1.5)
    """Factor on the inertia of all links, in addition to that of the mass: Tan et al."""
    strength: Range = (0.8, 1.2)
    """Factor on motor torques and their limits: Tan et al."""
    friction: Range = (0.5, 1.25)
    """Coulomb coefficient between feet and ground: Tan et al."""
    delay_s: Range = (0.0, 0.04)
    """From a command to its effect at the motors [s]: Tan et al."""
    imu_bias_rad: Range = (-0.05, 0.05)
    """Constant error of roll, and of pitch: Tan et al."""
    imu_noise_rad: Range = (0.0, 0.02)
    """Standard deviation of roll and pitch: assumption; Tan et al. go to 0.05 before a filter."""
    rate_noise_rad_per_s: Range = (0.0, 0.2)
    """Standard deviation of the angular velocity: up to the bound of legged_gym's uniform noise."""
    encoder_noise_rad: Range = (0.0, 0.01)
    """Standard deviation of the joint angles: likewise legged_gym's."""
    torque_drop: Range = (0.0, 1.0)
    """Share of the torque that is lost at the joint's highest speed: 0, a motor equally strong at
    every speed; 1, the line from stall torque to no-load speed of Isaac Lab's DCMotor."""
    rate_bias_rad_per_s: Range = (0.0, 0.02)
    """Constant error of the angular velocity, up or down: 1 deg/s, a usual zero-rate
    offset of a MEMS gyroscope."""
    imu_delay_s: Range = (0.0, 0.01)
    """Age of orientation and angular velocity when they are read: at most a control step."""
    encoder_bias_rad: Range = (0.0, 0.02)
    """Largest constant error of a joint angle, another one for every joint: a degree of
    calibration."""
    encoder_delay_s: Range = (0.0, 0.01)
    """Age of joint angles and velocities when they are read: at most a control step."""
    camera_latency_s: Range = (0.02, 0.12)
    """From exposure to the controller: 66 ms on average for the D435's colour, 9 ms for depth
    (realsense-ros, issue 2686), 60 to 140 ms under load (librealsense, issue 1242)."""
    camera_period_s: Range = (1 / 30, 1 / 15)
    """Between frames: the D435's usual 30 Hz, or 15 Hz where USB or light allow no more (an
    exposure of 62.5 ms: librealsense, issue 7242)."""
    camera_dropout: Range = (0.0, 0.05)
    """Share of the frames that never arrive."""
    camera_gain: Range = (0.7, 1.3)
    """Factor on the brightness: exposure that is off by about half a stop."""
    camera_noise: Range = (0.0, 8.0)
    """Standard deviation of a pixel's colours, of 255: up to 3 %, a visible grain."""
    depth_error_per_m: Range = (0.001, 0.01)
    """Standard deviation of depth over its square. The D435's data sheet allows 2 % at 2 m, which
    is 0.01: 0.2 pixels at 848 x 480. At best matching errs by 0.032 pixels (librealsense, issue
    3904): 0.001 at 1280 x 720."""
    camera_ahead_m: Range = (-0.01, 0.01)
    """Error of the camera's mount; likewise left and up: a centimetre of bracket."""
    camera_left_m: Range = (-0.01, 0.01)
    camera_up_m: Range = (-0.01, 0.01)
    camera_pitch_rad: Range = (-0.05, 0.05)
    """Error of the mount's pitch: 3 degrees; Extreme Parkour's code (arXiv 2309.14341) draws
    up to 5 degrees."""
    depth_range_m: Range = (4.0, 10.0)
    """Beyond it no depth is measured: the D435 ends at about 10 m (its data sheet), at less on dark
    and shiny surfaces and in sunlight; 4 m are an assumption, a little beyond policies' range."""
    depth_holes: Range = (0.0, 0.05)
    """Share of single pixels without a match, in addition to the bands and patches below; they are
    filled as on a robot."""
    odometry_scale: Range = (0.97, 1.03)
    """Factor on the lengths odometry measures. Leg odometry fused with an IMU drifts by about 1 to
    3 % of the distance (Camurri et al. 2020, Pronto, doi 10.3389/frobt.2020.00068)."""
    odometry_turn_rad_per_m: Range = (-0.005, 0.005)
    """Drift of odometry's heading per metre: a Go2's loop of 120 m that ends 2.2 m beside its start
    (arXiv 2602.17393) would be 0.001; this is five times as much."""
    camera_yaw_rad: Range = (-0.03, 0.03)
    """Error of the mount to the left, and about the camera's axis: 2 degrees."""
    camera_roll_rad: Range = (-0.03, 0.03)
    camera_zoom: Range = (0.95, 1.05)
    """Factor on the field of view: 3 degrees of 58 (the D435's data sheet)."""
    camera_shutter_s: Range = (0.001, 0.02)
    """Exposure time, which blurs turns: from daylight to indoors, up to two thirds of a period of
    30 Hz."""
    camera_exposure: Range = (0.0, 0.8)
    """Share of a change of brightness that automatic exposure undoes, and its lag: none to most,
    within a frame or two to half a second."""
    camera_exposure_lag_s: Range = (0.05, 0.6)
    camera_red: Range = (0.85, 1.15)
    """White balance: factors on red and blue; a visible tint, as from a lamp."""
    camera_blue: Range = (0.85, 1.15)
    camera_vignetting: Range = (0.0, 0.3)
    """Share of the light that is missing in the corners: about half of the 0.55 that cos^4 of 35
    degrees lacks; lenses compensate for much of it."""
    depth_baseline_m: Range = (0.045, 0.055)
    """Between the imagers of the stereo camera: 50 mm in a D435 (its data sheet) +- 10 %. Points
    visible to one of them alone are holes: bands on the left of near surfaces."""
    depth_step_per_m: Range = (0.0007, 0.0028)
    """Quantisation of inverse depth: a 32nd of a pixel (Grunnet-Jepsen et al., Subpixel
    linearity improvement for D400) is 0.0015 for a D435 at 848 x 480; from half to twice that."""
    depth_nearest_m: Range = (0.08, 0.25)
    """Nothing nearer is measured: its disparity is beyond the 126 pixels that are searched
    (librealsense, issue 2885), at 424 x 240, and at 1280 x 720."""
    depth_patches: Range = (0.0, 0.05)
    """Share of the picture that is too shiny or dark to be matched, in patches of an eighth of its
    sides: three of 64 at most on average."""
    depth_flying: Range = (0.0, 0.5)
    """Share of the pixels at edges that lie between front and back."""
    heading_drift_rad_per_s: Range = (-0.002, 0.002)
    """Drift of the IMU's heading, which is not corrected without a compass: 7 deg a minute, the
    rest of an offset of 1 deg/s after calibration at a standstill."""
    eye_height_m: Range | None = None
    """Height of the camera above the ground on which the robot stands, one policy for many mounts;
    by default that of its mount. The contract holds this range and the next, and the node accepts
    any mount within them."""
    eye_pitch_rad: Range | None = None
    """Pitch of the camera, down, likewise."""

    def check(self) -> None:
        """Raises UserError if a range's ends are in the wrong order, or negative where none is."""
        for each in fields(self):
            if (ends := getattr(self, each.name)) is None:
                continue
            low, high = ends
            usual = cast(Range | None, each.default)
            positive = each.name not in SIGNED if usual is None else usual[0] >= 0.0
            if low > high or (positive and low < 0.0):
                least = ", 0 or more" if positive else ""
                name = each.name.replace("_", "-")
                raise UserError(f"--randomisation.{name} is {low} {high}, expected LOW HIGH{least}")
        for what, ends, most in (
            ("eye-height-m", self.eye_height_m, FARTHEST_MOUNT_M),
            ("eye-pitch-rad", self.eye_pitch_rad, STEEPEST_MOUNT_RAD),
        ):
            if ends is not None and max(map(abs, ends)) > most:
                low, high = ends
                raise UserError(f"--randomisation.{what} is {low} {high}, expected at most {most}")

    def sample(self, rng: np.random.Generator) -> Sample:
        """Draw a robot."""
        ranges = {each.name: getattr(self, each.name) for each in fields(self)}
        return Sample(
            **{name: float(rng.uniform(*ends)) for name, ends in ranges.items() if ends is not None}
        )


def make_randomisation(
    randomise: bool, delays_from: Path | None, ranges: Randomisation | None = None
) -> Randomisation | None:
    """Randomisation of the options --randomise and --delays-from; None without.

    Raises:
        UserError: if there are delays without randomisation, or the file is no latency report.
    """
    if not randomise:
        if delays_from is not None:
            raise UserError("--delays-from has no effect without --randomise")
        return None
    if delays_from is None:
        return ranges or Randomisation()
    return with_measured_delays(ranges or Randomisation(), delays_from)


def require_camera(delays_from: Path | None) -> None:
    """Raises UserError if a latency report is invalid or has no camera, for gliding robots."""
    if delays_from is None:
        return
    usual = Randomisation()
    if with_measured_delays(usual, delays_from).camera_latency_s == usual.camera_latency_s:
        raise UserError(
            f"--delays-from {delays_from}: no camera was measured in it, and gliding robots have "
            "no other delay; pixelgait-run --out writes one with a camera on ROS 2 topics"
        )


def with_measured_delays(randomisation: Randomisation, path: Path) -> Randomisation:
    """The randomisation with the delays of a latency report (latency.json).

    Commands are late by the median to the 99th percentile of `sensor_to_command`, plus the bus. The
    age of the newest image ranges from the camera's latency to a frame more: the latency is from
    half a frame below the median to a frame below the 99th percentile.

    Raises:
        UserError: if the file is not a latency report, or nothing was measured.
    """
    report = read_json(path)
    low, high = _range_s(report.get("stages"), "sensor_to_command", path)
    delay_s = (low + BUS_DELAY_S[0], high + BUS_DELAY_S[1])
    randomisation = replace(randomisation, delay_s=delay_s)
    ages = report.get("sensor_age_us") or {}
    seen = [camera for camera in (COLOUR, DEPTH) if _is_measured(ages, camera, path)]
    if not seen:  # pixelgait-profile has no camera
        return randomisation
    low, high = _range_s(ages, seen[0], path)
    low = max(0.0, low - FRAME_S / 2)
    return replace(randomisation, camera_latency_s=(low, max(low, high - FRAME_S)))


def _is_measured(ages: Any, camera: str, path: Path) -> bool:
    """Whether the report has images of this camera."""
    try:
        return camera in ages and bool(ages[camera]["count"])
    except (KeyError, TypeError):
        raise _damaged(path, camera) from None


def _damaged(path: Path, name: str) -> UserError:
    return UserError(
        f"{path}: not a latency report, no percentiles of {name}; "
        "pixelgait-profile --json and pixelgait-run --out write one"
    )


def _range_s(rows: Any, name: str, path: Path) -> Range:
    """Median and 99th percentile [s] of one row of the report."""
    try:
        row = rows[name]
        count, low, high = row["count"], row["p50_us"] / 1e6, row["p99_us"] / 1e6
    except (KeyError, TypeError):
        raise _damaged(path, name) from None
    if type(count) is not int:
        raise _damaged(path, name)
    if not count or not 0.0 <= low <= high:
        raise UserError(f"{path}: {name} was not measured in this report")
    if high > LONGEST_S:
        raise UserError(f"{path}: {name} took {high:g} s, expected at most {LONGEST_S:g}")
    return low, high
