"""DDS of a Go2: topics whose samples are numpy records.

Uses the PyPI package cyclonedds (extra go2). Its topics announce a type object, in which Cyclone
DDS 0.10 and 11 describe 8-bit numbers differently: partners of the other version do not match, and
one of 0.10, such as the robot's own process, can end by it. The topics here announce none, as in
unitree_ros2 on ROS 2 Foxy: partners of any version match them by the name of their type.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant
from cyclonedds.core import DDSException, Entity, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.internal import DDS, dds_c_t
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.unitree.address import LOOPBACK, Go2
from pixelgait.robot.unitree.messages import END, Message, Record

MAX_PARTICIPANTS = 1000  # of a domain, whose names are read
NEWEST = 16  # samples fetched at once
# Keeps what arrives within a step of the control loop; otherwise a reader keeps one sample.
KEEPS_SOME = Qos(Policy.History.KeepLast(NEWEST))
FREE_CONTENTS = 3  # dds_free_op_t: strings and sequences of a sample
# Without multicast a partner is found by its port on this computer. The vendor's programs on
# Cyclone DDS 11 are found by multicast alone, those on 0.10 by their port alone.
_GENERAL = "<General><Interfaces><NetworkInterface name='{}'{}/></Interfaces>{}</General>"
_LOCAL = " multicast='true'", "<AllowMulticast>spdp</AllowMulticast>"
_LOCAL_PEER = (
    "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<Peers><Peer address='localhost'/></Peers></Discovery>"
)
# The package's own functions keep the interpreter lock, too: a step must not wait for it.
_LIBRARY = ctypes.PyDLL(DDS._dll_handle._name)


class _Metadata(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_uint32))


class _Descriptor(ctypes.Structure):
    """dds_topic_descriptor_t, without keys and without metadata of the type."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("align", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("key_count", ctypes.c_uint32),
        ("type_name", ctypes.c_char_p),
        ("keys", ctypes.c_void_p),
        ("operation_count", ctypes.c_uint32),
        ("operations", ctypes.POINTER(ctypes.c_uint32)),
        ("meta", ctypes.c_char_p),
        ("type_information", _Metadata),
        ("type_mapping", _Metadata),
        ("representations", ctypes.c_uint32),
    )


def _descriptor(message: Message) -> _Descriptor:
    operations = [*message.operations(), END]
    return _Descriptor(
        size=message.dtype.itemsize,
        align=message.dtype.alignment,
        type_name=message.name.encode(),
        operation_count=len(operations),
        operations=(ctypes.c_uint32 * len(operations))(*operations),
        meta=b"",
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """A message that has arrived: its strings are in `texts`, by the names of their fields."""

    record: Record
    texts: Mapping[str, str]
    sent_s: float  # clock of its writer


class RecordTopic(Topic[Any]):
    """A topic of records of one message."""

    def __init__(self, participant: DomainParticipant, name: str, message: Message) -> None:
        self.message, self.descriptor, self.data_type = message, _descriptor(message), Sample
        create, described = _LIBRARY.dds_create_topic, ctypes.byref(self.descriptor)
        Entity.__init__(self, create(participant._ref, described, name.encode(), None, None))
        self._keepalive_entities = [participant]


class RecordWriter(DataWriter[Any]):
    """Writes records to a topic."""

    def write(self, sample: Record, timestamp: int | None = None, **texts: str) -> None:
        """Write a record; `texts` are its strings.

        Raises:
            DDSException: it cannot be sent.
        """
        kept = {name: ctypes.c_char_p(text.encode()) for name, text in texts.items()}
        for name, text in kept.items():
            sample[name] = ctypes.cast(text, ctypes.c_void_p).value
        code = _LIBRARY.dds_write(self._ref, ctypes.c_void_p(sample.ctypes.data))
        if code < 0:
            raise DDSException(code, "while writing")


class RecordReader(DataReader[Any]):
    """Takes records from a topic."""

    def __init__(
        self, participant: DomainParticipant, topic: RecordTopic, quality: Qos | None = None
    ) -> None:
        super().__init__(participant, topic, quality)
        self._records = topic
        self._kept: tuple[NDArray[np.uint8], Any, Any] | None = None

    def take(self, N: int = 1, *_: Any, **__: Any) -> list[Sample]:  # noqa: N803 (the package's)
        """At most N samples that have arrived, oldest first.

        Raises:
            DDSException: they cannot be read.
        """
        memory, pointers, infos = self._room(N)
        taken = _LIBRARY.dds_take(self._ref, pointers, infos, ctypes.c_size_t(N), N)
        if taken < 0:
            raise DDSException(taken, "while reading")
        return [self._sample(memory[i], infos[i]) for i in range(taken) if infos[i].valid_data]

    def _room(self, number: int) -> tuple[NDArray[np.uint8], Any, Any]:
        """C structs (number, bytes), pointers to them, and room for their infos."""
        if self._kept is None or len(self._kept[0]) < number:
            size = self._records.message.dtype.itemsize
            memory = np.zeros((number, size), np.uint8)
            at = memory.ctypes.data
            pointers = (ctypes.c_void_p * number)(*range(at, at + number * size, size))
            self._kept = memory, pointers, (dds_c_t.sample_info * number)()
        return self._kept

    def _sample(self, struct: NDArray[np.uint8], info: Any) -> Sample:
        topic = self._records
        # As bytes: numpy copies no padding of records, but the checksum is computed over it.
        record = struct.copy().view(topic.message.dtype).reshape(())
        texts = {
            name: ctypes.string_at(int(record[name])).decode(errors="replace")
            for name in topic.message.texts
        }
        if texts:
            at, described = ctypes.c_void_p(struct.ctypes.data), ctypes.byref(topic.descriptor)
            _LIBRARY.dds_sample_free(at, described, FREE_CONTENTS)
            struct[:] = 0
        return Sample(record, texts, info.source_timestamp / 1e9)


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
        general = _GENERAL.format(address.interface, *(_LOCAL if lo else ("", "")))
        settings = f"<Domain Id='any'>{general}{_LOCAL_PEER if lo else ''}</Domain>"
        try:
            self._domain = Domain(address.domain, f"<CycloneDDS>{settings}</CycloneDDS>")
            self._participant = DomainParticipant(address.domain)
        except DDSException as error:
            raise UserError(f"no DDS on interface '{address.interface}': {error}") from error

    def close(self) -> None:
        """Leave the domain; all readers and writers become unusable."""
        self._domain.__del__()  # Cyclone has no other method; deletes all within the domain

    def writer(self, name: str, message: Message) -> RecordWriter:
        """A writer with Cyclone's default QoS, as on the robot: reliable, the newest only."""
        return RecordWriter(self._participant, RecordTopic(self._participant, name, message))

    def reader(self, name: str, message: Message, quality: Qos | None = None) -> RecordReader:
        """A reader with Cyclone's default QoS, as on the robot, unless another is given."""
        topic = RecordTopic(self._participant, name, message)
        return RecordReader(self._participant, topic, quality)

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


def newest(reader: RecordReader) -> Record | None:
    """The newest record since the last call, or None."""
    records = arrived(reader)
    return records[-1] if records else None


def arrived(reader: RecordReader) -> list[Record]:
    """The records since the last call, oldest first; without `KEEPS_SOME` the newest alone."""
    return [each.record for each in reader.take(N=NEWEST)]
