"""Rare cases of consumer groups: a group that was replaced, a member that has left, a deleted topic."""

from __future__ import annotations

import pytest

from muster.assignors.subscription import assignment_bytes
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.group import SINCE_COMMIT
from muster.coordinator.groups.consumer import history, prepared_target, reconciliation_facts
from muster.coordinator.groups.consumer.commands import AssignmentComputed, TopicsFound
from muster.coordinator.groups.consumer.member import (
    JOIN,
    SYNC,
    ConsumerMember,
    start_timer,
    start_timer_if_absent,
    stop_timer,
    stop_timers,
)
from muster.coordinator.groups.offsets import commit
from muster.coordinator.groups.offsets.commit import CommitCommand
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from muster.protocol.messages.group_records.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, T, given
from tests.coordinator.groups.consumer.test_migration import classic, join, mixed
from tests.coordinator.groups.consumer.test_offloaded_work import large

CLIENT = Client("c", "/10.0.0.1")


def test_stopping_one_of_two_timers_keeps_the_other() -> None:
    deadlines, member = Deadlines(), ConsumerMember("g", "A")
    start_timer(deadlines, member, JOIN, 5)
    start_timer(deadlines, member, SYNC, 7)
    start_timer_if_absent(deadlines, member, JOIN, 9)
    stop_timer(deadlines, member, SYNC)
    assert list(member.timers or ()) == [JOIN]
    assert deadlines.next_ms() == 5
    stop_timers(deadlines, member)
    assert (member.timers, deadlines.next_ms()) == (None, None)


def test_very_many_names_keep_the_order_in_which_they_were_given() -> None:
    names = [f"m{number}" for number in range(kafka_order.MAX_ORDERED + 1)]
    assert kafka_order.timeline(names, 512) == names
    assert sorted(kafka_order.timeline(names[:-1], 512)) == sorted(names[:-1])


def test_a_static_classic_member_can_be_replaced_without_leaving_first() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    first = join(harness, "", "u", instance="i")
    joined = harness.first_heartbeat("D", "u", instance="i")
    assert not joined.error_code
    assert list(harness.consumers().members) == ["C", "D"]
    assert harness.beat(first.member_id, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_replaces_the_last_consumer_member_downgrades_the_group() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u", instance="i")
    joined = join(harness, "", "t", instance="i")
    assert (joined.error_code, joined.generation_id) == (0, 0)
    group = harness.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == ("PreparingRebalance", 2)


def test_a_leave_of_unknown_members_writes_nothing() -> None:
    harness, _ = mixed()
    harness.written()
    answer = harness.send(LeaveGroupRequest("g", members=[MemberIdentity("ghost", None, None)]))
    assert [row.error_code for row in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert not harness.written()


def test_an_upgrade_ignores_assignments_of_deleted_topics() -> None:
    harness = classic()
    (member,) = harness.core.state.groups["g"].members
    harness.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    harness = ConsumerGroupHarness()
    member = join(harness, "", "u").member_id
    harness.sync(member, {member: assignment_bytes({"gone": [0], "u": [1]})})
    harness.first_heartbeat("C", "u")
    assert harness.member(member).position.assigned == ((b"U" * 16, (1,), (1,)),)


def test_computed_targets_for_a_group_that_was_replaced_are_ignored() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    wanted = harness.offloaded.pop()
    harness.heartbeat("A", -1)
    assert not harness.send(DeleteGroupsRequest(["g"])).results[0].error_code
    harness.first_heartbeat("B", "t")
    harness.notify(AssignmentComputed(wanted, prepared_target.prepare_target(wanted, {})))
    assert harness.consumers().computing_epoch == 2
    assert list(harness.consumers().members) == ["B"]


def test_patterns_are_not_resolved_again_without_need() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="t.*")
    wanted = harness.offloaded.pop()
    harness.notify(TopicsFound(wanted, {"t.*": ["t"]}))
    harness.advance(11_000)
    assert given(harness.heartbeat("A"))
    assert not harness.offloaded


def test_a_tombstone_of_an_unknown_member_changes_nothing() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.core.replay([(ConsumerGroupMemberMetadataKey("g", "ghost"), None)], harness.now)
    assert list(harness.consumers().members) == ["A"]


def test_a_tombstone_of_an_unknown_streams_group_changes_nothing() -> None:
    harness = ConsumerGroupHarness()
    rows = [
        (StreamsGroupMetadataKey("s"), None),
        (StreamsGroupMetadataKey("x"), StreamsGroupMetadataValue(epoch=3)),
    ]
    harness.core.replay(rows, harness.now)
    harness.collect(harness.core.loaded(harness.now))
    group = harness.core.state.groups["x"]
    assert isinstance(group, StreamsGroup)
    assert (list(harness.core.state.groups), group.state) == (["x"], "Empty")
    assert group.unused_since_ms() == SINCE_COMMIT


def committing(harness: ConsumerGroupHarness, epoch: int, version: int) -> int:
    """Commit partition 0 of t in this epoch: the error."""
    topics = [OffsetCommitRequestTopic("t", T, [OffsetCommitRequestPartition(0, 5)])]
    request = OffsetCommitRequest("g", epoch, "A", topics=topics)
    harness.asked += 1
    command = CommitCommand(request, harness.asked, CLIENT, version)
    harness.collect(harness.core.handle(command, harness.now))
    error: int = harness.reply(harness.asked).topics[0].partitions[0].error_code
    prepared = commit.prepare_commit(harness.core.state, request, version=version)
    assert (prepared is None) == (error == ErrorCode.UNSUPPORTED_VERSION)
    return error


def test_commits_before_version_9_are_refused_for_consumer_members() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    assert committing(harness, 2, 9) == 0
    assert committing(harness, 2, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert committing(harness, 1, 9) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_offset_fetch_with_another_member_epoch_is_refused() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    for epoch, error in ((2, 0), (1, ErrorCode.STALE_MEMBER_EPOCH)):
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", "A", epoch, None)])
        assert harness.send(request).groups[0].error_code == error


def test_a_transactional_commit_with_another_member_epoch_is_refused() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.heartbeat("A", names=["t", "u"])
    for epoch, topic, error in (
        (3, "t", 0),
        (2, "t", 0),  # the member had the partition by then
        (2, "u", ErrorCode.STALE_MEMBER_EPOCH),
        (2, "gone", ErrorCode.STALE_MEMBER_EPOCH),
        (4, "t", ErrorCode.STALE_MEMBER_EPOCH),
    ):
        known = harness.core.state.image.by_name.get(topic)
        topic_id = ZERO_UUID if known is None else known.topic_id
        topics = [TxnOffsetCommitRequestTopic(topic, topic_id, [TxnOffsetCommitRequestPartition(0, 5)])]
        request = TxnOffsetCommitRequest("tx", "g", 7, 0, epoch, "A", None, topics)
        harness.asked += 1
        harness.collect(harness.core.handle(TxnCommitCommand(request, harness.asked, CLIENT, 0), harness.now))
        assert harness.reply(harness.asked).topics[0].partitions[0].error_code == error, (epoch, topic)


def test_owners_that_others_wait_for_are_listed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation_facts, "MAX_OWNERS", 0)
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.first_heartbeat("B", "t")
    harness.heartbeat("A", owned={"t": list(range(8))})
    harness.heartbeat("B")
    reconciliation = harness.consumers().reconciliation
    assert reconciliation is not None
    assert not reconciliation.owners


def test_events_list_partitions_up_to_a_limit() -> None:
    harness = ConsumerGroupHarness()
    gave_up = [((T, tuple(range(150)), (1,) * 150), (b"U" * 16, (0,), (1,)))]
    assert history._listed(gave_up, harness.core.state.image) == [{"topic": "t", "partitions": list(range(100))}]


def test_the_free_time_of_partitions_is_measured_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: dict[tuple[bytes, int], int] = {}
    reconciliation_facts._free(freed, T, (1, 2), 5)
    monkeypatch.setattr(reconciliation_facts, "MAX_FREED", 2)
    reconciliation_facts._free(freed, T, (3,), 6)
    assert freed == {(T, 1): 5, (T, 2): 5}
