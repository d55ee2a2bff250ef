"""What a camera's driver says of it: its lens (`camera_info`) and where it sits (`/tf_static`)."""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import TransformStamped
from sensor_msgs.msg import CameraInfo

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.monitoring.camera_mount import MOST_WAITING, TF_STATIC, TFMessage
from pixelgait.robot.spec import CameraMount


def camera_info(time_ns: int, frame: str, height: int, width: int, mount: CameraMount) -> Any:
    """The message of a camera without distortion, with square pixels."""
    info = CameraInfo(height=height, width=width, distortion_model="plumb_bob", d=[0.0] * 5)
    info.header.stamp, info.header.frame_id = ros2.stamp(time_ns), frame
    focal = height / 2.0 / math.tan(mount.vertical_fov_rad / 2.0)
    x, y = (width - 1) / 2.0, (height - 1) / 2.0  # the middle: pixels' centres are whole numbers
    info.k = [focal, 0.0, x, 0.0, focal, y, 0.0, 0.0, 1.0]
    info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    info.p = [focal, 0.0, x, 0.0, 0.0, focal, y, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info


def publish_mount(node: Any, base_frame: str, frame: str, mount: CameraMount) -> None:
    """Say where a camera with an optical frame sits, once for all, where there is tf2_msgs."""
    if TFMessage is None:
        return
    half = mount.pitch_down_rad / 2.0
    c, s = math.cos(half), math.sin(half)
    sent = TransformStamped(child_frame_id=frame)
    sent.header.frame_id, sent.header.stamp = base_frame, node.get_clock().now().to_msg()
    t, q = sent.transform.translation, sent.transform.rotation
    t.x, t.y, t.z = mount.position_m
    # A pitch about the base's y, then the turn that lets z look ahead: (-1, 1, -1, 1) / 2.
    q.x, q.y, q.z, q.w = (-c - s) / 2.0, (c + s) / 2.0, (s - c) / 2.0, (c - s) / 2.0
    publisher = node.create_publisher(TFMessage, TF_STATIC, ros2.latched(MOST_WAITING))
    publisher.publish(TFMessage(transforms=[sent]))
