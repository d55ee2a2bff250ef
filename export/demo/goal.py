"""Goal publisher of the demo: `goal_pose` at x, y [m] in the odometry's frame, as RViz does."""

from __future__ import annotations

import sys

from geometry_msgs.msg import PoseStamped
from std_msgs.msg import Float64, String

from pixelgait.robot.ros.commands.goal import GOAL
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DISTANCE, NODE, ODOMETRY, STATE

AGAIN_S = 0.2
UP = ("standing up", "ready", "walking")  # states in which all sensors have sent


class GoalPublisher:
    """Publishes the goal until the controller reports its distance."""

    def __init__(self, x: float, y: float) -> None:
        self.node = ros2.rclpy.create_node("guide")
        self.position = x, y
        self.up = self.accepted = False
        self._goals = self.node.create_publisher(PoseStamped, GOAL, 1)
        self.node.create_subscription(String, f"{NODE}/{STATE}", self._on_state, ros2.latched(1))
        self.node.create_subscription(Float64, f"{NODE}/{DISTANCE}", self._on_distance, 1)
        self.node.create_timer(AGAIN_S, self._publish)

    def _on_state(self, state: String) -> None:
        self.up = state.data.startswith(UP)

    def _on_distance(self, distance_m: Float64) -> None:
        self.accepted = True

    def _publish(self) -> None:
        if not self.up or self.accepted:
            return
        goal = PoseStamped()
        goal.header.stamp, goal.header.frame_id = self.node.get_clock().now().to_msg(), ODOMETRY
        goal.pose.position.x, goal.pose.position.y = self.position
        goal.pose.orientation.w = 1.0
        self._goals.publish(goal)


def main() -> None:
    """Run until a signal ends the walk."""
    over = ros2.start()
    publisher = GoalPublisher(*map(float, sys.argv[1:3]))
    while not over.is_set():
        ros2.rclpy.spin_once(publisher.node, timeout_sec=AGAIN_S)
    publisher.node.destroy_node()
    ros2.rclpy.utilities.try_shutdown()


if __name__ == "__main__":
    main()
