"""The offsets of open transactions (Kafka's pendingTransactionalOffsets). Only records change them.

They count once their transaction is committed. Until then the offset of such a partition is not stable (KIP-447). The
order of the records decides, not the order of the ends. An earlier offset never replaces an offset that was committed
later, in a transaction or outside of any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

Partition = tuple[str, int]
"""Topic and partition."""
Place = tuple[str, Partition]
"""A group, and the partition for which it has committed an offset."""


class OpenTransaction:
    """The transaction of one producer. `newest_ms`: the timestamp (wall) of its last record."""

    __slots__ = ("newest_ms", "offsets", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = self.newest_ms = -1
        self.offsets: dict[Place, tuple[int, bytes | None]] = {}
        """For each place: the number of the record among those of all transactions, and the value.

        The value is None when a later commit has replaced it.
        """


class PendingOffsets:
    """All open transactions of one core, by their producers."""

    __slots__ = ("_records", "_transactions", "producers")

    def __init__(self) -> None:
        self.producers: dict[str, dict[Partition, set[int]]] = {}
        """Group -> partition -> ids of the producers whose open transaction has committed an offset
        of the partition.
        """
        self._transactions: dict[int, OpenTransaction] = {}
        self._records = 0

    def transactions(self) -> Collection[OpenTransaction]:
        """The open transactions, in the order of their beginning."""
        return self._transactions.values()

    def begin(self, producer_id: int, producer_epoch: int, timestamp_ms: int) -> None:
        """Records of a transaction follow. It is open from now on if it was not open before."""
        transaction = self._transactions.setdefault(producer_id, OpenTransaction(producer_id))
        transaction.producer_epoch, transaction.newest_ms = producer_epoch, timestamp_ms

    def put(self, producer_id: int, place: Place, packed: bytes) -> None:
        """A commit in an open transaction."""
        self._records += 1
        self._transactions[producer_id].offsets[place] = self._records, packed
        group_id, partition = place
        self.producers.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def replace(self, place: Place, before: int | None = None) -> None:
        """An offset counts from now on. What open transactions have committed so far never replaces it.

        `before`: only records with lower numbers are affected.
        """
        for producer_id in self._of(place):
            offsets = self._transactions[producer_id].offsets
            number = offsets[place][0]
            if before is None or number < before:
                offsets[place] = number, None

    def discard(self, place: Place) -> None:
        """A tombstone: the offsets that open transactions have committed there are dropped."""
        for producer_id in list(self._of(place)):
            del self._transactions[producer_id].offsets[place]
            self._leave(place, producer_id)

    def of(self, producer_id: int) -> Mapping[Place, tuple[int, bytes | None]]:
        """The offsets that the transaction of this producer has committed so far."""
        transaction = self._transactions.get(producer_id)
        return {} if transaction is None else transaction.offsets

    def at(self, place: Place) -> Iterator[bytes]:
        """The values that open transactions have committed there, without those that a later commit has replaced."""
        for producer_id in self._of(place):
            packed = self._transactions[producer_id].offsets[place][1]
            if packed is not None:
                yield packed

    def newest_ms(self, producer_id: int) -> int:
        """The time (wall) of the last commit in the transaction of this producer. -1: it has no transaction here."""
        transaction = self._transactions.get(producer_id)
        return -1 if transaction is None else transaction.newest_ms

    def end(self, producer_id: int) -> dict[Place, tuple[int, bytes | None]]:
        """The transaction of this producer has ended. Returns the offsets that it had committed."""
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
