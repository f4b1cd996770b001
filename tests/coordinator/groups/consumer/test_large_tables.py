"""Records of members with thousands of topics: their order is found with work that grows with the topics, not with
their square.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from muster.assignors.java_order import DEFAULT_CAPACITY, capacity_for, spread, uuid_hash, walked
from muster.coordinator.groups.consumer import kafka_order
from muster.coordinator.groups.consumer.kafka_order import Tables


class Counted(bytes):
    """A topic id that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return bytes.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = bytes.__hash__


def test_topics_that_are_new_to_a_large_table_are_not_compared_with_each_of_it() -> None:
    random = Random(4)
    before = [Counted(random.randbytes(16)) for _ in range(2_000)]
    after = [Counted(one) for one in before[1_000:]] + [Counted(random.randbytes(16)) for _ in range(2_000)]
    Counted.compared = 0
    kafka_order.topics(after, Tables(capacity_for(len(before)), computes=True, there=tuple(before)))
    assert Counted.compared < 4 * len(after)


def one_by_one(topic_ids: list[bytes], tables: Tables) -> list[bytes]:
    """The same, as Kafka puts them: each new one at the head, the table doubled before if it has no room."""
    hashes = {one: spread(uuid_hash(one)) for one in (*tables.there, *topic_ids)}
    capacity, walk = tables.of_topics, list(tables.there)
    while len(walk) > capacity * 3 // 4:
        capacity *= 2
    walk = [one for one in walk if one in topic_ids]
    new = [one for one in topic_ids if one not in tables.there]
    for row in walked([hashes[one] for one in new], DEFAULT_CAPACITY):
        if len(walk) > capacity * 3 // 4:
            capacity *= 2
        walk.insert(0, new[row])
    return sorted(walk, key=lambda one: hashes[one] & capacity - 1)


IDS = st.lists(st.binary(min_size=16, max_size=16), max_size=60, unique=True)


@given(IDS, st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 16, 64]))
def test_the_order_is_that_of_topics_put_in_one_by_one(ids: list[bytes], begin: int, end: int, size: int) -> None:
    tables = Tables(size, computes=True, there=tuple(ids[:end]))
    after = ids[begin:]
    assert [after[row] for row in kafka_order.topics(after, tables)] == (
        one_by_one(after, tables) if len(after) > 1 else after
    )
