"""ConsumerGroupHeartbeat: checks, changes and records. The answers are those of Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer.checks import MAX_NAMES
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.state_machine.deadlines import LateAnswers
from muster.coordinator.state_machine.interface import Now
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from muster.protocol.messages.list_groups import ListGroupsRequest
from tests.coordinator.groups.consumer.harness import NAMES, ConsumerGroupHarness, given, topics
from tests.support.slots import slots_of

ALL = "t0+1+2+3+4+5+6+7"


def state(harness: ConsumerGroupHarness) -> str:
    return harness.consumers().state


def test_a_first_member_gets_everything_in_one_heartbeat() -> None:
    harness = ConsumerGroupHarness()
    joined = harness.first_heartbeat("A", "t")
    assert (joined.error_code, joined.member_id, joined.member_epoch, given(joined)) == (0, "A", 2, ALL)
    assert joined.heartbeat_interval_ms == 5_000
    assert harness.written() == [
        "MemberMetadata A",
        "Metadata 2",
        f"TargetAssignmentMember A {ALL}",
        "TargetAssignmentMetadata 2",
        f"CurrentMemberAssignment A 2<0 0 {ALL}",
    ]
    again = harness.heartbeat("A")
    assert (again.member_epoch, again.assignment) == (2, None)
    assert not harness.written()
    assert state(harness) == "Stable"


def test_a_partition_moves_only_after_its_owner_has_revoked_it() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "u", assignor="range")
    harness.records.clear()
    second = harness.first_heartbeat("B", "u")
    assert (second.member_epoch, given(second)) == (3, "")
    assert harness.written() == [
        "MemberMetadata B",
        "Metadata 3",
        "TargetAssignmentMember A u0",
        "TargetAssignmentMember B u1",
        "TargetAssignmentMetadata 3",
        "CurrentMemberAssignment B 3<0 2",
    ]
    assert state(harness) == "Reconciling"
    first = harness.heartbeat("A", owned={"u": [0, 1]})
    assert (first.member_epoch, given(first)) == (2, "u0")
    assert harness.written() == ["CurrentMemberAssignment A 2<2 1 u0 -u1"]
    assert given(harness.heartbeat("B", owned={})) is None
    # as on Kafka: the member has been in this epoch before
    assert harness.written() == ["CurrentMemberAssignment B 3<3 2"]
    assert given(harness.heartbeat("B", owned={})) is None
    assert harness.heartbeat("A", owned={"u": [0, 1]}).assignment is None
    assert not harness.written()
    assert harness.heartbeat("A", owned={"u": [0]}).member_epoch == 3
    assert harness.written() == ["CurrentMemberAssignment A 3<2 0 u0"]
    assert given(harness.heartbeat("B", owned={})) == "u1"
    assert harness.written() == ["CurrentMemberAssignment B 3<3 0 u1"]
    assert state(harness) == "Stable"


def test_a_member_that_does_not_revoke_partitions_in_time_is_fenced() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "u", timeout=7_000)
    harness.first_heartbeat("B", "u")
    harness.heartbeat("A", owned={"u": [0, 1]})
    harness.advance(5_000)
    harness.heartbeat("A", owned={"u": [0, 1]})  # does not restart the timer
    harness.written()
    harness.advance(1_999)
    assert list(harness.consumers().members) == ["A", "B"]
    harness.advance(1)
    assert harness.written() == [
        "CurrentMemberAssignment A -",
        "TargetAssignmentMember A -",
        "MemberMetadata A -",
        "Metadata 4",
    ]
    assert state(harness) == "Assigning"
    assert harness.heartbeat("A", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert given(harness.heartbeat("B", owned={})) == "u0+1"


def test_a_member_without_heartbeats_is_fenced() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.advance(44_999)
    harness.heartbeat("A")
    harness.advance(44_999)
    assert state(harness) == "Stable"
    harness.advance(1)
    assert state(harness) == "Empty"
    assert harness.only_retention_is_due()


@pytest.mark.parametrize(
    ("epoch", "more", "message"),
    [
        (0, {"names": ["t"], "owned": {}}, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"names": ["t"], "timeout": 1}, "TopicPartitions must be empty when (re-)joining."),
        (0, {"names": ["t"], "timeout": 1, "owned": {"t": [0]}}, "TopicPartitions must be empty when (re-)joining."),
        (0, {"owned": {}, "timeout": 1},
         "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        (1, {"group": " "}, "GroupId can't be empty."),
        (1, {"instance": ""}, "InstanceId can't be empty."),
        (1, {"rack": "\t"}, "RackId can't be empty."),
        (1, {"member": " ", "group": ""}, "MemberId can't be empty."),
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is invalid."),
    ],
)  # fmt: skip
def test_a_heartbeat_without_required_fields_is_refused(epoch: int, more: dict[str, Any], message: str) -> None:
    harness = ConsumerGroupHarness()
    refused = harness.heartbeat(more.pop("member", "A"), epoch, **more)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (refused.member_id, refused.member_epoch, refused.assignment) == (None, 0, None)
    assert not harness.core.state.groups


def test_an_unknown_server_assignor_is_refused() -> None:
    refused = ConsumerGroupHarness().first_heartbeat("A", "t", assignor="mine")
    assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.error_message == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


def test_a_client_of_version_0_is_given_a_member_id() -> None:
    harness = ConsumerGroupHarness()
    assert harness.first_heartbeat("", "t", version=0).member_id == "drawn1"
    assert harness.first_heartbeat("", "t", version=1).error_message == "MemberId can't be empty."


def test_heartbeats_of_unknown_groups_and_members_are_refused() -> None:
    harness = ConsumerGroupHarness()
    absent = harness.heartbeat("A", 1)
    assert (absent.error_code, absent.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    leaving = harness.heartbeat("A", -1)
    assert (leaving.error_code, leaving.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    harness.first_heartbeat("A", "t")
    stranger = harness.heartbeat("B", 1)
    assert stranger.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.error_message == "Member B is not a member of group g."


def test_heartbeats_with_a_wrong_member_epoch_are_fenced() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.heartbeat("A", names=["t", "u"])
    ahead, behind = harness.heartbeat("A", 9), harness.heartbeat("A", 1)
    assert ahead.error_code == behind.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert ahead.error_message == (
        "The consumer group member has a greater member epoch (9) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )
    assert "a smaller member epoch (1)" in behind.error_message
    # the answer to the heartbeat before may have been lost
    assert harness.heartbeat("A", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.heartbeat("A", 2, owned={"t": [0, 1]}).member_epoch == 3
    # and with epoch 0 it begins again
    assert given(harness.first_heartbeat("A", "t", "u")) == f"{ALL} u0+1"


def test_a_full_group_refuses_a_new_member() -> None:
    harness = ConsumerGroupHarness(group_consumer_max_size=1)
    harness.first_heartbeat("A", "t")
    refused = harness.first_heartbeat("B", "t")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert harness.first_heartbeat("A", "t").error_code == 0


def test_a_static_member_can_be_replaced_only_after_it_has_left_temporarily() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t", instance="i")
    refused = harness.first_heartbeat("B", "t", instance="i")
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert refused.error_message == (
        "Static member B with instance id i cannot join the group because the instance id is owned by A member."
    )
    assert harness.heartbeat("A", -2, instance="i").member_epoch == -2
    assert state(harness) == "Reconciling"
    harness.written()
    back = harness.first_heartbeat("B", "t", instance="i")
    assert (back.member_epoch, given(back)) == (2, ALL)
    assert harness.written() == [
        "CurrentMemberAssignment A -",
        "TargetAssignmentMember A -",
        "MemberMetadata A -",
        "MemberMetadata B",
        f"TargetAssignmentMember B {ALL}",
        f"CurrentMemberAssignment B 0<0 0 {ALL}",
        f"CurrentMemberAssignment B 2<0 0 {ALL}",
    ]
    fenced = harness.heartbeat("A", 2, instance="i")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert fenced.error_message == "Static member A with instance id i was fenced by member B."
    assert harness.heartbeat("C", 1, instance="j").error_message == "Instance id j is unknown."


def test_a_static_member_that_does_not_return_is_removed() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t", instance="i")
    harness.advance(30_000)
    harness.heartbeat("A", -2, instance="i")  # does not prolong its session
    harness.advance(15_000)
    assert state(harness) == "Empty"


def test_leaving_bumps_the_epoch_and_the_next_heartbeat_computes_a_target() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.first_heartbeat("B", "t")
    harness.written()
    left = harness.heartbeat("A", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "A", -1)
    assert harness.written()[-1] == "Metadata 4"
    assert state(harness) == "Assigning"
    assert given(harness.heartbeat("B", owned={})) == ALL
    assert state(harness) == "Stable"


def test_a_new_subscription_bumps_the_epoch_but_a_new_order_of_names_does_not() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    assert harness.heartbeat("A", names=["u", "t"]).member_epoch == 3
    assert harness.heartbeat("A", names=["t", "u", "t"]).member_epoch == 3
    assert harness.heartbeat("A", assignor="uniform").member_epoch == 3
    assert harness.heartbeat("A", timeout=9).assignment is None
    assert harness.written()[-2:] == ["MemberMetadata A", "MemberMetadata A"]


def test_another_preferred_assignor_bumps_the_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    assert harness.heartbeat("A", assignor="uniform").member_epoch == 2
    assert harness.heartbeat("A", assignor="range").member_epoch == 3
    assert harness.heartbeat("A", assignor="range").member_epoch == 3


def test_a_topic_that_grows_bumps_the_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t", "new")
    harness.notify(TopicsChanged(topics(t=8, u=2)))
    assert harness.heartbeat("A").member_epoch == 2
    harness.notify(TopicsChanged(topics(t=9, u=2)))
    harness.written()
    grown = harness.heartbeat("A", owned={"t": range(8)})
    assert (grown.member_epoch, given(grown)) == (3, f"{ALL}+8")
    harness.notify(TopicsChanged(topics(u=2)))
    gone = harness.heartbeat("A", owned={"t": range(9)})
    assert (gone.member_epoch, given(gone)) == (3, "")
    assert state(harness) == "Reconciling"
    assert harness.heartbeat("A", owned={}).member_epoch == 4


def test_targets_are_computed_at_most_once_in_each_assignment_interval() -> None:
    harness = ConsumerGroupHarness(group_consumer_assignment_interval_ms=1_000)
    harness.first_heartbeat("A", "u")
    second = harness.first_heartbeat("B", "u")
    assert (second.member_epoch, given(second), state(harness)) == (2, "", "Assigning")
    harness.advance(999)
    assert harness.heartbeat("B", owned={}).member_epoch == 2
    harness.advance(1)
    assert state(harness) == "Assigning"  # a heartbeat computes the target
    assert harness.heartbeat("B", owned={}).member_epoch == 3


def test_a_group_is_deleted_with_all_its_records() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    harness.heartbeat("A", -1)
    harness.written()
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    assert harness.written() == ["TargetAssignmentMetadata -", "PartitionMetadata -", "Metadata -"]
    assert not harness.core.state.groups


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    harness = ConsumerGroupHarness()
    harness.join()
    harness.commit("c-uuid1", 1)
    harness.leave("c-uuid1")
    assert harness.commit() == 0
    harness.first_heartbeat("A", "t")
    assert isinstance(harness.core.state.groups["g"], ConsumerGroup)
    assert harness.fetch().committed_offset == 5
    assert [one.group_type for one in harness.send(ListGroupsRequest()).groups] == ["consumer"]


def test_commits_are_checked_by_member_epoch() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    harness.heartbeat("A", names=["t", "u"])
    assert harness.commit("A", 3) == 0
    assert harness.commit("A", 2) == 0  # t was assigned to the member in epoch 2
    assert harness.commit("A", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.commit("A", 2, topic="u") == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.commit("A", 4) == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.commit("B", 3) == harness.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    harness.heartbeat("A", -1)
    assert harness.commit() == 0


def test_a_replay_of_the_records_gives_the_same_group() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t", instance="i", rack="r")
    harness.first_heartbeat("B", "t", "u", assignor="range")
    harness.heartbeat("A", owned={"t": range(8)}, instance="i")
    live, other = harness.consumers(), harness.replayed(harness.records)
    soft = {
        "members",
        "hashed_version",
        "hashed_topics",
        "reconciliation",
        "waiting",
        "computing_epoch",
        "existing",
        "is_searching",
        "names_version",
    }
    for name in set(slots_of(ConsumerGroup)) - soft:
        assert getattr(live, name) == getattr(other, name), name
    for member_id, member in live.members.items():
        assert (other.members[member_id].description, other.members[member_id].position) == (
            member.description,
            member.position,
        )
    assert (live.state, other.state) == ("Reconciling", "Reconciling")


def test_a_join_that_does_not_fit_into_a_batch_changes_nothing() -> None:
    harness = ConsumerGroupHarness()
    harness.max_bytes = 2_000
    refused = harness.first_heartbeat("A", *[f"a-topic-with-a-name-{number}" for number in range(100)])
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not harness.core.state.groups
    harness.max_bytes = 500
    joined = harness.first_heartbeat("A", "t")
    assert (joined.error_code, joined.member_epoch) == (0, 2)


def test_new_targets_that_do_not_fit_into_a_batch_leave_the_old_targets() -> None:
    harness = ConsumerGroupHarness()
    for number in range(8):
        harness.first_heartbeat(f"A{number}", "t")
    harness.max_bytes = 900
    joined = harness.first_heartbeat("B", "t")
    assert (joined.error_code, joined.member_epoch) == (0, 10)
    harness.notify(TopicsChanged(topics(t=200)))
    harness.heartbeat("B", owned={})
    assert state(harness) == "Assigning"
    harness.max_bytes = 100_000
    harness.heartbeat("B", owned={})
    assert state(harness) == "Reconciling"


def test_first_targets_that_do_not_fit_into_a_batch_refuse_the_new_member() -> None:
    harness = ConsumerGroupHarness()
    harness.notify(TopicsChanged(topics(t=300)))
    harness.max_bytes = 500
    refused = harness.first_heartbeat("A", "t")
    assert (refused.error_code, refused.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert not harness.consumers().members  # as if the heartbeat had never come
    assert not harness.consumers().waiting
    harness.max_bytes = 100_000
    assert given(harness.first_heartbeat("A", "t")) is not None


def test_a_returning_static_member_keeps_its_old_target_if_a_new_one_does_not_fit_into_a_batch() -> None:
    harness = ConsumerGroupHarness()
    harness.notify(TopicsChanged(topics(t=3)))
    harness.first_heartbeat("A", "t", instance="i")
    harness.heartbeat("A", -2, instance="i")
    harness.notify(TopicsChanged(topics(t=3, u=300)))
    harness.max_bytes = 500
    assert given(harness.first_heartbeat("B", "t", "u", instance="i")) == "t0+1+2"


def test_a_member_whose_answer_was_late_gets_a_longer_session() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t")
    waits = LateAnswers()
    waits.late(harness.now.mono_ms, harness.now.mono_ms + 30_000)
    harness.now = Now(harness.now.mono_ms + 45_000, harness.now.wall_ms + 45_000)
    harness.collect(harness.core.advance(harness.now, waits))
    assert state(harness) == "Stable"
    harness.advance(30_000)
    assert state(harness) == "Empty"


def test_assignors_may_be_named_by_kafkas_classes() -> None:
    package = "org.apache.kafka.coordinator.group.assignor."
    harness = ConsumerGroupHarness(
        group_consumer_assignors=(f"{package}RangeAssignor", f"{package}UniformAssignor", "range")
    )
    described = harness.first_heartbeat("A", "t", assignor="theirs")
    assert described.error_message == "ServerAssignor theirs is not supported. Supported assignors: uniform, range."
    harness.first_heartbeat("A", "t")
    row = harness.send(ConsumerGroupDescribeRequest(["g"])).groups[0]
    assert (row.assignor_name, row.group_state, row.members[0].member_type) == ("range", "Stable", 1)
    absent = harness.send(ConsumerGroupDescribeRequest(["no"])).groups[0]
    assert (absent.error_code, absent.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group no not found.")


def test_a_consumer_heartbeat_to_a_classic_group_is_refused() -> None:
    harness = ConsumerGroupHarness()
    harness.stable()
    for epoch in (1, -1):
        refused = harness.heartbeat("A", epoch)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.error_message == "Group g is not a consumer group."
    shared = ConsumerGroupHarness()
    shared.core.replay([(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(1))], shared.now)
    assert shared.first_heartbeat("A", "t").error_message == "Group g is not a consumer group."
    row = shared.send(ConsumerGroupDescribeRequest(["g"])).groups[0]
    assert row.error_message == "Group g is not a consumer group."


def test_a_static_member_that_leaves_temporarily_while_it_revokes_is_not_fenced() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "u", instance="i")
    harness.first_heartbeat("B", "u")
    harness.heartbeat("A", owned={"u": [0, 1]}, instance="i")
    assert harness.heartbeat("A", -2, instance="i").member_epoch == -2
    harness.advance(6_000)
    assert set(harness.consumers().members) == {"A", "B"}
    # the partitions of its pending revocation are free at once
    assert given(harness.heartbeat("B", owned={})) is not None
    assert harness.heartbeat("A", -1, instance="i").member_epoch == -1
    assert list(harness.consumers().members) == ["B"]


def test_a_tie_between_assignors_goes_to_the_one_of_the_heartbeating_member() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("A", "t", "u", assignor="uniform")
    harness.first_heartbeat("B", "t", assignor="range")
    consumers = harness.consumers()
    assert given_share(consumers, "A") == {"t": 4, "u": 2}, "as range does it"
    harness.heartbeat("A", names=["t", "u", "v"])
    assert given_share(consumers, "A") == {"t": 3, "u": 2}, "as uniform does it"
    harness.first_heartbeat("C", "v", assignor="range")
    assert given_share(consumers, "A") == {"t": 4, "u": 2}, "most members wish for it"


def given_share(group: ConsumerGroup, member: str) -> dict[str, int]:
    """How many partitions of each topic are in the member's target."""
    return {NAMES[topic_id]: len(partitions) for topic_id, partitions in group.targets[member]}


def test_subscribed_names_that_do_not_fit_into_a_batch_are_refused_before_a_record_is_made() -> None:
    harness = ConsumerGroupHarness()
    names = [f"name-{i}" for i in range(12_000)]
    assert harness.first_heartbeat("A", *names[:100]).error_code == 0
    harness.max_bytes = 100_000
    for refused in (names, ["n" * 30_000, "m" * 30_000]):
        assert harness.first_heartbeat("B", *refused).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.first_heartbeat("B", *["t"] * 120_000).error_code == 0, "one name, however often"
    assert set(harness.consumers().members) == {"A", "B"}


def test_a_member_with_more_topic_names_than_the_limit_is_refused() -> None:
    harness = ConsumerGroupHarness()
    harness.max_bytes = 1_048_588
    names = [f"{number:x}" for number in range(MAX_NAMES + 1)]
    assert harness.first_heartbeat("A", *names).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not harness.core.state.groups
    assert harness.first_heartbeat("A", *names[1:]).error_code == 0
