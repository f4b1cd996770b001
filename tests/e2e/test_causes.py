"""Stories 4 and 5, and other causes of rebalances, with real clients. The cause and the client are read from
`__group_events`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from confluent_kafka.admin import NewPartitions

from tests.e2e.aio import Member, administering, consuming, grow, members, shared_out
from tests.e2e.group_events import GroupEvents, with_events
from tests.e2e.ledger import Ledger, eventually, eventually_sync
from tests.e2e.sync_clients import (
    MEMBERS,
    confluent_admin,
    confluent_consumer,
    confluent_member,
    kafka_python_consumer,
    thread_members,
)
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]
pytestmark = with_events


async def test_a_changed_subscription_is_the_cause_in_the_history(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    one, two, group_events = new_topic(2), new_topic(2), GroupEvents(server, group)
    both = Member("both", Ledger(), server.bootstrap, [one, two], group)
    fickle = Member("fickle", Ledger(), server.bootstrap, [one], group)
    async with members(both):
        await shared_out([both], 4)
        async with members(fickle):
            await shared_out([both, fickle], 4)
            group_events.forget()
            fickle.subscribe([two])
            await eventually(lambda: {partition.topic for partition in fickle.assignment} == {two}, "the other topic")
            await shared_out([both, fickle], 4)
            assert group_events.causes() == [("subscription_changed", "fickle")]


async def test_a_topic_that_grew_is_the_cause_in_the_history(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, group_events = new_topic(2), GroupEvents(server, group)
    pair = [Member(name, Ledger(), server.bootstrap, [topic], group, metadata_max_age_ms=200) for name in ("a", "b")]
    async with members(*pair), administering(server.bootstrap) as admin:
        await shared_out(pair, 2)
        leader = group_events("rebalance_completed")[-1]["leader"]
        group_events.forget()
        await grow(admin, topic, 6)
        await shared_out(pair, 6)
        (began,) = group_events("rebalance_started")
        assert (began["cause"], began["trigger"]["member"]) == ("partitions_changed", leader)


def test_a_topic_that_grew_is_the_cause_in_the_history_with_librdkafka(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, group_events = new_topic(2), GroupEvents(server, group)
    pair = [
        confluent_member(
            name,
            Ledger(),
            server.bootstrap,
            topic,
            group,
            topic_metadata_refresh_interval_ms=200,
            metadata_max_age_ms=200,
        )
        for name in ("a", "b")
    ]

    def shared(partitions: int) -> bool:
        return [len(member.assignment) for member in pair] == [partitions // 2] * 2

    with thread_members(*pair):
        eventually_sync(lambda: shared(2), "two to share two")
        leader = group_events("rebalance_completed")[-1]["leader"]
        group_events.forget()
        admin = confluent_admin(server.bootstrap)
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(30)
        eventually_sync(lambda: shared(6), "two to share six")
        began = group_events("rebalance_started")[0]
        assert (began["cause"], began["trigger"]["member"]) == ("partitions_changed", leader)


@contextmanager
def slow_confluent(bootstrap: str, topic: str, group: str) -> Iterator[Callable[[], int]]:
    """A consumer that polls only when the returned function is called. The function returns the number of its
    partitions.
    """
    settings = {"client_id": "slow", "group_id": group, "session_timeout_ms": 1000, "max_poll_interval_ms": 1000}
    with confluent_consumer(bootstrap, **settings) as consumer:

        def poll() -> int:
            consumer.poll(0.01)
            return len(consumer.assignment())

        consumer.subscribe([topic])
        yield poll


@contextmanager
def slow_kafka_python(bootstrap: str, topic: str, group: str) -> Iterator[Callable[[], int]]:
    """Does the same as `slow_confluent`."""
    settings = {"client_id": "slow", "group_id": group, "max_poll_interval_ms": 500}
    with kafka_python_consumer(bootstrap, **settings) as consumer:

        def poll() -> int:
            consumer.poll(timeout_ms=10)
            return len(consumer.assignment())

        consumer.subscribe([topic])
        assert topic in consumer.topics()
        yield poll


SLOW = {"confluent-kafka": slow_confluent, "kafka-python": slow_kafka_python}


@pytest.mark.parametrize("client", MEMBERS)
def test_a_member_that_polls_too_slowly_leaves_by_itself(
    server: ServerProcess, new_topic: NewTopic, group: str, client: str
) -> None:
    """The client itself sees that its application does not poll; the coordinator sees only that it leaves, without a
    reason.
    """
    topic, group_events = new_topic(4), GroupEvents(server, group)
    quick = MEMBERS[client]("quick", Ledger(), server.bootstrap, topic, group)

    def causes() -> list[tuple[str, str]]:
        # kafka-python's leader joins again without need when it sees a rebalance only after its end
        return [(cause, who) for cause, who in group_events.causes() if cause != "leader_rejoined"]

    with thread_members(quick), SLOW[client](server.bootstrap, topic, group) as poll:
        eventually_sync(lambda: poll() == len(quick.assignment) == 2, "two to share")
        group_events.forget()
        eventually_sync(lambda: len(quick.assignment) == 4, "the slow one's share")
        assert causes() == [("member_left", "slow")]
        assert [value["reason"] for value in group_events("member_left")] == [None]
        eventually_sync(lambda: poll() == len(quick.assignment) == 2, "two to share again")
        assert causes() == [("member_left", "slow"), ("member_joined", "slow")]


async def test_an_aiokafka_member_that_polls_too_slowly_leaves_by_itself(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, group_events = new_topic(4), GroupEvents(server, group)
    quick = Member("quick", Ledger(), server.bootstrap, [topic], group)
    settings = {"group_id": group, "client_id": "slow", "max_poll_interval_ms": 500}
    async with members(quick), consuming(server.bootstrap, topic, **settings) as slow:

        async def shared() -> None:
            while not len(slow.assignment()) == len(quick.assignment) == 2:
                await slow.getmany(timeout_ms=10)

        await asyncio.wait_for(shared(), 30)
        group_events.forget()
        await shared_out([quick], 4)
        assert group_events.causes() == [("member_left", "slow")]
        await asyncio.wait_for(shared(), 30)
        assert group_events.causes() == [("member_left", "slow"), ("member_joined", "slow")]


async def test_a_member_that_does_not_join_again_in_time_is_removed(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    """The member's application takes longer in the listener than the rebalance timeout; its client sends heartbeats all
    the time.
    """
    topic, group_events, done = new_topic(4), GroupEvents(server, group), asyncio.Event()
    done.set()

    class Busy(Member):
        async def revoked(self) -> None:
            await super().revoked()
            await done.wait()

    busy, late = (
        kind(name, Ledger(), server.bootstrap, [topic], group, rebalance_timeout_ms=1000)
        for kind, name in ((Busy, "busy"), (Member, "late"))
    )
    async with members(busy), AsyncExitStack() as block:
        await shared_out([busy], 4)
        done.clear()
        block.callback(done.set)
        await block.enter_async_context(members(late))
        await shared_out([late], 4)
        (removed,) = group_events("member_removed")
        assert (removed["cause"], removed["member"]["client_id"]) == ("join_timeout", "busy")
        done.set()
        await shared_out([busy, late], 4)
        assert group_events.causes() == [("member_joined", name) for name in ("busy", "late", "busy")]
