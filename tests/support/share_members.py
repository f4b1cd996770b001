"""A member of a share group for tests: it sends the requests of a share consumer one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from muster.coordinator.api.configs.resources import SET, Kind
from muster.coordinator.server import Server
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from muster.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.muster import Client, connected

ACCEPT, RELEASE, REJECT = 1, 2, 3
Acks = Mapping[int, Sequence[tuple[int, int, int]]]
"""First offset, last offset and type, by partition."""


class ShareMember:
    """A member that reads all partitions of one topic. Its requests go to one node, which leads them all."""

    def __init__(self, server: Server, client: Client, group: str, name: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.name = name
        self.topic = topic
        self._topics = server.topics
        self._epoch = 0
        self._heartbeats = 0

    @property
    def _topic_id(self) -> bytes:
        return self._topics.by_name[self.topic].topic_id

    async def heartbeat(self) -> Any:
        """Join, or stay a member."""
        topics = [self.topic] if not self._heartbeats else None
        request = ShareGroupHeartbeatRequest(self.group, self.name, self._heartbeats, None, topics)
        answer = await self.client.ask(request)
        assert answer.error_code == 0, answer
        self._heartbeats = answer.member_epoch
        return answer

    async def join(self) -> None:
        """Join, and wait for an assignment."""
        answer = await self.heartbeat()
        while answer.assignment is None or not answer.assignment.topic_partitions:
            answer = await self.heartbeat()

    async def leave(self) -> None:
        """Leave the group."""
        answer = await self.client.ask(ShareGroupHeartbeatRequest(self.group, self.name, -1))
        assert answer.error_code == 0, answer

    async def fetch(self, **more: Any) -> list[tuple[int, int, int, int]]:
        """Acquired records: partition, first offset, last offset, deliveries. The first fetch begins the session."""
        if not self._epoch:
            await self._fetch(max_records=0)
        found = await self._fetch(**more)
        return [
            (data.partition_index, row.first_offset, row.last_offset, row.delivery_count)
            for topic in found.responses
            for data in topic.partitions
            for row in data.acquired_records
        ]

    async def _fetch(self, **more: Any) -> Any:
        values = {"max_wait_ms": 200, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        rows = [FetchPartition(index) for index in range(len(self._topics.by_name[self.topic].partitions))]
        topics = [] if self._epoch else [FetchTopic(self._topic_id, rows)]
        request = ShareFetchRequest(self.group, self.name, self._epoch, topics=topics, **{**values, **more})
        answer = await self.client.ask(request)
        assert answer.error_code == 0, answer
        self._epoch += 1
        return answer

    async def acknowledge(self, acks: Acks) -> list[int]:
        """Acknowledge records. Returns the error code of each partition."""
        rows = [
            AcknowledgePartition(index, [AcknowledgementBatch(first, last, [kind]) for first, last, kind in some])
            for index, some in acks.items()
        ]
        topics = [AcknowledgeTopic(self._topic_id, rows)]
        request = ShareAcknowledgeRequest(self.group, self.name, self._epoch, topics=topics)
        self._epoch += 1
        answer = await self.client.ask(request)
        assert answer.error_code == 0, answer
        return [row.error_code for topic in answer.responses for row in topic.partitions]


@asynccontextmanager
async def share_member(server: Server, group: str, name: str, topic: str) -> AsyncIterator[ShareMember]:
    """A member that has its assignment. A new group begins at the earliest records."""
    async with connected(server, name) as client:
        await configure(client, group, {"share.auto.offset.reset": "earliest"})
        member = ShareMember(server, client, group, name, topic)
        await member.join()
        yield member


async def configure(client: Client, group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group."""
    rows = [AlterableConfig(name, SET, value) for name, value in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(Kind.GROUP, group, rows)])
    assert (await client.ask(request)).responses[0].error_code == 0
