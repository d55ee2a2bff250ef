"""Velocity policy of one's own for the Go2, in minutes, with the files that Isaac Lab would write.

    python examples/clone_gait.py
    pixelgait-export --walker runs/own/policy.onnx --config runs/own/deploy.yaml --robot go2 \\
        --out runs/own/bundle

A small network with Isaac Lab's 45 observations at 50 Hz imitates the gait generator in MuJoCo by
DAgger (Ross et al. 2011): it walks, and the generator says what it would have done. A generator has
a phase, which is no observation. So it reads the phase off the last action, as a network can.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import yaml
from torch import nn

from pixelgait.robot.cli.options import Count, Range, check_outputs, parse
from pixelgait.robot.control import gait
from pixelgait.robot.errors import run_command
from pixelgait.robot.estimation.kinematics import posed
from pixelgait.robot.files import write_atomic
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import gravity
from pixelgait.robot.spec import GO2, LEGS, Array, per_leg
from pixelgait.sim.batched.mujoco_batch import BatchReading, MuJoCoBatch
from pixelgait.sim.tasks.task import off_its_feet

HOLD = 2  # control steps of an action: 50 Hz
KP, KD = 35.0, 1.75  # [Nm/rad], [Nm s/rad]
SPEC = replace(
    posed(GO2, per_leg(0.0, 0.8, -1.5)),  # the pose of Isaac Lab's task
    kp_nm_per_rad=per_leg(KP, KP, KP),
    kd_nms_per_rad=per_leg(KD, KD, KD),
)
ORDER = [f"{leg}_{j}_joint" for j in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")]
PLACES = [SPEC.joint_names.index(name) for name in ORDER]  # of Isaac Lab's joints in the robot
ACTION_SCALE = 0.25  # [rad]
RANGES = np.array(((-0.5, 1.0), (-0.4, 0.4), (-1.0, 1.0)))  # of commands: ahead, left, turn
TERMS = {  # observations: size, scale
    "base_ang_vel": (3, 0.25),
    "projected_gravity": (3, 1.0),
    "velocity_commands": (3, 1.0),
    "joint_pos_rel": (12, 1.0),
    "joint_vel_rel": (12, 0.05),
    "last_action": (12, 1.0),
}
# The gait: 3 Hz are stable every way on these legs. It reaches these shares of a velocity command
# (tried in MuJoCo), so the teacher asks for more.
FREQUENCY_HZ, LIFT_RAD = 3.0, 0.5
# Three motions make the phase observable: circles of the swinging legs, front and rear feet that
# approach each other and separate, and the load's shift to the standing legs.
CIRCLE_RAD, SQUEEZE_RAD, SHIFT = 0.3, 0.07, 1.2
LAG = gait.TWO_PI * FREQUENCY_HZ * KD / KP  # of soft legs behind their targets [rad]
FRONT = np.array((1.0, 1.0, -1.0, -1.0))
REACHED = np.array((0.58, 0.7, 0.66))
PHASES = 100  # of a cycle
START = 0.3  # in favour of phase 0: a stand is as far from every phase as from its opposite
NEAR = 0.1  # squared distance of actions: a mean of near phases is smoother than the nearest
# Legs on the side that sinks become longer: [rad/m], [rad s/m].
LEVEL, LEVEL_RATE = 6.0, 0.6
COMMAND_S, PUSH_S, PUSH_M_PER_S = 2.0, 1.5, 0.4
LEAST = 0.1  # [m/s, rad/s] of commands that are walked
NOISE = 0.05  # of actions that are walked, so that more is seen
BATCH = 512
LAST = 4  # times as many steps of Adam in the last round


@dataclass
class Options:
    """Train a walking policy by imitation."""

    out: Path = Path("runs/own")
    """Folder for policy.onnx, policy.pt and deploy.yaml."""
    rounds: Count = 4
    """Number of times that the robots walk and the network learns."""
    robots: Count = 16
    """Number of robots in MuJoCo."""
    seconds: Annotated[float, Range(COMMAND_S, 60.0)] = 5.0
    """Length of a round's walks [s]."""
    steps: Count = 1500
    """Number of steps of Adam in a round; the last has four times as many."""
    seed: Annotated[int, Range(0, 8999)] = 0
    """Seed of commands, pushes and weights."""


class Teacher:
    """The gait generator as a function of command, tilt and last action."""

    def __init__(self) -> None:
        self.parameters = (gait.OMNI_LOW + gait.OMNI_HIGH) / 2.0
        self.parameters[[gait.FREQUENCY, gait.LIFT]] = FREQUENCY_HZ, LIFT_RAD
        self.phases = gait.TWO_PI / PHASES * np.arange(PHASES)[:, None]
        self.later = round(PHASES * FREQUENCY_HZ * HOLD * CONTROL_DT_S)
        self.lengthen = gait.joint_map(SPEC)[:, 2::3]  # (12, 4)

    def __call__(self, command: Array, down: Array, rates: Array, last: Array) -> Array:
        """Actions (n, 12) in the robot's order, from n commands, gravities, rates, last actions."""
        cycle = self.cycle(np.pad(command / REACHED, ((0, 0), (0, 1))))
        phase = self.phase(np.square(cycle - last[:, None]).sum(-1))
        x, y = SPEC.feet_m.T
        sinks_m = down[:, :1] * x + down[:, 1:2] * y  # (n, 4): of the ground below a foot
        sinks_m_per_s = rates[:, 1:2] * x - rates[:, :1] * y
        level = (LEVEL * sinks_m + LEVEL_RATE * sinks_m_per_s) @ self.lengthen.T
        return cycle[np.arange(len(cycle)), (phase + self.later) % PHASES] + level / ACTION_SCALE

    def phase(self, off: Array) -> Array:
        """The phases (n,) of those that are nearest, by squared distances (n, PHASES)."""
        off = off - START * np.cos(self.phases[:, 0])
        near = np.exp((off.min(1, keepdims=True) - off) / NEAR)
        mean = near @ np.exp(1j * self.phases[:, 0])
        return np.rint(np.angle(mean) / gait.TWO_PI * PHASES).astype(int)

    def cycle(self, asked: Array) -> Array:
        """Actions (n, PHASES, 12) of all phases under commands (n, 4)."""
        parameters = gait.commanded(self.parameters, asked[:, None])
        duty = gait.column(parameters, gait.DUTY)
        phases = np.broadcast_to(self.phases, (len(asked), PHASES, 1))
        legs = gait.leg_phases(phases, duty)
        poses = gait.leg_poses(SPEC, phases, np.broadcast_to(parameters, (*phases.shape[:2], 8)))
        sin, cos = np.sin(legs), np.cos(legs)
        poses[..., 1::3] += CIRCLE_RAD * cos * np.minimum(sin, 0.0) ** 3 + SQUEEZE_RAD * FRONT * cos
        walks = asked.any(1)[:, None, None]
        loads = (1.0 + walks * SHIFT * np.sin(legs - LAG)) / len(LEGS)
        offsets = walks * poses @ gait.joint_map(SPEC).T + loads @ gait.load_map(SPEC).T
        return offsets / ACTION_SCALE


def drawn(rng: np.random.Generator, n: int) -> Array:
    """Commands (n, 3): one axis in three is 0; a fifth of the robots, and the slowest, stand."""
    low, high = RANGES.T
    command = rng.uniform(low, high, (n, 3)) * (rng.random((n, 3)) > 0.33)
    fast = np.linalg.norm(command, axis=1, keepdims=True) > LEAST
    return command * (fast & (rng.random((n, 1)) > 0.2))


def observed(reading: BatchReading, down: Array, command: Array, last: Array) -> Array:
    """Observations (n, 45) in Isaac Lab's order."""
    values = {
        "base_ang_vel": reading.angular_velocity,
        "projected_gravity": down,
        "velocity_commands": command,
        "joint_pos_rel": (reading.joint_angles - SPEC.default_pose_rad)[:, PLACES],
        "joint_vel_rel": reading.joint_velocities[:, PLACES],
        "last_action": last[:, PLACES],
    }
    return np.concatenate([values[name] * scale for name, (_, scale) in TERMS.items()], 1)


Policy = Callable[[Array, Array], Array]  # actions from observations and the teacher's actions


def walk(
    batch: MuJoCoBatch, teacher: Teacher, policy: Policy, seconds: float, rng: np.random.Generator
) -> tuple[Array, Array, int]:
    """Observations (m, 45) of a policy's walks, the teacher's actions (m, 12), number of falls."""
    n, falls, period_s = batch.robots, 0, HOLD * CONTROL_DT_S
    reading, command, last = batch.reset(), drawn(rng, n), np.zeros((n, 12))
    seen, told = [], []
    for _ in range(round(seconds / period_s)):
        change = rng.random((n, 1)) < period_s / COMMAND_S
        command = np.where(change, drawn(rng, n), command)
        pushed = rng.random((n, 1)) < period_s / PUSH_S
        batch.push(PUSH_M_PER_S * pushed * rng.uniform(-1.0, 1.0, (n, 3)) * (1.0, 1.0, 0.0))
        down = np.array([gravity(each) for each in reading.orientation.tolist()])
        seen.append(observed(reading, down, command, last))
        told.append(teacher(command, down, reading.angular_velocity, last))
        last = policy(seen[-1], told[-1]) + NOISE * rng.standard_normal((n, 12))
        for _ in range(HOLD):
            batch.apply(SPEC.default_pose_rad + ACTION_SCALE * last)
            reading = batch.read()
        for robot, each in enumerate(reading.orientation.tolist()):
            if off_its_feet(batch.positions[robot, 2], each):
                batch.restart(robot)
                last[robot], falls = 0.0, falls + 1
        reading = batch.read()
    return np.concatenate(seen), np.concatenate(told), falls


def learn(network: nn.Module, seen: Array, told: Array, steps: int) -> float:
    """Fit the network to the teacher's actions; returns the mean squared error at the end."""
    x, y = (torch.tensor(values, dtype=torch.float32) for values in (seen, told[:, PLACES]))
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        loss = (network(x[rows]) - y[rows]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses[-20:]))


def train(options: Options) -> nn.Sequential:
    """A network that walks as the teacher says."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    size = sum(size for size, _ in TERMS.values())
    network = nn.Sequential(
        *(nn.Linear(size, 96), nn.ELU(), nn.Linear(96, 64), nn.ELU(), nn.Linear(64, 12))
    )
    back = np.argsort(PLACES)

    @torch.no_grad()
    def own(seen: Array, _: Array) -> Array:
        return network(torch.tensor(seen, dtype=torch.float32)).double().numpy()[:, back]

    batch, teacher = MuJoCoBatch(SPEC, options.robots), Teacher()
    rng = np.random.default_rng(options.seed)
    rows: list[tuple[Array, Array]] = []
    for round_ in range(options.rounds):
        policy = own if round_ else lambda _, wise: wise  # the teacher itself walks first
        *found, falls = walk(batch, teacher, policy, options.seconds, rng)
        rows.append(tuple(found))
        seen, told = (np.concatenate(each) for each in zip(*rows, strict=True))
        steps = options.steps * (LAST if round_ + 1 == options.rounds else 1)
        error = learn(network, seen, told, steps)
        print(f"round {round_}: {falls} falls, {len(seen)} actions, error {error:.4f}", flush=True)
    return network


def deploy() -> dict[str, Any]:
    """The description of the policy, as unitree_rl_lab writes it beside it."""
    axes = ("lin_vel_x", "lin_vel_y", "ang_vel_z")
    pose = SPEC.default_pose_rad[PLACES].tolist()
    return {
        "joint_ids_map": PLACES,
        "step_dt": HOLD * CONTROL_DT_S,
        "stiffness": [KP] * 12,
        "damping": [KD] * 12,
        "default_joint_pos": pose,
        "commands": {"base_velocity": {"ranges": dict(zip(axes, RANGES.tolist(), strict=True))}},
        "actions": {"JointPositionAction": {"scale": [ACTION_SCALE] * 12, "offset": pose}},
        "observations": {
            name: {"scale": [scale] * size, "history_length": 1}
            for name, (size, scale) in TERMS.items()
        },
    }


def main(options: Options) -> None:
    """Train, and write the policy with its description."""
    files = {name: options.out / name for name in ("policy.onnx", "policy.pt", "deploy.yaml")}
    check_outputs(*(("out", file) for file in files.values()))
    network = train(options).eval()
    data = {name: io.BytesIO() for name in ("policy.onnx", "policy.pt")}
    given = torch.zeros(1, network[0].in_features)
    names = {"input_names": ["obs"], "output_names": ["actions"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old exporter needs no further package
        torch.onnx.export(network, (given,), data["policy.onnx"], dynamo=False, **names)
    torch.jit.save(torch.jit.script(network), data["policy.pt"])
    for name, content in data.items():
        write_atomic(files[name], content.getvalue())
    write_atomic(files["deploy.yaml"], yaml.safe_dump(deploy(), sort_keys=False).encode())
    print(f"wrote {', '.join(map(str, files.values()))}")


if __name__ == "__main__":
    run_command(lambda: main(parse(Options, "clone_gait.py")))
