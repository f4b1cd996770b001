from __future__ import annotations

from muster.coordinator.groups.classic.group import PREPARING
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import BOTH, Room


def test_a_newer_join_is_answered_and_the_older_one_late() -> None:
    room = Room()
    a, b = room.stable()
    room.join(b, protocols=BOTH)
    older = room.asked
    room.join(b, protocols=BOTH)
    newer = room.asked
    room.join(a)
    assert room.reply(newer).error_code == 0
    assert room.reply(older) is None
    room.advance(10_000)
    assert (room.reply(older).error_code, room.reply(older).member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, b)


def test_a_newer_sync_is_answered_and_the_older_one_late() -> None:
    room = Room()
    a, b = room.completing()
    room.sync(b)
    older = room.asked
    room.sync(b)
    newer = room.asked
    room.sync(a, {b: b"x"})
    assert room.reply(newer).assignment == b"x"
    assert room.reply(older) is None
    room.advance(10_000)
    assert room.reply(older).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_parked_sync_of_a_member_that_leaves_is_answered_late() -> None:
    room = Room()
    _, b = room.completing()
    room.sync(b)
    token = room.asked
    room.leave(b)
    assert room.group().state == PREPARING
    assert room.reply(token) is None
    room.advance(10_000)
    assert room.reply(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.core.state.abandoned == {}


def test_the_parked_join_of_a_member_that_leaves_is_answered_at_once() -> None:
    room = Room()
    _, b = room.stable()
    room.join(b, protocols=BOTH)
    token = room.asked
    room.leave(b)
    assert (room.reply(token).error_code, room.reply(token).member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_answered_syncs_begin_the_session_anew_with_an_error_too() -> None:
    room = Room()
    a, b = room.completing()
    room.sync(b)
    room.advance(9_000)
    room.join(a, protocols=BOTH)
    room.advance(9_000)
    assert b in room.group().members
    room.advance(1_000)
    assert b not in room.group().members


def test_giving_up_answers_everything_that_is_parked() -> None:
    room = Room()
    for group in ("preparing", "completing"):
        room.join(group=group, instance="a")
        room.join(group=group, instance="b")
    room.join(room.group("completing").static_ids["a"], group="completing")
    b = room.group("completing").static_ids["b"]
    room.sync(b, group="completing")
    room.sync(b, group="completing")
    new = room.group("preparing").static_ids["b"]
    assert room.add(room.core.resign(ErrorCode.NOT_COORDINATOR)).replies
    late = {token: got[0] for token, got in room.replies.items() if got[0].error_code == ErrorCode.NOT_COORDINATOR}  # type: ignore[attr-defined]  # all have one
    assert len(late) == 2
    assert [getattr(one, "member_id", None) for one in late.values()] == [new, None]
    assert room.reply(room.asked - 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(room.replies) == set(range(1, room.asked + 1))
    assert room.core.next_deadline_ms() is None
    assert room.core.state.groups == {}
