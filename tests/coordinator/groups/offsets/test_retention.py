"""What stories cannot tell of retention (tests/stories/retention): its records and events, slices, and odd clocks."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.offsets import retention
from muster.coordinator.state_machine.interface import Now, Output
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
from tests.coordinator.groups.harness import START, Room
from tests.coordinator.groups.test_core import reload

MINUTE = 60_000


def room_of(minutes: int = 1, every_ms: int = 1_000) -> Room:
    return Room(offsets_retention_minutes=minutes, offsets_retention_check_interval_ms=every_ms)


def tombstones(room: Room) -> list[str]:
    return [repr(record.key) for record in room.records if record.value is None]


def expired(room: Room) -> list[tuple[str, object]]:
    return [(one.group_id, one.facts["topics"]) for one in room.events if one.kind == events.OFFSETS_EXPIRED]


def look(room: Room, wall_ms: int) -> Output:
    """The next look, at that moment of the wall clock."""
    due = room.core.next_deadline_ms()
    assert due is not None
    room.now = Now(due, wall_ms)
    return room.add(room.core.advance(room.now))


def test_the_offsets_go_before_their_group_and_all_is_told() -> None:
    room = room_of()
    room.commit(partition=1)
    room.commit(partition=0)
    room.commit(topic="u")
    room.commit(group="h")
    room.advance(MINUTE)
    assert tombstones(room) == [
        "OffsetCommitKey(group='g', topic='t', partition=1)",
        "OffsetCommitKey(group='g', topic='t', partition=0)",
        "OffsetCommitKey(group='g', topic='u', partition=0)",
        "GroupMetadataKey(group='g')",
        "OffsetCommitKey(group='h', topic='t', partition=0)",
        "GroupMetadataKey(group='h')",
    ]
    assert expired(room) == [("g", {"t": [0, 1], "u": [0]}), ("h", {"t": [0]})]
    assert room.kinds() == [events.OFFSETS_EXPIRED, events.GROUP_DELETED] * 2
    assert room.core.group_count == 0
    assert reload(room).core.group_count == 0


def test_to_the_millisecond() -> None:
    room = room_of(every_ms=1)
    room.commit()
    room.advance(MINUTE - 1)
    assert tombstones(room) == []
    room.advance(1)
    assert len(tombstones(room)) == 2


def test_to_the_millisecond_of_what_the_commit_said() -> None:
    room = room_of(every_ms=1)
    room.commit(retention=5_000)
    room.advance(4_999)
    assert tombstones(room) == []
    room.advance(1)
    assert len(tombstones(room)) == 2


def test_the_longest_retention_there_is() -> None:
    room = room_of(minutes=2**31 - 1)
    room.commit()
    assert list(look(room, START.wall_ms).records) == []


def test_kept_for_ever_is_as_long_as_can_be_told() -> None:
    room = room_of()
    room.commit(retention=2**63 - 1)
    value = room.records[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.expire_timestamp, room.records[-1].value_version) == (2**63 - 1, 1)
    room.advance(2 * MINUTE)
    assert room.fetch().committed_offset == 5


def test_a_restart_does_not_begin_anew() -> None:
    room = room_of()
    room.join()
    room.leave("c-uuid1")
    room.commit()
    room.advance(MINUTE // 2)
    again = reload(room, offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    assert room.group().state_since_ms == again.group().state_since_ms == START.wall_ms
    again.now = room.now
    again.advance(MINUTE // 2 - 1_000)
    assert again.fetch().committed_offset == 5
    again.advance(2_000)
    assert again.core.group_count == 0


def test_a_group_recorded_before_kafka_2_1_says_not_since_when_it_is_empty() -> None:
    room = Room(offsets_retention_minutes=1)
    room.core.replay([(GroupMetadataKey("g"), GroupMetadataValue("consumer", 3, None, None, -1, []))], room.now)
    for partition, age_ms in ((0, MINUTE), (1, MINUTE - 1)):
        value = OffsetCommitValue(5, commit_timestamp=START.wall_ms + 10 * MINUTE - age_ms)
        room.core.replay([(OffsetCommitKey("g", "t", partition), value)], room.now)
    room.add(room.core.loaded(room.now))
    look(room, START.wall_ms + 10 * MINUTE)
    assert tombstones(room) == ["OffsetCommitKey(group='g', topic='t', partition=0)"]


def test_an_open_transaction_keeps_its_offsets_and_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    room = room_of()
    room.commit(partition=0)
    room.commit(partition=1)
    offsets = type(room.core.state.offsets)
    monkeypatch.setattr(offsets, "is_unstable", lambda _self, _group, _topic, partition: partition == 1)
    monkeypatch.setattr(offsets, "has_open_transaction", lambda _self, _group: True)
    room.advance(2 * MINUTE)
    assert tombstones(room) == ["OffsetCommitKey(group='g', topic='t', partition=0)"]
    monkeypatch.setattr(offsets, "is_unstable", lambda *_: False)
    room.advance(MINUTE)
    assert len(tombstones(room)) == 2
    assert room.group().state == "Empty"
    monkeypatch.setattr(offsets, "has_open_transaction", lambda *_: False)
    room.advance(1_000)
    assert len(tombstones(room)) == 3


# ---- a slice at a time


def test_much_is_done_in_slices() -> None:
    room = room_of(every_ms=MINUTE)
    size = retention.CHUNK * 2 + 1
    for group in "abc":
        for partition in range(size):
            room.core.replay([(OffsetCommitKey(group, "t", partition), OffsetCommitValue(1))], room.now)
    slices = []
    due = room.core.next_deadline_ms()
    assert due is not None
    while room.core.group_count:
        output = look(room, START.wall_ms)
        assert room.now.mono_ms == due + len(slices) * retention.SLICE_AFTER_MS
        slices.append(len(output.records))
    assert sum(slices) == 3 * size + 3
    assert max(slices) <= retention.SLICE / retention.REMOVE + retention.CHUNK
    told = [partition for _, topics in expired(room) for partition in topics["t"]]  # type: ignore[index]  # facts are objects
    assert sorted(told) == sorted([*range(size)] * 3)
    look(room, START.wall_ms)  # nothing was left
    assert room.core.next_deadline_ms() == room.now.mono_ms + MINUTE


def test_to_look_without_finding_anything_ends_too() -> None:
    room = room_of(every_ms=MINUTE)
    for i in range(retention.SLICE):
        value = OffsetCommitValue(1, commit_timestamp=START.wall_ms)
        room.core.replay([(OffsetCommitKey(f"g{i}", "t", 0), value)], room.now)
    look(room, START.wall_ms)
    assert room.core.next_deadline_ms() == room.now.mono_ms + retention.SLICE_AFTER_MS
    while room.core.next_deadline_ms() != room.now.mono_ms + MINUTE:
        look(room, START.wall_ms)
    assert room.records == []


def test_what_changes_between_two_slices_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE", 1)
    monkeypatch.setattr(retention, "CHUNK", 1)
    room = room_of(every_ms=MINUTE)
    for group in ("g", "gone", "new"):
        for partition in range(4):
            room.commit(group=group, partition=partition)
    wall_ms = START.wall_ms + MINUTE
    look(room, wall_ms)
    room.commit(partition=1)  # used again
    room.send(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(2)])]))
    room.send(DeleteGroupsRequest(["gone"]))
    room.send(DeleteGroupsRequest(["new"]))
    room.join(group="new")  # another one of that name
    before = len(room.records)
    while room.core.next_deadline_ms() == room.now.mono_ms + retention.SLICE_AFTER_MS:
        look(room, wall_ms)
    assert [repr(record.key) for record in room.records[before:]] == [
        "OffsetCommitKey(group='g', topic='t', partition=3)"
    ]
    assert room.fetch(partition=1).committed_offset == 5
    assert list(room.core.state.groups) == ["g", "new"]


def test_of_a_group_with_members_only_topics_go_that_nobody_subscribes_to() -> None:
    room = room_of(minutes=1)
    protocols = (("range", encode_subscription(ConsumerProtocolSubscription(["t"]), 1)),)
    a, b = room.stable(protocols=protocols)
    generation = room.group().generation
    for topic in ("t", "u"):
        assert room.commit(a, generation, topic=topic) == 0
    wall_ms = START.wall_ms + 2 * MINUTE
    room.join(a, protocols=protocols)  # whose topics count is open until the rebalance is over
    assert room.group().state == "PreparingRebalance"
    for _ in range(3):  # a clock that jumped is believed at the second look
        look(room, wall_ms)
        assert expired(room) == []
    room.join(b, protocols=protocols)
    for member in (a, b):
        room.sync(member, {a: b"", b: b""})
    assert room.group().state == "Stable"
    look(room, wall_ms)
    assert expired(room) == [("g", {"u": [0]})]


# ---- odd clocks


def test_a_clock_that_jumps_ahead_is_believed_when_it_stays_there() -> None:
    room = room_of()
    room.commit()
    look(room, START.wall_ms + 1_000)
    look(room, START.wall_ms + 100 * MINUTE)  # a wrong clock, perhaps
    assert tombstones(room) == []
    look(room, START.wall_ms + 3_000)  # it was
    look(room, START.wall_ms + 4_000)
    assert room.fetch().committed_offset == 5
    look(room, START.wall_ms + 100 * MINUTE)
    look(room, START.wall_ms + 100 * MINUTE + 1_000)
    assert len(tombstones(room)) == 2


def test_a_clock_that_is_set_back_keeps_offsets_longer() -> None:
    room = room_of()
    room.commit()
    for _ in range(3):
        look(room, START.wall_ms - 100 * MINUTE)
    assert tombstones(room) == []


def test_who_is_about_to_join_finds_the_group() -> None:
    room = room_of(every_ms=100)
    member = room.join(needs_id=True, session=1_000).member_id
    room.advance(900)
    assert room.join(member).error_code == 0
    room.leave(member)
    room.join(needs_id=True, session=1_000)
    room.advance(1_200)
    assert room.core.group_count == 0
