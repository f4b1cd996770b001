"""Puts a stray folder back in its place and creates a topic for it: the second half of `muster log repair`.

No server may use the data directory meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from muster.coordinator.log import FileStorage, LogManager, LogSettings, MalformedCheckpoint, checkpoints
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.directory.folder_names import STRAY_SUFFIX, read_other_name
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation, partition_record
from muster.coordinator.topics.metadata_log import METADATA_LOG_CONFIG, MetadataLog, read_state
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID, name_fault
from muster.coordinator.topics.rebuild_topics import KEEP_ALL
from muster.coordinator.topics.stray_folders import never_held_records
from muster.protocol.message import Message


class CannotRestore(Exception):
    """The folder cannot be restored; one sentence says why and what to do."""


class Restored(NamedTuple):
    """The result of a restore."""

    topic: str
    partitions: list[int]
    """The partitions that have their folders again."""
    is_new: bool
    """Whether the topic was created for these partitions."""


def belongs_to_a_topic(directory: Path, folder: str) -> bool:
    """Whether the metadata log knows the partition of a folder's name. Raises OSError."""
    partition = checkpoints.partition_of(folder)
    if partition is None:
        return False
    if partition[0] in (METADATA_TOPIC, *INTERNAL_TOPICS):
        return True
    storage = FileStorage(directory, read_only=True)
    try:
        topic_ids.read(storage, folder)
    except MalformedCheckpoint:
        return True  # the metadata log cannot be read
    state = read_state(storage)
    topic = state.topics.get(partition[0])
    # a start rebuilds a metadata log without topics
    return not (state.topics or state.deleted) or (topic is not None and partition[1] < len(topic.partitions))


def restore_stray(directory: Path, folder: str, draw_uuid: Callable[[], bytes], now: Now) -> Restored:
    """Put a stray folder back in its place, and all others of the same topic.

    Raises CannotRestore, OSError or an error of the log.
    """
    storage = FileStorage(directory)
    data = storage.load(checkpoints.META_PROPERTIES)
    if data is None:
        raise CannotRestore(f"{directory} has no meta.properties: start a server on it once, and stop it")
    properties = checkpoints.decode_properties(checkpoints.META_PROPERTIES, data)
    node_id = properties.get("node.id", "")
    manager = LogManager(storage, LogSettings())
    identity = manager.open(
        cluster_id=None, node_id=int(node_id) if node_id.isascii() and node_id.isdigit() else 0, draw_uuid=draw_uuid
    )
    try:
        metadata_log = manager.open_log(METADATA_TOPIC, 0, config=METADATA_LOG_CONFIG, topic_id=METADATA_TOPIC_ID)
        metadata = MetadataLog(metadata_log)
        metadata.load(now)
        name, topic_id = _topic_of(manager, folder)
        found = _folders_of_topic(manager, name, topic_id, folder)
        topic = metadata.state.topics.get(name)
        if topic is None:
            _check_topic_can_be_made(metadata.state, name, topic_id, folder)
        elif topic_id is not None and topic.topic_id != topic_id:
            text = checkpoints.encode_uuid(topic.topic_id)
            raise CannotRestore(
                f"another topic {name}, with the id {text}, is there: delete that one first, and stop the server again"
            )
        _move_in_place(manager, name, found)
        count, home = max(found) + 1, Home(identity.node_id, checkpoints.decode_uuid(identity.directory_id))
        records: list[Message] = []
        if topic is None:
            wanted = NewTopic(name, topic_id or draw_uuid(), count, 1, configs=KEEP_ALL)
            records += decide_creation(wanted, home, count, 1)
        else:
            new = range(len(topic.partitions), count)
            records += (partition_record(topic.topic_id, index, home) for index in new)
        metadata.write(records, now)
        metadata.log.flush()
        return Restored(name, sorted(found), topic is None)
    finally:
        manager.close()


def _check_topic_can_be_made(state: MetadataState, name: str, topic_id: bytes | None, folder: str) -> None:
    """Check that a topic of this name and id can be created. Raises CannotRestore."""
    fault = name_fault(name)
    if fault is not None or name in INTERNAL_TOPICS:
        raise CannotRestore(f"no topic can be made for {folder}: {fault or 'it is one of the server itself'}")
    same_id = state.topics_by_id.get(topic_id or b"")
    there = state.colliding_topic(name) or (None if same_id is None else same_id.name)
    if there is not None:
        raise CannotRestore(f"the topic {there} is there, and {name} cannot be beside it: delete that one first")


def _move_in_place(manager: LogManager, name: str, found: Mapping[int, str]) -> None:
    """Give the folders of partitions their names; remove empty folders with these names.

    Raises CannotRestore, OSError.
    """
    aside = {index: folder for index, folder in found.items() if folder != f"{name}-{index}"}
    in_the_way = [f"{name}-{index}" for index in aside if manager.folders.has_folder(name, index)]
    for own in in_the_way:
        if not never_held_records(manager, own):
            raise CannotRestore(f"{own} is there and holds records: move it away first")
    for own in in_the_way:
        manager.storage.remove_tree(own)
    for index, folder in aside.items():
        manager.folders.put_back(folder, name, index)
    manager.storage.sync_directory("")


def _topic_of(manager: LogManager, folder: str) -> tuple[str, bytes | None]:
    other, partition = read_other_name(folder), checkpoints.partition_of(folder)
    if partition is None and other is not None and other.suffix == STRAY_SUFFIX:
        partition = other.partition
    if partition is None:
        raise CannotRestore(f"{folder} is no partition's folder, and none that was set aside")
    return partition[0], _id_in(manager, folder)


def _id_in(manager: LogManager, folder: str) -> bytes | None:
    try:
        return manager.folders.topic_id_in(folder)
    except MalformedCheckpoint:
        return None


def _folders_of_topic(manager: LogManager, name: str, topic_id: bytes | None, folder: str) -> dict[int, str]:
    """Return the folders of a topic by partition: `folder`, and those with the same topic id.

    Of two folders of one partition, the folder with the partition's own name counts.
    """
    aside = [(other, one.partition) for other, one in manager.folders.renamed_folders() if one.suffix == STRAY_SUFFIX]
    own = [(f"{topic}-{index}", (topic, index)) for topic, index in manager.folders.on_disk()]
    return {
        index: other
        for other, (topic, index) in aside + own
        if topic == name and (other == folder or (topic_id is not None and _id_in(manager, other) == topic_id))
    }
