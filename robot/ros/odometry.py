"""Odometry topic of the node: `odom` and `/tf` from odom to the base, by the robot's legs.

Once another node publishes `odom`, this one publishes neither until it is activated again.
"""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry

from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.interface import Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.static_transforms import TFMessage
from pixelgait.robot.ros.common.topic_names import ODOMETRY
from pixelgait.robot.rotation import heading, product, upright

TF = "/tf"
EVERY = 2  # control steps: 50 Hz
X, Y, Z, ROLL, PITCH, YAW = (7 * i for i in range(6))  # on the diagonal of a covariance (6, 6)
XY, YX = 1, 6
TILT_RAD = 0.05  # of the IMU: `Randomisation.imu_bias_rad`
# A distance that 95 % are below, in standard deviations: sqrt(5.99 / 2) for two coordinates.
TWO_SIGMA = 1.73
HEIGHT_M, RISE_M_PER_S, RATE_RAD_PER_S = 0.05, 0.1, 0.1  # standard deviations; assumptions


class OdometryTopic:
    """Publishes every second motion of the control thread, until another node publishes `odom`.

    The other's frame has the same name and another place: if it ends, `odom` ends.

    With `transforms` also on `/tf`, if there is tf2_msgs.
    """

    def __init__(self, node: Any, base_frame: str, transforms: bool) -> None:
        self._node, self._transforms = node, transforms and TFMessage is not None
        self._publishers: tuple[Any, Any] | None = None  # of odom, and of /tf
        self._withdrawn: tuple[Any, Any] | None = None  # to be destroyed
        self._gave_way = False  # to another node, since `begin`
        self._steps = 0
        self._message, self._transform = Odometry(), TransformStamped()
        self._message.header.frame_id = self._transform.header.frame_id = ODOMETRY
        self._message.child_frame_id = self._transform.child_frame_id = base_frame

    @property
    def publishes(self) -> bool:
        """Whether this node publishes, or did a moment ago."""
        return self._publishers is not None or self._withdrawn is not None

    def begin(self) -> None:
        """Forget other nodes, at activation: the frame begins anew."""
        self._gave_way = False

    def give_way(self, others: bool) -> None:
        """Publish until there are others; called periodically, not in the control thread.

        A publisher that the control thread may be using is destroyed at the next call.
        """
        self._destroy()
        self._gave_way = self._gave_way or others
        if self._gave_way:
            self._withdrawn, self._publishers = self._publishers, None
        elif self._publishers is None:
            odometry = self._node.create_publisher(Odometry, ODOMETRY, ros2.DRIVER_QOS)
            tf = None
            if self._transforms:
                tf = self._node.create_publisher(TFMessage, TF, ros2.DRIVER_QOS)
            self._publishers = odometry, tf

    def publish(self, reading: Reading, motion: Motion) -> None:
        """Publish the motion at a reading."""
        self._steps += 1
        if (publishers := self._publishers) is None or self._steps % EVERY:
            return
        message, (xx, xy, yy) = self._message, motion.position_variance
        message.header.stamp = ros2.stamp(round(reading.time_s * 1e9))
        place, q = message.pose.pose.position, message.pose.pose.orientation
        place.x, place.y, place.z = motion.x, motion.y, motion.height
        x, y, z, w = reading.orientation.tolist()
        q.x, q.y, q.z, q.w = product(upright(motion.heading - heading((x, y, z, w))), (x, y, z, w))
        speed = message.twist.twist
        speed.linear.x, speed.linear.y, speed.angular.z = motion.ahead, motion.left, motion.turn
        pose, twist = message.pose.covariance, message.twist.covariance
        pose[X], pose[XY], pose[YX], pose[Y] = xx, xy, xy, yy
        pose[Z], pose[ROLL], pose[PITCH] = HEIGHT_M**2, TILT_RAD**2, TILT_RAD**2
        pose[YAW] = motion.heading_variance
        twist[X] = twist[Y] = motion.velocity_variance
        twist[Z], twist[ROLL] = RISE_M_PER_S**2, RATE_RAD_PER_S**2
        twist[PITCH] = twist[YAW] = RATE_RAD_PER_S**2
        publishers[0].publish(message)
        if publishers[1] is not None:
            publishers[1].publish(self._transform_of(message))

    def _transform_of(self, message: Any) -> Any:
        sent, place = self._transform.transform.translation, message.pose.pose.position
        sent.x, sent.y, sent.z = place.x, place.y, place.z
        self._transform.transform.rotation = message.pose.pose.orientation
        self._transform.header.stamp = message.header.stamp
        return TFMessage(transforms=[self._transform])

    def _destroy(self) -> None:
        for each in self._withdrawn or ():
            if each is not None:
                self._node.destroy_publisher(each)
        self._withdrawn = None

    def close(self) -> None:
        """Destroy the publishers, after the control thread has ended."""
        self._destroy()
        self._withdrawn, self._publishers = self._publishers, None
        self._destroy()


def described(motion: Motion, by_legs: bool = True) -> tuple[bool, str]:
    """For the diagnostics: whether all is well, and how far legs may be off."""
    if not by_legs:
        return True, "by its own program"
    xx, _, yy = motion.position_variance
    off_m = TWO_SIGMA * math.sqrt(xx + yy)
    text = f"by legs, may be off by {off_m:.2f} m"
    return motion.problem is None, text if motion.problem is None else f"{motion.problem}: {text}"
