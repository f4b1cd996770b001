"""Logs that are fetched when leadership begins."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

from muster.coordinator.log import MemoryStorage
from muster.coordinator.system.clock import LoopClock, ManualClock
from muster.coordinator.system.jobs import JobQueue
from muster.postgres.led_partitions import AT_ONCE, MAX_LONG, LedPartitions
from muster.postgres.local_replica import PART
from muster.postgres.store import BatchRow, LogRow, SegmentRow, StoreAway
from muster.virtual.world import World
from tests.postgres.stores import passing, table_store
from tests.postgres.test_node_session import ORDERS, append, seated, until


class Forgetful(MemoryStorage):
    """A storage whose files keep nothing: written bytes are only counted."""

    def file(self, path: str) -> Any:
        return SimpleNamespace(
            path=path, truncate=lambda _: None, pwrite=lambda *_: None, close=lambda: None, pread=lambda *_: b""
        )


async def test_a_registration_lost_during_a_fetch_of_logs_ends_the_session() -> None:
    store = table_store(World(Random(1)))
    async with seated(store) as node:
        append(node.open(), b"one")
    topic: Any = SimpleNamespace(
        name="orders", topic_id=ORDERS, leader_epoch=lambda _: 0, partitions=[SimpleNamespace(leader=1)]
    )
    topics: Any = SimpleNamespace(
        state=SimpleNamespace(topics={"orders": topic}, topics_by_id={ORDERS: topic}),
        open=SimpleNamespace(partition=lambda *_: None),
    )
    writer: Any = SimpleNamespace(has_ended=False, barrier=passing())
    clock, arrived = ManualClock(), list[object]()

    async def follow() -> None:
        raise AssertionError("nobody has led it since")

    held = LedPartitions(
        1, store, MemoryStorage(), writer, clock, topics, lambda *what: arrived.append(what), follow, JobQueue(clock)
    )
    held.check()
    await until(lambda: bool(clock._timers))  # a part was written, and other jobs run
    await held.stop()
    clock.advance(0)
    await asyncio.sleep(0)
    assert not arrived


async def test_logs_that_come_in_the_same_moment_share_a_write() -> None:
    store, count = table_store(World(Random(1))), 40
    names = [bytes([number]) * 16 for number in range(count)]
    for number, name in enumerate(names):
        store.tables.logs[number] = LogRow(number, f"t{number}", 0, name, 0)
    topics_by_id: dict[bytes, Any] = {
        name: SimpleNamespace(
            name=f"t{number}", topic_id=name, leader_epoch=lambda _: 0, partitions=[SimpleNamespace(leader=1)]
        )
        for number, name in enumerate(names)
    }
    topics: Any = SimpleNamespace(
        state=SimpleNamespace(topics={one.name: one for one in topics_by_id.values()}, topics_by_id=topics_by_id),
        open=SimpleNamespace(partition=lambda *_: None, open_led_partition=lambda *_: None),
        logs=SimpleNamespace(get=lambda *_: None, note_copy=lambda *_: None),
    )
    barrier, passed, arrived = passing(), list[int](), list[object]()

    async def passes(session: int) -> bool:
        passed.append(session)
        return True

    barrier.passed = passes
    writer: Any = SimpleNamespace(has_ended=False, barrier=barrier, pending=SimpleNamespace(lead=lambda *_: None))
    clock = LoopClock(asyncio.get_running_loop())

    async def follow() -> None:
        raise AssertionError("nobody has led it since")

    held = LedPartitions(
        1, store, MemoryStorage(), writer, clock, topics, lambda *what: arrived.append(what), follow, JobQueue(clock)
    )
    copy, copying, most = held._fetch_log, 0, 0

    async def counting(wanted: Any) -> Any:
        nonlocal copying, most
        copying += 1
        most = max(most, copying)
        await asyncio.sleep(0)
        found = await copy(wanted)
        copying -= 1
        return found

    held._fetch_log = counting
    held.check()
    await until(lambda: len(arrived) == count)
    await held.stop()
    assert most == AT_ONCE
    assert 1 <= len(passed) < count // 2
    assert held.missing == held._passing == 0


async def test_large_logs_do_not_delay_others() -> None:
    asked: list[bytes] = []
    most = AT_ONCE + MAX_LONG + 1
    names = [bytes([number]) * 16 for number in range(most)]
    is_over = asyncio.Event()

    class Endless:
        """Each log has one segment, which does not end until `is_over`."""

        async def log(self, topic_id: bytes, partition: int) -> LogRow:
            asked.append(topic_id)
            return LogRow(len(asked), "t", partition, topic_id, 0)

        async def segments(self, log_no: int) -> list[SegmentRow]:
            return [SegmentRow(log_no, log_no, 0)]

        async def checkpoint(self, _: int) -> None:
            return None

        async def batches(self, segment_no: int, since: int) -> list[BatchRow]:
            if is_over.is_set():
                raise StoreAway("it is over")
            await asyncio.sleep(0)
            return [BatchRow(segment_no, since, since + 1, bytes(PART))]

    topics_by_id: dict[bytes, Any] = {
        one: SimpleNamespace(
            name=f"t{one[0]}", topic_id=one, leader_epoch=lambda _: 0, partitions=[SimpleNamespace(leader=1)]
        )
        for one in names
    }
    topics: Any = SimpleNamespace(
        state=SimpleNamespace(topics={one.name: one for one in topics_by_id.values()}, topics_by_id=topics_by_id),
        open=SimpleNamespace(partition=lambda *_: None),
        logs=SimpleNamespace(get=lambda *_: None),
    )
    writer: Any = SimpleNamespace(has_ended=False, barrier=passing())
    clock, loop_clock = ManualClock(), LoopClock(asyncio.get_running_loop())
    clock.call_soon = loop_clock.call_soon
    store: Any = Endless()
    storage: Any = Forgetful()

    async def follow() -> None:
        raise AssertionError("nobody has led it since")

    held = LedPartitions(1, store, storage, writer, clock, topics, lambda *_: None, follow, JobQueue(clock))
    held.check()
    # each log that may be long lets the next one start; the last one waits
    await until(lambda: len(asked) == AT_ONCE + MAX_LONG)
    writer.has_ended = True
    is_over.set()
    await until(lambda: not held._tasks)
    assert held._long == 0
    assert asked == names[:-1]
