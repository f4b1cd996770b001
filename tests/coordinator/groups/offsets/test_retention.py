"""Retention, beyond the stories in conform/stories/retention: records, events, work in steps, and odd clocks."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.offsets import retention
from muster.coordinator.state_machine.deadlines import SLICE_AFTER_MS
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.state_machine.output import Output
from muster.protocol.consumer import encode_subscription
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.groups.harness import START, GroupHarness
from tests.coordinator.groups.test_core import reload

MINUTE = 60_000


def retention_harness(minutes: int = 1, every_ms: int = 1_000) -> GroupHarness:
    return GroupHarness(offsets_retention_minutes=minutes, offsets_retention_check_interval_ms=every_ms)


def tombstones(harness: GroupHarness) -> list[str]:
    return [repr(record.key) for record in harness.records if record.value is None]


def expired(harness: GroupHarness) -> list[tuple[str, object]]:
    return [(one.group_id, one.facts["topics"]) for one in harness.events if one.kind == events.OFFSETS_EXPIRED]


def look(harness: GroupHarness, wall_ms: int) -> Output:
    """Run the next check, at that time of the wall clock."""
    due = harness.core.next_deadline_ms()
    assert due is not None
    harness.now = Now(due, wall_ms)
    return harness.collect(harness.core.advance(harness.now))


def test_expired_offsets_are_deleted_before_their_group_and_reported() -> None:
    harness = retention_harness()
    harness.commit(partition=1)
    harness.commit(partition=0)
    harness.commit(topic="u")
    harness.commit(group="h")
    harness.advance(MINUTE)
    assert tombstones(harness) == [
        "OffsetCommitKey(group='g', topic='t', partition=1)",
        "OffsetCommitKey(group='g', topic='t', partition=0)",
        "OffsetCommitKey(group='g', topic='u', partition=0)",
        "GroupMetadataKey(group='g')",
        "OffsetCommitKey(group='h', topic='t', partition=0)",
        "GroupMetadataKey(group='h')",
    ]
    assert expired(harness) == [("g", {"t": [0, 1], "u": [0]}), ("h", {"t": [0]})]
    assert harness.kinds() == [events.OFFSETS_EXPIRED, events.GROUP_DELETED] * 2
    assert harness.core.group_count == 0
    assert reload(harness).core.group_count == 0


def test_offsets_expire_to_the_millisecond() -> None:
    harness = retention_harness(every_ms=1)
    harness.commit()
    harness.advance(MINUTE - 1)
    assert tombstones(harness) == []
    harness.advance(1)
    assert len(tombstones(harness)) == 2


def test_offsets_with_their_own_retention_time_expire_to_the_millisecond() -> None:
    harness = retention_harness(every_ms=1)
    harness.commit(retention=5_000)
    harness.advance(4_999)
    assert tombstones(harness) == []
    harness.advance(1)
    assert len(tombstones(harness)) == 2


def test_the_largest_retention_setting_expires_nothing() -> None:
    harness = retention_harness(minutes=2**31 - 1)
    harness.commit()
    assert list(look(harness, START.wall_ms).records) == []


def test_the_largest_retention_time_of_a_commit_keeps_the_offset() -> None:
    harness = retention_harness()
    harness.commit(retention=2**63 - 1)
    value = harness.records[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.expire_timestamp, harness.records[-1].value_version) == (2**63 - 1, 1)
    harness.advance(2 * MINUTE)
    assert harness.fetch().committed_offset == 5


def test_a_restart_does_not_restart_the_retention_time() -> None:
    harness = retention_harness()
    harness.join()
    harness.leave("c-uuid1")
    harness.commit()
    harness.advance(MINUTE // 2)
    again = reload(harness, offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    assert harness.group().state_since_ms == again.group().state_since_ms == START.wall_ms
    again.now = harness.now
    again.advance(MINUTE // 2 - 1_000)
    assert again.fetch().committed_offset == 5
    again.advance(2_000)
    assert again.core.group_count == 0


def test_a_group_record_before_kafka_2_1_expires_by_the_commit_times() -> None:
    harness = GroupHarness(offsets_retention_minutes=1)
    harness.core.replay([(GroupMetadataKey("g"), GroupMetadataValue("consumer", 3, None, None, -1, []))], harness.now)
    for partition, age_ms in ((0, MINUTE), (1, MINUTE - 1)):
        value = OffsetCommitValue(5, commit_timestamp=START.wall_ms + 10 * MINUTE - age_ms)
        harness.core.replay([(OffsetCommitKey("g", "t", partition), value)], harness.now)
    harness.collect(harness.core.loaded(harness.now))
    look(harness, START.wall_ms + 10 * MINUTE)
    assert tombstones(harness) == ["OffsetCommitKey(group='g', topic='t', partition=0)"]


def test_an_open_transaction_keeps_its_offsets_and_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = retention_harness()
    harness.commit(partition=0)
    harness.commit(partition=1)
    offsets = type(harness.core.state.offsets)
    monkeypatch.setattr(offsets, "is_unstable", lambda _self, _group, _topic, partition: partition == 1)
    monkeypatch.setattr(offsets, "has_open_transaction", lambda _self, _group: True)
    harness.advance(2 * MINUTE)
    assert tombstones(harness) == ["OffsetCommitKey(group='g', topic='t', partition=0)"]
    monkeypatch.setattr(offsets, "is_unstable", lambda *_: False)
    harness.advance(MINUTE)
    assert len(tombstones(harness)) == 2
    assert harness.group().state == "Empty"
    monkeypatch.setattr(offsets, "has_open_transaction", lambda *_: False)
    harness.advance(1_000)
    assert len(tombstones(harness)) == 3


# ---- one slice at a time


def test_many_expired_offsets_are_deleted_in_steps() -> None:
    harness = retention_harness(every_ms=MINUTE)
    size = retention.CHUNK * 2 + 1
    for group in "abc":
        for partition in range(size):
            harness.core.replay([(OffsetCommitKey(group, "t", partition), OffsetCommitValue(1))], harness.now)
    sizes = []
    due = harness.core.next_deadline_ms()
    assert due is not None
    while harness.core.group_count:
        output = look(harness, START.wall_ms)
        assert harness.now.mono_ms == due + len(sizes) * SLICE_AFTER_MS
        sizes.append(len(output.records))
    assert sum(sizes) == 3 * size + 3
    assert max(sizes) <= retention.SLICE / retention.REMOVE + retention.CHUNK
    reported = [partition for _, topics in expired(harness) for partition in topics["t"]]
    assert sorted(reported) == sorted([*range(size)] * 3)
    look(harness, START.wall_ms)  # nothing was left
    assert harness.core.next_deadline_ms() == harness.now.mono_ms + MINUTE


def test_a_search_without_expired_offsets_ends() -> None:
    harness = retention_harness(every_ms=MINUTE)
    for i in range(retention.SLICE):
        value = OffsetCommitValue(1, commit_timestamp=START.wall_ms)
        harness.core.replay([(OffsetCommitKey(f"g{i}", "t", 0), value)], harness.now)
    look(harness, START.wall_ms)
    assert harness.core.next_deadline_ms() == harness.now.mono_ms + SLICE_AFTER_MS
    while harness.core.next_deadline_ms() != harness.now.mono_ms + MINUTE:
        look(harness, START.wall_ms)
    assert harness.records == []


def test_changes_between_two_steps_of_the_expiration_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE", 1)
    monkeypatch.setattr(retention, "CHUNK", 1)
    harness = retention_harness(every_ms=MINUTE)
    for group in ("g", "gone", "new"):
        for partition in range(4):
            harness.commit(group=group, partition=partition)
    wall_ms = START.wall_ms + MINUTE
    look(harness, wall_ms)
    harness.commit(partition=1)  # the offset is used again
    harness.send(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(2)])]))
    harness.send(DeleteGroupsRequest(["gone"]))
    harness.send(DeleteGroupsRequest(["new"]))
    harness.join(group="new")  # another group of that name
    before = len(harness.records)
    while harness.core.next_deadline_ms() == harness.now.mono_ms + SLICE_AFTER_MS:
        look(harness, wall_ms)
    assert [repr(record.key) for record in harness.records[before:]] == [
        "OffsetCommitKey(group='g', topic='t', partition=3)"
    ]
    assert harness.fetch(partition=1).committed_offset == 5
    assert list(harness.core.state.groups) == ["g", "new"]


def test_a_group_with_members_loses_only_offsets_of_topics_that_no_member_subscribes_to() -> None:
    harness = retention_harness(minutes=1)
    protocols = (("range", encode_subscription(ConsumerProtocolSubscription(["t"]), 1)),)
    a, b = harness.stable(protocols=protocols)
    generation = harness.group().generation
    for topic in ("t", "u"):
        assert harness.commit(a, generation, topic=topic) == 0
    wall_ms = START.wall_ms + 2 * MINUTE
    harness.join(a, protocols=protocols)  # until the rebalance is over, nobody knows whose topics count
    assert harness.group().state == "PreparingRebalance"
    for _ in range(3):  # after a jump of the clock, the second check believes it
        look(harness, wall_ms)
        assert expired(harness) == []
    harness.join(b, protocols=protocols)
    for member in (a, b):
        harness.sync(member, {a: b"", b: b""})
    assert harness.group().state == "Stable"
    look(harness, wall_ms)
    assert expired(harness) == [("g", {"u": [0]})]


# ---- odd clocks


def test_a_clock_that_jumps_ahead_expires_offsets_only_if_it_stays_there() -> None:
    harness = retention_harness()
    harness.commit()
    look(harness, START.wall_ms + 1_000)
    look(harness, START.wall_ms + 100 * MINUTE)  # the clock may be wrong
    assert tombstones(harness) == []
    look(harness, START.wall_ms + 3_000)  # the clock was wrong
    look(harness, START.wall_ms + 4_000)
    assert harness.fetch().committed_offset == 5
    look(harness, START.wall_ms + 100 * MINUTE)
    look(harness, START.wall_ms + 100 * MINUTE + 1_000)
    assert len(tombstones(harness)) == 2


def test_a_clock_that_is_set_back_expires_no_offsets() -> None:
    harness = retention_harness()
    harness.commit()
    for _ in range(3):
        look(harness, START.wall_ms - 100 * MINUTE)
    assert tombstones(harness) == []


def test_a_group_with_a_pending_member_id_does_not_expire() -> None:
    harness = retention_harness(every_ms=100)
    member = harness.join(needs_id=True, session=1_000).member_id
    harness.advance(900)
    assert harness.join(member).error_code == 0
    harness.leave(member)
    harness.join(needs_id=True, session=1_000)
    harness.advance(1_200)
    assert harness.core.group_count == 0
