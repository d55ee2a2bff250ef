#!/usr/bin/env python3
"""pixelgait-sim: a simulated robot as a ROS 2 node."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from pixelgait.robot.cli.options import Range, Seed, check_outputs, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import write_atomic
from pixelgait.robot.ros.address import Address, Ros2Control, Velocity, parse_link
from pixelgait.robot.spec import GO2, RobotSpec, find_robot, mounted
from pixelgait.robot.unitree.address import LOOPBACK, Go2
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.faults import parse_faults
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.sensors import DriftingOdometry
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.options import MountOptions, SceneOptions, check_film
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, Stream

if TYPE_CHECKING:
    from pixelgait.sim.ros.simulated_robot import SimulatedRobot, Wire
    from pixelgait.sim.viewing.live_view import WindowProcess

TRAJECTORY = "trajectory.npz"
SPIN_S = 0.03  # a window is updated 30 times a second
MAX_LATE_STEPS = 500  # without a warning: the steps of one second


@dataclass(frozen=True)
class SimConfig(MountOptions, SceneOptions):
    """Simulate a robot in real time behind the topics of a real one.

    Publishes joint_states and imu/data at 500 Hz, camera/color/image_raw (rgb8) and
    camera/depth/image_rect_raw (32FC1) at 30 Hz where they are subscribed, odom (frame odom) and
    ground_truth/odom (frame map) at 50 Hz, whose frames coincide at the start; takes joint_command.
    Arguments for ROS follow --ros-args.
    """

    APART = (
        ("--gui", "--realtime"),
        *(("--no-odom", f"--odom-{error}") for error in ("scale", "turn", "noise")),
    )

    robot: str = "a1"
    """a1, mini_cheetah, laikago, go2, or a robot file (.yaml) by pixelgait-robot."""
    body: str = "pybullet"
    """Simulator: pybullet or mujoco."""
    seed: Seed = FIRST_EVALUATION_SEED
    """Seed of the scene's layout."""
    faults: tuple[str, ...] = ()
    """Sensor faults, as for pixelgait-eval: joints-spike:at=5,for=1, or mixed. Camera faults act on
    colour images while depth has no subscriber."""
    image: Annotated[tuple[int, int], Range(1, 1024)] = (32, 48)
    """Height and width of the camera images [pixels]; a policy sees the middle. Depth has three
    times as many rows and columns, but not from 96 rows on, nor in scenes of meshes. Rendering more
    than 64 x 64 takes longer than a physics step (2 ms)."""
    odom: bool = True
    """Publish odom; otherwise the robot goes by its legs."""
    odom_scale: Annotated[float, Range(0.5, 2.0)] = 1.0
    """Scale error of odom's lengths: 1.02 measures 2 % too much."""
    odom_turn: Annotated[float, Range(-1.0, 1.0)] = 0.0
    """Drift of odom's heading [rad/m]."""
    odom_noise: Annotated[float, Range(0.0, 1.0)] = 0.0
    """Standard deviation of odom's noise, without drift: of x, y [m] and the heading [rad]."""
    gui: bool = False
    """Show the robot in the simulator's window, without real-time priority."""
    link: str = "ros"
    """How to reach it: ros, topics; velocity, cmd_vel, which a gait of its own follows;
    ros2-control, its forward_position_controller, or
    joint-trajectory, its joint_trajectory_controller; or go2:lo, a Unitree Go2's own DDS, whose
    motors must be released first. Camera and odometry are topics with every link."""
    any_interface: bool = False
    """Allow a simulated Go2 on another interface than lo, where a real robot may be."""
    out: Path | None = None
    """Folder for trajectory.npz, the robot's poses."""
    video: Path | None = None
    """Film of the walk (.mp4 or .gif; .png for a strip of frames), rendered at the end."""
    realtime: bool = True
    """Ask for real-time priority; without permission, warn and continue."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(SimConfig, "pixelgait-sim")))


def run(config: SimConfig) -> None:
    """Simulate until SIGINT or SIGTERM.

    Raises:
        UserError: the scene, robot or simulator is unknown, an output cannot be written, a Go2 is
            simulated on a real robot's interface, or ROS 2 is not installed.
    """
    address = parse_link(config.link)
    scene = config.make_scene()
    robot = find_robot(config.robot)
    robot = mounted(robot, config.mount(robot.camera))
    if isinstance(address, Go2) and address.interface != LOOPBACK and not config.any_interface:
        raise UserError(
            f"--link {config.link}: a real robot may be on {address.interface}, a simulated Go2 "
            f"belongs on {LOOPBACK} (go2:{LOOPBACK}); --any-interface allows it"
        )
    if isinstance(address, Go2) and robot.name != GO2.name:
        raise UserError(f"--link {config.link} is a Go2's: expected --robot go2, not {robot.name}")
    check_film(config.video)
    check_outputs(("out", config.out and config.out / TRAJECTORY), ("video", config.video))
    height, width = config.image
    camera, faults = Camera(robot.camera, width, height), parse_faults(config.faults)
    body = make_body(config.body, robot, scene, camera=camera, faults=faults)
    with _window(config, robot) as window:
        node, closed = _serve(config, address, body, window)
    if config.video is not None:
        _film(config, config.video, node)
    if node.fault:
        raise UserError(f"stand-in robot stopped: {node.fault}")
    if closed is not None:
        raise closed
    if node.late > MAX_LATE_STEPS:
        late = f"{node.late} physics steps began late, the robot was slower than real time"
        print(f"warning: {late}: end other programs, see docs/robot/timing.md")


def _window(config: SimConfig, robot: RobotSpec) -> AbstractContextManager[WindowProcess | None]:
    if not config.gui:
        return nullcontext()
    from pixelgait.sim.viewing.live_view import opened, view_of

    return opened(view_of(config, config.body, robot, config.seed))


def _film(config: SimConfig, path: Path, node: SimulatedRobot) -> None:
    """Render the film, without real-time priority; Ctrl-C ends it.

    Raises:
        UserError: there is no pose yet.
    """
    from pixelgait.robot.ros.common.ros2 import install_signal_handlers
    from pixelgait.robot.runtime.realtime import give_up_priority
    from pixelgait.sim.viewing.video import Track, film_track

    install_signal_handlers()
    give_up_priority()
    if not node.path:
        raise UserError(f"--video {path}: stopped before there was anything to film")
    track = Track(np.array(node.path), np.array(node.simulated_s))
    print(f"filming {track.simulated_s[-1]:.0f} s; Ctrl-C leaves it out", flush=True)
    film_track(path, node.body.spec, config.make_scene(), config.seed, track)
    print(f"wrote {path}", flush=True)


def _serve(
    config: SimConfig, address: Address, body: SimulatedBody, window: WindowProcess | None
) -> tuple[SimulatedRobot, KeyboardInterrupt | None]:
    """Run the robot until SIGINT or SIGTERM; returns it, and the interrupt of a closed window."""
    from pixelgait.robot.ros.common import ros2
    from pixelgait.robot.runtime.realtime import request_priority
    from pixelgait.sim.ros.camera_memory import CameraWriter
    from pixelgait.sim.ros.simulated_robot import SimulatedRobot

    # A window needs the cores for graphics, too.
    refusal = request_priority() if config.realtime and window is None else None
    stop = ros2.start(sys.argv)
    rng = Stream.ODOMETRY.rng(config.seed)
    errors = config.odom_scale, config.odom_turn, config.odom_noise
    odometry = DriftingOdometry(*errors, rng) if config.odom else None
    recorded = config.out is not None or config.video is not None
    node = SimulatedRobot(body, config.seed, odometry, recorded, wire_on(address))
    if isinstance(address, Go2):  # processes without ROS 2 reach it
        sizes = node.depth_camera.size, config.image
        node.memory = CameraWriter(str(address.domain), *sizes, body.spec.camera)
    if refusal:
        node.get_logger().warning(refusal)
    executor = ros2.rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    node.start()
    node.get_logger().info(
        f"{config.robot} stands in '{config.scene}', seed {config.seed}; Ctrl-C ends it"
    )
    closed = None
    try:
        while not (stop.is_set() or node.fault):
            try:
                executor.spin_once(timeout_sec=SPIN_S)
            except Exception as error:  # a malformed request must not affect the robot
                reason = f"{type(error).__name__}: {error}"
                node.get_logger().error(f"a request was not understood: {reason}")
            if window is not None:
                window.show(config.seed, *node.seen)
    except KeyboardInterrupt as stopped:
        closed = stopped
    finally:
        node.stop()
        if config.out is not None:
            write_atomic(config.out / TRAJECTORY, node.recording())
            print(f"wrote {config.out / TRAJECTORY}", flush=True)
        executor.shutdown()
        node.destroy_node()
        ros2.rclpy.shutdown()
    return node, closed


def wire_on(address: Address) -> Callable[[Any, RobotSpec], Wire]:
    """A factory of the wire for this address; DDS is imported only for a Go2."""
    if isinstance(address, Go2):
        from pixelgait.robot.unitree.dds import Bus
        from pixelgait.sim.ros.go2 import Go2Wire

        return lambda _, spec: Go2Wire(Bus(address), spec)
    if isinstance(address, Ros2Control):
        from pixelgait.sim.ros.joint_topics import wire_of

        return partial(wire_of, address)
    if isinstance(address, Velocity):
        from pixelgait.sim.ros.velocity_topics import VelocityWire

        return VelocityWire
    from pixelgait.sim.ros.joint_topics import TopicWire

    return TopicWire


if __name__ == "__main__":
    main()
