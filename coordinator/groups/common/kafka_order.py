"""The order in which Kafka writes topics, partitions and members of a consumer or share group to records. Only the log
shows this order.

Java's HashMap and HashSet (`muster.assignors.java_order`) hold topics and partitions. The size of such a table depends
on its making: a copy, growth, or a given capacity. Within a bucket, the order is that of insertion, and so of the last
record (`order_of`). Members and patterns are in Kafka's TimelineHashMap. There are two differences from Kafka.
Thousands of topics ascend by id. Current assignments do not keep the order of their last record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.assignors.java_order import (
    DEFAULT_CAPACITY,
    JavaTable,
    capacity_for,
    capacity_of_copy,
    grown,
    int_order,
    spread,
    string_hash,
    uuid_hash,
    walked,
)

TargetRows = tuple[tuple[bytes, tuple[int, ...]], ...]
"""A target assignment: topic ids with their partitions, in the order of a record or of iteration."""
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
    other topics. `of_target`: a target's partitions in the order of iteration. `were_put`: the topics that put
    inserted. `computed`: the topics for which computeIfAbsent was called then. None: put inserted all topics, ascending
    by id.
    """

    of_topics: int = DEFAULT_CAPACITY
    of_partitions: Mapping[bytes, int] = MappingProxyType({})
    of_others: int = DEFAULT_CAPACITY
    of_target: Mapping[bytes, Sequence[int]] = MappingProxyType({})
    were_put: Sequence[bytes] = ()
    computed: Sequence[bytes] | None = None


NEW: Final = Tables()
"""Hash tables that were empty at first, and were filled element by element."""


@lru_cache(1_024)
def map_capacity_of_copy(size: int) -> int:
    """The capacity of `new HashMap<>(map)`, if `map` has `size` entries."""
    return capacity_for(int(size / 0.75 + 1)) if size else DEFAULT_CAPACITY


def topics(topic_ids: Sequence[bytes], tables: Tables = NEW) -> list[int]:
    """The indices of `topic_ids` in the order of the table of topics."""
    if len(topic_ids) < 2 or len(topic_ids) > FEW_TOPICS:
        return list(range(len(topic_ids)))
    hashes = _hashes_of(topic_ids)
    if tables.computed is None:
        return walked(hashes, tables.of_topics)
    row_of = dict(zip(topic_ids, range(len(topic_ids)), strict=True))
    table: JavaTable[int] = JavaTable(tables.of_topics)
    for topic_id in tables.were_put:
        table.put(row_of[topic_id], hashes[row_of[topic_id]])
    for topic_id in tables.computed:
        table.compute(row_of[topic_id], hashes[row_of[topic_id]])
    return table.in_order()


def _hashes_of(topic_ids: Sequence[bytes]) -> list[int]:
    """The spread hashes of topic ids. Hashes of many topics are not cached: they would displace other hashes."""
    if len(topic_ids) <= FEW_IDS:
        return [hash_of(one) for one in topic_ids]
    return [(h := a ^ b ^ c ^ d) ^ h >> 16 for a, b, c, d in _four_words(b"".join(topic_ids))]


@lru_cache(KEPT)
def hash_of(topic_id: bytes) -> int:
    """The spread hash of a topic id."""
    return spread(uuid_hash(topic_id))


def partitions(ascending: Sequence[int], capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """The indices of partitions in the order of a HashSet, or of a HashMap's keys, with this initial capacity."""
    return walked([spread(one) for one in ascending], capacity)


def partitions_since(
    ascending: Sequence[int], epochs: Sequence[int], capacity: int, target: Sequence[int]
) -> list[int]:
    """The indices of partitions in a HashMap, into which they were put by epoch, then as in the target."""
    rank = {one: place for place, one in enumerate(target)}
    put = sorted(range(len(ascending)), key=lambda row: (epochs[row], rank.get(ascending[row], row)))
    return [put[place] for place in walked([spread(ascending[row]) for row in put], capacity)]


def is_ascending(partitions: Sequence[int], capacity: int) -> bool:
    """Whether Java iterates over ascending partitions in ascending order. This is so for one partition, with a bucket
    for each partition, or if no number is left out.
    """
    return len(partitions) < 2 or partitions[-1] < capacity or partitions[-1] < len(partitions)


def read(rows: TargetRows) -> TargetRows:
    """A target in the order in which Kafka iterates over it, after it read a record with these rows."""
    if len(rows) > FEW_TOPICS:
        return rows
    order = walked(_hashes_of([one[0] for one in rows])) if len(rows) > 1 else range(len(rows))
    return tuple([(rows[place][0], tuple(int_order(rows[place][1]))) for place in order])


def order_of(rows: TargetRows) -> TargetRows | None:
    """`read(rows)`, if it depends on the order of the record. None: ascending rows give the same."""
    if len(rows) > FEW_TOPICS:
        return None
    is_fixed = all(len(its) < 2 or max(its) < max(capacity_of_copy(len(its)), len(its)) for _, its in rows)
    if is_fixed and len(rows) > 1:
        hashes = _hashes_of([one[0] for one in rows])
        mask = grown(hashes) - 1
        is_fixed = len({one & mask for one in hashes}) == len(hashes)
    return None if is_fixed else read(rows)


def stepped(before: CurrentRows, after: CurrentRows, target: TargetRows) -> Tables:
    """The tables of a member's assignment after a step from the assignment `before` to its target.

    `target`: as `read` takes it. `after` has the partitions that the member has, or gives up.
    """
    if len(after) > FEW_TOPICS:
        return NEW
    had = {row[0]: row[1] for row in before}
    sizes, gained = dict[bytes, int](), set[bytes]()
    for topic_id, its, _ in after:
        mine = had.get(topic_id)
        if mine is not its:
            kept = 0 if mine is None else len(frozenset(its).intersection(mine))
            if kept < len(its):
                gained.add(topic_id)
            if not kept:
                continue
        sizes[topic_id] = map_capacity_of_copy(len(mine or ()))
    if len(after) < 2 and all(is_ascending(its, DEFAULT_CAPACITY) for _, its, _ in after):
        return Tables(of_partitions=sizes)
    of_target = dict(read(target))
    if len(after) < 2:
        return Tables(of_partitions=sizes, of_target=of_target)
    ids = list(of_target)
    order = _walk([*ids, *sorted(had.keys() - set(ids))], capacity_of_copy(len(ids)))
    computed = _walk([one for one in order if one in gained], DEFAULT_CAPACITY)
    were_put = [one for one in order if one in sizes]
    return Tables(of_partitions=sizes, of_target=of_target, were_put=were_put, computed=computed)


def _walk(topic_ids: Sequence[bytes], capacity: int) -> list[bytes]:
    return [topic_ids[place] for place in walked(_hashes_of(topic_ids), capacity)]


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
