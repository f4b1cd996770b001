"""The copy on this machine of what the database has: made anew whenever a seat is taken, log by log as they are led.

It has the form of a data directory that was closed cleanly, so that opening it takes no time. A log in which a batch
does not hold together is left as one that was not: opening it finds the place, and says it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from muster.coordinator.database.store import LIVE, BatchRow, Identity, LogRow, MetadataRow, SegmentRow, Store
from muster.coordinator.log import LogConfig, Storage, checkpoints
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.opening.recovery import check_batch
from muster.coordinator.log.segments.file_names import segment_name
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.storage.lock import LOCK_FILE
from muster.coordinator.topics.names import METADATA_TOPIC, METADATA_TOPIC_ID

PART: Final = 256 * 1024
"""Bytes that are written and looked through at a time."""
MARK: Final = "muster-cluster-copy"
"""The file that says that a directory holds such a copy, and nothing that would be missed."""


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


class _Writing:
    """One log on its way to the disk."""

    def __init__(self, storage: Storage, directory: str, topic_id: bytes) -> None:
        self._storage = storage
        self.directory = directory
        self.end_offset = 0
        self.is_whole = True
        self._epochs: list[tuple[int, int]] = []
        self._segment: Segment | None = None
        self._position = 0
        storage.make_directory(directory)
        topic_ids.write(storage, directory, topic_id, sync=False)

    def segment(self, base_offset: int) -> None:
        """The next segment; also one that has nothing: a log keeps its end by it."""
        self.close()
        name = f"{self.directory}/{segment_name(base_offset)}"
        self._segment = Segment(self._storage, name, base_offset, LogConfig(), created_ms=0)
        self._segment.file.truncate(0)
        self._position = 0
        self.end_offset = max(self.end_offset, base_offset)

    def write(self, data: bytes) -> None:
        """Batches that come next."""
        segment = self._segment
        assert segment is not None
        segment.file.pwrite(data, self._position)
        self._position += len(data)
        if self.is_whole:
            self._note(segment, data)

    def _note(self, segment: Segment, data: bytes) -> None:
        at = 0
        while at < len(data):
            header, _ = check_batch(data, at, len(data), self.end_offset, segment.base_offset)
            if header is None:
                self.is_whole = False
                return
            if not self._epochs or header.leader_epoch > self._epochs[-1][0]:
                self._epochs.append((header.leader_epoch, header.base_offset))
            segment.note(header.size, header.last_offset, header.max_timestamp)
            self.end_offset = header.next_offset
            at += header.size

    @property
    def leader_epoch(self) -> int:
        return self._epochs[-1][0] if self._epochs else -1

    def close(self) -> None:
        """With its indexes, or else the whole file would be read for them when the log is opened."""
        segment, self._segment = self._segment, None
        if segment is not None:
            if self.is_whole and segment.size:
                segment.store_indexes()
            segment.file.close()

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


def _parts(rows: Sequence[BatchRow]) -> Iterator[bytes]:
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


async def fetch(
    store: Store,
    storage: Storage,
    topic: str,
    partition: int,
    topic_id: bytes,
    pause: Callable[[int], Awaitable[object]],
) -> Copied:
    """Write the log of one partition, which is not there yet. `pause(size)`: is awaited after each part, of so many
    bytes, so that others get their turn. Raises OSError and the errors of the store.
    """
    row = await store.log(topic_id, partition)
    log = _Writing(storage, f"{topic}-{partition}", topic_id)
    if row is None:
        return Copied(None, (), 0, is_whole=True)
    segments = await store.segments(row.log_no)
    try:
        for segment in segments:
            if segment.state != LIVE:
                continue
            log.segment(segment.base_offset)
            since = 0
            while rows := await store.batches(segment.segment_no, since):
                for part in _parts(rows):
                    log.write(part)
                    await pause(len(part))
                since = rows[-1].next_offset
        log.end()
    finally:
        log.close()
    return Copied(row, segments, log.end_offset, log.is_whole, log.leader_epoch)
