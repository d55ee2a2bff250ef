#!/usr/bin/env python3
"""pixelgait-run: the controller as a managed (lifecycle) ROS 2 node."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pixelgait.robot.bundle import find_bundle
from pixelgait.robot.cli.options import Range, parse
from pixelgait.robot.cli.provenance import settings
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable
from pixelgait.robot.recording.recorder import Recorder, require_recordable
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.runtime.realtime import lock_memory, pin, request_priority
from pixelgait.robot.runtime.terminal import Terminal
from pixelgait.robot.unitree.address import Go2

# The answer to a shutdown transition must reach who asked before the node that gave it is gone.
FAREWELL_S = 0.5


@dataclass(frozen=True)
class RunConfig:
    """Run a policy bundle on a robot, as a managed ROS 2 node.

    Subscribes joint_states, imu/data and, as the policy needs, camera/color/image_raw,
    camera/depth/image_rect_raw or both; publishes joint_command (and attention, what the policy
    looks at). Configure loads the bundle, activate waits for the sensors, deactivate damps.
    Nothing moves before the services pixelgait/arm, stand_up and walk are called; the service and
    the topic emergency_stop damp at any time. Anything wrong damps the robot and ends the node with
    exit code 1. Arguments for ROS go behind --ros-args.
    """

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE")]
    """Folder of a policy bundle, or the name of a shipped one."""
    auto_arm: bool = False
    """Stand up and walk without being asked: for a simulated robot."""
    arm: bool = False
    """Let a real robot's motors be commanded, once it is armed. Without it, over ros2-control,
    joint-trajectory, and go2 in the robots' domain 0, it is a dry run."""
    dry_run: bool = False
    """Command nobody, whatever the link: what would be commanded goes to joint_command_dry_run."""
    link: str = "ros"
    """How to reach the robot: ros, by topics; ros2-control, by its forward_position_controller, or
    ros2-control:CONTROLLER; joint-trajectory, likewise by its joint_trajectory_controller; or
    go2:INTERFACE, a Unitree Go2's own DDS, as in go2:eth0 (go2:lo is a simulated one). Camera
    images arrive on ROS 2 topics with every link."""
    pilot: Literal["bundle", "policy", "cmd_vel"] = "bundle"
    """Who says where to: the policy's high level or cmd_vel, as the bundle has a trained high level
    or not."""
    goal: Annotated[tuple[float, float] | None, Range(-10_000.0, 10_000.0)] = None
    """Walk to x, y [m] in odom's frame, as soon as there is odometry; goal_pose says other ones."""
    autostart: bool = True
    """Configure and activate at once; otherwise wait for lifecycle transitions."""
    duration: Annotated[float, Range(0.0)] = 0.0
    """Stop after walking so many seconds; 0 to go on until SIGINT or SIGTERM."""
    out: Path | None = None
    """Folder for latency.json and decisions.npz (what the camera saw, what was attended to)."""
    record: Path | None = None
    """Write an MCAP file: all inputs, decisions, commands, and the bundle, for pixelgait-replay."""
    realtime: bool = True
    """Ask for real-time priority and memory that stays; without the right to it, warn and go on."""
    cores: Annotated[tuple[int, ...], Range(0, 4095)] = ()
    """Run on these processor cores alone."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(RunConfig, "pixelgait-run")))


def run(config: RunConfig) -> None:
    """Run the node until it is told to stop, its duration is over, or a fault occurs.

    Raises:
        UserError: the bundle or the place of a file cannot be used, ROS 2 is not installed, a real
            robot shall arm itself, or the controller stopped with a fault.
    """
    warnings = []
    if config.duration and not config.autostart:
        raise UserError("--duration has no effect with --no-autostart")
    if warmed(config):
        config = replace(config, dry_run=True)
        warnings.append("dry run: only with --arm is a real robot commanded")
    find_bundle(config.bundle)  # before ROS starts; to configure is to load and verify it
    if config.out is not None:
        for name in ("latency.json", "decisions.npz"):
            require_writable(config.out / name)
    if config.record is not None:
        require_recordable(config.record)
    from pixelgait.robot.ros.common import ros2

    # Before this process asks for real-time priority, and before threads exist: they inherit it.
    recorder = Recorder(config.record) if config.record is not None else None
    terminal = Terminal()
    try:
        granted = [pin(config.cores)] if config.cores else []
        if config.realtime:
            granted += [request_priority(), lock_memory()]
        warnings += [each for each in granted if each]
        operate(config, recorder, ros2.start(sys.argv), warnings)
    finally:
        terminal.close()
        if recorder is not None:
            recorder.close()
            if recorder.problem:
                print(f"warning: {recorder.problem}", file=sys.stderr)
            if recorder.written:
                print(f"wrote {recorder.path}")
                print(f"next: pixelgait-replay {shlex.quote(str(recorder.path))}", flush=True)
        ros2.rclpy.utilities.try_shutdown()


def warmed(config: RunConfig) -> bool:
    """Whether there may be a real robot that nobody has allowed to be commanded.

    Raises:
        UserError: no link of that name, a real robot that shall get up by itself, or --arm where
            there is nobody to be commanded.
    """
    address = parse_link(config.link)
    if config.arm and (config.dry_run or not address.hardware):
        why = "--dry-run commands nobody" if config.dry_run else "that link commands without it"
        raise UserError(f"--arm over --link {config.link}: {why}")
    # Behind ros2_control there may be a simulated robot, in the robots' own domain there is none.
    if config.arm and config.auto_arm and isinstance(address, Go2):
        raise UserError("--arm and --auto-arm: a real robot does not get up by itself")
    return address.hardware and not (config.dry_run or config.arm)


def operate(
    config: RunConfig,
    recorder: Recorder | None,
    stop: threading.Event,
    warnings: list[str],
) -> None:
    """Make the node and spin it until it is over; there are `warnings` to begin with.

    Raises:
        UserError: a parameter cannot be used, or the controller stopped with a fault.
    """
    from rclpy.executors import SingleThreadedExecutor

    from pixelgait.robot.ros.node import ControllerNode
    from pixelgait.robot.ros.parameters import NodeOptions

    options = NodeOptions(
        bundle=config.bundle,
        out=config.out,
        auto_arm=config.auto_arm,
        dry_run=config.dry_run,
        pilot=config.pilot,
        goal=config.goal,
        recorder=recorder,
        address=parse_link(config.link),
        settings=settings(config, "out", "record"),
    )
    node = ControllerNode(options, stop)
    for warning in warnings:
        node.get_logger().warning(warning)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        if config.autostart:
            node.start()
        while not (stop.is_set() or node.left):
            over = node.follow_fault() or node.ended(config.duration)
            # Without autostart whoever asks for the transitions ends it as well.
            if config.autostart and over:
                break
            try:
                executor.spin_once(timeout_sec=0.05)
            except Exception as error:  # a malformed request of somebody is none of the robot's
                told = f"{type(error).__name__}: {error}"
                node.get_logger().error(f"a request was not understood: {told}")
        if node.left or node.fault:
            time.sleep(FAREWELL_S)
    finally:
        try:
            node.leave()
        finally:
            executor.shutdown()
            node.destroy_node()
    if node.fault:
        raise UserError(f"controller stopped: {node.fault}")


if __name__ == "__main__":
    main()
