"""A log is taken over without being read completely: only the part behind its checkpoint is read, the rest on
demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from muster.coordinator.log import DamagedLog, LogConfig, LogOffline, SegmentAbsent, batches
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.system.jobs.job_queue import to_its_end
from muster.postgres import segment_cache
from muster.postgres.store import DEAD, BatchRow, StoreAway
from muster.virtual.world import World
from tests.postgres.stores import postgres_store, table_store
from tests.postgres.test_node_session import ORDERS, SMALL, Node, append, seated, until

PLENTY = 1 << 30


class Counting:
    """A store that records which segments are read; `away`: how many of the next questions for batches get no
    answer.
    """

    def __init__(self, below: Any) -> None:
        self.below = below
        self.read: list[int] = []
        self.away = 0
        self.held: asyncio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    async def batches(self, segment_no: int, since: int) -> Any:
        if self.held is not None:
            await self.held.wait()
        if self.away:
            self.away -= 1
            raise StoreAway("it is away")
        if not since:
            self.read.append(segment_no)
        return await self.below.batches(segment_no, since)

    async def segments_read(self) -> int:
        """How many different segments were read since the last call."""
        read, self.read = self.read, []
        assert len(read) == len(set(read))
        return len(read)


@pytest.fixture(params=["postgres", "tables"])
async def store(request: pytest.FixtureRequest, postgres: str) -> AsyncIterator[Counting]:
    made: Any = await postgres_store(postgres) if request.param == "postgres" else table_store(World(Random(1)))
    yield Counting(made)
    await made.close()


@pytest.fixture
def tables() -> Counting:
    return Counting(table_store(World(Random(1))))


def loaded(log: Any) -> Any:
    """Load the log as a node does when it becomes the leader."""
    for _ in log.producers.loading():
        pass
    return log


async def brought(log: Any, base_offset: int) -> Exception | None:
    done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    log.fetch_segment(base_offset, done.set_result)
    return await done


async def read_all(log: Any) -> list[tuple[int, bytes | None]]:
    """All records, as read by a reader that fetches absent segments."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            data = log.read(offset, 150)
        except SegmentAbsent as absent:
            wanted = absent.base_offset
        else:
            wanted = -1
        if wanted >= 0:
            failure = await brought(log, wanted)
            assert failure is None
            continue
        whole = [record for _, records in batches.read(data[: _whole(data)]) for record in records]
        found += [(record.offset, record.value) for record in whole if record.offset >= offset]
        offset = found[-1][0] + 1
    return found


def _whole(data: bytes) -> int:
    at = 0
    while at + 12 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if at + size > len(data):
            break
        at += size
    return at


async def job(node: Node, log: Any, timestamp_ms: int) -> int:
    found: Any = await to_its_end(JobQueue(node.clock), log.offset_for_timestamp(timestamp_ms))
    return -1 if found is None else int(found.offset)


async def all_aborted(node: Node, log: Any) -> set[Any]:
    found: set[Any] = set()
    for segment in log.segments:
        found.update(await to_its_end(JobQueue(node.clock), log.producers.aborted_in(segment.base_offset, 1 << 20)))
    return found


def value(number: int) -> bytes:
    return b"%03d" % number * 10


async def filled(store: Any, count: int = 40, config: LogConfig = SMALL, keys: int = 1) -> list[tuple[int, Any]]:
    """A first session writes `count` records: all of them, and how they are read."""
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open(config=config))
        for number in range(count):
            batch = batches.build([(b"%d" % (number % keys), value(number))], timestamp_ms=1_000 + number)
            log.append(number // 16, batch, wall_ms=5)
        await node.durable(log)
        await node.settled()
        return await read_all(log)


async def test_only_the_newest_segment_is_loaded_at_the_start(store: Counting) -> None:
    before = await filled(store)
    rows = await store.segments((await store.logs())[0].log_no)
    assert len(rows) > 8
    assert [row.size >= 0 for row in rows] == [True] * (len(rows) - 1) + [False]
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        assert await store.segments_read() == 1
        assert (log.start_offset, log.end_offset, log.durable_offset, len(log.segments)) == (0, 40, 40, len(rows))
        assert log.size_bytes == sum(row.size for row in rows[:-1]) + log.segments.active.size
        assert (log.leader_epoch, log.epochs.epoch_of(3), log.epochs.epoch_of(20)) == (2, 0, 1)
        with pytest.raises(SegmentAbsent):
            log.read(0, 100)
        assert log.read(39, 100)
        assert await read_all(log) == before
        assert await store.segments_read() == len(rows) - 1
        append(log, b"more", epoch=3)
    async with seated(store, cache_bytes=PLENTY) as node:
        assert (await read_all(node.open()))[-1] == (40, b"more")


async def test_a_timestamp_is_looked_up_in_a_segment_that_is_not_local(store: Counting) -> None:
    await filled(store)
    async with seated(store, cache_bytes=PLENTY) as node:
        log = node.open()
        await store.segments_read()
        assert await job(node, log, 1_017) == 17
        assert await store.segments_read() == 1
        assert await job(node, log, 1_040) == -1
        assert await job(node, log, 0) == 0
        assert await store.segments_read() == 1
        found: Any = await to_its_end(JobQueue(node.clock), log.offset_of_max_timestamp())
        assert found.offset == 39
        assert await store.segments_read() == 0


async def test_retention_removes_segments_that_were_never_loaded(store: Counting) -> None:
    before = await filled(store)
    by_size = LogConfig(segment_bytes=SMALL.segment_bytes, retention_bytes=900)
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open(config=by_size))
        await store.segments_read()
        assert log.enforce_retention(2_000) > 4
        await node.settled()
        assert await store.segments_read() == 0
        start = log.start_offset
        assert await read_all(log) == before[start:]
    rows = await store.segments((await store.logs())[0].log_no)
    assert rows[0].base_offset == start
    by_time = LogConfig(segment_bytes=SMALL.segment_bytes, retention_ms=1_000)
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open(config=by_time))
        await store.segments_read()
        log.enforce_retention(2_000 + 30)  # those whose newest record is before 1_030
        assert 25 < log.start_offset <= 30
        assert await store.segments_read() == 0
        log.delete_records_before(38)
        await node.settled()
    async with seated(store, cache_bytes=PLENTY) as node:
        assert await read_all(node.open()) == before[38:]


async def cleaned(node: Node) -> None:
    """Let the log cleaner do all its due work."""
    workers = SharedSync(asyncio.get_running_loop().call_soon_threadsafe, threads=1)
    cleaner = Cleaner(node.logs, node.clock, workers, cpu_share=1.0)
    cleaner.check_logs()
    await until(lambda: not cleaner._fetching and cleaner.is_idle)
    await node.settled()
    cleaner.stop()


async def test_the_cleaner_loads_the_segments_that_it_needs(store: Counting) -> None:
    compacted = LogConfig(segment_bytes=400, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    before = await filled(store, config=compacted, keys=3)
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open(config=compacted))
        await cleaned(node)
        after = await read_all(log)
        assert after[-3:] == before[-3:]
        assert len(after) < 10
        for number in range(40, 60):
            append(log, value(number), epoch=2)
        await node.durable(log)
        await node.settled()
        after = await read_all(log)
    await store.segments_read()
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open(config=compacted))
        assert await store.segments_read() == 1
        assert await read_all(log) == after


async def test_a_moved_log_is_not_compacted_again(store: Counting) -> None:
    compacted = LogConfig(segment_bytes=400, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)

    async def clean(node: Node) -> Any:
        """The position of the log cleaner, and the segments, after all its due work."""
        log = loaded(node.open(config=compacted))
        await cleaned(node)
        (row,) = await store.logs()
        assert row.clean_offset == log.durability.clean_offset
        return row.clean_offset, [one.segment_no for one in await store.segments(row.log_no)]

    await filled(store, config=compacted, keys=3)
    async with seated(store, cache_bytes=PLENTY) as node:
        clean_offset, segments = await clean(node)
        assert clean_offset > 30
    await store.segments_read()
    async with seated(store, cache_bytes=PLENTY) as node:
        assert await clean(node) == (clean_offset, segments)
        assert await store.segments_read() == 1  # nor was anything fetched for it
        log = node.open(config=compacted)
        for number in range(40, 60):
            append(log, value(number), epoch=2)
        await node.durable(log)
        after, _ = await clean(node)
        assert after > clean_offset


async def test_producers_and_aborted_transactions_move_with_a_log(store: Counting) -> None:
    def send(log: Any, producer_id: int, sequence: int, *, transactional: bool = False) -> Any:
        return batches.build(
            [(b"k", value(sequence))], timestamp_ms=5, producer_id=producer_id, producer_epoch=0,
            base_sequence=sequence, transactional=transactional,
        )  # fmt: skip

    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        for number in range(12):
            log.append(0, send(log, 1, number), wall_ms=5)
            log.append(0, send(log, 2, number, transactional=True), wall_ms=5)
            log.append_marker(0, EndMarker(2, 0, number % 3 != 0, 0, 0), wall_ms=5)
        log.append(0, send(log, 3, 0, transactional=True), wall_ms=5)  # stays open
        await node.durable(log)
        await until(lambda: log.producers._files._pending is None)  # two at a time: one must wait
        log.roll(5)
        await until(lambda: log.durability._checkpoint == log.segments.active.base_offset)
        await node.settled()
        end = log.end_offset
        known = {
            one.producer_id: (one.epoch, one.batches, one.transaction_start) for one in log.producers.producers.all()
        }
        aborted = await all_aborted(node, log)
        stable = log.producers.last_stable_offset(end)
        assert len(aborted) == 4
        assert stable == end - 1
    await store.segments_read()
    async with seated(store, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        assert await store.segments_read() == 1
        now = {
            one.producer_id: (one.epoch, one.batches, one.transaction_start) for one in log.producers.producers.all()
        }
        assert now == known
        assert all(len(one[1]) == 5 for number, one in now.items() if number < 3)
        assert log.producers.last_stable_offset(end) == stable
        await read_all(log)
        assert await all_aborted(node, log) == aborted
        log.append_marker(0, EndMarker(3, 0, False, 0, 0), wall_ms=5)
        assert log.producers.last_stable_offset(log.end_offset) >= stable


async def test_segments_beyond_the_cache_size_are_removed_and_loaded_again(store: Counting) -> None:
    before = await filled(store)
    async with seated(store, cache_bytes=900) as node:
        log = loaded(node.open())
        for _ in range(3):
            assert await read_all(log) == before
        here = [segment for segment in log.segments[:-1] if not segment.is_absent]
        assert sum(segment.size for segment in here) <= 900
        for number in range(40, 80):  # segments that were written here are removed as well
            append(log, value(number), epoch=2)
        await node.durable(log)
        await node.settled()
        here = [segment for segment in log.segments[:-1] if not segment.is_absent]
        assert sum(segment.size for segment in here) <= 900
        assert await read_all(log) == before + [(number, value(number)) for number in range(40, 80)]


async def test_logs_without_known_state_are_loaded_completely(tables: Counting) -> None:
    async with seated(tables) as node:  # as before checkpoints existed
        log = node.open()
        for number in range(20):
            append(log, value(number))
        before = await read_all(log)
        count = len(log.segments)
    await tables.segments_read()
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        assert await tables.segments_read() == count
        assert await read_all(log) == before
        log.roll(5)
        await node.settled()
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        assert await tables.segments_read() == 1
        assert await read_all(log) == before


async def test_no_file_is_looked_for_while_no_segment_begins(tables: Counting) -> None:
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = loaded(node.open(config=LogConfig()))
        looked: list[str] = []
        storage: Any = node.logs.storage
        load = storage.load

        def noting(path: str) -> Any:
            looked.append(path)
            return load(path)

        storage.load = noting

        async def several() -> list[str]:
            for _ in range(2):
                append(log, b"x")
                await node.durable(log)
            await node.settled()
            found = [path for path in looked if path.endswith(".snapshot")]
            looked.clear()
            return found

        assert await several() == []
        log.roll(5)
        assert len(await several()) == 1
        assert len(tables.below.tables.checkpoints) == 1
        assert await several() == []


@pytest.mark.parametrize("change", ["facts", "boundary", "epochs", "producers"])
async def test_a_partial_checkpoint_is_ignored(tables: Counting, change: str) -> None:
    before = await filled(tables)
    made = tables.below.tables
    (checkpoint,) = made.checkpoints.values()
    if change == "facts":
        number = min(made.segments_by_no)
        made.segments_by_no[number] = made.segments_by_no[number]._replace(size=-1)
    elif change == "boundary":
        made.checkpoints[checkpoint.log_no] = checkpoint._replace(offset=checkpoint.offset - 1)
    else:
        made.checkpoints[checkpoint.log_no] = checkpoint._replace(**{change: b"x"})
    await tables.segments_read()
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        assert await tables.segments_read() == len(log.segments)
        assert await read_all(log) == before


async def test_a_segment_load_fails_while_the_database_is_away(
    tables: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_cache, "AGAIN_MS", 1)
    before = await filled(tables)
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = node.open()
        tables.away = 3
        assert await read_all(log) == before


async def test_a_segment_damaged_in_the_database_is_reported(tables: Counting) -> None:
    before = await filled(tables)
    made = tables.below.tables
    key = min(made.rows_of)
    made.rows_of[key] = made.rows_of[key]._replace(data=made.rows_of[key].data[:-1] + b"\xff")
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = node.open()
        assert isinstance(await brought(log, 0), DamagedLog)
        with pytest.raises(DamagedLog):
            log.read(0, 100)
        second = log.segments[1].base_offset
        log.delete_records_before(second)
        assert await read_all(log) == before[second:]


async def test_a_segment_with_missing_rows_is_not_used(tables: Counting) -> None:
    await filled(tables)
    made = tables.below.tables
    first = min(made.segments_by_no)
    last = max(key for key in made.rows_of if key[0] == first)
    del made.rows_of[last]
    async with seated(tables, cache_bytes=PLENTY) as node:
        assert isinstance(await brought(node.open(), 0), DamagedLog)


async def test_a_session_may_end_while_a_segment_loads(tables: Counting) -> None:
    before = await filled(tables)
    answers: list[Exception | None] = []
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = node.open()
        tables.held = asyncio.Event()
        log.fetch_segment(0, answers.append)
        await asyncio.sleep(0)
        rows = dict(tables.below.tables.rows_of)
    assert tables.below.tables.rows_of == rows
    tables.held = None
    async with seated(tables, cache_bytes=PLENTY) as node:
        assert await read_all(node.open()) == before


async def test_a_log_may_move_while_a_segment_loads(tables: Counting) -> None:
    await filled(tables)
    answers: list[Exception | None] = []
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = node.open()
        tables.held = asyncio.Event()
        log.fetch_segment(0, answers.append)
        await asyncio.sleep(0)
        node.logs.let_go("orders", 0)
        node.writer.pending.leave(ORDERS, 0)
        tables.held.set()
        await until(lambda: bool(answers))
        assert isinstance(answers[0], LogOffline)
        log.fetch_segment(0, answers.append)
        assert isinstance(answers[1], LogOffline)


async def test_a_segment_may_be_deleted_while_it_loads(tables: Counting) -> None:
    before = await filled(tables)
    answers: list[Exception | None] = []
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = loaded(node.open())
        tables.held = asyncio.Event()
        log.fetch_segment(0, answers.append)
        await asyncio.sleep(0)
        second = log.segments[1].base_offset
        log.delete_records_before(second)
        tables.held.set()
        await until(lambda: bool(answers))
        assert isinstance(answers[0], LogOffline)
        assert not [entry for entry in node.logs.storage.entries("orders-0") if entry.name.startswith("0" * 20)]
        assert await read_all(log) == before[second:]


async def test_a_log_with_absent_segments_is_not_reopened(tables: Counting) -> None:
    await filled(tables)
    async with seated(tables, cache_bytes=PLENTY) as node:
        log = node.open()
        log.go_offline("x", OSError("broken"))
        with pytest.raises(LogOffline, match="not all of its segments are here"):
            node.logs.reopen("orders", 0)


async def test_deleted_and_staged_segments_are_not_loaded(tables: Counting) -> None:
    before = await filled(tables)
    made = tables.below.tables
    first = made.segments_by_no[min(made.segments_by_no)]
    made.segments_by_no[7] = first._replace(segment_no=7, state=DEAD)
    made.rows_of[7, 0] = BatchRow(7, 0, 1, b"x")
    async with seated(tables, cache_bytes=PLENTY) as node:
        assert await read_all(loaded(node.open())) == before
