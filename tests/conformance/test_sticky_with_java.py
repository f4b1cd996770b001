"""Java's StickyAssignor and ours in aiokafka share a group: each reads the other's user data, whichever member
leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster.assignors.aiokafka import strategy
from muster.assignors.measures import Moves, Owned, moves, stickiness
from tests.conformance.clients import JavaClients
from tests.e2e.aio import Member, members
from tests.e2e.ledger import Ledger, eventually
from tests.support.servers import ServerProcess

PARTITIONS = 12
STICKY = "org.apache.kafka.clients.consumer.StickyAssignor"
StartJava = Callable[[ServerProcess], JavaClients]


def our_member(name: str, server: ServerProcess, topic: str, group: str) -> Member:
    chosen = strategy("sticky")
    member = Member(name, Ledger(), server.bootstrap, [topic], group, partition_assignment_strategy=[chosen])
    chosen.follow(member.consumer)
    return member


async def test_sticky_members_of_java_and_aiokafka_move_no_more_than_necessary(
    server: ServerProcess, new_topic: Callable[[int], str], group: str, start_java: StartJava
) -> None:
    topic, java = new_topic(PARTITIONS), start_java(server)
    present: dict[str, Member | None] = {}
    ours = [our_member(name, server, topic, group) for name in ("p1", "p2")]

    def owned() -> Owned:
        shares = {}
        for name, member in present.items():
            held = java.assignments[name] if member is None else {row.partition for row in member.assignment}
            shares[name] = {topic: sorted(held)}
        return shares

    async def at_rest() -> Owned:
        def settled() -> bool:
            sizes = [len(rows[topic]) for rows in owned().values()]
            everything = {number for rows in owned().values() for number in rows[topic]}
            return sum(sizes) == len(everything) == PARTITIONS and max(sizes) - min(sizes) <= 1

        await eventually(settled, f"{list(present)} to share: {owned()}", 60)
        return owned()

    async def java_joins(name: str) -> None:
        java.consume(name, group, topic, partition_assignment_strategy=STICKY, session_timeout_ms="6000")
        present[name] = None

    await java_joins("j1")
    await java_joins("j2")
    async with members(*ours):
        present.update({member.name: member for member in ours})
        four = await at_rest()
        await asyncio.to_thread(java.stop, "j1")
        del present["j1"]
        three = await at_rest()
        assert moves(four, three) == {topic: Moves(kept=9, moved=3)}
        await ours[0].stop()
        del present["p1"]
        two = await at_rest()
        assert moves(three, two) == {topic: Moves(kept=8, moved=4)}
        await java_joins("j3")
        again = await at_rest()
        assert moves(two, again) == {topic: Moves(kept=8, moved=4)}
        assert stickiness(two, again) == 1.0
