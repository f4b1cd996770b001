from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, STABLE
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import GroupHarness


def test_a_sync_is_refused_for_the_same_first_fault_as_on_kafka() -> None:
    harness = GroupHarness()
    assert harness.sync("x", group="", generation=1).error_code == ErrorCode.INVALID_GROUP_ID
    assert harness.sync("x", generation=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    a, b = harness.completing(static=True)
    assert harness.sync("x", generation=7).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync(b, generation=7, instance="i0").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.sync(a, generation=7, kind="connect").error_code == ErrorCode.ILLEGAL_GENERATION
    assert harness.sync(a, kind="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(a, protocol="roundrobin").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(a, kind=None, protocol=None).error_code == 0


def test_a_sync_to_an_empty_group_is_answered_with_unknown_member_id() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    harness.leave(a)
    assert harness.sync(a).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_during_a_rebalance_is_answered_with_rebalance_in_progress() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(a)
    reply = harness.sync(b)
    assert (reply.error_code, reply.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert (reply.protocol_type, reply.protocol_name) == (None, None)


def test_a_follower_waits_for_the_leader_and_its_own_assignments_are_ignored() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    assert harness.sync(b, {a: b"wrong", b: b"wrong"}) is None
    token = harness.asked
    assert harness.group().state == COMPLETING
    mine = harness.sync(a, {a: b"one", b: b"two"})
    assert (mine.error_code, mine.assignment) == (0, b"one")
    assert (mine.protocol_type, mine.protocol_name) == ("consumer", "range")
    assert harness.reply(token).assignment == b"two"
    assert harness.group().state == STABLE


def test_the_leader_is_answered_at_once_and_assignments_of_unknown_members_are_dropped() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    assert harness.sync(a, {"ghost": b"x"}).assignment == b""
    assert harness.group().state == STABLE
    assert harness.sync(b).assignment == b""


def test_a_sync_in_stable_gets_the_assignment_again_and_changes_nothing() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    for _ in range(2):
        assert harness.sync(a, {a: b"other"}).assignment == b"0"
        assert harness.sync(b).assignment == b"1"


def test_the_record_has_the_generation_and_the_time_of_completing() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    since_ms = harness.group().state_since_ms
    harness.advance(500)
    harness.sync(a, {b: b"x"})
    record = harness.records[-1]
    value = record.value
    assert record.value_version == 3
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, "range", a)
    assert value.current_state_timestamp == since_ms
    rows = [(one.member_id, one.subscription, one.assignment, one.session_timeout) for one in value.members]
    assert rows == [(a, b"r", b"", 10_000), (b, b"r", b"x", 10_000)]


def test_a_sync_in_stable_does_not_extend_the_session() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.advance(6_000)
    harness.beat(a)
    harness.sync(b)
    harness.advance(4_000)
    assert list(harness.group().members) == [a]


@pytest.mark.parametrize("who", [0, 1])
def test_a_member_that_has_synced_is_no_longer_pending(who: int) -> None:
    harness = GroupHarness()
    ids = harness.completing()
    harness.sync(ids[who])
    assert list(harness.group().pending_sync) == [ids[1 - who]]
