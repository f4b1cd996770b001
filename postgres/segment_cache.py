"""The segments whose files the local replica may lack. Such segments are fetched from the database when a reader needs
them. Some files are removed when all of them take more than the limit.

The database has each removed segment, with its facts (`store.SegmentFacts`). A reader of an absent segment gets
SegmentAbsent and has it fetched. Segments of compacted topics stay: the log cleaner reads all of them each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from muster.coordinator.log import DamagedLog, LogError, LogOffline, Storage
from muster.coordinator.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from muster.coordinator.system.clock import Clock
from muster.postgres import local_replica
from muster.postgres.figures import ClusterFigures
from muster.postgres.store import LIVE, Store, StoreAway, StoreRefused
from muster.postgres.tasks import cancel_all, pause

if TYPE_CHECKING:
    from muster.coordinator.log.segments.segment import Segment

AT_ONCE: Final = 2
"""The most segments that are fetched at the same time; others wait in the order of their requests."""
KEPT: Final = 2
"""How many of the newest files stay, however large they are: their readers are about to read them."""
AGAIN_MS: Final = 250
"""After this time a failed fetch of a segment is tried again."""
Then = Callable[[Exception | None], object]

log = structlog.get_logger("muster.cluster")


class CachedLog(Protocol):
    """What the cache knows of a log: `database_log.DatabaseLog`."""

    log_no: int

    @property
    def is_open(self) -> bool:
        """Whether this node leads the log, and the folder belongs to the log."""

    def lacks(self, segment: Segment) -> bool:
        """Whether the segment is part of the log and absent, and the log is open."""

    def may_leave(self, segment: Segment) -> bool:
        """Whether the file of a segment may be removed now."""

    @property
    def stays(self) -> bool:
        """Whether the files of the log stay once they are fetched."""

    def in_background(self, job: Callable[[], object]) -> None:
        """Do a job that works on files."""

    def failed(self, what: str) -> None:
        """Note that the local replica can no longer be relied on."""


@dataclass(eq=False, slots=True)
class _Fetch:
    log: CachedLog
    segment: Segment
    number: int
    waiting: list[Then] = field(default_factory=list)


class SegmentCache:
    """The segment cache of one node, for one node session."""

    def __init__(
        self,
        store: Store,
        storage: Storage,
        clock: Clock,
        max_bytes: int,
        roll_bytes: int,
        figures: ClusterFigures | None = None,
    ) -> None:
        """`store`: another connection than that of the database writes. `max_bytes`: the limit of files that may be
        removed. `roll_bytes`: how large segments become, which are fetched as a whole.
        """
        self.roll_bytes = roll_bytes
        self._store = store
        self._storage = storage
        self._clock = clock
        self._max_bytes = max_bytes
        self._figures = figures or ClusterFigures()
        self._loop = asyncio.get_running_loop()
        self._fetching: dict[Segment, _Fetch] = {}
        self._queue: list[_Fetch] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._kept: dict[Segment, tuple[CachedLog, tuple[int, int]]] = {}
        """Files that may be removed, in the order in which they are considered. Each entry has its log, and the
        segment's last read when the entry was made.
        """
        self.bytes = 0
        """The bytes of the files in `_kept`."""

    # -- fetching

    def fetch(self, of: CachedLog, segment: Segment, number: int, then: Then) -> Callable[[], object]:
        """See `log.segments.absence.FetchSegment`; `number`: its number in the database."""
        if self._stopped:
            then(LogOffline(segment.file.path, "this node stops"))
            return lambda: None
        coming = self._fetching.get(segment)
        if coming is None:
            coming = self._fetching[segment] = _Fetch(of, segment, number)
            self._queue.append(coming)
            if len(self._tasks) < AT_ONCE:
                task = self._loop.create_task(self._fetch_some())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        waiting = coming.waiting
        waiting.append(then)
        return lambda: waiting.remove(then) if then in waiting else None

    async def _fetch_some(self) -> None:
        while self._queue:
            coming = self._queue.pop(0)
            failure: Exception | None = None
            try:
                while coming.log.lacks(coming.segment) and not await self._try(coming):
                    await pause(self._clock, AGAIN_MS)
            except DamagedLog as error:
                log.error("a segment is damaged in the database", path=error.path, position=error.position,
                          what="the segment cannot be read; the segments before and behind it can")  # fmt: skip
                coming.segment.fail_fetch(error)
                failure = error
            except OSError as error:
                if coming.log.lacks(coming.segment):
                    coming.log.failed(f"the local replica cannot be written: {error}")
            # a bug: this node gives up its registration, and others lead the partition
            except Exception as error:
                log.error("a segment cannot be fetched", path=coming.segment.file.path, exc_info=error)
                coming.log.failed(f"a segment cannot be fetched: {error}")
            self._end(coming, failure)

    async def _try(self, coming: _Fetch) -> bool:
        """Try to fetch a segment. True: the segment is here, or not wanted any more. Raises DamagedLog or OSError."""
        try:
            await self._fetch(coming)
        except (StoreAway, StoreRefused) as error:
            log.warning("a segment cannot be fetched now", path=coming.segment.file.path, reason=str(error),
                        what="it is tried again, and its readers wait")  # fmt: skip
            return False
        return True

    async def _fetch(self, coming: _Fetch) -> None:
        segment, of, name = coming.segment, coming.log, coming.segment.name
        writing = local_replica.SegmentWriting(self._storage, name, segment.base_offset)
        try:
            since = 0
            while rows := await self._store.batches(coming.number, since):
                for part in local_replica.parts(rows):
                    if not of.lacks(segment):
                        return
                    for _ in writing.write(part):
                        pass
                    await pause(self._clock)
                since = rows[-1].next_offset
            if not of.lacks(segment):
                return
            writing.close()
            if not writing.is_whole or writing.size != segment.size:
                live = [one.segment_no for one in await self._store.segments(of.log_no) if one.state == LIVE]
                if coming.number not in live or not of.lacks(segment):
                    raise StoreAway("another node leads its log, and has removed it")
                what = f"the database has {writing.size} bytes of it, and {segment.size} were written"
                raise DamagedLog(segment.place(writing.size), what)
            segment.make_present()
            self._figures.segments_fetched += 1
        finally:
            if segment.is_absent:
                writing.abandon()
                if of.is_open:
                    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                        self._storage.remove(name + suffix)

    def _end(self, coming: _Fetch, failure: Exception | None) -> None:
        segment = coming.segment
        if self._fetching.get(segment) is coming:
            del self._fetching[segment]
        if failure is None and not segment.is_absent:
            self.keep(coming.log, segment)
        if failure is None and segment.is_absent:
            failure = LogOffline(segment.file.path, "it is not part of an open log any more")
        for then in tuple(coming.waiting):
            then(failure)
        self._shrink()

    # -- keeping and removing files

    def keep(self, of: CachedLog, segment: Segment) -> None:
        """Note that a segment's file is on this machine, and that the database has the segment with its facts."""
        if segment not in self._kept and not of.stays:
            self._kept[segment] = of, segment.last_read
            self.bytes += segment.size

    def kept(self, of: CachedLog, segment: Segment) -> None:
        """`keep`, for a segment that this node has written. Other files may be removed for the file of this segment."""
        self.keep(of, segment)
        self._shrink()

    def forget(self, segment: Segment) -> None:
        """Forget a segment: it is no longer part of a log that this node leads."""
        if self._kept.pop(segment, None) is not None:
            self.bytes -= segment.size

    def _shrink(self) -> None:
        # A segment that was read since it was last considered stays for another round.
        for _ in range(2 * len(self._kept)):
            if self.bytes <= self._max_bytes or len(self._kept) <= KEPT:
                return
            segment = next(iter(self._kept))
            of, found = self._kept.pop(segment)
            if segment.last_read != found or not of.may_leave(segment):
                self._kept[segment] = of, segment.last_read
                continue
            self.bytes -= segment.size
            try:
                doomed = segment.evict()
            except (LogError, OSError) as error:
                of.failed(f"the file of a segment cannot be removed: {error}")
                return
            of.in_background(partial(self._storage.remove, doomed))

    async def stop(self) -> None:
        """Stop fetching."""
        self._stopped = True
        self._queue.clear()
        await cancel_all(self._tasks)
