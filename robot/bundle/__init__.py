"""The policy bundle: two ONNX graphs, their contract and a golden vector, read and verified.

A bundle is a folder:

    contract.json     how to feed the graphs: tensors, joints, gains, limits, rates, units, hashes
    high_level.onnx   image uint8 [H, W, C], goal [2] or ahead [1], state [n]
                      -> latent [2], duration_steps [1], attention [H', W'], next_state [n]
    low_level.onnx    any of latent [2], command [3], imu [4], linear_velocity [3],
                      angular_velocity [3], gravity [3], joint_angles [12],
                      joint_velocities [12], height_scan [187], phase [1], state [n]
                      -> joint_targets [12], next_phase [1], next_state [n]
    golden.json       inputs and outputs of both graphs, re-checked on the CPU that loads them

A high level takes a goal, the bearing of "ahead", or neither; a state only if it is recurrent.
"""

from pixelgait.robot.bundle.bundle import (
    CONTRACT,
    DECISION,
    DRIVER,
    FASTEST,
    FASTEST_PACE,
    FILES,
    FIXED,
    GOLDEN,
    HIGH_LEVEL,
    KEYS,
    LOW_LEVEL,
    MEMORY,
    OBJECTS,
    SCHEMA,
    SHIPPED,
    START,
    TOLERANCE,
    WALKER,
    Bundle,
    BundleError,
    Tensors,
    contract_hash,
    controller_of,
    find_bundle,
    golden_tolerance,
    legs_contract,
    load_bundle,
    shipped_low_level,
    shipped_names,
    single_thread_session,
    tensors_of,
)

__all__ = [
    "CONTRACT", "DECISION", "DRIVER", "FASTEST", "FASTEST_PACE", "FILES", "FIXED", "GOLDEN",
    "HIGH_LEVEL", "KEYS", "LOW_LEVEL", "MEMORY", "OBJECTS", "SCHEMA", "SHIPPED", "START",
    "TOLERANCE", "WALKER",
    "Bundle", "BundleError", "Tensors", "contract_hash", "controller_of", "find_bundle",
    "golden_tolerance", "legs_contract", "load_bundle", "shipped_low_level",
    "shipped_names", "single_thread_session", "tensors_of",
]  # fmt: skip
