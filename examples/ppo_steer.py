"""PPO of stable-baselines3 trains a policy that walks past a wall, in minutes.

    python examples/ppo_steer.py

The agent is a high level: it sees a depth image and sends a velocity command three times a second.
It is trained on a gliding robot, exported as a bundle with the shipped low level, and evaluated on
walls it has not seen. Its network is one that pixelgait exports: an encoder, ten tanh units and an
output. With another scene and encoder:

    python examples/ppo_steer.py --scene obstacle-course --encoder strided --seconds 60

An action is an option of several control steps (Sutton et al. 1999). All have the same length, so
one discount per action is correct.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

import pixelgait.sim.envs  # noqa: F401 (registers the environments)
from pixelgait.export.exporter import write_bundle
from pixelgait.policies.evaluation.evaluate import EvalConfig, report
from pixelgait.policies.high_level import HIDDEN, HighLevelNetwork, flat_weights
from pixelgait.policies.low_level import LinearGraph
from pixelgait.policies.runs.run import find_run
from pixelgait.policies.runs.trained import provenance_of, trained_low_level
from pixelgait.policies.training.fitting import find_device
from pixelgait.policies.training.plan import DeviceName
from pixelgait.robot.cli.options import (
    Count,
    Episodes,
    Range,
    Workers,
    check_outputs,
    parse,
)
from pixelgait.robot.control.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.sim.body.camera import KIND_OF_CHANNELS
from pixelgait.sim.environments.robot_envs import LONGEST_S
from pixelgait.sim.world.seeds import TRAINING

CURVE = "curve.json"
WALL = str(Path(__file__).with_name("wall.py"))
STEPS_OF_AN_ACTION = 30  # control steps: 0.3 s
ACTION_S = STEPS_OF_AN_ACTION * CONTROL_DT_S
TrainingSeed = Annotated[int, Range(0, len(TRAINING) - 1)]
DISCOUNT = 0.97  # of an action: a reward in 10 s counts a third


@dataclass
class Options:
    """Train by PPO, and export."""

    out: Path = Path("runs/ppo")
    """Folder for the bundle, curve.json and the model of stable-baselines3."""
    scene: str = WALL
    """Scene of training and evaluation."""
    encoder: str = "strided:channels=1"
    """Encoder with a gradient, see pixelgait-train encoders."""
    seconds: Annotated[float, Range(ACTION_S, LONGEST_S)] = 20.0
    """Longest episode [s]."""
    steps: Count = 20_000
    """Number of actions in training."""
    robots: Workers = 8
    """Number of environments, in this process."""
    seed: TrainingSeed = 0
    """Seed of the first environment; the others have the seeds after it."""
    device: DeviceName = "cpu"
    """Device of torch; auto: a GPU if there is one."""
    episodes: Episodes = 20
    """Number of episodes of the evaluation."""


class PixelGaitEncoder(BaseFeaturesExtractor):
    """One of pixelgait's encoders as a features extractor of stable-baselines3."""

    def __init__(self, space: gymnasium.spaces.Dict, encoder: str) -> None:
        network = HighLevelNetwork(encoder).encoder
        super().__init__(space, network.features)
        self.encoder = network

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Features (B, F) of images (B, C, H, W), 0 to 255."""
        return self.encoder(observations["image"].permute(0, 2, 3, 1))[0]


class Curve(BaseCallback):
    """Learning curve: success rate of the last 100 episodes over the number of images."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.points = path, []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        done = self.model.ep_success_buffer
        if len(done) == done.maxlen:
            success = sum(done) / len(done)
            self.points.append({"images": self.num_timesteps, "success": success})

    def _on_training_end(self) -> None:
        write_atomic(self.path, json_bytes(self.points))


def train(options: Options) -> PPO:
    """Train on gliding robots in scenes of training seeds."""
    if (last := options.seed + options.robots - 1) not in TRAINING:
        raise UserError(
            f"--seed {options.seed} with {options.robots} robots: the last seed is {last}, "
            f"expected at most {TRAINING[-1]}"
        )
    torch.set_num_threads(1)
    try:
        height, width, channels = HighLevelNetwork(options.encoder).image_shape
    except ValueError as error:
        raise UserError(f"--encoder: {error}") from None
    make = partial(
        gymnasium.make,
        "PixelGait/Steer-v0",
        scene=options.scene,
        body="glide",
        camera=KIND_OF_CHANNELS[channels],
        image_size=(height, width),
        frame_skip=STEPS_OF_AN_ACTION,
        seconds=options.seconds,
    )
    model = PPO(
        "MultiInputPolicy",
        make_vec_env(make, options.robots, options.seed),
        policy_kwargs={
            "features_extractor_class": PixelGaitEncoder,
            "features_extractor_kwargs": {"encoder": options.encoder},
            "normalize_images": False,  # the encoder does it
            "net_arch": {"pi": [HIDDEN], "vf": [64]},
            "activation_fn": torch.nn.Tanh,
            "log_std_init": -0.7,
        },
        n_steps=64,
        batch_size=128,
        learning_rate=1e-3,
        target_kl=0.03,
        gamma=DISCOUNT,
        verbose=1,
        seed=options.seed,
        device=find_device(options.device),
    )
    return model.learn(options.steps, Curve(options.out / CURVE))


def high_level_of(model: PPO, encoder: str) -> HighLevelNetwork:
    """The trained weights in pixelgait's network, whose decisions last one action."""
    network, actor = HighLevelNetwork(encoder), model.policy
    network.encoder.load_state_dict(actor.features_extractor.encoder.state_dict())
    network.hidden.load_state_dict(actor.mlp_extractor.policy_net[0].state_dict())
    share = (STEPS_OF_AN_ACTION - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS)
    with torch.no_grad():
        network.output.weight[0], network.output.bias[0] = 0.0, 2.0 * share - 1.0
        network.output.weight[1:] = actor.action_net.weight
        network.output.bias[1:] = actor.action_net.bias
    return network


def export(model: PPO, options: Options) -> Path:
    """Export a bundle of the trained high level and the shipped low level."""
    walk = find_run(Path("walk"), "low_level")
    trained_by = f"PPO of stable-baselines3 {stable_baselines3.__version__}, {options}"
    bundle, high_level = options.out / "bundle", high_level_of(model, options.encoder)
    weights = flat_weights(high_level).size
    provenance = {
        "low_level": provenance_of(walk),
        "high_level": {"trained_by": trained_by, "weights": weights},
    }
    write_bundle(bundle, high_level, LinearGraph(trained_low_level(walk)), provenance, name="ppo")
    return bundle


def main(options: Options) -> None:
    """Train, save, export, evaluate."""
    model_file, curve = options.out / "ppo.zip", options.out / CURVE
    check_outputs(("out", model_file), ("out", curve))
    model = train(options)
    saved = io.BytesIO()
    model.save(saved)
    write_atomic(model_file, saved.getvalue())
    bundle = export(model, options)
    report(
        EvalConfig(
            str(bundle), scene=options.scene, episodes=options.episodes, seconds=options.seconds
        )
    )


if __name__ == "__main__":
    run_command(lambda: main(parse(Options, "ppo_steer.py")))
