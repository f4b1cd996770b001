"""A target while "uniform" changes it, beside the same changes of Java's tables one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.assignors.changing_target import ChangingTarget
from muster.assignors.java_order import JavaTable, capacity_for, capacity_of_copy, grown_for, int_order, spread


class Slow:
    """The tables that Kafka has, changed element by element."""

    def __init__(self, last: dict[int, list[int]], size: int) -> None:
        self.topics: JavaTable[int] = JavaTable(grown_for(size, capacity_for(size)))
        self.sets: dict[int, JavaTable[int]] = {}
        for topic, its in last.items():
            self.topics.put(topic, topic)
            self.sets[topic] = table = JavaTable(capacity_of_copy(len(its)))
            for one in its:
                table.put(one, spread(one))

    def add(self, topic: int, partition: int, capacity: int) -> None:
        self.topics.compute(topic, topic)
        self.sets.setdefault(topic, JavaTable(capacity)).put(partition, spread(partition))

    def remove(self, topic: int, partition: int) -> None:
        self.sets[topic].remove(partition)
        if not len(self.sets[topic]):
            self.topics.remove(topic)
            del self.sets[topic]

    def in_order(self) -> dict[int, list[int]]:
        return {topic: self.sets[topic].in_order() for topic in self.topics.in_order()}


TOPIC = st.integers(0, 40)
STEPS = st.sampled_from([1, 16, 64, 70_000])  # partitions that share buckets
PARTITIONS = st.lists(st.integers(0, 40), min_size=1, max_size=25, unique=True)
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "each", "remove"]), TOPIC, PARTITIONS), max_size=8)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(TOPIC, PARTITIONS, max_size=14), STEPS, st.none() | st.integers(0, 60), CHANGES)
def test_a_changed_target_has_the_order_of_javas_tables(
    topics: dict[int, list[int]], factor: int, room: int | None, changes: list[Any]
) -> None:
    last = {topic: int_order([one * factor for one in its]) for topic, its in topics.items()}
    quick, slow = ChangingTarget(last, len(last), lambda topic: topic), Slow(last, len(last))
    if room is not None:
        before = [(topic, one) for topic in last for one in slow.sets[topic].in_order()]
        assert quick.cut(room) == before[room:]
        for topic, one in before[room:]:
            slow.remove(topic, one)
    for what, topic, its in changes:
        had = slow.in_order().get(topic, [])
        if what == "remove":
            for one in had[: len(its)]:
                quick.remove(topic, one)
                slow.remove(topic, one)
            continue
        new = [one * factor for one in its if one * factor not in had]
        capacity = 16 if what == "each" else 4
        if what == "each":
            quick.add_each([(topic, one) for one in new])
        for one in new:
            slow.add(topic, one, capacity)
            if what == "add":
                quick.add(topic, one, capacity)
    assert list(quick.in_order().items()) == list(slow.in_order().items())
