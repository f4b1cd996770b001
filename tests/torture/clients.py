"""Clients that commit as fast as they are answered, and continue by themselves when the server comes back.

They are scripts: over TCP on a server that is killed, and in virtual time on a whole node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from muster.protocol.consumer import encode_subscription
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.simulation.actor import Script
from muster.simulation.consumer import Consumer, Step, rows_of
from tests.support.muster import Client
from tests.torture.ledger import Ledger, Place

NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
SESSION_MS = 60_000


@asynccontextmanager
async def connected(address: tuple[str, int], client_id: str) -> AsyncIterator[Client]:
    """A connection, closed after the block whatever happened to it."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Client(reader, writer, client_id)
    finally:
        writer.transport.abort()


class Alone(Consumer):
    """The only member of its group."""

    def __init__(self, world: Any, group_id: str, instance: str | None = None) -> None:
        super().__init__(world, group_id, group_id, instance, session_ms=SESSION_MS, rebalance_ms=SESSION_MS)

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        return {joined.member_id: b"mine"}


class Churner(Alone):
    """Joins, gets its assignment and leaves, again and again: each generation that it was answered must be in the
    history.
    """

    protocol_type = "test"
    asks_again = False

    def __init__(self, world: Any) -> None:
        super().__init__(world, "churn-0")
        self.reported: dict[str, list[int]] = {}
        """The generations that it was answered, by group. It takes another group whenever a request may have been lost.
        """

    def offers(self) -> list[JoinGroupRequestProtocol]:
        return [JoinGroupRequestProtocol("any", b"")]

    def live(self) -> Script:
        while True:
            self.forget()
            self.group_id = f"churn-{len(self.reported)}"
            self.reported[self.group_id] = []
            while (yield from self._once()):
                self.forget()

    def _once(self) -> Step:
        joined = yield from self.join()
        if joined is None or not (yield from self.sync(joined)):
            return False
        self.reported[self.group_id].append(self.generation)
        left = yield self.leave("done")
        return left is not None and not left.error_code


class Committer(Alone):
    """Commits one place again and again: as a member, which must not lose its place in the group, or without a
    member.
    """

    def __init__(
        self,
        world: Any,
        ledger: Ledger,
        group_id: str,
        topic: str,
        *,
        is_member: bool,
        instance: str | None = None,
        on_ack: Callable[[], object] = lambda: None,
        pause_ms: Callable[[], int] | None = None,
    ) -> None:
        """`pause_ms`: how long it waits before each commit."""
        super().__init__(world, group_id, instance)
        self.ledger = ledger
        self.place = Place(group_id, topic, 0)
        self.is_member = is_member
        self._on_ack = on_ack
        self._pause_ms = pause_ms

    @property
    def is_at_work(self) -> bool:
        """Whether it commits."""
        return not self.is_member or self.assigned is not None

    def offers(self) -> list[JoinGroupRequestProtocol]:
        topics = encode_subscription(ConsumerProtocolSubscription([self.place.topic]), 1)
        return [JoinGroupRequestProtocol("range", topics)]

    def live(self) -> Script:
        if self.is_member:
            yield from super().live()
        else:
            yield from self.work()

    def work(self) -> Step:
        while True:
            if self.is_member:
                answer = yield self.heartbeat()
                if answer is None or self._is_refused("Heartbeat", answer.error_code):
                    continue
            if self._pause_ms is not None:
                yield self._pause_ms()
            yield from self._commit()

    def _commit(self) -> Generator[Any, Any, None]:
        number = self.ledger.attempt(self.place)
        answer = yield self.commit_of(rows_of({self.place.topic: {0: number}}))
        if answer is not None and not self._is_refused("OffsetCommit", answer.topics[0].partitions[0].error_code):
            self.ledger.acknowledge(self.place, number)
            self._on_ack()

    def _is_refused(self, what: str, error: int) -> bool:
        if error and error not in NOT_NOW:
            who = "a member that never left" if self.is_member else "a group without members"
            self.ledger.faults.append(f"{self.place.group}: {what} of {who}: {error_name(error)}")
        return error != ErrorCode.NONE
