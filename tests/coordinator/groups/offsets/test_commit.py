from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import EMPTY
from muster.coordinator.groups.common.state import pack
from muster.coordinator.groups.offsets.commit import least_bytes
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.groups.harness import START, GroupHarness


def test_a_commit_to_an_unknown_group_creates_a_simple_group() -> None:
    harness = GroupHarness()
    assert harness.commit(offset=7, metadata="note") == 0
    group = harness.group()
    assert (group.state, group.protocol_type, group.generation) == (EMPTY, None, 0)
    assert [type(record.key).__name__ for record in harness.records] == ["OffsetCommitKey"]
    assert (harness.fetch().committed_offset, harness.fetch().metadata) == (7, "note")


@pytest.mark.parametrize("generation", [0, 1])
def test_a_commit_with_a_generation_to_an_unknown_group_is_refused(generation: int) -> None:
    harness = GroupHarness()
    assert harness.commit("x", generation) == ErrorCode.GROUP_ID_NOT_FOUND
    assert (harness.records, harness.core.state.groups) == ([], {})


def test_a_commit_to_the_empty_group_id_is_accepted() -> None:
    harness = GroupHarness()
    assert harness.commit(group="") == 0
    assert harness.fetch(group="").committed_offset == 5


def test_the_group_state_decides_who_may_commit() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    assert harness.commit(a, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.commit(a, 7) == ErrorCode.ILLEGAL_GENERATION
    harness.sync(a)
    harness.sync(b)
    assert harness.commit(a, 2) == 0
    assert harness.commit(a, 7) == harness.commit(a, 0) == harness.commit(a, -1) == ErrorCode.ILLEGAL_GENERATION
    assert harness.commit("", -1) == harness.commit("ghost", 2) == harness.commit("", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    harness.join(a)
    assert harness.commit(b, 2) == 0
    assert harness.commit(b, 3) == ErrorCode.ILLEGAL_GENERATION
    harness.leave(a)
    harness.leave(b)
    assert harness.commit(b, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.commit(b, -1) == harness.commit("", -1) == harness.commit("x", -1, instance="i") == 0


def test_the_instance_id_of_a_commit_is_checked_first() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True)
    assert harness.commit("ghost", 7, instance="i0") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.commit(a, -1, instance="i0") == ErrorCode.ILLEGAL_GENERATION
    assert harness.commit("", -1, instance="i0") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.commit(a, 2, instance="i0") == 0


def test_a_refused_commit_has_the_error_on_every_partition() -> None:
    harness = GroupHarness()
    rows = [OffsetCommitRequestPartition(0, 1), OffsetCommitRequestPartition(1, 1)]
    topics = [OffsetCommitRequestTopic("t", b"T" * 16, rows), OffsetCommitRequestTopic("u", ZERO_UUID, rows[:1])]
    reply = harness.send(OffsetCommitRequest("g", 3, "x", None, -1, topics))
    got = [
        (one.name, one.topic_id, [(p.partition_index, p.error_code) for p in one.partitions]) for one in reply.topics
    ]
    assert got == [("t", b"T" * 16, [(0, 69), (1, 69)]), ("u", ZERO_UUID, [(0, 69)])]


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance"])
def test_a_commit_extends_the_session_of_its_member(state: str) -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    if state != "Stable":
        harness.join(a)
    harness.advance(9_000)
    assert harness.commit(b, 2) == 0
    harness.advance(9_999)
    assert b in harness.group().members
    harness.advance(1)
    assert b not in harness.group().members


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4096, 0),
        ("x" * 4097, 12),
        ("é" * 4096, 0),
        ("é" * 4097, 12),
        ("😀" * 2048, 0),
        ("😀" * 2048 + "x", 12),
        ("x" * 2048, 0),
        ("x" * 2049, 0),
    ],
)
def test_metadata_is_measured_in_utf16_units(metadata: str, error: int) -> None:
    harness = GroupHarness()
    assert harness.commit(metadata=metadata) == error
    assert harness.fetch().metadata == ("" if error else metadata)


def test_too_much_metadata_refuses_only_its_partition() -> None:
    harness = GroupHarness(offset_metadata_max_bytes=3)
    rows = [OffsetCommitRequestPartition(i, i, -1, "x" * (i + 2)) for i in range(3)]
    reply = harness.send(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", ZERO_UUID, rows)]))
    assert [one.error_code for one in reply.topics[0].partitions] == [0, 0, 12]
    assert len(harness.records) == 2


def test_null_metadata_is_stored_as_empty_metadata() -> None:
    harness = GroupHarness()
    harness.commit(metadata=None, offset=-7)
    assert (harness.fetch().metadata, harness.fetch().committed_offset) == ("", -7)


def test_the_offset_record_is_version_4_and_has_the_topic_id() -> None:
    harness = GroupHarness()
    harness.commit()
    record = harness.records[-1]
    value = record.value
    assert record.value_version == 4
    assert (value.offset, value.leader_epoch, value.topic_id) == (5, 3, b"T" * 16)
    assert (value.commit_timestamp, value.expire_timestamp) == (START.wall_ms, -1)


def test_the_topic_id_of_the_request_goes_before_the_id_of_the_topics_image() -> None:
    harness = GroupHarness()
    rows = [OffsetCommitRequestPartition(0, 1)]
    topics = [OffsetCommitRequestTopic("t", b"X" * 16, rows), OffsetCommitRequestTopic("gone", ZERO_UUID, rows)]
    harness.send(OffsetCommitRequest("g", topics=topics))
    assert [record.value.topic_id for record in harness.records] == [b"X" * 16, ZERO_UUID]


def test_a_retention_time_is_written_in_version_1_which_has_no_leader_epoch() -> None:
    harness = GroupHarness()
    harness.commit(retention=1_000)
    record = harness.records[-1]
    assert record.value_version == 1
    assert record.value.expire_timestamp == START.wall_ms + 1_000
    assert harness.fetch().committed_leader_epoch == -1
    harness.commit(retention=0)
    assert harness.records[-1].value.expire_timestamp == START.wall_ms


def test_the_bytes_of_a_topic_in_the_log_are_estimated_before_the_commit() -> None:
    topic = OffsetCommitRequestTopic(
        "t" * 30, b"T" * 16, [OffsetCommitRequestPartition(n, 5, -1, "m" * n) for n in range(200)]
    )
    harness = GroupHarness()
    harness.send(OffsetCommitRequest("group", -1, "", None, -1, [topic]))
    written = sum(len(pack(record)) for record in harness.records)
    assert len(harness.records) == 200
    assert written / 2 < least_bytes("group", topic) < written * 2
