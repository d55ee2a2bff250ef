"""A policy that walks past a wall, learned by stable-baselines3's PPO in minutes.

    python examples/ppo_steer.py

The agent is a high level: it sees a depth image and says how fast to walk and to turn, three times
a second. It learns on a robot that glides, and then walks on the shipped low level, in a bundle
like any other, past walls that it has not seen; the figures are printed. Its network is one that
pixelgait can export: an encoder, ten tanh units, an output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gymnasium
import stable_baselines3
import torch
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

import pixelgait.sim.envs  # noqa: F401 (registers the environments)
from pixelgait.export.bundle.export import write_bundle
from pixelgait.policies.high_level import HIDDEN, HighLevelNetwork
from pixelgait.policies.runs import find_run
from pixelgait.policies.trained import provenance_of, trained_low_level
from pixelgait.robot.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.robot.errors import run_command
from pixelgait.sim.evaluate import EvalConfig, report

ENCODER = "strided:channels=1"
SCENE = Path(__file__).with_name("wall.py")
STEPS_OF_AN_ACTION = 30  # control steps: 0.3 s
ACTIONS = 60  # of an episode: 18 s


@dataclass
class Options:
    """Train by PPO, and export."""

    out: Path = Path("runs/ppo")
    """Folder for the bundle and for what stable-baselines3 saves."""
    steps: int = 20_000
    """Actions to learn from."""
    robots: int = 8
    """Environments side by side, in this process."""
    seed: int = 0
    episodes: int = 20
    """Unseen walls to walk past, at the end."""


class Eyes(BaseFeaturesExtractor):
    """One of pixelgait's encoders, as stable-baselines3 wants it."""

    def __init__(self, space: gymnasium.spaces.Dict) -> None:
        encoder = HighLevelNetwork(ENCODER).encoder
        super().__init__(space, encoder.features)
        self.encoder = encoder

    def forward(self, seen: dict[str, torch.Tensor]) -> torch.Tensor:
        """Features (B, F) of images (B, C, H, W), 0 to 255."""
        return self.encoder(seen["image"].permute(0, 2, 3, 1))[0]


def train(options: Options) -> PPO:
    """Gliding robots in front of walls."""
    torch.set_num_threads(1)
    make = partial(
        gymnasium.make,
        "PixelGait/Steer-v0",
        scene=str(SCENE),
        body="glide",
        camera="depth",
        image_size=(32, 32),
        frame_skip=STEPS_OF_AN_ACTION,
        max_episode_steps=ACTIONS,
    )
    model = PPO(
        "MultiInputPolicy",
        make_vec_env(make, options.robots, options.seed),
        policy_kwargs={
            "features_extractor_class": Eyes,
            "normalize_images": False,  # the encoder does
            "net_arch": {"pi": [HIDDEN], "vf": [64]},
            "activation_fn": torch.nn.Tanh,
            "log_std_init": -0.7,
        },
        n_steps=64,
        batch_size=128,
        learning_rate=1e-3,
        target_kl=0.03,
        gamma=0.97,
        verbose=1,
        seed=options.seed,
    )
    return model.learn(options.steps)


def high_level_of(model: PPO) -> HighLevelNetwork:
    """The trained weights in pixelgait's network, whose decisions hold for one action's time."""
    network, actor = HighLevelNetwork(ENCODER), model.policy
    network.encoder.load_state_dict(actor.features_extractor.encoder.state_dict())
    network.hidden.load_state_dict(actor.mlp_extractor.policy_net[0].state_dict())
    share = (STEPS_OF_AN_ACTION - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS)
    with torch.no_grad():
        network.output.weight[0], network.output.bias[0] = 0.0, 2.0 * share - 1.0
        network.output.weight[1:] = actor.action_net.weight
        network.output.bias[1:] = actor.action_net.bias
    return network


def export(model: PPO, options: Options) -> Path:
    """The bundle of what was learned and the shipped low level."""
    walk = find_run(Path("walk"), "low_level")
    trained_by = f"PPO of stable-baselines3 {stable_baselines3.__version__}, {options}"
    provenance = {"low_level": provenance_of(walk), "high_level": {"trained_by": trained_by}}
    bundle = options.out / "bundle"
    write_bundle(bundle, high_level_of(model), trained_low_level(walk), provenance, name="ppo")
    return bundle


def main(options: Options) -> None:
    """Train, save, export, evaluate."""
    options.out.mkdir(parents=True, exist_ok=True)
    model = train(options)
    model.save(options.out / "ppo.zip")
    bundle = export(model, options)
    report(EvalConfig(str(bundle), scene=str(SCENE), episodes=options.episodes, seconds=20.0))


if __name__ == "__main__":
    run_command(lambda: main(tyro.cli(Options)))
