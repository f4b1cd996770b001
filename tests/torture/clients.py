"""Clients that commit as fast as they are answered, and go on by themselves when the server comes back.

`Committer` speaks in messages: it may not lose its place in its group, and says so in the ledger when it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from muster.protocol.consumer import encode_subscription
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.message import Message
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.muster import Client
from tests.torture.ledger import Ledger, Place

NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
GONE = (ConnectionError, asyncio.IncompleteReadError, EOFError, OSError)
SESSION_MS = 60_000
COMMIT_VERSION = 9


@asynccontextmanager
async def connected(address: tuple[str, int], client_id: str) -> AsyncIterator[Client]:
    """A connection, dropped after the block whatever happened to it."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Client(reader, writer, client_id)
    finally:
        writer.transport.abort()


class Churner:
    """Joins, gets its assignment and leaves, again and again: each generation it is told of must be in the history."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.told: dict[str, list[int]] = {}
        """The generations it was told of, by group: a new group for each connection, since nobody left the last one."""

    async def run(self, up: Callable[[], Awaitable[object]]) -> None:
        """Until cancelled; `up` returns when the server can be reached again."""
        while True:
            await up()
            group = f"churn-{len(self.told)}"
            self.told[group] = []
            try:
                async with connected(self.address, group) as client:
                    while await self._once(client, group):
                        pass
            except GONE:
                continue

    async def _once(self, client: Client, group: str) -> bool:
        protocols = [JoinGroupRequestProtocol("any", b"")]
        joined = await client.ask(JoinGroupRequest(group, SESSION_MS, SESSION_MS, "", None, "test", protocols), 3)
        if joined.error_code:
            return False
        generation, member = joined.generation_id, joined.member_id
        rows = [SyncGroupRequestAssignment(member, b"mine")]
        synced = await client.ask(SyncGroupRequest(group, generation, member, None, "test", "any", rows))
        if synced.error_code:
            return False
        self.told[group].append(generation)
        return not (await client.ask(LeaveGroupRequest(group, "", [MemberIdentity(member)]))).error_code


class Committer:
    """Commits one place again and again; with `member` as the only member of its group, else without one."""

    def __init__(
        self,
        ledger: Ledger,
        address: tuple[str, int],
        group: str,
        topic: str,
        *,
        member: bool,
        instance: str | None = None,
        on_ack: Callable[[], None],
    ) -> None:
        self.ledger, self.address = ledger, address
        self.place = Place(group, topic, 0)
        self.instance = instance
        self.generation, self.member_id = -1, ""
        self.joined = asyncio.Event()
        self._member = member
        self._on_ack = on_ack

    async def run(self, up: Callable[[], Awaitable[object]]) -> None:
        """Until cancelled; `up` returns when the server can be reached again."""
        while True:
            await up()
            try:
                async with connected(self.address, self.place.group) as client:
                    if self._member and not self.joined.is_set():
                        await self._join(client)
                    self.joined.set()
                    while True:
                        await self._beat(client)
                        await self._commit(client)
            except GONE:
                continue

    async def _join(self, client: Client) -> None:
        topics = encode_subscription(ConsumerProtocolSubscription([self.place.topic]), 1)
        protocols = [JoinGroupRequestProtocol("range", topics)]
        group = self.place.group
        while True:
            answer = await client.ask(
                JoinGroupRequest(group, SESSION_MS, SESSION_MS, self.member_id, self.instance, "consumer", protocols)
            )
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif not answer.error_code:
                break
        self.member_id, self.generation = answer.member_id, answer.generation_id
        rows = [SyncGroupRequestAssignment(self.member_id, b"mine")]
        request = SyncGroupRequest(group, self.generation, self.member_id, self.instance, "consumer", "range", rows)
        self._expect(await client.ask(request), "SyncGroup")

    async def _beat(self, client: Client) -> None:
        if self._member:
            request = HeartbeatRequest(self.place.group, self.generation, self.member_id, self.instance)
            await self._until_now(client, request, lambda answer: answer.error_code, "Heartbeat")

    async def _commit(self, client: Client) -> None:
        number = self.ledger.attempt(self.place)
        row = OffsetCommitRequestTopic(self.place.topic, partitions=[OffsetCommitRequestPartition(0, number)])
        request = OffsetCommitRequest(self.place.group, self.generation, self.member_id, self.instance, topics=[row])
        await self._until_now(client, request, lambda answer: answer.topics[0].partitions[0].error_code, "OffsetCommit")
        self.ledger.acknowledge(self.place, number)
        self._on_ack()

    async def _until_now(self, client: Client, request: Message, error_of: Callable[[Any], int], what: str) -> None:
        version = COMMIT_VERSION if isinstance(request, OffsetCommitRequest) else None
        while True:
            error = error_of(await client.ask(request, version))
            if error not in NOT_NOW:
                break
        if error:
            self._fault(what, error)

    def _expect(self, answer: Any, what: str) -> None:
        if answer.error_code:
            self._fault(what, answer.error_code)

    def _fault(self, what: str, error: int) -> None:
        self.ledger.faults.append(f"{self.place.group}: {what} of a member that never left: {error_name(error)}")
