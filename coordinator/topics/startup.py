"""Loads the topics of a node at a start.

A start reads the metadata log, and makes the metadata log and the folders on the disk agree.

* **Adopt.** Somebody may have copied partitions of __consumer_offsets or __transaction_state into the data directory.
  Such partitions are from a Kafka broker or from another Muster. This node serves the partitions, with the topic id and
  the leader epochs that they have. The node never gives out a producer id that the partitions use.
* **Rebuild.** If the metadata log has lost records, topics are created again from the folders of their partitions. A
  folder has the topic's name, its id and one partition. The configs of topics are lost. Such a topic keeps all its
  records until it is configured again, so that no retention deletes them.
* Folders of any other topic that the metadata log does not know are strays (`stray_folders`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import structlog

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import LogError, LogManager, MalformedCheckpoint, Storage, UnifiedLog, batches
from muster.coordinator.log.records.headers import whole_batches
from muster.coordinator.log.storage.interfaces import File
from muster.coordinator.topics import leadership
from muster.coordinator.topics.catalogue import Catalogue
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation, partition_record
from muster.coordinator.topics.metadata_log import METADATA_LOG_CONFIG, MIN_INSYNC_REPLICAS, MetadataLog
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import (
    GROUP_OFFSETS_TOPIC,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    collision_key,
    name_fault,
)
from muster.coordinator.topics.stray_folders import Strays, never_held_records
from muster.protocol.hashing import group_partition, partitions_of
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord
from muster.protocol.records import OFFSETS, SHARE_STATE, TRANSACTION_STATE, KeyedRecords, UnknownRecord

SAMPLE_BYTES = 64 * 1024
"""How many bytes of each partition are read to find out how many partitions the topic had."""
CHUNK_BYTES = 1024 * 1024

ADOPTED: Final[Mapping[str, KeyedRecords]] = {
    GROUP_OFFSETS_TOPIC: OFFSETS,
    TRANSACTION_STATE_TOPIC: TRANSACTION_STATE,
    SHARE_STATE_TOPIC: SHARE_STATE,
}
"""The adopted topics, with the codecs of their records. The hash of a name in the key decides a record's partition."""
_WHAT: Final = {
    GROUP_OFFSETS_TOPIC: "offsets partitions",
    TRANSACTION_STATE_TOPIC: "partitions of transactions",
    SHARE_STATE_TOPIC: "partitions of share groups",
}

_logger = structlog.get_logger("muster.topics")


def adopted(
    logs: LogManager, state: MetadataState, wanted: NewTopic, home: Home, number_is_given: bool
) -> list[Message]:
    """Return the records that create the topic `wanted` with the partitions that are on the disk."""
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
    adopt_copied(logs, wanted.name, wanted.topic_id, wanted.partitions)
    return records + _producer_ids(logs, state, home, wanted.name, indexes)


def records_before_adoption(
    logs: LogManager, state: MetadataState, home: Home, topic: str, topic_id: bytes, partitions: int
) -> list[Message]:
    """Return the records to write before `adopt_copied`: some partitions were copied after the topic was created."""
    return _producer_ids(logs, state, home, topic, list(_with_other_topic_id(logs, topic, topic_id, partitions)))


def on_disk(logs: LogManager, topic: str) -> list[int]:
    """The partitions of a topic that have a folder."""
    return [index for name, index in logs.folders.on_disk() if name == topic]


def partitions_by_content(logs: LogManager, topic: str, usual: int) -> int:
    """Return the number of partitions, `usual` or another number, that the names in the records fit. Raises OSError."""
    indexes = on_disk(logs, topic)
    placed = [(name, index) for index in indexes for name in _some_names(logs.storage, topic, index)]
    count = max(indexes, default=-1) + 1
    for partitions in (max(usual, count), count):
        if all(group_partition(name, partitions) == index for name, index in placed):
            return partitions
    return max(partitions_of(placed) or usual, count)


def _some_names(storage: Storage, topic: str, index: int) -> list[str]:
    codec = ADOPTED[topic]
    segments = _segments(storage, topic, index)
    names: dict[str, None] = {}
    if segments:
        with contextlib.closing(storage.file(segments[0])) as file, contextlib.suppress(LogError):
            for _, records in batches.read(file.pread(SAMPLE_BYTES, 0)):
                for record in records:
                    with contextlib.suppress(UnknownRecord, MalformedMessage):
                        key = codec.decode_key(record.key or b"")[1]
                        names[_name(key)] = None
    return [name for name in names if name]


_NAMES: Final = ("group", "group_id", "transactional_id")
"""The fields of a key whose hash decides the record's partition."""


def _name(key: Any) -> str:
    if hasattr(key, "topic_id"):
        # imported here: few data directories are taken over
        from muster.coordinator.share_state.persister import StateKey

        return str(StateKey(key.group_id, key.topic_id, key.partition))
    return next((getattr(key, field, "") for field in _NAMES if getattr(key, field, "")), "")


def _segments(storage: Storage, topic: str, index: int) -> list[str]:
    folder = f"{topic}-{index}"
    return [f"{folder}/{one.name}" for one in storage.entries(folder) if one.name.endswith(".log") and one.size]


def _id_on_disk(logs: LogManager, topic: str, index: int) -> bytes | None:
    try:
        return logs.folders.topic_id_on_disk(topic, index)
    except MalformedCheckpoint:
        return None  # `adopt_copied` logs this


def _with_epochs(records: Sequence[Message], logs: LogManager, topic: str) -> None:
    """Let the partitions of the new topic begin with the leader epochs of the logs on the disk."""
    there = set(on_disk(logs, topic))
    for record in records:
        if isinstance(record, PartitionRecord) and record.partition_id in there:
            record.leader_epoch = max(logs.folders.leader_epoch_on_disk(topic, record.partition_id), 0)
    of = sum(isinstance(record, PartitionRecord) for record in records)
    _logger.info(f"{_WHAT[topic]} found in the data directory are taken over", partitions=len(there), of=of)


def _with_other_topic_id(logs: LogManager, topic: str, topic_id: bytes, partitions: int) -> Iterator[int]:
    """Yield the partitions on the disk whose topic id is another topic's, is missing, or cannot be read."""
    for index in on_disk(logs, topic):
        if index < partitions:
            try:
                if logs.folders.topic_id_on_disk(topic, index) != topic_id:
                    yield index
            except MalformedCheckpoint:
                yield index


def adopt_copied(logs: LogManager, topic: str, topic_id: bytes, partitions: int) -> None:
    """Write the topic's id of the metadata log to partitions that were copied later, or whose id cannot be read."""
    for index in _with_other_topic_id(logs, topic, topic_id, partitions):
        try:
            if logs.folders.topic_id_on_disk(topic, index) is None:
                continue  # opening the log writes the id
            _logger.warning("a partition with another topic id is taken over", topic=topic, partition=index)
        except MalformedCheckpoint as error:
            _logger.warning("the id of a topic was written again", topic=topic, partition=index, reason=str(error))
        with contextlib.suppress(OSError):  # opening the log fails too, and reports the failure
            logs.folders.note_topic_id(topic, index, topic_id)


# ---- producer ids


def _producer_ids(
    logs: LogManager, state: MetadataState, home: Home, topic: str, indexes: Sequence[int]
) -> list[Message]:
    """Return the record after which only unused producer ids are given out; an empty list when it is unnecessary."""
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


KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
MAX_NAMES: Final = 100
"""How many topics one log line names."""

Folders = Mapping[str, Mapping[int, bytes | None]]
"""Topic -> partition -> topic id in its folder (None: the folder has no id, or an unreadable id)."""


def open_metadata_log(logs: LogManager) -> tuple[UnifiedLog, bool]:
    """Return the metadata log, and whether it has lost records. Raises DamagedLog or LogOffline."""
    was_synced_to = logs.noted_end(METADATA_TOPIC, 0)
    try:
        logs.folders.topic_id_on_disk(METADATA_TOPIC, 0)
    except MalformedCheckpoint as error:  # every retry would fail too
        _logger.warning("the id of a topic was written again", topic=METADATA_TOPIC, reason=str(error))
        logs.folders.note_topic_id(METADATA_TOPIC, 0, METADATA_TOPIC_ID)
    log = logs.open_log(METADATA_TOPIC, 0, config=METADATA_LOG_CONFIG, topic_id=METADATA_TOPIC_ID, wait_for_sync=True)
    return log, log.start_offset > 0 or log.end_offset < was_synced_to


def has_lost_all_topics(logs: LogManager, state: MetadataState) -> bool:
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
    """Report that the metadata log has lost records; return the records that restore topics from their folders."""
    records = rebuilt_topics(_folders_of(logs), state, home, internal, draw_uuid)
    # fewer than one id in a millisecond was ever given out, so the present time is above all used ids
    start = max(state.next_producer_id, wall_ms)
    records.append(ProducerIdsRecord(broker_id=home.node_id, broker_epoch=0, next_producer_id=start))
    _report_lost(records)
    return records


def _folders_of(logs: LogManager) -> Folders:
    """Read the topic ids in the folders of a data directory. Raises OSError."""
    folders: dict[str, dict[int, bytes | None]] = {}
    for name, index in logs.folders.on_disk():
        ids = folders.setdefault(name, {})
        ids[index] = None
        with contextlib.suppress(MalformedCheckpoint):  # opening the log reports the fault
            ids[index] = logs.folders.topic_id_on_disk(name, index)
    return folders


def rebuilt_topics(
    folders: Folders,
    state: MetadataState,
    home: Home,
    internal: Callable[[str], NewTopic | None],
    draw_uuid: Callable[[], bytes],
) -> list[Message]:
    """Return the records that create topics, `internal` topics too, where their folders are consistent. Pure."""
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
    """Yield the topics whose unknown partitions follow the known partitions without a gap, and agree on the topic's id.

    Each result is (topic, partitions that the metadata log does not know, topic ids in their folders).
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


def _report_lost(records: Sequence[Message]) -> None:
    topics = [record.name for record in records if isinstance(record, TopicRecord)]
    partitions = sum(isinstance(record, PartitionRecord) for record in records)
    _logger.error(
        "the metadata log has lost records",
        topics_made_again=len(topics),
        partitions_made_again=partitions,
        topics=topics[:MAX_NAMES],
        what=f"{METADATA_TOPIC}-0 has lost records: nothing is deleted, and topics that it does not know are made "
        "again from their folders; their configs are lost, so they keep all records until you set retention.ms",
    )


Publish = Callable[[TopicsImage], object]


def load_shared(catalogue: Catalogue, snapshot: Iterable[bytes], publish: Publish) -> None:
    """Load a metadata log that other processes write too, after its `snapshot`. No partition is open yet."""
    log, _ = open_metadata_log(catalogue.logs)
    catalogue.metadata_log = MetadataLog(log)
    catalogue.metadata_log.replay(snapshot)
    catalogue.begin(publish)


def load_own(
    catalogue: Catalogue,
    publish: Publish,
    internal: Callable[[str], NewTopic | None],
    partitions_are_given: Callable[[str], bool],
) -> None:
    """Replay the metadata log, and make the log and the folders of partitions agree. No partition is open yet.

    `internal`: makes an internal topic. `partitions_are_given`: see `Topics`.
    """
    logs, clock, draw_uuid = catalogue.logs, catalogue.clock, catalogue.draw_uuid
    log, lost = open_metadata_log(logs)
    metadata_log = catalogue.metadata_log = MetadataLog(log)
    metadata_log.load(clock.now(), catalogue.configs.broker.static.text(MIN_INSYNC_REPLICAS))
    metadata_log.begin(catalogue.racks, draw_uuid, clock.now())
    catalogue.begin(publish)
    lost = lost or has_lost_all_topics(logs, catalogue.state)
    if lost:
        catalogue.append(lost_topics(logs, catalogue.state, catalogue.home, internal, draw_uuid, clock.now().wall_ms))
    for name in ADOPTED:
        _adopt(catalogue, name, internal, partitions_are_given)
    Strays(logs, catalogue.state, lost=lost).reconcile()
    logs.forget_others({METADATA_TOPIC, *catalogue.state.topics})
    # whatever was lost, the log names everything that is created from now on
    catalogue.strays = Strays(logs, catalogue.state, lost=False)
    catalogue.append(leadership.fence_missing_brokers(catalogue.state, catalogue.racks))
    catalogue.see_brokers()


def _adopt(
    catalogue: Catalogue,
    name: str,
    internal: Callable[[str], NewTopic | None],
    partitions_are_given: Callable[[str], bool],
) -> None:
    """Adopt the coordinators' partitions on the disk, also partitions that were copied there."""
    logs, home = catalogue.logs, catalogue.home
    state = catalogue.state.topics.get(name)
    if state is not None:
        place = name, state.topic_id, len(state.partitions)
        catalogue.write(records_before_adoption(logs, catalogue.state, home, *place))
        adopt_copied(logs, *place)
        return
    wanted = internal(name) if on_disk(logs, name) else None
    if wanted is not None:
        catalogue.write(adopted(logs, catalogue.state, wanted, home, partitions_are_given(name)))
