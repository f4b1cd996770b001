"""The offsets of transactions that have not ended (Kafka's pendingTransactionalOffsets). They count once their
transaction is committed; until then the offset of such a partition is not stable (KIP-447). Changed only by records.

The order of the records decides, not that of the ends: an offset that was committed later, in a transaction or outside
of any, is never replaced by an earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

Partition = tuple[str, int]
"""Topic and partition."""
Place = tuple[str, Partition]
"""Group, and what it has committed an offset of."""


class OpenTransaction:
    """The transaction of one producer. `newest_ms`: the timestamp (wall) of its last record."""

    __slots__ = ("newest_ms", "offsets", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = self.newest_ms = -1
        self.offsets: dict[Place, tuple[int, bytes | None]] = {}
        """Number of the record among those of all transactions, and the value; None: a later commit stands instead."""


class PendingOffsets:
    """All open transactions of one core, by their producers."""

    __slots__ = ("_records", "_transactions", "producers")

    def __init__(self) -> None:
        self.producers: dict[str, dict[Partition, set[int]]] = {}
        """Group -> partition -> ids of the producers with an open transaction that has committed an offset of it."""
        self._transactions: dict[int, OpenTransaction] = {}
        self._records = 0

    def transactions(self) -> Collection[OpenTransaction]:
        """Those that are open, in the order of their beginning."""
        return self._transactions.values()

    def begin(self, producer_id: int, producer_epoch: int, timestamp_ms: int) -> None:
        """Records of a transaction follow, which is open from now on if it was not."""
        transaction = self._transactions.setdefault(producer_id, OpenTransaction(producer_id))
        transaction.producer_epoch, transaction.newest_ms = producer_epoch, timestamp_ms

    def put(self, producer_id: int, place: Place, packed: bytes) -> None:
        """A commit in an open transaction."""
        self._records += 1
        self._transactions[producer_id].offsets[place] = self._records, packed
        group_id, partition = place
        self.producers.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def replace(self, place: Place, before: int | None = None) -> None:
        """An offset counts from now on: it is never replaced by what open transactions have committed so far (`before`:
        only by records of lower numbers).
        """
        for producer_id in self._of(place):
            offsets = self._transactions[producer_id].offsets
            number = offsets[place][0]
            if before is None or number < before:
                offsets[place] = number, None

    def discard(self, place: Place) -> None:
        """A tombstone: what open transactions have committed there is gone."""
        for producer_id in list(self._of(place)):
            del self._transactions[producer_id].offsets[place]
            self._leave(place, producer_id)

    def of(self, producer_id: int) -> Mapping[Place, tuple[int, bytes | None]]:
        """What the transaction of this producer has committed so far."""
        transaction = self._transactions.get(producer_id)
        return {} if transaction is None else transaction.offsets

    def at(self, place: Place) -> Iterator[bytes]:
        """What open transactions have committed there, but for what a later commit stands instead of."""
        for producer_id in self._of(place):
            packed = self._transactions[producer_id].offsets[place][1]
            if packed is not None:
                yield packed

    def newest_ms(self, producer_id: int) -> int:
        """When (wall) the transaction of this producer has committed last; -1: it has none here."""
        transaction = self._transactions.get(producer_id)
        return -1 if transaction is None else transaction.newest_ms

    def end(self, producer_id: int) -> dict[Place, tuple[int, bytes | None]]:
        """The transaction of this producer has ended: what it had committed."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return {}
        for place in transaction.offsets:
            self._leave(place, producer_id)
        return transaction.offsets

    def _of(self, place: Place) -> Collection[int]:
        return self.producers.get(place[0], {}).get(place[1], ())

    def _leave(self, place: Place, producer_id: int) -> None:
        group_id, partition = place
        partitions = self.producers[group_id]
        partitions[partition].remove(producer_id)
        if not partitions[partition]:
            del partitions[partition]
            if not partitions:
                del self.producers[group_id]
