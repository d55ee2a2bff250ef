"""A simulated robot and its controller: robot.launch.py and pixelgait-sim.

ros2 launch pixelgait sim.launch.py bundle:=rover scene:=obstacle-course
"""

from pathlib import Path
from runpy import run_path

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    OpaqueFunction,
    SetLaunchConfiguration,
    Shutdown,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

ROBOT = str(Path(__file__).with_name("robot.launch.py"))
is_true = run_path(ROBOT)["is_true"]
# Options of pixelgait-sim.
OPTIONS = (
    ("scene", "obstacle-course", "The scene."),
    ("difficulty", "", "Difficulty of the scene, 0 to 1, where it has several."),
    ("appearance", "", "train or test: other textures, light and sky every time."),
    ("robot", "a1", "a1, mini_cheetah, laikago, go2, or a robot file (.yaml)."),
    ("body", "pybullet", "Simulator: pybullet or mujoco."),
    ("seed", "10000", "Seed of the scene's layout."),
    ("faults", "", "Sensor faults: 'mixed', or as for pixelgait-eval."),
    ("image", "32 48", "Height and width of the images [pixels]."),
    ("camera", "", "Place of the camera in the base frame: 'X Y Z' [m]."),
    ("pitch", "", "Pitch of the camera, down [rad]."),
    ("camera_fov", "", "Vertical field of view of the images [rad]."),
    ("odom_scale", "1.0", "Scale error of odom's lengths (factor)."),
    ("odom_turn", "0.0", "Drift of odom's heading [rad/m]."),
    ("odom_noise", "0.0", "Noise of odom, standard deviation [m], of its heading [rad]."),
    ("link", "ros", "ros, velocity, ros2-control, joint-trajectory, or go2:lo: a Go2's own DDS."),
    ("sim_out", "", "Folder for trajectory.npz."),
    ("video", "", "Film of the walk, rendered at the end: .mp4, .gif, or .png."),
)
SEVERAL = ("faults", "image", "camera")  # options with several values, separated by blanks
FILMING_S = "600"  # before the next signal
ARGUMENTS = (
    ("auto_arm", "true", "Stand up and walk without an operator."),
    ("arm", "", "true, or false for a dry run; by default true where ros2_control needs it."),
    ("dry_run", "false", "Command no motor, publish joint_command_dry_run instead."),
    ("namespace", "", "Namespace of all nodes."),
    ("realtime", "true", "Ask for real-time priority."),
    ("any_interface", "false", "Allow a simulated Go2 on an interface of a real one."),
    ("odom", "true", "Publish odom; otherwise the robot goes by its legs."),
    ("gui", "false", "Show the robot in the simulator's window."),
    ("log_level", "info", "debug, info, warn, error or fatal."),
    *OPTIONS,
)


def simulated_robot(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    value = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}
    truth = {
        name: is_true(name, value[name])
        for name in ("any_interface", "dry_run", "gui", "odom", "realtime")
    }
    # A window excludes real-time priority: the command refuses --realtime with --gui.
    arguments = ["--gui"] if truth["gui"] else []
    if not (truth["gui"] and truth["realtime"]):
        arguments.append("--realtime" if truth["realtime"] else "--no-realtime")
    if truth["any_interface"]:
        arguments.append("--any-interface")
    if not truth["odom"]:
        arguments.append("--no-odom")
    for name, _, _ in OPTIONS:
        if value[name] and (truth["odom"] or not name.startswith("odom_")):
            option = name.removeprefix("sim_").replace("_", "-")
            several = value[name].split() if name in SEVERAL else [value[name]]
            arguments += [f"--{option}", *several]
    needed = value["link"].startswith(("ros2-control", "joint-trajectory")) and not truth["dry_run"]
    arm = is_true("arm", value["arm"]) if value["arm"] else needed
    return [
        SetLaunchConfiguration("arm", "true" if arm else "false"),
        Node(
            package="pixelgait",
            executable="pixelgait-sim",
            namespace=value["namespace"],
            output="screen",
            arguments=arguments,
            ros_arguments=["--log-level", value["log_level"]],
            on_exit=Shutdown(reason="the simulated robot has ended"),
            sigterm_timeout=FILMING_S if value["video"] else "5",
        ),
    ]


def generate_launch_description() -> LaunchDescription:
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, default, description in ARGUMENTS
    ]
    return LaunchDescription(
        [
            *declared,
            OpaqueFunction(function=simulated_robot),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(ROBOT)),
        ]
    )
