"""Lets many members join groups, measures the time, and makes the heartbeat frames of the members.

The members use old versions of requests over TCP. The client's work is the same for every measured server.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.simulation.consumer import Consumer, Step
from tests.support import wire
from tests.support.tcp_world import TcpWorld

SUBSCRIPTION = struct.pack(">hi", 1, 1) + wire.string("topic") + struct.pack(">ii", -1, 0)
ASSIGNMENT = struct.pack(">hii", 1, 0, -1)
VERSIONS: Final = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3}
HEARTBEAT_EVERY_MS = 500
REBALANCE_MS = 60_000
OPENING_AT_ONCE = 64


class Settled(NamedTuple):
    """How long it took until each member had its assignment, in the same generation."""

    wall_s: float
    server_cpu_s: float
    joins: int
    heartbeats: list[bytes]
    """The frame of a Heartbeat v3 for each member."""


class Member(Consumer):
    """A member that stays in its group after its join."""

    def __init__(self, world: Any, group: str, session_timeout_ms: int) -> None:
        super().__init__(
            world, wire.CLIENT_ID.decode(), group, session_ms=session_timeout_ms, rebalance_ms=REBALANCE_MS
        )
        self.seen_members = 0
        """How many members the JoinGroup answer to the leader has."""

    def offers(self) -> list[JoinGroupRequestProtocol]:
        """The only strategy that the member offers."""
        return [JoinGroupRequestProtocol("range", SUBSCRIPTION)]

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        """Make an empty assignment for each member."""
        self.seen_members = len(joined.members)
        return dict.fromkeys((one.member_id for one in joined.members), ASSIGNMENT)

    def sync(self, joined: JoinGroupResponse) -> Step:
        """The SyncGroup request of the member."""
        self.seen_members = 0
        return (yield from super().sync(joined))

    def work(self) -> Step:
        """The Heartbeat of the member."""
        while True:
            error = (yield self.heartbeat()).error_code
            if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
                return False
            if error:
                raise RuntimeError(f"Heartbeat was answered with {error_name(error)}")
            yield HEARTBEAT_EVERY_MS


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
    """Let `members_each` members join each group at the same time. The time for connecting does not count."""
    world = TcpWorld((host, port), VERSIONS)
    members = [Member(world, group, session_timeout_ms) for group in groups for _ in range(members_each)]
    for at in range(0, len(members), OPENING_AT_ONCE):
        await asyncio.gather(*map(world.connect, members[at : at + OPENING_AT_ONCE]))
    cpu_s, start_s = server_cpu_s(), time.perf_counter()
    for member in members:
        member.start()
    async with asyncio.timeout(patience_s):
        await world.until(lambda: are_settled(members, groups, members_each))
    wall_s, cpu_s = time.perf_counter() - start_s, server_cpu_s() - cpu_s
    beats = [wire.frame(wire.heartbeat(member.group_id, member.generation, member.member_id)) for member in members]
    world.close()
    return Settled(wall_s, cpu_s, sum(member.joins for member in members), beats)


def are_settled(members: list[Member], groups: list[str], members_each: int) -> bool:
    """Whether all members of each group are in the same generation, and its leader has seen all of them."""
    if any(member.assigned is None for member in members):
        return False
    for at in range(len(groups)):
        own = members[at * members_each : (at + 1) * members_each]
        if len({member.generation for member in own}) > 1 or max(m.seen_members for m in own) != members_each:
            return False
    return True
