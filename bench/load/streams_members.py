"""Simulates members of streams groups (KIP-1071) over TCP, which act like Kafka Streams' threads.

A member takes the tasks of each answer, and confirms that in the next heartbeat at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from bench.load.consumer_members import REBALANCE_MS, HeartbeatingMember, Settled
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from tests.support import wire
from tests.support.tcp_world import TcpWorld

VERSION: Final = 1
PART: Final = "0"
"""The id of the only subtopology."""


class StreamsMember(HeartbeatingMember):
    """A member of a streams group."""

    def __init__(self, world: Any, group_id: str, member_id: str, topic: str) -> None:
        super().__init__(world, group_id, member_id)
        self.topic = topic
        self.tasks: frozenset[int] = frozenset()

    def own(self, answer: StreamsGroupHeartbeatResponse) -> bool:
        """Own the active tasks of the answer."""
        if answer.active_tasks is None:
            return False
        tasks = self.tasks
        self.tasks = frozenset(number for row in answer.active_tasks for number in row.partitions)
        return self.tasks != tasks

    def beat(self, says_owned: bool) -> StreamsGroupHeartbeatRequest:
        """Make the next heartbeat. `says_owned`: it lists the member's tasks."""
        request = StreamsGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch)
        if not self.epoch:
            request.rebalance_timeout_ms, request.process_id = REBALANCE_MS, self.member_id
            request.topology = Topology(0, [Subtopology(PART, [self.topic])])
        if says_owned:
            rows = [StreamsGroupHeartbeatRequestTaskIds(PART, sorted(self.tasks))] if self.tasks else []
            request.active_tasks, request.standby_tasks, request.warmup_tasks = rows, [], []
        return request

    def steady_frame(self) -> bytes:
        """The frame of the heartbeat that a member of a stable group sends."""
        request = StreamsGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch)
        served = api(ApiKey.STREAMS_GROUP_HEARTBEAT)
        return bytes(frames.request_frame(served, VERSION, 1, request, wire.CLIENT_ID.decode()))


class Application:
    """The members of one group on one server."""

    def __init__(
        self, host: str, port: int, server_cpu_s: Callable[[], float], group: str, topic: str, tasks: int
    ) -> None:
        """`tasks`: the number of partitions of the topic."""
        self._world = TcpWorld((host, port), {"StreamsGroupHeartbeat": VERSION})
        self._cpu_s, self._group, self._topic, self._tasks = server_cpu_s, group, topic, tasks
        self.members: list[StreamsMember] = []

    async def join(self, count: int, patience_s: float = 300) -> Settled:
        """Let members join at the same time. The time for connecting does not count."""
        self.members = [
            StreamsMember(self._world, self._group, f"{self._group}-{number:05}-{'m' * 10}", self._topic)
            for number in range(count)
        ]
        for member in self.members:
            await self._world.connect(member)
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        for member in self.members:
            member.start()
        async with asyncio.timeout(patience_s):
            await self._world.until(self._is_settled)
        beats = sum(member.heartbeats for member in self.members)
        return Settled(time.perf_counter() - start_s, self._cpu_s() - cpu_s, beats)

    def _is_settled(self) -> bool:
        counts = [len(member.tasks) for member in self.members]
        is_shared = sum(counts) == self._tasks and max(counts) - min(counts) <= 1
        return is_shared and len({member.epoch for member in self.members}) == 1

    def steady_frames(self) -> list[bytes]:
        """The frame of a heartbeat for each member."""
        return [member.steady_frame() for member in self.members]

    def close(self) -> None:
        """Close all connections. The members do not leave."""
        self._world.close()
