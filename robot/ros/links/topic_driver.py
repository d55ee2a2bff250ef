"""Driver over ROS 2 topics: joint_states and imu/data in, joint_command out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from std_msgs.msg import Float64MultiArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.frames import TF_STATIC, turn_of
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.static_transforms import StaticTransforms
from pixelgait.robot.ros.links.battery import BatteryTopic
from pixelgait.robot.ros.links.decoder import Decoder
from pixelgait.robot.rotation import Quaternion, inverse, product, to_base_frame
from pixelgait.robot.runtime.newest import Newest
from pixelgait.robot.runtime.power import PowerState
from pixelgait.robot.runtime.specific_force import SpecificForce
from pixelgait.robot.spec import Array, Legs, RobotSpec

ORIENTATION_MISSING = -1.0  # orientation_covariance[0], REP 145
MOST_OTHERS = 3  # so many topics are named in place of one without a publisher
LOOK_S = 0.5  # between two looks for the publishers of a topic without a message; they cost time


class Form(NamedTuple):
    """Another form of a topic's messages: the topic is `<name>/<suffix>`."""

    suffix: str
    kind: Any
    convert: Callable[[Any], Any]  # to the topic's own type


class NewestMessages(Newest):
    """The newest message of every topic and its age, taken in the control thread.

    The subscriptions belong to a node without an executor: the middleware keeps the newest message
    until the control thread takes it. An executor would wake up for every one of a thousand
    messages a second and hold the interpreter's lock when the control step needs it (0.2 to 0.5 ms
    were measured, for a low level of 0.05 ms).

    `each` looks at every message of a topic, in CDR, before the newest is converted.

    A topic that has no publisher is taken in the first of its `forms` that has one, and converted
    in a thread: see `Decoder`.
    """

    def __init__(
        self,
        node: Any,
        types: Mapping[str, Any],
        forms: Mapping[str, Sequence[Form]] = MappingProxyType({}),
        each: Mapping[str, Callable[[bytes], None]] = MappingProxyType({}),
    ) -> None:
        super().__init__(types, partial(ros2.now_s, node))
        self._node = node
        self._types, self._forms = dict(types), forms
        self._decoders: dict[str, Decoder] = {}  # by topic, if it has another form
        self._looked_s = time.monotonic()
        self._each = dict(each)
        self._subscriptions = {
            topic: ros2.subscribe(
                node, kind, topic, ros2.STREAM_QOS if topic in each else ros2.NEWEST_QOS
            )
            for topic, kind in types.items()
        }

    def fetch(self, topic: str) -> tuple[Any | None, str | None]:
        if topic in self._each:
            return self._fetch_all(topic), None
        message = ros2.take(self._subscriptions[topic])
        self.received[topic] += message is not None
        if topic in self._decoders:
            return self._decoders[topic].exchange(message)
        return message, None

    def _fetch_all(self, topic: str) -> Any | None:
        """The newest message, after each that has arrived was looked at."""
        arrived = ros2.take_serialized(self._subscriptions[topic])
        self.received[topic] += len(arrived)
        for serialized in arrived:
            self._each[topic](serialized)
        return deserialize_message(arrived[-1], self._types[topic]) if arrived else None

    def take(
        self, problem: Callable[[str, Any], str | None] = lambda *_: None
    ) -> Iterator[tuple[str, Any]]:
        """See `Newest.take`."""
        self._look_for_publishers()
        return super().take(problem)

    def _look_for_publishers(self) -> None:
        """Take another form of topics without a message, or warn of another type or name."""
        missing = [topic for topic in self.topics if not self.received[topic]]
        if not missing or time.monotonic() < self._looked_s + LOOK_S:
            return
        self._looked_s = time.monotonic()
        for topic in missing:
            kinds, wanted = self._published(topic), ros2.type_name(self._types[topic])
            self.freshness[topic].warning = None
            if wanted in kinds or topic in self._decoders:
                continue
            form = next((f for f in self._forms.get(topic, ()) if self._has(topic, f)), None)
            if form is not None:
                self._take_form(topic, form)
            elif kinds:
                self.freshness[topic].warning = f"is of {', '.join(kinds)}, not {wanted}"
            elif others := self._others(topic):
                self.freshness[topic].warning = (
                    f"it has no publisher; of its type there are {', '.join(others)}: "
                    f"--ros-args -r {topic}:={others[0]} takes the first"
                )

    def _published(self, topic: str) -> list[str]:
        """The types that a topic is published with."""
        infos = self._node.get_publishers_info_by_topic(topic)
        return sorted({each.topic_type for each in infos})

    def _others(self, topic: str) -> list[str]:
        """Topics of the same type that other nodes publish, those of the likest names first."""
        wanted = ros2.type_name(self._types[topic])
        names = [
            name
            for name, kinds in self._node.get_topic_names_and_types()
            if wanted in kinds and self._foreign(name)
        ]
        words = set(topic.split("/"))
        return sorted(names, key=lambda name: -len(words & set(name.split("/"))))[:MOST_OTHERS]

    def _foreign(self, name: str) -> bool:
        """Whether another process publishes a topic: its nodes are not named as this one's."""
        own = self._node.get_name()  # the node's own name, and `_sensors`
        infos = self._node.get_publishers_info_by_topic(name)
        return any(not own.startswith(each.node_name) for each in infos)

    def _form_name(self, topic: str, form: Form) -> str:
        """As image_transport names it, beside a remapped topic."""
        return f"{self._node.resolve_topic_name(topic)}/{form.suffix}"

    def _has(self, topic: str, form: Form) -> bool:
        return ros2.type_name(form.kind) in self._published(self._form_name(topic, form))

    def _take_form(self, topic: str, form: Form) -> None:
        self._node.destroy_subscription(self._subscriptions[topic])
        name = self._form_name(topic, form)
        self._subscriptions[topic] = ros2.subscribe(self._node, form.kind, name)
        self._decoders[topic] = Decoder(form.convert)

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        super().forget()
        for decoder in self._decoders.values():
            decoder.forget()


class TopicSensors:
    """The receiving half of a `Driver`: joint_states, matched by joint names, and imu/data."""

    types: Mapping[str, Any] = MappingProxyType(
        {ros2.JOINT_STATES: ros2.JointState, ros2.IMU: ros2.Imu}
    )

    def __init__(self, node: Any, spec: RobotSpec) -> None:
        self.spec = spec
        self._force = SpecificForce()
        self._messages = messages = NewestMessages(
            node, self.types, each={ros2.IMU: self._add_force}
        )
        self.sensors, self.received = messages.topics, messages.received
        self.forget, self.ages = messages.forget, messages.ages
        self.warnings, self.stamps = messages.warnings, messages.stamps
        self._mount: Quaternion | None = None  # from the IMU's frame to the base's; None: the same
        self._battery = BatteryTopic(node)
        self._battery_state: PowerState | None = None
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))

    def health(self) -> dict[str, str]:
        """The battery, if it is known."""
        if (newest := self._battery_state) is None or newest.charge_percent is None:
            return {}
        return {"battery_percent": f"{newest.charge_percent:.0f}"}

    def power(self) -> PowerState | None:
        """The battery on `battery_state`; None without a message."""
        self._battery_state = self._battery()
        return self._battery_state

    def remote_command(self) -> None:
        """None: a joystick publishes cmd_vel."""

    def notes(self) -> list[str]:
        """Nothing."""
        return []

    def pace(self) -> dict[str, float]:
        """Nothing: every command is sent once."""
        return {}

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """None: `OtherNodes` finds the publishers of topics."""
        return None

    def _add_force(self, serialized: bytes) -> None:
        """Add an IMU message's acceleration, if there is one."""
        if (sample := ros2.imu_force(serialized)) is not None:
            self._force.add(sample)

    def mount_imu(self, transforms: StaticTransforms) -> str | None:
        """Rotate the IMU's values into the base from now on; see `Driver.mount_imu`."""
        frame = self._messages.newest[ros2.IMU].header.frame_id
        self._mount, pose = None, transforms.tree.pose(frame)
        if pose is None:
            return transforms.unknown("IMU", frame)
        if (turn := turn_of(pose)) is None:
            return None
        self._mount, angle_rad, axis = turn
        about = "(" + ", ".join(f"{round(each, 2) + 0.0:.2f}" for each in axis) + ")"  # no -0
        return (
            f"{ros2.IMU} is rotated into the base by {angle_rad:.2f} rad about {about}, "
            f"as {TF_STATIC} says"
        )

    def take(self) -> None:
        """Fetch what has arrived.

        Raises:
            UserError: a message has no stamp.
        """
        for _ in self._messages.take():
            pass

    def angles(self) -> Array:
        """Joint angles (12,) [rad]; empty until `joints` has matched the message's names."""
        message = self._messages.newest.get(ros2.JOINT_STATES)
        if message is None or message.name != self._names:
            return np.zeros(0)
        positions = np.asarray(message.position)
        return positions[self._order] if len(positions) == len(message.name) else np.zeros(0)

    def joints(self) -> tuple[Array, Array]:
        """Newest angles and velocities (12,) [rad, rad/s] in the robot's order.

        Raises:
            UserError: a joint or a value is missing.
        """
        message = self._messages.newest[ros2.JOINT_STATES]
        if message.name != self._names:
            self._order = ros2.joint_order(message.name, self.spec.joint_names)
            self._names = message.name
        if not len(message.name) == len(message.position) == len(message.velocity):
            raise UserError("joint states need one position and one velocity for every name")
        angles, velocities = np.asarray(message.position), np.asarray(message.velocity)
        return angles[self._order], velocities[self._order]

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        """The newest joint states and IMU values.

        Raises:
            UserError: the joint states lack a joint or a value of the robot, or the IMU has no
                orientation.
        """
        joints, imu = self.joints(), self._messages.newest[ros2.IMU]
        if imu.orientation_covariance[0] == ORIENTATION_MISSING:
            raise UserError("imu/data has no orientation (covariance[0] is -1, REP 145)")
        q, w = imu.orientation, imu.angular_velocity
        orientation, rate, force = (q.x, q.y, q.z, q.w), (w.x, w.y, w.z), self._force.read()
        if (mount := self._mount) is not None:
            orientation = product(orientation, inverse(mount))
            rate = to_base_frame(rate, inverse(mount))
            if force is not None:
                force = np.array(to_base_frame(force.tolist(), inverse(mount)))
        return Reading(
            ros2.seconds(self._messages.newest[ros2.JOINT_STATES].header.stamp),
            *joints,
            np.array(orientation),
            np.array(rate),
            image,
            odometry,
            specific_force=force,
        )


class CommandTopic:
    """Publishes joint commands as JointState: joint_command, or the topic of a dry run."""

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
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)


class GainsTopic:
    """Publishes the motors' gains on joint_gains when they change, for a walker that has its own.

    Float64MultiArray, latched: stiffness (12) [Nm/rad], then damping (12) [Nm s/rad], in the order
    of the robot's joints. While it is silent, the gains are the robot's own.
    """

    def __init__(self, node: Any, spec: RobotSpec, legs: Legs) -> None:
        self._node, self._legs = node, legs
        self._standing = spec.kp_nm_per_rad, spec.kd_nms_per_rad
        self._walking: bool | None = None  # what was published last
        quality = QoSProfile(depth=1, durability=ros2.LATCHED)
        self._publisher = node.create_publisher(Float64MultiArray, ros2.JOINT_GAINS, quality)

    def send(self, command: JointCommand) -> None:
        """Publish the gains of a stiff command if they are others than before."""
        walking = command.kp is self._legs.kp_nm_per_rad
        if walking is not self._walking and command.kp.any():
            legs = self._legs
            gains = (legs.kp_nm_per_rad, legs.kd_nms_per_rad) if walking else self._standing
            self._publisher.publish(Float64MultiArray(data=np.concatenate(gains).tolist()))
            self._walking = walking

    def close(self) -> None:
        """Destroy the publisher, and with it what it has latched."""
        self._node.destroy_publisher(self._publisher)


class TopicDriver(TopicSensors):
    """The `Driver` of joint_states, imu/data and joint_command."""

    commands = ros2.JOINT_COMMAND

    def __init__(self, node: Any, sensor_node: Any, spec: RobotSpec, legs: Legs) -> None:
        super().__init__(sensor_node, spec)
        self._node, self._legs = node, legs
        self._topic: CommandTopic | None = None
        self._gains: GainsTopic | None = None

    def acquire(self, stop: Event) -> None:
        """Create the publisher; `OtherNodes` finds other publishers of commands."""
        if self._topic is None:
            self._topic = CommandTopic(self._node, self.spec, self.commands)
            if not self._legs.gait:
                self._gains = GainsTopic(self._node, self.spec, self._legs)

    def take_motors(self, stop: Event) -> None:
        """Nothing: the motors belong to the robot's driver, which is commanded by topic."""

    def send(self, command: JointCommand) -> None:
        assert self._topic is not None
        if self._gains is not None:
            self._gains.send(command)
        self._topic.send(command)

    def settle(self) -> None:
        """Nothing: the robot's driver damps until it gets another command."""

    def close(self) -> None:
        """Destroy the publishers."""
        if self._topic is not None:
            self._topic.close()
        if self._gains is not None:
            self._gains.close()
