"""Histories of real clients are replayed from `__group_events` alone: the generations are the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack

import pytest

from muster.pipeline.whatif.compare import OTHER_ASSIGNOR, Comparison, compare
from muster.pipeline.whatif.from_events import history_of
from muster.pipeline.whatif.settings import parse
from tests.e2e.aio import Member, members, shared_out
from tests.e2e.cooperative import start
from tests.e2e.group_events import GroupEvents, with_events
from tests.e2e.ledger import Ledger, eventually, eventually_sync
from tests.e2e.sync_clients import COOPERATIVE, KAFKA_PYTHON_COOPERATIVE, MEMBERS, ThreadMember
from tests.e2e.victim import victim
from tests.support.servers import ServerProcess

PARTITIONS = 6
NewTopic = Callable[[int], str]
pytestmark = with_events


TRIES = 8
"""How often a group may be tried until its replay is exact. On a busy machine a client may be late by itself. It
assigns by claims that are a round old, or polls after a deadline. No history says so.
"""


SESSION_MS = 1_000
"""The session timeout of the victim: the server cannot miss it sooner."""
CLOCKS_DIFFER_MS = 100


async def restart_and_death(server: ServerProcess, topic: str, group: str) -> tuple[Comparison, float]:
    """A member restarts, and another one dies: the what-if of both. Also the mean time from a dead member's last
    request to its removal.
    """
    reported = GroupEvents(server, group)

    def member(name: str) -> Member:
        return Member(name, Ledger(), server.bootstrap, [topic], group)

    pair = [member("a"), member("b")]
    async with members(*pair), AsyncExitStack() as block:
        await shared_out(pair, PARTITIONS)
        await pair.pop().stop()
        await shared_out(pair, PARTITIONS)
        pair.append(member("b"))
        await block.enter_async_context(members(pair[1]))
        await shared_out(pair, PARTITIONS)
        async with victim(server.bootstrap, topic, group) as doomed:
            await eventually(lambda: sum(len(one.assignment) for one in pair) == 4, "the victim's share")
            doomed.kill()
            await doomed.wait()
            await shared_out(pair, PARTITIONS)
    settings = [one for text in ("static=false", "static") for one in parse(text)]
    unheard_ms = [one["time"] - one["member"]["heard"] for one in reported("member_expired")]
    return compare(history_of(group, reported()), settings), sum(unheard_ms) / len(unheard_ms)


async def test_a_replay_of_a_restart_and_a_death_gives_the_same_generations(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    for number in range(TRIES):
        found, unheard_ms = await restart_and_death(server, topic, f"{group}-{number}")
        if found.fidelity.share == 1.0:
            break
    assert (found.fidelity.withheld, found.fidelity.share) == (False, 1.0), found.fidelity
    as_it_was, static = (one.figures for one in found.whatif)
    assert as_it_was is not None
    assert (as_it_was.rebalances, as_it_was.moved_partitions) == (
        found.actual.rebalances,
        found.actual.moved_partitions,
    )
    # The server sets deadlines and timestamps by two clocks. A busy server may check a deadline late; the replay never
    # does.
    assert found.actual.detect_ms == pytest.approx(unheard_ms, abs=CLOCKS_DIFFER_MS)
    assert as_it_was.detect_ms is not None
    assert SESSION_MS - CLOCKS_DIFFER_MS <= as_it_was.detect_ms <= unheard_ms + CLOCKS_DIFFER_MS
    # the restart of b costs nothing any more: the other members do not notice it
    assert static is not None
    assert static.rebalances < found.actual.rebalances


def scale_out(server: ServerProcess, topic: str, group: str, client: str) -> Comparison:
    """A group grows from one member to three, one by one: the what-if of that."""
    reported = GroupEvents(server, group)
    strategy = COOPERATIVE if client == "confluent-kafka" else (KAFKA_PYTHON_COOPERATIVE,)
    running: list[ThreadMember] = []

    def shared() -> bool:
        shares = [member.assignment for member in running]
        return all(shares) and len(set().union(*shares)) == sum(map(len, shares)) == PARTITIONS

    with ExitStack() as block:
        for name in ("a", "b", "c"):
            running.append(
                MEMBERS[client](name, Ledger(), server.bootstrap, topic, group, partition_assignment_strategy=strategy)
            )
            start(running[-1:], block)
            eventually_sync(shared, f"{len(running)} to share")
    return compare(history_of(group, reported()), [])


@pytest.mark.parametrize("client", MEMBERS)
def test_a_replay_of_a_cooperative_scale_out_gives_the_same_generations(
    server: ServerProcess, new_topic: NewTopic, group: str, client: str
) -> None:
    topic = new_topic(PARTITIONS)
    for number in range(TRIES):
        fidelity = scale_out(server, topic, f"{group}-{number}", client).fidelity
        if fidelity.share == 1.0:
            break
    assert (fidelity.share, fidelity.withheld) == (1.0, False), fidelity
    assert fidelity.why in (None, OTHER_ASSIGNOR)  # neither client assigns exactly as Kafka's cooperative-sticky does
