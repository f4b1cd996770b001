"""Stories 2, 11, 12, 13, 15 and 16 with aiokafka consumers that use Muster's strategies. The tests measure what
moved.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from muster.assignors.aiokafka import strategy
from muster.assignors.assignor import Assignment, Member, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS
from muster.assignors.measures import Moves, moves, skew, stickiness, total
from tests.assignors.mission import EXAMPLES, Example
from tests.e2e import aio
from tests.e2e.aio import consuming, members, send_numbered
from tests.e2e.ledger import Ledger, eventually
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]


class Group:
    """Consumers of one strategy, and the partitions of each."""

    def __init__(
        self, server: ServerProcess, group: str, name: str, topics: Mapping[str, int], own: type | None = None
    ) -> None:
        """`own`: use aiokafka's own class instead of our strategy of that name."""
        self.server, self.group, self.name, self.topics = server, group, name, dict(topics)
        self.ledger, self._own = Ledger(), own

    def member(self, name: str, *topics: str) -> aio.Member:
        """A member that is not started yet; it subscribes to all topics if none is named."""
        return aio.Member(
            name,
            self.ledger,
            self.server.bootstrap,
            topics or list(self.topics),
            self.group,
            partition_assignment_strategy=[self._own or strategy(self.name)],
        )

    async def at_rest(self, present: Sequence[aio.Member]) -> Assignment:
        """Wait until every partition has one owner, in one generation. Returns the partitions by member name."""

        def settled() -> bool:
            owned = [partition for member in present for partition in member.assignment]
            generations = {member.consumer._coordinator.generation for member in present}
            return len(owned) == len(set(owned)) == sum(self.topics.values()) and len(generations) == 1

        await eventually(settled, f"{self.name} to share {self.topics}")
        shares: Assignment = {}
        for member in present:
            shares[member.name] = {}
            for partition in sorted(member.assignment):
                shares[member.name].setdefault(partition.topic, []).append(partition.partition)
        return shares

    def promised(self, present: Sequence[aio.Member]) -> Assignment:
        """The assignment of the pure function for these members, by name."""
        names = {member.consumer._coordinator.member_id: member.name for member in present}
        assignment = CLIENT_ASSIGNORS[self.name].assign(
            [Member(member_id, tuple(self.topics)) for member_id in names],
            {topic: Topic(count) for topic, count in self.topics.items()},
        )
        return {
            names[member_id]: {topic: sorted(numbers) for topic, numbers in sorted(rows.items())}
            for member_id, rows in assignment.items()
        }


def sizes(shares: Assignment) -> list[int]:
    return sorted(sum(map(len, rows.values())) for rows in shares.values())


@pytest.mark.parametrize("name", ["range", "roundrobin"])
async def test_three_members_share_a_topic_and_one_leaves(
    server: ServerProcess, new_topic: NewTopic, group: str, name: str
) -> None:
    stage = Group(server, group, name, {new_topic(8): 8, new_topic(4): 4})
    trio = [stage.member(who) for who in ("a", "b", "c")]
    async with members(*trio):
        before = await stage.at_rest(trio)
        assert before == stage.promised(trio)
        assert sizes(before) == ([3, 4, 5] if name == "range" else [4, 4, 4])
        await trio[1].stop()
        after = await stage.at_rest([trio[0], trio[2]])
        assert after == stage.promised([trio[0], trio[2]])
        assert sizes(after) == [6, 6]
        assert sum(row.lost + row.gained for row in moves(before, after).values()) == 0


AIOKAFKAS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


@pytest.mark.parametrize("own", [False, True], ids=["ours", "aiokafka's own"])
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
async def test_the_documented_examples_of_strategies_give_these_assignments(
    server: ServerProcess, new_topic: NewTopic, group: str, example: Example, own: bool
) -> None:
    topics = {short: new_topic(count) for short, count in example.topics.items()}
    assert list(topics.values()) == sorted(topics.values())
    counts = {topics[short]: count for short, count in example.topics.items()}
    stage = Group(server, group, example.strategy, counts, AIOKAFKAS[example.strategy] if own else None)
    present = [
        stage.member(name, *(topics[short] for short in example.subscriptions.get(name, topics)))
        for name in example.assignment
    ]
    async with members(*present):
        assert await stage.at_rest(present) == {
            name: {topics[short]: numbers for short, numbers in rows.items()}
            for name, rows in example.assignment.items()
        }


@pytest.mark.parametrize("name", ["range", "sticky"])
async def test_a_group_grows_from_three_to_five_members_without_loss(
    server: ServerProcess, new_topic: NewTopic, group: str, name: str
) -> None:
    topic = new_topic(10)
    stage = Group(server, group, name, {topic: 10})
    three, two = [stage.member(who) for who in ("a", "b", "c")], [stage.member(who) for who in ("d", "e")]

    async def send(first: int) -> None:
        await send_numbered(server.bootstrap, topic, 10, 100, first)

    async with members(*three):
        before = await stage.at_rest(three)
        assert sizes(before) == [3, 3, 4]
        await send(0)
        async with members(*two):
            await send(100)
            after = await stage.at_rest([*three, *two])
            await send(200)
            await eventually(lambda: len(stage.ledger) == 300, "300 records")
            assert sizes(after) == [2, 2, 2, 2, 2]
            assert skew(after).spread == 0
            if name == "sticky":
                assert moves(before, after) == {topic: Moves(kept=6, moved=4)}
                assert stickiness(before, after) == 1.0
    assert not stage.ledger.twice
    assert stage.ledger.offsets(topic) == {partition: list(range(30)) for partition in range(10)}


async def test_only_the_partitions_of_a_leaving_sticky_member_move(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    stage = Group(server, group, "sticky", {new_topic(2): 2, new_topic(2): 2})
    trio = [stage.member(who) for who in ("c1", "c2", "c3")]
    async with members(*trio):
        before = await stage.at_rest(trio)
        assert sizes(before) == [1, 1, 2]
        had = sum(map(len, before["c2"].values()))
        await trio[1].stop()
        after = await stage.at_rest([trio[0], trio[2]])
        assert sizes(after) == [2, 2]
        assert total(moves(before, after)) == Moves(kept=4 - had, moved=had)


async def test_sticky_members_keep_their_partitions_over_several_changes(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(12)
    stage = Group(server, group, "sticky", {topic: 12})
    trio, late = [stage.member(who) for who in ("a", "b", "c")], stage.member("late")
    async with members(*trio):
        first = await stage.at_rest(trio)
        assert sizes(first) == [4, 4, 4]
        await trio[0].stop()
        second = await stage.at_rest(trio[1:])
        assert moves(first, second) == {topic: Moves(kept=8, moved=4)}
        assert stickiness(first, second) == 1.0
        async with members(late):
            third = await stage.at_rest([*trio[1:], late])
            assert moves(second, third) == {topic: Moves(kept=8, moved=4)}
            assert sizes(third) == [4, 4, 4]


async def test_only_five_of_fifty_partitions_move_when_one_of_ten_members_leaves(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(50)
    stage = Group(server, group, "sticky", {topic: 50})
    ten = [stage.member(f"m{number}") for number in range(10)]
    async with members(*ten):
        before = await stage.at_rest(ten)
        assert sizes(before) == [5] * 10
        await ten[4].stop()
        after = await stage.at_rest([*ten[:4], *ten[5:]])
        assert moves(before, after) == {topic: Moves(kept=45, moved=5)}
        assert skew(after).spread == 1


class OffByOne:
    """A user's strategy with a fault: it counts partitions from one."""

    name = "off-by-one"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        return {members[0].member_id: {topic: list(range(1, row.partitions + 1)) for topic, row in topics.items()}}


class Failing(OffByOne):
    """A user's strategy that raises an error."""

    name = "failing"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        raise LookupError("no plan for today")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("OffByOne", r"OffByOne, member '[ab]-[^']+', topic 'TOPIC': there is no partition 1, it has 1"),
        (
            "Failing",
            r"Failing failed to assign topic 'TOPIC' to members? '[ab]-[^']+'.*: LookupError: no plan for today",
        ),
    ],
)
async def test_a_faulty_strategy_is_an_error_for_each_member_and_blocks_none(
    server: ServerProcess, new_topic: NewTopic, group: str, fault: str, said: str
) -> None:
    """Each member in turn becomes the leader, gets the error, and leaves."""
    topic = new_topic(1)

    async def use(client_id: str) -> None:
        chosen = strategy(f"{__name__}:{fault}")
        async with consuming(
            server.bootstrap, group_id=group, client_id=client_id, partition_assignment_strategy=[chosen]
        ) as consumer:
            consumer.subscribe([topic])
            await asyncio.wait_for(consumer.getmany(timeout_ms=30_000), 30)

    outcomes = await asyncio.gather(use("a"), use("b"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [KafkaError, KafkaError]
    assert [re.search(said.replace("TOPIC", topic), str(outcome)) for outcome in outcomes].count(None) == 0, outcomes
