from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.coordinator.topics.creation import (
    Home,
    NewTopic,
    check_brokers,
    check_name,
    count_partitions,
    decide_creation,
    decide_growth,
)
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import MetadataState
from muster.protocol.errors import ErrorCode

HOME = Home(1, b"d" * 16, {1: None})


def with_topic(name: str, partitions: int = 2) -> MetadataState:
    state = MetadataState()
    for record in decide_creation(NewTopic(name, b"i" * 16, partitions, 1), HOME, 1, 1):
        state.evolve(record)
    return state


def topic(partitions: int = -1, factor: int = -1, assignments: Sequence[tuple[int, Sequence[int]]] = ()) -> NewTopic:
    return NewTopic("t", b"i" * 16, partitions, factor, assignments)


def test_a_new_topic_becomes_records_of_topic_configs_and_partitions() -> None:
    state = MetadataState()
    wanted = NewTopic("t", b"i" * 16, 2, 1, configs={"retention.ms": "5"})
    for record in decide_creation(wanted, HOME, 1, 1):
        state.evolve(record)
    assert [(p.leader, p.replicas, p.isr, p.directories) for p in state.topics["t"].partitions] == [
        (1, (1,), (1,), (b"d" * 16,))
    ] * 2
    assert state.topic_configs("t") == {"retention.ms": "5"}


def test_a_new_topic_gets_the_default_partition_count() -> None:
    assert count_partitions(topic(), 6) == 6
    assert count_partitions(topic(3, 1), 6) == 3
    assert count_partitions(topic(assignments=[(0, [1]), (1, [1])]), 6) == 2


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic(0, 1), ErrorCode.INVALID_PARTITIONS),
        (topic(-2, 1), ErrorCode.INVALID_PARTITIONS),
        (topic(1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic(-1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic(assignments=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(assignments=[(0, [1]), (2, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(assignments=[(0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_that_cannot_be_created_is_refused(wanted: NewTopic, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        decide_creation(wanted, HOME, 1, 1)
    assert caught.value.error_code == code
    assert caught.value.message


def test_a_broker_cannot_hold_two_replicas_of_one_partition() -> None:
    with pytest.raises(ApiError, match="more than once"):
        check_brokers([1, 1], None, HOME)
    with pytest.raises(ApiError, match="not consistent with previous partitions"):
        check_brokers([1], 2, HOME)


def test_names_that_are_taken_collide_or_are_illegal_are_refused() -> None:
    state = with_topic("a.b")
    for name, code in (
        ("a.b", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        with pytest.raises(ApiError) as caught:
            check_name(state, name)
        assert caught.value.error_code == code
    check_name(state, "a-b")


def test_new_partitions_are_added_after_existing_ones() -> None:
    state = with_topic("t", 2)
    records = decide_growth(state, "t", 4, None, HOME)
    for record in records:
        state.evolve(record)
    assert len(state.topics["t"].partitions) == 4
    assert len(records) == 2


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("no", 4, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 10_003, None, ErrorCode.POLICY_VIOLATION),
        ("t", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_that_cannot_grow_is_refused(
    name: str, count: int, assignments: list[list[int]] | None, code: int
) -> None:
    with pytest.raises(ApiError) as caught:
        decide_growth(with_topic("t", 2), name, count, assignments, HOME)
    assert caught.value.error_code == code
