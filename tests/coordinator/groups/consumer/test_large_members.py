"""Members with thousands of topics or partitions: the work grows with their number, not with its square."""

from __future__ import annotations

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from muster.assignors.java_order import capacity_for, spread, uuid_hash
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.kafka_order import Tables
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import State, Step, pack, size_of
from muster.coordinator.groups.consumer import checks, reconcile, records
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    STABLE,
    Classic,
    ConsumerMember,
    CurrentAssignment,
    Description,
    Position,
    Resolved,
)
from muster.coordinator.state_machine.interface import Now
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions as Row
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness
from tests.support.opcodes import instructions


class Counted(bytes):
    """A topic id that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


def named(partitions: list[tuple[bytes, int]]) -> list[tuple[str, bytes, int]]:
    """The partitions of a commit. The names of the topics do not count."""
    return [("", *one) for one in partitions]


def test_new_topics_are_not_compared_with_each_topic_of_a_large_table() -> None:
    random = Random(4)
    before = [Counted(random.randbytes(16)) for _ in range(2_000)]
    after = [Counted(one) for one in before[1_000:]] + [Counted(random.randbytes(16)) for _ in range(2_000)]
    Counted.compared = 0
    kafka_order.topics(after, Tables(capacity_for(len(before)), were_put=before[1_000:], computed=after))
    assert Counted.compared < 4 * len(after)


def one_by_one(put: list[bytes], computed: list[bytes], capacity: int) -> list[bytes]:
    """The same order, as Kafka makes it: each computed topic goes to the head, and a full table is doubled before."""
    hashes = {one: spread(uuid_hash(one)) for one in (*put, *computed)}
    walk: list[bytes] = []
    for one in put:
        walk.append(one)
        capacity *= 2 if len(walk) > capacity * 3 // 4 else 1
    for one in computed:
        capacity *= 2 if len(walk) > capacity * 3 // 4 else 1
        if one not in walk:
            walk.insert(0, one)
    return sorted(walk, key=lambda one: hashes[one] & capacity - 1)


IDS = st.lists(st.binary(min_size=16, max_size=16), max_size=60, unique=True)


@given(IDS, st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 16, 64]))
@example([bytes([number]) * 16 for number in range(60)], 0, 5, 1)
@example([bytes([number]) * 16 for number in range(60)], 12, 3, 16)
@example([bytes([number]) * 16 for number in range(60)], 60, 0, 16)
def test_topics_have_the_order_of_single_inserts_into_kafkas_hash_map(
    ids: list[bytes], end: int, begin: int, size: int
) -> None:
    put, computed = ids[:end], ids[begin:]
    after = sorted({*put, *computed})
    tables = Tables(size, were_put=put, computed=computed)
    assert [after[row] for row in kafka_order.topics(after, tables)] == (
        one_by_one(put, computed, size) if len(after) > 1 else after
    )


@given(
    st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.sets(st.integers(0, 80))), unique_by=lambda row: row[0])
)
def test_the_order_of_a_record_is_kept_only_if_the_order_of_iteration_depends_on_it(
    rows: list[tuple[bytes, set[int]]],
) -> None:
    recorded = tuple([(topic_id, tuple(partitions)) for topic_id, partitions in rows])
    found = kafka_order.read(recorded)
    assert kafka_order.read(found) == found
    assert kafka_order.order_of(recorded) in (None, found)
    if kafka_order.order_of(recorded) is None:
        assert kafka_order.read(tuple(sorted((one, tuple(sorted(its))) for one, its in recorded))) == found


class Looked(int):
    """A partition that counts how often it is read."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Looked.looks += 1
        return int.__eq__(self, other)

    def __hash__(self) -> int:
        Looked.looks += 1
        return int.__hash__(self)


MANY = 1_000
TOPIC = b"t" * 16


def held(begin: int, end: int) -> CurrentAssignment:
    return ((TOPIC, tuple(map(Looked, range(begin, end))), (2,) * (end - begin)),)


def test_owned_partitions_are_not_compared_with_each_pending_revocation() -> None:
    revoking, owned = held(0, MANY), [Row(TOPIC, list(map(Looked, range(MANY, 2 * MANY))))]
    Looked.looks = 0
    assert not reconcile.owns_revoked_partitions(owned, revoking)
    assert Looked.looks < 6 * MANY
    assert reconcile.owns_revoked_partitions([*owned, Row(TOPIC, [7])], revoking)
    assert not reconcile.owns_revoked_partitions([Row(b"u" * 16, [7])], revoking)


def test_a_topic_named_a_thousand_times_costs_as_much_as_its_named_partitions() -> None:
    member = ConsumerMember("g", "A")
    member.position = Position(2, 1, STABLE, held(0, MANY), NOTHING)
    Looked.looks = 0
    checks.check_epoch(member, 1, [Row(TOPIC, [5])] * MANY)
    assert Looked.looks < 6 * MANY


def test_a_commit_with_an_older_epoch_looks_up_its_partitions_once() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    group, member = harness.consumers(), harness.member("A")
    ids = [Counted(number.to_bytes(16, "big")) for number in range(MANY)]
    group.update_position(member, Position(4, 3, STABLE, tuple([(one, (0,), (2,)) for one in ids]), NOTHING))
    asked = [(Counted(bytes(one)), 0) for one in ids]
    Counted.compared = 0
    assert group.validate_commit("A", None, 3, 9, lambda: named(asked)) == 0
    assert Counted.compared < 8 * MANY
    assert group.validate_commit("A", None, 1, 9, lambda: named(asked)) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_commit("A", None, 3, 9, lambda: named([*asked, (TOPIC, 0)])) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_commit("A", None, 3, 9, lambda: named([(asked[0][0], 1)])) == ErrorCode.STALE_MEMBER_EPOCH


SETTINGS = GroupSettings()
TEXTS = st.text(max_size=200)
POSITIONS = st.lists(
    st.tuples(st.binary(min_size=16, max_size=16), st.integers(1, 300)), max_size=20, unique_by=lambda row: row[0]
)


# an expression of some twenty characters of four bytes each was once not counted
@example([], "𐀀" * 23, [], [])
@given(st.lists(TEXTS, max_size=20), TEXTS, POSITIONS, POSITIONS)
def test_the_estimated_bytes_of_a_record_are_never_too_small(
    names: list[str], text: str, some: list[tuple[bytes, int]], others: list[tuple[bytes, int]]
) -> None:
    assigned, revoking = (
        tuple([(one, tuple(range(count)), (7,) * count) for one, count in rows]) for rows in (some, others)
    )
    said = Description(text, text, text, text, tuple(names), text, 1, text, Classic(1, ((text, text.encode()),)))
    for record in (
        records.member_metadata(text, text, said),
        records.member_metadata(text, text, said._replace(instance_id=None, rack_id=None, pattern=None, classic=None)),
        records.target(text, text, tuple([row[:2] for row in assigned])),
        records.current(text, text, Position(1, 2, STABLE, assigned, revoking)),
        records.regular_expression(text, text, Resolved(tuple(names), 1, 2)),
        records.group_epoch(text, 1, 2),
    ):
        step = Step(State(SETTINGS, NO_TOPICS, {}, lambda *_: None, lambda *_: 0), Now(0, 0))
        for size in (size_of([pack(record)]) - 1, size_of([pack(record)])):
            step.max_bytes = size
            fits = size_of([pack(record)]) <= size
            assert records.is_more_than_fits(step, [record]) is not fits


def test_members_that_expire_together_are_removed_a_few_at_a_time() -> None:
    # each member has four records and some lines of its history
    harness = ConsumerGroupHarness(group_consumer_assignment_interval_ms=60_000)
    for n in range(300):
        harness.first_heartbeat(f"m{n}", "t")
    due_ms = harness.now.mono_ms + 45_000
    now, steps = Now(due_ms, harness.now.wall_ms + 45_000), []
    while (next_ms := harness.core.next_deadline_ms()) is not None and next_ms <= due_ms:
        output = harness.core.advance(now)
        steps.append(len(output.records))
        harness.collect(output)
    assert not harness.consumers().members
    assert max(steps) <= 210


def test_a_member_of_a_large_group_leaves_as_quickly_as_one_of_a_small_group() -> None:
    def leave(count: int) -> int:
        harness = ConsumerGroupHarness(group_consumer_assignment_interval_ms=60_000)
        for n in range(count):
            harness.first_heartbeat(f"m{n}", "t")
        return instructions(lambda: harness.heartbeat("m7", -1))

    small, large = leave(20), leave(200)
    assert large < small * 1.1
