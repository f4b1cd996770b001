from __future__ import annotations

import pytest

from muster.coordinator.runtime.group_coordinator.error_responses import refuse, with_error
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from muster.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupResponse
from muster.protocol.messages.list_groups import ListGroupsResponse
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from muster.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    "request_", [JoinGroupRequest(), SyncGroupRequest(), HeartbeatRequest(), OffsetDeleteRequest()]
)
def test_an_empty_group_id_is_refused_before_the_coordinator_but_after_permission(request_: Message) -> None:
    for code in (14, 15, 16):
        assert refuse(request_, code).error_code == ErrorCode.INVALID_GROUP_ID
    assert refuse(request_, 30).error_code == 30


def test_a_join_refused_for_its_group_id_has_its_member_id() -> None:
    assert refuse(JoinGroupRequest("", member_id="m"), 16) == JoinGroupResponse(
        error_code=24, protocol_name=None, member_id="m"
    )
    assert refuse(JoinGroupRequest("g", member_id="m"), 16) == JoinGroupResponse(error_code=16, protocol_name=None)


def test_a_commit_is_refused_by_row() -> None:
    rows = [OffsetCommitRequestPartition(3), OffsetCommitRequestPartition(1)]
    refused = refuse(OffsetCommitRequest("", topics=[OffsetCommitRequestTopic("t", b"i" * 16, rows)]), 16)
    assert refused == OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                "t", b"i" * 16, [OffsetCommitResponsePartition(3, 16), OffsetCommitResponsePartition(1, 16)]
            )
        ]
    )


def test_an_offset_fetch_is_refused_by_group_and_by_row() -> None:
    asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[2])])
    refused = refuse(OffsetFetchRequest(groups=[asked, OffsetFetchRequestGroup("h", topics=None)]), 16)
    assert isinstance(refused, OffsetFetchResponse)
    assert [(group.group_id, group.error_code) for group in refused.groups] == [("g", 16), ("h", 16)]
    assert [row.error_code for row in refused.groups[0].topics[0].partitions] == [16]


def test_a_request_that_is_not_for_groups_has_no_group_refusal() -> None:
    with pytest.raises(KeyError):
        refuse(MetadataRequest(), 16)


def _committed(*codes: int) -> OffsetCommitResponse:
    rows = [OffsetCommitResponsePartition(index, code) for index, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=rows)])


def _fetched(error: int, *rows: tuple[int, int, int, str, int]) -> OffsetFetchResponse:
    partitions = [OffsetFetchResponsePartitions(*row) for row in rows]
    topics = [OffsetFetchResponseTopics("t", partitions=partitions)]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", topics, error)])


@pytest.mark.parametrize(
    ("response", "with_errored"),
    [
        (JoinGroupResponse(generation_id=3, member_id="m", leader="m", protocol_name="range"),
         JoinGroupResponse(error_code=16, protocol_name=None)),
        (SyncGroupResponse(assignment=b"a"), SyncGroupResponse(error_code=16)),
        (HeartbeatResponse(), HeartbeatResponse(error_code=16)),
        (LeaveGroupResponse(), LeaveGroupResponse(error_code=16)),
        (ListGroupsResponse(), ListGroupsResponse(error_code=16)),
        (OffsetDeleteResponse(), OffsetDeleteResponse(error_code=16)),
        (_committed(0, 12), _committed(16, 12)),
        (OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g")]),
         OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", [], 16)])),
        (_fetched(0, (2, 7, 1, "text", 0), (3, -1, -1, "", 88)),
         _fetched(16, (2, -1, -1, "", 16), (3, -1, -1, "", 88))),
        (_fetched(25, (2, -1, -1, "", 25)), _fetched(25, (2, -1, -1, "", 25))),
        (DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", group_state="Stable")]),
         DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", error_code=16)])),
        (DeleteGroupsResponse(results=[DeletableGroupResult("g"), DeletableGroupResult("h", 69)]),
         DeleteGroupsResponse(results=[DeletableGroupResult("g", 16), DeletableGroupResult("h", 69)])),
        (SyncGroupResponse(error_code=27), SyncGroupResponse(error_code=27)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_answer_whose_records_were_not_written_becomes_an_error(response: Message, with_errored: Message) -> None:
    assert with_error(response, NOT_COORDINATOR) == with_errored
