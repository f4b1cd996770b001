"""aiokafka producers, consumers and group members as the tests use them; each is closed when its block ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from tests.e2e.ledger import Ledger, eventually
from tests.support.consumers import stopped

QUICK_CONSUMER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": 30000,
    "rebalance_timeout_ms": 10000,
    "retry_backoff_ms": 20,
    "fetch_max_wait_ms": 100,
}


@asynccontextmanager
async def producing(bootstrap: str, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **{"retry_backoff_ms": 20, **settings})
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(bootstrap: str, *topics: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **{**QUICK_CONSUMER, **settings})
    try:
        await consumer.start()
        yield consumer
    finally:
        await stopped(consumer)


@asynccontextmanager
async def administering(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def grow(admin: AIOKafkaAdminClient, topic: str, partitions: int) -> None:
    """Let the topic have `partitions` partitions."""
    answer = await admin.create_partitions({topic: NewPartitions(partitions)})
    assert all(row[1] == 0 for row in answer.topic_errors), answer


async def send_numbered(
    bootstrap: str, topic: str, partitions: int, count: int, first: int = 0, **settings: Any
) -> None:
    """Produce `count` records whose values are their numbers from `first`, dealt out over the partitions in turn."""
    async with producing(bootstrap, linger_ms=5, **settings) as producer:
        sent = [
            await producer.send(topic, str(number).encode(), partition=number % partitions)
            for number in range(first, first + count)
        ]
        await asyncio.gather(*sent)


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    """The next `count` records of the consumer, in the order they came."""
    records: list[Any] = []
    while len(records) < count:
        batches = await asyncio.wait_for(consumer.getmany(timeout_ms=10000, max_records=count - len(records)), 30)
        assert batches, f"only {len(records)} of {count} records came"
        for batch in batches.values():
            records.extend(batch)
    return records


class Member:
    """A group member. It processes records, notes them in a ledger, and commits them before it gives partitions up.

    aiokafka's getmany returns no record while partitions are being reassigned, so a record is processed either before
    the commit in `revoked` or under the next assignment.
    """

    def __init__(
        self, name: str, ledger: Ledger, bootstrap: str, topics: Iterable[str], group: str, **settings: Any
    ) -> None:
        self.name, self.ledger, self.topics = name, ledger, list(topics)
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, client_id=name, **{**QUICK_CONSUMER, **settings}
        )
        self.assignments: list[set[TopicPartition]] = []
        """Every assignment that it got, the newest last."""
        self._rebalancing = True
        self._processed: dict[TopicPartition, int] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> set[TopicPartition]:
        """The present partitions of the member; empty while it has none."""
        return set() if self._rebalancing else self.assignments[-1]

    async def start(self) -> Member:
        """Join the group and begin to process."""
        await self.consumer.start()
        self.subscribe(self.topics)
        self._task = asyncio.create_task(self._run(), name=self.name)
        return self

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics from now on."""
        self.topics = list(topics)
        self.consumer.subscribe(self.topics, listener=_Rebalances(self))

    async def stop(self) -> None:
        """Process no more, commit, leave the group."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
            await self.commit()
        await stopped(self.consumer)

    async def _run(self) -> None:
        while True:
            batches = await self.consumer.getmany(timeout_ms=1000)
            for partition, records in batches.items():
                for record in records:
                    self.ledger.add(self.name, record.topic, record.partition, record.offset)
                self._processed[partition] = records[-1].offset + 1

    async def commit(self) -> None:
        """Commit what was processed since the last commit."""
        processed, self._processed = self._processed, {}
        if processed:
            await self.consumer.commit(processed)

    async def revoked(self) -> None:
        self._rebalancing = True
        await self.commit()

    def assigned(self, partitions: set[TopicPartition]) -> None:
        self.assignments.append(set(partitions))
        self._rebalancing = False


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
    def __init__(self, member: Member) -> None:
        self.member = member

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self.member.revoked()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.member.assigned(assigned)


@asynccontextmanager
async def members(*group: Member) -> AsyncIterator[None]:
    """Let members join, all at once. Those that still run when the block ends leave."""
    await asyncio.gather(*(member.start() for member in group))
    try:
        yield
    finally:
        await asyncio.gather(*(member.stop() for member in group if not member.consumer._closed))


async def shared_out(group: Iterable[Member], partitions: int) -> None:
    """Wait until the members have all partitions: each partition once, and no member without partitions."""
    present = list(group)

    def settled() -> bool:
        assignments = [member.assignment for member in present]
        union = set().union(*assignments)
        return len(union) == partitions == sum(map(len, assignments)) and all(assignments)

    await eventually(settled, f"{partitions} partitions to be shared out to {[member.name for member in present]}")
