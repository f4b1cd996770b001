"""Reads from the local replica what the database does not have yet: appended data, and compacted segments.

The replica is the queue, so data that waits for a slow database takes no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from muster.coordinator.log.records.headers import read_header, whole_batches
from muster.postgres.store import STAGED, BatchRow, Changes, SegmentRow

if TYPE_CHECKING:
    from muster.coordinator.log.segments.segment import Segment

CHUNK: Final = 256 * 1024
"""The most bytes of batches in one row; one larger batch may be alone in a row."""


class WrittenLog(Protocol):
    """A log that is written to the database: a `database_log.DatabaseLog`, which imports this module."""

    log_no: int

    def is_upload(self, upload: Upload) -> bool:
        """Whether the upload is still wanted."""

    def uploaded(self, upload: Upload, changes: Changes) -> None:
        """Note that this database write has the last part of the upload."""

    def confirm(self, next_offset: int) -> None:
        """Note that the database has all records before `next_offset`."""

    def write_counted(self) -> None:
        """Note that a database write with data of this log counts."""


class Upload:
    """A compacted segment that will replace, in the database, the segments that it was made from."""

    __slots__ = ("aborted", "log", "number", "position", "segment")

    def __init__(self, log: WrittenLog, segment: Segment, number: int, aborted: bytes) -> None:
        """`aborted`: the transaction index of the segment."""
        self.aborted = aborted
        self.log = log
        self.segment = segment
        self.number = number
        self.position = 0

    def add_part(self, changes: Changes) -> bool:
        """Add the next part to a database write. False: that was the last part."""
        log, segment = self.log, self.segment
        if not log.is_upload(self):
            return False
        if self.position == 0:
            changes.new_segments.append(SegmentRow(self.number, log.log_no, segment.base_offset, STAGED))
        row = read_row(segment, self.position, self.number)
        if row is not None:
            changes.batches.append(row)
            self.position += len(row.data)
            if self.position < segment.size:
                return True
        log.uploaded(self, changes)
        return False


def read_row(segment: Segment, position: int, number: int) -> BatchRow | None:
    """Whole batches of a segment from a position on; None at its end. Raises OSError."""
    left = segment.size - position
    if left <= 0:
        return None
    data = segment.file.pread(min(left, CHUNK), position)
    whole, wanted, next_offset = whole_batches(data)
    if whole == 0:
        data = segment.file.pread(min(left, wanted), position)
        whole, wanted, next_offset = whole_batches(data)
        if whole == 0:
            raise OSError(f"there is no whole batch at byte {position}")
    return BatchRow(number, read_header(data).base_offset, next_offset, data if whole == len(data) else data[:whole])


class UnsentData:
    """The data of one log that no database write has taken yet, in order."""

    def __init__(self, number_of: Callable[[Segment], int]) -> None:
        """`number_of`: the number of a segment in the database."""
        self._number_of = number_of
        self._segments: deque[Segment] = deque()
        """Segments with data that no write has taken; in the first segment, the data from `_position` on."""
        self._position = 0
        self._held: deque[BatchRow] = deque()
        """Data that was not taken yet when the files were closed."""

    def begin(self, segments: Iterable[Segment], position: int = 0) -> None:
        """Begin with these segments, the first of them from a position on."""
        self._segments.extend(segments)
        self._position = position

    def rolled(self, segment: Segment) -> None:
        """Note that the log continues in this segment."""
        self._segments.append(segment)

    def forget(self, segment: Segment) -> None:
        """Forget a segment whose data was taken, and which is no longer part of the log."""
        if self._segments and self._segments[0] is segment and len(self._segments) > 1:
            self._next_segment()

    def _next_segment(self) -> None:
        self._segments.popleft()
        self._position = 0

    def is_only_in(self, segment: Segment) -> bool:
        """Whether all data of the segments before this segment was taken."""
        return self._segments[0] is segment

    def next_row(self, *, is_closed: bool) -> BatchRow | None:
        """Take the next row. Returns None at the end. Raises OSError."""
        if self._held:
            return self._held.popleft()
        return None if is_closed else self._read()

    def hold(self) -> bool:
        """Keep remaining data in memory, because the files will be closed. Returns whether any data remained."""
        rows: list[BatchRow] = []
        while (row := self._read()) is not None:
            rows.append(row)
        self._held.extend(rows)
        return bool(rows)

    def _read(self) -> BatchRow | None:
        while True:
            segment = self._segments[0]
            row = read_row(segment, self._position, self._number_of(segment))
            if row is not None:
                self._position += len(row.data)
                return row
            if len(self._segments) == 1:
                return None
            self._next_segment()

    def waiting_bytes(self, *, is_closed: bool) -> int:
        """The bytes of the data that no write has taken."""
        held = sum(len(row.data) for row in self._held)
        return held if is_closed else held + sum(segment.size for segment in self._segments) - self._position
