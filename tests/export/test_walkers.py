"""Walking policies of others: what a graph feeds them is what their files say, trap by trap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from pixelgait.export import walker_exporter
from pixelgait.export.command import trial_of_walker
from pixelgait.export.options import ExportConfig, check
from pixelgait.export.walker_card import summary
from pixelgait.export.walkers import trial
from pixelgait.export.walkers.compose import composed
from pixelgait.export.walkers.network import runner
from pixelgait.export.walkers.options import USUAL_COMMAND, Told
from pixelgait.export.walkers.reading import read_walker
from pixelgait.export.walkers.trial import Answer, Climb, Trial
from pixelgait.export.walkers.walker import Reference, Walker, places
from pixelgait.robot.bundle import (
    CONTRACT,
    HIGH_LEVEL,
    LOW_LEVEL,
    Bundle,
    load_bundle,
    single_thread_session,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.spec import GO2, Array, Legs, robot_numbers
from tests.export import own_walker
from tests.export.walker_files import (
    JOINT_BY_JOINT,
    POSE,
    SDK,
    TERMS,
    deploy_yaml,
    legged_gym_yaml,
    mjlab_metadata,
    rl_sar_yaml,
    save_linear,
)
from tests.helpers import documented_keys


def sensed(seed: int) -> dict[str, Array]:
    """Random values of all sensors, in the robot's order."""
    rng = np.random.default_rng(seed)
    sizes = {
        "command": 3,
        "angular_velocity": 3,
        "gravity": 3,
        "joint_angles": 12,
        "joint_velocities": 12,
        "linear_velocity": 3,
        "height_scan": 187,
    }
    return {name: rng.uniform(-1.0, 1.0, n).astype(np.float32) for name, n in sizes.items()}


def in_order(values: Array, names: list[str]) -> Array:
    """Values of the robot's joints in another order."""
    return values[[SDK.index(name) for name in names]]


class Graph:
    """A composed graph that carries its state."""

    def __init__(self, walker: Walker, network: onnx.ModelProto) -> None:
        model = composed(walker, network, GO2)
        self.session = single_thread_session(model.SerializeToString())
        self.inputs = {each.name: each.shape[0] for each in self.session.get_inputs()}
        self.state = np.zeros(self.inputs["state"], np.float32)

    def step(self, given: dict[str, Array]) -> Array:
        fed = {name: given[name] for name in self.inputs if name != "state"}
        names = ["joint_targets", "next_state"]
        targets, self.state = self.session.run(names, {**fed, "state": self.state})
        return np.asarray(targets)


def observed(folder: Path, size: int, config: Any, steps: int) -> Array:
    """What the network is fed in each of its steps (steps, size), read off its actions.

    A network that gives back twelve values of its observation shows them as joint targets.
    """
    found = np.zeros((steps, size))
    for first in range(0, size, 12):
        count = min(12, size - first)
        matrix = np.zeros((12, size))
        matrix[range(count), range(first, first + count)] = 1.0
        files = config if isinstance(config, list) else [config]
        policy = save_linear(folder / "policy.onnx", matrix)
        walker, network = read_walker(policy, files, GO2, Told())
        graph, order = Graph(walker, network), places(walker, GO2)
        for step in range(steps):
            targets = graph.step(sensed(step))
            for other in range(1, walker.period_steps):  # held until the next action
                assert (graph.step(sensed(1000 + other)) == targets).all()
            action = (targets[order] - walker.action_offset) / walker.action_scale
            found[step, first : first + count] = action[:count]
    return found


def test_a_deploy_yaml_is_fed_in_the_policys_order_and_its_gains_are_in_the_sdks(
    tmp_path: Path,
) -> None:
    config = deploy_yaml(tmp_path)
    rows = observed(tmp_path, 33, deploy_yaml(tmp_path, without("last_action")), 2)
    given = sensed(1)
    pose = np.array(
        [{"hip": 0.0, "thigh": 0.8, "calf": -1.5}[n.split("_")[1]] for n in JOINT_BY_JOINT]
    )
    expected = np.concatenate(
        (
            0.25 * given["angular_velocity"],
            given["gravity"],
            given["command"],
            in_order(given["joint_angles"], JOINT_BY_JOINT) - pose,
            0.05 * in_order(given["joint_velocities"], JOINT_BY_JOINT),
        )
    )
    np.testing.assert_allclose(rows[1], expected, atol=1e-5)
    config = deploy_yaml(tmp_path)
    walker, _ = read_walker(
        save_linear(tmp_path / "p.onnx", np.zeros((12, 45))), [config], GO2, Told()
    )
    back = np.argsort(places(walker, GO2))
    np.testing.assert_allclose(walker.kp_nm_per_rad[back], 20.0 + np.arange(12))
    assert walker.command == ((-1.0, 1.0), (-0.4, 0.4), (-1.0, 1.0))
    assert not walker.notes


def terms_of(**changes: dict[str, Any]) -> dict[str, Any]:
    """Observations of a deploy.yaml: two short terms."""
    usual: dict[str, Any] = {"params": {}, "clip": None, "scale": None, "history_length": 1}
    return {
        "base_ang_vel": {**usual, **changes.get("base_ang_vel", {})},
        "projected_gravity": {**usual, **changes.get("projected_gravity", {})},
    }


def without(name: str) -> dict[str, Any]:
    """The usual observations of a deploy.yaml but one."""
    return {term: {"scale": scale} for term, scale in TERMS.items() if term != name}


@pytest.mark.parametrize("by_time", [False, True])
def test_an_isaac_lab_history_goes_from_the_oldest_and_begins_with_the_first(
    tmp_path: Path, by_time: bool
) -> None:
    long = {"history_length": 3}
    terms = terms_of(base_ang_vel=long, projected_gravity=long)
    config = deploy_yaml(tmp_path, {**terms, "use_gym_history": by_time})
    rows = observed(tmp_path, 18, config, 4)
    for step, row in enumerate(rows):
        past = [sensed(max(0, step - age)) for age in (2, 1, 0)]
        terms_in_time = [[p["angular_velocity"], p["gravity"]] for p in past]
        blocks = terms_in_time if by_time else list(zip(*terms_in_time, strict=True))
        np.testing.assert_allclose(
            row, np.concatenate([np.concatenate(b) for b in blocks]), atol=1e-5
        )


def test_velocity_and_ground_are_fed_as_isaac_lab_observes_them(tmp_path: Path) -> None:
    term: dict[str, Any] = {"clip": [-1.0, 1.0], "scale": [2.0] * 187}
    velocity = {"base_lin_vel": {"clip": None, "scale": [2.0, 2.0, 2.0]}}
    for params, offset in (({}, 0.5), ({"offset": 0.3}, 0.3)):
        terms = {**velocity, "height_scan": {**term, "params": params}}
        walker, network = read_walker(
            save_linear(tmp_path / "p.onnx", np.ones((12, 190))),
            [deploy_yaml(tmp_path, terms)],
            GO2,
            Told(),
        )
        graph, reference = Graph(walker, network), Reference(walker, GO2, runner(network))
        assert set(graph.inputs) == {"linear_velocity", "height_scan", "state"}
        for step in range(4):
            given = {**sensed(step), "height_scan": np.float32(2.0) * sensed(step)["height_scan"]}
            targets = graph.step(given)
            np.testing.assert_allclose(targets, reference.step(given), atol=1e-4)
            if step % walker.period_steps == 0:
                ground = np.clip(given["height_scan"] - offset, -1.0, 1.0)
                action = 2.0 * (given["linear_velocity"].sum() + ground.sum())
                np.testing.assert_allclose(
                    targets[places(walker, GO2)], walker.action_offset + 0.25 * action, atol=1e-4
                )


def test_a_policy_of_legged_gym_may_observe_the_velocity_first(tmp_path: Path) -> None:
    policy = save_linear(tmp_path / "policy.onnx", np.zeros((12, 48)))
    walker, _ = read_walker(policy, [legged_gym_yaml(tmp_path, num_obs=48)], GO2, Told())
    assert walker.terms[0].name == "base_lin_vel"
    assert walker.terms[0].scale.tolist() == [2.0] * 3
    assert "obs_scales.lin_vel: 2 (legged_gym's default)" in walker.notes
    with pytest.raises(UserError, match="235 observations end with measured heights"):
        read_walker(policy, [legged_gym_yaml(tmp_path, num_obs=235)], GO2, Told())


@pytest.mark.parametrize("priority", ["time", "term"])
def test_an_rl_sar_history_lists_ages_and_begins_with_zeros(tmp_path: Path, priority: str) -> None:
    config = rl_sar_yaml(
        tmp_path,
        observations=["ang_vel", "gravity_vec"],
        observations_history=[0, 2],
        observations_history_priority=priority,
        clip_obs=0.2,
    )
    rows = observed(tmp_path, 12, config, 4)
    nothing = {"angular_velocity": np.zeros(3), "gravity": np.zeros(3)}
    for step, row in enumerate(rows):
        past = [sensed(step - age) if step >= age else nothing for age in (0, 2)]
        in_time = [
            [np.clip(0.25 * p["angular_velocity"], -0.2, 0.2), np.clip(p["gravity"], -0.2, 0.2)]
            for p in past
        ]
        blocks = in_time if priority == "time" else list(zip(*in_time, strict=True))
        np.testing.assert_allclose(
            row, np.concatenate([np.concatenate(b) for b in blocks]), atol=1e-5
        )


@pytest.mark.parametrize("scale_first", [False, True])
def test_terms_are_clipped_before_they_are_scaled_unless_the_file_says_so(
    tmp_path: Path, scale_first: bool
) -> None:
    terms = terms_of(base_ang_vel={"clip": [-0.3, 0.5], "scale": [2.0, 2.0, 2.0]})
    config = deploy_yaml(tmp_path, {**terms, "scale_first": scale_first})
    row, rate = observed(tmp_path, 6, config, 1)[0], sensed(0)["angular_velocity"]
    expected = np.clip(2.0 * rate, -0.3, 0.5) if scale_first else 2.0 * np.clip(rate, -0.3, 0.5)
    np.testing.assert_allclose(row[:3], expected, atol=1e-6)


def test_gait_phase_advances_before_it_is_first_fed(tmp_path: Path) -> None:
    phase = {"params": {"period": 0.5}, "scale": None, "history_length": 1}
    rows = observed(tmp_path, 2, deploy_yaml(tmp_path, {"gait_phase": phase}), 30)
    turns = 2.0 * np.pi * 0.02 / 0.5 * np.arange(1, 31)
    np.testing.assert_allclose(rows, np.array((np.sin(turns), np.cos(turns))).T, atol=1e-4)


def test_the_last_action_is_the_networks_own_before_scale_and_offset(tmp_path: Path) -> None:
    matrix = np.zeros((12, 45))
    matrix[range(12), range(9, 21)] = 1.0  # actions are joint angles
    matrix[range(12), range(33, 45)] = 0.5  # and half of the last ones
    walker, network = read_walker(
        save_linear(tmp_path / "p.onnx", matrix), rl_sar_yaml(tmp_path), GO2, Told()
    )
    graph, order = Graph(walker, network), places(walker, GO2)
    last = np.zeros(12)
    for step in range(4):
        targets = graph.step(sensed(step))
        graph.step(sensed(99))
        last = (
            in_order(sensed(step)["joint_angles"], own_walker.LEG_BY_LEG)
            - walker.default_pose_rad
            + last / 2
        )
        expected = walker.default_pose_rad + walker.action_scale * last
        np.testing.assert_allclose(targets[order], expected, atol=1e-5)


def test_a_configuration_of_legged_gym_names_joints(tmp_path: Path) -> None:
    angles = {f"{leg}_{j}_joint": v for leg in ("FL", "FR", "RL", "RR") for j, v in POSE.items()}
    content = {
        "init_state": {"default_joint_angles": angles | {"RL_thigh_joint": 1.0}},
        "control": {"stiffness": {"joint": 20.0, "calf_joint": 30.0}, "damping": {"joint": 0.5}}
        | {"action_scale": 0.25, "decimation": 4},
        "commands": {"ranges": {"lin_vel_x": [-1, 1], "lin_vel_y": [0, 0], "ang_vel_yaw": [-1, 1]}},
        "normalization": {"clip_actions": 6.0},
    }
    (tmp_path / "cfg.yaml").write_text(yaml.safe_dump(content))
    policy = save_linear(tmp_path / "policy.onnx", np.ones((12, 45)))
    walker, _ = read_walker(policy, [tmp_path / "cfg.yaml"], GO2, Told())
    assert walker.default_pose_rad[walker.joint_names.index("RL_thigh_joint")] == 1.0
    assert walker.kp_nm_per_rad.tolist() == [20.0, 20.0, 30.0] * 4
    assert walker.command == ((-1.0, 1.0), (0.0, 0.0), (-1.0, 1.0))
    assert walker.terms[2].scale.tolist() == [2.0, 2.0, 0.25]
    assert walker.action_clip is not None
    assert walker.action_clip[1].tolist() == [6.0] * 12
    assert walker.rate_hz == pytest.approx(50.0)
    defaults = [
        *("sim.dt: 0.005", "obs_scales.lin_vel: 2", "obs_scales.ang_vel: 0.25"),
        *("obs_scales.dof_pos: 1", "obs_scales.dof_vel: 0.05"),
        "normalization.clip_observations: 100",
    ]
    assert walker.notes[0].startswith("order of the joints: leg-by-leg")
    assert [note.split(" (")[0] for note in walker.notes[1:]] == defaults
    told = Told(25.0, "leg-by-leg")
    walker, _ = read_walker(policy, [tmp_path / "cfg.yaml"], GO2, told)
    assert walker.rate_hz == 25.0
    assert [note.split(" (")[0] for note in walker.notes] == defaults[1:]


@pytest.mark.parametrize("last_first", [False, True])
def test_the_policys_file_of_rl_sar_has_the_last_word_in_any_order(
    tmp_path: Path, last_first: bool
) -> None:
    policy = save_linear(tmp_path / "policy.onnx", np.ones((12, 45)))
    files = rl_sar_yaml(tmp_path)
    walker, _ = read_walker(policy, files[::-1] if last_first else files, GO2, Told())
    assert walker.joint_names == tuple(own_walker.LEG_BY_LEG)
    assert walker.default_pose_rad.tolist() == [0.0, 0.8, -1.5] * 4


FORMATS = {
    "deploy.yaml": lambda folder: [deploy_yaml(folder)],
    "rl_sar": rl_sar_yaml,
    "rl_sar with a history": lambda folder: rl_sar_yaml(folder, observations_history=[5, 3, 1, 0]),
    "legged_gym": lambda folder: [legged_gym_yaml(folder)],
    "mjlab": lambda _: [],
}


@pytest.mark.parametrize("kind", FORMATS)
def test_the_graph_equals_a_reference_that_is_written_from_the_description(
    tmp_path: Path, kind: str
) -> None:
    rng = np.random.default_rng(0)
    config = FORMATS[kind](tmp_path)
    size = 45 * (4 if "history" in kind else 1)
    policy = save_linear(
        tmp_path / "policy.onnx", 0.2 * rng.standard_normal((12, size)), mjlab_metadata()
    )
    walker, network = read_walker(policy, config, GO2, Told())
    graph, reference = Graph(walker, network), Reference(walker, GO2, runner(network))
    worst = 0.0
    for step in range(60):
        given = sensed(step)
        worst = max(worst, float(np.abs(graph.step(given) - reference.step(given)).max()))
    assert worst < 1e-4
    assert walker.rate_hz == pytest.approx(50.0)


@pytest.mark.parametrize("program", own_walker.FORMATS)
def test_a_walker_walks_alike_in_every_format(tmp_path: Path, program: str) -> None:
    """Its joints have another order there, its observations other scales."""
    first, own = (
        ExportConfig(tmp_path, **own_walker.files(tmp_path, each))
        for each in ("isaac_lab", program)
    )
    walkers = [read_walker(each.walker, each.config, GO2, each.told()) for each in (first, own)]
    graphs = [Graph(*each) for each in walkers]
    for step in range(20):
        wanted, found = (graph.step(sensed(step)) for graph in graphs)
        np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert np.ptp(wanted) > 0.5
    for walker, _ in walkers:
        back = np.argsort(places(walker, GO2))
        assert walker.default_pose_rad[back].tolist() == [0.0, 0.8, -1.5] * 4
        assert set(walker.kp_nm_per_rad) == {own_walker.KP}
        assert walker.rate_hz == pytest.approx(50.0)
        assert np.ravel(walker.command).tolist() == list(own_walker.SPEEDS)


def test_a_network_of_an_old_opset_is_converted_and_one_of_a_new_one_refused(
    tmp_path: Path,
) -> None:
    """Isaac Lab exported opset 11 for years."""
    matrix = np.random.default_rng(0).standard_normal((12, 45))
    old = save_linear(tmp_path / "old.onnx", matrix, opset=11)
    walker, network = read_walker(old, [deploy_yaml(tmp_path)], GO2, Told())
    np.testing.assert_allclose(runner(network)(np.ones(45)), matrix.sum(1), atol=1e-5)
    assert Graph(walker, network).step(sensed(0)).shape == (12,)
    new = save_linear(tmp_path / "new.onnx", matrix, opset=22)
    with pytest.raises(UserError, match="opset 22, expected 21 at most: export it anew"):
        read_walker(new, [deploy_yaml(tmp_path)], GO2, Told())


def test_torchscript_is_read_and_a_size_that_it_does_not_take_is_refused(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(45, 16), torch.nn.ELU(), torch.nn.Linear(16, 12))
    torch.jit.script(module).save(str(tmp_path / "policy.pt"))
    walker, network = read_walker(tmp_path / "policy.pt", rl_sar_yaml(tmp_path), GO2, Told())
    x = np.random.default_rng(0).standard_normal(45)
    with torch.no_grad():
        expected = module(torch.tensor(x, dtype=torch.float32)[None])[0].numpy()
    np.testing.assert_allclose(runner(network)(x), expected, atol=1e-5)
    assert Graph(walker, network).step(sensed(0)).shape == (12,)
    fewer = rl_sar_yaml(tmp_path, observations=["ang_vel"])
    with pytest.raises(UserError, match="does not run on 3 observations"):
        read_walker(tmp_path / "policy.pt", fewer, GO2, Told())
    with pytest.raises(UserError, match="give its --config"):
        read_walker(tmp_path / "policy.pt", [], GO2, Told())
    (tmp_path / "other.pt").write_text("weights")
    with pytest.raises(UserError, match="no TorchScript"):
        read_walker(tmp_path / "other.pt", fewer, GO2, Told())


def test_what_the_files_do_not_say_is_said_with_its_source(tmp_path: Path) -> None:
    policy = save_linear(tmp_path / "policy.onnx", np.zeros((12, 45)), mjlab_metadata())
    walker, _ = read_walker(policy, [], GO2, Told())
    assert [note.split(":")[0] for note in walker.notes] == [
        "rate",
        "velocity commands",
        "scale of base_ang_vel",
        "scale of joint_vel_rel",
    ]
    told = Told(
        50.0,
        None,
        ((-1.0, 1.0), (0.0, 0.0), (-1.0, 1.0)),
        {"base_ang_vel": 0.2, "joint_vel_rel": 0.1},
    )
    walker, _ = read_walker(policy, [], GO2, told)
    assert not walker.notes
    assert walker.terms[0].scale.tolist() == [0.2] * 3
    gym, _ = read_walker(policy, [legged_gym_yaml(tmp_path)], GO2, Told())
    assert gym.joint_names == tuple(own_walker.LEG_BY_LEG)
    assert gym.notes[0].startswith("order of the joints: leg-by-leg")
    sdk, _ = read_walker(policy, [legged_gym_yaml(tmp_path)], GO2, Told(joint_order="sdk"))
    assert sdk.joint_names == SDK
    unsaid, _ = read_walker(policy, [deploy_yaml(tmp_path, commands={})], GO2, Told())
    assert unsaid.notes == (
        "velocity commands: -0.5 to 1; -0.3 to 0.3; -1 to 1 (deploy.yaml names none); "
        "--speeds tells another",
    )
    for stated in ([deploy_yaml(tmp_path)], rl_sar_yaml(tmp_path), [legged_gym_yaml(tmp_path)]):
        with pytest.raises(UserError, match="--rate has no effect: the file says it"):
            read_walker(policy, stated, GO2, Told(100.0))
    untimed = legged_gym_yaml(tmp_path, simulation_dt=None, cmd_scale=None)
    gym, _ = read_walker(policy, [untimed], GO2, Told(100.0, "sdk", USUAL_COMMAND))
    assert gym.rate_hz == 100.0
    assert gym.notes == (
        "clip of observations: 100 (legged_gym's default)",
        "cmd_scale: 1 (unscaled)",
    )
    with pytest.raises(UserError, match="key 'simulation_dt' is missing"):
        read_walker(policy, [untimed], GO2, Told())


@pytest.mark.parametrize("rate_hz", [25.0, 50.0, 100.0])
def test_actions_are_held_for_the_walkers_period(tmp_path: Path, rate_hz: float) -> None:
    rng = np.random.default_rng(0)
    policy = save_linear(tmp_path / "policy.onnx", 0.1 * rng.standard_normal((12, 45)))
    config = deploy_yaml(tmp_path, step_dt=1.0 / rate_hz)
    walker, network = read_walker(policy, [config], GO2, Told())
    graph, reference = Graph(walker, network), Reference(walker, GO2, runner(network))
    targets = [graph.step(sensed(step)) for step in range(24)]
    expected = [reference.step(sensed(step)) for step in range(24)]
    np.testing.assert_allclose(targets, expected, atol=1e-5)
    changes = [i for i in range(1, 24) if not np.array_equal(targets[i - 1], targets[i])]
    assert changes == list(range(int(100.0 / rate_hz), 24, int(100.0 / rate_hz)))


def test_what_rl_sars_files_do_not_say_is_said(tmp_path: Path) -> None:
    policy = save_linear(tmp_path / "policy.onnx", np.zeros((12, 45)))
    lacking = ("joint_mapping", "clip_obs", "dof_vel_scale", "decimation")
    files = rl_sar_yaml(tmp_path, **dict.fromkeys(lacking))
    walker, _ = read_walker(policy, files, GO2, Told(50.0, command=USUAL_COMMAND))
    assert walker.joint_names == SDK
    assert walker.rate_hz == 50.0
    assert [note.split(" (")[0] for note in walker.notes] == [
        *("joint_mapping: 0 to 11", "clip_obs: 100", "dof_vel_scale: 1"),
    ]


def test_a_scale_is_of_an_observation_of_the_policy(tmp_path: Path) -> None:
    terms = "base_ang_vel,projected_gravity,joint_pos,actions,command"
    policy = save_linear(
        tmp_path / "p.onnx", np.zeros((12, 33)), mjlab_metadata(observation_names=terms)
    )
    walker, _ = read_walker(policy, [], GO2, Told(scales={"joint_pos": 0.5}))
    assert walker.terms[2].scale.tolist() == [0.5] * 12
    message = "--scale joint_vel_rel: the policy does not observe it"
    with pytest.raises(UserError, match=message):
        read_walker(policy, [], GO2, Told(scales={"joint_vel_rel": 0.1}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"observations": ["foot_contacts"]},
            "'foot_contacts' cannot be served: feet have no contact",
        ),
        ({"observations": ["height_scan"]}, "'height_scan' is read from a deploy.yaml alone"),
        ({"observations": ["smell"]}, "'smell' is unknown, expected some of base_lin_vel, "),
        (
            {"observations": ["ang_vel"]},
            r"takes 45 values, its description has 3 \(base_ang_vel 3 x 1",
        ),
        ({"decimation": 1}, "rate 200 Hz, expected 25 to 100, the rate of the control loop"),
        ({"decimation": 3}, "rate 66.6667 Hz: its period is no multiple of the control step, 10"),
        ({"decimation": 20}, "rate 10 Hz, expected 25 to 100"),
        (
            {"joint_mapping": [0] * 12},
            r"joint_mapping is \[0, 0, .*, expected each of 0 to 11 once",
        ),
        ({"rl_kp": [20.0]}, r"rl_kp is \[20.0\], expected 12 numbers"),
        ({"rl_kp": None}, "no description of a walker, expected deploy.yaml"),
        ({"joint_names": ["arm"] * 12}, "joint 'arm' is none of go2's"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    policy = save_linear(tmp_path / "policy.onnx", np.zeros((12, 45)))
    config = rl_sar_yaml(tmp_path, **change)
    if change.get("rl_kp", 0) is None:
        config = [config[0]]
    with pytest.raises(UserError, match=message):
        read_walker(policy, config, GO2, Told())


def test_a_deploy_yaml_that_needs_more_than_joints_is_refused(tmp_path: Path) -> None:
    policy = save_linear(tmp_path / "policy.onnx", np.zeros((12, 45)))
    for changes, message in (
        ({"actions": {"JointVelocityAction": {}}}, "expected JointPositionAction alone"),
        ({"observations": {"a": {"b": {}}, "c": {"d": {}}}}, "observations has groups a, c"),
        ({"joint_ids_map": [0] * 12}, "expected each of 0 to 11 once"),
        ({"step_dt": None}, "key 'step_dt' is missing"),
    ):
        with pytest.raises(UserError, match=message):
            read_walker(policy, [deploy_yaml(tmp_path, **changes)], GO2, Told())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a low level, --low-level, or a third-party walking policy, --walker"),
        ({"low_level": Path("walk"), "rate": 50.0}, "--rate has no effect with --low-level"),
        ({"low_level": Path("walk"), "robot": "go2"}, "--robot has no effect with --low-level"),
        ({"low_level": Path("walk"), "pace": 2.0}, "--pace has no effect with --low-level"),
        ({"walker": Path("gone.onnx")}, "gone.onnx: no such file"),
        ({"walker": Path()}, "is a folder, expected the policy's file: .onnx or .pt"),
        ({"walker": Path("p"), "seed": 1}, "--seed has no effect with --walker"),
        ({"walker": Path("gone.onnx"), "encoder": "iap"}, "--encoder is for --low-level"),
        ({"walker": Path("p"), "high_level": Path("gone")}, "bundle 'gone': no contract.json"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check(ExportConfig(tmp_path / "b", **options))


@pytest.mark.parametrize("scale", ["joint_vel_rel", "joint_vel=fast", "smell=1"])
def test_a_scale_names_an_observation_and_a_number(tmp_path: Path, scale: str) -> None:
    with pytest.raises(UserError, match=r"expected NAME=NUMBER|'smell' is unknown"):
        ExportConfig(tmp_path, scale=("joint_vel_rel=0.05", scale)).told()


def test_the_card_says_what_a_walker_cannot_do() -> None:
    stands = Answer("pybullet", "stand", (0, 0, 0), (0.0, 0.0, 0.2), None, 16.0, 9.0, 9.0, 0.09)
    aside = replace(stands, command="left", asked=(0, 0.3, 0), reached=(0.0, 0.1, 0.0), limited=0.7)
    found = Trial(
        [stands, aside], [Climb("mujoco", "kerb of 8 cm", 1, 3)], {"pybullet": 3}, 0.2, False
    )
    assert summary(found) == [
        "* Falls: none.",
        "* Obeyed by less than 50 %: left in pybullet.",
        "* Pushes of 0.5 m/s survived: 3 of 4 in pybullet.",
        "* Climbed in mujoco: kerb of 8 cm 1 of 3.",
        "* Falls of randomised robots (masses, friction, motors, delays of 0 to 40 ms, noise): "
        "0 of 8.",
        "* Steps whose targets the supervisor limited: 9 to 70 %.",
        "* Told to stand in pybullet it moves: 0.00 m/s ahead, 0.00 m/s left, 0.20 rad/s.",
        "* It does not turn on the spot: it is commanded 0.2 m/s at least in turns.",
    ]
    never = "* It does not turn on the spot: its ranges have no turn with a speed ahead."
    found.least_turning_speed_m_per_s = 0.0
    assert summary(found)[-1] == never
    found.answers.append(replace(stands, command="turn left at 0.3 m/s", asked=(0.3, 0, 0.8)))
    assert summary(found)[-1] == "* It does not turn on the spot: not at 0.3 m/s either."


@pytest.mark.parametrize(
    ("ahead", "turn", "tried", "least"),
    [
        (1.0, 0.5, ["left at 0.1", "right at 0.1", "left at 0.2", "right at 0.2"], 0.2),
        (0.15, 0.5, ["left at 0.1", "right at 0.1"], 0.0),
        (1.0, 0.0, [], 0.0),
    ],
)
def test_a_turning_speed_is_one_at_which_it_turns_to_both_sides_within_its_ranges(
    monkeypatch: pytest.MonkeyPatch, ahead: float, turn: float, tried: list[str], least: float
) -> None:
    """A walker that turns left from 0.1 m/s on, right from 0.2."""

    def drive(_: Any, __: Any, engine: str, name: str, asked: Array) -> Answer:
        speed, left, rate = asked.tolist()
        turns = speed >= (0.1 if rate > 0.0 else 0.2)
        reached = (speed, left, rate * turns)
        return Answer(engine, name, (speed, left, rate), reached, None, 1.0, 1.0, 1.0, 0.0)

    monkeypatch.setattr(trial, "drive", drive)
    legs = Legs(np.ones(12), np.ones(12), np.zeros(12), ((-ahead, ahead), (0, 0), (-turn, turn)))
    bundle: Any = SimpleNamespace(legs=legs)
    found = Trial()
    for name in ("turn left", "turn right") if turn else ():
        asked = np.array((0.0, 0.0, turn if name == "turn left" else -turn))
        found.answers.append(drive(None, None, "pybullet", name, asked))
    before = len(found.answers)
    trial._find_turning_speed(bundle, None, "pybullet", found)  # type: ignore[arg-type]
    assert [each.command for each in found.answers[before:]] == [f"turn {t} m/s" for t in tried]
    assert {abs(each.asked[2]) for each in found.answers} <= {turn}
    assert found.least_turning_speed_m_per_s == least
    assert not found.turns_on_the_spot


def test_a_walker_of_a_robot_file_walks_straight_ahead_and_its_figures_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(bundle: Bundle) -> Trial:
        inputs = bundle.contract["graphs"][LOW_LEVEL]["inputs"]
        still = {name: np.zeros(each["shape"], np.float32) for name, each in inputs.items()}
        stands = Answer("mujoco", "stand", (0, 0, 0), (0, 0, 0), None, 9.0, 9.0, 9.0, 0.0)
        return Trial([stands], sensed=[[still]])

    monkeypatch.setattr(walker_exporter, "hold_trial", held)
    files = own_walker.files(tmp_path, "isaac_lab")
    file, out, figures = (tmp_path / name for name in ("mine.yaml", "out", "parity.json"))
    file.write_text(yaml.safe_dump(robot_numbers(replace(GO2, name="mine"))))
    walker_exporter.export_walker(ExportConfig(out, robot=str(file), json=figures, **files))
    contract, found = read_json(out / CONTRACT), read_json(figures)
    assert contract["robot"] == "mine"
    assert contract["files"][HIGH_LEVEL] == load_bundle("walk").contract["files"][HIGH_LEVEL]
    assert found["sha256"] == contract["sha256"]
    assert found["settings"]["config"] == [str(each) for each in files["config"]]
    assert found.keys() == documented_keys("Parity of a walker")
    assert found["settings"].keys() == documented_keys("Parity of a walker", "settings")
    assert found["max_abs_difference_rad"] < 1e-4
    assert found["trial"] == contract["low_level"]["trial"]


def test_a_recurrent_network_and_another_file_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "policy.onnx"
    text.write_text("no network")
    with pytest.raises(UserError, match="neither ONNX nor TorchScript"):
        read_walker(text, [deploy_yaml(tmp_path)], GO2, Told())
    policy = save_linear(tmp_path / "p.onnx", np.zeros((12, 45)))
    with pytest.raises(UserError, match="no metadata that describe it: give --config"):
        read_walker(policy, [], GO2, Told())
    model = onnx.load(policy)
    extra = model.graph.input.add()
    extra.CopyFrom(model.graph.input[0])
    extra.name = "h_in"
    onnx.save(model, policy)
    with pytest.raises(UserError, match="takes 'h_in' besides an observation"):
        read_walker(policy, [deploy_yaml(tmp_path)], GO2, Told())


@pytest.mark.parametrize(
    ("bundle", "seeing", "where"),
    [
        ("walk-go2", False, "--task follow --scene flat"),
        ("rover-go2", True, ""),
        ("navigator-go2", True, "--scene rooms"),
    ],
)
def test_an_imported_walker_is_evaluated_by_what_drives_it(
    bundle: str, seeing: bool, where: str
) -> None:
    """On the obstacle course a walker without a camera policy walks against obstacles."""
    line = trial_of_walker(load_bundle(bundle).folder, seeing)
    assert line.partition(bundle)[2] == f" {where}".rstrip()
