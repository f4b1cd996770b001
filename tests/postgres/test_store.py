"""Rules on which nodes rely, for PostgreSQL and for the tables of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import asyncpg
import pytest

from muster.postgres.postgres import PostgresStore
from muster.postgres.statements import FETCHED_BYTES
from muster.postgres.store import (
    DEAD,
    MAIL_COUNTS_MS,
    NO_SNAPSHOT,
    STAGED,
    BatchRow,
    Changes,
    LogRow,
    Mail,
    MetadataRow,
    NodeRegistration,
    SegmentRow,
    Snapshot,
    Store,
    StoreAway,
    StoreRefused,
)
from muster.virtual.world import World
from tests.postgres.stores import TableStore, new_cluster, new_name, postgres_store, table_store

QUESTION = Mail("x", 1, 2, b"question")
LEASE_MS = 60_000
LOG = LogRow(1, "orders", 0, b"o" * 16, 0)


@pytest.fixture(params=["postgres", "tables"])
async def store(request: pytest.FixtureRequest, postgres: str) -> AsyncIterator[Store]:
    made: Any = await postgres_store(postgres) if request.param == "postgres" else table_store(World(Random(1)))
    yield made
    await made.close()


async def batches(store: Store, *segments: int) -> list[BatchRow]:
    found: list[BatchRow] = []
    for number in segments:
        since = 0
        while rows := await store.batches(number, since):
            found += rows
            since = rows[-1].next_offset
    return found


async def register(
    store: Store, holder: str = "a", node_id: int | None = 1, lease_ms: int = LEASE_MS
) -> NodeRegistration:
    registration = await store.register_node(holder, f"{holder}:9092", node_id, lease_ms)
    assert registration is not None
    return registration


def row(at: int, writer: str = "w", size: int = 2) -> MetadataRow:
    return MetadataRow(at, at + size, writer, b"batch")


async def test_a_node_registration_has_one_holder(store: Store) -> None:
    first = await register(store)
    assert (first.node_id, first.write_no, first.needs, first.holder) == (1, 0, 0, "a")
    assert await store.register_node("b", "b:9092", 1, LEASE_MS) is None
    second = await register(store, "b", None)
    assert second.node_id == 2
    assert second.epoch > first.epoch
    assert [(one.node_id, one.holder) for one in await store.registrations()] == [(1, "a"), (2, "b")]
    assert all(0 < one.remaining_ms <= LEASE_MS for one in await store.registrations())


async def test_a_free_registration_is_used_before_a_new_one(store: Store) -> None:
    first = await register(store, "a", None)
    await register(store, "b", None)
    await store.unregister_node(1, first.epoch)
    assert (await register(store, "c", None)).node_id == 1
    await store.unregister_node(1, first.epoch)  # too late
    assert (await store.registrations())[0].remaining_ms > 0
    assert (await register(store, "d", None)).node_id == 3


async def test_a_node_that_registers_again_gets_another_epoch(store: Store) -> None:
    registration = await register(store)
    assert await store.commit(1, registration.epoch, 1, 0, Changes(), LEASE_MS)
    again = await register(store, node_id=None)
    assert again.node_id == 1
    assert again.epoch > registration.epoch
    assert again.write_no == 0
    assert not await store.commit(1, registration.epoch, 2, 0, Changes(), LEASE_MS)


async def test_a_database_write_counts_once(store: Store) -> None:
    epoch = (await register(store)).epoch
    start = Changes(new_logs=[LOG], new_segments=[SegmentRow(1, 1, 0)], batches=[BatchRow(1, 0, 2, b"ab")])
    assert await store.commit(1, epoch, 1, 0, start, LEASE_MS)
    assert not await store.commit(1, epoch, 1, 0, start, LEASE_MS)
    assert not await store.commit(1, epoch, 3, 0, Changes(), LEASE_MS)
    more = Changes(batches=[BatchRow(1, 2, 3, b"c"), BatchRow(1, 3, 9, b"d" * 100_000)])
    assert await store.commit(1, epoch, 2, 0, more, LEASE_MS)
    assert not await store.commit(1, epoch, 2, 0, more, LEASE_MS)
    assert (await store.registrations())[0].write_no == 2
    assert await batches(store, 1) == [*start.batches, *more.batches]
    assert list(await store.logs()) == [LOG]
    assert await store.log(LOG.topic_id, 0) == LOG
    assert await store.log(LOG.topic_id, 1) is None


async def test_a_node_that_lost_its_registration_writes_nothing(store: Store) -> None:
    epoch = (await register(store)).epoch
    await store.unregister_node(1, epoch)
    await register(store, "b")
    changes = Changes(new_logs=[LOG], new_segments=[SegmentRow(1, 1, 0)])
    assert not await store.commit(1, epoch, 1, 0, changes, LEASE_MS)
    assert not await store.commit(1, epoch, 1, 0, Changes(batches=[BatchRow(1, 0, 1, b"a")]), LEASE_MS)
    assert not await store.logs()
    assert not await store.segments(1)
    assert not await batches(store, 1)


async def test_a_database_write_locks_the_registration(store: Store) -> None:
    epoch = (await register(store, lease_ms=1)).epoch
    assert await store.commit(1, epoch, 1, 0, Changes(), LEASE_MS)
    assert await store.register_node("b", "b:9092", 1, LEASE_MS) is None


# ---- the metadata log


async def test_a_metadata_row_is_accepted_only_at_the_end_of_the_log(store: Store) -> None:
    assert await store.write_metadata(row(0))
    assert not await store.write_metadata(row(0, "other"))
    assert await store.write_metadata(row(2, "other"))
    assert list(await store.metadata(0)) == [row(0), row(2, "other")]
    assert list(await store.metadata(2)) == [row(2, "other")]
    assert list(await store.metadata(4)) == []


@pytest.mark.parametrize("changes", [Changes(), Changes(starts={1: 1})], ids=["appends", "more"])
async def test_a_node_that_loses_partitions_writes_after_it_knows_that(store: Store, changes: Changes) -> None:
    registration, other = await register(store), await register(store, "b", 2)
    assert await store.write_metadata(row(0), [1])
    assert not await store.commit(1, registration.epoch, 1, 1, changes, LEASE_MS)
    assert await store.commit(2, other.epoch, 1, 0, changes, LEASE_MS)
    assert await store.commit(1, registration.epoch, 1, 2, changes, LEASE_MS)
    await store.unregister_node(1, registration.epoch)
    assert (await register(store)).needs == 2


async def test_a_node_with_an_expired_lease_stays_dead(store: Store) -> None:
    registration = await register(store, lease_ms=1)
    while (await store.registrations())[0].remaining_ms > 0:
        if isinstance(store, TableStore):
            store.tables._world.us += 1_000
    assert await store.write_metadata(row(0), [1], {1: registration.epoch})
    assert not await store.commit(1, registration.epoch, 1, 2, Changes(), LEASE_MS)
    assert (await store.registrations())[0].epoch == 0


async def test_a_live_node_is_not_declared_dead(store: Store) -> None:
    registration = await register(store)
    assert not await store.write_metadata(row(0), [1], {1: registration.epoch})
    assert not await store.write_metadata(row(0), [1], {1: registration.epoch + 1})
    assert not await store.metadata(0)
    assert await store.commit(1, registration.epoch, 1, 0, Changes(), LEASE_MS)


async def a_snapshot(store: Store, registration: NodeRegistration, end_offset: int, *parts: bytes) -> Snapshot:
    number = await store.begin_snapshot()
    for place, data in enumerate(parts):
        assert await store.put_snapshot_part(registration.node_id, registration.epoch, number, place, data)
    return Snapshot(number, end_offset, len(parts))


async def test_a_snapshot_is_used_only_when_complete(store: Store) -> None:
    registration = await register(store)
    assert await store.snapshot() == NO_SNAPSHOT
    assert await store.write_metadata(row(0))
    partial = await a_snapshot(store, registration, 2, b"one")
    assert not await store.commit_snapshot(1, registration.epoch, partial._replace(parts=2))
    assert await store.put_snapshot_part(1, registration.epoch, partial.number, 0, b"one")  # the answer was lost
    assert await store.put_snapshot_part(1, registration.epoch, partial.number, 1, b"two")
    assert await store.snapshot() == NO_SNAPSHOT
    whole = partial._replace(parts=2)
    assert await store.commit_snapshot(1, registration.epoch, whole)
    assert await store.snapshot() == whole
    assert [await store.snapshot_part(whole.number, place) for place in range(3)] == [b"one", b"two", None]
    assert not await store.commit_snapshot(1, registration.epoch, whole)  # once is enough


async def test_only_registered_nodes_write_snapshots_and_only_newer_ones_count(store: Store) -> None:
    registration, other = await register(store), await register(store, "b", 2)
    first, second = await a_snapshot(store, registration, 4, b"a"), await a_snapshot(store, other, 2, b"b")
    assert not await store.put_snapshot_part(1, other.epoch, first.number, 1, b"c")
    assert not await store.commit_snapshot(1, other.epoch, first)
    assert await store.commit_snapshot(1, registration.epoch, first)
    assert not await store.commit_snapshot(2, other.epoch, second)  # this snapshot has less
    third, fourth = await a_snapshot(store, registration, 6, b"c"), await a_snapshot(store, other, 6, b"d")
    assert await store.commit_snapshot(2, other.epoch, fourth)
    assert not await store.commit_snapshot(1, registration.epoch, third._replace(end_offset=8))  # it was begun before
    assert await store.snapshot() == fourth


async def test_rows_covered_by_a_snapshot_are_deleted_when_old_enough(store: Store) -> None:
    registration = await register(store)
    for place in range(0, 2_400, 2):
        assert await store.write_metadata(row(place))
    assert not await store.shorten_metadata(0)
    old = await a_snapshot(store, registration, 10, b"old")
    assert await store.commit_snapshot(1, registration.epoch, old)
    begun = await a_snapshot(store, registration, 0, b"half")
    new = await a_snapshot(store, registration, 2_000, b"new", b"newer")
    later = await a_snapshot(store, registration, 0, b"later")
    assert await store.commit_snapshot(1, registration.epoch, new)
    assert not await store.shorten_metadata(LEASE_MS)
    assert next(iter(await store.metadata(0))) == row(0)
    if isinstance(store, TableStore):
        store.tables._world.us += 1_000
    while not await store.shorten_metadata(0):
        pass
    # a node that knows less finds the row that ends where the snapshot does
    assert [one.base_offset for one in await store.metadata(0)][:2] == [1_998, 2_000]
    assert await store.snapshot_part(old.number, 0) is None
    assert await store.snapshot_part(begun.number, 0) is None
    assert [await store.snapshot_part(new.number, place) for place in range(2)] == [b"new", b"newer"]
    assert await store.snapshot_part(later.number, 0) == b"later"


async def test_nothing_is_written_at_the_place_of_a_deleted_row(store: Store) -> None:
    registration = await register(store)
    for place in range(0, 8, 2):
        assert await store.write_metadata(row(place))
    assert await store.commit_snapshot(1, registration.epoch, await a_snapshot(store, registration, 8, b"x"))
    if isinstance(store, TableStore):
        store.tables._world.us += 1_000
    while not await store.shorten_metadata(0):
        pass
    assert [one.base_offset for one in await store.metadata(0)] == [6]
    assert not await store.write_metadata(row(2, "late"))
    assert not await store.write_metadata(row(4, "late"), [1])
    assert [one.base_offset for one in await store.metadata(0)] == [6]
    assert await store.write_metadata(row(8))
    assert await store.write_metadata(row(10), [1])
    assert [one.base_offset for one in await store.metadata(0)] == [6, 8, 10]


# ---- messages between nodes


async def test_a_node_message_is_received_once(store: Store) -> None:
    first, second = Mail("x", 1, 2, b"first"), Mail("y", 1, 3, b"second")
    await store.send([(2, first), (3, first)])
    await store.send([(2, second), (2, first)])
    assert list(await store.mail(2)) == [first, second]
    assert list(await store.mail(2)) == []
    assert list(await store.mail(3)) == [first]


async def test_a_node_message_that_is_no_longer_awaited_is_removed(store: Store, postgres: str) -> None:
    old, new = Mail("x", 1, 2, b"old"), Mail("y", 1, 2, b"new")
    await store.send([(2, old)])
    if isinstance(store, TableStore):
        store.tables._world.run(lambda: False, MAIL_COUNTS_MS)
    else:
        other = await asyncpg.connect(postgres)
        await other.execute(f"UPDATE muster_mail SET sent_at = sent_at - interval '{MAIL_COUNTS_MS} milliseconds'")
        await other.close()
    await store.send([(2, new)])
    assert list(await store.mail(2)) == [new]
    assert list(await store.mail(2)) == []


async def test_segments_are_staged_replaced_and_purged(store: Store) -> None:
    epoch = (await register(store)).epoch
    old = [BatchRow(1, 0, 5, b"old"), BatchRow(2, 5, 9, b"older")]
    start = Changes(new_logs=[LOG], new_segments=[SegmentRow(1, 1, 0), SegmentRow(2, 1, 5)], batches=old)
    assert await store.commit(1, epoch, 1, 0, start, LEASE_MS)
    staged = Changes(new_segments=[SegmentRow(3, 1, 0, STAGED)], batches=[BatchRow(3, 4, 5, b"new")])
    assert await store.commit(1, epoch, 2, 0, staged, LEASE_MS)
    assert await batches(store, 1, 2) == old
    assert await store.commit(1, epoch, 3, 0, Changes(live=[3], dead=[1, 2], starts={1: 4}), LEASE_MS)
    assert await batches(store, 3) == staged.batches
    assert [row.state for row in await store.segments(1) if row.segment_no != 3] == [DEAD, DEAD]
    assert list(await store.logs()) == [LOG._replace(start_offset=4)]
    assert await store.purge(1)
    assert await store.purge(2)
    assert await store.purge(3)  # which is alive
    assert [row.segment_no for row in await store.segments(1)] == [3]
    assert await batches(store, 3) == staged.batches
    assert await store.commit(1, epoch, 4, 0, Changes(dropped=[1], dead=[3]), LEASE_MS)
    assert not await store.logs()
    assert not await batches(store, 1, 2)


async def test_the_ends_of_logs_are_those_of_their_last_live_segments(store: Store) -> None:
    epoch = (await register(store)).epoch
    segments = [SegmentRow(1, 1, 0), SegmentRow(2, 1, 5)]
    rows = [BatchRow(1, 0, 5, b"a"), BatchRow(2, 5, 7, b"b"), BatchRow(2, 7, 8, b"c")]
    start = Changes(new_logs=[LOG], new_segments=segments, batches=rows)
    assert await store.commit(1, epoch, 1, 0, start, LEASE_MS)
    assert await store.ends() == [(LOG.topic, LOG.partition, LOG.start_offset, 8)]
    news = Changes(new_segments=[SegmentRow(3, 1, 8)], dead=[2])
    assert await store.commit(1, epoch, 2, 0, news, LEASE_MS)
    assert await store.ends() == [(LOG.topic, LOG.partition, LOG.start_offset, 8)]  # the new segment is empty


async def test_many_small_rows_are_read_at_once_and_large_ones_in_parts(postgres: str) -> None:
    store = await postgres_store(postgres)
    epoch = (await register(store)).epoch
    small = [BatchRow(1, at, at + 1, b"small") for at in range(1_500)]
    large = [BatchRow(2, at, at + 1, bytes(FETCHED_BYTES // 2)) for at in range(5)]
    news = [SegmentRow(1, 1, 0), SegmentRow(2, 1, 1_500)]
    assert await store.commit(1, epoch, 1, 0, Changes(new_logs=[LOG], new_segments=news, batches=small), LEASE_MS)
    assert await store.commit(1, epoch, 2, 0, Changes(batches=large), LEASE_MS)
    assert list(await store.batches(1, 0)) == small
    assert [row.base_offset for row in await store.batches(2, 0)] == [0, 1]
    assert [row.base_offset for row in await store.batches(2, 4)] == [4]
    assert await batches(store, 1, 2) == [*small, *large]
    await store.close()


async def test_a_large_segment_is_purged_in_parts(store: Store) -> None:
    epoch = (await register(store)).epoch
    rows = [BatchRow(number, at, at + 1, b"x") for number in (1, 2) for at in range(100)]
    segments = [SegmentRow(1, 1, 0), SegmentRow(2, 1, 100)]
    changes = Changes(new_logs=[LOG], new_segments=segments, batches=rows, dead=[1])
    assert await store.commit(1, epoch, 1, 0, changes, LEASE_MS)
    steps = 1
    while not await store.purge(1):
        steps += 1
    assert steps > 1
    assert [row.segment_no for row in await store.segments(1)] == [2]
    assert await batches(store, 2) == rows[100:]


# ---- PostgreSQL alone


async def test_a_row_that_moves_partitions_waits_for_a_running_write(postgres: str) -> None:
    """Otherwise the next leader would miss the records of that write."""
    store = await postgres_store(postgres)
    await register(store)
    other = await asyncpg.connect(postgres)
    no = await other.fetchval(
        "SELECT cluster_no FROM muster_clusters WHERE cluster_id = $1", (await store.identity()).cluster_id
    )
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE muster_seats SET turn = turn + 1 WHERE cluster_no = $1", no)
    moving = asyncio.create_task(store.write_metadata(row(0), [1]))
    looking = await asyncpg.connect(postgres)
    while not await looking.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        assert not moving.done()
    await transaction.commit()
    assert await moving
    assert [(one.write_no, one.needs) for one in await store.registrations()] == [(1, 2)]
    for connection in (other, looking):
        await connection.close()
    await store.close()


async def test_a_node_paused_during_a_write_blocks_nobody(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await new_cluster(postgres)
    store, other = PostgresStore(postgres, name, timeout_ms=300), PostgresStore(postgres, name, timeout_ms=30_000)
    registration = await register(store, lease_ms=1)
    stands_still = asyncio.Event()

    async def change(*_: Any) -> None:
        stands_still.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "_change", change)
    write_no = asyncio.create_task(store.commit(1, registration.epoch, 1, 0, Changes(new_logs=[LOG]), LEASE_MS))
    await stands_still.wait()
    assert await other.write_metadata(row(0), [1], {1: registration.epoch})
    write_no.cancel()
    await asyncio.gather(write_no, return_exceptions=True)
    await other.close()


async def test_the_statements_of_a_write_are_known_before_it_begins(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a node may pause between the parts of an unknown statement. No idle limit would end its session."""
    store = await postgres_store(postgres)
    epoch = (await register(store)).epoch
    change = store._change

    async def known_only(*arguments: Any) -> None:
        with monkeypatch.context() as inside:
            inside.delattr(asyncpg.Connection, "_get_statement")
            await change(*arguments)

    monkeypatch.setattr(store, "_change", known_only)
    made = Changes(
        new_logs=[LOG],
        new_segments=[SegmentRow(1, 1, 0, STAGED), SegmentRow(2, 1, 5, STAGED)],
        batches=[BatchRow(1, 0, 5, b"batch")],
        starts={1: 2},
        live=[1],
        dead=[2],
    )
    assert await store.commit(1, epoch, 1, 0, made, LEASE_MS)
    assert await store.commit(1, epoch, 2, 0, Changes(dropped=[1]), LEASE_MS)
    assert await store.logs() == []
    await store.close()


async def test_an_abandoned_write_is_not_executed_later(postgres: str) -> None:
    name = await new_cluster(postgres)
    store = PostgresStore(postgres, name, timeout_ms=300)
    epoch = (await register(store)).epoch
    other, looking = await asyncpg.connect(postgres), await asyncpg.connect(postgres)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE muster_seats SET needs = needs")
    with pytest.raises(StoreAway):
        await store.commit(1, epoch, 1, 0, Changes(), LEASE_MS)
    while await looking.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        pass
    await transaction.commit()
    assert (await store.registrations())[0].write_no == 0
    for connection in (other, looking):
        await connection.close()
    await store.close()


async def test_a_waiting_node_is_notified_of_other_nodes_writes(postgres: str) -> None:
    name = await new_cluster(postgres)
    store, other = [PostgresStore(postgres, name, timeout_ms=30_000) for _ in range(2)]
    hints: asyncio.Queue[None] = asyncio.Queue()
    store.when_hinted(2, lambda: hints.put_nowait(None))
    assert not await store.mail(2)
    await hints.get()  # at the rows that existed before
    await other.send([(3, Mail("x", 1, 2, b"for another node"))])
    await other.send([(2, QUESTION)])
    await hints.get()
    assert await store.mail(2) == [QUESTION]
    for place, needing in ((0, ()), (2, (1,))):
        assert hints.empty()
        assert await other.write_metadata(row(place), needing)
        await hints.get()
    for one in (store, other):
        await one.close()


async def test_a_store_knows_whether_notifications_arrive(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await postgres_store(postgres)
    hints: asyncio.Queue[None] = asyncio.Queue()
    store.when_hinted(1, lambda: hints.put_nowait(None))
    assert not store.hears
    await store.registrations()
    await hints.get()
    assert store.hears
    # rows that were written between two connections are searched at once
    await store.close()
    assert not store.hears
    await store.registrations()
    await hints.get()
    assert store.hears
    await store.close()

    async def nothing(*_: Any) -> None:
        """A database that accepts LISTEN and does nothing."""

    monkeypatch.setattr(asyncpg.Connection, "add_listener", nothing)
    for _ in range(3):
        await store.registrations()
    assert not store.hears
    assert hints.empty()
    await store.close()


async def test_a_waiting_node_is_notified_of_a_write_with_a_lost_answer(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await new_cluster(postgres)
    store, other = [PostgresStore(postgres, name, timeout_ms=30_000) for _ in range(2)]
    hints: asyncio.Queue[None] = asyncio.Queue()
    store.when_hinted(2, lambda: hints.put_nowait(None))
    await store.registrations()
    await hints.get()
    hint = PostgresStore._hint

    async def fails(self: PostgresStore, connection: Any) -> None:
        if self._owed:
            monkeypatch.setattr(PostgresStore, "_hint", hint)
            await connection.fetchval("SELECT 1 / 0")

    for write in (other.write_metadata(row(0)), other.write_metadata(row(2), (1,)), other.send([(2, QUESTION)])):
        monkeypatch.setattr(PostgresStore, "_hint", fails)
        with pytest.raises(StoreAway, match="DivisionByZeroError"):
            await write
        assert hints.empty()
        await other.registrations()
        await hints.get()
    assert await store.mail(2) == [QUESTION]
    for one in (store, other):
        await one.close()


async def test_a_cut_connection_is_reported_and_opened_again(postgres: str) -> None:
    store = await postgres_store(postgres)
    epoch = (await register(store)).epoch
    other = await asyncpg.connect(postgres)
    pid = store._connection.get_server_pid()
    await other.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)
    with pytest.raises(StoreAway):
        await store.commit(1, epoch, 1, 0, Changes(), LEASE_MS)
    assert (await store.registrations())[0].write_no == 0
    assert await store.commit(1, epoch, 1, 0, Changes(), LEASE_MS)
    await other.close()
    await store.close()


async def test_a_database_that_shuts_down_counts_as_away(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await postgres_store(postgres)
    await register(store)

    async def fetch(*_: object) -> None:
        raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")

    with monkeypatch.context() as patched:
        patched.setattr(asyncpg.Connection, "fetch", fetch)
        with pytest.raises(StoreAway, match="another operation"):
            await store.metadata(0)
    assert not await store.metadata(0)
    await store.close()


async def test_an_unknown_cluster_is_refused(postgres: str) -> None:
    await new_cluster(postgres)
    store = PostgresStore(postgres, new_name(), timeout_ms=30_000)
    with pytest.raises(StoreRefused, match="muster cluster init URL --name"):
        await store.registrations()


async def test_a_missing_database_is_refused() -> None:
    with pytest.raises(StoreAway):
        await PostgresStore("postgresql://u@127.0.0.1:1/d", "x", timeout_ms=30_000).registrations()


async def test_a_database_of_another_cluster_is_refused(postgres: str) -> None:
    url = postgres.replace("/postgres?", "/nothing?")
    with pytest.raises(StoreRefused, match="nothing"):
        await PostgresStore(url, "x", timeout_ms=30_000).registrations()
