"""The answers of a coordinator that does not look: loading, not in office, or unable to write what it decided.

`refuse` makes the answer to a request; `with_error` makes one with an error of an answer that may not be given. Both
have the shape in which Kafka says it: an error of the whole, or on each row. Knows messages only, no group and no log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.log.errors import DamagedLog
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from muster.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from muster.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from muster.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from muster.protocol.shapes.offset_fetch import failed_group

_NOT_LOOKED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Said by a coordinator that has not looked at the group."""
_NEEDS_GROUP_ID: Final = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, OffsetDeleteRequest)
"""The requests for which "" is no group id."""


def _join(request: JoinGroupRequest, code: int) -> Message:
    # no id is given by one who does not look; one who is refused for what it asks hears its own again
    member_id = "" if code in _NOT_LOOKED else request.member_id
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _sync(_: SyncGroupRequest, code: int) -> Message:
    # Java's consumer and aiokafka take LOAD_IN_PROGRESS here for fatal; what they were sent before 4.0 they handle
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return SyncGroupResponse(error_code=code)


def _heartbeat(_: HeartbeatRequest, code: int) -> Message:
    # a member that only says that it lives need not rejoin because the coordinator has come up
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return HeartbeatResponse(error_code=code)


def _commit(request: OffsetCommitRequest, code: int) -> Message:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


_REFUSE: Final[dict[type, Callable[[Any, int], Message]]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: lambda _, code: LeaveGroupResponse(error_code=code),
    OffsetCommitRequest: _commit,
    OffsetFetchRequest: lambda r, code: OffsetFetchResponse(groups=[failed_group(group, code) for group in r.groups]),
    OffsetDeleteRequest: lambda _, code: OffsetDeleteResponse(error_code=code),
    DescribeGroupsRequest: lambda r, code: DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in r.groups]
    ),
    ListGroupsRequest: lambda _, code: ListGroupsResponse(error_code=code),
    DeleteGroupsRequest: lambda r, code: DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id, code) for group_id in r.groups_names]
    ),
}


def refuse(request: Message, error_code: int, why: Exception | None = None) -> Message:
    """The answer to `request` that says only `error_code`, and `why` where there is room for words. KeyError for a
    request that no group is asked.
    """
    if error_code in _NOT_LOOKED and type(request) in _NEEDS_GROUP_ID and not getattr(request, "group_id", ""):
        # Kafka looks at the group id before it asks whether it coordinates the group
        error_code = ErrorCode.INVALID_GROUP_ID
    response = _REFUSE[type(request)](request, error_code)
    if why is not None and isinstance(response, DescribeGroupsResponse):
        for row in response.groups:
            row.error_message = f"{why}; {why.advice}" if isinstance(why, DamagedLog) else str(why)
    return response


def _commit_with_error(response: OffsetCommitResponse, code: int) -> Message:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(row.partition_index, row.error_code or code)
                    for row in topic.partitions
                ],
            )
            for topic in response.topics
        ]
    )


_WITH_ERROR: Final[dict[type, Callable[[Any, int], Message]]] = {
    # the id may have been given in the records that were not written
    JoinGroupResponse: lambda _, code: JoinGroupResponse(error_code=code, protocol_name=None),
    SyncGroupResponse: lambda _, code: SyncGroupResponse(error_code=code),
    HeartbeatResponse: lambda _, code: HeartbeatResponse(error_code=code),
    LeaveGroupResponse: lambda _, code: LeaveGroupResponse(error_code=code),
    OffsetCommitResponse: _commit_with_error,
    OffsetFetchResponse: lambda r, code: OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group.group_id, [], code) for group in r.groups]
    ),
    OffsetDeleteResponse: lambda _, code: OffsetDeleteResponse(error_code=code),
    DescribeGroupsResponse: lambda r, code: DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group.group_id) for group in r.groups]
    ),
    ListGroupsResponse: lambda _, code: ListGroupsResponse(error_code=code),
    DeleteGroupsResponse: lambda r, code: DeleteGroupsResponse(
        results=[DeletableGroupResult(row.group_id, row.error_code or code) for row in r.results]
    ),
}


def with_error(response: Message, error_code: int) -> Message:
    """`response`, had its records not been written: one with an error already stays, others say `error_code`."""
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return response
    return _WITH_ERROR[type(response)](response, error_code)
