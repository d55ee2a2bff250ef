"""Walker of examples/clone_gait.py, with files as if each program had trained it.

The same walk in every format: the order of joints and the scales differ, hence the weights of the
first and the last layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import numpy_helper

from pixelgait.robot.spec import GO2

FOLDER = Path(__file__).parent  # policy.onnx, deploy.yaml: `python examples/clone_gait.py`
DESCRIPTION = yaml.safe_load((FOLDER / "deploy.yaml").read_text())
JOINTS = [GO2.joint_names[i] for i in DESCRIPTION["joint_ids_map"]]
SCALES = {name: term["scale"][0] for name, term in DESCRIPTION["observations"].items()}
POSE = dict(zip(JOINTS, DESCRIPTION["default_joint_pos"], strict=True))
KP, KD = DESCRIPTION["stiffness"][0], DESCRIPTION["damping"][0]
ACTION_SCALE = DESCRIPTION["actions"]["JointPositionAction"]["scale"][0]
RANGES = DESCRIPTION["commands"]["base_velocity"]["ranges"].values()
SPEEDS = tuple(value for each in RANGES for value in each)
LEG_BY_LEG = [
    f"{leg}_{j}_joint" for leg in ("FL", "FR", "RL", "RR") for j in ("hip", "thigh", "calf")
]
GYM_SCALES = {"velocity_commands": (2.0, 2.0, 0.25)}
FORMATS = ("isaac_lab", "rl_sar", "legged_gym", "mjlab")

# Options of pixelgait-export for a walker.
Files = dict[str, Any]


def files(folder: Path, program: str) -> Files:
    """Files of the walker as this program writes them, and what they do not say, as options."""
    return {"isaac_lab": isaac_lab, "rl_sar": rl_sar, "legged_gym": legged_gym, "mjlab": mjlab}[
        program
    ](folder)


def isaac_lab(folder: Path) -> Files:
    """Files of unitree_rl_lab: ONNX and deploy.yaml, joint by joint."""
    return {"walker": FOLDER / "policy.onnx", "config": (FOLDER / "deploy.yaml",)}


def rl_sar(folder: Path) -> Files:
    """Files of rl_sar: TorchScript, base.yaml, config.yaml, legs FL, FR, RL, RR."""
    pose = [POSE[name] for name in LEG_BY_LEG]
    base = {"dt": 0.005, "decimation": 4, "joint_names": list(GO2.joint_names)}
    own = {
        "observations": ["ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"],
        "clip_obs": 100.0,
        "rl_kp": [KP] * 12,
        "rl_kd": [KD] * 12,
        "action_scale": [ACTION_SCALE] * 12,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "commands_scale": list(GYM_SCALES["velocity_commands"]),
        "default_dof_pos": pose,
        "joint_mapping": [GO2.joint_names.index(name) for name in LEG_BY_LEG],
    }
    config = (written(folder / "base.yaml", {"go2": base}),)
    config += (written(folder / "config.yaml", {"go2/own": own}),)
    policy = torchscript(folder / "policy.pt", network(LEG_BY_LEG, GYM_SCALES))
    return {"walker": policy, "config": config, "speeds": SPEEDS}


def legged_gym(folder: Path) -> Files:
    """Files of unitree_rl_gym: TorchScript and go2.yaml, legs FL, FR, RL, RR."""
    config = {
        "simulation_dt": 0.005,
        "control_decimation": 4,
        "kps": [KP] * 12,
        "kds": [KD] * 12,
        "default_angles": [POSE[name] for name in LEG_BY_LEG],
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "action_scale": ACTION_SCALE,
        "cmd_scale": list(GYM_SCALES["velocity_commands"]),
        "num_actions": 12,
        "num_obs": 45,
    }
    policy = torchscript(folder / "policy.pt", network(LEG_BY_LEG, GYM_SCALES))
    config = (written(folder / "go2.yaml", config),)
    return {"walker": policy, "config": config, "joint_order": "leg-by-leg", "speeds": SPEEDS}


def mjlab(folder: Path) -> Files:
    """One file of mjlab: ONNX with metadata, unscaled observations, legs FL, FR, RL, RR."""
    unscaled = {name: (1.0,) for name in SCALES}
    model = network(LEG_BY_LEG, unscaled)
    metadata = {
        "joint_names": LEG_BY_LEG,
        "joint_stiffness": [f"{KP:.3f}"] * 12,
        "joint_damping": [f"{KD:.3f}"] * 12,
        "default_joint_pos": [f"{POSE[name]:.3f}" for name in LEG_BY_LEG],
        "action_scale": [f"{ACTION_SCALE:.3f}"] * 12,
        "observation_names": [
            *("base_ang_vel", "projected_gravity", "command", "joint_pos", "joint_vel", "actions")
        ],
    }
    for key, values in metadata.items():
        model.metadata_props.add(key=key, value=",".join(values))
    onnx.save(model, folder / "mjlab.onnx")
    return {"walker": folder / "mjlab.onnx", "speeds": SPEEDS}


def network(joints: Sequence[str], scales: Mapping[str, Sequence[float]]) -> onnx.ModelProto:
    """The network for joints in this order and observations of these scales."""
    model = onnx.load(FOLDER / "policy.onnx")
    order = [JOINTS.index(name) for name in joints]
    columns, factors = [], []
    for name, own in SCALES.items():
        size = len(DESCRIPTION["observations"][name]["scale"])
        at = len(columns)
        columns += [at + i for i in (order if size == len(order) else range(size))]
        factors += (own / np.resize(scales.get(name, own), size)).tolist()
    weights, biases = layers(model)
    change(weights[0], numpy_helper.to_array(weights[0])[:, columns] * factors)
    for last in (weights[-1], biases[-1]):
        change(last, numpy_helper.to_array(last)[order])
    return model


def layers(model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    """Weights (m, n) and biases (m,) of the layers, in order."""
    named = {tensor.name: tensor for tensor in model.graph.initializer}
    inputs = [node.input for node in model.graph.node if node.op_type == "Gemm"]
    return [named[each[1]] for each in inputs], [named[each[2]] for each in inputs]


def change(tensor: Any, values: np.ndarray) -> None:
    """Give a tensor of a model other values."""
    tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))


def torchscript(path: Path, model: onnx.ModelProto) -> Path:
    """The network as TorchScript."""
    import torch

    parts: list[torch.nn.Module] = []
    for weight, bias in zip(*layers(model), strict=True):
        values = [torch.tensor(numpy_helper.to_array(each)) for each in (weight, bias)]
        linear = torch.nn.Linear(*reversed(values[0].shape))
        linear.load_state_dict(dict(zip(("weight", "bias"), values, strict=True)))
        parts += [linear, torch.nn.ELU()]
    torch.jit.script(torch.nn.Sequential(*parts[:-1])).save(str(path))
    return path


def written(path: Path, content: Mapping[str, Any]) -> Path:
    """A YAML file."""
    path.write_text(yaml.safe_dump(dict(content)))
    return path
