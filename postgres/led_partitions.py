"""The logs that this node leads. Such logs load from the database when leadership begins.

`DatabaseWriter` writes such logs as long as leadership lasts. The loaded records were written by earlier leaders, up to
the end of the log. To know these leaders, this node follows the metadata log first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log import DamagedLog, LogError, LogOffline, SegmentAbsent, Storage
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.metadata_state import TopicState
from muster.coordinator.topics.names import EVENTS_OF, PARTITIONS_PROPERTIES
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.topics import Topics
from muster.postgres import local_replica
from muster.postgres.database_writer import DatabaseWriter
from muster.postgres.figures import ClusterFigures
from muster.postgres.store import Store, StoreAway
from muster.postgres.tasks import cancel_all, pause

AT_ONCE: Final = 4
"""The most logs that are fetched at the same time: more logs would only take memory."""
LONG_BYTES: Final = 8 * 1024 * 1024
MAX_LONG: Final = 8
"""A log is long when more than `LONG_BYTES` of it were fetched. Up to `MAX_LONG` long logs do not count in `AT_ONCE`,
so that other logs need not wait for gigabytes. Each long log takes some 8 MB while it is fetched.
"""
GATHER_MS: Final = 10
"""Logs that are fetched within this time share one write to the database."""
CHECKED_AT_ONCE: Final = 1_000
"""The most partitions that are checked in one step."""
AGAIN_MS: Final = 250
"""A fetch of a log that has failed at the database or the disk is tried again after this time."""
_PLACES: Final = {**dict.fromkeys(PARTITIONS_PROPERTIES, 0), **dict.fromkeys(EVENTS_OF, 1)}
"""The order in which topics are fetched. All other topics follow."""

log = structlog.get_logger("muster.cluster")


class _Wanted(NamedTuple):
    topic: str
    partition: int
    topic_id: bytes
    leader_epoch: int


def _loading(partition: Partition) -> Job[None]:
    """Load the producers. Raises SegmentAbsent if the file of its producers' checkpoint is lost."""
    try:
        yield from partition.loading_producers()
    except SegmentAbsent:
        raise
    except LogError:
        pass  # the next write or read gets the error


class LedPartitions:
    """See the module."""

    def __init__(
        self,
        node_id: int,
        store: Store,
        storage: Storage,
        writer: DatabaseWriter,
        clock: Clock,
        topics: Topics,
        arrived: Callable[[str, int], object],
        follow: Callable[[], Awaitable[object]],
        job_queue: JobQueue,
        figures: ClusterFigures | None = None,
        *,
        leaving: Callable[[str, int], object] = lambda *_: None,
    ) -> None:
        """`arrived(topic, partition)` is called when a partition can be served. `follow()` applies all decisions of the
        metadata log, and raises the errors of the store. `leaving(topic, partition)` is called before a log is closed
        because another node leads it.
        """
        self._leaving = leaving
        self._node_id = node_id
        self._store = store
        self._storage = storage
        self._writer = writer
        self._clock = clock
        self._topics = topics
        self._arrived = arrived
        self._follow = follow
        self._job_queue = job_queue
        self._figures = figures or ClusterFigures()
        self._fetching: dict[tuple[bytes, int], _Wanted] = {}
        self._damaged: dict[tuple[bytes, int], _Wanted] = {}
        """Partitions whose logs are damaged in the database. No fetch comes again in this term of leadership."""
        self._waiting: list[_Wanted] = []
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._long = 0
        """How many of the tasks fetch a long log."""
        self._passing = 0
        """How many of the tasks have fetched a log and wait for the read barrier."""
        self._passage: asyncio.Task[int] | None = None
        """The next pass through the barrier, which other logs may join."""
        self._passages: set[asyncio.Task[int]] = set()
        self._requests = self._seen = 0
        """How many checks were requested, and how many of them are done."""
        topics.left = self._left

    @property
    def missing(self) -> int:
        """How many partitions that this node leads are not fetched yet."""
        return len(self._fetching)

    def check(self) -> None:
        """Fetch the logs that this node leads and does not have. Coordinators load first, because their clients can do
        nothing before. The histories load last: coordinators write the histories.
        """
        self._requests += 1
        if self._requests == self._seen + 1:  # otherwise a check is under way, and another follows
            self._job_queue.run(self._checking(), lambda _: None, self)

    def _checking(self) -> Job[None]:
        """Leadership that changes during this check is found by the check that the change has requested."""
        while self._seen < self._requests:
            requests = self._requests
            new: list[_Wanted] = []
            checked = 0
            for topic in list(self._topics.state.topics.values()):
                for index in range(len(topic.partitions)):
                    checked += 1
                    if not checked % CHECKED_AT_ONCE:
                        yield None
                    if self._is_new(topic, index):
                        new.append(self._fetching[topic.topic_id, index])
            self._seen = requests
            self._waiting += new
            self._waiting.sort(key=lambda one: _PLACES.get(one.topic, len(_PLACES)))
            self._begin()

    def _begin(self) -> None:
        while self._waiting and self._busy < AT_ONCE and not self._writer.has_ended:
            task = self._loop.create_task(self._fetch_some())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @property
    def _busy(self) -> int:
        """How many logs are being fetched, without long logs and logs that wait for the barrier."""
        return len(self._tasks) - self._long - self._passing

    def _is_new(self, topic: TopicState, index: int) -> bool:
        wanted = self._wanted(topic, index)
        key = topic.topic_id, index
        if wanted is None or self._damaged.get(key) == wanted:
            return False
        is_coming = key in self._fetching
        self._fetching[key] = wanted
        return not is_coming

    @property
    def closed(self) -> bool:
        """Whether this node fetches no further log."""
        return self._writer.has_ended

    def fault(self, error: Exception) -> None:
        """Handle the error of a check: a bug, or a local replica that has lost written data."""
        self._writer.failed(f"the partitions that this node leads cannot be checked: {error}")

    def _wanted(self, topic: TopicState, index: int) -> _Wanted | None:
        if index >= len(topic.partitions) or topic.partitions[index].leader != self._node_id:
            return None
        if self._topics.open.partition(topic.name, index) is not None:
            return None
        return _Wanted(topic.name, index, topic.topic_id, topic.leader_epoch(index))

    def _left(self, partition: Partition) -> None:
        self._leaving(partition.topic, partition.index)
        self._writer.pending.leave(partition.topic_id, partition.index)

    async def _fetch_some(self) -> None:
        while self._waiting and not self._writer.has_ended and self._busy <= AT_ONCE:
            wanted, since_ms = self._waiting.pop(0), self._clock.mono_ms()
            try:
                is_here = await self._fetch(wanted)
            except (StoreAway, OSError, LogOffline) as error:
                self._try_later(wanted, str(error))
            except DamagedLog as error:
                self._is_damaged(wanted, error)
            # a bug: this node gives up its registration, and others lead the partition
            except Exception as error:
                log.error(
                    "a partition cannot be fetched", topic=wanted.topic, partition=wanted.partition, exc_info=error
                )
                self._writer.failed(f"{wanted.topic}-{wanted.partition} cannot be fetched: {error}")
            else:
                if is_here:
                    self._figures.takeovers += 1
                    self._figures.takeovers_ms += self._clock.mono_ms() - since_ms
                    self._arrived(wanted.topic, wanted.partition)

    def _is_damaged(self, wanted: _Wanted, damage: DamagedLog) -> None:
        log.error("a partition cannot be served: it is damaged in the database", topic=wanted.topic,
                  partition=wanted.partition, reason=damage.reason)  # fmt: skip
        key = (wanted.topic_id, wanted.partition)
        self._damaged[key] = wanted
        self._fetching.pop(key, None)
        self._writer.pending.leave(*key)

    def _try_later(self, wanted: _Wanted, why: str) -> None:
        log.warning("a partition cannot be fetched yet", topic=wanted.topic, partition=wanted.partition, reason=why)
        self._fetching.pop((wanted.topic_id, wanted.partition), None)
        self._remove(wanted)
        self._clock.call_at(self._clock.mono_ms() + AGAIN_MS, self.check)

    async def _fetch(self, wanted: _Wanted) -> bool:
        """Fetch a log; return whether it is served now. Raises OSError and the errors of the store and of the log."""
        key = (wanted.topic_id, wanted.partition)
        while True:
            session = self._writer.barrier.session
            found = await self._fetch_log(wanted)
            if found.row is not None and await self._passed() != session:
                self._remove(wanted)
                continue
            if found.leader_epoch > wanted.leader_epoch:
                # Other nodes have led the log since, and this node does not know that yet. Without this step, the node
                # would lead a part of the log in an epoch that belongs to another leader.
                await self._follow()
            if self._writer.has_ended:
                return False
            topic = self._topics.state.topics_by_id.get(wanted.topic_id)
            now = None if topic is None else self._wanted(topic, wanted.partition)
            if topic is None or now is None:
                self._fetching.pop(key, None)
                self._remove(wanted)  # another node leads the log meanwhile, or it is deleted
                return False
            if now == wanted:
                break
            # Other nodes may have led the log in between.
            self._remove(wanted)
            wanted = now
        if found.row is not None:
            self._writer.pending.lead(found.row, found.segments)
        if found.is_whole:
            start_offset = 0 if found.row is None else found.row.start_offset
            place = wanted.topic, wanted.partition
            self._topics.logs.note_copy(*place, found.end_offset, start_offset, found.absent)
        del self._fetching[key]
        self._topics.open.open_led_partition(topic, wanted.partition)
        partition = self._topics.open.partition(wanted.topic, wanted.partition)
        if partition is not None and local_replica.is_read_in_parts(wanted.topic):
            # The producers must be known when the next segment begins, because its checkpoint has them.
            self._job_queue.run(_loading(partition), lambda _: None, self)
        return True

    async def _passed(self) -> int:
        """Pass the read barrier, together with all logs that are fetched within `GATHER_MS`; return the session that
        passed. Other logs are fetched meanwhile. Raises the errors of the store.
        """
        if self._passage is None:
            self._passage = self._loop.create_task(self._pass())
            self._passages.add(self._passage)
            self._passage.add_done_callback(self._has_passed)
        self._passing += 1
        self._begin()
        try:
            return await asyncio.shield(self._passage)
        finally:
            self._passing -= 1

    def _has_passed(self, passage: asyncio.Task[int]) -> None:
        self._passages.discard(passage)
        if not passage.cancelled():
            passage.exception()  # the logs that still wait for this pass get the error

    async def _pass(self) -> int:
        await pause(self._clock, GATHER_MS)
        self._passage = None
        barrier = self._writer.barrier
        session = barrier.session
        return session if await barrier.passed(session) else -1

    def _remove(self, wanted: _Wanted) -> None:
        folder = f"{wanted.topic}-{wanted.partition}"
        if self._topics.logs.get(wanted.topic, wanted.partition) is None and self._storage.is_directory(folder):
            self._storage.remove_tree(folder)

    async def _fetch_log(self, wanted: _Wanted) -> local_replica.FetchedLog:
        size, is_long = 0, False

        async def written(part_size: int) -> None:
            nonlocal size, is_long
            size += part_size
            if size > LONG_BYTES and not is_long and self._long < MAX_LONG:
                is_long = True
                self._long += 1
                self._begin()
            await pause(self._clock)

        try:
            place = wanted.topic, wanted.partition, wanted.topic_id
            tail_only = local_replica.is_read_in_parts(wanted.topic)
            return await local_replica.fetch(self._store, self._storage, *place, written, tail_only=tail_only)
        finally:
            self._long -= is_long

    async def stop(self) -> None:
        """Fetch no further log."""
        self._waiting.clear()
        await cancel_all(self._tasks)
        await cancel_all(self._passages)
