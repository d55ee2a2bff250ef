"""An activation ends, whatever people and other nodes do meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.ros.support import AUTO, Client, FakeRobot, Processes

CONFIGURE, ACTIVATE, DEACTIVATE = 1, 3, 4  # lifecycle_msgs/Transition
# A second controller that publishes nothing.
OTHER = """
from pixelgait.robot.ros.common import ros2
stop = ros2.start()
node = ros2.rclpy.create_node("other_node")
publisher = node.create_publisher(ros2.JointState, ros2.JOINT_COMMAND, 1)
stop.wait()
"""


def test_lying_down_during_the_automatic_start_leaves_the_node_active(
    processes: Processes, iap_bundle: Path, client: Client
) -> None:
    processes.start("pixelgait-sim", "--scene", "flat")
    run = processes.start("pixelgait-run", iap_bundle, "--no-autostart", *AUTO)
    assert client.order("lie_down") == (False, "not armed")  # and known from now on
    assert client.transition(CONFIGURE)
    request = client.change.srv_type.Request()
    request.transition.id = ACTIVATE
    activated = client.change.call_async(request)
    client.wait_for_state("standing up")
    assert client.order("lie_down")[0]
    client.spin(activated.done)
    assert activated.result().success
    assert client.state() == "active"
    client.wait_for_state("limp: lies")
    client.spin(lambda: not client.commands[-1].position)
    assert client.transition(DEACTIVATE)
    assert run.poll() is None


def test_a_second_controller_is_noticed_while_the_node_waits_for_sensors(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    robot.publish_camera = False
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    assert run.stdout is not None
    for line in run.stdout:
        if "waiting for" in line:
            break
    processes.script(OTHER)
    client.spin(lambda: run.poll() is not None)
    said = run.stdout.read()
    assert "\nerror: another node commands the joints: /other_node\n" in said
    assert not any(command.position for command in client.commands)


def test_a_camera_of_another_name_is_named_with_the_rule_that_takes_it(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """As realsense2_camera names its topics."""
    robot.publish_camera = False
    client.node.destroy_publisher(robot.camera)
    other = "/camera/camera/color/image_raw"
    client.node.create_publisher(robot.ros2.Image, other, 1)
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    assert run.stdout is not None
    waits = next(line for line in run.stdout if "waiting for" in line or "error: " in line)
    assert f"it has no publisher; of its type there are {other}, " in waits
    assert f": --ros-args -r camera/color/image_raw:={other} takes the first" in waits
    assert "joint_command" not in waits
