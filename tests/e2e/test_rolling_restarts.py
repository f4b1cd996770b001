"""Stories 6 and 7, read from `__group_events`: the cost of a rolling restart, and the absence of a static member."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack

import pytest

from tests.e2e.aio import Member, consuming, members, send_numbered, shared_out
from tests.e2e.cooperative import start
from tests.e2e.group_events import GroupEvents, with_events
from tests.e2e.ledger import Ledger, eventually, eventually_sync
from tests.e2e.sync_clients import MEMBERS, ThreadMember, commit_beginning, confluent_produce
from tests.e2e.victim import victim
from tests.support.servers import ServerProcess

PARTITIONS = 6
NAMES = ("a", "b", "c")
NewTopic = Callable[[int], str]
pytestmark = with_events


CHANGES = ("rebalance_started", "member_joined", "member_left", "member_expired", "member_removed", "member_replaced")
FOR_NOTHING = {"kafka-python": "leader_rejoined"}
"""Why a client's group rebalances without a reason. kafka-python's leader joins again when it sees a rebalance only
after its end: here the group's first rebalance.
"""


def replaced_alone(group_events: GroupEvents, spared: str = "") -> list[str]:
    """The instances that returned. Nothing else may have happened to the group, except rebalances of the spared
    cause.
    """
    happened = [value for value in group_events(*CHANGES) if value.get("cause") != spared]
    assert {value["kind"] for value in happened} <= {"member_replaced"}, happened
    return [value["member"]["instance"] for value in happened]


async def test_a_rolling_restart_of_three_dynamic_members_is_six_rebalances(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger, group_events = new_topic(PARTITIONS), Ledger(), GroupEvents(server, group)

    def member(name: str) -> Member:
        return Member(name, ledger, server.bootstrap, [topic], group)

    running = {name: member(name) for name in NAMES}
    async with members(*running.values()), AsyncExitStack() as block:
        await shared_out(running.values(), PARTITIONS)
        group_events.forget()
        for name in NAMES:
            await running.pop(name).stop()
            await shared_out(running.values(), PARTITIONS)
            running[name] = member(name)
            await block.enter_async_context(members(running[name]))
            await shared_out(running.values(), PARTITIONS)
        await send_numbered(server.bootstrap, topic, PARTITIONS, 60)
        await eventually(lambda: len(ledger) == 60, "60 records")
        assert group_events.causes() == [(cause, name) for name in NAMES for cause in ("member_left", "member_joined")]
        assert len(group_events("rebalance_completed")) == 6
    assert not ledger.twice


@pytest.mark.parametrize("client", MEMBERS)
def test_a_rolling_restart_of_three_static_members_is_no_rebalance(
    server: ServerProcess, new_topic: NewTopic, group: str, client: str
) -> None:
    topic, ledger, group_events = new_topic(PARTITIONS), Ledger(), GroupEvents(server, group)
    commit_beginning(server.bootstrap, topic, group, PARTITIONS)

    def member(name: str) -> ThreadMember:
        return MEMBERS[client](name, ledger, server.bootstrap, topic, group, group_instance_id=f"i-{name}")

    running = {name: member(name) for name in NAMES}

    def shared() -> bool:
        shares = [member.assignment for member in running.values()]
        return all(shares) and len(set().union(*shares)) == sum(map(len, shares)) == PARTITIONS

    with ExitStack() as block:
        start(running.values(), block)
        eventually_sync(shared, "three to share")
        group_events.forget()
        before = {name: set(member.assignment) for name, member in running.items()}
        for name in NAMES:
            running.pop(name).stop()
            running[name] = member(name)
            start([running[name]], block)
            eventually_sync(lambda: running[name].assignment == before[name], f"{name} to be back")  # noqa: B023  # at once
        confluent_produce(server.bootstrap, topic, [(b"%d" % number, b"value") for number in range(60)])
        eventually_sync(lambda: len(ledger) == 60, "60 records")
        assert {name: member.assignment for name, member in running.items()} == before
        assert replaced_alone(group_events, FOR_NOTHING.get(client, "")) == [f"i-{name}" for name in NAMES]
    assert not ledger.twice


async def test_a_killed_static_member_that_returns_in_time_causes_no_rebalance(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger, group_events = new_topic(PARTITIONS), Ledger(), GroupEvents(server, group)

    def member(name: str, instance: str) -> Member:
        return Member(name, ledger, server.bootstrap, [topic], group, group_instance_id=instance)

    one, again = member("one", "i-1"), member("again", "i-2")
    async with (
        victim(server.bootstrap, topic, group, "group_instance_id=i-2", "session_timeout_ms=30000") as doomed,
        members(one),
    ):
        await eventually(lambda: len(one.assignment) == 3, "half of it")
        kept, given = one.assignment, len(one.assignments)
        doomed.kill()
        await doomed.wait()
        group_events.forget()
        async with members(again):
            await shared_out([one, again], PARTITIONS)
            await send_numbered(server.bootstrap, topic, PARTITIONS, 60)
            await eventually(lambda: len(ledger) == 60, "60 records")
            assert (one.assignment, len(one.assignments)) == (kept, given)
            assert replaced_alone(group_events) == ["i-2"]
    assert not ledger.twice


async def test_a_static_member_that_returns_too_late_causes_two_rebalances(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, group_events = new_topic(PARTITIONS), GroupEvents(server, group)
    one = Member("one", Ledger(), server.bootstrap, [topic], group, group_instance_id="i-1")
    two = {"group_id": group, "client_id": "two", "group_instance_id": "i-2"}
    async with members(one):
        await shared_out([one], PARTITIONS)  # members that join together have one rebalance
        async with consuming(server.bootstrap, topic, session_timeout_ms=1000, **two) as gone:
            await eventually(lambda: len(gone.assignment()) == len(one.assignment) == 3, "three partitions each")
        await shared_out([one], PARTITIONS)
        async with consuming(server.bootstrap, topic, **two) as again:
            await eventually(lambda: len(again.assignment()) == len(one.assignment) == 3, "three partitions each")
            assert group_events.causes()[1:] == [
                ("member_joined", "two"),
                ("session_expired", "two"),
                ("member_joined", "two"),
            ]
            assert [value["trigger"]["instance"] for value in group_events("rebalance_completed")] == ["i-1"] + [
                "i-2"
            ] * 3
