"""pixelgait-demo: train, export, walk under ROS 2, and show it, in a few minutes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from pixelgait.export.bundle.export import ExportConfig, export
from pixelgait.export.reports import plots
from pixelgait.policies.curve_picture import draw_curve
from pixelgait.policies.runs import Run
from pixelgait.policies.training.configs import FollowConfig
from pixelgait.policies.training.straight_ahead import straight_ahead
from pixelgait.policies.training.strategies import ESConfig
from pixelgait.policies.training.train import train
from pixelgait.robot.bundle import SHIPPED, load_bundle
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import LOCK, locked
from pixelgait.robot.recording.replay import format_figures, replay
from pixelgait.robot.recording.steps import read_recording
from pixelgait.robot.runtime.attention import draw_attention
from pixelgait.robot.runtime.options import Range, Seed, Workers, check_numbers, parse
from pixelgait.robot.runtime.processes import die_with_parent
from pixelgait.robot.spec import A1
from pixelgait.sim.evaluate import EvalConfig, evaluate
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.video import FRAMES_PER_S, INSET, SceneRenderer, write_strip, write_video
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, VALIDATION

SHIPPED_HIGH_LEVEL = SHIPPED / "iap" / "high_level"
FIT_EPISODES = 6  # do the fresh low level and the shipped high level fit each other?
FIT_DISTANCE_M = 5.0
TRIAL_SEED = VALIDATION[100]
SHUTDOWN_S = 10.0
GIF_S = 10.0  # of the film as a GIF, which takes much more room
RECORDING = "walk.mcap"
FILES = (
    RECORDING,
    "walk.mp4",
    "walk.gif",
    "strip.png",
    "path.png",
    "learning_curve.png",
    "latency.png",
)
MARKER = ".pixelgait-demo"  # only folders with it are replaced


@dataclass(frozen=True)
class DemoConfig:
    """The whole path on this computer: train, export, run under ROS 2, report.

    1. An A1 learns from zero weights to follow speed and yaw-rate commands (PyBullet, ARS).
    2. That low level and the shipped camera policy become one ONNX bundle.
    3. A simulated robot and the controller, two processes, talk over real ROS 2 topics. What was
       recorded goes through the controller once more: the same commands, bit for bit.
    4. Latency table, learning curve, path and film lie in the output folder.
    """

    out: Path = Path("runs/demo")
    """Output folder; an older demo there is replaced."""
    seed: Seed = 0
    workers: Workers = 2
    minutes: Annotated[float, Range(0.01, 1e6)] = 2.0
    """Time for training."""
    seconds: Annotated[float, Range(1.0, 86_400.0)] = 20.0
    """How long the robot walks under ROS 2."""
    course_seed: Seed = FIRST_EVALUATION_SEED
    """Course of the ROS 2 run."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: demo(parse(DemoConfig, "pixelgait-demo")))


def demo(config: DemoConfig) -> None:
    """Run all four steps.

    Raises:
        UserError: a value cannot be used, or a step failed.
    """
    from pixelgait.robot.ros import common  # fail now, not after minutes of training

    del common
    check_numbers(config)
    _require_ours(config.out)
    with locked(config.out):
        _demo(config)


def _demo(config: DemoConfig) -> None:
    """All four steps, in a folder that is ours alone."""
    _clear(config.out)
    headline(1, "The A1 learns to walk, from zero weights")
    run = train_low_level(config)
    print(straight_ahead(run))
    headline(2, "Export: torch to ONNX")
    bundle = make_bundle(config, run)
    headline(3, f"{config.seconds:.0f} s on an unseen obstacle course, by camera, under ROS 2")
    run_ros(config, bundle)
    headline(4, "Pictures")
    show(config, run)


def headline(number: int, text: str) -> None:
    """Tell the user what comes now."""
    print(f"\n--- {number}/4  {text} ---", flush=True)


def train_low_level(config: DemoConfig) -> Run:
    """Learn to follow commands from zero weights."""
    return train(
        FollowConfig(
            out=config.out / "training",
            seed=config.seed,
            workers=config.workers,
            iterations=1000,
            minutes=config.minutes,
            steps=400,
            mirror=True,
            es=ESConfig(courses=2),
        )
    )


def make_bundle(config: DemoConfig, run: Run) -> Path:
    """Export the fresh low level with the shipped high level; fall back to the shipped pair."""
    bundle = config.out / "bundle"
    export(
        ExportConfig(low_level=run.folder, high_level=SHIPPED_HIGH_LEVEL, out=bundle, name="demo")
    )
    print("Do the fresh low level and the shipped high level fit each other? Trying in simulation:")
    trial = EvalConfig(
        str(bundle), episodes=FIT_EPISODES, seed=TRIAL_SEED, seconds=20.0, workers=config.workers
    )
    figures = evaluate(trial)
    distance, falls = figures["distance_m"], figures["fall_rate"]
    print(f"{FIT_EPISODES} courses of 20 s: {distance:.1f} m on average, falls {falls:.0%}")
    if falls == 0.0 and distance >= FIT_DISTANCE_M:
        print("They do: the robot will walk on what it has just learned.")
        return bundle
    print("They do not: the robot will walk on the shipped pair instead.")
    return SHIPPED / "iap"


def run_ros(config: DemoConfig, bundle: Path) -> None:
    """Stand-in robot and controller as two processes on a ROS domain of their own.

    Raises:
        UserError: the controller stopped with a fault.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        # The wheels set these for this process; a child must set its own.
        if key not in ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH")
    }
    environment["ROS_DOMAIN_ID"] = str(random.randint(1, 101))
    environment["ROS_LOG_DIR"] = str((config.out / "ros_log").resolve())
    out = ["--out", str(config.out)]
    sim = [sys.executable, "-m", "pixelgait.sim.node", "--seed", str(config.course_seed), *out]
    run = [sys.executable, "-m", "pixelgait.robot.ros.run", str(bundle), *out]
    start = partial(die_with_parent, os.getpid())
    robot = subprocess.Popen(sim, env=environment, preexec_fn=start)
    try:
        record = ["--record", str(config.out / RECORDING)]
        walk = [*run, "--auto-arm", "--duration", str(config.seconds), *record]
        done = subprocess.run(walk, env=environment, check=False, preexec_fn=start)
        if done.returncode:
            raise UserError(f"the controller ended with exit code {done.returncode}")
    finally:
        robot.send_signal(signal.SIGINT)
        try:
            robot.wait(SHUTDOWN_S)
        except subprocess.TimeoutExpired:
            robot.kill()
    print(format_figures(replay(read_recording(config.out / RECORDING), load_bundle(bundle))))


def show(config: DemoConfig, run: Run) -> None:
    """Learning curve, path, latency and film from what the run has left behind."""
    out = config.out
    draw_curve(
        out / "learning_curve.png", run.load().curve, "A1 follows commands, from zero weights"
    )
    report = json.loads((out / "latency.json").read_text())
    plots.latency(out / "latency.png", report)
    track = _walked(out)
    course = ObstacleCourse(0.5)
    frames = film(course, config.course_seed, track, out)
    plots.path_on_course(out / "path.png", course, {"robot": track[:, 1:3]})
    write_video(out / "walk.mp4", frames)
    write_video(out / "walk.gif", frames[: round(GIF_S * FRAMES_PER_S)])
    write_strip(out / "strip.png", frames)
    x, y = track[-1, 1:3] - track[0, 1:3]
    print(f"\nwalked {x:.1f} m ahead in {track[-1, 0] - track[0, 0]:.0f} s (sideways {y:+.1f} m)")
    print(f"loop: {report['ticks']} ticks at {1e6 / report['period']['p50_us']:.0f} Hz")
    for name in FILES:
        print(f"  {out / name}")


def _walked(out: Path) -> NDArray[np.float64]:
    """The trajectory while the controller walked: first to last decision."""
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        track = np.asarray(data["path"], dtype=np.float64)
        first, last = decisions["time_s"][[0, -1]]
    return np.asarray(track[(track[:, 0] >= first) & (track[:, 0] <= last + 0.1)])


def film(
    course: ObstacleCourse, seed: int, track: NDArray[np.float64], out: Path
) -> list[NDArray[np.uint8]]:
    """Frames of the walk, with what the camera saw and attended to in the corner."""
    with np.load(out / "decisions.npz") as data:
        times, images, attention = data["time_s"], data["images"], data["attention"]
    renderer = SceneRenderer(A1, course, seed)
    frames = []
    for now in tqdm(np.arange(track[0, 0], track[-1, 0], 1.0 / FRAMES_PER_S), unit="frame"):
        row = track[np.searchsorted(track[:, 0], now).clip(max=len(track) - 1)]
        i = max(0, int(np.searchsorted(times, now, side="right")) - 1)
        inset = draw_attention(images[i], attention[i], INSET)
        frames.append(renderer.frame(row[1:4], row[4:8], row[8:20], inset))
    renderer.close()
    return frames


def _require_ours(out: Path) -> None:
    """Raises UserError if the folder holds something else than an older demo."""
    there = [path for path in out.iterdir() if path.name != LOCK] if out.exists() else []
    if there and not (out / MARKER).exists():
        raise UserError(f"{out} is not empty and holds no older demo; choose another --out")


def _clear(out: Path) -> None:
    """Empty the output folder of an older demo."""
    for path in out.iterdir():
        if path.name == LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (out / MARKER).touch()


if __name__ == "__main__":
    main()
