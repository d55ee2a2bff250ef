"""Controller node, with or without the stand-in robot.

ros2 launch pixelgait pixelgait.launch.py bundle:=iap sim:=true
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PythonExpression
from launch_ros.actions import Node

ARGUMENTS = (
    ("bundle", "iap", "Folder of a policy bundle, or the name of a shipped one."),
    ("namespace", "", "Namespace of both nodes."),
    ("sim", "false", "Also start the stand-in robot (PyBullet, real time)."),
    ("scene", "obstacle-course", "Scene of the stand-in robot."),
    ("difficulty", "0.5", "Difficulty of that scene, 0 to 1."),
    ("seed", "10000", "Lays that scene out."),
    ("auto_arm", "auto", "Stand up and walk without being asked; auto: if the robot is simulated."),
    ("dry_run", "false", "Command nobody, publish joint_command_dry_run instead."),
    ("autostart", "true", "Configure and activate at once, or wait for lifecycle transitions."),
    ("log_level", "info", "debug, info, warn, error or fatal."),
)


def generate_launch_description() -> LaunchDescription:
    value = {name: LaunchConfiguration(name) for name, _, _ in ARGUMENTS}
    logging = ["--ros-args", "--log-level", value["log_level"]]
    autostart = PythonExpression(
        ["'--autostart' if '", value["autostart"], "' == 'true' else '--no-autostart'"]
    )
    auto_arm = PythonExpression(
        [
            *("'--auto-arm' if '", value["auto_arm"], "' == 'true'"),
            *(" or '", value["auto_arm"], "' == 'auto' and '", value["sim"], "' == 'true'"),
            " else '--no-auto-arm'",
        ]
    )
    dry_run = PythonExpression(
        ["'--dry-run' if '", value["dry_run"], "' == 'true' else '--no-dry-run'"]
    )
    controller = Node(
        package="pixelgait",
        executable="pixelgait-run",
        namespace=value["namespace"],
        output="screen",
        arguments=[value["bundle"], autostart, auto_arm, dry_run, *logging],
    )
    stand_in = Node(
        package="pixelgait",
        executable="pixelgait-sim",
        namespace=value["namespace"],
        output="screen",
        arguments=[
            *("--scene", value["scene"]),
            *("--difficulty", value["difficulty"]),
            *("--seed", value["seed"]),
            *logging,
        ],
        condition=IfCondition(value["sim"]),
    )
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, default, description in ARGUMENTS
    ]
    return LaunchDescription([*declared, stand_in, controller])
