from __future__ import annotations

from muster.coordinator.groups import core
from muster.coordinator.groups.classic import rebalance
from muster.coordinator.groups.classic.group import ClassicGroup, classic_group
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import State, Step
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from muster.protocol.messages.group_records.legacy_offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
)
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey
from tests.coordinator.groups.harness import START, TOPICS


def state() -> State:
    return State(GroupSettings(), TOPICS, core.RECORDS, core.OTHERS, core.replay_transactional)


def metadata(*members: MemberMetadata, generation: int = 1, protocol: str | None = "range") -> GroupMetadataValue:
    leader = members[0].member_id if members else None
    return GroupMetadataValue("consumer", generation, protocol, leader, 77, list(members))


def test_records_of_other_coordinators_are_skipped() -> None:
    one = state()
    one.evolve(TransactionLogKey("t"), None)
    assert one.evolve_all([(TransactionLogKey("t"), None)]) == 1
    assert one.groups == {}


def test_an_offset_creates_a_simple_group_and_its_tombstone_keeps_the_group() -> None:
    one = state()
    value = OffsetCommitValue(5, commit_timestamp=9)
    one.evolve(OffsetCommitKey("g", "t", 0), value)
    assert one.offsets.get("g", "t", 0) == value
    one.evolve(OffsetCommitKey("g", "t", 0), None)
    assert (one.offsets.get("g", "t", 0), list(one.groups)) == (None, ["g"])


def test_tombstones_of_unknown_keys_change_nothing() -> None:
    one = state()
    one.evolve(OffsetCommitKey("g", "t", 0), None)
    one.evolve(GroupMetadataKey("g"), None)
    one.evolve(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5))
    one.evolve(OffsetCommitKey("g", "u", 1), None)
    one.evolve(OffsetCommitKey("g", "t", 0), None)
    assert one.offsets.get("g", "t", 1) is not None


def test_offsets_of_the_oldest_format_are_read() -> None:
    one = state()
    one.evolve(LegacyOffsetCommitKey("g", "t", 0), LegacyOffsetCommitValue(5, "m", 9))
    value = one.offsets.get("g", "t", 0)
    assert value is not None
    assert (value.offset, value.metadata, value.commit_timestamp, value.leader_epoch) == (5, "m", 9, -1)
    one.evolve(LegacyOffsetCommitKey("g", "t", 0), None)
    assert one.offsets.get("g", "t", 0) is None


def test_a_later_group_record_replaces_the_earlier_one_completely() -> None:
    one = state()
    a = MemberMetadata("a", "i", "c", "/h", 20, 10, b"s", b"x")
    b = MemberMetadata("b", None, "c", "/h", 20, 10, b"s", b"y")
    one.evolve(GroupMetadataKey("g"), metadata(a, b))
    a2 = MemberMetadata("a2", "i", "c", "/h", 21, 11, b"s2", b"z")
    b2 = MemberMetadata("b", None, "c", "/h", 31, 12, b"s3", b"w")
    one.evolve(GroupMetadataKey("g"), metadata(a2, b2, generation=2, protocol="rr"))
    group = classic_group(one, "g")
    assert group is not None
    assert (group.generation, group.protocol_name, group.leader_id, group.state_since_ms) == (2, "rr", "a2", 77)
    assert group.static_ids == {"i": "a2"}
    got = {
        one.member_id: (one.protocols, one.rebalance_timeout_ms, one.session_timeout_ms)
        for one in group.members.values()
    }
    assert got == {"a2": ((("rr", b"s2"),), 21, 11), "b": ((("rr", b"s3"),), 31, 12)}
    assert [one.assignment for one in group.members.values()] == [b"w", b"z"]
    assert group.support.candidates() == ["rr"]


def test_a_record_without_rebalance_timeout_means_the_session_timeout() -> None:
    one = state()
    one.evolve(GroupMetadataKey("g"), metadata(MemberMetadata("a", None, "c", "/h", -1, 10, b"s", b"")))
    group = classic_group(one, "g")
    assert group is not None
    assert group.members["a"].rebalance_timeout_ms == 10


def test_an_empty_group_is_loaded_as_empty_with_its_protocol_type() -> None:
    one = state()
    one.evolve(GroupMetadataKey("g"), metadata(generation=3, protocol=None))
    group = classic_group(one, "g")
    assert group is not None
    rebalance.loaded(Step(one, START), group)
    assert (group.state, group.generation, group.protocol_type) == ("Empty", 3, "consumer")


def test_a_tombstone_ends_a_group_and_its_deadlines() -> None:
    one = state()
    one.evolve(GroupMetadataKey("g"), metadata(MemberMetadata("a", None, "c", "/h", 20, 10, b"s", b"x")))
    group = classic_group(one, "g")
    assert group is not None
    one.deadlines.set(group.members["a"], 10)
    one.deadlines.set(group.sync_deadline, 10)
    one.evolve(GroupMetadataKey("g"), None)
    assert (one.groups, one.deadlines.next_ms(), group.state) == ({}, None, "Dead")


def test_a_new_group_is_empty_and_has_default_fields() -> None:
    group = ClassicGroup("g", 5)
    facts = (group.state, group.generation, group.protocol_type, group.protocol_name, group.leader_id)
    assert facts == ("Empty", 0, None, None, None)
    assert (group.kind, group.state_since_ms, group.rebalance_timeout_ms) == ("classic", 5, 0)
    assert group.remove("nobody") is None
