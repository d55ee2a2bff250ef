"""One graph of a walker: sensors, observation, history, network, and joint targets that are held.

    command (3), linear_velocity (3), angular_velocity (3), gravity (3), joint_angles (12),
    joint_velocities (12), height_scan (187), state (n) -> joint_targets (12), next_state (n)

The state holds earlier observations, the last action, the targets, the phase of the gait, and
how many control steps they are still held. It starts with 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

from pixelgait.export.walkers.network import IR_VERSION, network_input
from pixelgait.export.walkers.walker import SENSED, Term, Walker, places
from pixelgait.robot.bundle.low_level_graph import CARRIED, FEEDS, TARGETS
from pixelgait.robot.spec import Array, RobotSpec

POLICY = "policy/"  # prefix of the network's names
STATE = "state"


class Nodes:
    """Nodes and constants of a graph that grows."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        """The name of a new constant."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """The name of the output of a new node."""
        output = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def clipped(self, value: str, least: Any, most: Any) -> str:
        """The value within limits, as far as they are finite."""
        if np.isfinite(least).any():
            value = self.add("Max", value, self.constant(np.maximum(least, -3e38)))
        if np.isfinite(most).any():
            value = self.add("Min", value, self.constant(np.minimum(most, 3e38)))
        return value

    def scaled(self, value: str, scale: Any) -> str:
        """The value times a constant."""
        return value if np.all(scale == 1.0) else self.add("Mul", value, self.constant(scale))


def composed(walker: Walker, network: onnx.ModelProto, spec: RobotSpec) -> onnx.ModelProto:
    """The graph of a walker on this robot."""
    g, order, keep = Nodes(), places(walker, spec), walker.size * (walker.depth - 1)
    sizes = {"history": keep, "action": 12, "held": 12, "left": 1, "begun": 1, "phase": 1}
    sizes = {name: size for name, size in sizes.items() if size}
    split = g.constant(list(sizes.values()), np.int64)
    parts = [f"{name}_before" for name in sizes]
    g.nodes.append(helper.make_node("Split", [STATE, split], parts, axis=0))
    due = g.add("Less", "left_before", g.constant([0.5]))
    phase = _phase(g, walker)
    observation = _observation(g, walker, order, phase)
    action = _through(g, network, _network_input(g, walker, observation))
    action = g.clipped(action, *(walker.action_clip or (-math.inf, math.inf)))
    scaled = g.scaled(action, walker.action_scale)
    target = g.add("Add", scaled, g.constant(walker.action_offset))
    target = g.clipped(target, *(walker.target_clip or (-math.inf, math.inf)))
    fresh = g.add("Gather", target, g.constant(np.argsort(order), np.int64))
    g.add("Where", due, fresh, "held_before", name=TARGETS)
    less = g.add("Sub", "left_before", g.constant([1.0]))
    more = g.constant([walker.period_steps - 1.0])
    after = {
        "history": "kept",
        "action": g.add("Where", due, action, "action_before"),
        "held": TARGETS,
        "left": g.add("Where", due, more, less),
        "begun": g.constant([1.0]),
        "phase": g.add("Where", due, phase, "phase_before"),
    }
    if keep:
        newest = g.add("Slice", "observations", *(g.constant([at], np.int64) for at in (0, keep)))
        g.add("Where", due, newest, "history_before", name="kept")
    g.add("Concat", *(after[name] for name in sizes), name=CARRIED[STATE], axis=0)
    return _model(g, network, _sensed(walker), sum(sizes.values()))


def last_action(walker: Walker, state: Array) -> Array:
    """The last action (12,) in a graph's state (n,)."""
    begin = walker.size * (walker.depth - 1)
    return state[begin : begin + 12]


def _sensed(walker: Walker) -> list[str]:
    """Names of the sensors' tensors that the walker's terms need, in the order of `FEEDS`."""
    needed = {SENSED[term.name] for term in walker.terms if term.name in SENSED}
    return [name for name in FEEDS if name in needed]


def _phase(g: Nodes, walker: Walker) -> str:
    """The phase of the gait, 0 to 1, of the action that is due."""
    if not walker.phase_period_s:
        return "phase_before"
    step = 1.0 / (walker.rate_hz * walker.phase_period_s)
    later = g.add("Add", "phase_before", g.constant([step]))
    return g.add("Sub", later, g.add("Floor", later))


def _observation(g: Nodes, walker: Walker, order: Sequence[int], phase: str) -> str:
    """The newest observation (n,)."""
    joints = g.constant(order, np.int64)
    turn = g.add("Mul", phase, g.constant([2.0 * math.pi]))
    angles = g.add("Gather", "joint_angles", joints) if _uses(walker, "joint_angles") else ""
    parts = []
    for term in walker.terms:
        if term.name == "gait_phase":
            value = g.add("Concat", g.add("Sin", turn), g.add("Cos", turn), axis=0)
        elif term.name == "last_action":
            value = "action_before"
        elif term.name == "joint_pos":
            value = angles
        elif term.name == "joint_pos_rel":
            value = g.add("Sub", angles, g.constant(walker.default_pose_rad))
        elif term.name == "joint_vel_rel":
            value = g.add("Gather", "joint_velocities", joints)
        else:
            value = SENSED[term.name]
        parts.append(_processed(g, walker, term, value))
    return g.add("Concat", *parts, axis=0)


def _uses(walker: Walker, tensor: str) -> bool:
    return any(SENSED.get(term.name) == tensor for term in walker.terms)


def _processed(g: Nodes, walker: Walker, term: Term, value: str) -> str:
    """A term, less its offset, clipped and scaled in the walker's order."""
    if term.offset:
        value = g.add("Sub", value, g.constant(term.offset))
    if walker.scale_first:
        return g.clipped(g.scaled(value, term.scale), *term.clip)
    return g.scaled(g.clipped(value, *term.clip), term.scale)


def _network_input(g: Nodes, walker: Walker, newest: str) -> str:
    """Values in the order of the network's input, from all observations, the newest first."""
    if walker.depth == 1:
        g.add("Identity", newest, name="observations")
    else:
        older = "history_before"
        if walker.fill_first:
            again = g.add("Tile", newest, g.constant([walker.depth - 1], np.int64))
            begun = g.add("Greater", "begun_before", g.constant([0.5]))
            older = g.add("Where", begun, older, again)
        g.add("Concat", newest, older, name="observations", axis=0)
    order = [age * walker.size + at for age, at in walker.layout()]
    return g.add("Gather", "observations", g.constant(order, np.int64))


def _through(g: Nodes, network: onnx.ModelProto, values: str) -> str:
    """The network's action (12,) for these values."""
    given, prefixed = network_input(network), compose.add_prefix_graph(network.graph, POLICY)
    rank = len(given.type.tensor_type.shape.dim)
    shape = g.constant((1,) * (rank - 1) + (-1,), np.int64)
    g.add("Reshape", values, shape, name=POLICY + given.name)
    g.nodes += prefixed.node
    g.constants += prefixed.initializer
    return g.add("Reshape", prefixed.output[0].name, g.constant([-1], np.int64))


def _model(
    g: Nodes, network: onnx.ModelProto, sensed: Sequence[str], state: int
) -> onnx.ModelProto:
    def tensor(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])

    inputs = [tensor(name, FEEDS[name][0]) for name in sensed] + [tensor(STATE, state)]
    outputs = [tensor(TARGETS, 12), tensor(CARRIED[STATE], state)]
    graph = helper.make_graph(g.nodes, "walker", inputs, outputs, g.constants)
    model = helper.make_model(graph, opset_imports=network.opset_import, ir_version=IR_VERSION)
    for part in (*model.graph.node, *model.graph.initializer):
        part.doc_string = ""
        if hasattr(part, "metadata_props"):
            del part.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    return model
