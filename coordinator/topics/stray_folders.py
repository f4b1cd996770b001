"""Folders of partitions that do not fit the metadata log, at a start or where a new topic is created.

Folders of deleted topics, by the topic's id, are removed. Folders that never held a record are removed too. All other
folders keep their bytes. Each such folder is served under its topic's id, or renamed to Kafka's name for strays, and
reported. When the metadata log itself has lost records, nothing is removed.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, Final

import structlog

from muster.coordinator.log import LogManager, MalformedCheckpoint, checkpoints
from muster.coordinator.log.file_names import DELETE_SUFFIX, STRAY_SUFFIX, OtherName
from muster.coordinator.topics.metadata_state import MetadataState
from muster.coordinator.topics.names import METADATA_TOPIC, PARTITIONS_PROPERTIES

MAX_LINES: Final = 20
"""How many folders have a log line; the number of further ones has one."""
_NOT_RECORDS: Final = (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS)

_logger = structlog.get_logger("muster.topics")


def never_held_records(logs: LogManager, folder: str) -> bool:
    """Whether a folder has never had a record since it was created."""
    entries = logs.storage.entries(folder)
    return all(not entry.is_directory and (entry.size == 0 or entry.name in _NOT_RECORDS) for entry in entries)


class Strays:
    """Removes, renames or takes over folders that do not fit."""

    def __init__(self, logs: LogManager, state: MetadataState, *, lost: bool) -> None:
        """`lost`: whether the metadata log has lost records."""
        self._logs = logs
        self._state = state
        self._lost = lost
        self._reported: Counter[str] = Counter()
        self._renamed = False

    # -- at a start

    def reconcile(self) -> None:
        """Make the folders agree with the metadata log, before any other log is opened."""
        renamed = self._logs.folders.renamed_folders()
        for folder, other in renamed:
            if other.suffix == DELETE_SUFFIX:
                self._deleted(folder, other)
        for name, index in self._logs.folders.on_disk():
            if name != METADATA_TOPIC:
                self._folder(name, index)
        self._report_missing()
        strays = sum(other.suffix == STRAY_SUFFIX for _, other in renamed)
        if strays:
            _logger.info("folders that were set aside earlier are left alone", folders=strays,
                         what_to_do=f"`muster log check {self._logs.storage.root}` names them")  # fmt: skip
        for event, count in self._reported.items():
            if count > MAX_LINES:
                _logger.warning(f"{event}: there are more such", more=count - MAX_LINES,
                                what_to_do=f"`muster log check {self._logs.storage.root}` names them")  # fmt: skip
        if self._renamed:
            # a new topic must never find an old folder of the same name
            self._logs.storage.sync_directory("")

    def _folder(self, name: str, index: int) -> None:
        topic = self._state.topics.get(name)
        topic_id, _ = self._read_id(name, index)
        if topic is not None and index < len(topic.partitions):
            # opening the log writes a missing id, and reports an unreadable id
            if topic_id is None or topic_id == topic.topic_id:
                return
            if topic_id in self._state.topics_by_id:
                return  # folders were exchanged: opening the log reports that, and the log stays offline
            if not self._was_deleted(name, topic_id):
                self._adopt(name, index, topic_id, topic.topic_id)
                return
        if name in PARTITIONS_PROPERTIES:
            self._report("a folder is left alone: its topic has fewer partitions", topic=name, partition=index,
                       what_to_do=f"start with a larger {PARTITIONS_PROPERTIES[name]} in a data directory of its own, "
                       "or remove it when you no longer need it")  # fmt: skip
            return
        self._clear(name, index)

    def _deleted(self, folder: str, other: OtherName) -> None:
        logs, (name, index), topic_id = self._logs, other.partition, other.uuid
        with contextlib.suppress(MalformedCheckpoint):
            topic_id = logs.folders.topic_id_in(folder) or topic_id
        topic = self._state.topics_by_id.get(topic_id)
        whole = self._state.deleted.get(topic_id, name) if topic is None else topic.name
        if whole.startswith(name):  # the name may have been cut
            name = whole
        if topic is not None and topic.name == name and index < len(topic.partitions):
            # the record of the deletion is not on the disk, so the deletion was not acknowledged
            if logs.folders.has_folder(name, index) and self._read_id(name, index)[0] != topic_id:
                self._clear(name, index)
            if not logs.folders.has_folder(name, index):
                logs.folders.put_back(folder, name, index)
                self._renamed = True
                return
        if self._was_deleted(name, topic_id) or self._was_never_created(folder):
            logs.remove([folder])
        elif self._lost:
            self._report("a deleted topic's folder is kept: the metadata log has lost records", folder=folder,
                       what_to_do="remove it when you no longer need it")  # fmt: skip
        else:
            aside = logs.folders.rename(folder, (name, index), STRAY_SUFFIX)
            self._report_stray(name, index, aside, "its name says deleted, but the metadata log does not")

    def _read_id(self, name: str, index: int) -> tuple[bytes | None, bool]:
        """Return the topic id in a folder (None: it has no id), and whether the id can be read."""
        try:
            return self._logs.folders.topic_id_on_disk(name, index), True
        except (MalformedCheckpoint, OSError):
            return None, False

    def _adopt(self, name: str, index: int, found: bytes, topic_id: bytes) -> None:
        """Serve a folder with an unknown topic id (damaged, or of a backup) in the place of a topic's partition."""
        path = f"{name}-{index}/{checkpoints.PARTITION_METADATA}"
        storage = self._logs.storage
        try:
            storage.save(f"{path}.damaged", storage.load(path) or b"", sync=True)
            self._logs.folders.note_topic_id(name, index, topic_id)
        except OSError as error:
            _logger.error("the id of a topic cannot be written again", path=f"{storage.root}/{path}", reason=str(error))
            return
        self._report("the id of a topic was written again", path=f"{storage.root}/{path}", topic=name, partition=index,
                   found=checkpoints.encode_uuid(found), topic_id=checkpoints.encode_uuid(topic_id),
                   reason="no topic ever had that id: the folder is served as a partition of the topic in its name; "
                   "the old file is kept as partition.metadata.damaged")  # fmt: skip

    def _report_missing(self) -> None:
        there = set(self._logs.folders.on_disk())
        for topic in self._state.topics.values():
            for index in range(len(topic.partitions)):
                if (topic.name, index) not in there:
                    self._report("the folder of a partition is missing: an empty folder is made", topic=topic.name,
                               partition=index, what_to_do="if it held records, stop, put the folder back from a "
                               "backup and start again")  # fmt: skip

    # -- one folder

    def clear_folder(self, name: str, index: int) -> None:
        """Remove or rename the folder that is in the place of a new log. Raises OSError."""
        if self._logs.folders.has_folder(name, index):
            self._clear(name, index)
            if self._logs.folders.has_folder(name, index):
                raise OSError(f"the folder {name}-{index} of an earlier topic is in the way")

    def _clear(self, name: str, index: int) -> None:
        logs = self._logs
        topic_id, readable = self._read_id(name, index)
        if self._was_deleted(name, topic_id) or self._was_never_created(f"{name}-{index}"):
            self._renamed = True
            logs.remove(logs.delete(name, index))
            return
        if not readable:
            reason = "partition.metadata cannot be read, so the topic is unknown"
        elif topic_id is None:
            reason = "the metadata log has no such partition, and the folder has no topic id (partition.metadata)"
        elif self._state.deleted.get(topic_id) == name:
            reason = "its topic was deleted, but the metadata log has lost records"
        else:
            text = checkpoints.encode_uuid(topic_id)
            reason = f"the metadata log knows no topic {name} with the id {text}, or fewer partitions of this topic"
        try:
            aside = logs.set_aside(name, index)
        except OSError as error:
            _logger.error("a folder that belongs to no topic cannot be set aside", topic=name, partition=index,
                          reason=error.strerror or str(error))  # fmt: skip
            return
        self._renamed = True
        self._report_stray(name, index, aside, reason)

    def _was_deleted(self, name: str, topic_id: bytes | None) -> bool:
        return topic_id is not None and not self._lost and self._state.deleted.get(topic_id) == name

    def _was_never_created(self, folder: str) -> bool:
        """Whether the folder is from a topic whose creation did not end."""
        return not self._lost and never_held_records(self._logs, folder)

    # -- reporting

    def _report_stray(self, name: str, index: int, aside: str, reason: str) -> None:
        root = self._logs.storage.root
        self._report("a folder that belongs to no topic was set aside", topic=name, partition=index, folder=aside,
                   reason=reason, what_to_do=f"stop, then `muster log repair {root} --partition {aside}` makes its "
                   "topic again; or remove the folder when you no longer need it")  # fmt: skip

    def _report(self, event: str, **facts: Any) -> None:
        self._reported[event] += 1
        if self._reported[event] <= MAX_LINES:
            _logger.warning(event, **facts)
