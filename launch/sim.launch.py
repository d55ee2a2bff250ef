"""A simulated robot and its controller: robot.launch.py with a robot of its own.

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
# Of pixelgait-sim, by their names on its command line.
OPTIONS = (
    ("scene", "obstacle-course", "Where it stands."),
    ("difficulty", "", "Of that scene, 0 to 1; if it has but one, none."),
    ("appearance", "", "train or test: other textures, light and sky every time."),
    ("robot", "a1", "a1, mini_cheetah, laikago or go2."),
    ("body", "pybullet", "Simulator: pybullet or mujoco."),
    ("seed", "10000", "Lays the scene out."),
    ("faults", "", "Sensors that fail: 'mixed', or as of pixelgait-eval."),
    ("camera", "32 48", "Height and width of its images [pixels]."),
    ("odom_scale", "1.0", "Factor on the lengths that odom measures."),
    ("odom_turn", "0.0", "How far odom's heading turns away on every metre [rad]."),
    ("odom_noise", "0.0", "Noise of odom, standard deviation [m], of its heading [rad]."),
    ("link", "ros", "ros, ros2-control, joint-trajectory, or go2:lo: a Go2's own DDS."),
    ("sim_out", "", "Folder for trajectory.npz."),
    ("video", "", "Film where it was, once it has stopped: .mp4, .gif, or .png."),
)
SEVERAL = ("faults", "camera")  # all else is one word, whatever blanks are in it
FILMING_S = "600"  # before it is told again to end
ARGUMENTS = (
    ("auto_arm", "true", "Stand up and walk without being asked."),
    ("arm", "", "true, or false for a dry run; by default true where ros2_control needs it."),
    ("dry_run", "false", "Command nobody, publish joint_command_dry_run instead."),
    ("namespace", "", "Namespace of all nodes."),
    ("realtime", "true", "Ask for real-time priority."),
    ("gui", "false", "Watch it in the simulator's own window."),
    ("log_level", "info", "debug, info, warn, error or fatal."),
    *OPTIONS,
)


def simulated_robot(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    value = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}
    truth = {name: is_true(name, value[name]) for name in ("dry_run", "gui", "realtime")}
    # A window is never real-time: beside --gui the command refuses --realtime.
    arguments = ["--gui"] if truth["gui"] else []
    if not (truth["gui"] and truth["realtime"]):
        arguments.append("--realtime" if truth["realtime"] else "--no-realtime")
    for name, _, _ in OPTIONS:
        if value[name]:
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
