"""Checks a partition's files for damage, for `muster log check` and a repair. Nothing is written: a server may run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from itertools import zip_longest
from typing import NamedTuple

from muster.coordinator.log import checkpoints, folders
from muster.coordinator.log.checkpoints import UNKNOWN, LastStop
from muster.coordinator.log.errors import InsaneIndex, MalformedCheckpoint
from muster.coordinator.log.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offset_of,
    is_leftover,
    segment_name,
)
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.log.recovery.segment_check import (
    WholeBatches,
    is_torn,
    only_zeros,
    unknown_format,
    whole_batch_at,
    whole_batch_follows,
)
from muster.coordinator.log.segments.index import OffsetIndex, TimeIndex
from muster.coordinator.log.storage.interfaces import Entry, File, Storage

DAMAGE = "damage"
NOTE = "note"
LEAVE_IT = "it is left as it is and not served"


class Finding(NamedTuple):
    """A difference from the files that a clean stop leaves."""

    severity: str
    """DAMAGE, or NOTE for a difference that the next start repairs by itself."""
    file: str
    position: int | None
    problem: str


class Stretch(NamedTuple):
    """Part of a segment file: a valid batch, or other bytes."""

    position: int
    end: int
    header: BatchHeader | None
    problem: str
    """Why the bytes are no valid batch; "" for bytes that were reserved and never written."""
    unknown_offset: int = -1
    """The offset of a batch of an unknown format, which may be valid; or -1."""
    is_misplaced: bool = False
    """Whether the stretch is a batch with a right CRC and an impossible offset."""
    is_torn: bool = False
    """Whether the stretch is at the end of the file and may be an append that a crash cut short."""


class BadStretch(NamedTuple):
    """A stretch that is no valid batch, and the end of the offsets that may be lost with the stretch."""

    stretch: Stretch
    first_offset: int
    end_offset: int
    """The offset after the last offset that may be lost; -1: unknown."""


class SegmentFacts(NamedTuple):
    """The contents of a segment."""

    base_offset: int
    name: str
    """The path of the segment's files without a suffix."""
    size: int
    batches: int
    next_offset: int
    bad: tuple[BadStretch, ...]
    has_bad_index: bool

    @property
    def is_bad_to_the_end(self) -> bool:
        """Whether the segment ends with a stretch that is no valid batch."""
        return bool(self.bad) and self.bad[-1].stretch.end == self.size


def stretches(file: File, base_offset: int, size: int, next_offset: int) -> Iterator[Stretch]:
    """Yield all parts of a segment file, in order. `next_offset`: the lowest offset of the first batch."""
    position = 0
    while position < size:
        whole = WholeBatches(file, position, size, next_offset, base_offset)
        for at, header in whole:
            yield Stretch(at, at + header.size, header, "")
        position, next_offset = whole.position, whole.next_offset
        if whole.reason:
            stretch = _bad_stretch(file, base_offset, position, size, next_offset, whole.reason)
            yield stretch
            position = stretch.end
            if stretch.unknown_offset >= 0:
                next_offset = stretch.unknown_offset + 1


def _bad_stretch(file: File, base_offset: int, position: int, size: int, next_offset: int, problem: str) -> Stretch:
    if only_zeros(file, position, size):
        return Stretch(position, size, None, "")
    unknown = unknown_format(file, position, next_offset, base_offset)
    if unknown is not None:
        end = min(position + unknown.size, size)
        return Stretch(position, end, None, problem, unknown_offset=unknown.base_offset)
    misplaced = whole_batch_at(file, position, size)
    if misplaced is not None:
        return Stretch(position, position + misplaced.size, None, problem, is_misplaced=True)
    follower = whole_batch_follows(file, position, size, base_offset)
    torn = follower is None and is_torn(file, position, size, next_offset)
    return Stretch(position, size if follower is None else follower, None, problem, is_torn=torn)


class Inspection:
    """Checks the folder of one partition."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        progress: Callable[[int], object] = lambda _: None,
        *,
        last_stop: LastStop = UNKNOWN,
    ) -> None:
        """`progress` is called with the number of bytes after each read. `last_stop`: the offsets that must exist."""
        self.findings: list[Finding] = []
        self.segments: list[SegmentFacts] = []
        self.end_offset = 0
        self.lost: range | None = None
        """Offsets that were synced and are not in the files any more."""
        self.has_bad_topic_id = False
        self.is_unknown = False
        """Whether the partition has batches of an unknown format, which a repair must not remove."""
        self.exchanged = ""
        """The folder with which this folder was probably exchanged."""
        self.last_stop = self._last_stop = last_stop
        self._storage = storage
        self._directory = directory
        self._progress = progress
        self._without: Container[str] = ()

    @property
    def is_damaged(self) -> bool:
        """Whether there is damage that the next start cannot repair."""
        return any(finding.severity == DAMAGE for finding in self.findings)

    def run(self, without: Container[str] = ()) -> None:
        """Check all files but those in `without`, which cannot be read. Raises OSError."""
        self._without = without
        entries = [entry for entry in self._storage.entries(self._directory) if entry.name not in without]
        self._check_names(entries)
        if checkpoints.PARTITION_METADATA not in without:
            self._check_topic_id()
        sizes = _with_suffix(entries, LOG_SUFFIX)
        if not any(_is_leftover(entry) for entry in entries):
            for base in sorted(_with_suffix(entries, INDEX_SUFFIX).keys() - sizes.keys()):
                self._find(DAMAGE, segment_name(base) + LOG_SUFFIX, None, "the segment is missing, but not its index")
        next_offset = 0
        bases = sorted(sizes)
        for base, follower in zip_longest(bases, bases[1:]):
            next_offset = max(self._check_segment(base, sizes[base], max(next_offset, base), follower), next_offset)
        self.end_offset = max(next_offset, self._last_stop.start_offset)
        self._check_for_lost_end()

    def _check_names(self, entries: list[Entry]) -> None:
        for entry in entries:
            if _is_leftover(entry):
                self._find(NOTE, entry.name, None, "left by an interrupted change; the next start repairs it")
            elif entry.is_directory and (
                base_offset_of(entry.name) is not None or entry.name == checkpoints.LEADER_EPOCHS
            ):
                self._find(DAMAGE, entry.name, None, "a folder is in the place of the file: move it away")

    def _check_for_lost_end(self) -> None:
        recovery_point = self._last_stop.recovery_point
        has_bad_tail = bool(self.segments) and self.segments[-1].is_bad_to_the_end
        if self.end_offset < recovery_point and not has_bad_tail:
            self.lost = range(self.end_offset, recovery_point)
            name = segment_name(self.segments[-1].base_offset) + LOG_SUFFIX if self.segments else ""
            problem = (
                f"the log ends at offset {self.end_offset}, all before its recovery point {recovery_point} was synced: "
                f"{len(self.lost)} records are gone"
            )
            self._find(DAMAGE, name, None, problem)

    def _check_topic_id(self) -> None:
        name = checkpoints.PARTITION_METADATA
        path = f"{self._directory}/{name}" if self._directory else name
        data = self._storage.load(path)
        try:
            if data is not None:
                checkpoints.decode_topic_id(path, data)
        except MalformedCheckpoint:
            self.has_bad_topic_id = self._last_stop.was_clean or bool(data and data.strip(b"\0"))
            if self.has_bad_topic_id:
                self._find(DAMAGE, name, None, folders.UNREADABLE_TOPIC_ID)
            else:
                self._find(NOTE, name, None, "the id was not on the disk yet; the next start writes it again")

    def _is_damaged_tail(self, stretch: Stretch, next_offset: int) -> str:
        """Return why the end of the newest segment cannot be an append that a kill cut short; "" when it can."""
        if self._last_stop.was_clean:
            return f"{stretch.problem or 'zeros'}; the last stop was clean, so it was whole then"
        if next_offset < self._last_stop.recovery_point:
            return f"{stretch.problem or 'zeros'}; all up to offset {self._last_stop.recovery_point - 1} was synced"
        if stretch.problem and not stretch.is_torn:
            size = stretch.end - stretch.position
            return (
                f"{stretch.problem}; a crash during an append does not leave such bytes: the next start sets the "
                f"{size} bytes up to the end aside"
            )
        return ""

    def exchanged_with(self, other: str, evidence: str) -> None:
        """Note that two partitions have each other's folder. `evidence`: the fact that shows this."""
        self.exchanged = other
        self.findings = [one for one in self.findings if "its recovery point" not in one.problem]
        self._find(DAMAGE, "", None, f"{evidence}: the folders were exchanged")

    def _find(self, severity: str, name: str, position: int | None, problem: str) -> None:
        file = self._storage.file(f"{self._directory}/{name}" if self._directory else name).path
        self.findings.append(Finding(severity, file, position, problem))

    def _check_segment(self, base: int, size: int, next_offset: int, follower: int | None) -> int:
        """Check one segment; return the offset after it. `follower`: the base offset of the next segment."""
        name = f"{self._directory}/{segment_name(base)}" if self._directory else segment_name(base)
        index = _IndexCheck(self._storage, name, base, size, self._without)
        bad: list[BadStretch] = []
        batches = 0
        with contextlib.closing(self._storage.file(name + LOG_SUFFIX)) as file:
            for stretch in stretches(file, base, size, next_offset):
                self._progress(stretch.end - stretch.position)
                if stretch.header is not None:
                    batches += 1
                    index.batch(stretch.position, stretch.header)
                    _end_loss(bad, stretch.header.base_offset)
                    next_offset = stretch.header.next_offset
                else:
                    bad += self._judge(stretch, base, size, next_offset, follower)
        if follower is not None:
            _end_loss(bad, follower)
            if next_offset > follower:
                problem = f"its offsets go up to {next_offset - 1}, the next segment begins at {follower}"
                self._find(DAMAGE, segment_name(base) + LOG_SUFFIX, None, problem)
        for suffix, problem in index.unreadable.items():
            self._find(NOTE, segment_name(base) + suffix, None, f"{problem}; the server makes a new file when needed")
        for suffix, problem in index.problems():
            self._find(DAMAGE, segment_name(base) + suffix, None, problem)
        has_bad_index = bool(index.unreadable or index.problems())
        self.segments.append(SegmentFacts(base, name, size, batches, next_offset, tuple(bad), has_bad_index))
        return next_offset

    def _judge(
        self, stretch: Stretch, base: int, size: int, next_offset: int, follower: int | None
    ) -> list[BadStretch]:
        """Report a stretch that is no whole batch. Returns the stretch when it is damage that a repair removes."""
        file_name = segment_name(base) + LOG_SUFFIX
        if stretch.unknown_offset >= 0:
            self.is_unknown = True
            self._find(DAMAGE, file_name, stretch.position, f"{stretch.problem}: {LEAVE_IT}")
            return []
        is_tail = stretch.end == size and follower is None and not stretch.is_misplaced
        damage = self._is_damaged_tail(stretch, next_offset) if is_tail else ""
        if damage:
            self._find(DAMAGE, file_name, stretch.position, damage)
            point = self._last_stop.recovery_point
            return [BadStretch(stretch, next_offset, point if point > next_offset else -1)]
        if not stretch.problem:
            if follower is not None:
                self._find(NOTE, file_name, stretch.position, "zeros up to the end of a segment that is full")
            return []
        if is_tail:
            problem = f"a torn tail: {stretch.problem}; the next start cuts {size - stretch.position} bytes off"
            self._find(NOTE, file_name, stretch.position, problem)
            return []
        self._find(DAMAGE, file_name, stretch.position, stretch.problem)
        return [BadStretch(stretch, next_offset, -1)]


def _end_loss(bad: list[BadStretch], offset: int) -> None:
    """Limit the loss of the last stretch: only offsets before `offset` are lost."""
    if bad and bad[-1].end_offset < 0:
        bad[-1] = bad[-1]._replace(end_offset=offset)


def _is_leftover(entry: Entry) -> bool:
    return base_offset_of(entry.name) is None and is_leftover(entry.name)


def _with_suffix(entries: list[Entry], suffix: str) -> dict[int, int]:
    named = [(base_offset_of(entry.name), entry) for entry in entries if entry.name.endswith(suffix)]
    return {base: entry.size for base, entry in named if base is not None}


class _IndexCheck:
    """Checks whether the entries of both index files point to the right batches. A missing file is rebuilt."""

    def __init__(self, storage: Storage, name: str, base_offset: int, size: int, without: Container[str]) -> None:
        self._base = base_offset
        self.unreadable: dict[str, str] = {}
        """Suffix and fault of a file that cannot be an index. A power cut leaves such files, which are not used."""
        self._problems: dict[str, str] = {}
        self._index = OffsetIndex()
        self._times = TimeIndex()
        self._at = self._time_at = 0
        self._last_offset = base_offset - 1
        self._greatest = -1
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            file_name = segment_name(base_offset) + suffix
            data = None if file_name in without else storage.load(name + suffix)
            try:
                if data and suffix == INDEX_SUFFIX:
                    self._index = OffsetIndex.decode(_without_zeros(data, 8), size)
                elif data:
                    self._times = TimeIndex.decode(_without_zeros(data, 12))
            except InsaneIndex as error:
                self.unreadable[suffix] = str(error)

    def batch(self, position: int, header: BatchHeader) -> None:
        """Check the entries for the next valid batch."""
        index, times = self._index, self._times
        while self._at < len(index) and index.positions[self._at] <= position:
            offset = self._base + index.offsets[self._at]
            if index.positions[self._at] < position or offset <= self._last_offset:
                self._wrong(INDEX_SUFFIX, offset, f"position {index.positions[self._at]}, where no such batch begins")
            self._at += 1
        while self._time_at < len(times) and self._base + times.offsets[self._time_at] <= header.last_offset:
            if times.timestamps[self._time_at] < self._greatest:
                offset = self._base + times.offsets[self._time_at]
                self._wrong(TIME_INDEX_SUFFIX, offset, f"timestamp {times.timestamps[self._time_at]}, not the greatest")
            self._time_at += 1
        self._last_offset = header.last_offset
        self._greatest = max(self._greatest, header.max_timestamp)

    def _wrong(self, suffix: str, offset: int, what: str) -> None:
        self._problems.setdefault(suffix, f"its entry for offset {offset} names {what}")

    def problems(self) -> list[tuple[str, str]]:
        """Return the suffix of each file with wrong entries, and the fault."""
        return sorted(self._problems.items())


def _without_zeros(data: bytes, entry: int) -> bytes:
    """Return an index without the reserved bytes at the end of an active segment's index on Kafka."""
    end = len(data)
    while end >= entry and not any(data[end - entry : end]):
        end -= entry
    return data[:end]
