from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, STABLE
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import Room


def test_what_is_refused_in_kafkas_order() -> None:
    room = Room()
    assert room.sync("x", group="", generation=1).error_code == ErrorCode.INVALID_GROUP_ID
    assert room.sync("x", generation=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    a, b = room.completing(static=True)
    assert room.sync("x", generation=7).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.sync(b, generation=7, instance="i0").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert room.sync(a, generation=7, kind="connect").error_code == ErrorCode.ILLEGAL_GENERATION
    assert room.sync(a, kind="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.sync(a, protocol="roundrobin").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.sync(a, kind=None, protocol=None).error_code == 0


def test_an_empty_group_knows_nobody() -> None:
    room = Room()
    (a,) = room.stable(count=1)
    room.leave(a)
    assert room.sync(a).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_is_on() -> None:
    room = Room()
    a, b = room.stable()
    room.join(a)
    reply = room.sync(b)
    assert (reply.error_code, reply.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert (reply.protocol_type, reply.protocol_name) == (None, None)


def test_followers_wait_for_the_leader_and_what_they_assign_is_ignored() -> None:
    room = Room()
    a, b = room.completing()
    assert room.sync(b, {a: b"wrong", b: b"wrong"}) is None
    token = room.asked
    assert room.group().state == COMPLETING
    mine = room.sync(a, {a: b"one", b: b"two"})
    assert (mine.error_code, mine.assignment) == (0, b"one")
    assert (mine.protocol_type, mine.protocol_name) == ("consumer", "range")
    assert room.reply(token).assignment == b"two"
    assert room.group().state == STABLE


def test_the_leader_need_not_wait_and_ghosts_get_nothing() -> None:
    room = Room()
    a, b = room.completing()
    assert room.sync(a, {"ghost": b"x"}).assignment == b""
    assert room.group().state == STABLE
    assert room.sync(b).assignment == b""


def test_in_stable_anyone_may_ask_again_and_assigns_nothing() -> None:
    room = Room()
    a, b = room.stable()
    for _ in range(2):
        assert room.sync(a, {a: b"other"}).assignment == b"0"
        assert room.sync(b).assignment == b"1"


def test_the_record_has_the_generation_and_the_time_of_completing() -> None:
    room = Room()
    a, b = room.completing()
    since_ms = room.group().state_since_ms
    room.advance(500)
    room.sync(a, {b: b"x"})
    record = room.records[-1]
    value = record.value
    assert record.value_version == 3
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, "range", a)  # type: ignore[union-attr]  # a group's
    assert value.current_state_timestamp == since_ms  # type: ignore[union-attr]  # a group's
    rows = [(one.member_id, one.subscription, one.assignment, one.session_timeout) for one in value.members]  # type: ignore[union-attr]  # a group's
    assert rows == [(a, b"r", b"", 10_000), (b, b"r", b"x", 10_000)]


def test_a_sync_in_stable_is_no_sign_of_life() -> None:
    room = Room()
    a, b = room.stable()
    room.advance(6_000)
    room.beat(a)
    room.sync(b)
    room.advance(4_000)
    assert list(room.group().members) == [a]


@pytest.mark.parametrize("who", [0, 1])
def test_who_has_synced_is_expected_no_longer(who: int) -> None:
    room = Room()
    ids = room.completing()
    room.sync(ids[who])
    assert list(room.group().pending_sync) == [ids[1 - who]]
