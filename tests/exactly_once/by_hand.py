"""A transactional producer that sends its own messages, of both transaction versions; it asks until it is answered.

So a test knows exactly which request was sent when the server died.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from muster.coordinator.log import batches
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.message import Message
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from muster.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.muster import Client

AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
VERSIONS = {
    1: {"InitProducerId": 4, "Produce": 11, "TxnOffsetCommit": 4, "EndTxn": 4},
    2: {"InitProducerId": 5, "Produce": 12, "TxnOffsetCommit": 5, "EndTxn": 5},
}
"""The versions of the requests, by transaction version."""
PATIENCE_S = 30.0
TIMEOUT_MS = 60_000


class Refused(Exception):
    """An error that remains when the producer asks again."""


class Producer:
    """`lost()` is called when the connection is gone; it returns when the server runs again."""

    def __init__(
        self,
        address: tuple[str, int],
        transactional_id: str,
        version: int,
        lost: Callable[[], Awaitable[None]],
        *,
        adds_partitions: bool = True,
    ) -> None:
        """`adds_partitions` False: the producer omits AddPartitionsToTxn, as clients do that leave transactions
        hanging.
        """
        self._adds_partitions = adds_partitions
        self.transactional_id = transactional_id
        self.version = version
        self._address = address
        self._lost = lost
        self._client: Client | None = None
        self._producer = (-1, -1)
        self._sequences: dict[tuple[str, int], int] = defaultdict(int)

    async def init(self) -> None:
        """Find the coordinator (Kafka creates its topic only then), and get a producer id or a newer epoch."""
        where = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        await self._ask(where, lambda answer: answer.coordinators[0].error_code, 4)
        answer = await self._ask(
            InitProducerIdRequest(self.transactional_id, TIMEOUT_MS), lambda answer: answer.error_code
        )
        self._take(answer)

    async def write(self, topic: str, partition: int, value: bytes) -> None:
        """Write one record."""
        producer_id, epoch = self._producer
        if self.version == 1 and self._adds_partitions:
            await self._add([AddPartitionsToTxnTopic(topic, [partition])])
        sequence = self._sequences[topic, partition]
        batch = batches.build(
            [(None, value)],
            timestamp_ms=time.time_ns() // 1_000_000,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        rows = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, bytes(batch))])]
        await self._ask(
            ProduceRequest(self.transactional_id, -1, TIMEOUT_MS, rows),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self._sequences[topic, partition] = sequence + 1

    async def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset with the transaction."""
        producer_id, epoch = self._producer
        if self.version == 1:
            await self._ask(
                AddOffsetsToTxnRequest(self.transactional_id, producer_id, epoch, group),
                lambda answer: answer.error_code,
            )
        rows = [TxnOffsetCommitRequestTopic(topic, partitions=[TxnOffsetCommitRequestPartition(partition, offset)])]
        await self._ask(
            TxnOffsetCommitRequest(self.transactional_id, group, producer_id, epoch, topics=rows),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    async def end(self, is_kept: bool) -> None:
        """Commit or abort the transaction."""
        answer = await self._ask(
            EndTxnRequest(self.transactional_id, *self._producer, is_kept), lambda answer: answer.error_code
        )
        if self.version == 2:
            self._take(answer)

    async def close(self) -> None:
        """Drop the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            client.writer.transport.abort()
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()

    def _take(self, answer: Any) -> None:
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequences.clear()

    async def _add(self, topics: list[AddPartitionsToTxnTopic]) -> None:
        producer_id, epoch = self._producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        await self._ask(
            request,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            3,
        )

    async def _ask(self, request: Message, error_of: Callable[[Any], int], version: int | None = None) -> Any:
        """Ask until the answer is not "not now"."""
        name = type(request).__name__.removesuffix("Request")
        version = VERSIONS[self.version].get(name, 3) if version is None else version
        deadline, said = time.monotonic() + PATIENCE_S, "not answered"
        while time.monotonic() < deadline:
            try:
                if self._client is None:
                    self._client = Client(*await asyncio.open_connection(*self._address), self.transactional_id)
                answer = await asyncio.wait_for(self._client.ask(request, version), PATIENCE_S)
            except TimeoutError:
                break
            except (OSError, EOFError):
                await self.close()
                await self._lost()
                continue
            error = error_of(answer)
            if not error:
                return answer
            if error not in AGAIN:
                raise Refused(f"{name} of {self.transactional_id}: {error_name(error)}")
            said = error_name(error)
            await asyncio.sleep(0.005)  # as a client waits before it asks again
        raise Refused(f"{name} of {self.transactional_id}: {said} for {PATIENCE_S:.0f} s")
