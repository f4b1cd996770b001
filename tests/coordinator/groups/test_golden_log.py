"""Segments that Apache Kafka 4.3.0 wrote, replayed by the core: the state is the one that Kafka would load."""

from __future__ import annotations

import collections
from typing import Any

from muster.coordinator.groups.classic.group import ClassicGroup, classic_group
from muster.coordinator.groups.common.committed_offsets import unpack
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.protocol.records import OFFSETS
from tests.coordinator.groups.harness import START
from tests.protocol import golden


def partitions() -> dict[int, list[tuple[Any, Any]]]:
    """Partition -> its records, decoded. (Transactional commits count as committed here: markers are for later.)"""
    found: dict[int, list[tuple[Any, Any]]] = collections.defaultdict(list)
    for record in golden.logged_records():
        record_type, key = OFFSETS.decode_key(record.key)
        value = None if record.value is None else OFFSETS.decode_value(record_type, record.value)[1]
        found[record.partition].append((key, value))
    return found


def replayed(records: list[tuple[Any, Any]]) -> GroupCore:
    core = GroupCore(GroupSettings(), NO_TOPICS)
    assert core.replay(records, START) == len(records)
    core.loaded(START)
    return core


def last_values(records: list[tuple[Any, Any]], kind: str) -> dict[tuple[Any, ...], Any]:
    """The last value by key, of one kind of record; keys that end with a tombstone are left out."""
    found: dict[tuple[Any, ...], Any] = {}
    for key, value in records:
        if type(key).__name__ == kind:
            found[tuple(getattr(key, name) for name in key.__slots__)] = value
    return {key: value for key, value in found.items() if value is not None}


def test_a_replay_of_kafkas_log_gives_the_last_committed_offsets() -> None:
    count = 0
    for records in partitions().values():
        core = replayed(records)
        expected = last_values(records, "OffsetCommitKey")
        got = {
            (group_id, topic, partition): unpack(value)
            for group_id in sorted({group_id for group_id, _, _ in expected})
            for topic, values in core.state.offsets.topics(group_id).items()
            for partition, value in values.items()
        }
        assert got == expected
        count += len(got)
    assert count > 40


def assert_says(group: ClassicGroup, value: Any) -> None:
    """Check that the group is as its record says."""
    facts = (group.generation, group.protocol_type or "", group.protocol_name, group.leader_id)
    assert facts == (value.generation, value.protocol_type, value.protocol, value.leader)
    assert group.state == ("Stable" if value.members else "Empty")
    assert group.state_since_ms == value.current_state_timestamp
    assert {
        one.member_id: (one.instance_id, one.client_id, one.client_host, one.assignment, one.protocols)
        for one in group.members.values()
    } == {
        one.member_id: (
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.assignment,
            ((value.protocol, one.subscription),),
        )
        for one in value.members
    }


def test_a_replay_of_kafkas_log_up_to_any_record_gives_the_group() -> None:
    states = collections.Counter[str]()
    for records in partitions().values():
        for i, (key, value) in enumerate(records, 1):
            if type(key).__name__ == "GroupMetadataKey" and value is not None:
                group = classic_group(replayed(records[:i]).state, key.group)
                assert group is not None
                assert_says(group, value)
                states[group.state] += 1
    assert states["Stable"] > 10
    assert states["Empty"] > 10


def test_a_replay_of_kafkas_log_drops_deleted_groups() -> None:
    for records in partitions().values():
        core = replayed(records)
        ended = {key.group for key, value in records if type(key).__name__ == "GroupMetadataKey" and value is None}
        alive = {group_id for (group_id,) in last_values(records, "GroupMetadataKey")}
        alive |= {key[0] for key in last_values(records, "OffsetCommitKey")}
        assert not (ended - alive) & set(core.state.groups)
