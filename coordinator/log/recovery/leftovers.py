"""Repairs what a crash leaves beside the segments of a log: interrupted writes, deletions and compactions.

The repair comes before a log is opened (Kafka: LogLoader.removeTempFilesAndCollectSwapFiles and
completeSwapOperations).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

import structlog

from muster.coordinator.log.file_names import (
    ASIDE_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    REPLACES_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    base_offset_of,
    decode_replaces,
    is_leftover,
    is_replaces_note,
    segment_name,
)
from muster.coordinator.log.recovery.segment_check import check_segment
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import Entry, Storage

_logger = structlog.get_logger("muster.log")
_LOG_SWAP = LOG_SUFFIX + SWAP_SUFFIX
_SWAPPED = (*(suffix for suffix in SUFFIXES[1:] if suffix != SNAPSHOT_SUFFIX), LOG_SUFFIX)


def clear(storage: Storage, directory: str, absent: Collection[int] = ()) -> None:
    """Remove what a crash left, and finish a valid swap. `absent`: base offsets of segments not on this machine."""
    leftovers = _Leftovers(storage, directory, absent)
    if not leftovers.exist():
        for name in leftovers.remove_unmatched_indexes():
            _logger.error("a segment is missing", path=f"{storage.root}/{directory}/{name}{LOG_SUFFIX}",
                          what="its index exists: the records are lost unless a backup has the file",
                          what_to_do="stop, put the file back and start again")  # fmt: skip
        return
    leftovers.remove_unfinished()
    leftovers.finish_swaps()
    leftovers.remove_rest_of_swaps()
    leftovers.remove_unmatched_indexes()


class _Leftovers:
    def __init__(self, storage: Storage, directory: str, absent: Collection[int]) -> None:
        self._storage = storage
        self._directory = directory
        self._absent = {segment_name(base_offset) for base_offset in absent}
        self._files = {entry.name: entry for entry in storage.entries(directory) if not entry.is_directory}

    def exist(self) -> bool:
        return any(base_offset_of(name) is None and is_leftover(name) for name in self._files)

    def _remove(self, name: str) -> None:
        self._storage.remove(f"{self._directory}/{name}")
        self._files.pop(name, None)

    def _rename(self, old: str, new: str) -> None:
        self._storage.rename(f"{self._directory}/{old}", f"{self._directory}/{new}")
        self._files[new] = self._files.pop(old)

    def remove_unfinished(self) -> None:
        for name in list(self._files):
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
                self._remove(name)

    def finish_swaps(self) -> None:
        for name in list(self._files):
            stem = name.removesuffix(_LOG_SWAP)
            if stem != name and stem[:20].isdigit():
                self._finish_swap(name)

    def _finish_swap(self, swap: str) -> None:
        name = swap[:20]
        first = int(name)
        bases = {base_offset_of(file) for file in self._files if file.endswith(LOG_SUFFIX)}
        # an empty swap may have lost its batches, and replaces no existing segment
        whole_to = self._end_of(self._files[swap]) if self._files[swap].size else None
        if whole_to is None and first in bases:
            # the segments from which this segment was made still exist, undamaged
            self._rename(swap, swap + ASIDE_SUFFIX)
            _logger.error("a compacted segment is damaged",
                          path=f"{self._storage.root}/{self._directory}/{swap}{ASIDE_SUFFIX}",
                          what="the segments that it was made from are kept, and compacted again")  # fmt: skip
            return
        if whole_to is not None:
            note = self._storage.load(f"{self._directory}/{name}{REPLACES_SUFFIX}")
            end = decode_replaces(note) if note is not None else None
            # Kafka's own swaps have no note; a note that names no segment is damaged
            self._remove_replaced(first, whole_to if end is None or end not in bases else end)
        self._storage.sync_directory(self._directory)
        for suffix in _SWAPPED:
            if name + suffix + SWAP_SUFFIX in self._files:
                self._rename(name + suffix + SWAP_SUFFIX, name + suffix)
        self._storage.sync_directory(self._directory)

    def _remove_replaced(self, first: int, end: int) -> None:
        # the oldest segment first: a tombstone must not be removed before the records that it deletes
        for file in sorted(self._files):
            base_offset = base_offset_of(file)
            if base_offset is not None and first <= base_offset < end:
                self._remove(file)

    def _end_of(self, entry: Entry) -> int | None:
        """Return the offset after the last batch of a compacted segment; None when a batch is not valid."""
        path, base_offset = f"{self._directory}/{entry.name}", int(entry.name[:20])
        segment = Segment(self._storage, path, base_offset, LogConfig(), 0)
        segment.file = self._storage.file(path)
        with contextlib.closing(segment.file):
            checked = check_segment(segment, entry.size, base_offset, lambda _: None)
        return None if checked.left else checked.next_offset

    def remove_rest_of_swaps(self) -> None:
        for name in list(self._files):
            if name.endswith(SWAP_SUFFIX):
                # the segment of this index has its name already, or was never valid: the index is rebuilt
                self._remove(name)
                self._remove(name.removesuffix(SWAP_SUFFIX))
            elif is_replaces_note(name):
                self._remove(name)

    def remove_unmatched_indexes(self) -> list[str]:
        """Remove indexes without their segment; return the names of the former segments, without suffix."""
        logged = {name[:20] for name in self._files if name.endswith(LOG_SUFFIX)} | self._absent
        unmatched = [name for name in self._files if name[:20] not in logged and base_offset_of(name) is not None]
        unmatched = [name for name in unmatched if not name.endswith(SNAPSHOT_SUFFIX)]
        for name in unmatched:
            self._remove(name)
        return list(dict.fromkeys(name[:20] for name in unmatched))
