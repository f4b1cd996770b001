"""A server and aiokafka's clients on one loop in virtual time: a run that is played again is the same."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from muster.testing import AsyncMuster, CannotBeDone, Muster, WaitFailed, WrongValue
from muster.testing.faults import Error, Hold, Match, times
from muster.testing.play.loop import PlayLoop, TimeIsUp

Read = list[tuple[str, int, int, int]]


@asynccontextmanager
async def working(muster: AsyncMuster, name: str, read: Read) -> AsyncIterator[asyncio.Event]:
    """A consumer that works until the event is set."""
    over = asyncio.Event()
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=muster.bootstrap_servers,
        group_id="billing",
        client_id=name,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
    )

    async def work() -> None:
        await consumer.start()
        try:
            while not over.is_set():
                for at, records in (await consumer.getmany(timeout_ms=200)).items():
                    read.extend((name, at.partition, one.offset, one.timestamp) for one in records)
        finally:
            await consumer.stop()

    task = asyncio.create_task(work())
    try:
        yield over
    finally:
        over.set()
        await task


async def a_day_at_work(muster: AsyncMuster) -> dict[str, Any]:
    """Three consumers join at the same time; records come, a session ends, one leaves; an hour passes."""
    group, read = muster.group("billing"), Read()
    async with working(muster, "a", read), working(muster, "b", read), working(muster, "c", read) as third:
        first = await group.wait_stable(members=3, partitions="orders")
        async with AIOKafkaProducer(bootstrap_servers=muster.bootstrap_servers) as producer:
            for number in range(20):
                await producer.send("orders", b"%d" % number, key=b"%d" % (number % 7))
        await group.wait_consumed("orders")
        await group.expire("b")
        await group.wait_until(
            lambda now: now.is_stable and now.generation > first.generation and len(now.members) == 3
        )
        third.set()
        last = await group.wait_stable(members=2, partitions="orders")
        await asyncio.sleep(20)
    await group.wait_until(lambda now: not now.members, what="is empty")
    events = await group.events()
    return {
        "joined": [str(one["member"]) for one in events if one["kind"] == "member_joined"][:3],
        "members": [one.member_id for one in first.members],
        "assignments": (first.assignment, last.assignment),
        "generations": (first.generation, last.generation),
        "read": read,
        "events": events,
        "history": await group.history(),
        "cluster": muster.sync.groups,
    }


def test_a_seed_always_gives_the_same_run_of_a_play() -> None:
    runs = {seed: Muster(topics={"orders": 6}, seed=seed).play(a_day_at_work) for seed in range(3)}
    assert len(runs[0]["read"]) == 20
    assert len(runs[0]["events"]) > 15
    assert Muster(topics={"orders": 6}, seed=1).play(a_day_at_work) == runs[1]
    assert len({tuple(run["joined"]) for run in runs.values()}) > 1
    assert len({tuple(run["members"]) for run in runs.values()}) == len(runs)


def test_a_play_does_not_wait_in_real_time() -> None:
    async def story(muster: AsyncMuster) -> float:
        loop = asyncio.get_running_loop()
        began, before = loop.time(), await muster.time.now()
        await asyncio.sleep(1_800)
        assert 1_800_000 <= (await muster.time.now()).wall_ms - before.wall_ms < 1_801_000
        with pytest.raises(WaitFailed, match="is stable"):
            await muster.group("nobody").wait_stable(members=1, timeout=600)
        assert await asyncio.to_thread(lambda: 5) == 5
        return loop.time() - began

    began = time.process_time()
    assert 2_400 <= Muster().play(story) < 2_401
    assert time.process_time() - began < 300  # and not the 2,400 s of virtual time


def test_servers_and_nodes_in_a_play_are_killed_and_restarted() -> None:
    async def story(muster: AsyncMuster) -> list[str]:
        assert muster.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
        read, group = Read(), muster.group("billing")
        async with working(muster, "a", read):
            before = await group.wait_stable(members=1, partitions="orders")
            # verbs that need not be awaited work without `await`, too
            await (await muster.coordinator("billing")).stop()
            assert sorted(node.state for node in muster.sync.nodes) == ["stopped", "up", "up"]
            await group.wait_until(lambda now: now.is_stable and now.node not in (before.node, -1))
            await muster.restart()
            await group.wait_stable(members=1, partitions="orders")
            await muster.kill()
            with pytest.raises(CannotBeDone, match="does not run"):
                await muster.kill()
            await muster.start()
            with pytest.raises(CannotBeDone, match="runs already"):
                await muster.start()
            with pytest.raises(CannotBeDone, match="awaited"):
                muster.sync.restart()
            await muster.topic("orders").produce("x")
            await group.wait_consumed("orders")
        with pytest.raises(RuntimeError, match="await it"):
            muster.sync.topic("orders").produce("x")
        return [name for name, *_ in read]

    assert Muster(topics={"orders": 3}, nodes=3).play(story) == ["a"]


def test_faults_scenarios_and_time_work_in_a_play() -> None:
    async def story(muster: AsyncMuster) -> None:
        read, group = Read(), muster.group("billing")
        async with working(muster, "a", read):
            before = await group.wait_stable(members=1)
            async with await muster.faults.add(Match(api="Heartbeat"), Error("UNKNOWN_MEMBER_ID"), times(1)) as rule:
                # the group waits for the member, whose consumer sees it as gone, until its session expires
                await group.wait_until(lambda now: now.is_stable and now.generation > before.generation, timeout=30)
                assert rule.hits == 1
            before = await group.describe()
            async with await muster.scenario("rebalance-storm", group="billing", times=3, every_ms=10_000) as storm:
                await asyncio.sleep(60)
                assert storm.is_done
            after = await group.wait_stable(members=1)
            assert after.generation >= before.generation + 3
            async with await muster.faults.add(Match(api="Heartbeat"), Hold("before")):
                await muster.time.freeze()
                await muster.time.advance(60_000)  # no request reaches the server
                assert not (await group.describe()).members
            await muster.time.thaw()
            await group.wait_stable(members=1)

    Muster(topics={"orders": 3}, group_min_session_timeout_ms=100).play(story)


def test_a_play_that_never_ends_fails_with_its_position() -> None:
    async def story(_: AsyncMuster) -> None:
        await asyncio.Event().wait()  # in this process

    with pytest.raises(TimeIsUp, match="not ended after 60 s of virtual time; the story was here:") as failure:
        Muster().play(story, limit_s=60)
    assert "await asyncio.Event().wait()  # in this process" in str(failure.value)

    loop = PlayLoop(0)
    with pytest.raises(TimeIsUp, match="no timer and no event is left"):
        loop.run_until_complete(asyncio.Event().wait())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_errors_of_a_play_are_raised_and_open_clients_closed() -> None:
    async def story(muster: AsyncMuster) -> None:
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=muster.bootstrap_servers, group_id="billing")
        with pytest.raises(ZeroDivisionError):
            await muster.group("g").wait_until(lambda _: 1 / 0)
        await consumer.start()
        await consumer.stop()
        raise LookupError("as it was")

    with pytest.raises(LookupError, match="as it was"):
        Muster(topics={"orders": 1}).play(story)
    assert AIOKafkaConsumer.__module__  # aiokafka uses its own time again
    from aiokafka import client

    assert client.time is time


def test_unsupported_verbs_of_a_play_are_refused(tmp_path: Path) -> None:
    async def story(muster: AsyncMuster) -> None:
        producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError, match="no TLS"):
            await loop.create_connection(asyncio.Protocol, "h", 9092, ssl=ssl.create_default_context())
        assert muster.sync.topics == []

    Muster().play(story)
    for given in ({"directory": tmp_path}, {"process": True}):
        with pytest.raises(WrongValue, match="in memory"):
            Muster(**given).play(story)
    with pytest.raises(WrongValue, match="story is 5; a function"):
        Muster().play(5)


async def test_a_play_inside_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="event loop of its own"):
        Muster().play(a_day_at_work)


class Far:
    """A listener in the play's process."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def accept(self, wire: Any) -> None:
        wire.opened(Keeps(self.got))


class Keeps(asyncio.Protocol):
    def __init__(self, got: list[Any]) -> None:
        self.got = got

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.got.append(transport)

    def data_received(self, data: bytes) -> None:
        self.got.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.got.append(error)


@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_connection_in_virtual_time_delivers_and_closes(end: str) -> None:
    async def story() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.process.listeners[9092] = listener = Far()
        near, _ = await loop.create_connection(lambda: Keeps([]), "somewhere", 9092)
        got = listener.got
        await asyncio.sleep(1)
        far = got[0]
        far.pause_reading()
        near.writelines([b"a", b"b"])
        near.write(b"c")
        await asyncio.sleep(1)
        assert (got[1:], near.get_write_buffer_size(), near.can_write_eof()) == ([], 0, False)
        far.resume_reading()
        await asyncio.sleep(1)
        assert b"".join(got[1:]) == b"abc"
        near.write(b"d")
        getattr(near, end)()
        near.write(b"e")
        near.close()
        await asyncio.sleep(1)
        assert got[-2] == b"d"
        assert isinstance(got[-1], ConnectionResetError) if end == "abort" else got[-1] is None
        assert (near.is_closing(), far.is_closing()) == (True, True)

    loop = PlayLoop(1)
    loop.run_until_complete(story())
    loop.close()
