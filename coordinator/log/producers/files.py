"""The files of a log's producers: the index of aborted transactions of each segment, and snapshots of their state.

As on Kafka, a snapshot is written where a segment begins and at a clean stop. All transaction indexes must be on the
disk before the snapshot is. So the indexes have every transaction that was aborted before the snapshot. A start trusts
indexes and snapshot up to the newest snapshot's offset, and reads the log from that offset on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from muster.coordinator.log.errors import InsaneIndex, MalformedCheckpoint
from muster.coordinator.log.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, base_offset_of, segment_name
from muster.coordinator.log.producers import snapshot
from muster.coordinator.log.producers.state import Producer, Producers
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from muster.coordinator.log.storage.interfaces import Entry, Storage

FEW_PRODUCERS: Final = 100
"""A snapshot of more producers is written in a thread."""
_logger = structlog.get_logger("muster.log")
InBackground = Callable[[Callable[[], object], Callable[[], object]], object]


class ProducerFiles:
    """The producers' files of one log. No file is known before `find`."""

    __slots__ = ("_in_background", "_pending", "_row_of", "_segments", "indexes", "snapshots")

    def __init__(self, segments: LogSegments, in_background: InBackground, *, keeps_batches: bool) -> None:
        """`keeps_batches`: snapshots have all remembered batches of a producer, and not only its last one."""
        self._segments = segments
        self._row_of = snapshot.rows_of if keeps_batches else snapshot.row_of
        self._in_background = in_background
        self.indexes: dict[int, TransactionIndex] = {}
        """Base offset -> transaction index, for the segments with aborted transactions, in their order."""
        self.snapshots: list[int] = []
        self._pending: _Pending | None = None

    @property
    def _storage(self) -> Storage:
        return self._segments.storage

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._segments.directory}/{segment_name(offset)}{suffix}"

    # -- at a start

    def find(self) -> Iterator[None]:
        """Find the files, in steps. Remove files of missing segments and offsets, as Kafka does. Raises OSError."""
        segments = self._segments
        entries = self._storage.entries(segments.directory)
        bases = {segment.base_offset for segment in segments}
        self.snapshots = _offsets(entries, SNAPSHOT_SUFFIX)
        newest = self.snapshots[-1] if self.snapshots else -1
        for offset in list(self.snapshots):
            is_stray = offset not in bases and offset != newest
            if is_stray or not segments.start_offset < offset <= segments.end_offset:
                self._remove_snapshot(offset)
        sizes = {base_offset_of(entry.name): entry.size for entry in entries if _is_index(entry)}
        self.indexes = {}
        for base_offset in sorted(bases):
            if sizes.get(base_offset):
                yield from self._find_index(base_offset, sizes[base_offset])

    def _find_index(self, base_offset: int, size: int) -> Iterator[None]:
        file = self._storage.file(self._path(base_offset, TRANSACTION_INDEX_SUFFIX))
        index = TransactionIndex(file, size)
        self.indexes[base_offset] = index
        try:
            yield from index.check(base_offset)
        except InsaneIndex as error:
            _logger.warning("a transaction index was damaged, and is made anew", path=file.path, reason=str(error))
            self._drop_index(base_offset)
            # the records that the entries describe are lost
            for offset in [offset for offset in self.snapshots if offset > base_offset]:
                self._remove_snapshot(offset)

    def load_snapshot(self) -> Iterator[tuple[int, list[Producer]]]:
        """Yield the newest readable snapshot in parts: its offset, and some of its producers."""
        while self.snapshots:
            offset = self.snapshots[-1]
            path = self._path(offset, SNAPSHOT_SUFFIX)
            data = self._storage.load(path)
            try:
                if data is not None:
                    snapshot.demand_whole(path, data)
                    yield offset, []
                    for producers in snapshot.decode(path, data):
                        yield offset, producers
                    return
            except MalformedCheckpoint as error:
                _logger.warning("a snapshot of producers is ignored: it cannot be read", path=path, reason=str(error))
            self._remove_snapshot(offset)

    def cut_indexes(self, offset: int) -> None:
        """Drop the entries of markers at `offset` and later. Raises OSError."""
        for base_offset, index in list(self.indexes.items()):
            index.truncate(offset)
            if not index.count:
                self._drop_index(base_offset)

    def _drop_index(self, base_offset: int) -> None:
        self.indexes.pop(base_offset).file.close()
        self._storage.remove(self._path(base_offset, TRANSACTION_INDEX_SUFFIX))

    def _remove_snapshot(self, offset: int) -> None:
        self._storage.remove(self._path(offset, SNAPSHOT_SUFFIX))
        self.snapshots.remove(offset)

    # -- while the log is in use

    def aborted(self, transaction: AbortedTransaction) -> None:
        """Note a transaction in the index of the segment that has its marker. Raises OSError."""
        segments = self._segments
        base_offset = segments[segments.index_for(transaction.last_offset)].base_offset
        index = self.indexes.get(base_offset)
        if index is None:
            file = self._storage.file(self._path(base_offset, TRANSACTION_INDEX_SUFFIX))
            file.truncate(0)  # the entries of an earlier log of this name are wrong
            index = self.indexes[base_offset] = TransactionIndex(file)
        index.append(transaction)

    def write_snapshot(self, producers: Producers, offset: int, *, wait: bool = False) -> None:
        """Write the snapshot at `offset`, unless it exists; without `wait` maybe in a thread. Raises OSError."""
        if self.snapshots and self.snapshots[-1] >= offset:
            return
        unsynced = [index for index in self.indexes.values() if not index.is_synced]
        path = self._path(offset, SNAPSHOT_SUFFIX)
        known = producers.all()
        if wait or not (unsynced or len(known) > FEW_PRODUCERS):
            _sync(self._storage, self._segments.directory, unsynced)
            self._storage.save(path, snapshot.encode(map(self._row_of, known)))
            self.snapshots.append(offset)
        elif self._pending is None:  # a later snapshot is left out while a thread still writes one
            rows = snapshot.RowsInTime(known, self._row_of)
            pending = self._pending = _Pending(self._storage, path, unsynced, producers, rows)
            producers.before_change = rows.keep
            self.snapshots.append(offset)
            self._in_background(pending.write, self._written)

    def _written(self) -> None:
        if self._pending is not None:
            self._pending.end()
            self._pending = None

    def rolled(self, base_offset: int) -> None:
        """Note that a segment is no longer the active one: its index is seldom read."""
        index = self.indexes.get(base_offset)
        if index is not None:
            index.file.close()

    def removed(self, base_offsets: Sequence[int]) -> None:
        """Note that these segments were removed with their files."""
        gone = set(base_offsets)
        for base_offset in self.indexes.keys() & gone:
            self.indexes.pop(base_offset).file.close()
        self.snapshots = [offset for offset in self.snapshots if offset not in gone]

    def replaced(self, base_offsets: Sequence[int], index: TransactionIndex | None) -> None:
        """Note that a compacted segment, with the first of these base offsets and this index, replaces segments."""
        first, *others = base_offsets
        self.removed(others)
        if first in self.indexes:
            self.indexes.pop(first).file.close()
        if index is not None:
            self.indexes = dict(sorted([*self.indexes.items(), (first, index)]))

    def swap_ended(self, base_offset: int) -> None:
        """Note that the index that replaced others has its own name now."""
        index = self.indexes.get(base_offset)
        if index is not None:
            index.file.close()
            index.file = self._storage.file(self._path(base_offset, TRANSACTION_INDEX_SUFFIX))

    def abandon(self) -> None:
        """Write nothing more, and close the files."""
        if self._pending is not None:
            self._pending.is_void = True
            self._written()
        for index in self.indexes.values():
            index.file.close()

    def forget(self) -> None:
        """Note that the log was cut: entries after its end are wrong. Raises OSError."""
        self.abandon()
        entries = self._storage.entries(self._segments.directory)
        for offset in _offsets(entries, SNAPSHOT_SUFFIX):
            if offset > self._segments.end_offset:
                self._storage.remove(self._path(offset, SNAPSHOT_SUFFIX))
        self.indexes = {}
        self.snapshots = []


@dataclass(eq=False)
class _Pending:
    """A snapshot that a thread makes while its producers continue."""

    storage: Storage
    path: str
    indexes: Sequence[TransactionIndex]
    producers: Producers
    rows: snapshot.RowsInTime
    is_void: bool = False
    """Whether the log was cut or closed, so that the snapshot is wrong now."""

    def write(self) -> None:
        _sync(self.storage, self.path.rpartition("/")[0], self.indexes)
        data = self.rows.encode()
        if not self.is_void:
            self.storage.save(self.path, data)
        if self.is_void:
            self.storage.remove(self.path)

    def end(self) -> None:
        self.producers.before_change = None


def _sync(storage: Storage, directory: str, indexes: Sequence[TransactionIndex]) -> None:
    for index in indexes:
        index.sync()
    if indexes:
        storage.sync_directory(directory)  # this saves the names of new files


def _is_index(entry: Entry) -> bool:
    return entry.name.endswith(TRANSACTION_INDEX_SUFFIX) and not entry.is_directory


def _offsets(entries: Sequence[Entry], suffix: str) -> list[int]:
    found = (base_offset_of(entry.name) for entry in entries if entry.name.endswith(suffix) and not entry.is_directory)
    return sorted(offset for offset in found if offset is not None)
