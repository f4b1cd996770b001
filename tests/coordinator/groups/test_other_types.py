"""Groups that are not classic, in a log that Kafka wrote: the answers are those of a Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.group_records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from muster.protocol.messages.group_records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from muster.protocol.messages.group_records.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Subtopology,
)
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.groups.harness import START, GroupHarness

Rows = list[tuple[Message, Message | None]]
MEMBER = (
    ConsumerGroupMemberMetadataKey("g", "m"),
    ConsumerGroupMemberMetadataValue(
        None,
        None,
        "c",
        "/h",
        ["t"],
        None,
        rebalance_timeout_ms=300_000,
        server_assignor=None,
        classic_member_metadata=None,
    ),
)
CONSUMER: Rows = [
    # compaction may leave it so: the offset before its group
    (OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, commit_timestamp=START.wall_ms)),
    MEMBER,
    (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7)),
    (ConsumerGroupTargetAssignmentMetadataKey("g"), ConsumerGroupTargetAssignmentMetadataValue(7)),
    (ConsumerGroupCurrentMemberAssignmentKey("g", "m"), ConsumerGroupCurrentMemberAssignmentValue(7)),
]
GONE: Rows = [(MEMBER[0], None), (ConsumerGroupCurrentMemberAssignmentKey("g", "m"), None)]
SHARE: Rows = [(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(1))]
SHARE_MEMBER: Rows = [(ShareGroupMemberMetadataKey("g", "m"), ShareGroupMemberMetadataValue())]
STREAMS: Rows = [(StreamsGroupMetadataKey("g"), StreamsGroupMetadataValue(1))]
STREAMS_MEMBER: Rows = [(StreamsGroupMemberMetadataKey("g", "m"), StreamsGroupMemberMetadataValue())]
TOPOLOGY = StreamsGroupTopologyKey("g"), StreamsGroupTopologyValue(0, [Subtopology("0", ["t"])])


def harness_with(*rows: tuple[Message, Message | None]) -> GroupHarness:
    harness = GroupHarness()
    harness.core.replay(rows, harness.now)
    harness.collect(harness.core.loaded(harness.now))
    return harness


def listed(
    harness: GroupHarness, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    rows = harness.send(ListGroupsRequest(list(states), list(types))).groups
    return [(one.group_id, one.group_state, one.group_type, one.protocol_type) for one in rows]


def delete_offset(harness: GroupHarness, topic: str = "t") -> Any:
    return harness.send(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]))


def delete(harness: GroupHarness) -> int:
    error: int = harness.send(DeleteGroupsRequest(["g"])).results[0].error_code
    return error


@pytest.mark.parametrize(
    ("rows", "state", "kind"),
    [
        (CONSUMER, "Stable", "consumer"),
        ([*CONSUMER, *GONE], "Empty", "consumer"),
        (CONSUMER[:4], "Reconciling", "consumer"),
        ([*CONSUMER[:4], (CONSUMER[4][0], ConsumerGroupCurrentMemberAssignmentValue(6))], "Reconciling", "consumer"),
        ([*CONSUMER, (CONSUMER[4][0], ConsumerGroupCurrentMemberAssignmentValue(7, 7, 1))], "Reconciling", "consumer"),
        (CONSUMER[:3], "Assigning", "consumer"),
        (SHARE, "Empty", "share"),
        ([*SHARE, *SHARE_MEMBER], "Stable", "share"),
        (STREAMS, "Empty", "streams"),
        ([*STREAMS, *STREAMS_MEMBER], "NotReady", "streams"),
    ],
)  # fmt: skip
def test_a_group_of_another_type_is_listed_with_its_type_and_state(rows: Rows, state: str, kind: str) -> None:
    harness = harness_with(*rows)
    assert listed(harness) == [("g", state, kind, kind)]
    assert listed(
        harness, types=(kind.upper(),), states=("not_ready" if state == "NotReady" else state.lower(),)
    ) == listed(harness)
    assert listed(harness, types=("classic",)) == []
    described = harness.send(DescribeGroupsRequest(["g"])).groups[0]
    assert (described.error_code, described.error_message, described.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.", "Dead",
    )  # fmt: skip


def test_a_consumer_group_with_members_refuses_classic_requests() -> None:
    harness = harness_with(*CONSUMER)
    assert harness.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.commit("m", 1) == harness.commit("m") == ErrorCode.STALE_MEMBER_EPOCH
    assert delete_offset(harness).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(harness, "u").topics[0].partitions[0].error_code == 0
    assert delete(harness) == ErrorCode.NON_EMPTY_GROUP
    for member in ("", "m"):
        assert harness.join(member, kind="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join("m").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # its metadata is no subscription
    assert harness.beat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync("m", generation=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.fetch().committed_offset == 5
    assert harness.records == []
    harness.advance(45_000)  # no client exists for the member
    assert listed(harness) == [("g", "Empty", "consumer", "consumer")]


def test_a_consumer_group_without_members_accepts_commits_of_any_client() -> None:
    harness = harness_with(*CONSUMER, *GONE)
    assert harness.commit(offset=6) == harness.commit("m", offset=7) == 0
    assert harness.commit("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.fetch().committed_offset == 7
    assert listed(harness) == [("g", "Empty", "consumer", "consumer")]
    assert delete_offset(harness).topics[0].partitions[0].error_code == 0
    assert harness.fetch().committed_offset == -1


def test_an_empty_consumer_group_is_deleted_with_all_its_records() -> None:
    harness = harness_with(*CONSUMER, *GONE)
    assert delete(harness) == 0
    assert [(type(one.key).__name__, one.value) for one in harness.records] == [
        ("OffsetCommitKey", None),
        ("ConsumerGroupTargetAssignmentMetadataKey", None),
        ("ConsumerGroupPartitionMetadataKey", None),
        ("ConsumerGroupMetadataKey", None),
    ]
    assert harness.core.state.groups == {}


def test_a_loaded_consumer_group_has_no_waiting_requests() -> None:
    assert list(harness_with(*CONSUMER).core.resign(16).replies) == []


def test_an_empty_consumer_group_is_removed_when_its_offsets_have_expired() -> None:
    harness = harness_with(*CONSUMER, *GONE)
    harness.advance(8 * 24 * 3_600_000)
    assert harness.core.state.groups == {}
    assert harness.fetch().committed_offset == -1


@pytest.mark.parametrize("rows", [[*CONSUMER, *GONE], STREAMS])
def test_a_classic_join_makes_an_empty_group_of_another_type_classic(rows: Rows) -> None:
    harness = harness_with(*rows)
    assert harness.join("m").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.records == []
    before = harness.fetch().committed_offset
    joined = harness.join(needs_id=True)
    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert listed(harness) == [("g", "Empty", "classic", "")]
    assert harness.fetch().committed_offset == before
    # a load of the written records gives the same state
    again = GroupHarness()
    again.core.replay([*rows, *[(one.key, one.value) for one in harness.records]], again.now)
    again.collect(again.core.loaded(again.now))
    assert listed(again) == listed(harness)


@pytest.mark.parametrize("rows", [SHARE, [*SHARE, *SHARE_MEMBER]])
def test_a_share_group_has_no_offsets_and_never_becomes_classic(rows: Rows) -> None:
    harness = harness_with(*rows)
    assert harness.commit() == harness.commit("m", 1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offset(harness).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.join().error_code == harness.join("m").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.records == []


def test_a_share_group_without_members_stays_until_it_is_deleted() -> None:
    harness = harness_with(*SHARE)
    harness.advance(8 * 24 * 3_600_000)
    assert harness.records == []
    assert (delete(harness), harness.core.state.groups) == (0, {})
    assert delete(harness_with(*SHARE, *SHARE_MEMBER)) == ErrorCode.NON_EMPTY_GROUP


def test_a_loaded_consumer_group_subscribes_by_name_or_by_pattern() -> None:
    pattern = ConsumerGroupMemberMetadataValue(
        None, None, subscribed_topic_names=[], subscribed_topic_regex="o.*", classic_member_metadata=None
    )
    resolved = (
        ConsumerGroupRegularExpressionKey("g", "o.*"), ConsumerGroupRegularExpressionValue(["orders"]),
    )  # fmt: skip
    known = harness_with((MEMBER[0], pattern), resolved).core.state.groups["g"]
    assert known.subscribes_to("orders")
    assert not known.subscribes_to("t")
    assert not harness_with(*CONSUMER).core.state.groups["g"].subscribes_to("u")
    for rows, is_there in ((STREAMS, False), ([*STREAMS, *STREAMS_MEMBER], False), ([*STREAMS, TOPOLOGY], False)):
        assert harness_with(*rows).core.state.groups["g"].subscribes_to("t") is is_there
    assert harness_with(*STREAMS, *STREAMS_MEMBER, TOPOLOGY).core.state.groups["g"].subscribes_to("t")


def test_the_last_records_decide_the_type_of_a_group() -> None:
    upgraded = harness_with(
        (GroupMetadataKey("g"), GroupMetadataValue("consumer")), (GroupMetadataKey("g"), None), *CONSUMER
    )
    assert listed(upgraded) == [("g", "Stable", "consumer", "consumer")]
    back = harness_with(
        *CONSUMER, *[(key, None) for key in upgraded.core.state.groups["g"].record_keys()],
        (GroupMetadataKey("g"), GroupMetadataValue("consumer")),
    )  # fmt: skip
    assert listed(back) == [("g", "Empty", "classic", "consumer")]
    assert back.fetch().committed_offset == 5
    assert harness_with(*SHARE, (ConsumerGroupMetadataKey("g"), None)).core.state.groups["g"].kind == "share"
    assert harness_with((ConsumerGroupMetadataKey("g"), None)).core.state.groups == {}


def test_a_streams_group_with_members_refuses_classic_members() -> None:
    harness = harness_with(*STREAMS, *STREAMS_MEMBER, TOPOLOGY)
    assert harness.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert delete_offset(harness).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
