"""The answers of a coordinator without access to the groups: it is loading, is not active, or could not write.

The answers have Kafka's shape: an error of the whole answer, or an error in each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.coordinator.groups.consumer.commands import AnswersDue, AssignmentWanted, TopicsWanted, UpgradeWanted
from muster.coordinator.groups.offsets import txn_commit
from muster.coordinator.groups.offsets.commit import same_for_all
from muster.coordinator.groups.share.commands import StatesUnwanted, StatesWanted
from muster.coordinator.log.errors import DamagedLog
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import Message
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from muster.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from muster.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from muster.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from muster.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from muster.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from muster.protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from muster.protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from muster.protocol.shapes.offset_fetch import failed_group

_NOT_ASKED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_NEEDS_GROUP_ID: Final = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, OffsetDeleteRequest)
_Make = Callable[[Any, int], Message]


def _only(response: type[Any]) -> _Make:
    return lambda _, code: response(error_code=code)


def _join(request: JoinGroupRequest, code: int) -> Message:
    # A refused member gets its own id back.
    member_id = "" if code in _NOT_ASKED else request.member_id
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _sync(_: SyncGroupRequest, code: int) -> Message:
    # In a SyncGroup's answer LOAD_IN_PROGRESS is fatal to Java's consumer and to aiokafka. Both clients handle the code
    # of Kafka before 4.0.
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return SyncGroupResponse(error_code=code)


def _heartbeat(_: HeartbeatRequest, code: int) -> Message:
    # With this code a member need not rejoin after a start of the coordinator.
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return HeartbeatResponse(error_code=code)


def _without_offsets(response: OffsetFetchResponse, code: int) -> Message:
    # Version 1 has errors in the rows of partitions only. An answer without rows says that nothing was committed.
    for group in response.groups:
        group.error_code = group.error_code or code
        for topic in group.topics:
            for row in topic.partitions:
                row.committed_offset, row.committed_leader_epoch, row.metadata = -1, -1, ""
                row.error_code = row.error_code or group.error_code
    return response


def _consumer_heartbeat(_: Message, code: int) -> Message:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def _share_heartbeat(_: Message, code: int) -> Message:
    return ShareGroupHeartbeatResponse(error_code=code)


def _streams_heartbeat(_: Message, code: int) -> Message:
    return StreamsGroupHeartbeatResponse(error_code=code, status=None)


def _altered(_: Message, code: int) -> Message:
    return AlterShareGroupOffsetsResponse(0, code, error_message(code))


def _offsets_deleted(_: Message, code: int) -> Message:
    return DeleteShareGroupOffsetsResponse(0, code, error_message(code))


_MAKERS: Final[Mapping[type, _Make]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _only(LeaveGroupResponse),
    OffsetCommitRequest: same_for_all,
    OffsetFetchRequest: lambda r, code: OffsetFetchResponse(groups=[failed_group(group, code) for group in r.groups]),
    OffsetDeleteRequest: _only(OffsetDeleteResponse),
    DescribeGroupsRequest: lambda r, code: DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in r.groups]
    ),
    ListGroupsRequest: _only(ListGroupsResponse),
    DeleteGroupsRequest: lambda r, code: DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id, code) for group_id in r.groups_names]
    ),
    # The member id may be in the records that were not written.
    JoinGroupResponse: lambda _, code: JoinGroupResponse(error_code=code, protocol_name=None),
    SyncGroupResponse: _only(SyncGroupResponse),
    HeartbeatResponse: _only(HeartbeatResponse),
    LeaveGroupResponse: _only(LeaveGroupResponse),
    OffsetCommitResponse: same_for_all,
    OffsetFetchResponse: _without_offsets,
    OffsetDeleteResponse: _only(OffsetDeleteResponse),
    DescribeGroupsResponse: lambda r, code: DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group.group_id) for group in r.groups]
    ),
    ListGroupsResponse: _only(ListGroupsResponse),
    DeleteGroupsResponse: lambda r, code: DeleteGroupsResponse(
        results=[DeletableGroupResult(row.group_id, row.error_code or code) for row in r.results]
    ),
    TxnOffsetCommitRequest: txn_commit.same_for_all,
    TxnOffsetCommitResponse: txn_commit.same_for_all,
    ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
    ConsumerGroupDescribeRequest: lambda r, code: ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(code, None, group_id) for group_id in r.group_ids]
    ),
    ConsumerGroupHeartbeatResponse: _consumer_heartbeat,
    ConsumerGroupDescribeResponse: lambda r, code: ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(code, None, group.group_id) for group in r.groups]
    ),
    ShareGroupHeartbeatRequest: _share_heartbeat,
    ShareGroupHeartbeatResponse: _share_heartbeat,
    ShareGroupDescribeRequest: lambda r, code: ShareGroupDescribeResponse(
        groups=[DescribedShareGroup(code, None, group_id) for group_id in r.group_ids]
    ),
    ShareGroupDescribeResponse: lambda r, code: ShareGroupDescribeResponse(
        groups=[DescribedShareGroup(code, None, group.group_id) for group in r.groups]
    ),
    StreamsGroupHeartbeatRequest: _streams_heartbeat,
    StreamsGroupHeartbeatResponse: _streams_heartbeat,
    StreamsGroupDescribeRequest: lambda r, code: StreamsGroupDescribeResponse(
        groups=[DescribedStreamsGroup(code, None, group_id) for group_id in r.group_ids]
    ),
    StreamsGroupDescribeResponse: lambda r, code: StreamsGroupDescribeResponse(
        groups=[DescribedStreamsGroup(code, None, group.group_id) for group in r.groups]
    ),
    DescribeShareGroupOffsetsRequest: lambda r, code: DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(group.group_id, (), code, error_message(code)) for group in r.groups
        ]
    ),
    DescribeShareGroupOffsetsResponse: lambda r, code: DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(group.group_id, (), code, error_message(code)) for group in r.groups
        ]
    ),
    AlterShareGroupOffsetsRequest: _altered,
    AlterShareGroupOffsetsResponse: _altered,
    DeleteShareGroupOffsetsRequest: _offsets_deleted,
    DeleteShareGroupOffsetsResponse: _offsets_deleted,
    # These replies are not answers, but requests for work. A core that was built again ignores the result.
    AssignmentWanted: lambda wanted, _: wanted,
    TopicsWanted: lambda wanted, _: wanted,
    AnswersDue: lambda due, _: due,
    UpgradeWanted: lambda wanted, _: wanted,
    StatesWanted: lambda wanted, _: wanted,
    StatesUnwanted: lambda wanted, _: wanted,
}
"""The makers of answers, by the type of the request, or of the answer whose records were not written."""


def refuse(request: Message, error_code: int, why: Exception | None = None) -> Message:
    """The answer with only `error_code`, and `why` in the field for a text. Raises KeyError for unknown requests."""
    if error_code in _NOT_ASKED and type(request) in _NEEDS_GROUP_ID and not getattr(request, "group_id", ""):
        # Kafka checks the group id before it checks whether it coordinates the group.
        error_code = ErrorCode.INVALID_GROUP_ID
    response = _MAKERS[type(request)](request, error_code)
    if why is not None and isinstance(response, DescribeGroupsResponse):
        for row in response.groups:
            row.error_message = f"{why}; {why.advice}" if isinstance(why, DamagedLog) else str(why)
    return response


def with_error(response: Message, error_code: int) -> Message:
    """The answer instead of `response` when its records were not written: an earlier error in `response` stays."""
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return response
    return _MAKERS[type(response)](response, error_code)
