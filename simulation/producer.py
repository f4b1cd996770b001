"""The scripted transactional producer. It writes records and offsets in transactions, and repeats lost requests.

Its requests and their answers are messages as a client of its transaction version sends them. A `Book` notes what the
producer attempts and what was acknowledged. The world passes the requests to a core or to a whole server.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

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
from muster.simulation.actor import Actor, Script

Step = Generator[Any, Any, int]
"""A part of a script. Its result is an error code: 0 for success, LOST if the outcome is not known."""

LOST: Final = -100
TRANSACTION: Final = 1
"""The key type of FindCoordinator for a transactional id."""
VERSIONS: Final[Mapping[int, Mapping[str, int]]] = {
    1: {
        "Produce": 9, "AddPartitionsToTxn": 3, "AddOffsetsToTxn": 3, "TxnOffsetCommit": 3, "EndTxn": 4,
        "InitProducerId": 4, "FindCoordinator": 3,
    },
    2: {"Produce": 12, "TxnOffsetCommit": 5, "EndTxn": 5, "InitProducerId": 5, "FindCoordinator": 3},
}  # fmt: skip
"""The versions of a client's requests, by the client's transaction version."""

LATER: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the producer repeats its request."""
ABORT: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""Errors after which the transaction cannot be committed."""
OVER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Errors after which the producer must begin again: another producer has the id, or the coordinator has ended the
transaction.
"""


class Book(Protocol):
    """The book of transactions: what producers attempt, and what was acknowledged."""

    def owns(self, producer: TransactionalProducer) -> None:
        """The producer has got its producer id and epoch."""

    def begins(self, producer: TransactionalProducer) -> Any:
        """The producer begins a transaction. Returns the transaction."""

    def writes(self, transaction: Any, partition: int, count: int) -> Sequence[bytes]:
        """The producer is about to write `count` records into a partition. Returns the values of these records."""

    def commits_offset(self, transaction: Any) -> int:
        """The producer is about to commit an offset of its group. Returns the offset."""

    def ends(self, transaction: Any, *, is_committed: bool) -> None:
        """The producer is about to send the EndTxn."""

    def ended(self, transaction: Any, *, is_committed: bool) -> None:
        """The end of the transaction was acknowledged."""

    def succeeded(self, producer: TransactionalProducer) -> None:
        """A request that only the owner of the transactional id may send was answered without an error."""


class TransactionalProducer(Actor):
    """A process with a transactional id. `version`: the transaction version that it knows."""

    patience = 6
    """The number of tries for a request of a transaction, if answers are lost, before the producer aborts."""
    retry_ms = 40

    def __init__(
        self,
        world: Any,
        name: str,
        transactional_id: str,
        book: Book,
        *,
        version: int,
        timeout_ms: int,
        topic: str,
        partitions: int,
        group_id: str,
    ) -> None:
        super().__init__(world, name)
        self.transactional_id = transactional_id
        self.book = book
        self.version = version
        self.versions = VERSIONS[version]
        self.timeout_ms = timeout_ms
        self.topic = topic
        self.partitions = partitions
        self.group_id = group_id
        self.producer_id = self.epoch = -1
        self.asked_ms = 0
        """When the producer sent its last request."""
        self._sequences: dict[int, int] = {}

    # ---- the differences between producers

    def pause_ms(self) -> int:
        return int(self.world.random() * 200)

    # ---- the script

    def live(self) -> Script:
        """Begin, and run transactions until the producer is fenced. Then begin again."""
        while True:
            self.producer_id = self.epoch = -1
            error = yield from self.init()
            while not error:
                yield self.pause_ms()
                error = yield from self.transaction()
            yield self.retry_ms

    def init(self) -> Step:
        """Take the transactional id over. With a producer id, raise the producer's own epoch."""
        while True:
            request = InitProducerIdRequest(self.transactional_id, self.timeout_ms, self.producer_id, self.epoch)
            response = yield from self.ask(request)
            error = LOST if response is None else response.error_code
            if not error:
                self.takes(response.producer_id, response.producer_epoch)
                return 0
            if error != LOST and error not in LATER:
                self.report_unexpected(request, error)
                return int(error)
            yield self.retry_ms
            if error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                yield from self.ask(FindCoordinatorRequest(self.transactional_id, TRANSACTION))

    def takes(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences = {}
        self.producer_id, self.epoch = producer_id, epoch
        self.book.owns(self)

    def transaction(self) -> Step:
        """Run one transaction: records, perhaps offsets, and its end. The result is 0 if another one can follow."""
        random = self.world.random
        transaction = self.book.begins(self)
        added: set[int] = set()
        error = 0
        for _ in range(int(random() * 4)):
            partition = int(random() * self.partitions)
            if self.version < 2 and partition not in added:
                error = yield from self.add_partition(partition)
                added.add(partition)
            error = error or (yield from self.produce(transaction, partition))
            if error:
                break
            yield self.pause_ms()
        if not error and random() < 0.6:
            error = yield from self.commit_offset(transaction)
        if error in OVER:
            return error
        is_committed = not error and random() < 0.7
        if transaction.is_empty and (is_committed or self.version < 2):
            return 0  # the transaction is empty
        return (yield from self.end(transaction, is_committed=is_committed, is_sure=not error))

    def add_partition(self, partition: int) -> Step:
        """Send AddPartitionsToTxn, as clients before version 2 do."""
        topics = [AddPartitionsToTxnTopic(self.topic, [partition])]
        request = AddPartitionsToTxnRequest((), self.transactional_id, self.producer_id, self.epoch, topics)
        return (yield from self.insist(request, lambda answer: _only(_only(
            answer.results_by_topic_v3_and_below).results_by_partition).partition_error_code))  # fmt: skip

    def produce(self, transaction: Any, partition: int) -> Step:
        """Send a batch of a few records, and repeat it until it is answered."""
        count, sequence = 1 + int(self.world.random() * 3), self._sequences.get(partition, 0)
        pairs = [(None, value) for value in self.book.writes(transaction, partition, count)]
        data = batches.build(
            pairs, timestamp_ms=self.world.wall_ms, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        self._sequences[partition] = sequence + count
        rows = [TopicProduceData(self.topic, partition_data=[PartitionProduceData(partition, bytes(data))])]
        request = ProduceRequest(self.transactional_id, -1, 1_000, rows)
        return (yield from self.insist(request, lambda answer: _only(_only(
            answer.responses).partition_responses).error_code))  # fmt: skip

    def commit_offset(self, transaction: Any) -> Step:
        """Commit the offset of partition 0 of the group. Before version 2 the group is added first."""
        if self.version < 2:
            added = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, self.group_id)
            error = yield from self.insist(added, lambda answer: answer.error_code)
            if error:
                return error
        row = TxnOffsetCommitRequestPartition(0, self.book.commits_offset(transaction))
        request = TxnOffsetCommitRequest(
            self.transactional_id, self.group_id, self.producer_id, self.epoch,
            topics=[TxnOffsetCommitRequestTopic(self.topic, partitions=[row])],
        )  # fmt: skip
        return (yield from self.insist(request, lambda answer: _only(_only(answer.topics).partitions).error_code))

    def end(self, transaction: Any, *, is_committed: bool, is_sure: bool) -> Step:
        """Send EndTxn until it is answered.

        `is_sure`: whether every batch was answered, so that the next sequence number is known.
        """
        self.book.ends(transaction, is_committed=is_committed)
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, is_committed)
        while True:
            response = yield from self.ask(request)
            error = LOST if response is None else response.error_code
            if not error:
                break
            if error != LOST and error not in LATER:
                self.report_unexpected(request, error)
                return int(error)
            yield self.retry_ms
        self.book.succeeded(self)
        self.book.ended(transaction, is_committed=is_committed)
        if self.version == 2:
            self.takes(response.producer_id, response.producer_epoch)
        elif not is_committed and (not is_sure or self.world.random() < 0.3):
            return (yield from self.init())
        return 0

    # ---- requests

    def ask(self, request: Message) -> Generator[Any, Any, Any]:
        self.asked_ms = self.world.ms
        return (yield request)

    def insist(self, request: Message, error_of: Any) -> Step:
        """Repeat a request until its answer is clear, at most `patience` times."""
        for _ in range(self.patience):
            response = yield from self.ask(request)
            error = LOST if response is None else error_of(response)
            if error != LOST and error not in LATER:
                self.report_unexpected(request, error)
                if not error:
                    self.book.succeeded(self)
                return int(error)
            yield self.retry_ms
        return LOST

    def report_unexpected(self, request: Message, error: int) -> None:
        """Report an answer that no client could handle as a bug of the server."""
        if error and error not in OVER and error not in ABORT:
            self.world.fault(f"{type(request).__name__} of {self.name} was answered with {error_name(error)}")


def _only(rows: Iterable[Any]) -> Any:
    (row,) = rows
    return row
