"""Consumers share a topic, join, leave and die; no committed record is seen twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka import TopicPartition

from tests.e2e.aio import Member, administering, consuming, grow, members, send_numbered, shared_out
from tests.e2e.group_events import HAS_EVENTS, GroupEvents
from tests.e2e.ledger import Ledger, eventually
from tests.e2e.victim import victim
from tests.support.servers import ServerProcess

PARTITIONS = 8
NewTopic = Callable[[int], str]


async def test_three_members_read_every_record_once(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    trio = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b", "c")]
    async with members(*trio):
        await shared_out(trio, PARTITIONS)
        assert sorted(len(member.assignment) for member in trio) == [2, 3, 3]
        await send_numbered(server.bootstrap, topic, PARTITIONS, 400)
        await eventually(lambda: len(ledger) == 400, "400 records")
    assert ledger.offsets(topic) == {partition: list(range(50)) for partition in range(PARTITIONS)}
    assert not ledger.twice
    assert all(ledger.by(member.name) for member in trio)


async def test_nothing_is_read_twice_when_a_member_joins_and_one_leaves(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger, stop = new_topic(PARTITIONS), Ledger(), asyncio.Event()

    async def keep_sending() -> int:
        sent = 0
        while not stop.is_set():
            await send_numbered(server.bootstrap, topic, PARTITIONS, 40, first=sent)
            sent += 40
        return sent

    trio = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b", "c")]
    late = Member("late", ledger, server.bootstrap, [topic], group)
    async with members(*trio):
        await shared_out(trio, PARTITIONS)
        sending = asyncio.create_task(keep_sending())
        await eventually(lambda: all(ledger.by(member.name) for member in trio), "each to read")
        async with members(late):
            await shared_out([*trio, late], PARTITIONS)
            await eventually(lambda: ledger.by("late"), "the late one to read")
            await trio[0].stop()
            await shared_out([*trio[1:], late], PARTITIONS)
            seen = len(ledger)
            await eventually(lambda: len(ledger) > seen + 200, "the others to go on")
            stop.set()
            sent = await sending
            await eventually(lambda: len(ledger) == sent, f"all {sent} records")
    assert not ledger.twice
    assert ledger.offsets(topic) == {partition: list(range(sent // PARTITIONS)) for partition in range(PARTITIONS)}


async def test_the_partitions_of_a_killed_member_go_to_the_others_after_its_session(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    async with victim(server.bootstrap, topic, group) as doomed:
        pair = [Member(name, ledger, server.bootstrap, [topic], group, session_timeout_ms=1000) for name in ("a", "b")]
        async with members(*pair):
            await eventually(lambda: all(member.assignment for member in pair), "two to join the victim")
            assert sum(len(member.assignment) for member in pair) < PARTITIONS
            doomed.kill()
            await shared_out(pair, PARTITIONS)
            await send_numbered(server.bootstrap, topic, PARTITIONS, 80)
            await eventually(lambda: len(ledger) == 80, "80 records")
        if HAS_EVENTS:
            assert ("session_expired", "victim") in GroupEvents(server, group).causes()
    assert not ledger.twice


async def test_a_group_resumes_where_it_committed(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    for generation in range(3):
        await send_numbered(server.bootstrap, topic, PARTITIONS, 80)
        pair = [Member(f"{name}{generation}", ledger, server.bootstrap, [topic], group) for name in ("a", "b")]
        async with members(*pair):
            await eventually(lambda: len(ledger) == 80 * (generation + 1), "the new records")  # noqa: B023  # awaited here
    assert not ledger.twice


async def test_a_group_with_more_members_than_partitions_works(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(2), Ledger()
    trio = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b", "c")]
    async with members(*trio):
        await eventually(
            lambda: all(member.assignments for member in trio) and sum(len(m.assignment) for m in trio) == 2,
            "one to idle",
        )
        await send_numbered(server.bootstrap, topic, 2, 20)
        await eventually(lambda: len(ledger) == 20, "20 records")
    assert not ledger.twice


async def test_added_partitions_are_assigned(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic, ledger = new_topic(2), Ledger()
    pair = [Member(name, ledger, server.bootstrap, [topic], group, metadata_max_age_ms=200) for name in ("a", "b")]
    async with members(*pair), administering(server.bootstrap) as admin:
        await shared_out(pair, 2)
        await grow(admin, topic, 6)
        await shared_out(pair, 6)
        await send_numbered(server.bootstrap, topic, 6, 60)
        await eventually(lambda: len(ledger) == 60, "60 records")
    assert not ledger.twice


async def test_a_group_works_with_different_and_changing_subscriptions(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    one, two, ledger = new_topic(2), new_topic(2), Ledger()
    both = Member("both", ledger, server.bootstrap, [one, two], group)
    only_one = Member("only one", ledger, server.bootstrap, [one], group)
    async with members(both):
        await shared_out([both], 4)
        async with members(only_one):
            await shared_out([both, only_one], 4)
            assert {partition.topic for partition in only_one.assignment} == {one}
            only_one.subscribe([two])
            await eventually(lambda: {partition.topic for partition in only_one.assignment} == {two}, "the other topic")
            await shared_out([both, only_one], 4)
        await shared_out([both], 4)


async def test_a_partition_without_a_commit_has_no_offset(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(1)
    async with consuming(server.bootstrap, group_id=group) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert await consumer.committed(TopicPartition(topic, 0)) is None
