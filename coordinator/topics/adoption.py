"""Offsets partitions that someone put into the data directory: copied from a Kafka broker, or from another Muster.

The catalogue of this node does not know them, yet nothing is dearer to their owner: they become this node's, with the
topic id and the leader epochs they came with. Any other topic that the catalogue does not know is a stray.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import structlog

from muster.coordinator.log import LogManager, MalformedCheckpoint
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord

_logger = structlog.get_logger("muster.topics")


def found(logs: LogManager) -> tuple[int, bytes | None]:
    """How many partitions the offsets topic must have to hold all that is on the disk (0: nothing is), and its id
    there (None: none is noted).
    """
    indexes = [index for name, index in logs.on_disk() if name == GROUP_OFFSETS_TOPIC]
    ids = (_id_on_disk(logs, index) for index in indexes)
    return max(indexes, default=-1) + 1, next((topic_id for topic_id in ids if topic_id is not None), None)


def _id_on_disk(logs: LogManager, index: int) -> bytes | None:
    try:
        return logs.topic_id_on_disk(GROUP_OFFSETS_TOPIC, index)
    except MalformedCheckpoint:
        return None  # `take_over` says so


def with_epochs(records: Sequence[Message], logs: LogManager) -> None:
    """Let the partitions in the records of the new topic begin with the leader epochs of what is on the disk."""
    on_disk = {index for name, index in logs.on_disk() if name == GROUP_OFFSETS_TOPIC}
    for record in records:
        if isinstance(record, PartitionRecord) and record.partition_id in on_disk:
            record.leader_epoch = max(logs.leader_epoch_on_disk(GROUP_OFFSETS_TOPIC, record.partition_id), 0)
    _logger.info("offsets partitions found in the data directory are taken over", partitions=len(on_disk))


def take_over(logs: LogManager, topic_id: bytes, partitions: int) -> None:
    """Give the partitions on the disk the id that the topic has in the catalogue: those that were put there since, and
    those whose own cannot be read.
    """
    for name, index in logs.on_disk():
        if name != GROUP_OFFSETS_TOPIC or index >= partitions:
            continue
        try:
            if logs.topic_id_on_disk(name, index) in (None, topic_id):
                continue
            _logger.warning("an offsets partition with another topic id is taken over", partition=index)
        except MalformedCheckpoint as error:
            _logger.warning("topic_id_restored", partition=index, reason=str(error))
        with contextlib.suppress(OSError):  # opening the log meets it as well, and says so
            logs.note_topic_id(name, index, topic_id)
