"""Operator's commands to pixelgait-run from a terminal, for machines without the `ros2` command.

python examples/operate.py emergency_stop                    # or arm, stand_up, walk, lie_down, ...
python examples/operate.py goal 3.35 0.35                    # [m], in the frame of odom
python examples/operate.py cmd_vel 0.4 0.3 --seconds 10      # [m/s], [rad/s, left positive]
python examples/operate.py cmd_vel -0.2 0 --left 0.3         # [m/s], of a walker that can
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped, Twist
from std_srvs.srv import Trigger

SERVICES = (
    *("arm", "stand_up", "walk", "lie_down", "disarm", "cancel_goal"),
    *("emergency_stop", "reset_emergency_stop"),
)
DISCOVERY_S = 5.0
PERIOD_S = 0.1  # of cmd_vel: the robot stands 0.5 s after the last message


def call(node: Any, name: str) -> int:
    """Call a service of the node; its answer is printed. Returns the exit code."""
    client = node.create_client(Trigger, f"pixelgait/{name}")
    if not client.wait_for_service(DISCOVERY_S):
        print("no pixelgait-run on this computer answers", file=sys.stderr)
        return 1
    future = client.call_async(Trigger.Request())
    rclpy.spin_until_future_complete(node, future, timeout_sec=DISCOVERY_S)
    response = future.result()
    if response is None:
        print(f"no answer within {DISCOVERY_S:g} s", file=sys.stderr)
        return 1
    print(response.message or "done")
    return 0 if response.success else 1


def send_goal(node: Any, x_m: float, y_m: float) -> int:
    """Publish a goal once, as soon as there is a subscriber. Returns the exit code."""
    publisher = node.create_publisher(PoseStamped, "goal_pose", 1)
    goal = PoseStamped()
    goal.header.frame_id = "odom"
    goal.pose.position.x, goal.pose.position.y = x_m, y_m
    end_s = time.monotonic() + DISCOVERY_S
    while publisher.get_subscription_count() == 0:
        if time.monotonic() > end_s:
            print("no policy with a goal listens on goal_pose", file=sys.stderr)
            return 1
        rclpy.spin_once(node, timeout_sec=PERIOD_S)
    publisher.publish(goal)
    rclpy.spin_once(node, timeout_sec=0.5)  # leaving at once could lose the message
    return 0


def send_velocity(node: Any, speed: float, left: float, yaw_rate: float, seconds: float) -> int:
    """Publish a velocity command at 10 Hz, then zero. Returns the exit code."""
    publisher = node.create_publisher(Twist, "cmd_vel", 1)
    command = Twist()
    command.linear.x, command.linear.y, command.angular.z = speed, left, yaw_rate
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        publisher.publish(command)
        time.sleep(PERIOD_S)
    publisher.publish(Twist())
    time.sleep(PERIOD_S)
    return 0


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in SERVICES:
        commands.add_parser(name)
    goal = commands.add_parser("goal")
    goal.add_argument("x", type=float)
    goal.add_argument("y", type=float)
    velocity = commands.add_parser("cmd_vel")
    velocity.add_argument("speed", type=float)
    velocity.add_argument("yaw_rate", type=float)
    velocity.add_argument("--left", type=float, default=0.0)
    velocity.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    rclpy.init()
    node = rclpy.create_node("operator")
    try:
        if given.command == "goal":
            code = send_goal(node, given.x, given.y)
        elif given.command == "cmd_vel":
            code = send_velocity(node, given.speed, given.left, given.yaw_rate, given.seconds)
        else:
            code = call(node, given.command)
    except KeyboardInterrupt:
        code = 130
    node.destroy_node()
    rclpy.try_shutdown()
    sys.exit(code)


if __name__ == "__main__":
    main()
