"""The transactions that the markers of one segment aborted, in Kafka's file (TransactionIndex, AbortedTxn)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from muster.coordinator.log.errors import InsaneIndex
from muster.coordinator.log.storage.interfaces import File

VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")
"""Version, producer id, first offset, last offset, last stable offset."""
ENTRY_SIZE: Final = ENTRY.size
ENTRIES_AT_ONCE: Final = 1000
MAX_KEPT: Final = 512
_KEPT: Final = MAX_KEPT // 2
"""At least this many of the newest entries are in memory, and at most twice as many."""
_LAST_OFFSET: Final = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """A transaction that ended with ABORT (Kafka's AbortedTxn): readers of committed records skip its batches."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(aborted: AbortedTransaction) -> bytes:
    """Encode one entry of a file."""
    return ENTRY.pack(VERSION, *aborted)


def decode(data: bytes) -> list[AbortedTransaction]:
    """Decode whole entries of a file. Raises InsaneIndex for an unknown version."""
    found = []
    for version, *aborted in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise InsaneIndex(f"version {version} of an entry, only {VERSION} is known")
        found.append(AbortedTransaction(*aborted))
    return found


class TransactionIndex:
    """The index of one segment."""

    __slots__ = ("_newest", "count", "file", "is_synced")

    def __init__(self, file: File, size: int = 0) -> None:
        """`size`: the size of the file; part of an entry at its end is ignored."""
        self.file = file
        self.count = size // ENTRY_SIZE
        self._newest: list[AbortedTransaction] = []
        self.is_synced = True
        """Whether no entry was written since the file was last synced."""

    def check(self, base_offset: int) -> Iterator[None]:
        """Read all entries, a part in each step. Raises InsaneIndex when the entries cannot belong to the segment."""
        last = base_offset - 1
        kept: deque[AbortedTransaction] = deque(maxlen=_KEPT)
        for first in range(0, self.count, ENTRIES_AT_ONCE):
            for aborted in self._read(first, min(first + ENTRIES_AT_ONCE, self.count)):
                if not (aborted.last_offset > last and 0 <= aborted.first_offset < aborted.last_offset):
                    raise InsaneIndex("its entries do not rise, or are of another segment")
                last = aborted.last_offset
                kept.append(aborted)
            yield
        self._newest = list(kept)

    def _read(self, first: int, last: int) -> list[AbortedTransaction]:
        data = self.file.pread((last - first) * ENTRY_SIZE, first * ENTRY_SIZE)
        if len(data) < (last - first) * ENTRY_SIZE:
            raise InsaneIndex("it is shorter than it was")
        return decode(data)

    @property
    def last_offset(self) -> int:
        """The offset of the newest entry's marker; -1 without an entry."""
        return self._newest[-1].last_offset if self._newest else -1

    def append(self, aborted: AbortedTransaction) -> None:
        """Write an entry whose marker is after all other markers. Raises OSError."""
        self.file.pwrite(encode(aborted), self.count * ENTRY_SIZE)
        self.is_synced = False
        self.count += 1
        self._newest.append(aborted)
        if len(self._newest) > 2 * _KEPT:
            del self._newest[:_KEPT]

    def truncate(self, offset: int) -> None:
        """Remove the entries whose markers are at `offset` or later. Raises OSError."""
        count = self._first_after(offset)
        if count < self.count:
            self.file.truncate(count * ENTRY_SIZE)
            self.is_synced = False
            self.count = count
            self._newest = self._read(max(count - _KEPT, 0), count)

    def _first_after(self, offset: int) -> int:
        """Return the number of the first entry whose marker is at `offset` or later."""
        if not self._newest or self.last_offset < offset:
            return self.count
        before = self.count - len(self._newest)
        if self._newest[0].last_offset < offset or not before:
            return before + bisect_left(self._newest, offset, key=_LAST_OFFSET)
        low, high = 0, before
        while low < high:
            middle = (low + high) // 2
            if self._read(middle, middle + 1)[0].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def since(self, offset: int) -> Iterator[list[AbortedTransaction]]:
        """Yield the entries whose markers are at `offset` or later, in their order, in parts."""
        first, before = self._first_after(offset), self.count - len(self._newest)
        while first < self.count:
            if first >= before:
                yield self._newest[first - before :]
                return
            last = min(first + ENTRIES_AT_ONCE, self.count, before)
            yield self._read(first, last)
            first = last

    def add_from_memory(self, found: list[AbortedTransaction], offset: int, end: int) -> bool | None:
        """Add the entries for a reader from `offset` to `end` to `found`, if they are in memory.

        True: the last such entry was found. None: read the entries from the file.
        """
        newest = self._newest
        first = bisect_left(newest, offset, key=_LAST_OFFSET)
        if first == 0 and len(newest) < self.count:
            return None
        for number in range(first, len(newest)):
            aborted = newest[number]
            if aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return True
        return False

    def sync(self) -> None:
        """Wait until all entries are on the disk. Any thread may call this."""
        self.is_synced = True  # this comes before the sync: entries that are written meanwhile must be synced again
        try:
            self.file.sync()
        except OSError:
            self.is_synced = False
            raise
