"""The application with aiokafka: it has a producer for each input partition, as it does not use the group's generation.

The new owner of a partition makes a producer with the partition's transactional id. This ends the transaction of the
owner before, and fences that owner. Only then the new owner asks for the committed offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from tests.exactly_once.workers import common
from tests.exactly_once.workers.common import Job, is_to_abort, say
from tests.support.consumers import stopped


class Worker(ConsumerRebalanceListener):
    """One consumer, and a producer for each of its partitions."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=job.bootstrap,
            group_id=job.group,
            group_instance_id=job.instance,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=common.SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=common.HEARTBEAT_MS,
            fetch_max_wait_ms=common.POLL_MS,
            retry_backoff_ms=20,
        )
        self.producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self.retired: list[AIOKafkaProducer] = []

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._retire(revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._retire(set(self.producers))
        say("joined", len(assigned))

    def _retire(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            producer = self.producers.pop(partition, None)
            if producer is not None:
                self.retired.append(producer)

    async def run(self) -> None:
        """Work until the process is ended."""
        while True:  # the server may be away
            try:
                await self.consumer.start()
                break
            except KafkaError:
                await asyncio.sleep(0.05)
        self.consumer.subscribe([self.job.input], listener=self)
        try:
            while True:
                common.lives()
                batches = await self.consumer.getmany(timeout_ms=common.POLL_MS, max_records=common.MAX_RECORDS)
                for partition, records in batches.items():
                    await self._take(partition, records)
                while self.retired:
                    await self._stop(self.retired.pop())
        finally:
            await stopped(self.consumer)

    async def _take(self, partition: TopicPartition, records: list[Any]) -> None:
        producer = self.producers.get(partition)
        try:
            if producer is None:
                await self._own(partition)  # and read again from what is committed
            else:
                await self._transaction(producer, partition, records)
        except ProducerFenced:
            say("fenced", partition.partition)
            self._retire({partition})
        except KafkaError as error:
            say("gave-up", type(error).__name__)
            self._retire({partition})

    async def _own(self, partition: TopicPartition) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.job.bootstrap,
            transactional_id=f"{self.job.group}-{partition.partition}",
            transaction_timeout_ms=common.TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=20,
        )
        try:
            await producer.start()
        except BaseException:
            await self._stop(producer)
            raise
        if partition not in self.consumer.assignment():
            await self._stop(producer)
            return
        self.producers[partition] = producer
        await self._rewind(partition)

    async def _rewind(self, partition: TopicPartition) -> None:
        committed = await self.consumer.committed(partition)
        if partition in self.consumer.assignment():
            self.consumer.seek(partition, committed or 0)

    async def _transaction(self, producer: AIOKafkaProducer, partition: TopicPartition, records: list[Any]) -> None:
        await producer.begin_transaction()
        sent = []
        for one in records:
            target, value = self.job.made_of(one.partition, one.offset, one.value)
            sent.append(await producer.send(self.job.output, value, partition=target))
        if is_to_abort():
            await asyncio.gather(*sent)
            await producer.abort_transaction()
            say("aborted")
            await self._rewind(partition)
            return
        await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, self.job.group)
        await producer.commit_transaction()
        say("committed", len(records))

    async def _stop(self, producer: AIOKafkaProducer) -> None:
        with contextlib.suppress(KafkaError):
            await producer.stop()


async def main() -> None:
    """Work until stdin ends."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    ended = asyncio.to_thread(sys.stdin.buffer.read)
    working = asyncio.create_task(Worker(common.job()).run())
    await asyncio.wait([working, asyncio.ensure_future(ended)], return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


if __name__ == "__main__":
    asyncio.run(main())
