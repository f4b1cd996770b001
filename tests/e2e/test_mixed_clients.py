"""Groups of librdkafka and kafka-python members, and groups of all three clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.e2e.aio import Member, members, send_numbered
from tests.e2e.ledger import Ledger, eventually, eventually_sync
from tests.e2e.sync_clients import (
    KAFKA_PYTHON_RANGE,
    MEMBERS,
    ThreadMember,
    commit_beginning,
    confluent_member,
    confluent_produce,
    kafka_python_member,
    thread_members,
    threads_beside_the_loop,
)
from tests.support.servers import ServerProcess

PARTITIONS = 8
NewTopic = Callable[[int], str]


def shared_out(group: list[ThreadMember], partitions: int) -> None:
    def settled() -> bool:
        assignments = [member.assignment for member in group]
        union = set().union(*assignments)
        failed = [member.failure for member in group if member.failure]
        assert not failed, failed
        return len(union) == partitions == sum(map(len, assignments)) and all(assignments)

    eventually_sync(settled, f"{partitions} partitions to be shared out")


def produce(server: ServerProcess, topic: str, count: int) -> None:
    confluent_produce(server.bootstrap, topic, [(str(number).encode(), b"value") for number in range(count)])


@pytest.mark.parametrize("client", MEMBERS)
def test_groups_of_other_clients_share_a_topic_while_members_join_and_leave(
    server: ServerProcess, new_topic: NewTopic, group: str, client: str
) -> None:
    topic, ledger, make = new_topic(PARTITIONS), Ledger(), MEMBERS[client]
    commit_beginning(server.bootstrap, topic, group, PARTITIONS)
    trio = [make(name, ledger, server.bootstrap, topic, group) for name in ("a", "b", "c")]
    late = make("late", ledger, server.bootstrap, topic, group)
    with thread_members(*trio):
        shared_out(trio, PARTITIONS)
        produce(server, topic, 400)
        eventually_sync(lambda: len(ledger) == 400, "400 records")
        with thread_members(late):
            shared_out([*trio, late], PARTITIONS)
            trio[0].stop()
            shared_out([*trio[1:], late], PARTITIONS)
            produce(server, topic, 400)
            eventually_sync(lambda: len(ledger) == 800, "800 records")
    assert not ledger.twice


def test_cooperative_members_keep_partitions_while_another_joins(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    commit_beginning(server.bootstrap, topic, group, PARTITIONS)
    one, two = (
        confluent_member(
            name, ledger, server.bootstrap, topic, group, partition_assignment_strategy="cooperative-sticky"
        )
        for name in ("one", "two")
    )
    with thread_members(one):
        shared_out([one], PARTITIONS)
        before = set(one.assignment)
        with thread_members(two):
            shared_out([one, two], PARTITIONS)
            assert len(one.assignment) == len(two.assignment) == PARTITIONS // 2
            assert one.assignment < before
            produce(server, topic, 200)
            eventually_sync(lambda: len(ledger) == 200, "200 records")
            assert not ledger.twice
        shared_out([one], PARTITIONS)


async def test_members_of_all_three_clients_share_one_group(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    commit_beginning(server.bootstrap, topic, group, PARTITIONS)
    aio = Member(
        "aio", ledger, server.bootstrap, [topic], group, partition_assignment_strategy=(RangePartitionAssignor,)
    )
    confluent = confluent_member(
        "confluent", ledger, server.bootstrap, topic, group, partition_assignment_strategy="range"
    )
    python = kafka_python_member(
        "python", ledger, server.bootstrap, topic, group, partition_assignment_strategy=(KAFKA_PYTHON_RANGE,)
    )
    async with members(aio), threads_beside_the_loop(confluent, python):
        await eventually(
            lambda: (
                sorted([len(aio.assignment), len(confluent.assignment), len(python.assignment)]) == [2, 3, 3]
                and len({(p.topic, p.partition) for p in aio.assignment} | confluent.assignment | python.assignment)
                == PARTITIONS
            ),
            "the three to share",
        )
        await send_numbered(server.bootstrap, topic, PARTITIONS, 240)
        await eventually(lambda: len(ledger) == 240, "240 records")
    assert not ledger.twice
    assert {name: len(ledger.by(name)) % 30 for name in ("aio", "confluent", "python")} == dict.fromkeys(
        ("aio", "confluent", "python"), 0
    )
