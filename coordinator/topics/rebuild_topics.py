"""Creates topics again from the folders of their partitions, after the metadata log has lost its records.

A folder has the topic's name, its id and one partition. The configs are lost. Such a topic keeps all its records until
it is configured again, so that no retention deletes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from muster.coordinator.log import Log, LogManager, MalformedCheckpoint
from muster.coordinator.topics.adopt import ADOPTED
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation, partition_record
from muster.coordinator.topics.metadata_log import METADATA_LOG_CONFIG
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    collision_key,
    name_fault,
)
from muster.coordinator.topics.stray_folders import never_held_records
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord

KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The configs of a topic that was created again."""
MOST_NAMES: Final = 100
"""The most topics that one log line names."""

Folders = Mapping[str, Mapping[int, bytes | None]]
"""Topic -> partition -> topic id in its folder (None: the folder has no id, or an unreadable one)."""

_logger = structlog.get_logger("muster.topics")


def open_metadata_log(logs: LogManager) -> tuple[Log, bool]:
    """Return the metadata log, and whether its start or end is another than expected. Raises DamagedLog or
    LogOffline.
    """
    was_synced_to = logs.noted_end(METADATA_TOPIC, 0)
    try:
        logs.folders.topic_id_on_disk(METADATA_TOPIC, 0)
    except MalformedCheckpoint as error:  # every retry would fail too
        _logger.warning("the id of a topic was written again", topic=METADATA_TOPIC, reason=str(error))
        logs.folders.note_topic_id(METADATA_TOPIC, 0, METADATA_TOPIC_ID)
    log = logs.open_log(METADATA_TOPIC, 0, config=METADATA_LOG_CONFIG, topic_id=METADATA_TOPIC_ID, wait_for_sync=True)
    return log, log.start_offset > 0 or log.end_offset < was_synced_to


def tells_nothing(logs: LogManager, state: MetadataState) -> bool:
    """Whether the metadata log never had a topic, although the data directory has records of topics."""
    is_empty = not state.topics and not state.deleted
    partitions = [one for one in logs.folders.on_disk() if one[0] != METADATA_TOPIC] if is_empty else []
    return any(not never_held_records(logs, f"{name}-{index}") for name, index in partitions)


def lost_topics(
    logs: LogManager,
    state: MetadataState,
    home: Home,
    internal: Callable[[str], NewTopic | None],
    draw_uuid: Callable[[], bytes],
    wall_ms: int,
) -> list[Message]:
    """Report that the metadata log has lost records; return the records that restore topics from their folders.

    `internal`: see `rebuilt_topics`.
    """
    records = rebuilt_topics(_folders_of(logs), state, home, internal, draw_uuid)
    # no id may be given out twice; giving out one takes more than a millisecond
    start = max(state.next_producer_id, wall_ms)
    records.append(ProducerIdsRecord(broker_id=home.node_id, broker_epoch=0, next_producer_id=start))
    _tell(records)
    return records


def _folders_of(logs: LogManager) -> Folders:
    """Read the topic ids in the folders of a data directory. Raises OSError."""
    folders: dict[str, dict[int, bytes | None]] = {}
    for name, index in logs.folders.on_disk():
        ids = folders.setdefault(name, {})
        ids[index] = None
        with contextlib.suppress(MalformedCheckpoint):  # opening the log reports it
            ids[index] = logs.folders.topic_id_on_disk(name, index)
    return folders


def rebuilt_topics(
    folders: Folders,
    state: MetadataState,
    home: Home,
    internal: Callable[[str], NewTopic | None],
    draw_uuid: Callable[[], bytes],
) -> list[Message]:
    """Return the records that create topics again where their folders are consistent. Pure.

    `internal`: returns the coordinators' own topics; None for any other name.
    """
    records: list[Message] = []
    used = {*state.topics_by_id, *state.deleted}
    taken: set[str] = set()
    for name, partitions, ids in _certain(folders, state):
        topic = state.topics.get(name)
        if topic is not None:
            if ids <= {topic.topic_id}:
                records += (partition_record(topic.topic_id, index, home) for index in partitions)
            continue
        topic_id = ids.pop() if ids else draw_uuid()
        if topic_id in used or state.colliding_topic(name) is not None or collision_key(name) in taken:
            continue
        wanted = internal(name) or NewTopic(name, topic_id, configs=KEEP_ALL)
        wanted.topic_id, wanted.partitions, wanted.replication_factor = topic_id, len(partitions), 1
        records += decide_creation(wanted, home, len(partitions), 1)
        used.add(topic_id)
        taken.add(collision_key(name))
    return records


def _certain(folders: Folders, state: MetadataState) -> Iterator[tuple[str, Sequence[int], set[bytes]]]:
    """Yield the topics whose unknown partitions follow the known ones without a gap, and agree on the topic's id.

    Each is (topic, partitions that the metadata log does not know, topic ids in their folders).
    """
    for name, found in sorted(folders.items()):
        if name == METADATA_TOPIC or name in ADOPTED or name_fault(name) is not None:
            continue
        topic = state.topics.get(name)
        known = 0 if topic is None else len(topic.partitions)
        new = sorted(index for index in found if index >= known)
        ids = {topic_id for index in new if (topic_id := found[index]) is not None}
        if new and new == list(range(known, new[-1] + 1)) and len(ids) <= 1:
            yield name, new, ids


def _tell(records: Sequence[Message]) -> None:
    """Log what was lost, and which topics `records` create again."""
    topics = [record.name for record in records if isinstance(record, TopicRecord)]
    partitions = sum(isinstance(record, PartitionRecord) for record in records)
    _logger.error(
        "the metadata log has lost records",
        topics_made_again=len(topics),
        partitions_made_again=partitions,
        topics=topics[:MOST_NAMES],
        what=f"{METADATA_TOPIC}-0 has lost records: nothing is deleted, and topics that it does not know are made "
        "again from their folders; their configs are lost, so they keep all records until you set retention.ms",
    )
