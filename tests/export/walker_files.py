"""Walking policies of others, made for tests: networks and the files that describe them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

from pixelgait.robot.spec import GO2, Array

SDK = GO2.joint_names  # FR, FL, RR, RL
JOINT_BY_JOINT = [
    f"{leg}_{joint}_joint" for joint in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")
]
IDS = [SDK.index(name) for name in JOINT_BY_JOINT]  # joint_ids_map of an Isaac Lab policy
POSE = {"hip": 0.0, "thigh": 0.8, "calf": -1.5}
TERMS = {
    "base_ang_vel": 0.25,
    "projected_gravity": 1.0,
    "velocity_commands": 1.0,
    "joint_pos_rel": 1.0,
    "joint_vel_rel": 0.05,
    "last_action": 1.0,
}
RL_SAR_TERMS = ["ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"]


def pose_of(names: Any) -> list[float]:
    """The pose in an order of joints."""
    return [POSE[name.split("_")[1]] for name in names]


def save_linear(
    path: Path, matrix: Array, metadata: dict[str, str] | None = None, opset: int = 17
) -> Path:
    """A network of one linear layer (12, n), as ONNX with a batch axis."""
    inputs = matrix.shape[1]
    nodes = [helper.make_node("MatMul", ["obs", "weights"], ["actions"])]
    weights = numpy_helper.from_array(matrix.T.astype(np.float32), "weights")

    def tensor(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])

    graph = helper.make_graph(
        nodes, "policy", [tensor("obs", inputs)], [tensor("actions", 12)], [weights]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    return path


def deploy_yaml(folder: Path, terms: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A deploy.yaml as unitree_rl_lab writes it; `terms` are its observations."""
    sizes = {"base_ang_vel": 3, "projected_gravity": 3, "velocity_commands": 3, "gait_phase": 2}
    observations = {
        name: {"params": {}, "clip": None, "scale": [scale] * sizes.get(name, 12)}
        | {"history_length": 1}
        for name, scale in TERMS.items()
    }
    content = {
        "joint_ids_map": IDS,
        "step_dt": 0.02,
        "stiffness": [20.0 + i for i in range(12)],  # in the SDK's order
        "damping": [0.5 + 0.1 * i for i in range(12)],
        "default_joint_pos": pose_of(JOINT_BY_JOINT),
        "commands": {
            "base_velocity": {
                "ranges": {
                    "lin_vel_x": [-1.0, 1.0],
                    "lin_vel_y": [-0.4, 0.4],
                    "ang_vel_z": [-1.0, 1.0],
                    "heading": None,
                }
            }
        },
        "actions": {
            "JointPositionAction": {
                "clip": None,
                "joint_names": [".*"],
                "scale": [0.25] * 12,
                "offset": pose_of(JOINT_BY_JOINT),
                "joint_ids": None,
            }
        },
        "observations": observations if terms is None else terms,
        **changes,
    }
    path = folder / "deploy.yaml"
    text = yaml.safe_dump(content, sort_keys=False)
    joints = "asset_cfg: {joint_ids: !!python/object/apply:builtins.slice [null, null, null]}"
    text = text.replace("joint_ids: null", "joint_ids: null  # " + joints)
    path.write_text(text + f"other: {{{joints}}}\n")
    return path


def rl_sar_yaml(folder: Path, **changes: Any) -> list[Path]:
    """base.yaml and config.yaml as rl_sar has them, for a policy with legs FL, FR, RL, RR."""
    base = {
        **{"dt": 0.005, "decimation": 4, "joint_names": list(SDK)},
        **{"joint_mapping": list(range(12)), "default_dof_pos": [0.0, 0.9, -1.7] * 4},
    }
    mapping = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
    config = {
        "num_observations": 45,
        "observations": RL_SAR_TERMS,
        "observations_history": [],
        "observations_history_priority": "time",
        "clip_obs": 100.0,
        "clip_actions_lower": [-100.0] * 12,
        "clip_actions_upper": [100.0] * 12,
        "rl_kp": [20.0 + i for i in range(12)],  # in the policy's order
        "rl_kd": [0.5] * 12,
        "action_scale": [0.125, 0.25, 0.25] * 4,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "commands_scale": [2.0, 2.0, 0.25],
        "default_dof_pos": [0.0, 0.8, -1.5] * 4,
        "joint_mapping": mapping,
        **changes,
    }
    paths = []
    for name, content in (("base.yaml", {"go2": base}), ("config.yaml", {"go2/mine": config})):
        paths.append(folder / name)
        paths[-1].write_text(yaml.safe_dump(content))
    return paths


def legged_gym_yaml(folder: Path, **changes: Any) -> Path:
    """A configuration as unitree_rl_gym's deployment has it."""
    content = {
        "policy_path": "policy.pt",
        "simulation_dt": 0.002,
        "control_decimation": 10,
        "kps": [20.0] * 12,
        "kds": [0.5] * 12,
        "default_angles": [0.0, 0.8, -1.5] * 4,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "action_scale": 0.25,
        "cmd_scale": [2.0, 2.0, 0.25],
        "num_actions": 12,
        "num_obs": 45,
        **changes,
    }
    path = folder / "go2.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def mjlab_metadata(**changes: str) -> dict[str, str]:
    """Metadata as mjlab's exporter writes them."""
    names = [f"{leg}_{j}_joint" for leg in ("FL", "FR", "RL", "RR") for j in POSE]
    return {
        "run_path": "none",
        "joint_names": ",".join(names),
        "joint_stiffness": ",".join(["20.000"] * 12),
        "joint_damping": ",".join(["0.500"] * 12),
        "default_joint_pos": ",".join(f"{value:.3f}" for value in pose_of(names)),
        "command_names": "twist",
        "observation_names": "base_ang_vel,projected_gravity,joint_pos,joint_vel,actions,command",
        "action_scale": ",".join(["0.250"] * 12),
        **changes,
    }
