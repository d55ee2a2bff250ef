"""A robot's driver on ROS 2 topics: joint states and IMU in, joint commands out."""

from __future__ import annotations

from threading import Event
from typing import Any

from pixelgait.robot.interface import JointCommand
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.topic_sensors import TopicSensors
from pixelgait.robot.spec import RobotSpec


class CommandTopic:
    """Joint commands as JointState: joint_command, or what a dry run would have sent."""

    def __init__(self, node: Any, spec: RobotSpec, topic: str) -> None:
        self._node, self._names = node, spec.joint_names
        self._publisher = node.create_publisher(ros2.JointState, topic, ros2.COMMAND_QOS)

    def send(self, command: JointCommand) -> None:
        """Publish the command, stamped with the time of the reading it answers."""
        stiff = bool(command.kp.any())
        self._publisher.publish(
            ros2.joint_command(
                round(command.time_s * 1e9),
                self._names,
                command.targets if stiff else None,
                command.feed_forward,
            )
        )

    def close(self) -> None:
        """Leave the topic."""
        self._node.destroy_publisher(self._publisher)


class TopicDriver(TopicSensors):
    """The `Driver` behind joint_states, imu/data and joint_command."""

    commands = ros2.JOINT_COMMAND

    def __init__(self, node: Any, sensor_node: Any, spec: RobotSpec) -> None:
        super().__init__(sensor_node, spec)
        self._node = node
        self._topic: CommandTopic | None = None

    def acquire(self, stop: Event) -> None:
        """Whoever else publishes commands is found by `Neighbours`."""
        if self._topic is None:
            self._topic = CommandTopic(self._node, self.spec, self.commands)

    def take_motors(self, stop: Event) -> None:
        """Nobody but the robot's driver has them."""

    def send(self, command: JointCommand) -> None:
        assert self._topic is not None
        self._topic.send(command)

    def settle(self) -> None:
        """The robot's driver damps until it is told otherwise."""

    def close(self) -> None:
        """Leave the topic."""
        if self._topic is not None:
            self._topic.close()
