"""Story 14, for any client with a cooperative strategy: two rounds, and no member stops consuming a partition that it
keeps.

A laggard keeps each rebalance from ending until records of the kept partitions have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Protocol

import confluent_kafka

from muster.assignors.measures import Moves, total
from tests.e2e.group_events import HAS_EVENTS, GroupEvents, moved
from tests.e2e.laggard import Laggard
from tests.e2e.ledger import Ledger, eventually_sync
from tests.support.servers import ServerProcess

PARTITIONS = 8
SENT_AT_ONCE = 3

Partitions = set[tuple[str, int]]


class CooperativeMember(Protocol):
    """A consumer with a cooperative strategy."""

    name: str

    @property
    def assignment(self) -> Partitions:
        """The present partitions of the member."""

    @property
    def callbacks(self) -> list[tuple[str, Partitions]]:
        """The calls of its listener: "assigned", "revoked" or "lost", each with its partitions."""

    def start(self) -> None:
        """Begin to consume."""

    def stop(self) -> None:
        """Commit and leave; it may already have left."""


class Before:
    """What a member had and which callbacks it got until a moment."""

    def __init__(self, member: CooperativeMember) -> None:
        self.member, self.had, self._heard = member, set(member.assignment), len(member.callbacks)

    def heard(self, *what: str) -> Partitions:
        """The partitions of its listener's callbacks of these kinds since `Before` was made."""
        callbacks = self.member.callbacks[self._heard :]
        return set().union(*(partitions for kind, partitions in callbacks if kind in what))


class Stage:
    """A topic, a group, and its consumers."""

    def __init__(self, server: ServerProcess, topic: str, group: str, ledger: Ledger) -> None:
        self.topic, self.ledger, self.events = topic, ledger, GroupEvents(server, group)
        self.everything = {(topic, number) for number in range(PARTITIONS)}
        self._sent = 0
        self._producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "log_level": 3})

    def forget(self) -> None:
        """Forget the callbacks until now."""
        if HAS_EVENTS:
            self.events.forget()

    def shared(self, *members: CooperativeMember) -> None:
        """Wait until the members have all partitions, and their numbers of partitions differ by at most one."""

        def settled() -> bool:
            counts = [len(member.assignment) for member in members]
            union = set().union(*(member.assignment for member in members))
            return len(union) == sum(counts) == PARTITIONS and max(counts) - min(counts) <= 1

        eventually_sync(settled, f"{[member.name for member in members]} to share")

    def flows(self, *members: CooperativeMember) -> None:
        """Records that are sent now are processed by the members who have their partitions. The members keep these
        partitions.
        """
        for _, partition in sorted(self.everything):
            for _ in range(SENT_AT_ONCE):
                self._producer.produce(self.topic, b"value", partition=partition)
        assert self._producer.flush(30) == 0
        self._sent += SENT_AT_ONCE
        for member in members:
            eventually_sync(lambda: self._is_read(member), f"{member.name} to go on")  # noqa: B023  # called at once

    def _is_read(self, member: CooperativeMember) -> bool:
        newest = {(topic, number, self._sent - 1) for topic, number in member.assignment}
        return newest <= self.ledger.by(member.name)

    def unread(self, partitions: Partitions) -> Partitions:
        """The partitions among `partitions` whose newest record no member has processed."""
        seen = self.ledger.offsets(self.topic)
        return {(topic, number) for topic, number in partitions if seen.get(number, [-1])[-1] != self._sent - 1}

    def moved(self, *, kept: int) -> Moves:
        """The partitions that moved, in any number of rounds. In each round members keep at least `kept`."""
        rounds = moved(self.events("rebalance_completed"))
        assert all(one.kept >= kept for one in rounds), rounds
        return replace(total(dict(enumerate(rounds))), kept=0)


def start(members: Iterable[CooperativeMember], until: ExitStack) -> None:
    """Begin to consume, until the block ends."""
    for member in members:
        member.start()
        until.callback(member.stop)


def nobody_stops(stage: Stage, make: Callable[[str], CooperativeMember], new_laggard: Callable[[], Laggard]) -> None:
    """Two consumers and a laggard share a topic; one more joins, one leaves."""
    first, second, late = make("a"), make("b"), make("late")
    with ExitStack() as block:
        start([first], block)
        stage.shared(first)
        start([second], block)
        stage.shared(first, second)
        laggard = block.enter_context(closing(new_laggard()))
        laggard.take_part()
        eventually_sync(
            lambda: not laggard.rebalanced() and len(laggard.partitions) == 2, "the laggard to get its share"
        )
        eventually_sync(lambda: len(first.assignment) == len(second.assignment) == 3, "three to share")
        stage.flows(first, second)

        stage.forget()
        before = Before(first), Before(second)
        start([late], block)
        _two_rounds(stage, laggard, before, late)

        stage.forget()
        left = Before(second), Before(late)
        first.stop()
        _one_round(stage, laggard, left, first.name)
        laggard.leave()
    assert not stage.ledger.twice


def _two_rounds(stage: Stage, laggard: Laggard, before: tuple[Before, Before], late: CooperativeMember) -> None:
    """`late` has joined: two partitions have to move, in two rounds.

    A third round is needed when one member gives its partition up and joins again before the other sees the first
    round.
    """
    first, second = (one.member for one in before)
    eventually_sync(laggard.is_called, "the rebalance")
    stage.flows(first, second)
    assert laggard.is_called(), "the rebalance ended too early"

    laggard.take_part()
    eventually_sync(laggard.is_called, "round two")

    def nobodys() -> Partitions:
        return stage.everything - first.assignment - second.assignment - laggard.has

    eventually_sync(nobodys, "a partition to be given up")
    free = nobodys()
    stage.flows(first, second)
    assert stage.unread(free) == free
    assert laggard.is_called(), "round two ended too early"

    laggard.take_part()

    def two_for_each() -> bool:
        laggard.rebalanced()
        return [len(member.assignment) for member in (first, second, late)] == [2, 2, 2]

    eventually_sync(two_for_each, "the late one to get what was given up")
    assert late.assignment == nobodys()
    stage.flows(first, second, late)
    for one in before:
        assert one.heard("revoked") == one.had - one.member.assignment
        assert one.heard("lost", "assigned") == set()
    if HAS_EVENTS:
        (joined, *again) = stage.events.causes()
        assert joined == ("member_joined", late.name)
        assert {cause for cause, _ in again} == {"metadata_changed"}
        assert stage.moved(kept=6) == Moves(lost=2, gained=2)


def _one_round(stage: Stage, laggard: Laggard, before: tuple[Before, Before], leaver: str) -> None:
    """`leaver` has left: the others get its partitions, and give up nothing."""
    members = [one.member for one in before]
    eventually_sync(laggard.is_called, "the rebalance")
    stage.flows(*members)
    assert laggard.is_called(), "the rebalance ended too early"

    laggard.take_part()
    eventually_sync(
        lambda: set().union(laggard.has, *(member.assignment for member in members)) == stage.everything,
        "the others to take over",
    )
    stage.flows(*members)
    for one in before:
        assert one.had <= one.member.assignment
        assert one.heard("revoked", "lost") == set()
        assert one.heard("assigned") == one.member.assignment - one.had
    if HAS_EVENTS:
        assert stage.events.causes() == [("member_left", leaver)]
        assert stage.moved(kept=6) == Moves(moved=2)
