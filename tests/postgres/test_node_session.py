"""Sessions of a node over tables that do not fail: what is written, what the next session finds, and the local
replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from muster.coordinator.log import (
    DamagedLog,
    DirectoryLocked,
    LogConfig,
    LogManager,
    LogSettings,
    MemoryStorage,
    batches,
)
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.system.clock import LoopClock
from muster.postgres import local_replica
from muster.postgres.database_writer import DatabaseWriter
from muster.postgres.lease import Lease
from muster.postgres.segment_cache import SegmentCache
from muster.postgres.store import DEAD, LIVE
from muster.virtual.world import World
from tests.postgres.stores import TableStore, table_store

LEASE_MS = 60_000
ORDERS = b"o" * 16
SMALL = LogConfig(segment_bytes=400)


@pytest.fixture
def store() -> TableStore:
    return table_store(World(Random(1)))


async def until(holds: Callable[[], bool]) -> None:
    """Run as many iterations of the event loop as needed."""
    while not holds():  # noqa: ASYNC110  # no event reports what is checked here
        await asyncio.sleep(0)


class Node:
    """A registered node, with logs and no server."""

    def __init__(self, logs: LogManager, writer: DatabaseWriter, clock: LoopClock) -> None:
        self.logs, self.writer, self.clock = logs, writer, clock
        self.follow: Callable[[], object] = lambda: None

    def open(self, name: str = "orders", config: LogConfig = SMALL) -> Any:
        return self.logs.open_log(name, 0, config=config, topic_id=ORDERS)

    async def durable(self, log: Any) -> None:
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        log.when_durable(log.end_offset, done.set_result)
        assert await done is None

    async def settled(self) -> None:
        """Wait until nothing is left to write."""
        await until(lambda: self.writer._is_idle and not self.writer.pending.has_work and not self.writer._purge)


@asynccontextmanager
async def seated(
    store: Any,
    lost: Callable[[str], object] = lambda _: None,
    known: Callable[[], int] = lambda: 0,
    cache_bytes: int | None = None,
) -> AsyncIterator[Node]:
    """A node that leads all existing logs. `cache_bytes`: it may lack segments; None: it has all of them."""
    clock = LoopClock(asyncio.get_running_loop())
    registration = await store.register_node("a", "a", 1, LEASE_MS)
    assert registration is not None
    storage = MemoryStorage()
    local_replica.clear(storage)
    local_replica.begin(storage, 0, (), await store.identity(), 1)
    lease = Lease(LEASE_MS, clock.mono_ms())
    workers = SharedSync(asyncio.get_running_loop().call_soon_threadsafe, threads=1)
    node: Node

    async def follow(_: int) -> None:
        node.follow()

    cache = None if cache_bytes is None else SegmentCache(store, storage, clock, cache_bytes, SMALL.segment_bytes)
    writer = DatabaseWriter(
        store, clock, storage, registration, lease, workers.run, known=known, follow=follow, lost=lost, cache=cache
    )
    turns = asyncio.create_task(writer.run())
    logs = LogManager(storage, LogSettings(), sync=workers, engine=writer.pending)
    logs.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
    for row in await store.logs():
        tail_only = cache is not None
        found = await local_replica.fetch(
            store, storage, row.topic, row.partition, row.topic_id, nothing, tail_only=tail_only
        )
        assert found.row == row
        writer.pending.lead(row, found.segments)
        if found.is_whole:
            logs.note_copy(row.topic, row.partition, found.end_offset, row.start_offset, found.absent)
    node = Node(logs, writer, clock)
    yield node
    if cache is not None:
        await cache.stop()
    logs.close()
    writer.stop()
    await turns
    await writer.drain()


async def nothing(_: int) -> None:
    pass


def append(log: Any, *values: bytes, key: bytes = b"k", epoch: int = 0) -> None:
    log.append(epoch, batches.build([(key, value) for value in values], timestamp_ms=5), wall_ms=5)


def content(log: Any) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for chunk in log.replay()
        for _, records in batches.read(chunk)
        for record in records
    ]


async def test_the_next_session_finds_the_log_unchanged(store: TableStore) -> None:
    async with seated(store) as node:
        log = node.open()
        for number in range(20):
            append(log, b"%d" % number * 20, epoch=number // 8)
        before, segments = content(log), [segment.base_offset for segment in log.segments]
        assert log.durable_offset == 0
        await node.durable(log)
        assert log.durable_offset == 20
    async with seated(store) as node:
        log = node.open()
        assert content(log) == before
        assert [segment.base_offset for segment in log.segments] == segments
        assert (log.durable_offset, log.leader_epoch, log.epochs.epoch_of(9)) == (20, 2, 1)
        append(log, b"more", epoch=3)
    assert len(store.tables.logs) == 1
    async with seated(store) as node:
        assert content(node.open())[-1] == (20, b"more")  # the stop wrote the records for which nobody waited


async def test_removed_segments_are_removed_from_the_database_too(store: TableStore) -> None:
    async with seated(store) as node:
        log = node.open()
        for number in range(20):
            append(log, b"%d" % number * 20)
        await node.durable(log)
        log.delete_records_before(15)
        await node.settled()
    assert next(iter(store.tables.logs.values())).start_offset == 15
    live = [row for row in store.tables.segments_by_no.values() if row.state == LIVE]
    assert all(number in {row.segment_no for row in live} for number, _ in store.tables.rows_of)
    async with seated(store) as node:
        log = node.open()
        assert (log.start_offset, log.end_offset) == (15, 20)
        log.delete_records_before(20)
        log.roll(9)
        log.delete_records_before(20)
        await node.settled()
    async with seated(store) as node:
        log = node.open()
        assert (log.start_offset, log.end_offset) == (20, 20)


async def test_a_deleted_topic_leaves_nothing(store: TableStore) -> None:
    async with seated(store) as node:
        log = node.open()
        append(log, b"one")
        await node.durable(log)
        node.logs.remove(node.logs.delete("orders", 0, topic_id=ORDERS))
        again = node.logs.open_log("orders", 0, config=SMALL, topic_id=b"n" * 16)
        append(again, b"another")
        await node.durable(again)
        await node.settled()
    assert [row.topic_id for row in store.tables.logs.values()] == [b"n" * 16]
    assert len(store.tables.segments_by_no) == len(store.tables.rows_of) == 1


async def test_a_deleted_topic_of_an_earlier_session_is_removed_before_its_log_opens(store: TableStore) -> None:
    async with seated(store) as node:
        append(node.open(), b"one")
    async with seated(store) as node:
        node.logs.remove(node.logs.delete("orders", 0, topic_id=ORDERS))
        await node.settled()
    assert not store.tables.logs
    assert not store.tables.segments_by_no
    assert not store.tables.rows_of


async def test_compacted_segments_replace_their_originals_in_the_database(store: TableStore) -> None:
    compacted = LogConfig(segment_bytes=400, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    async with seated(store) as node:
        log = node.open(config=compacted)
        for number in range(40):
            append(log, b"%d" % number * 10, key=b"%d" % (number % 3))
        await node.durable(log)
        rows = len(store.tables.rows_of)
        workers = SharedSync(asyncio.get_running_loop().call_soon_threadsafe, threads=1)
        cleaner = Cleaner(node.logs, node.clock, workers, cpu_share=1.0)
        cleaner.check_logs()
        await until(lambda: cleaner.is_idle)
        await node.settled()
        cleaner.stop()
        before = content(log)
        assert len(before) < 40
    assert len(store.tables.rows_of) < rows
    assert {row.state for row in store.tables.segments_by_no.values()} == {LIVE}
    async with seated(store) as node:
        assert content(node.open(config=compacted)) == before


async def test_unfinished_changes_of_a_node_are_removed(store: TableStore) -> None:
    async with seated(store) as node:
        append(node.open(), b"one")
    first = next(iter(store.tables.segments_by_no.values()))
    for number, state in ((77, 1), (78, DEAD)):
        store.tables.segments_by_no[number] = first._replace(segment_no=number, state=state)
        row = next(iter(store.tables.rows_of.values()))
        store.tables.rows_of[number, 0] = row._replace(segment_no=number)
    async with seated(store) as node:
        assert content(node.open()) == [(0, b"one")]
        await node.settled()
    assert {number for number, _ in store.tables.rows_of} == {first.segment_no} == set(store.tables.segments_by_no)


async def test_a_replaced_leader_acknowledges_nothing(store: TableStore) -> None:
    reasons: list[str] = []
    answers: list[Exception | None] = []
    async with seated(store, reasons.append) as node:
        log = node.open()
        append(log, b"one")
        await node.durable(log)
        store.tables.rows[1] = store.tables.rows[1]._replace(epoch=0)
        append(log, b"two")
        log.when_durable(2, answers.append)
        await until(lambda: bool(reasons))
        assert not answers
    assert len(reasons) == 1
    assert "other nodes have declared this node dead" in reasons[0]
    assert len(answers) == 1
    assert answers[0] is not None
    assert len(store.tables.rows_of) == 1


async def test_logs_led_by_another_node_are_not_written(store: TableStore) -> None:
    known = 0
    answers: dict[str, list[Exception | None]] = {"orders": [], "other": []}
    async with seated(store, known=lambda: known) as node:
        log = node.open()
        other = node.logs.open_log("other", 0, config=SMALL, topic_id=b"x" * 16)
        append(log, b"one")
        await node.durable(log)

        def follow() -> None:
            nonlocal known
            known = 5
            node.logs.let_go("orders", 0)
            node.writer.pending.leave(ORDERS, 0)

        node.follow = follow
        store.tables.rows[1] = store.tables.rows[1]._replace(needs=5)
        append(log, b"two")
        append(other, b"three")
        log.when_durable(2, answers["orders"].append)
        other.when_durable(1, answers["other"].append)
        await until(lambda: bool(answers["other"]))
    assert answers["other"] == [None]
    assert len(answers["orders"]) == 1
    assert answers["orders"][0] is not None
    rows = [(row.base_offset, row.next_offset) for row in store.tables.rows_of.values()]
    assert rows == [(0, 1), (0, 1)]
    async with seated(store) as node:
        assert content(node.open()) == [(0, b"one")]


async def test_damage_in_the_database_keeps_one_partition_offline(store: TableStore) -> None:
    async with seated(store) as node:
        log = node.open()
        append(log, b"one" * 10)
        await node.durable(log)
        append(log, b"two" * 10)
        await node.durable(log)
        append(log, b"three")
    key = min(store.tables.rows_of)
    row = store.tables.rows_of[key]
    store.tables.rows_of[key] = row._replace(data=row.data[:-5] + b"\xff" + row.data[-4:])
    reasons: list[str] = []
    async with seated(store, reasons.append) as node:
        with pytest.raises(DamagedLog):
            node.open()
    assert not reasons


# ---- the directory of the local replica


def test_a_directory_with_other_files_is_not_touched() -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", b"x")
    with pytest.raises(local_replica.ReplicaRefused, match="give --data-dir a directory of its own"):
        local_replica.clear(storage)
    assert storage.load("meta.properties") == b"x"


def test_an_outdated_local_replica_is_removed() -> None:
    storage = MemoryStorage()
    local_replica.clear(storage)
    storage.make_directory("orders-0")
    storage.save("orders-0/x", b"x")
    storage.save("meta.properties", b"x")
    local_replica.clear(storage)
    assert [entry.name for entry in storage.entries("")] == [local_replica.MARK]


def test_a_local_replica_in_use_by_another_node_is_not_touched() -> None:
    storage = MemoryStorage()
    local_replica.clear(storage)
    storage.make_directory("orders-0")
    storage.lock()
    with pytest.raises(DirectoryLocked):
        local_replica.clear(storage)
    assert storage.is_directory("orders-0")
