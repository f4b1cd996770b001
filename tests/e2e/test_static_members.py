"""Static membership (KIP-345): a member that returns in time gets its partitions again, and no other member notices."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError

from tests.e2e.aio import Member, consuming, members, send_numbered, shared_out
from tests.e2e.ledger import Ledger, eventually, eventually_sync
from tests.e2e.sync_clients import (
    commit_beginning,
    confluent_admin,
    confluent_consumer,
    confluent_member,
    confluent_produce,
    thread_members,
)
from tests.support.servers import ServerProcess

PARTITIONS = 6
NewTopic = Callable[[int], str]


async def test_a_restart_of_a_static_aiokafka_member_causes_no_rebalance(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    """aiokafka sends no LeaveGroup for a member with an instance id."""
    topic, ledger = new_topic(PARTITIONS), Ledger()

    def member(name: str, instance: str) -> Member:
        return Member(name, ledger, server.bootstrap, [topic], group, group_instance_id=instance)

    one, two = member("one", "i-1"), member("two", "i-2")
    async with members(one, two):
        await shared_out([one, two], PARTITIONS)
        settled = len(one.assignments)
        kept, expected = one.assignment, two.assignment
        await two.stop()
        again = member("again", "i-2")
        async with members(again):
            await shared_out([one, again], PARTITIONS)
            assert again.assignment == expected
            await send_numbered(server.bootstrap, topic, PARTITIONS, 60)
            await eventually(lambda: len(ledger) == 60, "60 records")
            assert one.assignment == kept
            assert len(one.assignments) == settled, "the other member was rebalanced"
    assert not ledger.twice


def test_a_restart_of_a_static_librdkafka_member_causes_no_rebalance(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    admin = confluent_admin(server.bootstrap)
    commit_beginning(server.bootstrap, topic, group, PARTITIONS)

    def described() -> list[tuple[str, set[int]]]:
        description = admin.describe_consumer_groups([group])[group].result(10)
        return sorted(
            (member.group_instance_id, {partition.partition for partition in member.assignment.topic_partitions})
            for member in description.members
        )

    one, two = (
        confluent_member(f"m{number}", ledger, server.bootstrap, topic, group, group_instance_id=f"i-{number}")
        for number in (1, 2)
    )
    with thread_members(one):
        with thread_members(two):
            eventually_sync(lambda: len(one.assignment) == len(two.assignment) == 3, "three partitions each")
            before, kept, given = described(), set(one.assignment), set(two.assignment)
            assert [instance for instance, _ in before] == ["i-1", "i-2"]
        assert described() == before
        again = confluent_member("again", ledger, server.bootstrap, topic, group, group_instance_id="i-2")
        with thread_members(again):
            eventually_sync(lambda: again.assignment == given, "the assignment it had")
            assert one.assignment == kept
            assert described() == before
            confluent_produce(server.bootstrap, topic, [(b"%d" % number, b"v") for number in range(60)])
            eventually_sync(lambda: len(ledger) == 60, "60 records")
    assert not ledger.twice


async def test_a_static_member_that_does_not_return_is_removed(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    settings = {"group_id": group, "session_timeout_ms": 700}
    one = Member("one", ledger, server.bootstrap, [topic], group, group_instance_id="i-1")
    async with members(one):
        async with consuming(server.bootstrap, topic, group_instance_id="i-2", **settings) as gone:
            await eventually(lambda: len(gone.assignment()) == len(one.assignment) == 3, "three partitions each")
        assert len(one.assignment) == 3
        await shared_out([one], PARTITIONS)


def test_the_later_of_two_members_with_one_instance_id_wins(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    settings = {"group_id": group, "group_instance_id": "i"}
    fenced: list[KafkaError] = []
    with (
        confluent_consumer(server.bootstrap, error_cb=fenced.append, **settings) as first,
        confluent_consumer(server.bootstrap, **settings) as second,
    ):

        def first_has_all() -> bool:
            message = first.poll(0.01)
            if message is not None and message.error() is not None:
                fenced.append(message.error())
            return len(first.assignment()) == PARTITIONS

        def second_has_all() -> bool:
            first_has_all()
            second.poll(0.01)
            return len(second.assignment()) == PARTITIONS

        def first_is_fenced() -> bool:
            first_has_all()
            return any("fenced" in error.str() for error in fenced)

        first.subscribe([topic])
        eventually_sync(first_has_all, "all partitions")
        second.subscribe([topic])
        eventually_sync(second_has_all, "all partitions again")
        eventually_sync(first_is_fenced, "the first one's fatal error")
