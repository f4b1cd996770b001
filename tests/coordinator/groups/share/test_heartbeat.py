"""ShareGroupHeartbeat on the core: joins, epochs, targets, refusals, sessions."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.settings import GroupConfigured, IntervalConfigured, OwnConfig
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.share.harness import ShareGroupHarness, given, topics


@pytest.fixture
def harness() -> ShareGroupHarness:
    return ShareGroupHarness()


def test_the_first_member_gets_partitions_once_their_states_exist(harness: ShareGroupHarness) -> None:
    first = harness.heartbeat("a", 0, "t")
    assert (first.error_code, first.member_id, first.member_epoch, given(first)) == (0, "a", 2, "")
    assert first.heartbeat_interval_ms == 5_000
    assert harness.written() == [
        "MemberMetadata a t", "Metadata 2", "TargetAssignmentMember a", "TargetAssignmentMetadata 2",
        "CurrentMemberAssignment a 0>2", "StatePartitionMetadata (t0+1+2) () ()",
        "StatePartitionMetadata () (t0+1+2) ()",
    ]  # fmt: skip
    second = harness.heartbeat("a", 2)
    assert (second.member_epoch, given(second)) == (3, "t0+1+2")
    assert harness.written() == [
        "Metadata 3", "TargetAssignmentMember a t0+1+2", "TargetAssignmentMetadata 3",
        "CurrentMemberAssignment a 2>3 t0+1+2",
    ]  # fmt: skip
    assert harness.kinds() == [
        "group_created", "member_joined", "epoch_bumped", "target_assigned", "epoch_reconciled",
        "epoch_bumped", "target_assigned", "epoch_reconciled",
    ]  # fmt: skip


def test_a_heartbeat_without_news_writes_nothing_and_has_no_assignment(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("a")
    harness.written()
    for _ in range(3):
        answer = harness.heartbeat("a")
        assert (answer.member_epoch, answer.assignment, harness.written()) == (3, None, [])
    assert given(harness.heartbeat("a", 3, "t")) == "t0+1+2"  # a full request
    assert given(harness.heartbeat("a", 0, "t")) == "t0+1+2"
    assert harness.written() == []


def test_the_previous_epoch_is_allowed_and_other_epochs_are_fenced(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("a")
    assert harness.heartbeat("a", 2).member_epoch == 3
    greater, smaller = harness.heartbeat("a", 4), harness.heartbeat("a", 1)
    assert greater.error_code == smaller.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert greater.error_message == (
        "The share group member has a greater member epoch (4) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )
    assert smaller.error_message == (
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), and it "
        "does not match the previous member epoch (2). The member must abandon all its partitions and rejoin."
    )


def test_members_share_partitions(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t", "u")
    harness.heartbeat("a")
    joined = harness.heartbeat("b", 0, "u", "t")
    assert (joined.member_epoch, given(joined)) == (4, "t0 u0")
    assert given(harness.heartbeat("a")) == "t1+2 u"  # as on Kafka, the topic stays
    for member in "cdefg":
        harness.heartbeat(member, 0, "t", "u")
    readers = [number for its in harness.shares().targets.values() for _, numbers in its for number in numbers]
    assert len(readers) == 8  # each of the four partitions has two readers


def test_a_subscription_may_change(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("a")
    harness.written()
    changed = harness.heartbeat("a", 3, "u", "none")
    assert (changed.member_epoch, given(changed)) == (4, "")
    assert harness.written() == [
        "MemberMetadata a none,u", "Metadata 4", "TargetAssignmentMember a", "TargetAssignmentMetadata 4",
        "CurrentMemberAssignment a 3>4", "StatePartitionMetadata (u0) (t0+1+2) ()",
        "StatePartitionMetadata () (t0+1+2 u0) ()",
    ]  # fmt: skip
    assert given(harness.heartbeat("a")) == "u0"
    harness.written()
    harness.heartbeat("a", 5, rack="r", client="d")
    assert harness.written() == ["MemberMetadata a none,u"]
    assert harness.shares().members["a"].description.rack_id == "r"


def test_members_with_differing_subscriptions_get_their_topics(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("b", 0, "u")
    assert given(harness.heartbeat("b")) == "u0"
    assert given(harness.heartbeat("a")) == "t0+1+2"


def test_a_member_leaves(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("a")
    harness.heartbeat("b", 0, "t")
    harness.heartbeat("a")
    harness.written()
    left = harness.heartbeat("b", -1)
    assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms, left.assignment) == ("b", -1, 0, None)
    tombstones = ["CurrentMemberAssignment b -", "TargetAssignmentMember b -", "MemberMetadata b -"]
    assert harness.written() == [*tombstones, "Metadata 5"]
    assert given(harness.heartbeat("a")) == "t0+1+2"
    harness.written()
    harness.heartbeat("a", -1)
    assert harness.written()[3:] == ["Metadata 6", "TargetAssignmentMetadata 6 never"]
    assert harness.shares().state == "Empty"
    again = harness.heartbeat("c", 0, "t")
    assert (again.member_epoch, given(again)) == (7, "t0+1+2")


def test_a_silent_member_is_removed_after_its_session(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("b", 0, "t")
    harness.advance(44_999)
    harness.heartbeat("a")
    harness.advance(1)
    assert list(harness.shares().members) == ["a"]
    assert "member_expired" in harness.kinds()
    harness.collect(harness.core.handle(GroupConfigured("g", None, OwnConfig(50_000, 6_000)), harness.now))
    assert harness.heartbeat("a").heartbeat_interval_ms == 6_000
    harness.advance(49_999)
    assert harness.shares().state == "Stable"
    harness.advance(1)
    assert harness.shares().state == "Empty"


def test_new_targets_wait_for_the_assignment_interval() -> None:
    harness = ShareGroupHarness(group_share_assignment_interval_ms=1_000)
    harness.heartbeat("a", 0, "t")
    assert harness.heartbeat("b", 0, "t").member_epoch == 2
    assert harness.heartbeat("a").member_epoch == 2
    harness.advance(1_000)
    assert given(harness.heartbeat("b")) == "t1"
    harness.collect(harness.core.handle(IntervalConfigured(5, 0), harness.now))
    assert given(harness.heartbeat("c", 0, "t")) == "t0"


def test_requests_are_checked_in_kafkas_order(harness: ShareGroupHarness) -> None:
    wrong = {
        "MemberId can't be empty.": harness.heartbeat(" ", 0, "t"),
        "GroupId can't be empty.": harness.heartbeat("a", 0, "t", group=""),
        "RackId can't be empty.": harness.heartbeat("a", 0, "t", rack=" "),
        "SubscribedTopicNames must be set in first request.": harness.heartbeat("a", 0),
        "MemberEpoch is invalid.": harness.heartbeat("a", -2),
    }
    for member in ("", "a" * 37):
        answer = harness.heartbeat(member, 0, "t")
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, None)
    for message, answer in wrong.items():
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    missing = harness.heartbeat("a", 1)
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Share group g not found.")
    assert harness.heartbeat("a", -1).error_message == "Group g not found."
    harness.heartbeat("a", 0, "t")
    unknown = harness.heartbeat("b", 1)
    assert (unknown.error_code, unknown.error_message) == (
        ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g.",
    )  # fmt: skip
    assert harness.heartbeat("b", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.kinds().count("request_refused") == 11


def test_a_group_of_another_type_is_refused(harness: ShareGroupHarness) -> None:
    harness.commit(group="simple")
    for epoch in (0, 1, -1):
        answer = harness.heartbeat("a", epoch, "t", group="simple")
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND, "Group simple is not a share group.",
        )  # fmt: skip


def test_a_full_group_refuses_new_members() -> None:
    harness = ShareGroupHarness(group_share_max_size=1)
    harness.heartbeat("a", 0, "t")
    full = harness.heartbeat("b", 0, "t")
    assert (full.error_code, full.error_message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED, "The share group has reached its maximum capacity of 1 members.",
    )  # fmt: skip
    assert harness.heartbeat("a").error_code == 0


def test_records_that_do_not_fit_refuse_the_heartbeat(harness: ShareGroupHarness) -> None:
    harness.max_bytes = 300
    assert harness.heartbeat("a", 0, "t" * 300).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (harness.written(), harness.core.state.groups) == ([], {})


def test_changed_topics_give_a_new_epoch(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t", "u")
    harness.heartbeat("a")
    harness.written()
    harness.notify(TopicsChanged(topics(t=3, u=1, other=1)))
    harness.heartbeat("a")
    assert harness.written() == []
    harness.notify(TopicsChanged(topics(t=4, u=1)))
    harness.kinds()
    assert harness.heartbeat("a").member_epoch == 4
    assert harness.written() == [
        "Metadata 4", "TargetAssignmentMetadata 4", "CurrentMemberAssignment a 3>4 t0+1+2 u0",
        "StatePartitionMetadata (t3) (t0+1+2 u0) ()", "StatePartitionMetadata () (t0+1+2+3 u0) ()",
    ]  # fmt: skip
    assert given(harness.heartbeat("a")) == "t0+1+2+3 u0"
    harness.written()
    harness.notify(TopicsChanged(topics(u=1)))
    assert harness.written() == ["StatePartitionMetadata () (u0) ()"]
    assert given(harness.heartbeat("a")) == "u0"
    bumped = [one.facts for one in harness.events if one.kind == "epoch_bumped"]
    assert [(one["cause"], one["topics"]) for one in bumped] == [
        ("topics_changed", [{"topic": "t", "before": 3, "now": 4, "made_again": False}]), ("partitions_ready", []),
        ("topics_changed", [{"topic": "t", "before": 4, "now": 0, "made_again": False}]),
    ]  # fmt: skip


def test_a_member_keeps_a_deleted_topic_in_its_target_while_subscriptions_differ(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("b", 0, "u")
    harness.heartbeat("a")
    harness.notify(TopicsChanged(topics(u=1)))
    harness.written()
    assert given(harness.heartbeat("a")) == ""
    assert "TargetAssignmentMember a" not in " ".join(harness.written())
