from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest
from tests.coordinator.groups.harness import Room


def test_what_is_refused_in_kafkas_order() -> None:
    room = Room()
    assert room.beat("x", 0, group="") == ErrorCode.INVALID_GROUP_ID
    assert room.beat("x", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    a, b = room.stable(static=True)
    assert room.beat("x", 7) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat("x", 7, "i0") == ErrorCode.FENCED_INSTANCE_ID
    assert room.beat(b, 7, "i0") == ErrorCode.FENCED_INSTANCE_ID
    assert room.beat(a, 2, "i9") == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(a, 7) == room.beat(a, 1) == room.beat(a, -1) == ErrorCode.ILLEGAL_GENERATION
    assert room.beat(a, 2) == room.beat(a, 2, "i0") == 0


def test_in_each_state() -> None:
    room = Room()
    a, b = room.completing()
    assert room.beat(b) == 0
    room.sync(a)
    room.sync(b)
    assert room.beat(b) == 0
    room.join(a)
    assert room.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    room.leave(a)
    room.leave(b)
    assert room.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID


def test_it_is_a_sign_of_life_in_every_state_with_the_members_own_timeout() -> None:
    room = Room()
    a, b = room.stable()
    room.group().members[b].session_timeout_ms = 4_000
    room.join(a)
    room.advance(9_000)
    assert room.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    room.advance(3_999)
    assert b in room.group().members
    room.advance(1)
    assert b not in room.group().members


def test_a_wrong_generation_is_none() -> None:
    room = Room()
    a, b = room.stable()
    room.advance(9_000)
    room.beat(a)
    room.beat(b, 7)
    room.advance(1_000)
    assert list(room.group().members) == [a]


def test_a_shorter_session_counts_from_the_next_heartbeat() -> None:
    room = Room()
    a, b = room.stable()
    room.group().members[b].session_timeout_ms = 100
    room.beat(b)
    room.advance(100)
    assert list(room.group().members) == [a]


def test_a_member_whose_heartbeats_are_expected_again() -> None:
    room = Room()
    a, b = room.stable(static=True)
    group = room.group()
    for stranger in (("g", 2, "ghost"), ("no", 2, a), ("g", 1, a), ("g", 2, a, "i1")):
        assert room.core.prepare_heartbeat(HeartbeatRequest(*stranger)) is None
    for names in (("g", 2, a), ("g", 2, a, "i0")):
        made = room.core.prepare_heartbeat(HeartbeatRequest(*names))
        assert made is not None
        room.advance(9_000)
        room.beat(b)
        assert made.heartbeat(room.now.mono_ms)
    room.advance(9_000)
    assert a in group.members
    group.members[a].session_timeout_ms = 10
    assert not made.heartbeat(room.now.mono_ms), "its deadline moves to an earlier time"
    group.members[a].session_timeout_ms = 10_000
    other = room.join(instance="i0", group="g")
    assert not made.heartbeat(room.now.mono_ms), "another has its place"
    renamed = room.core.prepare_heartbeat(HeartbeatRequest("g", 2, other.member_id))
    assert renamed is not None
    assert renamed.heartbeat(room.now.mono_ms)
    room.join(b, instance="i1", protocols=(("range", b"other"),))
    assert not renamed.heartbeat(room.now.mono_ms), "a rebalance is under way"
    room.leave(other.member_id)
    assert not renamed.heartbeat(room.now.mono_ms), "it has left"
