"""Folders that do not fit the metadata log, for `muster log check`, and for `muster log repair` without a server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from muster.coordinator.log import (
    FileStorage,
    LogManager,
    LogSettings,
    MalformedCheckpoint,
    Storage,
    checkpoints,
    folders,
)
from muster.coordinator.log.checkpoints import read_last_stops
from muster.coordinator.log.file_names import LOG_SUFFIX, STRAY_SUFFIX, read_other_name
from muster.coordinator.log.folders import read_topic_id
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.topics.creation import Home, NewTopic, decide_creation, partition_record
from muster.coordinator.topics.metadata_log import METADATA_LOG_CONFIG, MetadataLog, read_state
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    PARTITIONS_PROPERTIES,
    name_fault,
)
from muster.coordinator.topics.startup import KEEP_ALL
from muster.coordinator.topics.stray_folders import never_held_records
from muster.protocol.message import Message

_FOLDER = f"{METADATA_TOPIC}-0"


class Misfit(NamedTuple):
    """One folder that does not fit the metadata log."""

    folder: str
    problem: str
    what_to_do: str


def misfits(storage: Storage) -> list[Misfit]:
    """Return all folders that do not fit the metadata log, by name. Raises OSError."""
    folders = sorted(entry.name for entry in storage.entries("") if entry.is_directory)
    state = read_state(storage)
    found = _metadata_log(storage, folders, state)
    for folder in folders:
        other, partition = read_other_name(folder), checkpoints.partition_of(folder)
        if other is not None and other.suffix == STRAY_SUFFIX:
            what_to_do = (
                f"{_repair_command(storage, folder)} makes its topic again; or remove it when you no longer need it"
            )
            found.append(Misfit(folder, "it belongs to no topic and was set aside: no client can read it", what_to_do))
        elif partition is not None and partition[0] != METADATA_TOPIC and state.topics:
            misfit = _partition(storage, folder, partition, state)
            # partitions of coordinators may be copied from another broker, and are then adopted
            is_taken_over = partition[0] in PARTITIONS_PROPERTIES and not _is_another_topics(storage, folder, state)
            found += [] if is_taken_over else misfit
    return found + _missing(storage, set(folders), state)


def _is_another_topics(storage: Storage, folder: str, state: MetadataState) -> bool:
    """Whether the partition.metadata of a folder names another topic, which the metadata log knows."""
    with contextlib.suppress(MalformedCheckpoint, OSError):
        topic = state.topics_by_id.get(read_topic_id(storage, folder) or b"")
        return topic is not None and topic.name != folder.rpartition("-")[0]
    return False


def _missing(storage: Storage, folders: set[str], state: MetadataState) -> list[Misfit]:
    """Return partitions of the metadata log without a folder: a new topic's folders exist before it is acknowledged."""
    others = {entry.name for entry in storage.entries("") if not entry.is_directory}
    found = []
    for topic in state.topics.values():
        for index in range(len(topic.partitions)):
            folder = f"{topic.name}-{index}"
            if folder not in folders:
                what = "a file is in the place of its folder" if folder in others else "its folder is missing"
                what_to_do = (
                    "stop the server, put the folder back from a backup and start again; without a backup, the next "
                    f"start makes an empty partition{', once the file is moved away' if folder in others else ''}"
                )
                found.append(Misfit(folder, f"the metadata log knows the partition, and {what}", what_to_do))
    return found


def _repair_command(storage: Storage, folder: str) -> str:
    return f"stop the server, then `muster log repair {storage.root} --partition {folder}`"


def _metadata_log(storage: Storage, folders: list[str], state: MetadataState) -> list[Misfit]:
    was_here = read_last_stops(storage).get((METADATA_TOPIC, 0)) is not None
    entries = storage.entries(_FOLDER) if _FOLDER in folders else []
    is_there = any(entry.name.endswith(LOG_SUFFIX) and entry.size for entry in entries)
    if is_there and not (state.topics or state.deleted or state.features):
        problem = "the metadata log holds no records of topics: the folder may be another partition's"
        what_to_do = f"put {_FOLDER} back from a backup before the server starts"
        return [Misfit(_FOLDER, problem, what_to_do)]
    if is_there or not was_here or state.topics:
        return []
    what_to_do = (
        f"put {_FOLDER} back from a backup before the server starts; without a backup, the server makes the topics "
        "again from their folders: they keep all records, and their configs are lost"
    )
    return [Misfit(_FOLDER, "the metadata log, which names all topics, is missing", what_to_do)]


def _partition(storage: Storage, folder: str, partition: checkpoints.Partition, state: MetadataState) -> list[Misfit]:
    name, index = partition
    topic = state.topics.get(name)
    topic_id: bytes | None = None
    with contextlib.suppress(MalformedCheckpoint, OSError):  # the check of the partition itself reports this
        topic_id = read_topic_id(storage, folder)
    if topic_id is not None and state.deleted.get(topic_id) == name:
        return []  # the next start removes the folder
    if topic is None or index >= len(topic.partitions):
        problem = "the metadata log knows no such partition: the next start sets the folder aside"
        return [Misfit(folder, problem, f"{_repair_command(storage, folder)} adds it; or move the folder away")]
    if topic_id is None or topic_id == topic.topic_id:
        return []
    found, wanted = checkpoints.encode_uuid(topic_id), checkpoints.encode_uuid(topic.topic_id)
    problem = f"{checkpoints.PARTITION_METADATA} names the topic {found}, and the topic of this name is {wanted}"
    other = state.topics_by_id.get(topic_id)
    if other is not None:
        problem = f"{problem}: {found} is {other.name}, and the folders were exchanged"
        what_to_do = f"stop the server, and give the folders of {other.name} and {name} their names back"
        return [Misfit(folder, problem, what_to_do)]
    return [
        Misfit(folder, problem, f"{_repair_command(storage, folder)} writes the id again; the next start does so too")
    ]


class CannotRestore(Exception):
    """The folder cannot be restored; one sentence says why and what to do."""


class Restored(NamedTuple):
    """The result of a restore."""

    topic: str
    partitions: list[int]
    is_new: bool


def belongs_to_a_topic(directory: Path, folder: str) -> bool:
    """Whether the metadata log knows the partition of a folder's name. Raises OSError."""
    partition = checkpoints.partition_of(folder)
    if partition is None:
        return False
    if partition[0] in (METADATA_TOPIC, *INTERNAL_TOPICS):
        return True
    storage = FileStorage(directory, read_only=True)
    try:
        folders.read_topic_id(storage, folder)
    except MalformedCheckpoint:
        return True  # the metadata log cannot be read
    state = read_state(storage)
    topic = state.topics.get(partition[0])
    # a start rebuilds a metadata log without topics
    return not (state.topics or state.deleted) or (topic is not None and partition[1] < len(topic.partitions))


def restore_stray(directory: Path, folder: str, draw_uuid: Callable[[], bytes], now: Now) -> Restored:
    """Put a stray folder and other folders of its topic in their places. Raises CannotRestore, LogError or OSError."""
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
                f"another topic {name} exists, with the id {text}: delete that topic first, and stop the server again"
            )
        _move_in_place(manager, name, found)
        count, directory_id = max(found) + 1, checkpoints.decode_uuid(identity.directory_id)
        home = Home(identity.node_id, directory_id, {identity.node_id: None})
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
    fault = name_fault(name)
    if fault is not None or name in INTERNAL_TOPICS:
        raise CannotRestore(f"no topic can be made for {folder}: {fault or 'it is an internal topic'}")
    same_id = state.topics_by_id.get(topic_id or b"")
    there = state.colliding_topic(name) or (None if same_id is None else same_id.name)
    if there is not None:
        raise CannotRestore(f"the topic {there} exists, so {name} cannot be restored: delete {there} first")


def _move_in_place(manager: LogManager, name: str, found: Mapping[int, str]) -> None:
    """Give the folders of partitions their names; remove empty folders with these names."""
    aside = {index: folder for index, folder in found.items() if folder != f"{name}-{index}"}
    in_the_way = [f"{name}-{index}" for index in aside if manager.folders.has_folder(name, index)]
    for own in in_the_way:
        if not never_held_records(manager, own):
            raise CannotRestore(f"{own} exists and holds records: move this folder away first")
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
        raise CannotRestore(f"{folder} is neither the folder of a partition nor a folder that was set aside")
    return partition[0], _id_in(manager, folder)


def _id_in(manager: LogManager, folder: str) -> bytes | None:
    try:
        return manager.folders.topic_id_in(folder)
    except MalformedCheckpoint:
        return None


def _folders_of_topic(manager: LogManager, name: str, topic_id: bytes | None, folder: str) -> dict[int, str]:
    """Return the folders of a topic by partition, those with the partition's own name first."""
    aside = [(other, one.partition) for other, one in manager.folders.renamed_folders() if one.suffix == STRAY_SUFFIX]
    own = [(f"{topic}-{index}", (topic, index)) for topic, index in manager.folders.on_disk()]
    return {
        index: other
        for other, (topic, index) in aside + own
        if topic == name and (other == folder or (topic_id is not None and _id_in(manager, other) == topic_id))
    }
