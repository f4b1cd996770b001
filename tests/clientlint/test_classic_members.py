"""Members of classic groups that break rules, and members that look alike and keep them."""

from __future__ import annotations

import pytest

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.clientlint.scripted import Scripted


def join(client: Scripted, generation: int = 1, member: str = "m", leader: str = "m", known: str = "m") -> None:
    request = JoinGroupRequest(group_id="g", member_id=known, session_timeout_ms=10_000)
    client.ask(request, JoinGroupResponse(member_id=member, leader=leader, generation_id=generation))


def sync(client: Scripted, generation: int = 1) -> None:
    client.ask(SyncGroupRequest(group_id="g", member_id="m", generation_id=generation), SyncGroupResponse())


def beat(client: Scripted, generation: int = 1, error: int = 0) -> None:
    client.ask(
        HeartbeatRequest(group_id="g", member_id="m", generation_id=generation), HeartbeatResponse(error_code=error)
    )


def leave(client: Scripted, error: int = 0) -> None:
    answer = LeaveGroupResponse(error_code=error, members=[MemberResponse("m")])
    client.ask(LeaveGroupRequest("g", members=[MemberIdentity("m")]), answer)


def commit(client: Scripted, generation: int = 1, error: int = 0) -> None:
    answer = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(0, error)])]
    )
    client.ask(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=generation, member_id="m"), answer)


@pytest.fixture
def client() -> Scripted:
    made = Scripted()
    join(made)
    return made


def test_a_member_that_keeps_all_rules_has_no_finding(client: Scripted) -> None:
    sync(client)
    for _ in range(10):
        beat(client.later(3_000))
        commit(client.later(10))
    beat(client.later(3_000), error=ErrorCode.REBALANCE_IN_PROGRESS)
    join(client.later(5), generation=2)
    sync(client.later(5), generation=2)
    beat(client.later(3_000), generation=2)
    leave(client.later(5))
    assert client.rules == []


def test_a_follower_sends_heartbeats_and_no_sync(client: Scripted) -> None:
    join(client, leader="other")
    beat(client.later(3_000))
    assert client.rules == []
    beat(client.later(3_000))
    assert client.rules == ["heartbeat-before-sync sure"]
    assert "2 Heartbeats of generation 1 without its SyncGroup, 6.0 s" in client.found[0].evidence[0][1]


def test_a_leader_may_take_long_for_the_assignment(client: Scripted) -> None:
    beat(client.later(3_000))
    beat(client.later(3_000))
    assert client.rules == []
    beat(client.later(3_000))
    assert client.rules == ["heartbeat-before-sync perhaps"]


def test_a_heartbeat_after_leaving(client: Scripted) -> None:
    sync(client)
    leave(client.later(10))
    beat(client.later(3_000))
    assert client.rules == ["request-after-leave sure"]


def test_a_heartbeat_that_may_have_been_sent_before_the_answer_of_leaving_is_no_finding(client: Scripted) -> None:
    sync(client)
    leave(client.later(10))
    beat(client.later(2))
    assert client.rules == []


def test_a_heartbeat_after_a_refused_leave_is_no_finding(client: Scripted) -> None:
    sync(client)
    leave(client.later(10), error=ErrorCode.NOT_COORDINATOR)
    beat(client.later(3_000))
    assert client.rules == []


def test_when_the_connection_of_the_answer_has_ended_a_finding_says_perhaps(client: Scripted) -> None:
    sync(client)
    leave(client.later(10))
    client.reconnect()
    beat(client.later(3_000))
    assert client.rules == ["request-after-leave perhaps"]


def test_a_member_id_is_used_after_its_end(client: Scripted) -> None:
    sync(client)
    beat(client.later(3_000), error=ErrorCode.UNKNOWN_MEMBER_ID)
    beat(client.later(3_000), error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert client.rules == ["dead-member-id sure"]


def test_a_member_joins_anew_after_its_id_has_ended(client: Scripted) -> None:
    sync(client)
    beat(client.later(3_000), error=ErrorCode.UNKNOWN_MEMBER_ID)
    join(client.later(100), generation=3, known="")
    sync(client, generation=3)
    beat(client.later(3_000), generation=3)
    assert client.rules == []


def test_heartbeats_of_an_ended_generation(client: Scripted) -> None:
    sync(client)
    join(client.later(10), generation=2)
    beat(client.later(3_000), generation=1)
    assert client.rules == ["ended-generation perhaps"]
    beat(client.later(3_000), generation=1)
    assert client.rules == ["ended-generation sure"]


def test_a_commit_that_was_refused_is_repeated(client: Scripted) -> None:
    sync(client)
    commit(client.later(10), error=ErrorCode.ILLEGAL_GENERATION)
    commit(client.later(1_000), error=ErrorCode.ILLEGAL_GENERATION)
    assert client.rules == ["ended-generation sure"]
    assert client.found[0].api == "OffsetCommit"


def test_a_commit_that_is_refused_for_a_while_is_not_a_breach_for_ever(client: Scripted) -> None:
    sync(client)
    commit(client.later(10), error=ErrorCode.ILLEGAL_GENERATION)
    for _ in range(3):
        commit(client.later(1_000))
    (one,) = client.found
    assert one.count == 1


def test_after_a_commit_the_next_heartbeat_may_find_out_that_the_member_is_gone(client: Scripted) -> None:
    sync(client)
    commit(client.later(10), error=ErrorCode.UNKNOWN_MEMBER_ID)
    beat(client.later(2_000), error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert client.rules == []


def test_a_commit_that_was_refused_is_sent_in_the_next_generation(client: Scripted) -> None:
    sync(client)
    commit(client.later(10), error=ErrorCode.ILLEGAL_GENERATION)
    join(client.later(10), generation=2)
    sync(client, generation=2)
    commit(client.later(1_000), generation=2)
    assert client.rules == []


def test_a_commit_of_an_ended_generation_may_have_waited_in_the_client(client: Scripted) -> None:
    sync(client)
    join(client.later(10), generation=2)
    commit(client.later(100), generation=1)
    assert client.rules == []
    commit(client.later(1_000), generation=1)
    assert client.rules == ["ended-generation perhaps"]


def test_a_commit_after_leaving_may_have_waited_in_the_client(client: Scripted) -> None:
    sync(client)
    leave(client.later(10))
    commit(client.later(1_000))
    commit(client.later(1_000), generation=-1)
    assert client.rules == ["ended-generation perhaps"]


def test_a_session_that_the_client_does_not_hold(client: Scripted) -> None:
    sync(client)
    beat(client.later(12_000), error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert client.rules == ["session-not-held sure"]
    assert "for 12.0 s, with a session timeout of 10.0 s" in client.found[0].evidence[0][1]


def test_a_member_that_was_removed_by_others_has_held_its_session(client: Scripted) -> None:
    sync(client)
    beat(client.later(3_000), error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert client.rules == []


def test_a_session_that_is_barely_held(client: Scripted) -> None:
    sync(client)
    for _ in range(5):
        beat(client.later(6_000))
    assert client.rules == ["session-not-held perhaps"]


def test_a_session_timeout_that_is_not_allowed() -> None:
    client = Scripted()
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1)
    client.ask(request, JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT))
    assert client.rules == ["session-not-held sure"]


def test_requests_of_unknown_members_and_lost_answers_are_no_finding(client: Scripted) -> None:
    client.send(HeartbeatRequest("other", 1, "x"))
    client.ask(HeartbeatRequest("other", 1, "x"), HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID))
    client.ask(HeartbeatRequest("other", 1, ""), None)
    assert client.rules == []


# ---- ids that JoinGroup gives


def required(client: Scripted, member: str = "new") -> None:
    answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member)
    client.ask(JoinGroupRequest(group_id="h"), answer)


def test_the_id_of_member_id_required_is_thrown_away() -> None:
    client = Scripted()
    required(client)
    required(client.later(100))
    assert client.rules == ["required-id-thrown-away perhaps"]
    required(client.later(100))
    assert client.rules == ["required-id-thrown-away sure"]


def test_the_id_of_member_id_required_is_used() -> None:
    client = Scripted()
    required(client)
    client.ask(JoinGroupRequest(group_id="h", member_id="new"), JoinGroupResponse(member_id="new"))
    client.ask(JoinGroupRequest(group_id="h", member_id="new"), JoinGroupResponse(member_id="new"))
    assert client.rules == []


def test_a_member_of_a_group_joins_without_its_id() -> None:
    client = Scripted()
    for number in range(3):
        join(client.later(1_000), member=f"m{number}", known="")
    assert client.rules == ["join-without-its-id sure"]


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_after_such_an_error_a_member_may_join_without_an_id(client: Scripted, error: int) -> None:
    for _ in range(3):
        sync(client)
        beat(client.later(1_000), error=error)
        join(client, known="")
    assert client.rules == []


def test_after_leaving_and_with_a_static_member_a_join_needs_no_id(client: Scripted) -> None:
    leave(client)
    join(client, known="")
    leave(client)
    for _ in range(3):
        request = JoinGroupRequest(group_id="g", group_instance_id="i", session_timeout_ms=10_000)
        client.ask(request, JoinGroupResponse(member_id="i-1"))
    assert client.rules == []


def test_two_members_on_one_connection_are_no_finding(client: Scripted) -> None:
    join(client, member="other", known="other")
    for _ in range(3):
        join(client, member="third", known="")
    assert client.rules == []
