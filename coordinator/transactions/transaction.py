"""One transactional id: its states, its producer, and its present or last transaction. This module decides nothing.

The diagrams in docs/ are drawn from the table of transitions (Kafka's TransactionState). PrepareEpochFence and Dead
last only for one step, and no record has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from muster.coordinator.state_machine.interface import IllegalTransition
from muster.protocol.messages.transaction_records.transaction_log import PartitionsSchema, TransactionLogValue

EMPTY: Final = "Empty"
ONGOING: Final = "Ongoing"
PREPARE_COMMIT: Final = "PrepareCommit"
PREPARE_ABORT: Final = "PrepareAbort"
COMPLETE_COMMIT: Final = "CompleteCommit"
COMPLETE_ABORT: Final = "CompleteAbort"
DEAD: Final = "Dead"
PREPARE_EPOCH_FENCE: Final = "PrepareEpochFence"
STATES: Final = (
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARE_ABORT,
    COMPLETE_COMMIT,
    COMPLETE_ABORT,
    DEAD,
    PREPARE_EPOCH_FENCE,
)
"""The index of a state is its number in records (transaction_status)."""
STATUS: Final[Mapping[str, int]] = MappingProxyType({state: number for number, state in enumerate(STATES)})
IN_RECORDS: Final = STATES[: STATUS[DEAD]]
"""The states that a record may have."""

INITIALIZED: Final = "a producer gets its id and epoch"
ADDED: Final = "partitions are added"
COMMITTED: Final = "the producer commits"
ABORTED: Final = "the producer aborts"
ABORTED_NOTHING: Final = "the producer aborts without a transaction (from EndTxn 5 on)"
FENCED: Final = "a new producer, or the timeout, ends the transaction"
FENCE_ABORTED: Final = "the transaction is aborted with the next epoch"
MARKED: Final = "each partition has its marker"
EXPIRED: Final = "the id was unused for too long"
EVENTS: Final = (INITIALIZED, ADDED, COMMITTED, ABORTED, ABORTED_NOTHING, FENCED, FENCE_ABORTED, MARKED, EXPIRED)

TRANSITIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        (EMPTY, INITIALIZED): EMPTY,
        (COMPLETE_COMMIT, INITIALIZED): EMPTY,
        (COMPLETE_ABORT, INITIALIZED): EMPTY,
        (EMPTY, ADDED): ONGOING,
        (ONGOING, ADDED): ONGOING,
        (COMPLETE_COMMIT, ADDED): ONGOING,
        (COMPLETE_ABORT, ADDED): ONGOING,
        (ONGOING, COMMITTED): PREPARE_COMMIT,
        (ONGOING, ABORTED): PREPARE_ABORT,
        (EMPTY, ABORTED_NOTHING): PREPARE_ABORT,
        (COMPLETE_COMMIT, ABORTED_NOTHING): PREPARE_ABORT,
        (COMPLETE_ABORT, ABORTED_NOTHING): PREPARE_ABORT,
        (ONGOING, FENCED): PREPARE_EPOCH_FENCE,
        (PREPARE_EPOCH_FENCE, FENCE_ABORTED): PREPARE_ABORT,
        (PREPARE_COMMIT, MARKED): COMPLETE_COMMIT,
        (PREPARE_ABORT, MARKED): COMPLETE_ABORT,
        (EMPTY, EXPIRED): DEAD,
        (COMPLETE_COMMIT, EXPIRED): DEAD,
        (COMPLETE_ABORT, EXPIRED): DEAD,
    }
)

IDLE: Final = frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
"""No transaction is open or ending: a new transaction may begin, and the id may expire."""
ENDING: Final = frozenset((PREPARE_COMMIT, PREPARE_ABORT))
"""The end of the transaction is decided, and its markers are being written: all other requests have to wait."""


def after(transactional_id: str, state: str, event: str) -> str:
    """The state after `event`; raises IllegalTransition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"transactional id {transactional_id!r}", state, event) from None


NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 2**15 - 1
"""The greatest epoch, which no producer gets: it fences a producer with the epoch before."""
NEVER_TIMES_OUT_MS: Final = 2**31 - 1
"""The timeout of a transaction of a distributed two-phase commit (KIP-939)."""
TV_0: Final = 0
TV_2: Final = 2
"""Kafka's transaction versions of clients. Version 1 differs from version 0 only in the version of records."""

Partitions = Mapping[str, Collection[int]]
"""Partitions by topic, both in the order of the record."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class SharedRows(list[PartitionsSchema]):
    """Partitions as rows of many records: never change them. `packed`: their bytes, once a codec has packed them."""

    __slots__ = ("packed",)

    def __init__(self, rows: Iterable[PartitionsSchema]) -> None:
        super().__init__(rows)
        self.packed: bytes | None = None


class SharedPartitions(dict[str, list[int]]):
    """Partitions of many transactions: never change them. `text`: their text, once the history has made it."""

    __slots__ = ("rows", "text")

    def __init__(self, partitions: Partitions) -> None:
        super().__init__((topic, list(ids)) for topic, ids in partitions.items())
        self.rows = SharedRows(rows_of(partitions))
        self.text: str | None = None


def rows_of(partitions: Partitions) -> list[PartitionsSchema]:
    """The partitions as rows of a record."""
    if type(partitions) is SharedPartitions:
        return partitions.rows
    return [PartitionsSchema(topic, list(ids)) for topic, ids in partitions.items()]


class Transaction:
    """One transactional id. A node may have 100,000 such objects, so each is small; only `State.evolve` changes it.

    `last_producer_epoch`: the previous epoch, if the same producer had it. No record has this field, so it is -1 after
    a load, as on Kafka.
    """

    __slots__: ClassVar[tuple[str, ...]] = (
        "last_producer_epoch", "next_producer_id", "partitions", "previous_producer_id", "producer_epoch",
        "producer_id", "start_ms", "state", "timeout_ms", "transactional_id", "updated_ms", "version",
    )  # fmt: skip

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id = self.previous_producer_id = self.next_producer_id = NO_PRODUCER_ID
        self.producer_epoch = self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.timeout_ms = 0
        self.state = EMPTY
        self.partitions: Partitions = NO_PARTITIONS
        self.start_ms = self.updated_ms = -1
        """Wall times of the beginning of the last transaction (-1 before the first), and of the last record."""
        self.version = TV_0
        """Kafka's clientTransactionVersion of the client that caused the last change."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer's epochs are used up, so that the next epoch needs another producer id."""
        return is_exhausted(self.producer_epoch)

    @property
    def partition_count(self) -> int:
        """How many partitions the open transaction has."""
        return sum(map(len, self.partitions.values()))

    def take(
        self,
        value: TransactionLogValue,
        last_producer_epoch: int,
        timeout_ms: int,
        partitions: Partitions | None = None,
    ) -> None:
        """Set the fields from a record. `timeout_ms` and `partitions` are equal to the record's, but shared objects."""
        producer_id, previous = value.producer_id, value.previous_producer_id
        self.producer_id = producer_id
        self.previous_producer_id = producer_id if previous == producer_id else previous
        self.next_producer_id = value.next_producer_id
        self.producer_epoch = value.producer_epoch
        self.last_producer_epoch = last_producer_epoch
        self.timeout_ms = timeout_ms
        self.state = IN_RECORDS[value.transaction_status]
        self.partitions = self._partitions_of(value) if partitions is None else partitions
        self.start_ms = value.transaction_start_timestamp_ms
        self.updated_ms = value.transaction_last_update_timestamp_ms
        self.version = value.client_transaction_version

    def _partitions_of(self, value: TransactionLogValue) -> Partitions:
        rows = value.transaction_partitions
        if not rows or self.state == EMPTY:
            return NO_PARTITIONS
        partitions: dict[str, dict[int, None]] = {}
        for row in rows:
            partitions.setdefault(row.topic, {}).update(dict.fromkeys(row.partition_ids))
        return partitions


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no producer may have a greater epoch than `producer_epoch`."""
    return producer_epoch >= LAST_EPOCH - 1
