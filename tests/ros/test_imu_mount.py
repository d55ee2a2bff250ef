"""An IMU that is mounted otherwise: rotated into the base by /tf_static, between processes."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import serialize_message

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.topic_driver import TopicSensors
from pixelgait.robot.rotation import Quaternion, inverse, product, roll_pitch, to_base_frame
from pixelgait.robot.spec import A1
from tests.ros.support import AUTO, PUBLISH_MOUNTS, Client, FakeRobot, Processes, output_of

HERE = (0.0, 0.0, 0.0)
# Publishes the IMU's messages as if it was turned by a yaw.
RELAY = """
import math, sys
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.rotation import product, to_base_frame

yaw = float(sys.argv[1])
mount = (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
stop = ros2.start()
node = ros2.rclpy.create_node("imu")
publisher = node.create_publisher(ros2.Imu, "imu/data", ros2.SENSOR_QOS)

def turn(message):
    q, w = message.orientation, message.angular_velocity
    q.x, q.y, q.z, q.w = product((q.x, q.y, q.z, q.w), mount)
    w.x, w.y, w.z = to_base_frame((w.x, w.y, w.z), mount)
    message.header.frame_id = "imu_link"
    publisher.publish(message)

node.create_subscription(ros2.Imu, "unturned/imu/data", turn, ros2.SENSOR_QOS)
while not stop.is_set():
    ros2.rclpy.spin_once(node, timeout_sec=0.1)
"""
UNTURNED = ("--ros-args", "-r", "imu/data:=unturned/imu/data")


def about_z(yaw_rad: float) -> Quaternion:
    return (0.0, 0.0, math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0))


class Transforms:
    """Transforms that know one frame."""

    def __init__(self, pose: Any) -> None:
        self._pose, self.tree = pose, self

    def pose(self, frame: str) -> Any:
        assert frame == "imu_link"
        return self._pose

    def unknown(self, sensor: str, frame: str) -> str:
        return f"{sensor} {frame}"


def sensors(
    orientation: Quaternion, rate: tuple[float, ...], force: tuple[float, ...] | None = None
) -> TopicSensors:
    """Sensors that have received joint states, and these values of an IMU, twice."""
    receiving = TopicSensors(SimpleNamespace(create_subscription=lambda *_, **__: None), A1)
    joints = ros2.JointState(name=list(A1.joint_names), position=[0.5] * 12, velocity=[0.0] * 12)
    measured = None if force is None else np.array(force)
    message = ros2.imu_message(1, "imu_link", np.array(orientation), np.array(rate), measured)
    for _ in range(2):
        receiving._add_force(serialize_message(message))
    receiving._messages.newest = {ros2.JOINT_STATES: joints, ros2.IMU: message}
    return receiving


@pytest.mark.parametrize("turn", [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.6, 0.0, 0.8)])
@pytest.mark.parametrize("angle_rad", [math.pi, math.pi / 2.0, -0.3])
def test_orientation_and_rate_are_rotated_into_the_base(
    turn: tuple[float, float, float], angle_rad: float
) -> None:
    sin, cos = math.sin(angle_rad / 2.0), math.cos(angle_rad / 2.0)
    mount = (*(sin * each for each in turn), cos)
    base, rate = product(about_z(0.4), (math.sin(0.1), 0.0, 0.0, math.cos(0.1))), (0.3, -0.2, 0.1)
    force = (1.0, -2.0, 9.0)
    turned = to_base_frame(rate, mount), to_base_frame(force, mount)
    receiving = sensors(product(base, mount), *turned)
    pose = np.eye(4)
    for axis in range(3):
        pose[:3, axis] = to_base_frame(np.eye(3)[axis].tolist(), inverse(mount))
    says = receiving.mount_imu(Transforms(pose))  # type: ignore[arg-type]
    about = ["(" + ", ".join(f"{s * each + 0.0:.2f}" for each in turn) + ")" for s in (1.0, -1.0)]
    axis = about if angle_rad == math.pi else [about[angle_rad < 0.0]]  # half a turn has two
    assert says in [
        f"imu/data is rotated into the base by {abs(angle_rad):.2f} rad about {each}, "
        "as /tf_static says"
        for each in axis
    ]
    reading = receiving.read(lambda: None, None)  # type: ignore[arg-type, return-value]
    np.testing.assert_allclose(np.abs(reading.orientation @ np.array(base)), 1.0)
    np.testing.assert_allclose(reading.angular_velocity, rate, atol=1e-12)
    assert reading.specific_force is not None
    np.testing.assert_allclose(reading.specific_force, force, atol=1e-12)


def test_an_imu_whose_mount_is_unknown_or_none_is_used_as_it_is() -> None:
    base, rate = about_z(0.4), (0.3, -0.2, 0.1)
    receiving = sensors(base, rate)
    for pose, says in ((None, "IMU imu_link"), (np.eye(4), None)):
        assert receiving.mount_imu(Transforms(pose)) == says  # type: ignore[arg-type]
        reading = receiving.read(lambda: None, None)  # type: ignore[arg-type, return-value]
        assert reading.orientation.tolist() == list(base)
        assert reading.angular_velocity.tolist() == list(rate)
        assert reading.specific_force is None  # marked as not measured


def test_an_unknown_mount_is_named_before_the_fault_that_it_causes(
    processes: Processes, client: Client, robot: FakeRobot, iap_bundle: Path
) -> None:
    """An IMU that hangs upside down."""
    robot.roll = math.pi
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.spin(lambda: run.poll() is not None)
    output = output_of(run)
    unknown = "the IMU's mount is not checked: /tf_static does not lead from 'base_link' to 'imu'"
    assert output.count(unknown) == 1
    fault = "error: tilted by 3.14 rad: it cannot stand up from there"
    assert output.index(unknown) < output.index(fault)


@pytest.mark.slow
@pytest.mark.parametrize("yaw_rad", [math.pi, math.pi / 2.0])
def test_a_robot_whose_imu_is_turned_walks_upright_if_its_mount_is_published(
    tf2_processes: Processes, client: Client, yaw_rad: float
) -> None:
    tilts: list[float] = []

    def keep(message: Any) -> None:
        q = message.orientation
        tilts.append(max(map(abs, roll_pitch((q.x, q.y, q.z, q.w)))))

    client.node.create_subscription(ros2.Imu, "unturned/imu/data", keep, ros2.SENSOR_QOS)
    tf2_processes.start("pixelgait-sim", "--scene", "flat", *UNTURNED)
    tf2_processes.script(RELAY, yaw_rad)
    mount = [("base_link", "imu_link", HERE, about_z(yaw_rad))]
    tf2_processes.script(PUBLISH_MOUNTS, repr(mount))
    run = tf2_processes.start("pixelgait-run", "rover", "--duration", 4, *AUTO)
    client.spin(lambda: run.poll() is not None)
    output = output_of(run)
    assert run.returncode == 0, output
    assert f"imu/data is rotated into the base by {yaw_rad:.2f} rad" in output
    assert max(tilts) < 0.35
