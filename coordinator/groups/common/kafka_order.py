"""The order in which Kafka writes topics, partitions and members of a consumer or share group to records. Only the log
shows this order.

Java's HashMap and HashSet (`muster.assignors.java_order`) hold topics and partitions. The size of such a table depends
on its making: a copy, growth, or a given capacity. Members and patterns are in Kafka's TimelineHashMap. There
are three differences from Kafka. Topics in one bucket are in the order of their ids; Kafka's assignor inserts topics in
another order. Thousands of topics ascend by id. If members subscribe to different topics, Kafka's tables may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.assignors.java_order import (
    DEFAULT_CAPACITY,
    capacity_for,
    capacity_of_copy,
    grown,
    spread,
    string_hash,
    uuid_hash,
    walked,
)

TargetRows = Sequence[tuple[bytes, Sequence[int]]]
"""A target assignment: topic ids with their partitions."""
CurrentRows = Sequence[tuple[bytes, Sequence[int], Sequence[int]]]
"""A current assignment of a consumer group's member: topic ids with partitions and their epochs."""

MAX_ORDERED: Final = 200
"""Up to this many names are put into the order of a TimelineHashMap, in some ms. More names keep their order."""
FEW_TOPICS: Final = 4_000
"""At most this many topics of a record have the order of Kafka's tables, in 5 ms. More topics ascend by their ids."""
KEPT: Final = 20_000
"""The hashes of this many topic ids are cached, for all groups together, in some 4 MB."""
FEW_IDS: Final = 500
"""The hashes of a record's topic ids are cached if the record has at most this many topic ids."""
LEAST_SLOTS: Final = 2
_FACTOR: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1
_four_words: Final = Struct(">4I").iter_unpack
"""Unpacks consecutive topic ids, each as four numbers."""


class Tables(NamedTuple):
    """The hash tables from which Kafka writes a record, by their initial capacities.

    `of_topics` is for the table of topics, `of_partitions` for the tables of partitions, by topic, `of_others` for
    other topics. If `computes`, Java's computeIfAbsent inserted the topics, except those in `were_put`, which put
    inserted.
    """

    of_topics: int = DEFAULT_CAPACITY
    of_partitions: Mapping[bytes, int] = MappingProxyType({})
    of_others: int = DEFAULT_CAPACITY
    computes: bool = False
    were_put: tuple[bytes, ...] = ()


NEW: Final = Tables()
"""Hash tables that were empty at first, and were filled element by element."""
_FROM_NOTHING: Final = Tables(computes=True)
ASCENDING: Final = 1 << 31
"""A capacity with one bucket for each partition, so that partitions ascend."""


@lru_cache(1_024)
def map_capacity_of_copy(size: int) -> int:
    """The capacity of `new HashMap<>(map)`, if `map` has `size` entries."""
    return capacity_for(int(size / 0.75 + 1)) if size else DEFAULT_CAPACITY


def topics(topic_ids: Sequence[bytes], tables: Tables = NEW) -> list[int]:
    """The indices of `topic_ids` in the order of the table of topics."""
    if len(topic_ids) < 2 or len(topic_ids) > FEW_TOPICS:
        return list(range(len(topic_ids)))
    hashes = _hashes_of(topic_ids)
    if not (tables.computes and tables.were_put):
        return _filled(hashes, tables)
    row_of = dict(zip(topic_ids, range(len(topic_ids)), strict=True))
    capacity, walk = tables.of_topics, [row for one in tables.were_put if (row := row_of.get(one)) is not None]
    # A table grows when more than three quarters of its buckets are counted as taken.
    while len(tables.were_put) > capacity * 3 // 4:
        capacity *= 2
    were_put = frozenset(tables.were_put)
    new = [row for row, topic_id in enumerate(topic_ids) if topic_id not in were_put]
    # computeIfAbsent grows the table before it inserts, and inserts at the head of the bucket.
    while new and len(walk) + len(new) - 1 > capacity * 3 // 4:
        capacity *= 2
    walk = [*_heads(new, [hashes[row] for row in new], capacity), *walk]
    return _by_bucket(walk, hashes, capacity)


def _filled(hashes: Sequence[int], tables: Tables) -> list[int]:
    capacity, rows = tables.of_topics, list(range(len(hashes)))
    if tables.computes:
        # computeIfAbsent grows the table before it inserts, and inserts at the head of the bucket.
        while len(hashes) - 1 > capacity * 3 // 4:
            capacity *= 2
        return _by_bucket(_heads(rows, hashes, capacity), hashes, capacity)
    while len(hashes) > capacity * 3 // 4:
        capacity *= 2
    return _by_bucket(rows, hashes, capacity)


def _heads(rows: Sequence[int], hashes: Sequence[int], capacity: int) -> list[int]:
    """The rows of a new table, the last inserted first: each row is inserted at the head of its bucket. `capacity`: the
    table's capacity.
    """
    if capacity >= grown(hashes, DEFAULT_CAPACITY):
        return [*reversed(rows)]
    return [rows[place] for place in reversed(walked(hashes, DEFAULT_CAPACITY))]


def _by_bucket(rows: Sequence[int], hashes: Sequence[int], capacity: int) -> list[int]:
    buckets = [one & capacity - 1 for one in hashes]
    return sorted(rows, key=buckets.__getitem__)


def _hashes_of(topic_ids: Sequence[bytes]) -> list[int]:
    """The spread hashes of topic ids. Hashes of many topics are not cached: they would displace other hashes."""
    if len(topic_ids) <= FEW_IDS:
        return [_hash_of(one) for one in topic_ids]
    return [(h := a ^ b ^ c ^ d) ^ h >> 16 for a, b, c, d in _four_words(b"".join(topic_ids))]


@lru_cache(KEPT)
def _hash_of(topic_id: bytes) -> int:
    return spread(uuid_hash(topic_id))


def partitions(ascending: Sequence[int], capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """The indices of partitions in the order of a HashSet, or of a HashMap's keys, with this initial capacity."""
    return walked([spread(one) for one in ascending], capacity)


def is_ascending(partitions: Sequence[int], capacity: int) -> bool:
    """Whether Java iterates over ascending partitions in ascending order. This is so for one partition, with a bucket
    for each partition, or if no number is left out.
    """
    return len(partitions) < 2 or partitions[-1] < capacity or partitions[-1] < len(partitions)


def copied(member_target: TargetRows) -> Tables:
    """The tables of a target whose sets of partitions were copied from a record or from a leader's assignment."""
    return Tables(of_partitions={topic_id: capacity_of_copy(len(its)) for topic_id, its in member_target})


def changed(before: TargetRows) -> Tables:
    """The tables of a target that Kafka's uniform assignor made from the target `before`."""
    if len(before) > FEW_TOPICS:
        return NEW
    sizes = {topic_id: capacity_of_copy(len(its)) for topic_id, its in before}
    were_put = tuple([before[row][0] for row in topics([one[0] for one in before])])
    return Tables(capacity_for(len(before)), sizes, computes=True, were_put=were_put)


def ranges(subscribed: int) -> Tables:
    """The tables of a target that the range assignor made, for a member that subscribes to `subscribed` topics."""
    return Tables(capacity_for(int(subscribed / 0.75 + 1)), of_others=ASCENDING)


def stepped(before: CurrentRows, after: CurrentRows) -> Tables:
    """The tables of a member's assignment after a step to its target, made from the assignment `before`."""
    if not before or not after or len(after) > FEW_TOPICS:
        return _FROM_NOTHING
    had = {row[0]: row[1] for row in before}
    sizes = {
        topic_id: map_capacity_of_copy(len(mine))
        for topic_id, its, _ in after
        if (mine := had.get(topic_id)) is not None and (mine is its or not frozenset(its).isdisjoint(mine))
    }
    return Tables(of_partitions=sizes, computes=True, were_put=tuple(sizes))


def without_topics(before: CurrentRows) -> Tables:
    """The tables of a member's assignment after whole topics were dropped."""
    return Tables(map_capacity_of_copy(len(before)))


def slots_after(slots: int, size: int) -> int:
    """The slots of a TimelineHashMap after a put, if it had `slots` slots and `size` keys before the put."""
    return slots * 2 if (size + 1) * 3 > slots * 4 else slots


def slots_for(size: int) -> int:
    """The slots of a TimelineHashMap after `size` different keys were put."""
    slots = LEAST_SLOTS
    for present in range(size):
        slots = slots_after(slots, present)
    return slots


def timeline(names: Iterable[str], slots: int) -> list[str]:
    """The order in which Java iterates over a TimelineHashMap with `slots` slots. In one slot later names precede
    earlier names. `names` are in the order of insertion.
    """
    found = list(names)
    if len(found) > MAX_ORDERED:
        return found
    shift = 65 - slots.bit_length()
    found.reverse()
    return sorted(found, key=lambda name: (string_hash(name) * _FACTOR & _MASK) >> shift)
