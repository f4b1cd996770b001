"""Simulates members of consumer groups (KIP-848) over TCP, which act like Java's clients.

A member does what the answer to each heartbeat says, and confirms that in the next heartbeat at once. The client's work
is the same for every measured server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from muster.simulation.actor import Actor, Script
from tests.support import wire
from tests.support.tcp_world import TcpWorld

VERSION: Final = 1
ERROR_AT: Final = 13
"""The position of the error code in the frame of an answer."""
REBALANCE_MS: Final = 60_000
OPENING_AT_ONCE: Final = 64
RETRY_MS: Final = 50
LEAVING: Final = -1
RETRIABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
Owned = dict[bytes, frozenset[int]]


class HeartbeatingMember(Actor):
    """A member of a group with epochs, which stays until the bench makes it leave."""

    def __init__(self, world: Any, group_id: str, member_id: str) -> None:
        super().__init__(world, wire.CLIENT_ID.decode())
        self.group_id, self.member_id = group_id, member_id
        self.epoch = self.heartbeats = 0

    def live(self) -> Script:
        """Join, and do what the answers say."""
        says_owned = True
        while True:
            answer = yield self.beat(says_owned)
            if answer is None or answer.error_code in RETRIABLE:
                yield RETRY_MS
                continue
            if answer.error_code:
                raise RuntimeError(f"a heartbeat was answered with {error_name(answer.error_code)}")
            self.heartbeats += 1
            self.epoch = answer.member_epoch
            says_owned = self.own(answer)
            if not says_owned:
                yield answer.heartbeat_interval_ms

    def beat(self, says_owned: bool) -> Message:
        """Make the next heartbeat. `says_owned`: it lists what the member owns."""
        raise NotImplementedError

    def own(self, answer: Any) -> bool:
        """Own what the answer assigns. Returns whether that is something new, which the next heartbeat confirms."""
        raise NotImplementedError


class ConsumerMember(HeartbeatingMember):
    """A member of a consumer group, which gives up and takes partitions as the answers say."""

    def __init__(self, world: Any, group_id: str, member_id: str, topics: list[str]) -> None:
        super().__init__(world, group_id, member_id)
        self.topics = topics
        self.owned: Owned = {}

    @property
    def partitions(self) -> int:
        """The number of partitions that the member owns."""
        return sum(map(len, self.owned.values()))

    def own(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Own the partitions of the answer."""
        if answer.assignment is None:
            return False
        owned = self.owned
        self.owned = {row.topic_id: frozenset(row.partitions) for row in answer.assignment.topic_partitions}
        return self.owned != owned

    def beat(self, says_owned: bool) -> ConsumerGroupHeartbeatRequest:
        """Make the next heartbeat. `says_owned`: it lists the owned partitions."""
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch)
        if not self.epoch:
            request.subscribed_topic_names, request.rebalance_timeout_ms = self.topics, REBALANCE_MS
            request.topic_partitions = []
        elif says_owned:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id, sorted(partitions))
                for topic_id, partitions in self.owned.items()
            ]
        return request

    def steady_frame(self) -> bytes:
        """The frame of the heartbeat that a member of a stable group sends."""
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch)
        served = api(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        return bytes(frames.request_frame(served, VERSION, 1, request, wire.CLIENT_ID.decode()))


class Settled(NamedTuple):
    """How long it took until each member owned its share, in the same epoch."""

    wall_s: float
    server_cpu_s: float
    heartbeats: int


class Crowd:
    """The members of some groups on one server."""

    def __init__(self, host: str, port: int, server_cpu_s: Callable[[], float], topics: Mapping[str, int]) -> None:
        """`topics`: each subscribed topic with its number of partitions."""
        self._world = TcpWorld((host, port), {"ConsumerGroupHeartbeat": VERSION})
        self._cpu_s, self._topics = server_cpu_s, dict(topics)
        self.members: dict[str, list[ConsumerMember]] = {}

    async def join(self, groups: list[str], members_each: int, patience_s: float = 300) -> Settled:
        """Let `members_each` members join each group at the same time. The time for connecting does not count."""
        new = []
        for group in groups:
            there = self.members.setdefault(group, [])
            for _ in range(members_each):
                member = ConsumerMember(self._world, group, f"{group}-{len(there):05}-{'m' * 10}", [*self._topics])
                there.append(member)
                new.append(member)
        for at in range(0, len(new), OPENING_AT_ONCE):
            await asyncio.gather(*map(self._world.connect, new[at : at + OPENING_AT_ONCE]))
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        for member in new:
            member.start()
        async with asyncio.timeout(patience_s):
            await self._world.until(lambda: all(map(self.is_settled, groups)))
        beats = sum(member.heartbeats for group in groups for member in self.members[group])
        return Settled(time.perf_counter() - start_s, self._cpu_s() - cpu_s, beats)

    def is_settled(self, group: str) -> bool:
        """Whether all members of a group are in one epoch, and each owns its share of all partitions."""
        members = self.members[group]
        if len({member.epoch for member in members}) > 1:
            return False
        shares = [member.partitions for member in members]
        return sum(shares) == sum(self._topics.values()) and max(shares) - min(shares) <= 1

    def steady_frames(self) -> list[bytes]:
        """The frame of a heartbeat for each member."""
        return [member.steady_frame() for members in self.members.values() for member in members]

    def close(self) -> None:
        """Close all connections. The members do not leave."""
        self._world.close()
