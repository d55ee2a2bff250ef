"""Tells the controller where to go, as RViz would: `goal_pose` at x, y [m] in odom's frame."""

from __future__ import annotations

import sys

from geometry_msgs.msg import PoseStamped
from std_msgs.msg import Float64, String

from pixelgait.robot.ros.commands.goal import GOAL
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DISTANCE, NODE, ODOMETRY, STATE

AGAIN_S = 0.2
UP = ("standing up", "ready", "walking")  # states in which it is told: all sensors send by then


class Guide:
    """Says it until the controller tells how far it is."""

    def __init__(self, x: float, y: float) -> None:
        self.node = ros2.rclpy.create_node("guide")
        self.place = x, y
        self.up = self.heard = False
        self._goals = self.node.create_publisher(PoseStamped, GOAL, 1)
        self.node.create_subscription(String, f"{NODE}/{STATE}", self._stands, ros2.latched(1))
        self.node.create_subscription(Float64, f"{NODE}/{DISTANCE}", self._sets_out, 1)
        self.node.create_timer(AGAIN_S, self._tell)

    def _stands(self, state: String) -> None:
        self.up = state.data.startswith(UP)

    def _sets_out(self, distance_m: Float64) -> None:
        self.heard = True

    def _tell(self) -> None:
        if not self.up or self.heard:
            return
        goal = PoseStamped()
        goal.header.stamp, goal.header.frame_id = self.node.get_clock().now().to_msg(), ODOMETRY
        goal.pose.position.x, goal.pose.position.y = self.place
        goal.pose.orientation.w = 1.0
        self._goals.publish(goal)


def main() -> None:
    """Until a signal says that the walk is over."""
    over = ros2.start()
    guide = Guide(*map(float, sys.argv[1:3]))
    while not over.is_set():
        ros2.rclpy.spin_once(guide.node, timeout_sec=AGAIN_S)
    guide.node.destroy_node()
    ros2.rclpy.utilities.try_shutdown()


if __name__ == "__main__":
    main()
