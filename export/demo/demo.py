"""Steps of the demo: train, export, walk a course and a house under ROS 2, draw pictures."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.export import plots
from pixelgait.export.demo.options import DemoConfig
from pixelgait.export.exporter import export
from pixelgait.export.options import ExportConfig
from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.curve_picture import draw_curve
from pixelgait.policies.runs.run import Run
from pixelgait.policies.training.config import FollowConfig
from pixelgait.policies.training.loop import train
from pixelgait.policies.training.rollouts import straight_ahead
from pixelgait.robot.bundle import SHIPPED, load_bundle, shipped_low_level
from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import LOCK, locked
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.replay import format_figures, replay
from pixelgait.robot.ros.common.discovery import OwnDomain, private_environment
from pixelgait.robot.rotation import to_base_frame, upright
from pixelgait.robot.spec import A1, Array, RobotSpec, find_robot
from pixelgait.robot.viewing.film import FRAMES_PER_S, write_film
from pixelgait.sim.engines.urdf import find_urdf
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.judging import REACHED_M, STOPPED_M, STOPPED_STEPS
from pixelgait.sim.viewing.video import Track, counted, draw_inset, render_track
from pixelgait.sim.world.appearance import AppearanceSet
from pixelgait.sim.world.scene import Layout, Scene, WithAppearance
from pixelgait.sim.world.seeds import VALIDATION, Stream

# Bundles whose high levels walk the course and the house.
COURSE_POLICY, HOUSE_POLICY = "iap-rgbd", "navigator"
FIT_EPISODES = 6  # to try the new low level with the shipped high level
FIT_DISTANCE_M = 5.0
TRIAL_SEED = VALIDATION[100]
GIF_S = 10.0  # of the film as a GIF, which is larger than a video
HOUSE_S = 40.0  # of walking; a path is 7 m long, some are twice as long
HOUSE_SCENE = "rooms"
APPEARANCE: AppearanceSet = "test"  # unseen in training
RECORDING, HOUSE = "walk.mcap", "house"
FILES = (
    *(RECORDING, "walk.mp4", "walk.gif", "strip.png", "path.png"),
    *("learning_curve.png", "latency.png", f"{HOUSE}/walk.mp4", f"{HOUSE}/path.png"),
)
MARKER = ".pixelgait-demo"  # only folders with it are replaced
SHUTDOWN_S = 10.0  # of a ROS 2 process


def demo(config: DemoConfig) -> None:
    """Run all steps.

    Raises:
        UserError: if a value cannot be used, a step failed, or the robot has not reached its goal.
    """
    from pixelgait.robot.ros.common import (
        ros2,  # refuses a missing ROS 2 before minutes of training
    )

    del ros2
    find_urdf(find_robot(config.robot))
    shipped_low_level(config.robot)
    _require_ours(config.out)
    with locked(config.out):
        _demo(config)


def _demo(config: DemoConfig) -> None:
    """Run all steps in the locked folder."""
    _clear(config.out)
    headline(1, f"The {config.robot.upper()} learns to walk, from {beginning(config)}")
    run = train_low_level(config)
    print(straight_ahead(run))
    headline(2, "Export: torch to ONNX")
    bundle = make_bundle(config, run)
    headline(3, f"{config.seconds:.0f} s on an unseen obstacle course, by camera, under ROS 2")
    walk_course(config, bundle)
    headline(4, f"{HOUSE_S:.0f} s to a goal in an unseen house, by depth and memory")
    walk_house(config)
    headline(5, "Pictures")
    show(config, run)
    show_house(config)
    for name in FILES:
        print(f"  {config.out / name}")
    print(f"\n{arrival(config)}")


def beginning(config: DemoConfig) -> str:
    """Initial weights of the training, in words."""
    return "zero weights" if start(config) is None else "the A1's weights"


def start(config: DemoConfig) -> Path | None:
    """Bundle whose weights the training starts from; only the A1 learns from zero in this time."""
    return None if config.robot == A1.name else Path("walk")


def headline(number: int, text: str) -> None:
    """Print the headline of a step."""
    print(f"\n--- {number}/5  {text} ---", flush=True)


def train_low_level(config: DemoConfig) -> Run:
    """Train a low level that follows velocity commands."""
    return train(
        FollowConfig(
            out=config.out / "training",
            robot=config.robot,
            start=start(config),
            seed=config.seed,
            workers=config.workers,
            iterations=1000,
            minutes=config.minutes,
            steps=400,
            mirror=True,
        )
    )


def make_bundle(config: DemoConfig, run: Run) -> Path:
    """Export the new low level with the shipped high level, or fall back to the shipped pair."""
    bundle, high_level = config.out / "bundle", SHIPPED / COURSE_POLICY
    export(ExportConfig(low_level=run.folder, high_level=high_level, out=bundle, name="demo"))
    print("Trying the new low level with the shipped high level in simulation:")
    trial = EvalConfig(
        str(bundle), episodes=FIT_EPISODES, seed=TRIAL_SEED, seconds=20.0, workers=config.workers
    )
    figures = evaluate(trial)
    distance, falls = figures["distance_m"], figures["fall_rate"]
    print(f"{FIT_EPISODES} courses of 20 s: {distance:.1f} m on average, falls {falls:.0%}")
    if falls == 0.0 and distance >= FIT_DISTANCE_M:
        print("They fit: the robot will walk with what it has just learned.")
        return bundle
    print("They do not fit: the robot will walk with the shipped low level.")
    return shipped_pair(config, COURSE_POLICY)


def shipped_pair(config: DemoConfig, policy: str) -> Path:
    """Bundle of a shipped high level and the robot's shipped low level, exported if missing."""
    name = policy if config.robot == A1.name else f"{policy}-{config.robot}"
    if (SHIPPED / name).exists():
        return SHIPPED / name
    out, low_level = config.out / name, shipped_low_level(config.robot)
    export(ExportConfig(low_level=low_level, high_level=SHIPPED / policy, out=out, name=name))
    return out


def walk_course(config: DemoConfig, bundle: Path) -> None:
    """Simulated robot and controller on the course; then a replay of the recording."""
    recording = config.out / RECORDING
    walk = ["--duration", str(config.seconds), "--record", str(recording)]
    run_ros(str(bundle), config.out, robot_options(config), walk)
    print(format_figures(replay(read_recording(recording), load_bundle(bundle))))


def walk_house(config: DemoConfig) -> None:
    """The shipped navigator receives a goal in another room and walks there, by its legs."""
    house, layout = make_house(config)
    out = config.out / HOUSE
    out.mkdir()
    assert house.goal_position is not None
    away = house.goal_position - (layout.start.x, layout.start.y)
    goal = map(str, to_base_frame((*away.tolist(), 0.0), upright(layout.start.yaw))[:2])
    robot = [*robot_options(config), "--scene", HOUSE_SCENE, "--no-odom"]
    bundle = str(shipped_pair(config, HOUSE_POLICY))
    run_ros(bundle, out, robot, ["--duration", str(HOUSE_S), "--goal", *goal])


def robot_options(config: DemoConfig) -> list[str]:
    """Options of pixelgait-sim on the course and in the house."""
    return ["--robot", config.robot, "--seed", str(config.course_seed), "--appearance", APPEARANCE]


def make_house(config: DemoConfig) -> tuple[Scene, Layout]:
    """The house of the seed, with an appearance of the test set."""
    house = make_scene(HOUSE_SCENE, appearance=APPEARANCE)
    return house, house.layout(Stream.LAYOUT.rng(config.course_seed))


def show(config: DemoConfig, run: Run) -> None:
    """Draw learning curve, path, latency and film of the walk on the course."""
    out = config.out
    title = f"{config.robot.upper()} follows commands, from {beginning(config)}"
    draw_curve(out / "learning_curve.png", run.load().curve, title)
    report = json.loads((out / "latency.json").read_text())
    plots.latency(out / "latency.png", report)
    track, course = walked(out), ObstacleCourse(0.5)
    frames = film(
        find_robot(config.robot), WithAppearance(course, APPEARANCE), config.course_seed, track, out
    )
    path = track.path
    seconds = path[-1, 0] - path[0, 0]
    plots.path_on_course(out / "path.png", course, path[:, 1:3], seconds)
    write_film(out / "walk.mp4", frames)
    write_film(out / "walk.gif", frames[: round(GIF_S * FRAMES_PER_S)])
    write_film(out / "strip.png", frames)
    x, y = path[-1, 1:3] - path[0, 1:3]
    print(f"\nwalked {x:.1f} m ahead in {seconds:.0f} s (sideways {y:+.1f} m)")
    print(f"loop: {report['ticks']} ticks at {1e6 / report['period']['p50_us']:.0f} Hz")


def show_house(config: DemoConfig) -> None:
    """Draw film and path of the walk through the house."""
    out = config.out / HOUSE
    house, layout = make_house(config)
    track = walked(out)
    robot = find_robot(config.robot)
    write_film(out / "walk.mp4", film(robot, house, config.course_seed, track, out))
    plots.path_on_map(out / "path.png", house, layout, track.path[:, 1:3])


def arrival(config: DemoConfig) -> str:
    """Report that the robot has reached its goal in the house, by its true position at the end.

    Raises:
        UserError: if the robot did not stand, or too far from its goal.
    """
    house, _ = make_house(config)
    assert house.goal_position is not None
    place, moved_m = ended(config.out / HOUSE, HOUSE_S)
    remaining_m = math.dist(place, house.goal_position)
    if remaining_m < REACHED_M and moved_m < STOPPED_M:
        return f"in the house: arrived, {remaining_m:.2f} m from its goal"
    raise UserError(
        f"in the house: NOT arrived, {remaining_m:.2f} m from its goal after {HOUSE_S:.0f} s, "
        f"{moved_m:.2f} m in the last half second: expected to stand within {REACHED_M} m"
    )


def walked(out: Path) -> Track:
    """Track of the robot while the controller decided."""
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        path, simulated_s = data["path"], data["simulated_s"]
        first, last = decisions["time_s"][[0, -1]]
    walking = (path[:, 0] >= first) & (path[:, 0] <= last + 0.1)
    return Track(path[walking], simulated_s[walking])


def ended(out: Path, walk_s: float) -> tuple[Array, float]:
    """True position (2,) [m] after a walk of so many seconds, and the distance of its last half
    second [m].
    """
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        path, began_s = data["path"], decisions["time_s"][0]
    moments = began_s + walk_s - np.array((0.0, STOPPED_STEPS * CONTROL_DT_S))
    after = np.searchsorted(path[:, 0], moments, side="right")
    place, before = path[np.maximum(after - 1, 0), 1:3]
    return place, math.dist(place, before)


def film(
    spec: RobotSpec, scene: Scene, seed: int, track: Track, out: Path
) -> list[NDArray[np.uint8]]:
    """Frames of the walk, with camera image and attention in the corner."""
    with np.load(out / "decisions.npz") as data:
        times, images = data["time_s"], data["images"]
        attention = data["attention"] if "attention" in data else [None] * len(times)

    def seen(now: float) -> NDArray[np.uint8]:
        i = max(0, int(np.searchsorted(times, now, side="right")) - 1)
        return draw_inset(images[i], attention[i])

    taken = track.frame_times()
    return [*counted(render_track(spec, scene, seed, track, taken, seen), len(taken))]


def _require_ours(out: Path) -> None:
    """Raises UserError if the folder holds anything but an older demo."""
    there = [path for path in out.iterdir() if path.name != LOCK] if out.exists() else []
    if there and not (out / MARKER).exists():
        raise UserError(f"{out} is not empty and holds no older demo; choose another --out")


def _clear(out: Path) -> None:
    """Empty the output folder of an older demo, and mark it."""
    for path in out.iterdir():
        if path.name in (LOCK, MARKER):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (out / MARKER).touch()


def run_ros(bundle: str, out: Path, robot: list[str], controller: list[str]) -> None:
    """Run robot and controller on a ROS domain of their own until the controller ends.

    Args:
        bundle: bundle that walks.
        out: folder of their files.
        robot: further arguments of pixelgait-sim.
        controller: further arguments of pixelgait-run.

    Raises:
        UserError: if the controller stopped with a fault.
    """
    domain = OwnDomain()
    environment = private_environment(domain.number, (out / "ros_log").resolve())
    sim = [sys.executable, "-m", "pixelgait.sim.ros.node", "--out", str(out), *robot]
    run = [sys.executable, "-m", "pixelgait.robot.ros.run", bundle, "--out", str(out), *controller]
    simulated = _start(sim, environment)
    try:
        deciding = _start([*run, "--auto-arm"], environment)
        try:
            if deciding.wait():
                raise UserError(f"the controller ended with exit code {deciding.returncode}")
        finally:
            _end(deciding)
    finally:
        _end(simulated)
        domain.close()


def _start(line: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own: Ctrl-C reaches this process, which ends it."""
    start = partial(die_with_parent, os.getpid())
    return subprocess.Popen(line, env=environment, preexec_fn=start, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process; it may still damp the robot and write its files."""
    process.terminate()
    try:
        process.wait(SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        process.kill()
