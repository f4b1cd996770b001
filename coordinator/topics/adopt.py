"""Adopts partitions of the coordinators' topics that somebody copied into the data directory.

They are partitions of __consumer_offsets or __transaction_state, from a Kafka broker or from another Muster. The
metadata log of this node does not know them, but they must not be lost. This node serves them, with the topic id and
the leader epochs that they have. Any other topic that the metadata log does not know is a stray. This node never gives
out a producer id that the adopted transactions use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import structlog

from muster.coordinator.log import LogError, LogManager, MalformedCheckpoint, Storage, batches
from muster.coordinator.log.records.headers import whole_batches
from muster.coordinator.log.storage.interfaces import File
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.hashing import group_partition, partitions_of
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.records import OFFSETS, TRANSACTION_STATE, KeyedRecords, UnknownRecord

SAMPLE_BYTES = 64 * 1024
"""Bytes of each partition that are read to find out how many partitions the topic had."""
CHUNK_BYTES = 1024 * 1024
"""Bytes that are read at a time to find the producer ids."""

ADOPTED: Final[Mapping[str, KeyedRecords]] = {GROUP_OFFSETS_TOPIC: OFFSETS, TRANSACTION_STATE_TOPIC: TRANSACTION_STATE}
"""The adopted topics, with the codecs of their records. The hash of a name in its key decides a record's partition."""
_WHAT: Final = {GROUP_OFFSETS_TOPIC: "offsets partitions", TRANSACTION_STATE_TOPIC: "partitions of transactions"}

_logger = structlog.get_logger("muster.topics")


def adopted(
    logs: LogManager, state: MetadataState, wanted: NewTopic, home: Home, number_is_given: bool
) -> list[Message]:
    """Return the records that create such a topic in the metadata log, for the partitions on the disk.

    `wanted`: how the topic is created otherwise. `number_is_given`: an operator has set the number of partitions.
    """
    indexes = on_disk(logs, wanted.name)
    count = max(indexes) + 1
    if number_is_given:
        wanted.partitions = max(count, wanted.partitions)
    else:
        wanted.partitions = partitions_by_content(logs, wanted.name, wanted.partitions)
    ids = (_id_on_disk(logs, wanted.name, index) for index in indexes)
    topic_id = next((topic_id for topic_id in ids if topic_id is not None), None)
    if topic_id is not None and topic_id not in state.topics_by_id:
        wanted.topic_id = topic_id
    records = decide_creation(wanted, home, wanted.partitions, 1)
    _with_epochs(records, logs, wanted.name)
    take_over(logs, wanted.name, wanted.topic_id, wanted.partitions)
    return records + _producer_ids(logs, state, home, wanted.name, indexes)


def before_take_over(
    logs: LogManager, state: MetadataState, home: Home, topic: str, topic_id: bytes, partitions: int
) -> list[Message]:
    """Return the records to write before `take_over`, for partitions that were copied after the topic was created."""
    return _producer_ids(logs, state, home, topic, list(_foreign(logs, topic, topic_id, partitions)))


def on_disk(logs: LogManager, topic: str) -> list[int]:
    """The partitions of a topic that have a folder."""
    return [index for name, index in logs.folders.on_disk() if name == topic]


def partitions_by_content(logs: LogManager, topic: str, usual: int) -> int:
    """Return how many partitions the topic had when its partitions were written, by the names in their records.

    It is `usual` if that number fits, or if the records do not say otherwise. Raises OSError.
    """
    indexes = on_disk(logs, topic)
    placed = [(name, index) for index in indexes for name in _some_names(logs.storage, topic, index)]
    count = max(indexes, default=-1) + 1
    for partitions in (max(usual, count), count):
        if all(group_partition(name, partitions) == index for name, index in placed):
            return partitions
    return max(partitions_of(placed) or usual, count)


def _some_names(storage: Storage, topic: str, index: int) -> list[str]:
    """Return the groups or transactional ids in the beginning of a partition's oldest segment."""
    codec = ADOPTED[topic]
    segments = _segments(storage, topic, index)
    names: dict[str, None] = {}
    if segments:
        with contextlib.closing(storage.file(segments[0])) as file, contextlib.suppress(LogError):
            for _, records in batches.read(file.pread(SAMPLE_BYTES, 0)):
                for record in records:
                    with contextlib.suppress(UnknownRecord, MalformedMessage):
                        key = codec.decode_key(record.key or b"")[1]
                        name: str = next((getattr(key, field, "") for field in _NAMES if getattr(key, field, "")), "")
                        names[name] = None
    return [name for name in names if name]


_NAMES: Final = ("group", "group_id", "transactional_id")
"""The fields of a key whose hash decides the record's partition."""


def _segments(storage: Storage, topic: str, index: int) -> list[str]:
    folder = f"{topic}-{index}"
    return [f"{folder}/{one.name}" for one in storage.entries(folder) if one.name.endswith(".log") and one.size]


def _id_on_disk(logs: LogManager, topic: str, index: int) -> bytes | None:
    try:
        return logs.folders.topic_id_on_disk(topic, index)
    except MalformedCheckpoint:
        return None  # `take_over` logs this


def _with_epochs(records: Sequence[Message], logs: LogManager, topic: str) -> None:
    """Let the partitions of the new topic begin with the leader epochs of the logs on the disk."""
    there = set(on_disk(logs, topic))
    for record in records:
        if isinstance(record, PartitionRecord) and record.partition_id in there:
            record.leader_epoch = max(logs.folders.leader_epoch_on_disk(topic, record.partition_id), 0)
    of = sum(isinstance(record, PartitionRecord) for record in records)
    _logger.info(f"{_WHAT[topic]} found in the data directory are taken over", partitions=len(there), of=of)


def _foreign(logs: LogManager, topic: str, topic_id: bytes, partitions: int) -> Iterator[int]:
    """Yield the partitions on the disk whose topic id is another one, is missing, or cannot be read."""
    for index in on_disk(logs, topic):
        if index < partitions:
            try:
                if logs.folders.topic_id_on_disk(topic, index) != topic_id:
                    yield index
            except MalformedCheckpoint:
                yield index


def take_over(logs: LogManager, topic: str, topic_id: bytes, partitions: int) -> None:
    """Write the topic's id of the metadata log to partitions that were copied later, or whose id cannot be read."""
    for index in _foreign(logs, topic, topic_id, partitions):
        try:
            if logs.folders.topic_id_on_disk(topic, index) is None:
                continue  # opening the log writes the id
            _logger.warning("a partition with another topic id is taken over", topic=topic, partition=index)
        except MalformedCheckpoint as error:
            _logger.warning("the id of a topic was written again", topic=topic, partition=index, reason=str(error))
        with contextlib.suppress(OSError):  # opening the log fails too, and reports it
            logs.folders.note_topic_id(topic, index, topic_id)


# ---- producer ids


def _producer_ids(
    logs: LogManager, state: MetadataState, home: Home, topic: str, indexes: Sequence[int]
) -> list[Message]:
    """Return the record that makes this node give out only producer ids that these partitions do not use.

    The list is empty when no such record is necessary.
    """
    if topic != TRANSACTION_STATE_TOPIC:
        return []
    newest = max((one for index in indexes for one in _ids_in(logs.storage, index)), default=-1)
    if newest < state.next_producer_id:
        return []
    return [ProducerIdsRecord(broker_id=home.node_id, broker_epoch=0, next_producer_id=newest + 1)]


def _ids_in(storage: Storage, index: int) -> Iterator[int]:
    """Yield the producer ids in the records of a partition of __transaction_state, as far as it can be read."""
    for path in _segments(storage, TRANSACTION_STATE_TOPIC, index):
        with contextlib.closing(storage.file(path)) as file, contextlib.suppress(LogError):
            for chunk in _chunks(file):
                for _, records in batches.read(chunk):
                    for record in records:
                        with contextlib.suppress(UnknownRecord, MalformedMessage):
                            kind, _ = TRANSACTION_STATE.decode_key(record.key or b"")
                            if record.value is not None:
                                value = TRANSACTION_STATE.decode_value(kind, record.value)[1]
                                yield max(value.producer_id, value.previous_producer_id, value.next_producer_id)


def _chunks(file: File) -> Iterator[bytes]:
    """Yield the whole batches of a file, in chunks."""
    at = 0
    while True:
        data = file.pread(CHUNK_BYTES, at)
        whole, wanted, _ = whole_batches(data)
        if whole == 0 and wanted > len(data):
            data = file.pread(wanted, at)
            whole, _, _ = whole_batches(data)
        if whole == 0:
            return
        yield data[:whole]
        at += whole
