"""What nodes rely on, of PostgreSQL and of the tables of the simulation alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import asyncpg
import pytest

from muster.coordinator.database.postgres import PostgresStore
from muster.coordinator.database.store import (
    DEAD,
    STAGED,
    BatchRow,
    Changes,
    LogRow,
    SegmentRow,
    Store,
    StoreAway,
    StoreRefused,
)
from muster.simulation.world import World
from tests.coordinator.database.stores import new_cluster, new_name, postgres_store, table_store

LEASE_MS = 60_000
LOG = LogRow(1, "orders", 0, b"o" * 16, 0)


@pytest.fixture(params=["postgres", "tables"])
async def store(request: pytest.FixtureRequest, postgres: str) -> AsyncIterator[Store]:
    made: Any = await postgres_store(postgres) if request.param == "postgres" else table_store(World(Random(1)))
    yield made
    await made.close()


async def batches(store: Store) -> list[BatchRow]:
    return [row async for part in store.batches() for row in part]


async def test_the_office_has_one_holder(store: Store) -> None:
    first = await store.acquire("a", "a:9092", LEASE_MS)
    assert (first.epoch, first.turn, first.holder) == (1, 0, "a")
    second = await store.acquire("b", "b:9092", LEASE_MS)
    assert (second.epoch, second.holder) == (1, "a")
    assert 0 < second.remaining_ms <= LEASE_MS


async def test_who_gives_it_back_is_followed_at_once(store: Store) -> None:
    await store.acquire("a", "a:9092", LEASE_MS)
    await store.release("a", 1)
    assert (await store.acquire("b", "b:9092", LEASE_MS)).epoch == 2
    await store.release("a", 1)  # too late
    assert (await store.office()).remaining_ms > 0


async def test_a_holder_that_begins_anew_gets_another_epoch(store: Store) -> None:
    await store.acquire("a", "a:9092", LEASE_MS)
    assert await store.commit(1, 1, Changes(), LEASE_MS)
    again = await store.acquire("a", "a:9092", LEASE_MS)
    assert (again.epoch, again.turn) == (2, 0)


async def test_a_turn_counts_once(store: Store) -> None:
    await store.acquire("a", "a:9092", LEASE_MS)
    start = Changes(new_logs=[LOG], new_segments=[SegmentRow(1, 1, 0)], batches=[BatchRow(1, 0, 2, b"ab")])
    assert await store.commit(1, 1, start, LEASE_MS)
    assert not await store.commit(1, 1, start, LEASE_MS)
    assert not await store.commit(1, 3, Changes(), LEASE_MS)
    more = Changes(batches=[BatchRow(1, 2, 3, b"c"), BatchRow(1, 3, 9, b"d" * 100_000)])
    assert await store.commit(1, 2, more, LEASE_MS)
    assert not await store.commit(1, 2, more, LEASE_MS)
    assert (await store.office()).turn == 2
    assert await batches(store) == [*start.batches, *more.batches]
    assert list(await store.logs()) == [LOG]


async def test_who_lost_the_office_writes_nothing(store: Store) -> None:
    await store.acquire("a", "a:9092", LEASE_MS)
    await store.release("a", 1)
    await store.acquire("b", "b:9092", LEASE_MS)
    changes = Changes(new_logs=[LOG], new_segments=[SegmentRow(1, 1, 0)])
    assert not await store.commit(1, 1, changes, LEASE_MS)
    assert not await store.commit(1, 1, Changes(batches=[BatchRow(1, 0, 1, b"a")]), LEASE_MS)
    assert not await store.logs()
    assert not await store.segments()
    assert not await batches(store)


async def test_a_turn_holds_the_office(store: Store) -> None:
    await store.acquire("a", "a:9092", 1)
    assert await store.commit(1, 1, Changes(), LEASE_MS)
    assert (await store.acquire("b", "b:9092", LEASE_MS)).holder == "a"


async def test_segments_are_staged_replaced_and_purged(store: Store) -> None:
    await store.acquire("a", "a:9092", LEASE_MS)
    old = [BatchRow(1, 0, 5, b"old"), BatchRow(2, 5, 9, b"older")]
    start = Changes(new_logs=[LOG], new_segments=[SegmentRow(1, 1, 0), SegmentRow(2, 1, 5)], batches=old)
    assert await store.commit(1, 1, start, LEASE_MS)
    staged = Changes(new_segments=[SegmentRow(3, 1, 0, STAGED)], batches=[BatchRow(3, 4, 5, b"new")])
    assert await store.commit(1, 2, staged, LEASE_MS)
    assert await batches(store) == old
    assert await store.commit(1, 3, Changes(live=[3], dead=[1, 2], starts={1: 4}), LEASE_MS)
    assert await batches(store) == staged.batches
    assert [row.state for row in await store.segments() if row.segment_no != 3] == [DEAD, DEAD]
    assert list(await store.logs()) == [LOG._replace(start_offset=4)]
    assert await store.purge(1)
    assert await store.purge(2)
    assert await store.purge(3)  # which lives
    assert [row.segment_no for row in await store.segments()] == [3]
    assert await batches(store) == staged.batches
    assert await store.commit(1, 4, Changes(dropped=[1], dead=[3]), LEASE_MS)
    assert not await store.logs()
    assert not await batches(store)


async def test_a_large_segment_is_purged_in_parts(store: Store) -> None:
    await store.acquire("a", "a:9092", LEASE_MS)
    rows = [BatchRow(number, at, at + 1, b"x") for number in (1, 2) for at in range(100)]
    segments = [SegmentRow(1, 1, 0), SegmentRow(2, 1, 100)]
    changes = Changes(new_logs=[LOG], new_segments=segments, batches=rows, dead=[1])
    assert await store.commit(1, 1, changes, LEASE_MS)
    steps = 1
    while not await store.purge(1):
        steps += 1
    assert steps > 1
    assert [row.segment_no for row in await store.segments()] == [2]
    assert await batches(store) == rows[100:]


# ---- PostgreSQL alone


async def test_who_takes_the_office_waits_for_a_turn_that_is_under_way(postgres: str) -> None:
    """Or else it would not see what that turn brings."""
    store = await postgres_store(postgres)
    await store.acquire("a", "a:9092", 1)
    other = await asyncpg.connect(postgres)
    no = await other.fetchval(
        "SELECT cluster_no FROM muster_clusters WHERE cluster_id = $1", (await store.identity()).cluster_id
    )
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE muster_offices SET turn = turn + 1 WHERE cluster_no = $1", no)
    taking = asyncio.create_task(store.acquire("b", "b:9092", LEASE_MS))
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    looking = await asyncpg.connect(postgres)
    while not await looking.fetchval(waiting):
        assert not taking.done()
    await transaction.commit()
    assert (await taking).epoch == 2
    for connection in (other, looking):
        await connection.close()
    await store.close()


async def test_who_stands_still_in_the_middle_of_a_turn_is_followed(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await new_cluster(postgres)
    store, other = PostgresStore(postgres, name, timeout_ms=300), PostgresStore(postgres, name, timeout_ms=30_000)
    await store.acquire("a", "a:9092", 1)
    stands_still = asyncio.Event()

    async def change(*_: Any) -> None:
        stands_still.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "_change", change)
    turn = asyncio.create_task(store.commit(1, 1, Changes(new_logs=[LOG]), LEASE_MS))
    await stands_still.wait()
    assert (await other.acquire("b", "b:9092", LEASE_MS)).epoch == 2
    turn.cancel()
    await asyncio.wait([turn])
    await other.close()


async def test_the_statements_of_a_turn_are_known_before_it_begins(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that stands still between the parts of an unknown one has a session that no limit of idleness ends."""
    store = await postgres_store(postgres)
    await store.acquire("a", "a:9092", LEASE_MS)
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
    assert await store.commit(1, 1, made, LEASE_MS)
    assert await store.commit(1, 2, Changes(dropped=[1]), LEASE_MS)
    assert await store.logs() == []
    await store.close()


async def test_who_has_given_up_waiting_for_the_office_does_not_take_it_later(postgres: str) -> None:
    name = await new_cluster(postgres)
    store = PostgresStore(postgres, name, timeout_ms=300)
    await store.acquire("a", "a:9092", 1)
    other, looking = await asyncpg.connect(postgres), await asyncpg.connect(postgres)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE muster_offices SET turn = turn + 1")
    with pytest.raises(StoreAway):
        await store.acquire("b", "b:9092", LEASE_MS)
    while await looking.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        pass
    await transaction.commit()
    assert (await store.office()).holder == "a"
    for connection in (other, looking):
        await connection.close()
    await store.close()


async def test_a_connection_that_is_cut_is_told_and_made_anew(postgres: str) -> None:
    store = await postgres_store(postgres)
    await store.acquire("a", "a:9092", LEASE_MS)
    other = await asyncpg.connect(postgres)
    pid = store._connection.get_server_pid()
    await other.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)
    with pytest.raises(StoreAway):
        await store.commit(1, 1, Changes(), LEASE_MS)
    assert (await store.office()).turn == 0
    assert await store.commit(1, 1, Changes(), LEASE_MS)
    await other.close()
    await store.close()


async def test_a_cluster_that_is_not_there(postgres: str) -> None:
    await new_cluster(postgres)
    store = PostgresStore(postgres, new_name(), timeout_ms=30_000)
    with pytest.raises(StoreRefused, match="muster cluster init URL --name"):
        await store.office()


async def test_a_database_that_is_not_there() -> None:
    with pytest.raises(StoreAway):
        await PostgresStore("postgresql://u@127.0.0.1:1/d", "x", timeout_ms=30_000).office()


async def test_a_database_of_another_name(postgres: str) -> None:
    url = postgres.replace("/postgres?", "/nothing?")
    with pytest.raises(StoreRefused, match="nothing"):
        await PostgresStore(url, "x", timeout_ms=30_000).office()
