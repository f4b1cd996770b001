"""The verbs for groups, on a running server with real consumers: aiokafka (classic protocol) and librdkafka
(KIP-848).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from muster.coordinator.log import batches
from muster.coordinator.server import Server
from muster.testcontrol.errors import CannotBeDone, WaitFailed
from muster.testcontrol.groups import Groups
from muster.testcontrol.interceptors import held_acknowledgements, held_joins
from muster.testcontrol.shares import Shares
from tests.e2e.aio import consuming
from tests.e2e.sync_clients import confluent_consumer
from tests.support.muster import running


@dataclass
class World:
    """A server with a topic "orders" of six partitions."""

    server: Server
    groups: Groups

    @property
    def bootstrap(self) -> str:
        bound = self.server.bound[0]
        return f"{bound.host}:{bound.port}"

    def append(self, topic: str, partition: int, count: int) -> None:
        there = self.server.topics.open.partition(topic, partition)
        assert there is not None
        now = self.server.clock.now()
        rows = [(None, str(number).encode()) for number in range(count)]
        there.log.append(there.leader_epoch, batches.build(rows, timestamp_ms=now.wall_ms), wall_ms=now.wall_ms)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    joins = held_joins()
    properties = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
    async with running(properties, topics=["orders:6"], intercept=joins.intercept) as server:
        yield World(server, Groups(server, joins, held_acknowledgements(), Shares(server)))


@contextmanager
def polled(bootstrap: str, group_id: str, topic: str, **settings: Any) -> Iterator[Any]:
    """A consumer of the consumer protocol. A thread polls it and commits what it has read."""
    over = threading.Event()

    with confluent_consumer(bootstrap, group_id=group_id, group_protocol="consumer", **settings) as consumer:
        consumer.subscribe([topic])

        def poll() -> None:
            while not over.is_set():
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    consumer.commit(message=message, asynchronous=False)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield consumer
        finally:
            over.set()
            thread.join()


async def test_an_unknown_group_is_described_as_dead(world: World) -> None:
    group = world.groups.describe("nobody")
    assert (group.state, group.members, group.is_stable, group.total_lag) == ("Dead", (), False, 0)
    assert await world.groups.history("nobody") == []
    assert world.groups.ids() == []
    assert str(group) == "there is no group nobody"


async def test_a_stable_group_is_waited_for_and_described(world: World) -> None:
    async with AsyncExitStack() as stack:
        for client in ("a", "b", "c"):
            await stack.enter_async_context(consuming(world.bootstrap, "orders", group_id="g", client_id=client))
        group = await world.groups.wait_stable("g", members=3, partitions="orders")
        assert (group.kind, group.state, group.protocol) == ("classic", "Stable", "roundrobin")
        assert sorted(len(one.assignment["orders"]) for one in group.members) == [2, 2, 2]
        assert sorted(group.assignment["orders"]) == [0, 1, 2, 3, 4, 5]
        assert [one.is_leader for one in group.members].count(True) == 1
        assert {one.subscribed for one in group.members} == {("orders",)}
        member = group.member("b")
        assert member is not None
        assert member.doing == "has its assignment"
        assert world.groups.ids() == ["g"]
        history = await world.groups.history("g")
        assert any("3 members" in line for line in history), history
        as_json = group.as_json()
        assert as_json["stable"] is True
        assert as_json["assignment"]["orders"].keys() == {"0", "1", "2", "3", "4", "5"}


async def test_a_wait_ends_when_an_offset_is_committed(world: World) -> None:
    for partition in range(6):
        world.append("orders", partition, 2)
    async with consuming(world.bootstrap, "orders", group_id="g") as consumer:
        reader = asyncio.create_task(world.groups.wait_consumed("g", "orders"))
        read = 0
        while read < 12:
            found = await consumer.getmany(timeout_ms=1000)
            read += sum(len(rows) for rows in found.values())
            await consumer.commit()
        group = await reader
        assert group.offsets == {"orders": dict.fromkeys(range(6), 2)}
        assert group.total_lag == 0
        world.append("orders", 3, 5)
        group = world.groups.describe("g")
        assert group.lag["orders"] == {0: 0, 1: 0, 2: 0, 3: 5, 4: 0, 5: 0}
        assert "lag of orders: 3: 5" in str(group)
        assert (await world.groups.wait_consumed("g", up_to={("orders", 3): 2})).total_lag == 5


async def test_a_failed_wait_reports_what_happened(world: World) -> None:
    async with consuming(world.bootstrap, "orders", group_id="g", client_id="lonely"):
        with pytest.raises(WaitFailed) as failed:
            await world.groups.wait_stable("g", members=2, partitions=["orders", "no-such"], timeout_s=0.3)
    text = str(failed.value)
    assert "after 0.3 s: is stable with 2 members, and each partition of orders, no-such has an owner" in text
    assert "client lonely" in text
    assert "has orders 0 1 2 3 4 5" in text
    assert "joined" in text
    assert isinstance(failed.value, AssertionError)


async def test_a_predicate_is_evaluated_after_each_change(world: World) -> None:
    seen: list[str] = []

    def empty(group: Any) -> bool:
        seen.append(group.state)
        return group.state == "Empty"

    async with consuming(world.bootstrap, "orders", group_id="g"):
        await world.groups.wait_stable("g", members=1)
        waiting = asyncio.create_task(world.groups.wait_until("g", empty, what="is empty"))
    assert (await waiting).members == ()
    assert seen[-1] == "Empty"


async def test_an_error_in_a_predicate_is_raised(world: World) -> None:
    def broken(_: object) -> bool:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await world.groups.wait_until("g", broken)


async def test_a_rebalance_is_forced(world: World) -> None:
    async with (
        consuming(world.bootstrap, "orders", group_id="g"),
        consuming(world.bootstrap, "orders", group_id="g"),
    ):
        before = await world.groups.wait_stable("g", members=2)
        world.groups.rebalance("g")
        assert world.groups.describe("g").state == "PreparingRebalance"
        assert any("is to join again" in str(one) for one in world.groups.describe("g").members)
        with pytest.raises(CannotBeDone, match="in progress"):
            world.groups.rebalance("g")
        after = await world.groups.wait_until("g", lambda one: one.is_stable and one.generation > before.generation)
        assert len(after.members) == 2
        assert after.generation == before.generation + 1
        reported = await world.groups.events("g")
        assert reported[-1]["kind"] in ("rebalance_completed", "members_synced")
        assert [one["cause"] for one in reported if one["kind"] == "rebalance_completed"][-1] == "asked"


async def test_a_forced_rebalance_of_an_unknown_group_is_refused(world: World) -> None:
    for do in (
        lambda: world.groups.rebalance("g"),
        lambda: world.groups.expire("g", "x"),
        lambda: world.groups.remove("g", "x"),
    ):
        with pytest.raises(CannotBeDone, match="there is no"):
            do()


@pytest.mark.parametrize("verb", ["expire", "remove"])
async def test_a_member_can_be_removed(world: World, verb: str) -> None:
    async with (
        consuming(world.bootstrap, "orders", group_id="g", client_id="stays"),
        consuming(world.bootstrap, "orders", group_id="g", client_id="goes"),
    ):
        before = await world.groups.wait_stable("g", members=2)
        gone = before.member("goes")
        assert gone is not None
        getattr(world.groups, verb)("g", "goes")
        assert world.groups.describe("g").member(gone.member_id) is None
        # its consumer is answered UNKNOWN_MEMBER_ID, and joins again
        after = await world.groups.wait_until(
            "g", lambda one: one.is_stable and len(one.members) == 2 and one.member(gone.member_id) is None
        )
        assert after.member("goes") is not None
        kinds = [one["kind"] for one in await world.groups.events("g")]
        assert ("member_expired" if verb == "expire" else "member_left") in kinds


async def test_the_session_of_a_member_can_be_expired(world: World) -> None:
    async with (
        consuming(world.bootstrap, "orders", group_id="g", client_id="a", heartbeat_interval_ms=50),
        consuming(world.bootstrap, "orders", group_id="g", client_id="b", heartbeat_interval_ms=5000),
    ):
        await world.groups.wait_stable("g", members=2)
        world.groups.rebalance("g")
        await world.groups.wait_until(
            "g", lambda one: any(member.doing.startswith("has joined") for member in one.members)
        )
        world.groups.expire("g", "b")
        after = await world.groups.wait_stable("g", members=1)
        assert [one.client_id for one in after.members] == ["a"]


async def test_offsets_of_an_empty_group_are_reset(world: World) -> None:
    world.append("orders", 0, 4)
    assert await world.groups.reset_offsets("g", "latest", "orders") == {"orders": {0: 4, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0}}
    assert world.groups.describe("g").offsets["orders"][0] == 4
    assert (await world.groups.reset_offsets("g", "earliest"))["orders"][0] == 0
    assert await world.groups.reset_offsets("g", 3, ["orders"]) == {"orders": dict.fromkeys(range(6), 3)}
    assert await world.groups.reset_offsets("g", {("orders", 0): 1}) == {"orders": {0: 1}}
    assert world.groups.describe("g").offsets["orders"] == {0: 1, 1: 3, 2: 3, 3: 3, 4: 3, 5: 3}
    async with consuming(world.bootstrap, "orders", group_id="g"):
        await world.groups.wait_stable("g", members=1)
        with pytest.raises(CannotBeDone, match="has members"):
            await world.groups.reset_offsets("g", "latest")


@pytest.mark.parametrize(
    ("to", "topics"),
    [("latest", "nope"), ("latest", None), ({("orders", 6): 1}, None), ({("nope", 0): 1}, None)],
    ids=["no-topic", "no-topics", "no-partition", "no-topic-of-a-mapping"],
)
async def test_a_reset_of_unknown_offsets_is_refused(world: World, to: Any, topics: Any) -> None:
    with pytest.raises(CannotBeDone):
        await world.groups.reset_offsets("g", to, topics)


async def test_joins_are_held_and_released(world: World) -> None:
    world.groups.hold_joins("g")
    world.groups.hold_joins("g")
    async with AsyncExitStack() as stack:
        entering = [
            asyncio.create_task(stack.enter_async_context(consuming(world.bootstrap, "orders", group_id="g")))
            for _ in range(2)
        ]
        async with consuming(world.bootstrap, "orders", group_id="other"):
            await world.groups.wait_stable("other", members=1)
        await world.groups.wait_held("g", 2)
        assert world.groups.describe("g").state == "Dead"
        with pytest.raises(WaitFailed, match="2 joins are held back"):
            await world.groups.wait_stable("g", timeout_s=0)
        assert world.groups.release("g") == 2
        await world.groups.wait_stable("g", members=2, partitions="orders")
        await asyncio.gather(*entering)
        assert world.groups.release("g") == 0


async def test_the_test_control_works_on_a_consumer_group(world: World) -> None:
    groups, bootstrap = world.groups, world.bootstrap

    def both() -> Iterator[Any]:
        with polled(bootstrap, "g", "orders", client_id="a"), polled(bootstrap, "g", "orders", client_id="b"):
            yield

    for partition in range(6):
        world.append("orders", partition, 1)
    consumers = both()
    await asyncio.to_thread(next, consumers)
    try:
        group = await groups.wait_stable("g", members=2, partitions="orders")
        assert (group.kind, group.protocol) == ("consumer", "uniform")
        assert sorted(len(one.assignment["orders"]) for one in group.members) == [3, 3]
        assert {one.protocol for one in group.members} == {"consumer"}
        assert group.members[0].target == group.members[0].assignment
        await groups.wait_consumed("g", "orders")
        epoch = group.generation
        groups.rebalance("g")
        assert groups.describe("g").state == "Assigning"
        assert not groups.describe("g").is_stable
        group = await groups.wait_until("g", lambda one: one.is_stable and one.generation == epoch + 1)
        gone = group.member("b")
        assert gone is not None
        groups.expire("g", "b")
        assert [one.client_id for one in groups.describe("g").members] == ["a"]
        group = await groups.wait_stable("g", members=2, partitions="orders")  # it joins again, with the same id
        groups.remove("g", "a")
        await groups.wait_stable("g", members=2, partitions="orders")
        kinds = {one["kind"] for one in await groups.events("g")}
        assert {"member_expired", "member_left", "epoch_reconciled"} <= kinds
    finally:
        await asyncio.to_thread(next, consumers, None)
    # librdkafka does not always leave after it was just removed
    for member in groups.describe("g").members:
        groups.remove("g", member.member_id)
    assert groups.describe("g").state == "Empty"


async def test_joins_of_the_consumer_protocol_are_held(world: World) -> None:
    world.groups.hold_joins("g")

    def one() -> Iterator[Any]:
        with polled(world.bootstrap, "g", "orders"):
            yield

    consumers = one()
    await asyncio.to_thread(next, consumers)
    try:
        await world.groups.wait_held("g", 1)
        assert world.groups.describe("g").state == "Dead"
        world.groups.release("g")
        await world.groups.wait_stable("g", members=1, partitions="orders")
    finally:
        await asyncio.to_thread(next, consumers, None)
