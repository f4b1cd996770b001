"""Heartbeats of streams groups that are refused, and with which error."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.common.group import SINCE_COMMIT
from muster.coordinator.groups.streams.internal_topics import MAX_TASKS
from muster.coordinator.groups.streams.member import UNKNOWN
from muster.coordinator.groups.streams.records import record_keys
from muster.coordinator.state_machine.interface import NO_LIMIT
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from muster.protocol.messages.group_records.streams_group_metadata import StreamsGroupMetadataKey
from muster.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    Subtopology,
    Topology,
)
from tests.coordinator.groups.streams.harness import PLAIN, StreamsGroupHarness, statuses, topics
from tests.coordinator.groups.streams.topologies import sent


@pytest.mark.parametrize(
    ("topology", "error"),
    [
        (sent("0:<words>words"), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (sent("0:t 1:<words"), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (sent("0:%store"), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (sent("0:t 0:u"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (sent("0:t", -1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (sent("0:t%a%a"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (sent("0:<words=-1"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_impossible_topology_is_refused(harness: StreamsGroupHarness, topology: Topology, error: int) -> None:
    assert harness.heartbeat("a", 0, topology).error_code == error
    assert harness.core.state.groups == {}
    assert harness.written() == []


@pytest.mark.parametrize("places", [([7], []), ([], [0]), ([-1], [])])
def test_a_copartition_group_names_topics_that_exist(
    harness: StreamsGroupHarness, places: tuple[list[int], list[int]]
) -> None:
    topology = sent("0:t&t")
    group = topology.subtopologies[0].copartition_groups[0]
    group.source_topics, group.repartition_source_topics = places
    assert harness.heartbeat("a", 0, topology).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_regex_of_sources_is_refused(harness: StreamsGroupHarness) -> None:
    topology = Topology(0, [Subtopology("0", ["t"], ["x.*"])])
    assert harness.heartbeat("a", 0, topology).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("epoch", "more"),
    [
        (0, {"rebalance_timeout_ms": -1}), (0, {"active": "0/0"}), (0, {"topology": None}), (-3, {"topology": None}),
        (-2, {"topology": None}), (3, {}), (3, {"topology": None, "active": ""}), (0, {"instance_id": ""}),
    ],
)  # fmt: skip
def test_what_a_heartbeat_must_have(harness: StreamsGroupHarness, epoch: int, more: dict[str, Any]) -> None:
    more = {"topology": PLAIN, **more}
    assert harness.heartbeat("a", epoch, **more).error_code == ErrorCode.INVALID_REQUEST
    assert harness.core.state.groups == {}


def test_a_changelog_with_a_partition_count_is_refused(harness: StreamsGroupHarness) -> None:
    topology = sent("0:t%store")
    topology.subtopologies[0].state_changelog_topics[0].partitions = 2
    assert harness.heartbeat("a", 0, topology).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_groups_that_are_not_there_or_of_another_type(harness: StreamsGroupHarness) -> None:
    for epoch in (5, -1):
        assert harness.heartbeat("a", epoch).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    harness.stable()
    for epoch, topology in ((0, PLAIN), (5, None), (-1, None)):
        assert harness.heartbeat("a", epoch, topology).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_epochs_are_checked(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("b", 0, PLAIN)
    assert harness.heartbeat("x", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    harness.heartbeat("a")
    harness.heartbeat("a", active="0/0+1", standby="", warmup="")
    for owned, error in (("0/0+1", 0), ("0/2", ErrorCode.FENCED_MEMBER_EPOCH), ("1/0", ErrorCode.FENCED_MEMBER_EPOCH)):
        assert harness.heartbeat("a", 2, active=owned, standby="", warmup="").error_code == error
    assert harness.heartbeat("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_tasks_that_do_not_exist_are_refused(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    for active in ("1/0", "0/3", "0/-1"):
        answer = harness.heartbeat("a", active=active, standby="", warmup="")
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_topology_does_not_change(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, sent(PLAIN, 1))
    assert statuses(harness.heartbeat("b", 0, PLAIN)) == [0]
    assert harness.heartbeat("c", 0, sent("0:u", 1)).error_code == ErrorCode.INVALID_REQUEST
    assert Topology(0) != harness.streams().topology


def test_a_full_group_takes_only_its_own_members() -> None:
    harness = StreamsGroupHarness(group_streams_max_size=1)
    harness.heartbeat("a", 0, PLAIN)
    assert harness.heartbeat("b", 0, PLAIN).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.heartbeat("a", 0, PLAIN).error_code == 0


def test_a_heartbeat_with_two_offsets_of_a_task_keeps_the_known_partition_counts(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:t%store")
    before = harness.streams().configured
    harness.change_topics(topics(t=3, u=2, store=3))
    twice = [("0", 0, 1), ("0", 0, 2)]
    assert "duplicate" in harness.heartbeat("a", task_offsets=twice).error_message
    answer = harness.heartbeat("a", task_offsets=twice, active="0/7", standby="", warmup="")
    assert answer.error_message.startswith("Task 7")  # the tasks are checked first
    assert harness.streams().configured is before
    harness.heartbeat("a")
    assert harness.streams().configured is not before


def test_a_refused_heartbeat_keeps_the_known_partition_counts(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:t%store")
    harness.heartbeat("a")
    before = harness.streams().configured
    harness.change_topics(topics(t=3, u=2, store=3))
    assert harness.heartbeat("a", active="9/0", standby="", warmup="").error_code == ErrorCode.INVALID_REQUEST
    assert harness.streams().configured is before
    harness.heartbeat("a")
    assert harness.streams().configured is not before


def test_a_heartbeat_cannot_have_more_tasks_than_an_application(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    most = [("0", number, 1) for number in range(MAX_TASKS + 1)]
    for more in ({"task_offsets": most}, {"task_end_offsets": most}, {"active": f"0/0{'+0' * MAX_TASKS}"}):
        answer = harness.heartbeat("a", **{"standby": "", "warmup": "", "active": "", **more})
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert harness.streams().offsets == {}


def test_equal_keys_of_client_tags_are_refused(harness: StreamsGroupHarness) -> None:
    answer = harness.heartbeat("a", 0, PLAIN, client_tags=[KeyValue("k", "1"), KeyValue("k", "2")])
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_records_that_do_not_fit_are_refused(harness: StreamsGroupHarness) -> None:
    harness.max_bytes = 100
    assert harness.heartbeat("a", 0, PLAIN).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    harness.max_bytes = NO_LIMIT
    assert harness.core.state.groups == {}


def test_kafka_fails_for_an_endpoint_whose_topics_are_gone() -> None:
    harness = StreamsGroupHarness(group_streams_assignment_interval_ms=60_000)
    topology = "0:t>words 1:<words"
    harness.change_topics(topics(t=3, words=3))
    harness.heartbeat("a", 0, topology, endpoint="h:1")
    harness.heartbeat("b", 0, topology, endpoint="i:1")
    harness.change_topics(topics(t=3))
    assert harness.heartbeat("a", endpoint_information_epoch=9).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    harness.change_topics(topics(t=3, words=3))
    member = harness.streams().members["b"]
    assigned = member.position.assigned._replace(active={"9": {0: 2}})
    harness.streams().move_member(member, member.position._replace(assigned=assigned))
    assert harness.heartbeat("a", endpoint_information_epoch=9).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_member_whose_endpoint_is_refused_has_reported_its_offsets(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:t", endpoint="h:1")
    harness.change_topics(topics(u=1))
    offsets: list[tuple[str, int, int]] = [("0", 0, 5)]
    assert harness.heartbeat("a", task_offsets=offsets).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    joining = harness.heartbeat("b", 0, "0:t", task_offsets=offsets)
    assert joining.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.streams().offsets == {"a": ({"0": {0: 5}}, {})}


def test_a_member_whose_endpoint_is_refused_is_not_silent(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:nope")
    for _ in range(2):
        harness.advance(40_000)
        assert harness.heartbeat("a", endpoint="h:1").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(harness.streams().members) == {"a"}
    harness.advance(45_000)
    assert not harness.streams().members


def test_unknown_members_leave_no_trace(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    group = harness.streams()
    assert group.remove_member("x") is None
    keys = [*record_keys("g", ["x"]), *record_keys("other", ["x"])]
    harness.core.replay([(key, None) for key in keys if type(key) is not StreamsGroupMetadataKey], harness.now)
    harness.core.replay([(StreamsGroupMetadataKey("other"), None)], harness.now)
    assert (list(group.members), group.unused_since_ms()) == (["a"], SINCE_COMMIT)
    value = StreamsGroupCurrentMemberAssignmentValue(4, 3, 99, [TaskIds("0", [0, 1], None), TaskIds("1", [0], [1, 2])])
    harness.core.replay([(StreamsGroupCurrentMemberAssignmentKey("g", "a"), value)], harness.now)
    assert group.members["a"].position.state == UNKNOWN
    assert group.members["a"].position.assigned.active == {"0": {0: 4, 1: 4}, "1": {0: 4}}


def test_an_application_has_at_most_so_many_tasks(harness: StreamsGroupHarness) -> None:
    harness.change_topics(topics(t=MAX_TASKS + 1))
    assert harness.heartbeat("a", 0, PLAIN).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    harness.change_topics(topics(t=MAX_TASKS))
    assert harness.heartbeat("a", 0, PLAIN).error_code == 0
