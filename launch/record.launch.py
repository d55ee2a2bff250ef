"""A recorded walk for pixelgait-replay: robot.launch.py or sim.launch.py with --record.

ros2 launch pixelgait record.launch.py record:=walk.mcap
ros2 launch pixelgait record.launch.py what:=sim record:=walk.mcap
"""

from datetime import datetime
from pathlib import Path

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration


def recorded(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    what = LaunchConfiguration("what").perform(context)
    if what not in ("robot", "sim"):
        raise RuntimeError(f"what is '{what}', needs robot or sim")
    file = str(Path(__file__).with_name(f"{what}.launch.py"))
    return [IncludeLaunchDescription(PythonLaunchDescriptionSource(file))]


def generate_launch_description() -> LaunchDescription:
    file = datetime.now().strftime("walk-%Y%m%d-%H%M%S.mcap")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "record", default_value=file, description="The MCAP file, by default of the time."
            ),
            DeclareLaunchArgument(
                "what", default_value="robot", description="robot or sim: which launch file."
            ),
            OpaqueFunction(function=recorded),
        ]
    )
