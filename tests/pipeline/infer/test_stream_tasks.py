"""The history of tasks and topologies of a streams group, from its records."""

from __future__ import annotations

from typing import Any

from muster.pipeline.infer.epoch_image import AWAY, CURRENT, EPOCH, MEMBER, Hold, Record, State
from muster.pipeline.infer.epochs import fold
from muster.pipeline.infer.stream_tasks import (
    ACTIVE,
    GIVEN_UP,
    MEMBER_GONE,
    ROLE_CHANGED,
    STANDBY,
    TOPOLOGY,
    Readiness,
    TaskHold,
    as_partitions,
    follow,
)
from tests.pipeline.streams.written import Written

TWO = {"0": ("lines",), "1": ("words",)}


def holds(log: Written) -> list[tuple[Any, ...]]:
    """Subtopology, number, role, member, start, end, how it ended, time without an owner; in the order of the start."""
    found = [one for one in follow(log.records) if isinstance(one, TaskHold)]
    rows = [
        (one.subtopology, one.partition, one.role, one.worker.member_id, one.start_ms, one.end_ms, one.ended,
         one.unowned_ms)
        for one in found
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row[4], row[:4]))


def ready(log: Written) -> list[tuple[bool, int, int | None]]:
    return [(one.is_ready, one.from_ms, one.until_ms) for one in follow(log.records) if isinstance(one, Readiness)]


def test_a_task_is_given_up_and_taken() -> None:
    log = Written(TWO)
    log.member("a").epoch(1).has("a", active="0/0+1")
    log.at(1_000).member("b").epoch(2).has("b")
    log.at(2_000).has("a", active="0/0", state=2)
    log.at(2_500).has("a", active="0/0")
    log.at(3_000).has("b", active="0/1")
    assert holds(log) == [
        ("0", 0, ACTIVE, "a", 0, None, None, None),
        ("0", 1, ACTIVE, "a", 0, 2_000, GIVEN_UP, None),
        ("0", 1, ACTIVE, "b", 3_000, None, None, 1_000),
    ]


def test_a_copy_becomes_the_active_task() -> None:
    log = Written(TWO)
    log.member("a").member("b").epoch(1).has("a", active="1/0").has("b", standby="1/0")
    log.at(1_000).gone("a").epoch(2).has("b", active="1/0")
    assert holds(log) == [
        ("1", 0, ACTIVE, "a", 0, 1_000, MEMBER_GONE, None),
        ("1", 0, STANDBY, "b", 0, 1_000, ROLE_CHANGED, None),
        ("1", 0, ACTIVE, "b", 1_000, None, None, 0),
    ]


def test_a_static_member_keeps_its_tasks_while_it_is_away() -> None:
    log = Written(TWO)
    log.member("a", instance="i").epoch(1).has("a", active="0/0")
    log.at(1_000).has("a", active="0/0", member_epoch=AWAY)
    log.at(5_000).gone("a").member("b", instance="i").has("b", active="0/0")
    assert holds(log) == [
        ("0", 0, ACTIVE, "a", 0, 5_000, MEMBER_GONE, None),
        ("0", 0, ACTIVE, "b", 5_000, None, None, 0),
    ]
    assert ready(log) == [(True, 0, None)]  # the group was not empty in between


def test_an_empty_group_has_no_pause() -> None:
    log = Written(TWO)
    log.member("a").epoch(1).has("a", active="0/0")
    log.at(1_000).gone("a").epoch(2)
    log.at(90_000).member("b").epoch(3).has("b", active="0/0")
    assert holds(log)[1] == ("0", 0, ACTIVE, "b", 90_000, None, None, None)
    assert ready(log) == [(True, 0, 1_000), (True, 90_000, None)]


def test_since_when_topics_are_not_ready() -> None:
    log = Written(TWO)
    log.member("a").epoch(1, is_ready=False).has("a")
    log.at(3_000).member("b").epoch(2, is_ready=False).has("b")
    log.at(4_000).epoch(3).has("a", active="0/0")
    log.at(9_000).record(EPOCH, "", None)
    assert ready(log) == [(False, 0, 4_000), (True, 4_000, None)]
    log.gone("a").gone("b")
    assert ready(log)[-1] == (True, 4_000, 9_000)


def test_without_a_topology_nothing_is_known_of_its_topics() -> None:
    log = Written(None)
    log.member("a").epoch(1).has("a", active="0/0")
    assert ready(log) == []
    (position,) = (one for one in as_partitions(log.records) if one.key_type == CURRENT)
    assert position.value is not None
    assert position.value["assignedPartitions"] == [{"topicId": "subtopology 0", "partitions": [0]}]


def test_an_active_task_owns_the_partitions_that_it_reads() -> None:
    log = Written({"0": ("left", "right")})
    log.member("a").member("b").epoch(1).has("a", active="0/0", standby="0/1").has("b", active="0/1")
    states = [one for one in fold(as_partitions(log.records), {}) if isinstance(one, State)]
    assert [(one.member_id, one.topics, one.assigned) for one in states[0].members] == [
        ("a", ("left", "right"), (("left", (0,)), ("right", (0,)))),
        ("b", ("left", "right"), (("left", (1,)), ("right", (1,)))),
    ]
    held = [one for one in fold(as_partitions(log.records), {}) if isinstance(one, Hold)]
    assert [(one.topic, one.partition) for one in held] == [("left", 0), ("right", 0), ("left", 1), ("right", 1)]


def test_the_topology_of_a_deleted_group_is_forgotten() -> None:
    log = Written(TWO)
    log.member("a").epoch(1).has("a", active="0/0")
    log.at(1_000).gone("a").epoch(2).record(EPOCH, "", None).record(TOPOLOGY, "", None)
    made = list(as_partitions([*log.records, Record(99, 2_000, MEMBER, "b", {})]))
    assert made[-1].value == {"subscribedTopicNames": []}
    assert ready(log) == [(True, 0, 1_000)]
