"""The two index files beside a segment: written, read, and checked against the segment they stand beside."""

from __future__ import annotations

from muster.coordinator.log.errors import InsaneIndex, TruncatedBatch
from muster.coordinator.log.records.headers import HEADER_SIZE, read_header
from muster.coordinator.log.segments.index import OffsetIndex, TimeIndex
from muster.coordinator.log.storage.interfaces import File, Storage

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"


def store_indexes(storage: Storage, name: str, index: OffsetIndex, time_index: TimeIndex) -> None:
    """Write both; `name`: the path of the segment's files without a suffix."""
    storage.save(name + INDEX_SUFFIX, index.encode())
    storage.save(name + TIME_INDEX_SUFFIX, time_index.encode())


def load_indexes(
    storage: Storage, name: str, segment: File, base_offset: int, segment_size: int
) -> tuple[OffsetIndex, TimeIndex]:
    """Both indexes of a segment; InsaneIndex when one is missing or cannot be its own."""
    offsets = storage.load(name + INDEX_SUFFIX)
    times = storage.load(name + TIME_INDEX_SUFFIX)
    if offsets is None or times is None:
        raise InsaneIndex("it is missing")
    index = OffsetIndex.decode(offsets, segment_size)
    time_index = TimeIndex.decode(times)
    if len(index):
        data = segment.pread(HEADER_SIZE, index.positions[-1])
        try:
            found = read_header(data).last_offset - base_offset
        except TruncatedBatch as error:
            raise InsaneIndex("its last entry is not that of a batch") from error
        if found != index.offsets[-1]:
            raise InsaneIndex("its last entry is not that of a batch")
    return index, time_index
