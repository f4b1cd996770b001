from __future__ import annotations

import pytest

from muster.coordinator.runtime.replies import NO_DELAY_MS
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.clock import ManualClock
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.api.harness import Answers, Refusing, ask, make_context, make_group_node


def join(member_id: str = "", group: str = "g", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group, 10_000, 10_000, member_id, instance, "consumer", [JoinGroupRequestProtocol("range", b"m")]
    )


def test_a_member_joins_sends_heartbeats_and_leaves() -> None:
    clock = ManualClock()
    node = make_group_node(clock=clock)
    asked = ask(node, join()).one()
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert asked.member_id == "test-00000000-0000-4000-8000-000000000001"
    joined = ask(node, join(asked.member_id))
    clock.advance(NO_DELAY_MS)
    assert (joined.one().error_code, joined.one().generation_id) == (0, 1)
    assignment = [SyncGroupRequestAssignment(asked.member_id, b"all")]
    synced = ask(node, SyncGroupRequest("g", 1, asked.member_id, None, "consumer", "range", assignment)).one()
    assert (synced.error_code, synced.assignment) == (0, b"all")
    assert ask(node, HeartbeatRequest("g", 1, asked.member_id)).one().error_code == 0
    left = ask(node, LeaveGroupRequest("g", members=[MemberIdentity(asked.member_id)])).one()
    assert [row.error_code for row in left.members] == [0]
    assert ask(node, HeartbeatRequest("g", 1, asked.member_id)).one().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_before_version_4_needs_no_second_request() -> None:
    clock = ManualClock()
    node = make_group_node(clock=clock)
    joined = ask(node, join(), make_context(11, 3))
    clock.advance(NO_DELAY_MS)
    assert (joined.one().error_code, joined.one().generation_id) == (0, 1)


def test_static_members_that_start_together_join_one_generation_without_an_initial_delay() -> None:
    clock = ManualClock()
    node = make_group_node(clock=clock)
    first = ask(node, join(instance="a"))
    clock.advance(2)
    second = ask(node, join(instance="b"))
    clock.advance(NO_DELAY_MS - 2)
    assert [one.one().generation_id for one in (first, second)] == [1, 1]
    assert [row.group_instance_id for row in first.one().members] == ["a", "b"]


def test_each_group_lives_on_the_shard_of_its_partition() -> None:
    node = make_group_node(shards=3)
    names = ["a", "b", "c", "my-group", "grp"]
    for group in names:
        assert ask(node, join(group=group)).one().error_code == ErrorCode.MEMBER_ID_REQUIRED
    held = [list(shard.group_ids()) for shard in node.routing.shards]
    assert held == [[g for g in names if group_partition(g, 3) == index] for index in range(3)]


def test_a_sync_without_a_protocol_is_refused_if_its_version_has_the_field() -> None:
    node = make_group_node()
    for group in ("g", ""):
        new = ask(node, SyncGroupRequest(group, 1, "m"), make_context(14, 5)).one()
        assert new.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ask(node, SyncGroupRequest("g", 1, "m"), make_context(14, 4)).one().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "request_",
    [join(), SyncGroupRequest("g"), HeartbeatRequest("g"), LeaveGroupRequest("g")],
    ids=["join", "sync", "heartbeat", "leave"],
)
def test_the_group_is_not_asked_without_permission(request_: Message) -> None:
    question = Operation.READ, ResourceType.GROUP, "g"
    authorizer = Refusing(question)
    answers: Answers = ask(make_group_node(authorizer=authorizer), request_)
    assert answers.one().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert authorizer.asked == [question]
