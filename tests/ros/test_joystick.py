"""A joystick: sensor_msgs/Joy by the mapping of teleop_twist_joy, as the documentation has it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.ros.support import AUTO, Client, FakeRobot, Processes

PAGE = Path(__file__).resolve().parents[2] / "docs/robot/goals.md"

# A stand-in: no wheel has teleop_twist_joy. Axes times scales while the button is pressed, and one
# zero when it is released, as in its source.
TELEOP = """
import sys
from geometry_msgs.msg import Twist
from sensor_msgs.msg import Joy
from pixelgait.robot.ros.common import ros2

given = dict(each.split(":=") for each in sys.argv[1:])
stop = ros2.start([])
node = ros2.rclpy.create_node("teleop_twist_joy_node")
publisher = node.create_publisher(Twist, "cmd_vel", 10)
pressed = False

def scaled(joy, axis):
    return joy.axes[int(given["axis_" + axis])] * float(given["scale_" + axis])

def take(joy):
    global pressed
    before, pressed = pressed, bool(joy.buttons[int(given["enable_button"])])
    twist = Twist()
    if pressed:
        twist.linear.x, twist.angular.z = scaled(joy, "linear.x"), scaled(joy, "angular.yaw")
    if pressed or before:
        publisher.publish(twist)

node.create_subscription(Joy, "joy", take, 10)
while not stop.is_set():
    ros2.rclpy.spin_once(node, timeout_sec=0.05)
"""


def documented() -> list[str]:
    """The parameters of teleop_twist_joy in the documentation."""
    lines = PAGE.read_text().splitlines()
    line = next(each for each in lines if "teleop_twist_joy teleop_node" in each)
    return re.findall(r"-p (\S+:=\S+)", line)


class Stick:
    """Publishes a joystick's state at 20 Hz, as joy_node repeats it by default."""

    def __init__(self, client: Client) -> None:
        from sensor_msgs.msg import Joy

        self._kind, self._client = Joy, client
        self.publisher = client.node.create_publisher(Joy, "joy", 10)

    def hold(self, ahead: float, left: float, pressed: bool) -> None:
        """Publish once: the left stick's and the right stick's position, and the button."""
        message = self._kind(axes=[0.0] * 6, buttons=[0] * 8)
        message.axes[1], message.axes[3], message.buttons[4] = ahead, left, int(pressed)
        self.publisher.publish(message)

    def swing_rad(self, *held: float | bool) -> float:
        """How far the joints' targets swing within a second of holding it, or of silence."""
        self._client.commands.clear()
        for _ in range(20):
            if held:
                self.hold(*held)  # type: ignore[arg-type]
            self._client.spin_for(0.05)
        targets = [each.position for each in self._client.commands if each.position]
        return float(np.ptp(targets, axis=0).max())


@pytest.mark.slow
def test_a_joystick_drives_a_robot_by_the_mapping_of_teleop_twist_joy(
    processes: Processes, client: Client, robot: FakeRobot
) -> None:
    run = processes.start("pixelgait-run", "walk", *AUTO)
    processes.script(TELEOP, *documented())
    robot.publish_camera = False  # the policy has no camera
    stick, told = Stick(client), client.diagnose()
    client.wait_for_state("walking")
    client.spin(stick.publisher.get_subscription_count)

    def follows(*held: float | bool) -> None:
        """Hold it until the robot steps."""
        client.spin(lambda: stick.swing_rad(*held) > 0.2)

    def stands(*held: float | bool) -> None:
        """It stands for a second, some time after."""
        client.spin(lambda: stick.swing_rad(*held) < 1e-3)

    def says(message: str, *held: float | bool) -> None:
        """Hold it until the diagnostic, which comes once a second, says so."""

        def said() -> bool:
            stick.swing_rad(*held)
            return "cmd_vel" in told and bool(re.fullmatch(message, told["cmd_vel"].message))

        client.spin(said)

    stands(1.0, 0.0, False)  # the button is not pressed
    says(".*no messages.*", 1.0, 0.0, False)
    follows(0.7, 0.0, True)
    follows(0.0, -1.0, True)  # turns on the spot
    says("follows the newest command", 0.0, -1.0, True)  # the scales are the robot's
    stands(0.0, 0.0, True)  # sticks let go: zero velocity, the message is new
    says("follows the newest command", 0.0, 0.0, True)
    follows(1.0, 0.5, True)
    stands(1.0, 0.5, False)  # the button is let go
    follows(1.0, 0.5, True)
    stands()  # the joystick's radio fails
    client.spin(lambda: told["cmd_vel"].message.endswith(" s old: the robot stands"))
    assert run.poll() is None
