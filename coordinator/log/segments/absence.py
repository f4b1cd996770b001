"""Segments whose file is not on this machine: what is known of them, and the file that tells those who read that they
must have it brought first.

A log whose segments are copies of what is elsewhere need not have all of them (`durability.Engine`). Nothing that needs
the bytes of one that is absent comes to a result: it raises `SegmentAbsent`, so nobody takes it for empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

from muster.coordinator.log.errors import LogError, SegmentAbsent
from muster.coordinator.log.storage.interfaces import Buffer
from muster.coordinator.system.jobs import Job, PendingResult

T = TypeVar("T")
Bring = Callable[[int, Callable[[Exception | None], object]], Callable[[], object]]
"""`bring(base_offset, then)`: have the file of that segment brought, then call `then(None)`, or `then(error)` when that
cannot be; at once if it is here. Returns what ends the waiting.
"""


class SegmentFigures(NamedTuple):
    """What is known of a segment to which nothing is appended any more."""

    base_offset: int
    size: int
    """Bytes."""
    first_timestamp: int
    """Of its first batch; -1: that has none."""
    max_timestamp: int
    """-1: no record has one."""
    max_timestamp_offset: int
    """The last offset of the batch that has it."""


class AbsentFile:
    """The `storage.File` of a segment that is not here."""

    __slots__ = ("_base_offset", "_failure", "path")

    def __init__(self, path: str, base_offset: int, failure: LogError | None = None) -> None:
        """`failure`: why it cannot be brought either."""
        self.path = path
        self._base_offset = base_offset
        self._failure = failure

    def _refuse(self) -> NoReturn:
        raise self._failure or SegmentAbsent(self.path, self._base_offset)

    def size(self) -> int:
        """Raises SegmentAbsent or the failure, as all that follows."""
        self._refuse()

    def pread(self, count: int, position: int) -> bytes:  # noqa: ARG002, D102
        self._refuse()

    def pwrite(self, data: Buffer, position: int) -> None:  # noqa: ARG002, D102
        self._refuse()

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:  # noqa: ARG002, D102
        self._refuse()

    def truncate(self, size: int) -> None:  # noqa: ARG002, D102
        self._refuse()

    def allocate(self, size: int) -> None:  # noqa: ARG002, D102
        self._refuse()

    def sync(self) -> None:  # noqa: D102
        self._refuse()

    def is_removed(self) -> bool:  # noqa: D102
        self._refuse()

    def close(self) -> None:
        """There is no handle."""


def with_what_it_needs(bring: Bring, work: Callable[[], Job[T]]) -> Job[T]:
    """The result of a job that reads a log: each segment that it needs and is not here is brought, and then it begins
    anew. Raises what the job raises, or why a segment cannot be brought.
    """
    while True:
        try:
            return (yield from work())
        except SegmentAbsent as absent:
            later = PendingResult()
            forget = bring(absent.base_offset, later)
        try:
            failure = yield later
        finally:
            forget()
        if failure is not None:
            raise failure
