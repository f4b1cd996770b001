"""Segments whose file is not on this machine (`durability.Engine`): reads of the file raise `SegmentAbsent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

from muster.coordinator.log.errors import LogError, SegmentAbsent
from muster.coordinator.log.storage.interfaces import Buffer
from muster.coordinator.system.jobs import Job, PendingResult

T = TypeVar("T")
FetchSegment = Callable[[int, Callable[[Exception | None], object]], Callable[[], object]]
"""`fetch(base_offset, then)` fetches, then calls `then(None)` or `then(error)`. Returns a function to stop fetching."""


class SegmentFigures(NamedTuple):
    """The known values of a segment that is no longer appended to."""

    base_offset: int
    size: int
    first_timestamp: int
    """The timestamp of the first batch; -1 when that batch has none."""
    max_timestamp: int
    """The greatest timestamp; -1 when no record has one."""
    max_timestamp_offset: int


class AbsentFile:
    """The `storage.File` of a segment that is not on this machine."""

    __slots__ = ("_base_offset", "_failure", "path")

    def __init__(self, path: str, base_offset: int, failure: LogError | None = None) -> None:
        """`failure`: why the segment cannot be fetched; None when it can."""
        self.path = path
        self._base_offset = base_offset
        self._failure = failure

    def _refuse(self) -> NoReturn:
        raise self._failure or SegmentAbsent(self.path, self._base_offset)

    def size(self) -> int:
        """Raise SegmentAbsent or the failure, as all methods that follow do."""
        self._refuse()

    def pread(self, count: int, position: int) -> bytes:
        self._refuse()

    def part(self, count: int, position: int) -> None:
        self._refuse()

    def pwrite(self, data: Buffer, position: int) -> None:
        self._refuse()

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        self._refuse()

    def truncate(self, size: int) -> None:
        self._refuse()

    def allocate(self, size: int) -> None:
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def is_removed(self) -> bool:
        self._refuse()

    def close(self) -> None:
        """Do nothing: no handle is open."""


def with_absent_segments(fetch_segment: FetchSegment, work: Callable[[], Job[T]]) -> Job[T]:
    """A job that does `work`, and begins it again after the fetch of each absent segment that it needs."""
    while True:
        try:
            return (yield from work())
        except SegmentAbsent as absent:
            later = PendingResult()
            forget = fetch_segment(absent.base_offset, later)
        try:
            failure = yield later
        finally:
            forget()
        if failure is not None:
            raise failure
