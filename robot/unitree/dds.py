"""DDS of a Go2: typed topics whose samples are numpy records.

Uses the PyPI package cyclonedds (extra go2) for discovery and transport only: the encoding and
decoding here take a tenth of the time of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant
from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from pixelgait.robot.errors import UserError
from pixelgait.robot.unitree.address import LOOPBACK, Go2
from pixelgait.robot.unitree.messages import Codec, Message, Record

MODULE = "unitree_go.msg.dds_"
MAX_PARTICIPANTS = 1000  # of a domain, whose names are read
NEWEST = 16  # samples fetched at once, of which the last is used; a Go2 keeps one
# An 8-bit number is a `byte`: uint8 has another type object, which kills any process of Cyclone
# DDS 0.10 that discovers it, such as the robot's own.
KINDS = {
    "u1": types.byte,
    "u2": types.uint16,
    "u4": types.uint32,
    "i2": types.int16,
    "i4": types.int32,
    "f4": types.float32,
}
ARRAY: Any = types.array  # subscripting it is untyped
# The loopback interface does not announce multicast, so neither side may need it; tested with the
# vendor's SDK on the other side.
_GENERAL = "<General><Interfaces><NetworkInterface name='{}'/></Interfaces>{}</General>"
_NO_MULTICAST = "<AllowMulticast>false</AllowMulticast>"
_LOCAL_PEER = (
    "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<Peers><Peer address='localhost'/></Peers></Discovery>"
)


def idl_type(message: Message) -> type[IdlStruct]:
    """The Cyclone type of a message, with the same type id as the vendor's."""
    fields = {}
    for name, kind, count in message.fields:
        each = idl_type(kind) if isinstance(kind, Message) else KINDS[kind]
        fields[name] = ARRAY[each, count] if count > 1 else each
    return make_idl_struct(message.name, f"{MODULE}.{message.name}", fields)


def sample_type(message: Message) -> Any:
    """A topic's sample class, whose instances hold a `record`.

    Cyclone's own class with replaced methods: a subclass would be another type on the wire.
    """
    codec = Codec(message)
    kind: Any = idl_type(message)

    def hold(sample: Any, record: Record) -> None:
        sample.record = record

    def serialize(sample: Any, *_: Any, **__: Any) -> bytes:
        return codec.encode(sample.record)

    def deserialize(data: bytes, *_: Any, **__: Any) -> Any:
        return kind(codec.decode(data))

    def deserialize_key(*_: Any, **__: Any) -> None:
        """None, for the message that a writer has left: there are no keys."""

    kind.__init__, kind.serialize = hold, serialize
    kind.deserialize = staticmethod(deserialize)
    kind.deserialize_key = staticmethod(deserialize_key)
    return kind


class Bus:
    """A participant of a DDS domain on one network interface.

    A process can have one at a time: a domain has one set of settings. After `close` the next can
    be opened, even if references to readers and writers remain.

    Raises:
        UserError: there is no such interface, or this process has the domain with other settings.
    """

    def __init__(self, address: Go2) -> None:
        self.address = address
        lo = address.interface == LOOPBACK
        general = _GENERAL.format(address.interface, _NO_MULTICAST if lo else "")
        settings = f"<Domain Id='any'>{general}{_LOCAL_PEER if lo else ''}</Domain>"
        try:
            self._domain = Domain(address.domain, f"<CycloneDDS>{settings}</CycloneDDS>")
            self._participant = DomainParticipant(address.domain)
        except DDSException as error:
            raise UserError(f"no DDS on interface '{address.interface}': {error}") from error

    def close(self) -> None:
        """Leave the domain; all readers and writers become unusable."""
        self._domain.__del__()  # Cyclone has no other method; deletes all within the domain

    def topic(self, name: str, kind: Any) -> Topic[Any]:
        """A topic of the domain, as rt/lowstate."""
        return Topic(self._participant, name, kind)

    def writer(self, name: str, kind: Any) -> DataWriter[Any]:
        """A writer with Cyclone's default QoS, as on the robot: reliable, the newest only."""
        return DataWriter(self._participant, self.topic(name, kind))

    def reader(self, name: str, kind: Any, quality: Qos | None = None) -> DataReader[Any]:
        """A reader with Cyclone's default QoS, as on the robot, unless another is given."""
        return DataReader(self._participant, self.topic(name, kind), quality)

    def other_participants(self) -> int:
        """Number of the domain's participants besides this one."""
        known = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant)
        return max(0, len(known.read(N=MAX_PARTICIPANTS)) - 1)

    def writers(self, reader: DataReader[Any]) -> list[str]:
        """The processes of this reader's writers, by name where they publish one."""
        handles = reader.get_matched_publications()
        found = [reader.get_matched_publication_data(handle) for handle in handles]
        keys = {each.participant_key for each in found if each is not None}
        if not keys:
            return []
        known = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant)
        qualities = {each.key: each.qos for each in known.read(N=MAX_PARTICIPANTS)}
        return sorted(_process(key, qualities.get(key, ())) for key in keys)


def _process(key: UUID, quality: Iterable[Any]) -> str:
    """A participant's process, from the properties of Cyclone DDS 0.10 and newer."""
    known = {each.key: each.value for each in quality if isinstance(each, Policy.Property)}
    name, number, host = (known.get(f"__{part}") for part in ("ProcessName", "Pid", "Hostname"))
    return f"{name} (process {number} on {host})" if name else f"participant {key}"


def newest(reader: DataReader[Any]) -> Record | None:
    """The newest record since the last call, or None."""
    samples = [each for each in reader.take(N=NEWEST) if hasattr(each, "record")]
    return samples[-1].record if samples else None
