"""A server is killed again and again while a share group works off a queue (KIP-932). What was accepted is never
delivered again, and no record is lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from muster.protocol.messages import share_acknowledge, share_fetch
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from muster.simulation.actor import Actor, Script
from tests.coordinator.topics.support import batch
from tests.support.servers import ServerProcess
from tests.support.tcp_world import TcpWorld
from tests.torture.clients import connected

GROUP: Final = "workers"
TOPIC: Final = "queue"
PARTITIONS: Final = 3
WORKERS: Final = 3
SETTINGS: Final = {"group.share.assignment.interval.ms": "0"}
"""Settings with which such groups settle soon."""
MAX_ACKS: Final = 300
"""The most confirmed acceptances between two kills."""
DONE_WITHIN_S: Final = 120.0
LAST_TRIES: Final = 5
"""From this number of deliveries on, a worker accepts each record."""
OF_GROUPS: Final = 32
ACCEPT, RELEASE = 1, 2


class Record(NamedTuple):
    """The place of a record."""

    partition: int
    offset: int


class QueueLedger:
    """What producers and workers know. `produced`: the records that the server has confirmed."""

    def __init__(self) -> None:
        self.produced: set[Record] = set()
        self.accepted: set[Record] = set()
        self.sent: set[Record] = set()
        """Records whose acceptance was sent. An answer that was lost leaves open whether the server has it."""
        self.faults: list[str] = []
        """The violations, as sentences."""

    def has_accepted(self, count: int) -> bool:
        """Whether workers have accepted at least so many records."""
        return len(self.accepted) >= count

    def delivered(self, record: Record) -> None:
        """A worker got a record."""
        if record in self.accepted:
            self.faults.append(f"{record} was accepted, and is delivered again")

    def ended(self) -> None:
        """Judge the end: the server says that no record is left."""
        lost = self.produced - self.sent
        if lost:
            self.faults.append(f"{len(lost)} records were delivered to nobody who accepted them: {sorted(lost)[:5]}")


class Producer(Actor):
    """Produces small batches to any partition until `is_done` is set."""

    def __init__(self, world: Any, queue: Queue) -> None:
        super().__init__(world, "producer")
        self._queue = queue
        self.is_done = False

    def live(self) -> Script:
        queue = self._queue
        while not self.is_done:
            partition, count = queue.random.randrange(PARTITIONS), queue.random.choice((1, 2, 5, 20))
            rows = [PartitionProduceData(partition, batch(*[b"%d" % number for number in range(count)]))]
            answer = yield ProduceRequest(None, -1, 5_000, [TopicProduceData("", queue.topic_id, rows)])
            if answer is not None:
                row = answer.responses[0].partition_responses[0]
                if not row.error_code:
                    first = row.base_offset
                    queue.ledger.produced |= {Record(partition, first + number) for number in range(count)}
            yield 1 + queue.random.randrange(20)


class Worker(Actor):
    """A member of the group. It accepts most records, and releases some."""

    def __init__(self, world: Any, name: str, queue: Queue) -> None:
        super().__init__(world, name)
        self._queue = queue
        self._member_epoch = 0

    def live(self) -> Script:
        while True:
            answer = yield ShareGroupHeartbeatRequest(
                GROUP, self.name, self._member_epoch, None, None if self._member_epoch else [TOPIC]
            )
            if answer is not None and not answer.error_code:
                self._member_epoch = answer.member_epoch
                yield from self._session()
            else:
                self._member_epoch = 0
                yield 20

    def _session(self) -> Any:
        """Work within one share session, until an answer is lost or an error."""
        queue, epoch = self._queue, 0
        wanted = [share_fetch.FetchPartition(number) for number in range(PARTITIONS)]
        topics = [share_fetch.FetchTopic(queue.topic_id, wanted)]
        while True:
            limits = {"max_wait_ms": 100, "min_bytes": 1, "max_records": queue.random.choice((1, 10, 100))}
            answer = yield share_fetch.ShareFetchRequest(
                GROUP, self.name, epoch, batch_size=10, topics=topics if epoch == 0 else (), **limits
            )
            if answer is None or answer.error_code:
                return
            rows = [row for topic in answer.responses for row in topic.partitions]
            if any(row.error_code for row in rows):
                return
            epoch += 1
            types = self._types(rows)
            if types:
                queue.ledger.sent |= {record for record, kind in types.items() if kind == ACCEPT}
                answer = yield self._acknowledgement(epoch, types)
                if answer is None or answer.error_code:
                    return
                epoch += 1
                self._confirmed(answer, types)

    def _types(self, rows: Any) -> dict[Record, int]:
        """The type of acknowledgement of each record."""
        found: dict[Record, int] = {}
        for row in rows:
            for one in row.acquired_records:
                for offset in range(one.first_offset, one.last_offset + 1):
                    record = Record(row.partition_index, offset)
                    self._queue.ledger.delivered(record)
                    is_last = one.delivery_count >= LAST_TRIES
                    found[record] = ACCEPT if is_last or self._queue.random.random() < 0.8 else RELEASE
        return found

    def _acknowledgement(self, epoch: int, types: dict[Record, int]) -> share_acknowledge.ShareAcknowledgeRequest:
        by_partition: dict[int, list[share_acknowledge.AcknowledgementBatch]] = {}
        for record, kind in sorted(types.items()):
            some = by_partition.setdefault(record.partition, [])
            some.append(share_acknowledge.AcknowledgementBatch(record.offset, record.offset, [kind]))
        partitions = [share_acknowledge.AcknowledgePartition(number, some) for number, some in by_partition.items()]
        topics = [share_acknowledge.AcknowledgeTopic(self._queue.topic_id, partitions)]
        return share_acknowledge.ShareAcknowledgeRequest(GROUP, self.name, epoch, topics=topics)

    def _confirmed(self, answer: Any, types: dict[Record, int]) -> None:
        done = {row.partition_index for topic in answer.responses for row in topic.partitions if not row.error_code}
        self._queue.ledger.accepted |= {
            record for record, kind in types.items() if kind == ACCEPT and record.partition in done
        }


class Queue:
    """One run. `seed` decides when the kills come, as far as processes allow it."""

    def __init__(self, server: ServerProcess, seed: int, on_kill: Callable[[int], None] = lambda number: None) -> None:
        self.server = server
        self.ledger = QueueLedger()
        self.random = random.Random(seed)
        self.topic_id = b""
        self._on_kill = on_kill
        self._up = asyncio.Event()

    async def run(self, kills: int) -> list[str]:
        """Kill the server `kills` times; the violations, as sentences."""
        await self._prepare()
        self._up.set()
        world = TcpWorld(self.server.address, {}, self._up.wait)
        producer = Producer(world, self)
        actors: list[Actor] = [producer, *(Worker(world, f"worker-{number}", self) for number in range(WORKERS))]
        for one in actors:
            one.start()
        try:
            for number in range(kills):
                wanted = len(self.ledger.accepted) + self.random.randrange(1, MAX_ACKS)
                await world.until(partial(self.ledger.has_accepted, wanted))
                self._up.clear()
                await asyncio.to_thread(self.server.kill)
                await asyncio.to_thread(self.server.start)
                self._up.set()
                self._on_kill(number + 1)
                if self.ledger.faults:
                    break
            producer.is_done = True
            await self._worked_off()
            self.ledger.ended()
        finally:
            world.close()
        return [*self.ledger.faults, *map(repr, world.failures)]

    async def _prepare(self) -> None:
        async with connected(self.server.address, "admin") as client:
            configs = [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
            configs.append(AlterableConfig("share.delivery.count.limit", 0, "10"))
            resources = [AlterConfigsResource(OF_GROUPS, GROUP, configs)]
            (row,) = (await client.ask(IncrementalAlterConfigsRequest(resources))).responses
            assert not row.error_code, row.error_message
            found = await client.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]))
            self.topic_id = found.topics[0].topic_id

    async def _worked_off(self) -> None:
        """Wait until no record is left: all are accepted, or an acceptance has lost its answer."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + DONE_WITHIN_S
        async with connected(self.server.address, "judge") as client:
            asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
            while True:
                (group,) = (await client.ask(asked)).groups
                rows = [row for topic in group.topics for row in topic.partitions]
                if len(rows) == PARTITIONS and all(row.lag == 0 for row in rows):
                    return
                if loop.time() > end_s:
                    self.ledger.faults.append(f"records are left: {rows}")
                    return
                await asyncio.sleep(0.05)
