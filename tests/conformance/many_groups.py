"""Many groups of all four types on one broker. Each member sends one heartbeat, and its session lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from muster.protocol.message import Message
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from tests.support.muster import Client

LASTING = {
    f"group.{kind}.{name}.timeout.ms": "1800000"
    for kind in ("consumer", "share", "streams")
    for name in ("session", "max.session")
} | {"group.streams.initial.rebalance.delay.ms": "0"}
"""Settings with which a member has its tasks at once, and stays for half an hour without a heartbeat."""
PATIENCE_S = 60


def names(kind: str, count: int) -> list[str]:
    """The names of the groups of a type."""
    return [f"{kind}-{number:03}" for number in range(count)]


async def fill(address: tuple[str, int], topic: str, counts: Mapping[str, int]) -> None:
    """Make groups, so many of each type. Each has an offset of partition 0, from 0 to 9, and a member. Classic ones
    have no member.
    """
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    client = Client(reader, writer, "many")
    (found,) = (await client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]))).topics
    for kind, count in counts.items():
        for number, group in enumerate(names(kind, count)):
            await _MAKE[kind](_Making(client, group, topic, found.topic_id, number % 10))
    writer.close()


async def leave(address: tuple[str, int], group: str) -> None:
    """The member of a share group leaves it."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    answer = await Client(reader, writer, "many").ask(ShareGroupHeartbeatRequest(group, f"{group}-member", -1))
    assert not answer.error_code
    writer.close()


class _Making:
    """A group that is made."""

    def __init__(self, client: Client, group: str, topic: str, topic_id: bytes, offset: int) -> None:
        self._client = client
        self._topic_id = topic_id
        self.group = group
        self.topic = topic
        self.offset = offset
        self.member = f"{group}-member"

    async def ask(self, request: Message) -> Any:
        """The answer without an error. The coordinator may be loading, and a share group may be initializing."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self._client.ask(request)).error_code:  # noqa: ASYNC110  # nothing says when
                await asyncio.sleep(0.01)
        return answer

    async def commit(self, member: str = "", epoch: int = -1) -> None:
        """Commit the offset."""
        rows = [OffsetCommitRequestTopic(self.topic, self._topic_id, [OffsetCommitRequestPartition(0, self.offset)])]
        (answer,) = (await self._client.ask(OffsetCommitRequest(self.group, epoch, member, topics=rows))).topics
        assert not answer.partitions[0].error_code, answer


async def _classic(its: _Making) -> None:
    await its.commit()


async def _consumer(its: _Making) -> None:
    request = ConsumerGroupHeartbeatRequest(its.group, its.member, 0, rebalance_timeout_ms=60_000,
                                            subscribed_topic_names=[its.topic], topic_partitions=[])  # fmt: skip
    await its.commit(its.member, (await its.ask(request)).member_epoch)


async def _share(its: _Making) -> None:
    for epoch in (0, -1):
        await its.ask(ShareGroupHeartbeatRequest(its.group, its.member, epoch, None, [its.topic]))
    rows = [AlterShareGroupOffsetsRequestTopic(its.topic, [AlterShareGroupOffsetsRequestPartition(0, its.offset)])]
    await its.ask(AlterShareGroupOffsetsRequest(its.group, rows))
    await its.ask(ShareGroupHeartbeatRequest(its.group, its.member, 0, None, [its.topic]))


async def _streams(its: _Making) -> None:
    request = StreamsGroupHeartbeatRequest(
        its.group, its.member, 0, rebalance_timeout_ms=60_000, topology=Topology(1, [Subtopology("0", [its.topic])]),
        active_tasks=[], standby_tasks=[], warmup_tasks=[], process_id=its.group,
    )  # fmt: skip
    await its.commit(its.member, (await its.ask(request)).member_epoch)


_MAKE: Mapping[str, Callable[[_Making], Coroutine[None, None, None]]] = {
    "classic": _classic,
    "consumer": _consumer,
    "share": _share,
    "streams": _streams,
}
