"""Story 14, for any client that speaks it: two rounds, and nobody stops consuming a partition that it keeps.

A laggard keeps each rebalance from ending for as long as it takes to see the records of kept partitions arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import confluent_kafka

from muster.assignors.measures import Moves
from tests.e2e.laggard import Laggard
from tests.e2e.ledger import Ledger, eventually_sync
from tests.e2e.told import HAS_EVENTS, Told, moved
from tests.support.servers import ServerProcess

PARTITIONS = 8
SENT_AT_ONCE = 3

Partitions = set[tuple[str, int]]


class CooperativeMember(Protocol):
    """A consumer with a cooperative strategy."""

    name: str

    @property
    def assignment(self) -> Partitions:
        """Its present partitions."""

    @property
    def told(self) -> list[tuple[str, Partitions]]:
        """What its listener heard: "assigned", "revoked" or "lost", and which partitions."""

    def start(self) -> None:
        """Begin to consume."""

    def stop(self) -> None:
        """Commit, leave."""


class Stage:
    """A topic, a group, and who reads what."""

    def __init__(
        self, server: ServerProcess, topic: str, group: str, ledger: Ledger, *, reads_while_joining: bool = True
    ) -> None:
        """`reads_while_joining`: its poll gives records while the client waits for an answer to JoinGroup."""
        self.topic, self.ledger, self.reads_while_joining = topic, ledger, reads_while_joining
        self.events = Told(server, group)
        self.sent = 0
        self._producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})

    def send(self) -> None:
        """Some records to every partition."""
        for partition in range(PARTITIONS):
            for _ in range(SENT_AT_ONCE):
                self._producer.produce(self.topic, b"value", partition=partition)
        assert self._producer.flush(30) == 0
        self.sent += SENT_AT_ONCE

    def unread(self, partitions: Iterable[tuple[str, int]]) -> set[int]:
        """Those of the partitions whose newest record nobody has processed."""
        seen = self.ledger.offsets(self.topic)
        return {number for _, number in partitions if seen.get(number, [-1])[-1] != self.sent - 1}

    def flows(self, *members: CooperativeMember) -> None:
        """Records that are sent now reach those members that have their partitions."""
        self.send()
        for member in members:
            self._arrives(member)

    def flows_while(self, still: Callable[[], bool], *members: CooperativeMember) -> None:
        """As `flows`, while a rebalance is on."""
        if self.reads_while_joining:
            self.flows(*members)
        else:
            self.send()
        assert still()

    def _arrives(self, member: CooperativeMember) -> None:
        has = set(member.assignment)
        eventually_sync(lambda: not self.unread(has), f"{member.name} to go on")
        assert {(topic, number, self.sent - 1) for topic, number in has} <= self.ledger.by(member.name)


def two_rounds_and_nobody_stops(
    stage: Stage, make: Callable[[str], CooperativeMember], new_laggard: Callable[[], Laggard]
) -> None:
    """Two consumers and a laggard share a topic, one more joins, one leaves."""
    first, second, late = make("a"), make("b"), make("late")
    everybody = (first, second, late)
    try:
        first.start()
        eventually_sync(lambda: len(first.assignment) == PARTITIONS, "the first to have all")
        second.start()
        eventually_sync(lambda: len(first.assignment) == len(second.assignment) == 4, "two to share")
        laggard = new_laggard()
        laggard.take_part()
        eventually_sync(lambda: laggard.rebalanced() or len(laggard.partitions) == 2, "round two")
        eventually_sync(lambda: len(first.assignment) == len(second.assignment) == 3, "three to share")
        stage.flows(first, second)

        _one_joins(stage, laggard, first, second, late)
        _one_leaves(stage, laggard, first, second, late)
        laggard.leave()
    finally:
        for member in everybody:
            member.stop()
    assert not stage.ledger.twice


def _one_joins(
    stage: Stage, laggard: Laggard, first: CooperativeMember, second: CooperativeMember, late: CooperativeMember
) -> None:
    stage.events.forget() if HAS_EVENTS else None
    before = {member.name: (set(member.assignment), len(member.told)) for member in (first, second)}
    late.start()
    eventually_sync(laggard.is_called, "the rebalance")
    stage.flows_while(laggard.is_called, first, second)

    laggard.take_part()
    eventually_sync(lambda: len(first.assignment) == len(second.assignment) == 2, "each to give up one")
    eventually_sync(laggard.is_called, "round two")
    kept = first.assignment | second.assignment
    free = {(stage.topic, number) for number in range(PARTITIONS) if number not in laggard.partitions} - kept
    assert len(free) == 2
    stage.flows_while(laggard.is_called, first, second)
    assert stage.unread(free) == {number for _, number in free}

    laggard.take_part()
    eventually_sync(lambda: late.assignment == free, "the late one to get what was given up")
    eventually_sync(lambda: not stage.unread(free), "the late one to read")
    stage.flows(first, second, late)
    for member in (first, second):
        had, heard = before[member.name]
        assert member.assignment < had
        assert named(member.told[heard:], "revoked") == had - member.assignment
        assert named(member.told[heard:], "lost", "assigned") == set()
    if HAS_EVENTS:
        rounds = stage.events("rebalance_completed")
        assert [cause for cause, _, _ in stage.events.completed()] == ["member_joined", "metadata_changed"]
        assert moved(*rounds) == [Moves(kept=6, lost=2), Moves(kept=6, gained=2)]


def _one_leaves(
    stage: Stage, laggard: Laggard, first: CooperativeMember, second: CooperativeMember, late: CooperativeMember
) -> None:
    stage.events.forget() if HAS_EVENTS else None
    before = {member.name: (set(member.assignment), len(member.told)) for member in (second, late)}
    first.stop()
    eventually_sync(laggard.is_called, "the rebalance")
    stage.flows_while(laggard.is_called, second, late)

    laggard.take_part()
    left = PARTITIONS - len(laggard.partitions)
    eventually_sync(lambda: len(second.assignment | late.assignment) == left, "the others to take over")
    stage.flows(second, late)
    for member in (second, late):
        had, heard = before[member.name]
        assert had <= member.assignment
        assert named(member.told[heard:], "revoked", "lost") == set()
        assert named(member.told[heard:], "assigned") == member.assignment - had
    if HAS_EVENTS:
        assert [(cause, who) for cause, who, _ in stage.events.completed()] == [("member_left", first.name)]
        assert moved(*stage.events("rebalance_completed")) == [Moves(kept=6, moved=2)]


def named(told: Iterable[tuple[str, Partitions]], *what: str) -> Partitions:
    """All partitions that a listener was told of in these ways."""
    return set().union(*(partitions for kind, partitions in told if kind in what))
