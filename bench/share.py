"""Measures the CPU time of a server for each record that a share group reads and accepts.

`python -m bench.share` prints the figures of Muster and, if Java is installed, of Kafka. Four consumers read a
partition each, with records of 100 bytes. They acknowledge in the next ShareFetch, or in a ShareAcknowledge.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.measure import cpu_ms
from muster.coordinator.log import batches
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from muster.protocol.messages.share_fetch import AcknowledgementBatch as Piggybacked
from muster.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.muster import Client
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, kafka_available

CONSUMERS: Final = 4
BATCH: Final = 500
"""Records of a batch, and of a ShareFetch."""
RECORD: Final = b"x" * 100
GROUP_RESOURCE: Final = 32
MEMBER: Final = "m" * 22
HOW: Final = ("in the next ShareFetch", "in a ShareAcknowledge")


class Consumer:
    """A member that reads one partition. `read`: how many records it has read."""

    def __init__(self, client: Client, group: str, topic_id: bytes, partition: int) -> None:
        self._client = client
        self._group = group
        self._topic_id = topic_id
        self._partition = partition
        self._epoch = 0
        self._acquired: list[tuple[int, int]] = []
        self.read = 0

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch - 1

    async def turn(self, *, is_alone: bool) -> None:
        """Read once, and accept the records of the turn before. `is_alone`: by a request of its own."""
        who = f"reader-{self._partition}"
        if is_alone and self._acquired:
            some = [AcknowledgementBatch(*place, [1]) for place in self._acquired]
            topics = [AcknowledgeTopic(self._topic_id, [AcknowledgePartition(self._partition, some)])]
            self._acquired = []
            answer = await self._client.ask(
                ShareAcknowledgeRequest(self._group, who, self._next_epoch(), topics=topics)
            )
            assert [row.error_code for topic in answer.responses for row in topic.partitions] == [0]
        with_fetch = [Piggybacked(*place, [1]) for place in self._acquired]
        rows = [FetchPartition(self._partition, 0, with_fetch)] if with_fetch or not self._epoch else []
        answer = await self._client.ask(
            ShareFetchRequest(
                self._group,
                who,
                self._next_epoch(),
                500,
                1,
                50 << 20,
                BATCH,
                BATCH,
                topics=[FetchTopic(self._topic_id, rows)] if rows else [],
            )
        )
        assert not answer.error_code
        found = [row for topic in answer.responses for row in topic.partitions]
        assert not any(row.error_code or row.acknowledge_error_code for row in found)
        self._acquired = [(one.first_offset, one.last_offset) for row in found for one in row.acquired_records]
        self.read += sum(last - first + 1 for first, last in self._acquired)


async def prepared(server: ServerProcess, name: str, count: int) -> tuple[Client, bytes]:
    """Make a topic with records, and a group that reads it from its start."""
    admin = await connected(server)
    await admin.ask(CreateTopicsRequest([CreatableTopic(name, CONSUMERS, 1)], 30_000))
    asked = MetadataRequest([MetadataRequestTopic(name=name)], False)
    configs = [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
    await admin.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, name, configs)]))
    # no event of a server reports that a topic has leaders: both loops below ask again
    while (found := (await admin.ask(asked)).topics[0]).error_code or not found.partitions:  # noqa: ASYNC110  # another process decides
        await asyncio.sleep(0.1)
    topic_id = found.topic_id
    data = bytes(batches.build([(None, RECORD)] * BATCH, timestamp_ms=1_700_000_000_000))
    for number in range(count // BATCH):
        rows = [TopicProduceData("", topic_id, [PartitionProduceData(number % CONSUMERS, data)])]
        produced = ProduceRequest(None, -1, 30_000, rows)
        while (await admin.ask(produced)).responses[0].partition_responses[0].error_code:  # noqa: ASYNC110  # another process decides
            await asyncio.sleep(0.1)  # the leader does not know yet that it leads
    await settled(admin, name)
    return admin, topic_id


async def settled(admin: Client, name: str) -> None:
    """Wait until the group has the states of all partitions."""
    epoch, given = 0, 0
    while given < CONSUMERS:
        await admin.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[name]))
        names = [name] if epoch == 0 else None
        answer = await admin.ask(ShareGroupHeartbeatRequest(name, MEMBER, epoch, None, names))
        if not answer.error_code:
            epoch = answer.member_epoch
            given = sum(len(one.partitions) for one in answer.assignment.topic_partitions) if answer.assignment else 0
        await asyncio.sleep(0.3)


async def connected(server: ServerProcess) -> Client:
    """A connection to the server."""
    return Client(*await asyncio.open_connection(*server.address, limit=1 << 27), "bench")


async def measured(server: ServerProcess, name: str, count: int, *, is_alone: bool) -> tuple[float, float]:
    """The server's CPU time for each record in us, and records in a second."""
    _, topic_id = await prepared(server, name, count)
    consumers = [Consumer(await connected(server), name, topic_id, partition) for partition in range(CONSUMERS)]
    pid = server.pid
    for one in consumers:
        await one.turn(is_alone=is_alone)
    before, began_s = cpu_ms(pid), time.monotonic()
    read = sum(one.read for one in consumers)
    while sum(one.read for one in consumers) < count:
        await asyncio.gather(*[one.turn(is_alone=is_alone) for one in consumers])
    read = count - read
    return (cpu_ms(pid) - before) * 1_000 / read, read / (time.monotonic() - began_s)


def main() -> None:
    """Print the figures, the median of several rounds; the first round warms the server up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        kinds: list[type[ServerProcess]] = [MusterServer, *([KafkaServer] if kafka_available() else [])]
        for kind in kinds:
            server: Any = kind(Path(place) / kind.__name__)
            server.start()
            try:
                for how in HOW:
                    found = [
                        asyncio.run(
                            measured(
                                server, f"share-{number}-{HOW.index(how)}", options.records, is_alone=how == HOW[1]
                            )
                        )
                        for number in range(options.rounds)
                    ]
                    cpu_us, rate = (statistics.median(column) for column in zip(*found[1:], strict=True))
                    print(
                        f"{server.name}: accepted {how}: {cpu_us:.2f} us of CPU for a record, {rate:,.0f} in a second"
                    )
            finally:
                server.stop()


if __name__ == "__main__":
    main()
