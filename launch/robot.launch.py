"""The controller of a robot, as a managed node.

ros2 launch pixelgait robot.launch.py bundle:=rover
"""

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

# Options of pixelgait-run.
FLAGS = (
    ("auto_arm", "false", "Stand up and walk without an operator: for a simulated robot."),
    ("arm", "false", "Allow commands to a real robot's motors; else ros2_control, go2 run dry."),
    ("dry_run", "false", "Command no motor, publish joint_command_dry_run instead."),
    ("map", "false", "Map the surroundings from depth images and odometry."),
    ("autostart", "true", "Configure and activate at once, or wait for lifecycle transitions."),
    ("realtime", "true", "Ask for real-time priority."),
)
OPTIONS = (
    ("link", "ros", "ros, velocity, ros2-control, joint-trajectory, go2:INTERFACE, go2-sport:…"),
    ("pilot", "bundle", "bundle, policy or cmd_vel: source of the velocity command."),
    ("response", "", "How a robot with its own gait answers velocities: a file of measure."),
    ("measure", "", "Measure that, and write the file."),
    ("goal", "", "First goal: 'x y' [m] in odom's frame."),
    ("duration", "0.0", "Stop after walking so many seconds; 0: never."),
    ("out", "", "Folder for latency.json and decisions.npz."),
    ("cores", "", "Processor cores to run on: '2 3'."),
    ("record", "", "Record to this MCAP file; needs the extra record."),
)
SEVERAL = ("goal", "cores")  # options with several values, separated by blanks
ARGUMENTS = (
    ("bundle", "rover", "Folder of a policy bundle, or the name of a shipped one."),
    *FLAGS,
    *OPTIONS,
    ("namespace", "", "Namespace of all nodes."),
    ("params_file", "", "YAML file with parameters of the node pixelgait."),
    ("log_level", "info", "debug, info, warn, error or fatal."),
    ("respawn", "false", "Restart the controller, disarmed, whenever it has ended."),
)
RESPAWN_DELAY_S = 2.0
TRUTH = {"true": True, "1": True, "false": False, "0": False}


def is_true(name: str, text: str) -> bool:
    """The value of an argument that must be true or false."""
    if text.lower() not in TRUTH:
        raise RuntimeError(f"{name} is '{text}', needs true or false")
    return TRUTH[text.lower()]


def controller(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    value = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}
    arguments = [value["bundle"]]
    for name, _, _ in FLAGS:
        option = name.replace("_", "-")
        arguments.append(f"--{option}" if is_true(name, value[name]) else f"--no-{option}")
    for name, _, _ in OPTIONS:
        if value[name]:
            several = value[name].split() if name in SEVERAL else [value[name]]
            arguments += [f"--{name.replace('_', '-')}", *several]
    respawn = is_true("respawn", value["respawn"])
    if respawn and "--auto-arm" in arguments:
        raise RuntimeError(
            "respawn with auto_arm: the robot would stand up by itself after a fault"
        )
    return [
        Node(
            package="pixelgait",
            executable="pixelgait-run",
            namespace=value["namespace"],
            output="screen",
            arguments=arguments,
            ros_arguments=["--log-level", value["log_level"]],
            parameters=[value["params_file"]] if value["params_file"] else [],
            respawn=respawn,
            respawn_delay=RESPAWN_DELAY_S,
            # The end of the controller must be visible to the user.
            on_exit=None if respawn else Shutdown(reason="the controller has ended"),
        )
    ]


def generate_launch_description() -> LaunchDescription:
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, default, description in ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=controller)])
