"""Helpers of these tests: topics and shards of groups and transactions over logs in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from muster.coordinator.log import MemoryStorage, Storage, batches
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.state_machine.interface import Client, Producer
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import JobQueue, at_once
from muster.coordinator.topics.names import TRANSACTION_STATE_TOPIC
from muster.coordinator.transactions.commands import TransactionCommand, TransactionSettings
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.coordinator.topics.support import make_topics

CLIENT = Client("c", "/1.2.3.4")


class GroupShards(list[tuple[int, Producer, bool, int]]):
    """A partition of __consumer_offsets: the ends of transactions that it got. `error` is its answer; while `error` is
    None there is no answer yet, and `waiting` has the callback for the answer.
    """

    def __init__(self) -> None:
        self.runtime = self
        self.error: int | None = ErrorCode.NONE
        self.waiting: list[Callable[[int], object]] = []

    def complete_transaction(
        self,
        producer: Producer,
        *,
        is_committed: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        ended: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.append((transaction_version, producer, is_committed, coordinator_epoch))
        if self.error is None:
            self.waiting.append(ended)
        else:
            ended(self.error)


class CoordinatorHarness:
    """The transaction coordinator of a node with a topic `t` of two partitions. The same storage again means a
    restart.
    """

    def __init__(self, storage: Storage | None = None, *, history: str | None = None, **settings: int) -> None:
        self.storage = storage or MemoryStorage()
        self.clock = ManualClock()
        self.topics = make_topics(self.storage, self.clock, transaction_state_log_num_partitions=3)
        at_once(self.topics.ensuring("t", 2))
        self.groups = [GroupShards(), GroupShards()]
        self.job_queue = JobQueue(self.clock)
        self.loads = 0
        self.transactions = Transactions(
            self.topics, self.clock, self.job_queue, self.groups, partial(TransactionSettings, **settings),
            history=history, loaded=self._loaded,
        )  # fmt: skip

    def _loaded(self) -> None:
        self.loads += 1

    def begun(self) -> CoordinatorHarness:
        """Start it; the topic exists, and all shards are active."""
        at_once(self.topics.ensuring(TRANSACTION_STATE_TOPIC))
        self.topics.publish()
        self.transactions.start(100)
        return self

    def stopped(self) -> CoordinatorHarness:
        """Stop this coordinator, and start another one."""
        self.transactions.stop()
        self.job_queue.stop()
        self.topics.logs.close(clean=True)
        return CoordinatorHarness(self.storage).begun()

    def ask(self, transactional_id: str, request: Message, version: int = 0) -> Any:
        """The answer; None while there is none."""
        answers: list[Any] = []
        self.transactions.decide(transactional_id, TransactionCommand(request, answers.append, CLIENT, version))
        self.clock.advance(0)
        return answers[0] if answers else None

    def init(self, transactional_id: str = "x", timeout_ms: int = 60_000) -> Producer:
        """A producer id and epoch."""
        answer = self.ask(transactional_id, InitProducerIdRequest(transactional_id, timeout_ms))
        assert answer.error_code == ErrorCode.NONE
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, *topics: tuple[str, list[int]], transactional_id: str = "x") -> list[int]:
        """Add partitions to a transaction; their errors."""
        rows = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics]
        one = AddPartitionsToTxnTransaction(transactional_id, *producer, topics=rows)
        answers: list[Any] = []
        command = TransactionCommand(AddPartitionsToTxnRequest([one]), answers.append, CLIENT)
        self.transactions.submit(transactional_id, command)
        self.clock.advance(0)
        (result,) = answers[0].results_by_transaction
        return [row.partition_error_code for topic in result.topic_results for row in topic.results_by_partition]

    def end(self, producer: Producer, *, commit: bool = True, transactional_id: str = "x", version: int = 0) -> int:
        """Commit or abort; the error."""
        answer = self.ask(transactional_id, EndTxnRequest(transactional_id, *producer, commit), version)
        return int(answer.error_code)

    def state(self, transactional_id: str = "x") -> str:
        """The state of the id in the core."""
        core = self.transactions.routing.shard(transactional_id).runtime.core
        assert core is not None
        return core.state.transactions[transactional_id].state

    def markers(self, index: int = 0, topic: str = "t") -> list[tuple[int, int, bool]]:
        """Producer id, epoch, and whether it is committed, of each marker in a partition."""
        partition = self.topics.by_name[topic].partitions[index]
        assert partition is not None
        log = partition.log
        found = []
        for header in log.headers():
            if header.is_control:
                ((_, (record,)),) = batches.read(log.read(header.base_offset, header.size))
                is_committed = batches.control_kind(record) == batches.CONTROL_COMMIT
                found.append((header.producer_id, header.producer_epoch, is_committed))
        return found
