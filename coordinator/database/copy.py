"""The copy on this machine of what the database has: made anew whenever the office is taken.

It has the form of a data directory that was closed cleanly, so that opening it takes no time. A log in which a batch
does not hold together is left as one that was not: opening it finds the place, and says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.coordinator.database.store import LIVE, Identity, LogRow, SegmentRow, Store
from muster.coordinator.log import Storage, checkpoints
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.opening.recovery import check_batch
from muster.coordinator.log.segments.file_names import LOG_SUFFIX, segment_name
from muster.coordinator.log.storage.lock import LOCK_FILE

MARK: Final = "muster-cluster-copy"
"""The file that says that a directory holds such a copy, and nothing that would be missed."""


class Copied(NamedTuple):
    """What is in the database."""

    logs: Sequence[LogRow]
    segments: Sequence[SegmentRow]
    bytes_read: int


class CopyRefused(Exception):
    """The directory holds something else: one sentence that says what to do."""


def clear(storage: Storage) -> None:
    """Make room for a new copy. Raises CopyRefused, DirectoryLocked or OSError."""
    storage.make_directory("")
    entries = [entry for entry in storage.entries("") if entry.name != LOCK_FILE]
    if entries and storage.load(MARK) is None:
        raise CopyRefused(
            f"{storage.root} is not empty and holds no copy of a cluster, which would be thrown away: "
            "give --data-dir a directory of its own, or none"
        )
    lock = storage.lock()  # another node may be at work in it
    try:
        storage.save(MARK, b"A copy of what a database has: it is thrown away and made anew.\n")
        for entry in entries:
            if entry.is_directory:
                storage.remove_tree(entry.name)
            elif entry.name != MARK:
                storage.remove(entry.name)
    finally:
        lock.release()


class _Log:
    """One log on its way to the disk."""

    __slots__ = ("directory", "end_offset", "epochs", "is_whole", "row")

    def __init__(self, row: LogRow) -> None:
        self.row = row
        self.directory = f"{row.topic}-{row.partition}"
        self.end_offset = 0
        self.epochs: list[tuple[int, int]] = []
        self.is_whole = True

    def note(self, data: bytes, base_offset: int) -> None:
        """Look at batches that come next, of a segment that begins at `base_offset`."""
        at = 0
        while at < len(data):
            header, _ = check_batch(data, at, len(data), self.end_offset, base_offset)
            if header is None:
                self.is_whole = False
                return
            if not self.epochs or header.leader_epoch > self.epochs[-1][0]:
                self.epochs.append((header.leader_epoch, header.base_offset))
            self.end_offset = header.next_offset
            at += header.size


async def make(store: Store, storage: Storage, identity: Identity, node_id: int) -> Copied:
    """Write all of it, into a directory that was cleared. Raises OSError and the errors of the store."""
    rows, segments = await store.logs(), await store.segments()
    logs = {row.log_no: _Log(row) for row in rows}
    by_number = {row.segment_no: row for row in segments if row.state == LIVE and row.log_no in logs}
    for log in logs.values():
        storage.make_directory(log.directory)
        topic_ids.write(storage, log.directory, log.row.topic_id, sync=False)
    bytes_read = await _write_segments(store, storage, logs, by_number)
    _write_notes(storage, logs, by_number, identity, node_id)
    return Copied(rows, segments, bytes_read)


async def _write_segments(
    store: Store, storage: Storage, logs: dict[int, _Log], by_number: dict[int, SegmentRow]
) -> int:
    file, number, position, bytes_read = None, -1, 0, 0
    for segment in by_number.values():  # also those that have nothing: a log keeps its end by them
        path = f"{logs[segment.log_no].directory}/{segment_name(segment.base_offset)}{LOG_SUFFIX}"
        empty = storage.file(path)
        empty.truncate(0)
        empty.close()
    async for part in store.batches():
        for row in part:
            found = by_number.get(row.segment_no)
            if found is None:
                continue
            log = logs[found.log_no]
            if row.segment_no != number or file is None:
                if file is not None:
                    file.close()
                path = f"{log.directory}/{segment_name(found.base_offset)}{LOG_SUFFIX}"
                file, number, position = storage.file(path), row.segment_no, 0
                log.end_offset = max(log.end_offset, found.base_offset)
            file.pwrite(row.data, position)
            position += len(row.data)
            bytes_read += len(row.data)
            if log.is_whole:
                log.note(row.data, found.base_offset)
    if file is not None:
        file.close()
    return bytes_read


def _write_notes(
    storage: Storage, logs: dict[int, _Log], by_number: dict[int, SegmentRow], identity: Identity, node_id: int
) -> None:
    for segment in by_number.values():
        log = logs[segment.log_no]
        log.end_offset = max(log.end_offset, segment.base_offset)
    ends = {(log.row.topic, log.row.partition): log.end_offset for log in logs.values() if log.is_whole}
    starts = {(log.row.topic, log.row.partition): log.row.start_offset for log in logs.values()}
    for log in logs.values():
        if log.epochs:
            storage.save(f"{log.directory}/{checkpoints.LEADER_EPOCHS}", checkpoints.encode_epochs(log.epochs))
    storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(ends))
    storage.save(
        checkpoints.START_OFFSETS, checkpoints.encode_offsets({key: at for key, at in starts.items() if at > 0})
    )
    text = {
        "cluster.id": identity.cluster_id,
        "directory.id": identity.directory_id,
        "node.id": str(node_id),
        "version": "1",
    }
    storage.save(checkpoints.META_PROPERTIES, checkpoints.encode_properties(text))
    storage.save(checkpoints.CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown())
