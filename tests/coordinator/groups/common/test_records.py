"""The records' bytes are those that Apache Kafka 4.3.0 wrote (taken from its own segments)."""

from __future__ import annotations

import uuid

import pytest

from muster.coordinator.groups.classic import records as classic
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import state
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.records import OFFSETS, encode_record, pack_record

ORDERS = uuid.UUID("42383878-215a-4ce7-8cf4-68ad626ad733").bytes


def test_an_offset_record_is_written_in_version_4() -> None:
    record = state.offset_commit("g", "orders", 1, 2, 3, "méta", 1795248222359, -1, ORDERS)
    key, value = encode_record(OFFSETS, record)
    assert key == b"\0\1\0\1g\0\6orders\0\0\0\1"
    assert (
        value
        == (b"\0\4" + (2).to_bytes(8, "big") + b"\0\0\0\3" + b"\6m\xc3\xa9ta" + (1795248222359).to_bytes(8, "big"))
        + b"\1\0\x10"
        + ORDERS
    )


@pytest.mark.parametrize("topic_id", [ORDERS, bytes(16)])
@pytest.mark.parametrize("name", ["t", "t\xe9", "long" * 60, "longer" * 400])
def test_an_offset_record_without_metadata_is_packed_as_any_other(name: str, topic_id: bytes) -> None:
    record = state.offset_commit(name, f"{name}-", 2**31 - 1, -(2**63), -1, "", 2**62, -1, topic_id)
    assert state.pack(record) == pack_record(OFFSETS, (record.key, record.value, record.value_version))


def test_an_offset_record_with_an_expire_timestamp_is_written_in_version_1() -> None:
    key, value = encode_record(OFFSETS, state.offset_commit("g", "t", 0, 8, 3, "v2", 100, 200, ORDERS))
    assert key == b"\0\1\0\1g\0\1t\0\0\0\0"
    assert value == b"\0\1" + (8).to_bytes(8, "big") + b"\0\2v2" + (100).to_bytes(8, "big") + (200).to_bytes(8, "big")


def test_tombstones_have_a_key_only() -> None:
    assert encode_record(OFFSETS, state.offset_tombstone("g", "t", 7)) == (b"\0\1\0\1g\0\1t\0\0\0\7", None)
    assert encode_record(OFFSETS, state.tombstone(GroupMetadataKey("g"))) == (b"\0\2\0\1g", None)


def test_a_record_of_a_new_group_has_kafkas_bytes() -> None:
    key, value = encode_record(OFFSETS, classic.new_group("g", 1795248225380))
    assert key == b"\0\2\0\1g"
    expected = b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff" + (1795248225380).to_bytes(8, "big") + b"\0\0\0\0"
    assert value == expected


def test_a_group_record_with_members_is_version_3_and_can_be_read_again() -> None:
    group = ClassicGroup("g", 77)
    group.protocol_type, group.protocol_name, group.generation = "consumer", "rr", 4
    protocols = (("range", b"no"), ("rr", b"yes"))
    group.add(Member("g", "m1", "i1", "c", "/h", 20, 10, protocols, b"old"))
    group.add(Member("g", "m2", None, "", "/h", 21, 11, protocols, b"old"))
    record = classic.group_metadata(group, {"m1": b"new", "ghost": b"x"})
    key, value = encode_record(OFFSETS, record)
    assert value is not None
    assert OFFSETS.decode_key(key) == (2, record.key)
    assert OFFSETS.decode_value(2, value) == (3, record.value)
    assert [(one.subscription, one.assignment) for one in record.value.members] == [(b"yes", b"new"), (b"yes", b"")]
    assert [one.assignment for one in classic.group_metadata(group).value.members] == [b"old", b"old"]


def test_a_packed_record_has_the_bytes_that_stand_in_a_batch() -> None:
    tombstone = state.offset_tombstone("g", "t", 3)
    assert state.pack(tombstone) == b"\x18" + encode_record(OFFSETS, tombstone)[0] + b"\1\0"
    group = classic.new_group("g" * 60, 5)
    key, value = encode_record(OFFSETS, group)
    assert value is not None
    assert state.pack(group) == b"\x80\1" + key + bytes((2 * len(value),)) + value + b"\0"
