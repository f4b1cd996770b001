"""Join many members to groups, time it, and make the heartbeat frames of those that are in.

Plain asyncio streams and frames by hand: the same client work for every server measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.support import wire

UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, MEMBER_ID_REQUIRED = 25, 27, 22, 79
NOT_READY = (14, 15, 16)
SUBSCRIPTION = struct.pack(">hi", 1, 1) + wire.string("topic") + struct.pack(">ii", -1, 0)
ASSIGNMENT = struct.pack(">hii", 1, 0, -1)
HEARTBEAT_EVERY_S = 0.5
OPENING_AT_ONCE = 64


class Settled(NamedTuple):
    """How long it took until every member held its assignment of one and the same generation."""

    wall_s: float
    server_cpu_s: float
    joins: int
    heartbeats: list[bytes]
    """One Heartbeat v3 frame for each member."""


class Member:
    """One connection that wants to be in a group."""

    def __init__(self, group: str, session_timeout_ms: int) -> None:
        self.group, self.session_timeout_ms = group, session_timeout_ms
        self.id, self.generation, self.joins = "", -1, 0
        self.seen_members = 0  # how many the JoinGroup answer listed, when this is the leader

    async def open(self, host: str, port: int) -> None:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(host, port, limit=1 << 24)

    async def call(self, request: wire.Request) -> wire.Reader:
        """One exchange."""
        self.writer.write(wire.frame(request))
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return wire.Reader(await self.reader.readexactly(size), 4)

    async def join(self) -> None:
        """Join and sync, as often as it takes."""
        while True:
            request = wire.join_group(
                self.group, self.id, session_timeout_ms=self.session_timeout_ms, metadata=SUBSCRIPTION
            )
            joined = wire.read_join_group(await self.call(request))
            self.joins += 1
            if joined.error_code == MEMBER_ID_REQUIRED:
                self.id = joined.member
            elif joined.error_code == UNKNOWN_MEMBER_ID:
                self.id = ""
            elif joined.error_code in NOT_READY:
                await asyncio.sleep(0.05)
            elif joined.error_code:
                raise RuntimeError(f"JoinGroup was answered with error {joined.error_code}")
            elif await self.sync(joined):
                return

    async def sync(self, joined: wire.JoinAnswer) -> bool:
        """Whether the assignment came; else the round was overtaken by another."""
        self.id = joined.member
        leads = joined.leader == joined.member
        self.seen_members = len(joined.members) if leads else 0
        assignments = [(member, ASSIGNMENT) for member in joined.members] if leads else []
        request = wire.sync_group(self.group, joined.generation, self.id, assignments)
        error = wire.read_error(await self.call(request))
        if error == 0:
            self.generation = joined.generation
            return True
        if error == UNKNOWN_MEMBER_ID:
            self.id = ""
        elif error not in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            raise RuntimeError(f"SyncGroup was answered with error {error}")
        return False

    async def stay(self, stop: asyncio.Event) -> None:
        """Join, then heartbeat and join again when told to, until `stop`."""
        await self.join()
        while not stop.is_set():
            error = wire.read_error(await self.call(wire.heartbeat(self.group, self.generation, self.id)))
            if error in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
                await self.join()
                continue
            if error:
                raise RuntimeError(f"Heartbeat was answered with error {error}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), HEARTBEAT_EVERY_S)


async def settle(
    host: str,
    port: int,
    groups: list[str],
    members_each: int,
    server_cpu_s: Callable[[], float],
    *,
    session_timeout_ms: int = 30000,
    patience_s: float = 120,
) -> Settled:
    """Let `members_each` members join each group, all at once; connecting is not counted."""
    members = [Member(group, session_timeout_ms) for group in groups for _ in range(members_each)]
    opening = asyncio.Semaphore(OPENING_AT_ONCE)

    async def open_one(member: Member) -> None:
        async with opening:
            await member.open(host, port)

    await asyncio.gather(*map(open_one, members))
    stop, cpu_s, start_s = asyncio.Event(), server_cpu_s(), time.perf_counter()
    tasks = [asyncio.create_task(member.stay(stop)) for member in members]
    while not are_settled(members, groups, members_each):
        await asyncio.sleep(0.005)
        for task in tasks:
            if task.done():
                task.result()
        if time.perf_counter() - start_s > patience_s:
            raise RuntimeError(f"{len(members)} members had not settled after {patience_s} s")
    wall_s, cpu_s = time.perf_counter() - start_s, server_cpu_s() - cpu_s
    stop.set()
    await asyncio.gather(*tasks)
    beats = [wire.frame(wire.heartbeat(member.group, member.generation, member.id)) for member in members]
    for member in members:
        member.writer.close()
    await asyncio.gather(*(member.writer.wait_closed() for member in members), return_exceptions=True)
    return Settled(wall_s, cpu_s, sum(member.joins for member in members), beats)


def are_settled(members: list[Member], groups: list[str], members_each: int) -> bool:
    """Whether each group's members hold one generation, whose leader has seen them all."""
    if any(member.generation < 0 for member in members):
        return False
    for at in range(len(groups)):
        own = members[at * members_each : (at + 1) * members_each]
        if len({member.generation for member in own}) > 1 or max(m.seen_members for m in own) != members_each:
            return False
    return True
