"""Reads raw rows from segment files as Arrow batches, without Spark, and divides the files into shares for tasks.

Control batches and aborted transactions are left out. Data that cannot be read makes a row that reports the damage. The
filter of the requested rows (`RowFilter`) is used three times. First, partitions, segments and batches without a
requested row are skipped. Then, records are skipped before they are decoded. Last, the rows are filtered exactly.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from functools import reduce
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from muster.pipeline.schema import OFFSETS_TOPIC, RAW
from muster.pipeline.sources.batches import Batches, arrow_of, headers_of, rows_of
from muster.pipeline.sources.data_folders import find_segments
from muster.pipeline.sources.segment_files import SegmentFile, file_system
from muster.pipeline.sources.segment_reader import Damage, Stretch, Walk
from muster.pipeline.sources.transactions import Outcomes
from muster.protocol.hashing import group_partition

_SPECIAL: Final = re.compile(r"[*?\[]")


class RowFilter(NamedTuple):
    """The conditions for a row. All of them must hold."""

    partitions: frozenset[int] | None = None
    """The row is in one of these partitions of the log; None: in any partition."""
    since_ms: int | None = None
    """The row was logged at this time or later."""
    until_ms: int | None = None
    """The row was logged before this time."""
    groups: tuple[str, ...] = ()
    """Patterns for the name of the row's group. One of them must match the whole name. Empty: any or no group."""

    @property
    def names(self) -> frozenset[str] | None:
        """The names of the groups that can match. None: the patterns do not name the groups."""
        if not self.groups or any(map(_SPECIAL.search, self.groups)):
            return None
        return frozenset(self.groups)

    def has_partition(self, partition: int, count: int | None = None) -> bool:
        """Whether a partition of the log may have such rows. `count`: the number of partitions, if surely known."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        names = self.names
        return names is None or count is None or any(group_partition(name, count) == partition for name in names)

    def of_raw(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of schema.RAW that meet the conditions.

        If the groups are given by name, their records are found by keys that are not decoded.
        """
        masks = []
        if self.partitions is not None:
            masks.append(pc.is_in(rows.column("partition"), pa.array(sorted(self.partitions), pa.int32())))
        if self.since_ms is not None:
            masks.append(pc.greater_equal(rows.column("timestamp_ms"), self.since_ms))
        if self.until_ms is not None:
            masks.append(pc.less(rows.column("timestamp_ms"), self.until_ms))
        if self.names is not None:
            keys = rows.column("key")
            masks.append(reduce(pc.or_, (_is_key_of(name, keys) for name in sorted(self.names))))
        # an unknown value does not match: for example, damage has no time
        return rows.filter(reduce(pc.and_kleene, masks)) if masks else rows

    def of_decoded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the wanted groups among decoded rows."""
        if not self.groups:
            return rows
        matches = re.compile("|".join(map(translate, self.groups))).match
        column = rows.column("group")
        found = [name for name in pc.unique(column).to_pylist() if name is not None and matches(name)]
        return rows.filter(pc.is_in(column, pa.array(found, column.type)))


ALL_ROWS: Final = RowFilter()


def _is_key_of(group: str, keys: pa.Array) -> pa.Array:
    """Whether keys belong to a group. A key is its type (int16), then the group: its length (int16) and UTF-8."""
    name = group.encode()
    start = len(name).to_bytes(2, "big") + name
    return pc.equal(pc.binary_slice(keys, 2, 2 + len(start)), pa.scalar(start, keys.type))


T = TypeVar("T", bound=tuple[Any, ...])
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
_TIME_ENTRY: Final = 12
"""The bytes of an entry of a time index: a time (int64) and an offset (int32)."""


class DamagedSegment(ValueError):
    """A segment cannot be read completely, and the options say that this is an error."""


class Reading(NamedTuple):
    """How segments are read: the topic, the isolation level, and the wanted rows."""

    topic: str = OFFSETS_TOPIC
    isolation: str = READ_COMMITTED
    fail_on_damage: bool = False
    row_filter: RowFilter = ALL_ROWS
    """The filter of the wanted rows."""

    @property
    def since_ms(self) -> int | None:
        """The time before which rows need not even be read. It is None if every damage must be found."""
        return None if self.fail_on_damage else self.row_filter.since_ms


class Share(NamedTuple):
    """The segments of one task. Also where the ends of those transactions may be that begin in these segments."""

    path: str
    segments: tuple[SegmentFile, ...]
    partitions: dict[int, tuple[SegmentFile, ...]]
    """All segments of the partitions that `segments` belong to, by partition."""


def read_segments(path: str, reading: Reading | None = None) -> Iterator[pa.RecordBatch]:
    """All rows (schema.RAW) of a data directory, or of folders copied from one. Raises NoSource, DamagedSegment."""
    for share in share_out(path, 1, reading):
        yield from read_share(share, reading or Reading())


def share_out(path: str, count: int, reading: Reading | None = None) -> list[Share]:
    """At most `count` shares of about the same size in bytes. Raises NoSource.

    The segments of a partition stay in the order of the log. Segments without a requested row are in no share.
    """
    reading = reading or Reading()
    segments = [segment for segment in find_segments(path, reading.topic) if segment.size]
    partitions: dict[int, list[SegmentFile]] = {}
    for segment in segments:
        partitions.setdefault(segment.partition, []).append(segment)
    wanted = [one for of, some in partitions.items() if reading.row_filter.has_partition(of) for one in some]
    if reading.since_ms is not None:
        system, _ = file_system(path)
        newest = {some[-1] for some in partitions.values()}
        wanted = [one for one in wanted if one in newest or not _is_before(system, one, reading.since_ms)]
    shares = evenly(wanted, count, lambda one: one.size)
    return [
        Share(path, tuple(sorted(share)), {one.partition: tuple(partitions[one.partition]) for one in share})
        for share in shares
    ]


def _is_before(system: fs.FileSystem, segment: SegmentFile, since_ms: int) -> bool:
    """Whether all records of a closed segment are surely older than `since_ms`.

    The last entry of the segment's time index has its greatest time.
    """
    try:
        with system.open_input_file(segment.path.removesuffix(".log") + ".timeindex") as stream:
            size = stream.size()
            if not size or size % _TIME_ENTRY:
                return False
            stream.seek(size - _TIME_ENTRY)
            greatest_ms = int.from_bytes(stream.read(_TIME_ENTRY)[:8], "big", signed=True)
    except OSError:
        return False  # without a time index, the segment must be read

    # an index that was not closed has zeros after its entries
    return 0 < greatest_ms < since_ms


def evenly(items: Sequence[T], count: int, size: Callable[[T], int]) -> list[list[T]]:
    """At most `count` shares of about the same size, and no empty share. The largest items are placed first."""
    shares: list[list[T]] = [[] for _ in range(min(count, len(items)))]
    loads = [(0, index) for index in range(len(shares))]
    for item in sorted(items, key=lambda one: (-size(one), one)):
        load, index = heapq.heappop(loads)
        shares[index].append(item)
        heapq.heappush(loads, (load + size(item), index))
    return shares


def read_share(share: Share, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows of one share. Raises DamagedSegment if damage is an error."""
    system, _ = file_system(share.path)
    for segment in share.segments:
        yield from _read_segment(system, segment, share.partitions[segment.partition], reading)


def _read_segment(
    system: fs.FileSystem, segment: SegmentFile, partition: Sequence[SegmentFile], reading: Reading
) -> Iterator[pa.RecordBatch]:
    outcomes: Outcomes | None = None
    for stretch in _stretches(system, segment):
        batches = headers_of(stretch)
        kept = ~batches.is_control
        if reading.since_ms is not None:
            kept &= batches.max_timestamp >= reading.since_ms
        if reading.isolation == READ_COMMITTED and (batches.is_transactional & kept).any():
            if outcomes is None:
                following = (one for one in partition if one >= segment)
                outcomes = Outcomes.of(_stretches(system, file, check_crc=False) for file in following)
            kept &= outcomes.committed(batches)
        yield from _rows(batches if kept.all() else batches.only(kept), stretch.damages, segment, reading)


def _rows(
    batches: Batches, damages: Sequence[Damage], segment: SegmentFile, reading: Reading
) -> Iterator[pa.RecordBatch]:
    rows, more = rows_of(batches)
    damages = [*damages, *(Damage(offset, f"{segment.path}: {text}") for offset, text in more)]
    if damages and reading.fail_on_damage:
        raise DamagedSegment(damages[0].text)
    if len(rows.batch):
        yield reading.row_filter.of_raw(arrow_of(rows, batches, reading.topic, segment.partition))
    if damages:
        place = {"topic": reading.topic, "partition": segment.partition}
        damaged = [{**place, "offset": offset, "damage": text} for offset, text in damages]
        yield reading.row_filter.of_raw(pa.RecordBatch.from_pylist(damaged, schema=RAW))


def _stretches(system: fs.FileSystem, segment: SegmentFile, *, check_crc: bool = True) -> Iterator[Stretch]:
    try:
        stream = system.open_input_file(segment.path)
    except FileNotFoundError:
        text = f"{segment.path}: the file went away while the log was read (compaction or retention)"
        yield Stretch(b"", [], [Damage(segment.base_offset, text)])
        return
    with stream:
        # data that was written after the files were listed is newer than the known ends of the topics
        size, goes_on = min(stream.size(), segment.size), stream.size() > segment.size
        yield from Walk(segment.path, stream, size, segment.base_offset, check_crc=check_crc, goes_on=goes_on)
