"""Records of consumer groups as logs have them: of older Kafkas, incomplete ones, of removed groups and members."""

from __future__ import annotations

from functools import partial
from typing import Any

from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import FEW, CurrentAssignment, Description, Position, with_shared_tuples
from muster.coordinator.groups.consumer.records import current, group_epoch, member_metadata, target, target_epoch
from muster.coordinator.groups.consumer.target import preferred_assignor
from muster.coordinator.groups.core import GroupCore
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from muster.protocol.messages.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from muster.protocol.messages.group_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_regular_expression import ConsumerGroupRegularExpressionKey
from muster.protocol.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from muster.protocol.records import OFFSETS
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, T, given
from tests.coordinator.groups.harness import START

SAID = Description(None, None, "c", "/10.0.0.1", ("t",), None, 5_000, None, None)
KEYS: tuple[Message, ...] = (
    ConsumerGroupCurrentMemberAssignmentKey("g", "A"),
    ConsumerGroupTargetAssignmentMemberKey("g", "A"),
    ConsumerGroupTargetAssignmentMetadataKey("g"),
    ConsumerGroupMemberMetadataKey("g", "A"),
    ConsumerGroupRegularExpressionKey("g", "t"),
    ConsumerGroupPartitionMetadataKey("g"),
    ConsumerGroupMetadataKey("g"),
)


def harness_with(*rows: tuple[Message, Message | None]) -> ConsumerGroupHarness:
    harness = ConsumerGroupHarness()
    harness.core.replay(rows, harness.now)
    harness.collect(harness.core.loaded(harness.now))
    return harness


def present(at: Position) -> list[tuple[Message, Any]]:
    made = [
        member_metadata("g", "A", SAID),
        group_epoch("g", 7, 1),
        target("g", "A", ((T, (0, 1)),)),
        target_epoch("g", 7, 0),
        current("g", "A", at),
    ]
    return [(one.key, one.value) for one in made]


def test_tombstones_of_unknown_groups_change_nothing() -> None:
    assert not harness_with(*[(key, None) for key in KEYS]).core.state.groups


def test_the_tombstones_of_all_records_remove_a_group() -> None:
    at = Position(7, 6, 0, ((T, (0, 1), (7, 7)),), ())
    harness = harness_with(*present(at), *[(key, None) for key in KEYS])
    assert not harness.core.state.groups
    assert harness.only_retention_is_due()


def test_the_tombstone_of_a_group_removes_members_without_tombstones() -> None:
    assert not harness_with(*present(Position(7, 6, 0, (), ())), (KEYS[-1], None)).core.state.groups


def test_records_before_kafka_4_3_have_no_assignment_epochs() -> None:
    rows = present(Position(7, 6, 0, (), ()))
    rows[-1] = (rows[-1][0], ConsumerGroupCurrentMemberAssignmentValue(7, 6, 0, [TopicPartitions(T, [0, 1], None)], []))
    harness = harness_with(*rows, (KEYS[5], ConsumerGroupPartitionMetadataValue()))
    assert harness.member("A").position.assigned == ((T, (0, 1), (7, 7)),)
    assert harness.consumers().has_partition_metadata
    assert harness.consumers().state == "Stable"
    harness.heartbeat("A")  # the hash of the topics replaces it
    assert harness.written()[:2] == ["Metadata 8", "PartitionMetadata -"]
    assert not harness.consumers().has_partition_metadata


def test_a_loaded_member_that_was_revoking_gets_its_full_time_again() -> None:
    harness = harness_with(*present(Position(6, 6, 1, ((T, (0,), (6,)),), ((T, (5,), (6,)),))))
    harness.advance(4_999)
    assert list(harness.consumers().members) == ["A"]
    harness.advance(1)
    assert not harness.consumers().members


def test_a_compacted_log_may_name_the_new_owner_before_the_old_one_revoked() -> None:
    one = present(Position(7, 6, 0, ((T, (0, 1), (7, 7)),), ()))
    got = current("g", "B", Position(8, 7, 0, ((T, (1,), (8,)),), ()))
    gave = current("g", "A", Position(8, 7, 0, ((T, (0,), (7,)),), ()))
    harness = harness_with(*one, (got.key, got.value), (gave.key, gave.value))
    assert harness.consumers().owners == {T: {0: "A", 1: "B"}}


def test_a_record_with_another_instance_id_moves_the_static_member() -> None:
    first, then = (member_metadata("g", "A", SAID._replace(instance_id=one)) for one in ("i", "j"))
    group = harness_with((first.key, first.value), (then.key, then.value)).consumers()
    assert group.static_ids == {"j": "A"}
    assert group.static_member("i") is None


def test_an_assignor_that_only_another_cluster_has_counts_for_nothing() -> None:
    one = member_metadata("g", "A", SAID._replace(assignor="theirs"))
    harness = harness_with((one.key, one.value))
    assert harness.consumers().assignors == {"theirs": 1}
    assert preferred_assignor(harness.consumers(), harness.core.state.settings) == "uniform"


def test_fetches_and_transactional_commits_check_member_and_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    group = harness.consumers()
    assert group.validate_fetch(None, -1) == group.validate_fetch("A", 2) == 0
    assert group.validate_fetch(None, 2) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.validate_fetch("", -1) == group.validate_fetch("B", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_fetch("A", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_transactional_commit("", None, -1, list) == 0
    assert group.validate_transactional_commit("A", None, 2, list) == 0
    late = partial(list, [("t", T, 0)])
    assert group.validate_transactional_commit("A", None, 1, late) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_commit("A", None, 2, 8, list) == ErrorCode.UNSUPPORTED_VERSION
    assert group.unused_since_ms() == -1
    assert isinstance(group, ConsumerGroup)


def test_a_loaded_group_answers_a_returning_member() -> None:
    harness = harness_with(*present(Position(7, 6, 0, ((T, (0, 1), (7, 7)),), ())))
    assert given(harness.heartbeat("A", 0, names=["t"], owned={}, timeout=5_000)) == "t0+1+2+3+4+5+6+7"


def test_target_and_current_assignment_share_their_partition_tuples() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("m", "t")
    records = [(one.key, one.value) for one in harness.records]
    targets_first = sorted(records, key=lambda one: not isinstance(one[0], ConsumerGroupTargetAssignmentMemberKey))
    for rows in (records, targets_first):
        other = GroupCore(harness.settings, harness.core.state.image)
        # as when a log is read: each record has strings of its own
        other.replay([_read_anew(*row) for row in rows], START)
        group = consumer_group(other.state, "g")
        assert group is not None
        (member_id,), (target_id,) = group.members, group.targets
        assert member_id is target_id
        assert group.members["m"].member_id is member_id
        ((_, wanted),), ((_, has, _),) = group.targets["m"], group.members["m"].position.assigned
        assert wanted is has == (0, 1, 2, 3, 4, 5, 6, 7)


def _read_anew(key: Message, value: Message | None) -> tuple[Message, Message | None]:
    kind, read = OFFSETS.decode_key(OFFSETS.encode_key(key))
    return read, None if value is None else OFFSETS.decode_value(kind, OFFSETS.encode_value(value, 0))[1]


def test_epoch_tuples_are_shared_except_for_many_partitions() -> None:
    def shared(_: tuple[int, ...]) -> tuple[int, ...]:
        return common

    common = (7, 7)
    few: CurrentAssignment = ((T, (0, 1), (7, 7)),)
    assert with_shared_tuples(few, (), shared)[0][2] is common
    unlike: CurrentAssignment = ((T, (0, 1), (7, 8)),)
    assert with_shared_tuples(unlike, ((T, (0,)),), shared) == unlike
    many: CurrentAssignment = ((T, tuple(range(FEW + 1)), (7,) * (FEW + 1)),)
    assert with_shared_tuples(many, (), shared) == many
