"""Batched MuJoCo of randomised robots: each has a model, motors and sensors of its own.

Each moves and feels as a `MuJoCoBody` with a `Randomisation` does, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.interface import Reading
from pixelgait.robot.rotation import tilted, turned
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.batched.mujoco_batch import BatchReading, MuJoCoBatch, rows
from pixelgait.sim.body.interface import PHYSICS_DT_S, SUBSTEPS, JointLoads
from pixelgait.sim.body.randomisation import Sample
from pixelgait.sim.body.sensors import Sensors
from pixelgait.sim.engines.mujoco_body import MuJoCoBody

DRAWN_STEPS = 100  # of noise at once: a call for each reading takes as long as the noise


class RandomisedBatch(MuJoCoBatch):
    """n robots that start together, drawn by their seeds; see `MuJoCoBatch`.

    Motors are those with a delay, or with less torque at speed: a robot that has neither is rounded
    differently alone.
    """

    def __init__(self, bodies: Sequence[MuJoCoBody]) -> None:
        """Bodies in the same scene, with a `Randomisation` and `foot_sensors`."""
        self._bodies = bodies
        super().__init__(bodies[0].spec, len(bodies), bodies[0].scene)
        self._applied = [state.qfrc_applied for state in self._states]

    def _make_states(self) -> list[mujoco.MjData]:
        self._first = self._bodies[0]
        return [body.data for body in self._bodies]

    def reset(self, seeds: Sequence[int] = ()) -> BatchReading:
        """Draw and place all robots by their seeds."""
        felt = [body.reset(seed) for body, seed in zip(self._bodies, seeds, strict=False)]
        self._begin()
        if not felt:
            return super().read()
        sensors = [body.sensors for body in self._bodies if body.sensors is not None]
        self._motors = BatchMotors(self.spec, [each.sample for each in sensors])
        self._sensors = BatchSensors(sensors, super().read())
        self._torques = np.zeros((self.robots, len(self.spec.joint_names)))
        return _stacked(felt)

    def read(self) -> BatchReading:
        """Sensor values of this instant; once in every control step."""
        return self._sensors.read(super().read())

    def apply(self, targets: Array) -> None:
        """One control step towards these targets (n, 12) [rad], with the robot's nominal gains."""
        self._motors.put(self.time_s, targets)
        q, v = self._first.q, self._first.v
        forces = np.zeros((self.robots, len(self._v[0])))
        staying = np.flatnonzero(self.staying).tolist()
        for _ in range(SUBSTEPS):
            angles, speeds = rows(self._q).take(q, 1), rows(self._v).take(v, 1)
            self._torques = self._motors.torques(self.time_s, angles, speeds)
            forces[:, v] = self._torques
            for robot in staying:
                self._applied[robot][:] = forces[robot]
                mujoco.mj_step(self._bodies[robot].model, self._states[robot])
            self.time_s += PHYSICS_DT_S

    def loads(self) -> JointLoads:
        """See `MuJoCoBatch.loads`."""
        loads = super().loads()
        return JointLoads(self._torques, loads.speeds, loads.foot_forces, loads.foot_sinking)


class BatchMotors:
    """Motors of n robots, as `legged_body.motor_torques`, and the delay of their commands."""

    def __init__(self, spec: RobotSpec, samples: Sequence[Sample]) -> None:
        strength = np.array([[sample.strength] for sample in samples])
        self._kp, self._kd = spec.kp_nm_per_rad * strength, spec.kd_nms_per_rad * strength
        self._limit = spec.torque_limit_nm * strength
        drop = np.array([[sample.torque_drop] for sample in samples])
        self._slope = drop / spec.velocity_limit_rad_per_s
        self._delays_s = np.array([sample.delay_s for sample in samples])
        self._robots = np.arange(len(samples))
        stand = np.tile(standing_targets(spec), (len(samples), 1))
        self._dues_s, self._sent = [np.full(len(samples), -np.inf)], [stand]

    def put(self, time_s: float, targets: Array) -> None:
        """Send targets (n, 12) [rad]; those that none follows any longer are dropped."""
        self._dues_s.append(time_s + self._delays_s)
        self._sent.append(targets)
        while len(self._dues_s) > 1 and (self._dues_s[1] <= time_s).all():
            del self._dues_s[0], self._sent[0]
        self._all_dues_s, self._all_sent = np.array(self._dues_s), np.array(self._sent)

    def torques(self, time_s: float, angles: Array, speeds: Array) -> Array:
        """Torques (n, 12) [Nm] at a time [s] and these joint angles and speeds (n, 12)."""
        newest = (self._all_dues_s <= time_s).sum(0) - 1
        targets = self._all_sent[newest, self._robots]
        torques = self._kp * (targets - angles) - self._kd * speeds
        left = np.maximum(1.0 - self._slope * np.abs(speeds), 0.0)
        limit = np.where(torques * speeds > 0.0, self._limit * left, self._limit)
        return np.asarray(np.minimum(np.maximum(torques, -limit), limit))


class BatchSensors:
    """`Sensors` of n robots, without their cameras and odometry."""

    def __init__(self, sensors: Sequence[Sensors], first: BatchReading) -> None:
        """`first`: the true reading that all have already measured."""
        self._each = sensors
        samples = [each.sample for each in sensors]
        names = "encoder_noise_rad", "rate_noise_rad_per_s", "imu_noise_rad", "imu_bias_rad"
        self._encoder, self._rate, self._tilt, self._tilt_bias = (
            np.array([[getattr(sample, name)] for sample in samples]) for name in names
        )
        self._encoder_bias = np.array([each.encoder_bias for each in sensors])
        self._rate_bias = np.array([each.rate_bias for each in sensors])
        self._drifts = [sample.heading_drift_rad_per_s for sample in samples]
        self._joints = BatchHistory([sample.encoder_delay_s for sample in samples])
        self._imu = BatchHistory([sample.imu_delay_s for sample in samples])
        self._orientations = np.zeros_like(first.orientation)
        self._noise = np.zeros((0, len(samples), 0))
        self._read = 0  # of the noise
        self._measure(first)

    def read(self, true: BatchReading) -> BatchReading:
        """The true reading as these sensors measure it."""
        joints, imu = self._measure(true)
        size = self._encoder_bias.shape[1]
        tilt, rate, encoder = np.split(self._next_noise(2 + 3 + size), (2, 5), 1)
        tilts = self._tilt_bias + self._tilt * tilt
        headed = [
            turned(own, drift * true.time_s)
            for own, drift in zip(imu[:, :4], self._drifts, strict=True)
        ]
        return BatchReading(
            true.time_s,
            joints[:, :size] + self._encoder_bias + self._encoder * encoder,
            joints[:, size:],
            np.array([tilted(own, tilt) for own, tilt in zip(headed, tilts, strict=True)]),
            imu[:, 4:] + self._rate_bias + self._rate * rate,
        )

    def _measure(self, true: BatchReading) -> tuple[Array, Array]:
        """Late joints (n, 24) and late orientations and rates (n, 7)."""
        now = true.time_s
        joints = np.concatenate((true.joint_angles, true.joint_velocities), 1)
        turned_over = (true.orientation * self._orientations).sum(1) < 0.0
        self._orientations = np.where(turned_over[:, None], -true.orientation, true.orientation)
        imu = np.concatenate((self._orientations, true.angular_velocity), 1)
        return self._joints.late(now, joints), self._imu.late(now, imu)

    def _next_noise(self, size: int) -> Array:
        """Standard normal noise (n, size) of the next reading."""
        if self._read == len(self._noise):
            drawn = [each.rng.standard_normal((DRAWN_STEPS, size)) for each in self._each]
            self._noise, self._read = np.stack(drawn, 1), 0
        self._read += 1
        return np.asarray(self._noise[self._read - 1])


class BatchHistory:
    """Measured vectors of n robots, each as late as its delay; see `sensors.History`."""

    def __init__(self, delays_s: Sequence[float]) -> None:
        self._delays_s, self._robots = np.array(delays_s), np.arange(len(delays_s))
        self._times_s: list[float] = []
        self._values: list[Array] = []  # (n, m) each

    def late(self, now_s: float, values: Array) -> Array:
        """Add the vectors (n, m) of this instant; returns the late ones."""
        self._times_s.append(now_s)
        self._values.append(values)
        at_s = now_s - self._delays_s
        while len(self._times_s) > 2 and self._times_s[1] <= at_s.min():
            del self._times_s[0], self._values[0]
        times_s, kept = np.array(self._times_s), np.array(self._values)
        later = np.searchsorted(times_s, at_s, side="right")
        before, after = np.maximum(later - 1, 0), np.minimum(later, len(times_s) - 1)
        step_s = times_s[after] - times_s[before]
        share = np.where(step_s > 0.0, at_s - times_s[before], 0.0) / np.where(
            step_s > 0.0, step_s, 1.0
        )
        old, new = kept[before, self._robots], kept[after, self._robots]
        return np.asarray(old + share[:, None] * (new - old))


def _stacked(readings: Sequence[Reading]) -> BatchReading:
    names = "joint_angles", "joint_velocities", "orientation", "angular_velocity"
    values = (np.array([getattr(each, name) for each in readings]) for name in names)
    return BatchReading(readings[0].time_s, *values)
