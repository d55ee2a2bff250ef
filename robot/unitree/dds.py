"""A Go2's DDS: typed topics whose samples are numpy records.

By the PyPI package cyclonedds (extra go2). It is asked for nothing but discovery and transport:
encoding and decoding here take a tenth of the time of its own.
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
MOST_PARTICIPANTS = 1000  # of a domain, that are asked for their names
NEWEST = 16  # samples fetched at once, of which the last counts; a Go2 keeps one
# An 8-bit number is a `byte`: declared as uint8, whose type object is another one, it kills any
# process of Cyclone DDS 0.10 that hears of it, such as the robot's own.
KINDS = {
    "u1": types.byte,
    "u2": types.uint16,
    "u4": types.uint32,
    "i2": types.int16,
    "i4": types.int32,
    "f4": types.float32,
}
ARRAY: Any = types.array  # its brackets are of no type
# On loopback neither side may need multicast, which that interface does not say it has; tried with
# the vendor's SDK on the other one.
_GENERAL = "<General><Interfaces><NetworkInterface name='{}'/></Interfaces>{}</General>"
_NO_MULTICAST = "<AllowMulticast>false</AllowMulticast>"
_LOCAL_PEER = (
    "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<Peers><Peer address='localhost'/></Peers></Discovery>"
)


def idl_type(message: Message) -> type[IdlStruct]:
    """The message as Cyclone declares it, whose type ids are the vendor's."""
    fields = {}
    for name, kind, count in message.fields:
        each = idl_type(kind) if isinstance(kind, Message) else KINDS[kind]
        fields[name] = ARRAY[each, count] if count > 1 else each
    return make_idl_struct(message.name, f"{MODULE}.{message.name}", fields)


def sample_type(message: Message) -> Any:
    """Samples of a topic: they hold a `record`, and are its bytes.

    Cyclone's own class with other methods: a class below it would be another type on the wire.
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
        """Of the message that a writer has gone: there are no keys."""

    kind.__init__, kind.serialize = hold, serialize
    kind.deserialize = staticmethod(deserialize)
    kind.deserialize_key = staticmethod(deserialize_key)
    return kind


class Bus:
    """A participant of a DDS domain on one network interface.

    One for each process at a time: what else it has in that domain must have the same settings.
    Closed, it makes room for the next, whoever still holds its readers and writers.

    Raises:
        UserError: there is no such interface, or this process is in the domain by other settings.
    """

    def __init__(self, address: Go2) -> None:
        lo = address.interface == LOOPBACK
        general = _GENERAL.format(address.interface, _NO_MULTICAST if lo else "")
        settings = f"<Domain Id='any'>{general}{_LOCAL_PEER if lo else ''}</Domain>"
        try:
            self._domain = Domain(address.domain, f"<CycloneDDS>{settings}</CycloneDDS>")
            self._participant = DomainParticipant(address.domain)
        except DDSException as error:
            raise UserError(f"no DDS on interface '{address.interface}': {error}") from error

    def close(self) -> None:
        """Leave the domain, with all readers and writers: they are of no use any more."""
        self._domain.__del__()  # Cyclone's only way; whatever is in the domain goes with it

    def topic(self, name: str, kind: Any) -> Topic[Any]:
        """A topic of the domain, as rt/lowstate."""
        return Topic(self._participant, name, kind)

    def writer(self, name: str, kind: Any) -> DataWriter[Any]:
        """Cyclone's default quality of service, as on the robot: reliable, the newest alone."""
        return DataWriter(self._participant, self.topic(name, kind))

    def reader(self, name: str, kind: Any, quality: Qos | None = None) -> DataReader[Any]:
        """Cyclone's default quality of service, as on the robot, unless another is given."""
        return DataReader(self._participant, self.topic(name, kind), quality)

    def writers(self, reader: DataReader[Any]) -> list[str]:
        """Who writes what this reader hears, by their processes, as far as those tell."""
        handles = reader.get_matched_publications()
        found = [reader.get_matched_publication_data(handle) for handle in handles]
        keys = {each.participant_key for each in found if each is not None}
        if not keys:
            return []
        known = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant)
        told = {each.key: each.qos for each in known.read(N=MOST_PARTICIPANTS)}
        return sorted(_process(key, told.get(key, ())) for key in keys)


def _process(key: UUID, quality: Iterable[Any]) -> str:
    """A participant's process, as Cyclone DDS 0.10 and newer tell it."""
    told = {each.key: each.value for each in quality if isinstance(each, Policy.Property)}
    name, number, host = (told.get(f"__{part}") for part in ("ProcessName", "Pid", "Hostname"))
    return f"{name} (process {number} on {host})" if name else f"participant {key}"


def newest(reader: DataReader[Any]) -> Record | None:
    """The record that arrived last since the last call."""
    samples = [each for each in reader.take(N=NEWEST) if hasattr(each, "record")]
    return samples[-1].record if samples else None
