"""Low level for training and export: folds normalisation in, builds the graph to export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from pixelgait.policies.mirror import tie
from pixelgait.policies.normaliser import Normaliser
from pixelgait.robot.control import gait
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.control.low_level import (
    LOW_LEVEL_CONTRACT,
    OMNI,
    OMNI_CONTRACT,
    OMNI_SIGNATURE,
    PLANAR,
    RESIDUAL_SIZE,
    SIGNATURE,
    LinearLowLevel,
    act,
    carried_size,
    features,
    ramped,
    shape_with,
    velocity_command,
)
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.interface import Reading
from pixelgait.robot.spec import Array, RobotSpec

# The gait generator is written for numpy and torch; these are the functions it uses, in float32.
TORCH = SimpleNamespace(
    asarray=lambda value: torch.as_tensor(value, dtype=torch.float32),
    concatenate=torch.cat,
    cos=torch.cos,
    floor=torch.floor,
    maximum=torch.maximum,
    minimum=torch.minimum,
    sin=torch.sin,
    where=torch.where,
)


def searched_low_level(
    spec: RobotSpec, weights: Array, normaliser: Normaliser, mirror: bool
) -> LinearLowLevel:
    """The low level at the end of a search's weights: normaliser folded in, mirrored if asked."""
    size = shape_with(normaliser.mean.size).weights
    searched = LinearLowLevel.from_weights(spec, weights[-size:])
    low_level = normaliser.fold_into(searched)
    return tie(low_level) if mirror else low_level


def carried_over(
    weights: Array, normaliser: Normaliser, learned_on: RobotSpec, spec: RobotSpec
) -> tuple[Array, Normaliser]:
    """Weights (n,) of a search and its normaliser for another robot, leg pose for leg pose.

    Actions are leg poses, equal for all robots; joint angles have zeros and signs of their own.
    With x = T x' + c from the new robot's inputs to the old one's, the old map is
    W T (x' - T^-1 (mean - c)) + b on the new robot.
    """
    to_old = joint_map(learned_on) @ np.linalg.inv(joint_map(spec))  # maps joint offsets
    old = LinearLowLevel.from_weights(learned_on, weights)
    matrix, mean = old.matrix.copy(), normaliser.mean.copy()
    joints = old.shape.joints
    deviation = normaliser.deviation[joints]
    matrix[:, joints] = matrix[:, joints] / deviation @ to_old * deviation
    offsets = mean[joints] - learned_on.default_pose_rad
    mean[joints] = spec.default_pose_rad + np.linalg.solve(to_old, offsets)
    return np.concatenate([matrix.ravel(), old.bias]), replace(normaliser, mean=mean)


# Actions of a climb besides its lift, best of 32 tried on kerbs of 10 cm (A1, MuJoCo, seeds from
# 9000): feet further back, the rear ones wider, a lower trunk. Leg poses, by leg; height.
CLIMB = ((0.0, -0.3, 0.0), (0.0, -0.3, 0.0), (-0.2, -0.4, 0.0), (0.2, -0.4, 0.0))
CLIMB_HEIGHT = -0.3


def widened(weights: Array, normaliser: Normaliser, spec: RobotSpec) -> tuple[Array, Normaliser]:
    """Weights (460,) and normaliser of an omnidirectional low level from a planar one's.

    It keeps its balance as the planar one does at half of its speed. Velocities have no weights:
    the generator takes strides and turn from them. Climb has those of `CLIMB`.
    """
    old = LinearLowLevel.from_weights(spec, weights)
    matrix, bias = np.zeros((OMNI.outputs, OMNI.inputs)), np.zeros(OMNI.outputs)
    rows = slice(len(old.bias))
    matrix[rows, OMNI.command :] = old.matrix[:, PLANAR.command :]
    bias[rows] = old.bias
    bias[RESIDUAL_SIZE + gait.STRIDE] = 0.0
    matrix[:RESIDUAL_SIZE, OMNI.command - 1] = np.ravel(CLIMB)
    matrix[RESIDUAL_SIZE + gait.HEIGHT, OMNI.command - 1] = CLIMB_HEIGHT
    mean, squares = (
        np.concatenate([np.zeros(OMNI.command), values[PLANAR.command :]])
        for values in (normaliser.mean, normaliser.squares)
    )
    own = Normaliser(normaliser.count, mean, squares)
    return np.concatenate([matrix.ravel(), bias]), own


class LowLevelGraph(nn.Module, ABC):
    """A low level with its gait generator as one torch graph, as exported to a bundle."""

    shape = PLANAR
    signature = SIGNATURE
    contract = LOW_LEVEL_CONTRACT

    def __init__(self, spec: RobotSpec, state_size: int = 0) -> None:
        super().__init__()
        self.spec, self._gait_size = spec, carried_size(spec, self.shape) - 1
        self.state_size = self._gait_size + state_size

    @abstractmethod
    def act(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The action (n,) in [-1, 1] and the next state (m,) from inputs and state (m,)."""

    def forward(
        self, latent: Tensor, imu: Tensor, joint_angles: Tensor, phase: Tensor, *state: Tensor
    ) -> tuple[Tensor, ...]:
        """Joint targets (12,) [rad], next phase (1,) [rad] and, with a state (n,), the next one."""
        gait_state, own = (state[0] if state else torch.zeros(0)).tensor_split([self._gait_size])
        carried = torch.cat([phase, gait_state])
        latent = self.followed(latent, carried)
        x = features(latent, imu, joint_angles, phase, TORCH)
        action, own = self.act(x, own)
        targets, carried = act(self.spec, latent, action, carried, joint_angles, TORCH)
        following = torch.cat([carried[1:], own])
        return (targets, carried[:1], following) if state else (targets, carried)

    def followed(self, latent: Tensor, carried: Tensor) -> Tensor:
        """The command to follow for a wanted one, from the carried state."""
        return latent

    def inputs(self, latent: Array, reading: Reading, carried: Array) -> dict[str, Array]:
        """Inputs of the graph, by name, from those of the controller's low level."""
        values = (*self.commands(latent), imu_vector(reading), reading.joint_angles, carried[:1])
        given = dict(zip(self.signature, values, strict=True))
        if self.state_size:
            given["state"] = carried[1:] if carried.size > 1 else np.zeros(self.state_size)
        return given

    def commands(self, latent: Array) -> tuple[Array, ...]:
        """The first inputs, of a latent command."""
        return (latent,)

    @torch.no_grad()
    def step(self, latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        """Call as the controller's low level, with numpy arrays."""
        given = self.inputs(latent, reading, carried).values()
        targets, *after = self(*(torch.tensor(value, dtype=torch.float32) for value in given))
        return targets.double().numpy(), torch.cat(after).double().numpy()


class LinearGraph(LowLevelGraph):
    """A `LinearLowLevel`."""

    matrix: Tensor
    bias: Tensor

    def __init__(self, low_level: LinearLowLevel) -> None:
        super().__init__(low_level.spec)
        self.register_buffer("matrix", torch.tensor(low_level.matrix, dtype=torch.float32))
        self.register_buffer("bias", torch.tensor(low_level.bias, dtype=torch.float32))

    def act(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `LowLevelGraph`; without a state."""
        return (self.matrix @ x + self.bias).clamp(-1.0, 1.0), state


class OmniGraph(LinearGraph):
    """An omnidirectional `LinearLowLevel`."""

    shape = OMNI
    signature = OMNI_SIGNATURE
    contract = OMNI_CONTRACT

    def forward(  # type: ignore[override]
        self, command: Tensor, climb: Tensor, imu: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        """See `LowLevelGraph`, from a velocity command (3,) and climb (1,)."""
        return super().forward(torch.cat([command, climb]), imu, *rest)

    def followed(self, latent: Tensor, carried: Tensor) -> Tensor:
        return ramped(latent, carried, TORCH)  # type: ignore[no-any-return]

    def commands(self, latent: Array) -> tuple[Array, ...]:
        command = velocity_command(latent)
        return command[:3], command[3:]


def graph_of(low_level: LinearLowLevel) -> LinearGraph:
    """The graph to export."""
    return (OmniGraph if low_level.shape is OMNI else LinearGraph)(low_level)
