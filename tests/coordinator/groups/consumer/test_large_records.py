"""Members with thousands of topics: the cost of a step, and that its result equals a step over few topics."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.assignors.java_order import spread, uuid_hash
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.state import PackedRecord, pack
from muster.coordinator.groups.consumer import records
from muster.coordinator.groups.consumer.commands import AssignmentWanted
from muster.coordinator.groups.consumer.group import free_partitions
from muster.coordinator.groups.consumer.member import NOTHING, STABLE, CurrentAssignment, Position
from muster.coordinator.groups.consumer.prepared_target import compute
from muster.coordinator.groups.consumer.reconciliation_facts import MAX_FREED, ReconciliationFacts
from muster.coordinator.groups.consumer.records import LaterRows
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import TopicPartitions
from tests.coordinator.groups.consumer.harness import IDS, NAMES, ConsumerGroupHarness

TOPICS = 3_000
ROWS = st.dictionaries(
    st.binary(min_size=16, max_size=16), st.lists(st.integers(0, 300), min_size=1, max_size=4, unique=True), max_size=8
)


def held_of(rows: dict[bytes, list[int]], epoch: int) -> CurrentAssignment:
    return tuple(
        (one, tuple(sorted(rows[one])), tuple(epoch + number % 2 for number, _ in enumerate(rows[one])))
        for one in sorted(rows)
    )


@given(ROWS, ROWS, st.integers(0, 1))
def test_a_record_of_many_topics_has_the_same_bytes_as_the_plain_encoder_makes(
    some: dict[bytes, list[int]], others: dict[bytes, list[int]], few: int
) -> None:
    at = Position(7, 6, STABLE, held_of(some, 5), held_of(others, 3))
    share = tuple([row[:2] for row in at.assigned])
    plain = [records.current("g", "m", at), records.target("g", "m", share)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "FEW_TOPICS", few)
        large = [records.current("g", "m", at), records.target("g", "m", share)]
    counts = [len(at.assigned) + len(at.revoking), len(share)]
    assert [type(one) is PackedRecord for one in large] == [count > few for count in counts]
    assert list(map(pack, large)) == list(map(pack, plain))
    assert [(one.key, one.value, one.value_version) for one in large] == [
        (one.key, one.value, one.value_version) for one in plain
    ]
    assert [one.value for one in plain] == [one.value for one in large]


def test_a_row_without_epochs_is_encoded_without_epochs() -> None:
    assert records.rows_with_epochs([(b"t" * 16, (1,), ())]) == [b"\2", b"t" * 16, b"\2\0\0\0\1\0"]


def test_lazy_rows_are_made_when_they_are_read() -> None:
    rows: LaterRows[TopicPartitions] = LaterRows(
        TopicPartitions, [(b"a" * 16, (1, 2), (3, 3)), (b"b" * 16, (0,), (3,))]
    )
    made = [TopicPartitions(b"a" * 16, [1, 2], [3, 3]), TopicPartitions(b"b" * 16, [0], [3])]
    assert (len(rows), rows[1], list(rows[1:]), list(rows)) == (2, made[1], made[1:], made)
    assert rows == made
    assert made == rows
    assert rows != made[:1]
    assert rows != "other"
    assert rows != 5


@pytest.mark.parametrize("count", [kafka_order.FEW_IDS, kafka_order.FEW_IDS + 1])
def test_hashes_of_many_topics_equal_the_single_hashes(count: int) -> None:
    ids = [hashlib.md5(str(number).encode()).digest() for number in range(count)]
    assert kafka_order._hashes_of(ids) == [spread(uuid_hash(one)) for one in ids]


def test_topics_of_a_large_record_are_in_ascending_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [(number * 24).to_bytes(16) for number in range(30)]
    before = tuple([(one, (0,)) for one in ids])
    held = tuple([(one, (0,), (3,)) for one in ids])
    assert kafka_order.stepped(held, held, before).were_put
    assert kafka_order.order_of(before) == kafka_order.read(before) != before
    monkeypatch.setattr(kafka_order, "FEW_TOPICS", 29)
    assert kafka_order.topics(ids, kafka_order.stepped(held, held, before)) == [*range(30)]
    assert kafka_order.read(before) is before
    assert kafka_order.order_of(before) is None


def test_a_partition_that_another_member_got_earlier_in_the_log_stays_with_that_member() -> None:
    """A compacted log may have the record of the new owner before the record of the old owner's loss."""
    harness = ConsumerGroupHarness()
    for member in ("A", "B"):
        harness.first_heartbeat(member, "none")
    group, row = harness.consumers(), (b"t" * 16, (0,), (3,))
    for member in ("A", "B"):
        group.update_position(harness.member(member), Position(3, 2, STABLE, (row,), NOTHING))
    group.update_position(harness.member("A"), Position(4, 3, STABLE, NOTHING, NOTHING))
    assert group.owners == {row[0]: {0: "B"}}
    group.update_position(harness.member("B"), Position(4, 3, STABLE, NOTHING, NOTHING))
    assert group.owners == {}
    assert free_partitions(group, row[0], (0, 1), "A") == (0, 1)


class Id(bytes):
    """A topic id that counts its look-ups, in any table."""

    looked_up = 0

    def __hash__(self) -> int:
        Id.looked_up += 1
        return bytes.__hash__(self)


def harness_with_many_topics(monkeypatch: pytest.MonkeyPatch) -> tuple[ConsumerGroupHarness, list[str]]:
    harness, names = ConsumerGroupHarness(helped=True), [f"T{number:05}" for number in range(TOPICS)]
    image = {name: TopicImage(name, Id(hashlib.md5(name.encode()).digest()), 1) for name in names}
    for name, topic in image.items():
        monkeypatch.setitem(IDS, name, topic.topic_id)
        monkeypatch.setitem(NAMES, topic.topic_id, name)
    harness.notify(TopicsChanged(TopicsImage(image, 900)))
    return harness, names


def look_ups(act: Callable[[], object]) -> int:
    Id.looked_up = 0
    act()
    return Id.looked_up


def test_a_step_of_a_member_with_many_topics_touches_each_topic_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 20,000 topics one step once took 190 ms of the event loop: each topic became a message, and was encoded."""
    harness, names = harness_with_many_topics(monkeypatch)
    messages: list[int] = []
    usual = records.TopicPartitions.__init__
    monkeypatch.setattr(records.TopicPartitions, "__init__", lambda self, *of: messages.append(1) or usual(self, *of))
    harness.first_heartbeat("A", *names)
    tell_computed(harness)
    harness.first_heartbeat("B", *names)
    tell_computed(harness)

    def owned(member: str) -> dict[str, Any]:
        return {NAMES[row[0]]: row[1] for row in harness.member(member).position.assigned}

    for member in ("A", "A", "B", "B"):
        has = owned(member)
        assert look_ups(lambda: harness.heartbeat(member, owned=has)) < 20 * TOPICS  # noqa: B023  # called at once
    given = harness.first_heartbeat("A", *names).assignment.topic_partitions
    assert {NAMES[row.topic_id]: row.partitions for row in given} == owned("A")
    assert (len(owned("A")), len(owned("B")), messages) == (TOPICS // 2, TOPICS // 2, [])
    replayed = harness.replayed(harness.records)
    group = harness.consumers()
    assert {one.member_id: one.position for one in replayed.members.values()} == {
        one.member_id: one.position for one in group.members.values()
    }
    assert (replayed.targets, replayed.owners) == (group.targets, group.owners)
    harness.heartbeat("B", -1)
    assert look_ups(lambda: harness.heartbeat("A", owned=owned("A"))) < 20 * TOPICS
    assert set(group.owners) == {row[0] for row in harness.member("A").position.assigned}


def tell_computed(harness: ConsumerGroupHarness) -> None:
    while harness.offloaded:
        wanted = harness.offloaded.pop()
        assert isinstance(wanted, AssignmentWanted)
        harness.notify(compute(wanted, SERVER_ASSIGNORS[wanted.assignor]))


def slow_hand_over(
    freed: dict[tuple[bytes, int], int], before: CurrentAssignment, after: CurrentAssignment, now_ms: int
) -> int:
    had, has = ({(row[0], one) for row in rows for one in row[1]} for rows in (before, after))
    paused = sum([now_ms - freed.pop(one, now_ms) for one in has - had])
    freed.update(dict.fromkeys(had - has, now_ms))
    return paused


@given(st.lists(ROWS, min_size=2, max_size=5))
def test_moved_partitions_are_counted_as_by_a_slow_reference(steps: list[dict[bytes, list[int]]]) -> None:
    facts, freed, paused = ReconciliationFacts(1, 0, None, None), dict[tuple[bytes, int], int](), 0
    rows = [held_of(one, 4) for one in steps]
    for number, (before, other) in enumerate(pairwise(rows)):
        # unchanged parts stay the same objects, as in a step of a member
        after = (*[row for row in before[::2] if row[0] not in steps[number + 1]], *other)
        facts.hand_over(before, after, 10 * number)
        paused += slow_hand_over(freed, before, after, 10 * number)
        assert (facts.freed, facts.paused_ms) == (freed, paused)


def test_the_free_time_is_kept_for_a_bounded_number_of_partitions() -> None:
    facts = ReconciliationFacts(1, 0, None, None)
    for first in (0, MAX_FREED):
        before = tuple([(number.to_bytes(16), (0,), (1,)) for number in range(first, first + MAX_FREED)])
        facts.hand_over(before, NOTHING, 5)
    assert len(facts.freed) == MAX_FREED
