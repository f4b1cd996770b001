"""The local replica: files on this machine with the database's records of the logs that this node leads. A node makes
the replica again whenever it registers, and adds each log when it becomes the leader.

A replica has the form of a data directory that was closed cleanly, so it opens at once. A log with a damaged batch is
left as if it was not closed cleanly. The log manager then finds the damaged place, and logs it.

If a log has a checkpoint, only the segments behind it need be read. The segments before the checkpoint are `absent`,
and `segment_cache` fetches them when a reader needs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log import BatchHeader, LogConfig, MalformedCheckpoint, Storage, checkpoints, folders
from muster.coordinator.log.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_name
from muster.coordinator.log.producers import snapshot
from muster.coordinator.log.recovery.segment_check import check_batch
from muster.coordinator.log.segments.absence import SegmentFigures
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.storage.lock import LOCK_FILE
from muster.coordinator.topics.names import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID
from muster.postgres.store import LIVE, BatchRow, Checkpoint, Identity, LogRow, MetadataRow, SegmentRow, Store

PART: Final = 256 * 1024
"""How many bytes are written and checked in one step."""
MARK: Final = "muster-cluster-copy"
"""A directory with this file is a local replica, and may be emptied, because the database has all of it."""


_logger = structlog.get_logger("muster.cluster")


def is_read_in_parts(topic: str) -> bool:
    """Whether a partition's leader need not have the whole log. Coordinators load all of their logs."""
    return topic not in INTERNAL_TOPICS


class FetchedLog(NamedTuple):
    """What the database has of a log."""

    row: LogRow | None
    """The row of the log; None when the database has nothing of it yet."""
    segments: Sequence[SegmentRow]
    end_offset: int
    is_whole: bool
    """Whether the batches of the log are undamaged and consecutive."""
    leader_epoch: int = -1
    """The newest leader epoch in which a record was written; -1: the log has no record."""
    absent: Sequence[SegmentFigures] = ()
    """Segments of the log that were not read."""


class ReplicaRefused(Exception):
    """The directory holds other files than a local replica. The text is one sentence that says what to do."""


def clear(storage: Storage) -> None:
    """Empty the directory for a new local replica. Raises ReplicaRefused, DirectoryLocked or OSError."""
    storage.make_directory("")
    entries = [entry for entry in storage.entries("") if entry.name != LOCK_FILE]
    if entries and storage.load(MARK) is None:
        raise ReplicaRefused(
            f"{storage.root} is not empty, and is no local replica of a cluster, which a start empties: "
            "give --data-dir a directory of its own, or none"
        )
    lock = storage.lock()  # another node may use the directory
    try:
        storage.save(MARK, b"A copy of what a database has: it is thrown away and made anew.\n")
        for entry in entries:
            if entry.is_directory:
                storage.remove_tree(entry.name)
            elif entry.name != MARK:
                storage.remove(entry.name)
    finally:
        lock.release()


class SegmentWriting:
    """A segment that is being written to the disk. An empty segment keeps the end offset of its log."""

    def __init__(self, storage: Storage, name: str, base_offset: int, end_offset: int = 0) -> None:
        """`name`: the path of the files without a suffix; `end_offset`: the end of the log before this segment."""
        self._segment = Segment(storage, name, base_offset, LogConfig(), created_ms=0)
        self._segment.file.truncate(0)
        self.size = 0
        self.end_offset = max(end_offset, base_offset)
        self.is_whole = True
        """Whether the segment's batches are undamaged and consecutive."""

    def write(self, data: bytes) -> Iterator[BatchHeader]:
        """Append batches, and yield the headers of the undamaged batches. The caller must exhaust the iterator."""
        segment = self._segment
        segment.file.pwrite(data, self.size)
        self.size += len(data)
        at = 0
        while self.is_whole and at < len(data):
            header, _ = check_batch(data, at, len(data), self.end_offset, segment.base_offset)
            if header is None:
                self.is_whole = False
                return
            yield header
            segment.note(header.size, header.last_offset, header.max_timestamp)
            self.end_offset = header.next_offset
            at += header.size

    def close(self) -> None:
        """Close the segment, and write its indexes: without them the first reader would have to read the whole file."""
        if self.is_whole and self._segment.size:
            self._segment.store_indexes()
        self._segment.file.close()

    def abandon(self) -> None:
        """Close the file, because the segment is not needed any more."""
        self._segment.file.close()


class _Writing:
    def __init__(self, storage: Storage, directory: str, topic_id: bytes) -> None:
        self._storage = storage
        self.directory = directory
        self.end_offset = 0
        self.is_whole = True
        self._epochs: list[tuple[int, int]] = []
        self._segment: SegmentWriting | None = None
        storage.make_directory(directory)
        folders.write_topic_id(storage, directory, topic_id, sync=False)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Begin at a checkpoint: the next batches follow it. Raises MalformedCheckpoint."""
        epochs = checkpoints.decode_epochs(f"{self.directory}/{checkpoints.LEADER_EPOCHS}", checkpoint.epochs)
        path = f"{self.directory}/{segment_name(checkpoint.offset)}{SNAPSHOT_SUFFIX}"
        snapshot.demand_whole(path, checkpoint.producers)
        self._epochs = [(epoch, start) for epoch, start in epochs if start < checkpoint.offset]
        self._storage.save(path, checkpoint.producers)

    def aborted(self, base_offset: int, data: bytes) -> None:
        """Write the transaction index of a segment that is not read."""
        self._storage.save(f"{self.directory}/{segment_name(base_offset)}{TRANSACTION_INDEX_SUFFIX}", data)

    def segment(self, base_offset: int) -> None:
        """Begin the next segment."""
        self.close()
        name = f"{self.directory}/{segment_name(base_offset)}"
        self._segment = SegmentWriting(self._storage, name, base_offset, self.end_offset)
        self.end_offset = self._segment.end_offset

    def write(self, data: bytes) -> None:
        """Append batches."""
        segment = self._segment
        assert segment is not None
        segment.is_whole = self.is_whole
        for header in segment.write(data):
            if not self._epochs or header.leader_epoch > self._epochs[-1][0]:
                self._epochs.append((header.leader_epoch, header.base_offset))
        self.is_whole, self.end_offset = segment.is_whole, segment.end_offset

    @property
    def leader_epoch(self) -> int:
        return self._epochs[-1][0] if self._epochs else -1

    def close(self) -> None:
        """Close the present segment, which is complete."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def end(self) -> None:
        """Complete the log."""
        self.close()
        if self._epochs:
            epochs = checkpoints.encode_epochs(self._epochs)
            self._storage.save(f"{self.directory}/{checkpoints.LEADER_EPOCHS}", epochs)


def begin(storage: Storage, base_offset: int, rows: Sequence[MetadataRow], identity: Identity, node_id: int) -> None:
    """Make a cleared directory a data directory with only the metadata log, from an offset on. Raises OSError."""
    log = _Writing(storage, f"{METADATA_TOPIC}-0", METADATA_TOPIC_ID)
    log.segment(base_offset)
    for row in rows:
        log.write(row.data)
    log.end()
    ends = {(METADATA_TOPIC, 0): log.end_offset} if log.is_whole else {}
    storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(ends))
    properties = {
        "version": "1",
        "cluster.id": identity.cluster_id,
        "directory.id": identity.directory_id,
        "node.id": str(node_id),
    }
    storage.save(checkpoints.META_PROPERTIES, checkpoints.encode_properties(properties))
    storage.save(checkpoints.CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown())


def parts(rows: Sequence[BatchRow]) -> Iterator[bytes]:
    """The data of rows, in parts of about `PART` bytes: rows may be very small, and many."""
    part: list[bytes] = []
    size = 0
    for row in rows:
        if part and size + len(row.data) > PART:
            yield b"".join(part)
            part, size = [], 0
        part.append(row.data)
        size += len(row.data)
    if part:
        yield b"".join(part)


def before(row: LogRow, segments: Sequence[SegmentRow], checkpoint: Checkpoint | None) -> Sequence[SegmentRow]:
    """The segments before the checkpoint of a log: they need not be read. The result is empty if the segments are not
    as the writer of the checkpoint left them.
    """
    if checkpoint is None or checkpoint.offset <= row.start_offset:
        return ()
    live = [one for one in segments if one.state == LIVE]
    found = [one for one in live if one.base_offset < checkpoint.offset]
    # otherwise a compaction has removed that segment
    is_segment = any(one.base_offset == checkpoint.offset for one in live)
    return found if is_segment and all(one.size >= 0 for one in found) else ()


async def fetch(
    store: Store,
    storage: Storage,
    topic: str,
    partition: int,
    topic_id: bytes,
    pause: Callable[[int], Awaitable[object]],
    *,
    tail_only: bool = False,
) -> FetchedLog:
    """Write the log of one partition, which has no files here yet. `pause(size)` is awaited after each part of that
    many bytes, so that the event loop serves others. `tail_only`: the segments before its checkpoint are not read.
    Raises OSError and the errors of the store.
    """
    row = await store.log(topic_id, partition)
    directory = f"{topic}-{partition}"
    log = _Writing(storage, directory, topic_id)
    if row is None:
        return FetchedLog(None, (), 0, is_whole=True)
    segments = await store.segments(row.log_no)
    has_facts = any(one.size >= 0 for one in segments)  # most logs are small, and need no further request
    checkpoint = await store.checkpoint(row.log_no) if tail_only and has_facts else None
    absent = before(row, segments, checkpoint)
    if absent and checkpoint is not None:
        try:
            log.restore(checkpoint)
        except MalformedCheckpoint as error:
            _logger.error("a checkpoint of a log is damaged in the database", topic=topic, partition=partition,
                          reason=str(error), what="the whole log is read")  # fmt: skip
            absent = ()
    try:
        since = 0 if any(one.aborted_bytes for one in absent) else -1
        while since >= 0 and (indexes := await store.aborted(row.log_no, since)):
            for base_offset, data in indexes:
                log.aborted(base_offset, data)
                await pause(len(data))
            since = indexes[-1][0] + 1
        for segment in segments[len(absent) and segments.index(absent[-1]) + 1 :]:
            if segment.state != LIVE:
                continue
            log.segment(segment.base_offset)
            since = 0
            while rows := await store.batches(segment.segment_no, since):
                for part in parts(rows):
                    log.write(part)
                    await pause(len(part))
                since = rows[-1].next_offset
        log.end()
    finally:
        log.close()
    if absent and not log.is_whole:
        # Opening the log must find the damaged place, which needs all segments before it.
        storage.remove_tree(directory)
        return await fetch(store, storage, topic, partition, topic_id, pause)
    figures = [SegmentFigures(one.base_offset, *one[4:8]) for one in absent]
    return FetchedLog(row, segments, log.end_offset, log.is_whole, log.leader_epoch, figures)
