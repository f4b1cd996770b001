"""Topics made again from the folders of their partitions, when the metadata log has lost what it said of them.

A folder tells the topic's name, its id and one partition; what was configured is lost. So that no record goes for that,
such a topic keeps all its records until somebody configures it anew. `made_again` is pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from muster.coordinator.log import LogManager, MalformedCheckpoint
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation, partition_record
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import (
    GROUP_OFFSETS_TOPIC,
    METADATA_TOPIC,
    collision_key,
    name_fault,
)
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord

KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The configs of a topic that was made again."""
MOST_NAMES: Final = 100
"""Topics that a line of the log names."""

Folders = Mapping[str, Mapping[int, bytes | None]]
"""Topic -> partition -> topic id in its folder (None: none, or nobody can read it)."""

_logger = structlog.get_logger("muster.topics")


def folders_of(logs: LogManager) -> Folders:
    """What the folders of a data directory say of themselves. Raises OSError."""
    folders: dict[str, dict[int, bytes | None]] = {}
    for name, index in logs.on_disk():
        ids = folders.setdefault(name, {})
        ids[index] = None
        with contextlib.suppress(MalformedCheckpoint):  # opening the log says so
            ids[index] = logs.topic_id_on_disk(name, index)
    return folders


def made_again(
    folders: Folders,
    state: MetadataState,
    home: Home,
    internal: Callable[[str], NewTopic | None],
    draw_uuid: Callable[[], bytes],
) -> list[Message]:
    """The records that make again what is certain: a topic whose partitions are all there, from the first one or from
    those that the catalogue knows on, and that agree on the topic's id. `internal`: how the coordinator's own topics
    are made; None for any other name.
    """
    records: list[Message] = []
    used = {*state.topics_by_id, *state.deleted}
    taken: set[str] = set()
    for name, ids in sorted(folders.items()):
        if name in (METADATA_TOPIC, GROUP_OFFSETS_TOPIC) or name_fault(name) is not None:
            continue
        topic = state.topics.get(name)
        known = 0 if topic is None else len(topic.partitions)
        new = sorted(index for index in ids if index >= known)
        given = {topic_id for index in new if (topic_id := ids[index]) is not None}
        if not new or new != list(range(known, new[-1] + 1)) or len(given) > 1:
            continue
        if topic is not None:
            if given <= {topic.topic_id}:
                records += (partition_record(topic.topic_id, index, home) for index in new)
            continue
        topic_id = given.pop() if given else draw_uuid()
        if topic_id in used or state.colliding_topic(name) is not None or collision_key(name) in taken:
            continue
        wanted = internal(name) or NewTopic(name, topic_id, configs=KEEP_ALL)
        wanted.topic_id, wanted.partitions, wanted.replication_factor = topic_id, len(new), 1
        records += decide_creation(wanted, home, len(new), 1)
        used.add(topic_id)
        taken.add(collision_key(name))
    return records


def tell(records: Sequence[Message]) -> None:
    """Say what was lost, and what was made again by `records`."""
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
