#!/usr/bin/env python3
"""pixelgait-run: the controller as a managed (lifecycle) ROS 2 node, or without ROS 2."""

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
from pixelgait.robot.cli.processes import stopped_by_user_signal
from pixelgait.robot.cli.provenance import settings
from pixelgait.robot.control.velocity import Response, read_response
from pixelgait.robot.direct.orders import PORT, PORTS
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable
from pixelgait.robot.recording.recorder import Recorder, require_recordable
from pixelgait.robot.ros.address import parse_link
from pixelgait.robot.runtime.realtime import Terminal, lock_memory, pin, request_priority
from pixelgait.robot.runtime.response_trial import MEASURED
from pixelgait.robot.unitree.address import Go2

ROS = "ros"  # of --camera
ANSWER_S = 0.5  # for the response to a shutdown transition to arrive before the node is gone


@dataclass(frozen=True)
class RunConfig:
    """Run a policy bundle on a robot, as a managed ROS 2 node, or with --camera without ROS 2.

    Subscribes joint_states, imu/data and, as the policy needs, camera/color/image_raw,
    camera/depth/image_rect_raw or both; publishes joint_command (and attention, the image with the
    policy's attention). Configure loads the bundle, activate waits for the sensors, deactivate
    damps. Nothing moves before the services pixelgait/arm, stand_up and walk are called; the
    service and the topic emergency_stop, and SIGUSR1, damp at any time. A fault damps the robot, or
    lets one that walks by a gait of its own stand, and ends the node with exit code 1. Arguments
    for ROS follow --ros-args.
    """

    APART = (("--response", "--measure"),)

    bundle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE")]
    """Folder of a policy bundle, or the name of a shipped one."""
    auto_arm: bool = False
    """Stand up and walk without an operator: for a simulated robot."""
    arm: bool = False
    """Allow this node to command a real robot's motors, once it is armed. Without it, ros2-control,
    joint-trajectory, and go2 and go2-sport in the robots' domain 0, are dry runs."""
    dry_run: bool = False
    """Command no motor, over any link: commands go to the topic joint_command_dry_run, velocities
    to cmd_vel_dry_run."""
    link: str = "ros"
    """How to reach the robot: ros, topics; velocity, one that walks by a gait of its own: odom in,
    cmd_vel out, by the policy's high level alone; ros2-control, its forward_position_controller, or
    ros2-control:CONTROLLER; joint-trajectory, likewise by its joint_trajectory_controller;
    go2:INTERFACE, a Unitree Go2's own DDS, as in go2:eth0 (go2:lo is a simulated one); or
    go2-sport:INTERFACE, a Go2 that walks by its own sport mode."""
    camera: str = ROS
    """Source of images: ros, topics. With any other one the run needs no ROS 2, over a Go2's own
    DDS: realsense or realsense:SERIAL, by pyrealsense2; simulated or simulated:DOMAIN, that of
    pixelgait-sim; none, for a walk by the remote's sticks. Orders are then given by pixelgait-order
    and the remote."""
    orders: Annotated[int | None, PORTS] = None
    """Without ROS 2: port for pixelgait-order, on this computer alone; 7420 by default."""
    timeouts: tuple[str, ...] = ()
    """Without ROS 2: ages [s] at which a sensor is ageing, stale and dead, by default the
    contract's, as in lowstate=0.05/0.1/0.2."""
    pilot: Literal["bundle", "policy", "cmd_vel"] = "bundle"
    """Source of the velocity command: the policy's high level, or cmd_vel. By default the high
    level, if the bundle has a trained one."""
    response: Path | None = None
    """How a robot with its own gait answers velocities: a file of --measure."""
    measure: Path | None = None
    """Measure that instead of following the policy, and write the file: once ordered to walk, it
    walks 4 m ahead, bit by bit, then turns on the spot; the camera is not used."""
    goal: Annotated[tuple[float, float] | None, Range(-10_000.0, 10_000.0)] = None
    """First goal x, y [m] in odom's frame, or ahead and to the left of where the robot starts
    (without odometry); goal_pose, or pixelgait-order goal, sets later ones."""
    map: bool = False
    """Map the surroundings from depth images, for local_map, local_heights and the
    parameter collision_guard; without ROS 2 for a collision guard."""
    autostart: bool = True
    """Configure and activate at once; otherwise wait for lifecycle transitions."""
    duration: Annotated[float, Range(0.0)] = 0.0
    """Stop after walking so many seconds; 0: run until SIGINT or SIGTERM."""
    out: Path | None = None
    """Folder for latency.json and decisions.npz (images, decisions, attention)."""
    record: Path | None = None
    """Write an MCAP file for pixelgait-replay: all inputs, decisions, commands, and the bundle."""
    realtime: bool = True
    """Ask for real-time priority and locked memory; without permission, warn and continue."""
    cores: Annotated[tuple[int, ...], Range(0, 4095)] = ()
    """Run on these processor cores alone."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(RunConfig, "pixelgait-run")))


def run(config: RunConfig) -> None:
    """Run the node until it is stopped, its duration is over, or a fault occurs.

    Raises:
        UserError: the bundle or an output path cannot be used, ROS 2 is not installed, --auto-arm
            is given for a real robot, or the controller stopped with a fault.
    """
    warnings = []
    (require_with_ros if config.camera == ROS else require_without_ros)(config)
    if config.duration and not config.autostart:
        raise UserError("--duration has no effect with --no-autostart")
    if needs_dry_run(config):
        config = replace(config, dry_run=True)
        warnings.append("dry run: a real robot is commanded only with --arm")
    for option in ("response", "measure"):
        if getattr(config, option) and not parse_link(config.link).own_gait:
            raise UserError(f"--{option} is for a robot with its own gait, as over --link velocity")
    if config.measure is not None:
        require_writable(config.measure, "measure")
    find_bundle(config.bundle)  # before ROS starts; configure loads and verifies it
    if config.out is not None:
        for name in ("latency.json", "decisions.npz"):
            require_writable(config.out / name)
    if config.record is not None:
        require_recordable(config.record)
    # Its process comes before this one asks for real-time priority and cores, and has neither.
    recorder = Recorder(config.record) if config.record is not None else None
    granted = [pin(config.cores)] if config.cores else []
    if config.realtime:
        granted += [request_priority(), lock_memory()]
    warnings += [each for each in granted if each]
    # After it: a thread of lower priority that asks for the interpreter's lock stops the control
    # thread until it has got a core.
    terminal = Terminal()
    try:
        (operate if config.camera == ROS else operate_without_ros)(config, recorder, warnings)
    finally:
        terminal.close()
        if recorder is not None:
            recorder.close()
            if recorder.problem:
                print(f"warning: {recorder.problem}", file=sys.stderr)
            if recorder.written:
                print(f"wrote {recorder.path}")
                print(f"next: pixelgait-replay {shlex.quote(str(recorder.path))}", flush=True)


def _response(config: RunConfig) -> Response:
    """The robot's response to velocities, by default an ideal one."""
    if config.measure is not None:
        return MEASURED
    return Response() if config.response is None else read_response(config.response)


def needs_dry_run(config: RunConfig) -> bool:
    """Whether the robot may be real and --arm is missing.

    Raises:
        UserError: the link is unknown, --arm has no effect, or --auto-arm is for a real robot.
    """
    address = parse_link(config.link)
    if config.arm and (config.dry_run or not address.hardware):
        why = "--dry-run commands no motor" if config.dry_run else "that link needs no --arm"
        raise UserError(f"--arm over --link {config.link}: {why}")
    # A robot behind ros2_control may be simulated, one in the Go2's own domain is not.
    if config.arm and config.auto_arm and isinstance(address, Go2):
        raise UserError("--arm and --auto-arm: a real robot does not get up by itself")
    return address.hardware and not (config.dry_run or config.arm)


def require_with_ros(config: RunConfig) -> None:
    """Raises UserError if an option is for a run without ROS 2."""
    if config.timeouts:
        raise UserError("--timeouts is for a run without ROS 2, by --camera: set parameters")
    if config.orders is not None:
        raise UserError("--orders is for a run without ROS 2, by --camera: call services")


def require_without_ros(config: RunConfig) -> None:
    """Raises UserError if an option needs ROS 2, although the camera does not."""
    camera = f"--camera {config.camera}"
    if not isinstance(parse_link(config.link), Go2):
        links = "go2:INTERFACE or go2-sport:INTERFACE"
        raise UserError(f"{camera}: without ROS 2 only a Go2 is reached, --link {links}")
    needs_ros = {
        "--measure": config.measure is not None,
        "--pilot": config.pilot != "bundle",
        "--no-autostart": not config.autostart,
    }
    if given := [option for option, there in needs_ros.items() if there]:
        raise UserError(f"{camera}: {given[0]} needs ROS 2")


def operate_without_ros(config: RunConfig, recorder: Recorder | None, warnings: list[str]) -> None:
    """Run until it ends; see `direct.run.operate`."""
    from pixelgait.robot.direct import run as direct

    address = parse_link(config.link)
    assert isinstance(address, Go2)
    options = direct.DirectOptions(
        bundle=config.bundle,
        address=address,
        camera=config.camera,
        out=config.out,
        auto_arm=config.auto_arm,
        dry_run=config.dry_run,
        map=config.map,
        goal=config.goal,
        duration_s=config.duration,
        port=PORT if config.orders is None else config.orders,
        timeouts=config.timeouts,
        response=_response(config),
        recorder=recorder,
        settings=settings(config, "out", "record"),
    )
    direct.operate(options, warnings)


def operate(config: RunConfig, recorder: Recorder | None, warnings: list[str]) -> None:
    """Create the node, log `warnings`, and spin it until it ends.

    Raises:
        UserError: a parameter is invalid, or the controller stopped with a fault.
    """
    from pixelgait.robot.ros.common import ros2

    try:
        _spin(config, recorder, ros2.start(sys.argv), warnings)
    finally:
        ros2.rclpy.utilities.try_shutdown()


def _spin(
    config: RunConfig, recorder: Recorder | None, stop: threading.Event, warnings: list[str]
) -> None:
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
        maps=config.map,
        recorder=recorder,
        address=parse_link(config.link),
        response=_response(config),
        measure=config.measure,
        settings=settings(config, "out", "record"),
    )
    node = ControllerNode(options, stop)
    stopped_by_user_signal(node.operator.emergency_stop)
    for warning in warnings:
        node.get_logger().warning(warning)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        if config.autostart:
            node.start()
        while not (stop.is_set() or node.left):
            over = node.follow_fault() or node.ended(config.duration)
            # Without autostart the lifecycle manager ends it as well.
            if config.autostart and over:
                break
            try:
                executor.spin_once(timeout_sec=0.05)
            except Exception as error:  # a malformed request must not affect the robot
                reason = f"{type(error).__name__}: {error}"
                node.get_logger().error(f"a request was not understood: {reason}")
        if node.left or node.fault:
            time.sleep(ANSWER_S)
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
