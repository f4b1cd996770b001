"""The base class of messages, and error codes."""

from __future__ import annotations

import pytest

from muster.protocol.errors import ErrorCode, error_message, error_name, is_retriable
from muster.protocol.message import MalformedMessage, UnrepresentableField, copied, take_apart
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)


def test_messages_are_equal_by_their_fields() -> None:
    assert HeartbeatRequest("g", 1, "m") == HeartbeatRequest("g", 1, "m")
    assert HeartbeatRequest("g", 1, "m") != HeartbeatRequest("g", 2, "m")
    assert HeartbeatResponse() != HeartbeatRequest()
    assert JoinGroupRequest(protocols=[JoinGroupRequestProtocol("a")]) == JoinGroupRequest(
        protocols=(JoinGroupRequestProtocol("a"),)
    )
    assert JoinGroupRequest(protocols=[JoinGroupRequestProtocol("a")]) != JoinGroupRequest()


def test_messages_are_mutable_and_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())
    with pytest.raises(AttributeError):
        HeartbeatRequest().groupid = "g"


def test_a_message_shows_its_fields() -> None:
    assert repr(HeartbeatResponse(error_code=5)) == "HeartbeatResponse(throttle_time_ms=0, error_code=5)"


def test_codec_errors_name_the_field_and_the_reason() -> None:
    error = MalformedMessage("JoinGroupRequest.protocols[3].name", "is null")
    assert str(error) == "JoinGroupRequest.protocols[3].name: is null"
    assert (error.path, error.reason) == ("JoinGroupRequest.protocols[3].name", "is null")
    assert str(UnrepresentableField("A.b")) == "A.b is not in this version"


def test_error_codes_are_kafkas() -> None:
    assert (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID) == (-1, 0, 25)
    assert error_name(79) == "MEMBER_ID_REQUIRED"
    assert error_message(25) == "The coordinator is not aware of this member."
    assert error_message(0) == "NONE"
    assert is_retriable(ErrorCode.NOT_COORDINATOR)
    assert not is_retriable(ErrorCode.UNKNOWN_MEMBER_ID)
    assert (error_name(9999), error_message(9999), is_retriable(9999)) == ("UNKNOWN(9999)", "", False)


def test_a_large_message_is_freed_in_steps() -> None:
    partitions = [[*range(700)] for _ in range(3)]
    topics = [OffsetFetchRequestTopics("t", partition_indexes=one) for one in partitions] * 300
    groups = [OffsetFetchRequestGroup("g", topics=topics), OffsetFetchRequestGroup("all", topics=None)]
    take_apart(OffsetFetchRequest(groups=groups))
    assert (groups, topics, partitions) == ([], [], [[], [], []])
    take_apart(OffsetFetchRequest(groups=()))


def test_a_copied_message_has_the_same_fields_and_is_another_message() -> None:
    whole = OffsetFetchRequestTopics("orders", partition_indexes=[0, 1])
    part = copied(whole)
    assert part == whole
    part.partition_indexes = [1]
    assert whole.partition_indexes == [0, 1]
