"""The offsets of all groups of one core, also offsets of open transactions. Only records change offsets.

A core may have millions of offsets. Each offset is kept as 80 bytes, because a message would take 200.

Offsets of an open transaction (Kafka's pendingTransactionalOffsets) count once the transaction is committed. Until then
the offset of such a partition is not stable (KIP-447). If there are two commits for a partition, the commit with the
later record counts, whichever transaction ends first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from struct import Struct
from sys import intern
from types import MappingProxyType
from typing import Final

from muster.protocol.messages.group_records.offset_commit import OffsetCommitValue

Partition = tuple[str, int]
"""A partition: topic and index."""
Place = tuple[str, Partition]
"""A group, and a partition for which this group has committed an offset."""
Packed = bytes
"""An OffsetCommitValue in compact form: the fields of `_FIXED`, then the metadata in UTF-8."""


class OpenTransaction:
    """The transaction of one producer. `newest_ms`: the timestamp (wall) of the last record."""

    __slots__ = ("newest_ms", "offsets", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = self.newest_ms = -1
        self.offsets: dict[Place, tuple[int, Packed]] = {}
        """The last commit for each place: the number of its record, counted over all transactions, and the value."""


class PendingOffsets:
    """All open transactions of one core, by their producers."""

    __slots__ = ("_records", "_replaced", "_transactions", "transactions_of")

    def __init__(self) -> None:
        self.transactions_of: dict[str, dict[Partition, set[OpenTransaction]]] = {}
        """The open transactions that have committed an offset of a partition, by group and partition."""
        self._transactions: dict[int, OpenTransaction] = {}
        self._records = 0
        self._replaced: dict[Place, int] = {}
        """For each place, the highest number of a record that a later commit has replaced."""

    def transactions(self) -> Collection[OpenTransaction]:
        """The open transactions, in the order of their beginning."""
        return self._transactions.values()

    def begin(self, producer_id: int, producer_epoch: int, timestamp_ms: int) -> None:
        """Open the transaction of this producer, if it is not open yet."""
        transaction = self._transactions.setdefault(producer_id, OpenTransaction(producer_id))
        transaction.producer_epoch, transaction.newest_ms = producer_epoch, timestamp_ms

    def put(self, producer_id: int, place: Place, packed: Packed) -> None:
        """Add a commit in an open transaction."""
        self._records += 1
        transaction = self._transactions[producer_id]
        transaction.offsets[place] = self._records, packed
        group_id, partition = place
        self.transactions_of.setdefault(group_id, {}).setdefault(partition, set()).add(transaction)

    def replace(self, place: Place, number: int | None = None) -> None:
        """Note that an offset is in force. Records of open transactions up to `number` may no longer replace this
        offset.
        """
        group_id, partition = place
        if partition in self.transactions_of.get(group_id, ()):
            self._replaced[place] = self._records if number is None else max(number, self._replaced.get(place, 0))

    def discard(self, place: Place) -> None:
        """Replay a tombstone: drop the offsets that open transactions have committed at this place."""
        group_id, partition = place
        for transaction in list(self.transactions_of.get(group_id, {}).get(partition, ())):
            del transaction.offsets[place]
            self._leave(place, transaction)

    def at(self, place: Place) -> Iterator[Packed]:
        """The values that open transactions have committed at a place, unless a later commit has replaced them."""
        group_id, partition = place
        replaced = self._replaced.get(place, 0)
        for transaction in self.transactions_of.get(group_id, {}).get(partition, ()):
            number, packed = transaction.offsets[place]
            if number > replaced:
                yield packed

    def newest_ms(self, producer_id: int) -> int:
        """Wall ms of the last commit in this producer's open transaction; -1 when no transaction is open."""
        transaction = self._transactions.get(producer_id)
        return -1 if transaction is None else transaction.newest_ms

    def end(self, producer_id: int) -> Iterator[tuple[Place, int, Packed]]:
        """End this producer's transaction. Yields each offset that no later commit replaced, with the record's number.

        A yielded offset leaves the transaction. So the caller may pause between two offsets.
        """
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return
        offsets = transaction.offsets
        for place in tuple(offsets):
            if place in offsets:  # the offset may have been deleted during a pause
                number, packed = offsets.pop(place)
                is_replaced = number <= self._replaced.get(place, 0)
                self._leave(place, transaction)
                if not is_replaced:
                    yield place, number, packed

    def _leave(self, place: Place, transaction: OpenTransaction) -> None:
        group_id, partition = place
        partitions = self.transactions_of[group_id]
        partitions[partition].remove(transaction)
        if not partitions[partition]:
            del partitions[partition]
            self._replaced.pop(place, None)
            if not partitions:
                del self.transactions_of[group_id]


Partitions = Mapping[int, Packed]
"""The last committed values, by partition."""

_FIXED: Final = Struct(">qiqq16s")
"""The layout: offset, leader epoch, commit timestamp, expire timestamp, topic id."""
pack_offset = _FIXED.pack
"""Packs offset, leader epoch, commit and expire timestamp, topic id: a `Packed` without metadata."""
_unpack = _FIXED.unpack_from
_METADATA: Final = _FIXED.size
_unpack_position = Struct(">qi").unpack_from
_unpack_times = Struct(">12xqq").unpack_from
_NO_TOPICS: Final[Mapping[str, Partitions]] = MappingProxyType({})
_NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


def pack(value: OffsetCommitValue) -> Packed:
    """An OffsetCommitValue as a `Packed`."""
    packed: Packed = pack_offset(
        value.offset, value.leader_epoch, value.commit_timestamp, value.expire_timestamp, value.topic_id
    )
    return packed + value.metadata.encode("utf-8", "surrogatepass") if value.metadata else packed


def unpack(packed: Packed) -> OffsetCommitValue:
    """The OffsetCommitValue of a `Packed`."""
    offset, leader_epoch, commit_ms, expire_ms, topic_id = _unpack(packed)
    return OffsetCommitValue(offset, leader_epoch, metadata_of(packed), commit_ms, expire_ms, topic_id)


def position_of(packed: Packed) -> tuple[int, int]:
    """The offset and the leader epoch of a `Packed`."""
    offset, leader_epoch = _unpack_position(packed)
    return offset, leader_epoch


def metadata_of(packed: Packed) -> str:
    """The metadata of a `Packed`."""
    return packed[_METADATA:].decode("utf-8", "surrogatepass") if len(packed) > _METADATA else ""


topic_id_of: Final[Callable[[Packed], bytes]] = itemgetter(slice(28, 44))
"""Returns the topic id of a `Packed`; zeroes when the record had no topic id."""


def times_of(packed: Packed) -> tuple[int, int]:
    """The commit timestamp and the expire timestamp (or -1) of a `Packed`, in wall ms."""
    commit_ms, expire_ms = _unpack_times(packed)
    return commit_ms, expire_ms


class Offsets:
    """The last committed values, by group id, topic and partition."""

    __slots__ = ("_groups", "_pending_of", "pending")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, Packed]]] = {}
        self.pending = PendingOffsets()
        self._pending_of = self.pending.transactions_of

    def put(self, group_id: str, topic: str, partition: int, packed: Packed) -> None:
        """Replay a commit, whose value replaces the previous value."""
        if self._pending_of:
            self.pending.replace((group_id, (topic, partition)))
        try:
            self._groups[group_id][topic][partition] = packed
        except KeyError:  # the first commit of the group, or of the topic
            self._groups.setdefault(intern(group_id), {})[intern(topic)] = {partition: packed}

    def discard(self, group_id: str, topic: str, partition: int) -> None:
        """Replay a tombstone: delete the value, if it exists."""
        if self._pending_of:
            self.pending.discard((group_id, (topic, partition)))
        topics = self._groups.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The last committed value, or None."""
        packed = self.partitions(group_id, topic).get(partition)
        return None if packed is None else unpack(packed)

    def partitions(self, group_id: str, topic: str) -> Partitions:
        """All committed offsets of a group for a topic."""
        return self._groups.get(group_id, _NO_TOPICS).get(topic, _NO_PARTITIONS)

    def topics(self, group_id: str) -> Mapping[str, Partitions]:
        """All committed offsets of a group by topic, in the order of each topic's first commit."""
        return self._groups.get(group_id, _NO_TOPICS)

    def groups(self) -> Iterable[tuple[str, Mapping[str, Partitions]]]:
        """The id and the committed offsets of every group with committed offsets."""
        return self._groups.items()

    def group_ids(self) -> dict[str, None]:
        """The ids of all groups with offsets, including offsets of open transactions."""
        return dict.fromkeys(chain(self._groups, self._pending_of))

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetCommitValue
    ) -> None:
        """Add a commit in an open transaction. The offset counts once the transaction is committed."""
        self.pending.put(producer_id, (intern(group_id), (intern(topic), partition)), pack(value))

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> Iterator[tuple[Place, Packed]]:
        """End a transaction: its offsets count from now on, or are dropped. Yields each offset after this change. The
        caller may pause between two offsets, and must read all of them.
        """
        for place, number, packed in self.pending.end(producer_id):
            if is_committed:
                group_id, (topic, partition) = place
                self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = packed
                self.pending.replace(place, number)
            yield place, packed

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset of this partition."""
        return (topic, partition) in self._pending_of.get(group_id, ())

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether an open transaction has committed any offset of this group."""
        return group_id in self._pending_of

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an offset was committed for this partition, even if only in an open transaction."""
        return partition in self.partitions(group_id, topic) or self.is_unstable(group_id, topic, partition)

    def places(self, group_id: str) -> Collection[tuple[str, int]]:
        """The (topic, partition) pairs of a group for which `has` is true."""
        committed = ((topic, partition) for topic, rows in self.topics(group_id).items() for partition in rows)
        return dict.fromkeys(chain(committed, self._pending_of.get(group_id, ())))
