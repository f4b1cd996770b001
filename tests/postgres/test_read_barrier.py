"""Visible rows need not be durable: a session that waits for a synchronous standby may end, and then the standby is
promoted. Nothing is acknowledged or served before it is known to be durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from muster.coordinator.system.clock import LoopClock
from muster.coordinator.topics.metadata_state import MetadataState
from muster.postgres import shared_metadata_log
from muster.postgres.lease import ReadBarrier
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import Changes, MetadataRow, NodeRegistration, StoreAway
from muster.simulation.cluster.tables import Tables
from muster.virtual.world import World
from tests.postgres.stores import TableStore
from tests.postgres.test_node_session import append, content, seated, until


class EndingStore(TableStore):
    """A store with given outcomes (`ended`) of the next writes. True: it is done, and its session ends. None: it is
    answered. False: it never happens.
    """

    def __init__(self) -> None:
        super().__init__(Tables(World(Random(1))))
        self.ended: list[bool | None] = []
        self.sessions = 1
        self.sent: list[int] = []
        """The numbers of the database writes."""

    @property
    def session(self) -> int:
        return self.sessions

    async def commit(self, node_id: int, epoch: int, write_no: int, *rest: Any, **how: Any) -> bool:
        self.sent.append(write_no)
        return self._ends(await super().commit(node_id, epoch, write_no, *rest, **how) if self._happens() else False)

    async def barrier(self, *all_: Any, **how: Any) -> bool:
        await asyncio.sleep(0)
        return self._ends(await super().barrier(*all_, **how) if self._happens() else False)

    async def write_metadata(self, *all_: Any) -> bool:
        return self._ends(await super().write_metadata(*all_) if self._happens() else False)

    def _happens(self) -> bool:
        return not self.ended or self.ended[0] is not False

    def _ends(self, answer: bool) -> bool:
        if self.ended and self.ended.pop(0) is not None:
            self.sessions += 1
            raise StoreAway("the session has ended")
        return answer


async def test_a_write_that_is_seen_is_acknowledged_by_the_answer_to_a_later_write() -> None:
    store, answers = EndingStore(), list[Exception | None]()
    async with seated(store) as node:
        log = node.open()
        append(log, b"first")
        await node.durable(log)
        first = store.sent[-1]
        append(log, b"second")
        log.when_durable(2, answers.append)
        # the write is done, and so is the empty write that should prove it; the next one never happens
        store.ended = [True, True, False]
        await until(lambda: not store.ended)
        assert not answers
        assert store.tables.rows[1].write_no == first + 2
        await until(lambda: bool(answers))
        assert answers == [None]
        assert store.sent[-4:] == [first + 1, first + 2, first + 3, first + 4]
        append(log, b"third")
        await node.durable(log)
    async with seated(store) as node:
        assert content(node.open()) == [(0, b"first"), (1, b"second"), (2, b"third")]


async def test_a_write_lost_by_a_promotion_is_sent_again() -> None:
    store, answers = EndingStore(), list[Exception | None]()
    async with seated(store) as node:
        log = node.open()
        append(log, b"first")
        await node.durable(log)
        first, tables = store.sent[-1], store.tables
        tables.cut_standby()
        append(log, b"second")
        log.when_durable(2, answers.append)
        store.ended = [True, True, False]
        await until(lambda: not store.ended)
        tables.promote_standby()
        assert (tables.rows[1].write_no, len(tables.rows_of)) == (first, 1)
        await until(lambda: bool(answers))
        assert answers == [None]
        assert store.sent[-1] == first + 1
        # the proof comes late to the new primary, which has nothing: the node continues after it
        assert await TableStore.commit(store, 1, tables.rows[1].epoch, first + 2, 0, Changes(), 60_000)
        append(log, b"third")
        await node.durable(log)
    async with seated(store) as node:
        assert content(node.open()) == [(0, b"first"), (1, b"second"), (2, b"third")]


async def test_a_database_that_lost_an_acknowledged_write_ends_the_session() -> None:
    store, reasons = EndingStore(), list[str]()
    async with seated(store, reasons.append) as node:
        log = node.open()
        append(log, b"first")
        await node.durable(log)
        before = store.tables.rows[1]
        append(log, b"second")
        await node.durable(log)
        store.tables.rows[1] = before
        append(log, b"third")
        await until(lambda: bool(reasons))
        assert "has lost what this node has read or written" in reasons[0]
        assert log.durable_offset == 2


async def test_a_database_that_lost_read_rows_ends_the_session_at_the_next_write() -> None:
    """An asynchronous standby was promoted. This node has a replica of what others had written, and wrote nothing."""
    store, reasons = EndingStore(), list[str]()
    async with seated(store, reasons.append) as node:
        assert await node.writer.barrier.passed(store.session)
        store.tables.rows[1] = store.tables.rows[1]._replace(barrier=0)
        append(node.open(), b"first")
        await until(lambda: bool(reasons))
        assert "has lost what this node has read or written" in reasons[0]
        assert not store.tables.rows_of


async def test_a_read_barrier_finds_a_lost_write() -> None:
    store, reasons = EndingStore(), list[str]()
    async with seated(store, reasons.append) as node:
        before = store.tables.rows[1]
        log = node.open()
        append(log, b"first")
        await node.durable(log)
        store.tables.rows[1] = before
        with pytest.raises(StoreAway):
            await node.writer.barrier.passed(store.session)
        assert "has lost what this node has read or written" in reasons[0]


async def _barrier(store: EndingStore) -> ReadBarrier:
    registration = await store.register_node("a", "a", 1, 60_000)
    assert registration is not None
    return ReadBarrier(store, registration)


async def test_rows_read_over_another_connection_do_not_pass_the_barrier() -> None:
    store = EndingStore()
    barrier = await _barrier(store)
    session = store.session
    store.sessions += 1
    assert not await barrier.passed(session)
    assert store.tables.rows[1].barrier == 0
    assert await barrier.passed(store.session)
    assert store.tables.rows[1].barrier == 1


async def test_a_read_barrier_with_a_lost_answer_is_not_passed() -> None:
    store = EndingStore()
    barrier = await _barrier(store)
    store.ended = [True]
    with pytest.raises(StoreAway):
        await barrier.passed(store.session)
    assert barrier.number == 0
    assert await barrier.passed(store.session)
    assert barrier.number == store.tables.rows[1].barrier == 2


async def test_callers_that_wait_for_a_barrier_share_the_next_one() -> None:
    store = EndingStore()
    barrier = await _barrier(store)
    assert await asyncio.gather(*[barrier.passed(store.session) for _ in range(10)]) == [True] * 10
    assert store.tables.rows[1].barrier == 2  # the first pass had begun before the others asked


class _Topics:
    """Counts the applied rows, as `Topics` does."""

    def __init__(self) -> None:
        self.state: Any = MetadataState()
        self.taken: list[bytes] = []

    def applying_batches(self, data: bytes) -> Any:
        self.taken.append(data)
        self.state = SimpleNamespace(version=self.state.version + 1)
        return
        yield None


async def _metadata_log(store: EndingStore, monkeypatch: pytest.MonkeyPatch) -> tuple[SharedMetadataLog, _Topics]:
    shared_log = SharedMetadataLog(store, LoopClock(asyncio.get_running_loop()), lambda: "mine", await _barrier(store))
    topics = _Topics()
    shared_log.topics, shared_log.job_queue = topics, None
    monkeypatch.setattr(shared_metadata_log, "AGAIN_MS", 1)

    async def to_its_end(_: object, job: Any) -> Any:
        for _ in job:
            pass

    monkeypatch.setattr(shared_metadata_log, "to_its_end", to_its_end)
    return shared_log, topics


async def test_a_row_of_the_metadata_log_is_used_only_when_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    store = EndingStore()
    shared_log, topics = await _metadata_log(store, monkeypatch)
    store.tables.log[0] = MetadataRow(0, 1, "another", b"row")
    store.ended = [True]
    with pytest.raises(StoreAway):
        await shared_log.follow()
    assert not topics.taken
    # a standby without the row is promoted: another row is in its place
    store.tables.log[0] = MetadataRow(0, 1, "another", b"other row")
    await shared_log.follow()
    assert topics.taken == [b"other row"]


async def test_each_reconnect_checks_for_lost_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    store = EndingStore()
    shared_log, _ = await _metadata_log(store, monkeypatch)
    for is_new, expected in ((False, 1), (False, 1), (True, 2), (False, 2)):
        store.sessions += is_new
        await shared_log.follow()
        assert store.tables.rows[1].barrier == expected


@pytest.mark.parametrize("outcomes", [[True, None], [True, True, None], [False, None, True, None], [None, True, None]])
async def test_a_row_with_a_lost_answer_counts_when_it_is_durable(
    monkeypatch: pytest.MonkeyPatch, outcomes: Sequence[bool | None]
) -> None:
    """The outcomes are, in turn, those of the row's write and of the write that proves it."""
    store = EndingStore()
    shared_log, topics = await _metadata_log(store, monkeypatch)
    store.ended = list(outcomes)
    row = MetadataRow(0, 1, "mine", b"my row")
    assert await shared_log._write(row, (), {})
    assert topics.taken == [b"my row"]
    assert store.tables.rows[1].barrier == shared_log._barrier.number > 0
    assert not shared_log._writers


async def test_a_row_that_another_node_wrote_first_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    store = EndingStore()
    shared_log, topics = await _metadata_log(store, monkeypatch)
    store.tables.log[0] = MetadataRow(0, 1, "another", b"another row")
    assert not await shared_log._write(MetadataRow(0, 1, "mine", b"my row"), (), {})
    assert topics.taken == [b"another row"]


async def test_a_row_that_was_seen_and_lost_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = EndingStore()
    shared_log, topics = await _metadata_log(store, monkeypatch)
    tables = store.tables
    tables.cut_standby()
    barrier = TableStore.barrier

    async def promoted(self: Any, *all_: Any, **how: Any) -> bool:
        if tables.waits_for_standby:
            tables.promote_standby()
            store.sessions += 1
            raise StoreAway("the primary is gone")
        return await barrier(self, *all_, **how)

    monkeypatch.setattr(TableStore, "barrier", promoted)
    store.ended = [True, True]
    assert await shared_log._write(MetadataRow(0, 1, "mine", b"my row"), (), {})
    assert topics.taken == [b"my row"]
    assert tables.log[0].writer == "mine"


def test_a_node_registers_with_an_empty_read_barrier() -> None:
    tables = Tables(World(Random(1)))
    assert tables.register_node("a", "a", 1, 60_000) == NodeRegistration(1, 1, 0, 0, "a", "a", 60_000, 0)
    assert tables.barrier(1, 1, 1, 0, 0)
    taken = tables.register_node("a", "a", 1, 60_000)
    assert taken is not None
    assert (taken.epoch, taken.barrier) == (2, 0)
