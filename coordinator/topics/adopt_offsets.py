"""Offsets partitions that were put into the data directory: copied from a Kafka broker, or from another Muster.

The metadata log of this node does not know them, but they must not be lost: this node serves them, with the topic id
and the leader epochs that they have. Any other topic that the metadata log does not know is a stray.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import structlog

from muster.coordinator.log import LogError, LogManager, MalformedCheckpoint, Storage, batches
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.hashing import group_partition, partitions_of
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.records import OFFSETS, UnknownRecord

SAMPLE_BYTES = 64 * 1024
"""How much of each partition is looked at to find out how many there were."""

_logger = structlog.get_logger("muster.topics")


def adopted(
    logs: LogManager, state: MetadataState, wanted: NewTopic, home: Home, number_is_given: bool
) -> list[Message]:
    """The records of the offsets topic, which the metadata log does not know, for the partitions on the disk; none if
    there are no such partitions.
    `wanted`: how it is made otherwise; `number_is_given`: an operator has said how many partitions there are to be.
    """
    count, topic_id = _found(logs)
    if not count:
        return []
    if number_is_given:
        wanted.partitions = max(count, wanted.partitions)
    else:
        wanted.partitions = partitions_by_content(logs, wanted.partitions)
    if topic_id is not None and topic_id not in state.topics_by_id:
        wanted.topic_id = topic_id
    records = decide_creation(wanted, home, wanted.partitions, 1)
    _with_epochs(records, logs)
    take_over(logs, wanted.topic_id, wanted.partitions)
    return records


def _found(logs: LogManager) -> tuple[int, bytes | None]:
    """How many partitions the offsets topic must have to hold all that is on the disk (0: nothing is), and its id
    there (None: none is noted).
    """
    indexes = [index for name, index in logs.folders.on_disk() if name == GROUP_OFFSETS_TOPIC]
    ids = (_id_on_disk(logs, index) for index in indexes)
    return max(indexes, default=-1) + 1, next((topic_id for topic_id in ids if topic_id is not None), None)


def partitions_by_content(logs: LogManager, usual: int) -> int:
    """How many partitions the topic had where those on the disk were written, by the groups in them; `usual` if that
    fits, or nothing says otherwise. Raises OSError.
    """
    indexes = [index for name, index in logs.folders.on_disk() if name == GROUP_OFFSETS_TOPIC]
    placed = [(group, index) for index in indexes for group in _some_groups(logs.storage, index)]
    count = max(indexes, default=-1) + 1
    for partitions in (max(usual, count), count):
        if all(group_partition(group, partitions) == index for group, index in placed):
            return partitions
    return max(partitions_of(placed) or usual, count)


def _some_groups(storage: Storage, index: int) -> list[str]:
    """Groups that the beginning of a partition's oldest segment tells of."""
    folder = f"{GROUP_OFFSETS_TOPIC}-{index}"
    segments = [entry.name for entry in storage.entries(folder) if entry.name.endswith(".log") and entry.size]
    groups: dict[str, None] = {}
    if segments:
        with contextlib.closing(storage.file(f"{folder}/{segments[0]}")) as file, contextlib.suppress(LogError):
            for _, records in batches.read(file.pread(SAMPLE_BYTES, 0)):
                for record in records:
                    with contextlib.suppress(UnknownRecord, MalformedMessage):
                        key = OFFSETS.decode_key(record.key or b"")[1]
                        group: str = getattr(key, "group", "") or getattr(key, "group_id", "")
                        groups[group] = None
    return [group for group in groups if group]


def _id_on_disk(logs: LogManager, index: int) -> bytes | None:
    try:
        return logs.folders.topic_id_on_disk(GROUP_OFFSETS_TOPIC, index)
    except MalformedCheckpoint:
        return None  # `take_over` says so


def _with_epochs(records: Sequence[Message], logs: LogManager) -> None:
    """Let the partitions in the records of the new topic begin with the leader epochs of what is on the disk."""
    on_disk = {index for name, index in logs.folders.on_disk() if name == GROUP_OFFSETS_TOPIC}
    for record in records:
        if isinstance(record, PartitionRecord) and record.partition_id in on_disk:
            record.leader_epoch = max(logs.folders.leader_epoch_on_disk(GROUP_OFFSETS_TOPIC, record.partition_id), 0)
    of = sum(isinstance(record, PartitionRecord) for record in records)
    _logger.info("offsets partitions found in the data directory are taken over", partitions=len(on_disk), of=of)


def take_over(logs: LogManager, topic_id: bytes, partitions: int) -> None:
    """Give the partitions on the disk the id that the topic has in the metadata log: to those that were put there
    since, and to those whose id cannot be read.
    """
    for name, index in logs.folders.on_disk():
        if name != GROUP_OFFSETS_TOPIC or index >= partitions:
            continue
        try:
            if logs.folders.topic_id_on_disk(name, index) in (None, topic_id):
                continue
            _logger.warning("an offsets partition with another topic id is taken over", partition=index)
        except MalformedCheckpoint as error:
            _logger.warning("the id of a topic was written again", partition=index, reason=str(error))
        with contextlib.suppress(OSError):  # opening the log meets it as well, and says so
            logs.folders.note_topic_id(name, index, topic_id)
