"""Makes a damaged partition readable again: keeps every whole batch, and each old file as `NAME.damaged`."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from muster.coordinator.log import checkpoints, folders
from muster.coordinator.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from muster.coordinator.log.recovery.inspection import Inspection, SegmentFacts
from muster.coordinator.log.storage.files import FileStorage
from muster.coordinator.log.storage.interfaces import File, Storage

DAMAGED_SUFFIX = ".damaged"
_WORK_SUFFIX = ".tmp"
"""A start removes files with this suffix after an interrupted repair."""


class Loss(NamedTuple):
    """The part of a segment that could not be kept."""

    file: str
    position: int
    bytes: int
    first_offset: int
    end_offset: int
    """The offset after the last offset that may be lost; -1: unknown, the log ends there."""


class Repair(NamedTuple):
    """The result of a repair."""

    losses: list[Loss]
    kept_beside: list[str]
    indexes: list[str]
    gone: list[range]
    """Offsets that were synced and that no file has. The log continues without these offsets."""
    identities: list[str]
    """The file with the topic's id, when it was written again."""
    is_stray: bool
    """Whether the topic does not exist, so that the id could not be written again."""
    is_unknown: bool = False
    """Whether nothing was repaired because batches of an unknown format exist, which a repair would drop."""


def repair(
    directory: str, partition: str, topic_id_of: Callable[[Storage, str], bytes | None] = lambda *_: None
) -> Repair:
    """Repair the folder `partition`. `topic_id_of`: reads the metadata log. Raises DirectoryLocked or OSError."""
    storage = FileStorage(directory)
    lock = storage.lock()
    try:
        key = checkpoints.partition_of(partition) or (partition, -1)
        inspection = Inspection(
            storage, partition, last_stop=checkpoints.read_last_stops(storage).get(key, checkpoints.UNKNOWN)
        )
        inspection.run()
        if inspection.is_unknown:
            return Repair([], [], [], [], [], is_stray=False, is_unknown=True)
        topic_id = topic_id_of(storage, key[0])
        is_stray = inspection.has_bad_topic_id and topic_id is None
        if not inspection.has_bad_topic_id and folders.read_topic_id(storage, partition) in (None, topic_id):
            topic_id = None  # the file has the right topic id
        done = Repair([], [], [], [] if inspection.lost is None else [inspection.lost], [], is_stray)
        if topic_id is not None:
            _write_topic_id(storage, partition, topic_id, done)
        for facts in inspection.segments:
            if facts.bad:
                _rewrite(storage, facts, done)
            if facts.bad or facts.has_bad_index:
                for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                    if storage.load(facts.name + suffix) is not None:
                        storage.remove(facts.name + suffix)
                        done.indexes.append(f"{storage.root}/{facts.name}{suffix}")
        storage.sync_directory(partition)
        if inspection.is_damaged:
            checkpoints.lower_recovery_point(storage, key, inspection.end_offset)
        return done
    finally:
        lock.release()


def _write_topic_id(storage: FileStorage, partition: str, topic_id: bytes, done: Repair) -> None:
    path = f"{storage.root}/{partition}/{checkpoints.PARTITION_METADATA}"
    beside = _free_name(path + DAMAGED_SUFFIX)
    shutil.copy2(path, beside)
    folders.write_topic_id(storage, partition, topic_id, sync=True)
    done.kept_beside.append(beside)
    done.identities.append(path)


def _rewrite(storage: FileStorage, facts: SegmentFacts, done: Repair) -> None:
    path = f"{storage.root}/{facts.name}{LOG_SUFFIX}"
    source, target = storage.file(facts.name + LOG_SUFFIX), storage.file(facts.name + LOG_SUFFIX + _WORK_SUFFIX)
    with contextlib.closing(source), contextlib.closing(target):
        target.truncate(0)
        position = written = 0
        for stretch, first_offset, end_offset in facts.bad:
            written = _copy(source, target, position, stretch.position, written)
            position = stretch.end
            done.losses.append(Loss(path, stretch.position, stretch.end - stretch.position, first_offset, end_offset))
        _copy(source, target, position, facts.size, written)
        target.sync()
    beside = _free_name(path + DAMAGED_SUFFIX)
    try:
        os.link(path, beside)
    except OSError:  # not every file system has links
        shutil.copy2(path, beside)
    os.replace(path + _WORK_SUFFIX, path)
    done.kept_beside.append(beside)


def _copy(source: File, target: File, start: int, end: int, to: int) -> int:
    while start < end:
        data = source.pread(min(1 << 20, end - start), start)
        target.pwrite(data, to)
        start += len(data)
        to += len(data)
    return to


def _free_name(path: str) -> str:
    name, number = path, 1
    while Path(name).exists():
        number += 1
        name = f"{path}.{number}"
    return name
