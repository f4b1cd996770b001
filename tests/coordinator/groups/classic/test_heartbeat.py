from __future__ import annotations

from muster.coordinator.groups.classic import sessions
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest
from tests.coordinator.groups.harness import GroupHarness


def test_a_heartbeat_is_refused_for_the_same_first_fault_as_on_kafka() -> None:
    harness = GroupHarness()
    assert harness.beat("x", 0, group="") == ErrorCode.INVALID_GROUP_ID
    assert harness.beat("x", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    a, b = harness.stable(static=True)
    assert harness.beat("x", 7) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("x", 7, "i0") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(b, 7, "i0") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(a, 2, "i9") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(a, 7) == harness.beat(a, 1) == harness.beat(a, -1) == ErrorCode.ILLEGAL_GENERATION
    assert harness.beat(a, 2) == harness.beat(a, 2, "i0") == 0


def test_the_group_state_decides_the_answer_to_a_heartbeat() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    assert harness.beat(b) == 0
    harness.sync(a)
    harness.sync(b)
    assert harness.beat(b) == 0
    harness.join(a)
    assert harness.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.leave(a)
    harness.leave(b)
    assert harness.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_extends_the_session_by_the_members_own_timeout_in_every_state() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.group().members[b].session_timeout_ms = 4_000
    harness.join(a)
    harness.advance(9_000)
    assert harness.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.advance(3_999)
    assert b in harness.group().members
    harness.advance(1)
    assert b not in harness.group().members


def test_a_heartbeat_of_a_wrong_generation_does_not_extend_the_session() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.advance(9_000)
    harness.beat(a)
    harness.beat(b, 7)
    harness.advance(1_000)
    assert list(harness.group().members) == [a]


def test_a_shorter_session_counts_from_the_next_heartbeat() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.group().members[b].session_timeout_ms = 100
    harness.beat(b)
    harness.advance(100)
    assert list(harness.group().members) == [a]


def test_a_cached_heartbeat_is_recognized_only_from_the_same_member_and_generation() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    group = harness.group()
    for stranger in (("g", 2, "ghost"), ("no", 2, a), ("g", 1, a), ("g", 2, a, "i1")):
        assert sessions.prepare_heartbeat(harness.core.state, HeartbeatRequest(*stranger)) is None
    for names in (("g", 2, a), ("g", 2, a, "i0")):
        made = sessions.prepare_heartbeat(harness.core.state, HeartbeatRequest(*names))
        assert made is not None
        harness.advance(9_000)
        harness.beat(b)
        assert made.heartbeat(harness.now.mono_ms)
    harness.advance(9_000)
    assert a in group.members
    group.members[a].session_timeout_ms = 10
    assert not made.heartbeat(harness.now.mono_ms), "its deadline moves to an earlier time"
    group.members[a].session_timeout_ms = 10_000
    other = harness.join(instance="i0", group="g")
    assert not made.heartbeat(harness.now.mono_ms), "another has its place"
    renamed = sessions.prepare_heartbeat(harness.core.state, HeartbeatRequest("g", 2, other.member_id))
    assert renamed is not None
    assert renamed.heartbeat(harness.now.mono_ms)
    harness.join(b, instance="i1", protocols=(("range", b"other"),))
    assert not renamed.heartbeat(harness.now.mono_ms), "a rebalance is under way"
    harness.leave(other.member_id)
    assert not renamed.heartbeat(harness.now.mono_ms), "it has left"
