"""One transactional id: its producer, and its present or last transaction. Decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.transactions.states import EMPTY, IN_RECORDS
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogValue

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 2**15 - 1
"""The greatest epoch. No producer gets it, so a producer with the greatest allowed epoch can still be fenced."""
NEVER_TIMES_OUT_MS: Final = 2**31 - 1
"""The timeout of a transaction of a distributed two-phase commit (KIP-939)."""
TV_0: Final = 0
TV_2: Final = 2
"""Kafka's transaction versions of clients. Version 1 differs from 0 only in the version of records."""

Partitions = Mapping[str, Collection[int]]
"""Partitions by topic, in the order in which records name them."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class Transaction:
    """One transactional id. 100,000 of them must be small: no deadline, no copies of shared values.

    Only `State.evolve` changes it. `last_producer_epoch`: the epoch before this one, if the same producer asked for
    this one, or a transaction ended with it. No record has it, so it is -1 after a load, as on Kafka.
    """

    __slots__ = (
        "last_producer_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "updated_ms",
        "version",
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id = self.previous_producer_id = self.next_producer_id = NO_PRODUCER_ID
        self.producer_epoch = self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.timeout_ms = 0
        self.state = EMPTY
        self.partitions: Partitions = NO_PARTITIONS
        self.start_ms = self.updated_ms = -1
        """Wall time: when the present or last transaction began, and of the last record.

        The begin is -1 when the producer has not begun any transaction.
        """
        self.version = TV_0
        """Kafka's clientTransactionVersion: of the client that caused the last change."""

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer may have no further epoch: the next epoch then has another producer id."""
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
        """Set the fields from a record. `timeout_ms`, `partitions`: those of the record, as shared objects."""
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
    """Whether no producer may have a greater epoch than this."""
    return producer_epoch >= LAST_EPOCH - 1
