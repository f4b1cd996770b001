"""Partitions in the world of the transaction core. They append, or refuse, as a log does, and keep what they
acknowledge. Each offsets group has its committed offsets beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.protocol.errors import ErrorCode
from tests.simulation.transactions.ledger import Entry

NO_EPOCH = -1


class _Producer:
    __slots__ = ("coordinator_epoch", "epoch", "guard", "open_epoch", "sequence")

    def __init__(self) -> None:
        self.epoch = self.coordinator_epoch = self.open_epoch = NO_EPOCH
        self.sequence = 0
        self.guard: object = None


class Partition:
    """One partition. A batch is appended once for its sequence number. A guard is not valid after the next marker."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._producers: dict[int, _Producer] = {}

    def guard(self, producer_id: int, epoch: int) -> object:
        """None when the producer's transaction is open here; else the guard that an `append` after verification must
        have.
        """
        producer = self._of(producer_id)
        if producer.open_epoch == epoch:
            return None
        if producer.guard is None:
            producer.guard = object()
        return producer.guard

    def append(self, producer_id: int, epoch: int, sequence: int, values: Sequence[bytes], guard: object) -> int:
        """Append records, only once for each sequence number; `sequence` -1: it has none."""
        producer = self._of(producer_id)
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > producer.epoch:
            producer.sequence = 0
        if 0 <= sequence < producer.sequence:
            return ErrorCode.NONE
        if sequence > producer.sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.open_epoch != epoch and (guard is None or guard is not producer.guard):
            return ErrorCode.INVALID_TXN_STATE
        producer.epoch = producer.open_epoch = epoch
        if sequence >= 0:
            producer.sequence = sequence + len(values)
        self.entries.append(Entry(len(self.entries), producer_id, epoch, values))
        return ErrorCode.NONE

    def mark(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int, *, is_commit: bool) -> int:
        """Write a marker."""
        producer = self._of(producer_id)
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if epoch < producer.epoch or (version == 2 and epoch == producer.open_epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > producer.epoch:
            producer.sequence = 0
        producer.epoch, producer.coordinator_epoch = epoch, coordinator_epoch
        producer.open_epoch, producer.guard = NO_EPOCH, None
        self.entries.append(Entry(len(self.entries), producer_id, epoch, None, is_commit, coordinator_epoch))
        return ErrorCode.NONE

    def _of(self, producer_id: int) -> _Producer:
        return self._producers.setdefault(producer_id, _Producer())
