"""Folders of a data directory that do not fit the metadata log, for `muster log check`. It only reads."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from muster.coordinator.log import MalformedCheckpoint, Storage, checkpoints
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.directory.folder_names import STRAY_SUFFIX, read_other_name
from muster.coordinator.log.directory.last_stop import read_last_stops
from muster.coordinator.log.segments.file_names import LOG_SUFFIX
from muster.coordinator.topics.metadata_log import read_state
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import METADATA_TOPIC, PARTITIONS_PROPERTIES

_FOLDER = f"{METADATA_TOPIC}-0"


class Misfit(NamedTuple):
    """One folder that does not fit."""

    folder: str
    problem: str
    what_to_do: str


def misfits(storage: Storage) -> list[Misfit]:
    """Return all folders that do not fit, by name. Raises OSError."""
    folders = sorted(entry.name for entry in storage.entries("") if entry.is_directory)
    state = read_state(storage)
    found = _metadata_log(storage, folders, state)
    for folder in folders:
        other, partition = read_other_name(folder), checkpoints.partition_of(folder)
        if other is not None and other.suffix == STRAY_SUFFIX:
            what_to_do = f"{_repair(storage, folder)} makes its topic again; or remove it when you need it no more"
            found.append(Misfit(folder, "it belongs to no topic and was set aside: nobody can read it", what_to_do))
        elif partition is not None and partition[0] != METADATA_TOPIC and state.topics:
            misfit = _partition(storage, folder, partition, state)
            # partitions of coordinators may be copied from elsewhere, and are then adopted
            is_taken_over = partition[0] in PARTITIONS_PROPERTIES and not _is_another_topics(storage, folder, state)
            found += [] if is_taken_over else misfit
    return found + _missing(storage, set(folders), state)


def _is_another_topics(storage: Storage, folder: str, state: MetadataState) -> bool:
    """Whether the partition.metadata of a folder names another topic, which the metadata log knows."""
    with contextlib.suppress(MalformedCheckpoint, OSError):
        topic = state.topics_by_id.get(topic_ids.read(storage, folder) or b"")
        return topic is not None and topic.name != folder.rpartition("-")[0]
    return False


def _missing(storage: Storage, folders: set[str], state: MetadataState) -> list[Misfit]:
    """Return partitions of the metadata log without a folder.

    A new topic's folders exist before the topic is acknowledged.
    """
    others = {entry.name for entry in storage.entries("") if not entry.is_directory}
    found = []
    for topic in state.topics.values():
        for index in range(len(topic.partitions)):
            folder = f"{topic.name}-{index}"
            if folder not in folders:
                what = "a file is in the place of its folder" if folder in others else "its folder is not there"
                what_to_do = (
                    "stop the server, put the folder back from a backup and start again; without one, the next start "
                    f"makes the partition anew, empty{', once the file is moved away' if folder in others else ''}"
                )
                found.append(Misfit(folder, f"the metadata log knows the partition, and {what}", what_to_do))
    return found


def _repair(storage: Storage, folder: str) -> str:
    return f"stop the server, then `muster log repair {storage.root} --partition {folder}`"


def _metadata_log(storage: Storage, folders: list[str], state: MetadataState) -> list[Misfit]:
    was_here = read_last_stops(storage).get((METADATA_TOPIC, 0)) is not None
    entries = storage.entries(_FOLDER) if _FOLDER in folders else []
    is_there = any(entry.name.endswith(LOG_SUFFIX) and entry.size for entry in entries)
    if is_there and not (state.topics or state.deleted or state.features):
        problem = "the metadata log holds no records that tell of topics: it may be another partition's"
        what_to_do = f"put {_FOLDER} back from a backup before the server starts"
        return [Misfit(_FOLDER, problem, what_to_do)]
    if is_there or not was_here or state.topics:
        return []
    what_to_do = (
        f"put {_FOLDER} back from a backup before the server starts; without one, the server makes the topics again "
        "from their folders: they keep all records, and their configs are lost"
    )
    return [Misfit(_FOLDER, "the metadata log, which says what topics there are, is gone", what_to_do)]


def _partition(storage: Storage, folder: str, partition: checkpoints.Partition, state: MetadataState) -> list[Misfit]:
    name, index = partition
    topic = state.topics.get(name)
    topic_id: bytes | None = None
    with contextlib.suppress(MalformedCheckpoint, OSError):  # the check of the partition itself reports this
        topic_id = topic_ids.read(storage, folder)
    if topic_id is not None and state.deleted.get(topic_id) == name:
        return []  # the next start removes it
    if topic is None or index >= len(topic.partitions):
        problem = "the metadata log knows no such partition: the next start sets the folder aside"
        return [Misfit(folder, problem, f"{_repair(storage, folder)} makes it one; or move the folder away")]
    if topic_id is None or topic_id == topic.topic_id:
        return []
    found, wanted = checkpoints.encode_uuid(topic_id), checkpoints.encode_uuid(topic.topic_id)
    problem = f"{checkpoints.PARTITION_METADATA} names the topic {found}, and the topic of this name is {wanted}"
    other = state.topics_by_id.get(topic_id)
    if other is not None:
        problem = f"{problem}: {found} is {other.name}, and the folders were exchanged"
        what_to_do = f"stop the server, and give the folders of {other.name} and {name} their names back"
        return [Misfit(folder, problem, what_to_do)]
    return [Misfit(folder, problem, f"{_repair(storage, folder)} writes it anew; so does the next start, and says so")]
