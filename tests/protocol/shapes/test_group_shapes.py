"""Converters of the group APIs, through the hub: bytes of an old version in, newest shape out, and back."""

from __future__ import annotations

from typing import Any

import pytest

from muster.protocol import frames
from muster.protocol.api import api_named
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages import (
    describe_groups,
    find_coordinator,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from muster.protocol.shapes.offset_fetch import failed_group
from tests.support import hub


def raised(name: str, version: int, request: Message) -> Any:
    """What a handler sees of a request that a client of this version sends."""
    data = frames.request_frame(api_named(name), version, 1, request, "c")
    header, body = frames.decode_request_header(data, 4, len(data))
    return hub.decode_request(header, data, body, len(data))


def lowered(name: str, version: int, response: Message) -> Any:
    """What a client of this version sees of a handler's response."""
    served = api_named(name)
    data = b"".join(hub.encode_response(frames.RequestHeader(served.key, version, 1, "c"), response))
    correlation_id, body = frames.decode_response_header(served, version, data, 4, len(data))
    assert correlation_id == 1
    return served.decode_response(version, data, body)


# ---- FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_always_asks_for_a_list_of_keys(version: int) -> None:
    if version < 4:
        request = find_coordinator.FindCoordinatorRequest(key="group", key_type=1 if version else 0)
    else:
        request = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["group"])
    seen = raised("FindCoordinator", version, request)
    assert seen == find_coordinator.FindCoordinatorRequest(key_type=1 if version else 0, coordinator_keys=["group"])


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_answers_in_a_row_or_at_the_top(version: int) -> None:
    row = find_coordinator.Coordinator("group", 3, "host", 9092)
    seen = lowered("FindCoordinator", version, find_coordinator.FindCoordinatorResponse(coordinators=[row]))
    if version >= 4:
        assert seen.coordinators == [row]
    else:
        assert (seen.error_code, seen.node_id, seen.host, seen.port) == (0, 3, "host", 9092)
        assert seen.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", range(1, 4))
def test_find_coordinator_describes_a_failure_at_the_top(version: int) -> None:
    row = find_coordinator.Coordinator("group", -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    seen = lowered("FindCoordinator", version, find_coordinator.FindCoordinatorResponse(coordinators=[row]))
    assert (seen.error_code, seen.error_message) == (15, "The coordinator is not available.")
    row.error_message = "said so"
    seen = lowered("FindCoordinator", version, find_coordinator.FindCoordinatorResponse(coordinators=[row]))
    assert seen.error_message == "said so"


# ---- JoinGroup, SyncGroup


def test_join_group_0_takes_the_session_timeout_for_the_rebalance() -> None:
    request = join_group.JoinGroupRequest("g", 6000, member_id="m", protocol_type="consumer")
    assert raised("JoinGroup", 0, request).rebalance_timeout_ms == 6000
    request = join_group.JoinGroupRequest("g", 6000, 7000, member_id="m", protocol_type="consumer")
    assert raised("JoinGroup", 1, request).rebalance_timeout_ms == 7000


@pytest.mark.parametrize("version", range(10))
def test_join_group_without_a_protocol_is_answered_as_the_version_allows(version: int) -> None:
    response = join_group.JoinGroupResponse(
        error_code=25, protocol_type="consumer", protocol_name=None, skip_assignment=True, member_id="m"
    )
    seen = lowered("JoinGroup", version, response)
    assert seen.protocol_name == (None if version >= 7 else "")
    assert seen.protocol_type == ("consumer" if version >= 7 else None)
    assert seen.skip_assignment is (version >= 9)


@pytest.mark.parametrize("version", range(6))
def test_sync_group_needs_no_converter(version: int) -> None:
    request = sync_group.SyncGroupRequest("g", 1, "m", assignments=[sync_group.SyncGroupRequestAssignment("m", b"a")])
    assert raised("SyncGroup", version, request) == request
    seen = lowered("SyncGroup", version, sync_group.SyncGroupResponse(0, 0, "consumer", "range", b"a"))
    assert (seen.protocol_type, seen.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))


# ---- LeaveGroup


@pytest.mark.parametrize("version", range(6))
def test_leave_group_always_names_members(version: int) -> None:
    member = leave_group.MemberIdentity("m")
    request = (
        leave_group.LeaveGroupRequest("g", "m") if version < 3 else leave_group.LeaveGroupRequest("g", "", [member])
    )
    assert raised("LeaveGroup", version, request) == leave_group.LeaveGroupRequest("g", "", [member])


@pytest.mark.parametrize("version", range(6))
def test_leave_group_says_the_only_members_error_at_the_top(version: int) -> None:
    row = leave_group.MemberResponse("m", None, ErrorCode.UNKNOWN_MEMBER_ID)
    seen = lowered("LeaveGroup", version, leave_group.LeaveGroupResponse(members=[row]))
    assert seen.error_code == (25 if version < 3 else 0)
    assert list(seen.members) == ([] if version < 3 else [row])
    seen = lowered("LeaveGroup", version, leave_group.LeaveGroupResponse(error_code=16))
    assert seen.error_code == 16


# ---- OffsetCommit


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit_answers_errors_that_the_version_knows(version: int) -> None:
    partitions = [offset_commit.OffsetCommitResponsePartition(i, code) for i, code in enumerate((0, 69, 113, 25))]
    topic = offset_commit.OffsetCommitResponseTopic("t", bytes(range(16)), partitions)
    seen = lowered("OffsetCommit", version, offset_commit.OffsetCommitResponse(topics=[topic]))
    codes = [partition.error_code for partition in seen.topics[0].partitions]
    assert codes == ([0, 69, 113, 25] if version >= 9 else [0, 22, 35, 25])
    assert (seen.topics[0].name, seen.topics[0].topic_id) == (
        ("", bytes(range(16))) if version == 10 else ("t", bytes(16))
    )


# ---- OffsetFetch


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_always_asks_for_a_list_of_groups(version: int) -> None:
    topics = [offset_fetch.OffsetFetchRequestTopic("t", [0, 1])]
    request = offset_fetch.OffsetFetchRequest("g", topics, require_stable=version == 7)
    group = offset_fetch.OffsetFetchRequestGroup(
        "g", topics=[offset_fetch.OffsetFetchRequestTopics("t", partition_indexes=[0, 1])]
    )
    expected = offset_fetch.OffsetFetchRequest(groups=[group], require_stable=version == 7)
    assert raised("OffsetFetch", version, request) == expected
    if version >= 2:
        (group,) = raised("OffsetFetch", version, offset_fetch.OffsetFetchRequest("g", None)).groups
        assert group.topics is None


def fetched(index: int, error_code: int = 0) -> offset_fetch.OffsetFetchResponsePartitions:
    return offset_fetch.OffsetFetchResponsePartitions(index, 5, 2, "meta", error_code)


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_answers_one_group_at_the_top(version: int) -> None:
    topic = offset_fetch.OffsetFetchResponseTopics("t", partitions=[fetched(0), fetched(1, 88)])
    group = offset_fetch.OffsetFetchResponseGroup("g", [topic])
    seen = lowered("OffsetFetch", version, offset_fetch.OffsetFetchResponse(groups=[group]))
    epoch = 2 if version >= 5 else -1
    assert seen.topics == [
        offset_fetch.OffsetFetchResponseTopic(
            "t",
            [
                offset_fetch.OffsetFetchResponsePartition(0, 5, epoch, "meta", 0),
                offset_fetch.OffsetFetchResponsePartition(1, 5, epoch, "meta", 88),
            ],
        )
    ]
    assert (seen.error_code, seen.groups) == (0, ())


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch_puts_a_failed_group_where_the_version_expects_it(version: int) -> None:
    asked = offset_fetch.OffsetFetchRequestGroup(
        "g", topics=[offset_fetch.OffsetFetchRequestTopics("t", partition_indexes=[0, 1])]
    )
    failed = failed_group(asked, ErrorCode.NOT_COORDINATOR)
    seen = lowered("OffsetFetch", version, offset_fetch.OffsetFetchResponse(groups=[failed]))
    if version >= 8:
        assert seen.groups == [offset_fetch.OffsetFetchResponseGroup("g", [], 16)]
        return
    assert seen.error_code == (16 if version >= 2 else 0)
    rows = [(p.committed_offset, p.committed_leader_epoch, p.error_code) for p in seen.topics[0].partitions]
    assert rows == [(-1, -1, 16)] * 2


def test_offset_fetch_of_a_failed_group_without_topics() -> None:
    failed = failed_group(offset_fetch.OffsetFetchRequestGroup("g", topics=None), 16)
    assert failed == offset_fetch.OffsetFetchResponseGroup("g", [], 16)
    seen = lowered("OffsetFetch", 7, offset_fetch.OffsetFetchResponse(groups=[failed]))
    assert (seen.error_code, seen.topics) == (16, [])


# ---- DescribeGroups


@pytest.mark.parametrize("version", range(7))
def test_describe_groups_calls_an_unknown_group_dead(version: int) -> None:
    row = describe_groups.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.", "g", "Dead")
    seen = lowered("DescribeGroups", version, describe_groups.DescribeGroupsResponse(groups=[row])).groups[0]
    assert (seen.error_code, seen.error_message) == ((69, "Group g not found.") if version == 6 else (0, None))
    assert seen.group_state == "Dead"


@pytest.mark.parametrize("version", range(7))
def test_describe_groups_keeps_other_errors(version: int) -> None:
    row = describe_groups.DescribedGroup(ErrorCode.NOT_COORDINATOR, None, "g")
    seen = lowered("DescribeGroups", version, describe_groups.DescribeGroupsResponse(groups=[row])).groups[0]
    assert (seen.error_code, seen.group_state) == (16, "")
