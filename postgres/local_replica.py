"""The copy on this machine of what the database has: made anew whenever a seat is taken, log by log as they are led.

It has the form of a data directory that was closed cleanly, so that opening it takes no time. A log in which a batch
does not hold together is left as one that was not: opening it finds the place, and says it.

Of a log that has a checkpoint only what comes behind it need be read: the segments before are `absent`, which
`segment_cache` brings when they are asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log import BatchHeader, LogConfig, MalformedCheckpoint, Storage, checkpoints
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.opening.recovery import check_batch
from muster.coordinator.log.producers import snapshot
from muster.coordinator.log.segments.absence import SegmentFigures
from muster.coordinator.log.segments.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_name
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.storage.lock import LOCK_FILE
from muster.coordinator.topics.names import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID
from muster.postgres.store import (
    LIVE,
    BatchRow,
    Checkpoint,
    Identity,
    LogRow,
    MetadataRow,
    SegmentRow,
    Store,
)

PART: Final = 256 * 1024
"""Bytes that are written and looked through at a time."""
MARK: Final = "muster-cluster-copy"
"""The file that says that a directory holds such a copy, and nothing that would be missed."""


_logger = structlog.get_logger("muster.cluster")


def is_read_in_parts(topic: str) -> bool:
    """Whether who leads a partition of this topic need not have all of it: the coordinators load all of theirs."""
    return topic not in INTERNAL_TOPICS


class Copied(NamedTuple):
    """What the database has of a log."""

    row: LogRow | None
    """None: nothing yet."""
    segments: Sequence[SegmentRow]
    end_offset: int
    is_whole: bool
    """Whether its batches hold together."""
    leader_epoch: int = -1
    """The newest in which something was written; -1: nothing was."""
    absent: Sequence[SegmentFigures] = ()
    """Segments of the log that were not read."""


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


class SegmentWriting:
    """One segment on its way to the disk; also one that has nothing: a log keeps its end by it."""

    def __init__(self, storage: Storage, name: str, base_offset: int, end_offset: int = 0) -> None:
        """`name`: the path of its files without a suffix; `end_offset`: up to where the log goes before it."""
        self._segment = Segment(storage, name, base_offset, LogConfig(), created_ms=0)
        self._segment.file.truncate(0)
        self.size = 0
        self.end_offset = max(end_offset, base_offset)
        self.is_whole = True
        """Whether its batches hold together."""

    def write(self, data: bytes) -> Iterator[BatchHeader]:
        """Batches that come next; gives the headers of those that hold together. To be gone through."""
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
        """With its indexes, or else the whole file would be read for them when it is first used."""
        if self.is_whole and self._segment.size:
            self._segment.store_indexes()
        self._segment.file.close()

    def abandon(self) -> None:
        """It is not needed any more."""
        self._segment.file.close()


class _Writing:
    """One log on its way to the disk."""

    def __init__(self, storage: Storage, directory: str, topic_id: bytes) -> None:
        self._storage = storage
        self.directory = directory
        self.end_offset = 0
        self.is_whole = True
        self._epochs: list[tuple[int, int]] = []
        self._segment: SegmentWriting | None = None
        storage.make_directory(directory)
        topic_ids.write(storage, directory, topic_id, sync=False)

    def restore(self, checkpoint: Checkpoint) -> None:
        """What comes follows this one. Raises MalformedCheckpoint."""
        epochs = checkpoints.decode_epochs(f"{self.directory}/{checkpoints.LEADER_EPOCHS}", checkpoint.epochs)
        path = f"{self.directory}/{segment_name(checkpoint.offset)}{SNAPSHOT_SUFFIX}"
        snapshot.demand_whole(path, checkpoint.producers)
        self._epochs = [(epoch, start) for epoch, start in epochs if start < checkpoint.offset]
        self._storage.save(path, checkpoint.producers)

    def aborted(self, base_offset: int, data: bytes) -> None:
        """The transaction index of a segment that is not read."""
        self._storage.save(f"{self.directory}/{segment_name(base_offset)}{TRANSACTION_INDEX_SUFFIX}", data)

    def segment(self, base_offset: int) -> None:
        """The next segment."""
        self.close()
        name = f"{self.directory}/{segment_name(base_offset)}"
        self._segment = SegmentWriting(self._storage, name, base_offset, self.end_offset)
        self.end_offset = self._segment.end_offset

    def write(self, data: bytes) -> None:
        """Batches that come next."""
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
        """The segment has all that it gets."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def end(self) -> None:
        """All is there."""
        self.close()
        if self._epochs:
            epochs = checkpoints.encode_epochs(self._epochs)
            self._storage.save(f"{self.directory}/{checkpoints.LEADER_EPOCHS}", epochs)


def begin(storage: Storage, base_offset: int, rows: Sequence[MetadataRow], identity: Identity, node_id: int) -> None:
    """Make a data directory, out of one that was cleared, that has the metadata log from an offset on and no other.
    Raises OSError.
    """
    log = _Writing(storage, f"{METADATA_TOPIC}-0", METADATA_TOPIC_ID)
    log.segment(base_offset)
    for row in rows:
        log.write(row.data)
    log.end()
    ends = {(METADATA_TOPIC, 0): log.end_offset} if log.is_whole else {}
    storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(ends))
    text = {
        "cluster.id": identity.cluster_id,
        "directory.id": identity.directory_id,
        "node.id": str(node_id),
    }
    storage.save(checkpoints.META_PROPERTIES, checkpoints.encode_properties({"version": "1", **text}))
    storage.save(checkpoints.CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown())


def parts(rows: Sequence[BatchRow]) -> Iterator[bytes]:
    """What rows have, in parts of about `PART` bytes: rows may be very small, and many."""
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
    """The segments of a log that need not be read, by its checkpoint: what stands before it. None are, if anything is
    not as whoever wrote the checkpoint has left it.
    """
    if checkpoint is None or checkpoint.offset <= row.start_offset:
        return ()
    live = [one for one in segments if one.state == LIVE]
    found = [one for one in live if one.base_offset < checkpoint.offset]
    is_segment = any(one.base_offset == checkpoint.offset for one in live)  # or else a compaction came over it
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
) -> Copied:
    """Write the log of one partition, which is not there yet. `pause(size)`: is awaited after each part, of so many
    bytes, so that others get their turn. `tail_only`: what is before its checkpoint is not read. Raises OSError and the
    errors of the store.
    """
    row = await store.log(topic_id, partition)
    directory = f"{topic}-{partition}"
    log = _Writing(storage, directory, topic_id)
    if row is None:
        return Copied(None, (), 0, is_whole=True)
    segments = await store.segments(row.log_no)
    has_facts = any(one.size >= 0 for one in segments)  # most logs are small, and need no question more
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
        # opening it is to find the place, which takes all that is before
        storage.remove_tree(directory)
        return await fetch(store, storage, topic, partition, topic_id, pause)
    figures = [SegmentFigures(one.base_offset, *one[4:8]) for one in absent]
    return Copied(row, segments, log.end_offset, log.is_whole, log.leader_epoch, figures)
