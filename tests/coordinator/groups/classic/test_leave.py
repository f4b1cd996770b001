from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import EMPTY, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.groups.harness import Room


def batch(room: Room, *members: tuple[str, str | None]) -> list[tuple[str, str | None, int]]:
    rows = [MemberIdentity(member, instance) for member, instance in members]
    reply = room.send(LeaveGroupRequest("g", "", rows))
    assert reply.error_code == 0
    return [(one.member_id, one.group_instance_id, one.error_code) for one in reply.members]


def test_the_empty_group_id_is_refused() -> None:
    reply = Room().leave("x", group="")
    assert (reply.error_code, list(reply.members)) == (ErrorCode.INVALID_GROUP_ID, [])


def test_an_unknown_group_knows_nobody() -> None:
    assert batch(Room(), ("x", None), ("", "i")) == [("x", None, 25), ("", "i", 25)]


def test_leaving_rebalances_and_the_id_is_unknown_from_then_on() -> None:
    room = Room()
    a, b = room.stable()
    assert batch(room, (b, None)) == [(b, None, 0)]
    assert room.group().state == PREPARING
    assert room.beat(a) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.beat(b) == room.commit(b, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    left, began = [event for event in room.events if event.kind != events.REQUEST_REFUSED][-2:]
    assert (left.kind, left.facts["member"].member, left.facts["reason"]) == (events.MEMBER_LEFT, b, None)
    assert (began.facts["cause"], began.facts["trigger"].member) == (events.LEFT, b)


def test_by_instance_id_alone() -> None:
    room = Room()
    a, b = room.stable(static=True)
    assert batch(room, ("", "i1"), ("", "i9"), ("", None)) == [("", "i1", 0), ("", "i9", 25), ("", None, 25)]
    assert room.group().static_ids == {"i0": a}
    assert room.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID


def test_each_row_answers_for_itself_in_order_with_one_rebalance() -> None:
    room = Room()
    a, b, c = room.stable(count=3, static=True)
    got = batch(room, (b, "i1"), ("ghost", None), (c, "i1"), (c, "i0"), (c, None), (c, None), ("", "i1"))
    assert [error for _, _, error in got] == [0, 25, 25, 82, 0, 25, 25]
    assert list(room.group().members) == [a]
    assert room.kinds().count(events.REBALANCE_STARTED) == 3  # two to get here, and one


@pytest.mark.parametrize("rows", [[], [("ghost", None), ("", "i9")]])
def test_nobody_left_no_rebalance(rows: list[tuple[str, str | None]]) -> None:
    room = Room()
    room.stable()
    batch(room, *rows)
    assert room.group().state == STABLE


def test_a_pending_id_that_leaves_rebalances_a_stable_group() -> None:
    room = Room()
    room.stable()
    new = room.join(needs_id=True).member_id
    assert batch(room, (new, "whatever")) == [(new, "whatever", 0)]
    assert room.group().state == PREPARING


def test_a_pending_id_that_leaves_an_empty_group_changes_nothing() -> None:
    room = Room()
    new = room.join(needs_id=True).member_id
    batch(room, (new, None))
    assert (room.group().state, room.group().generation) == (EMPTY, 0)
    assert room.only_retention_is_due()


def test_who_waits_only_for_the_leaver_is_answered_before_it() -> None:
    room = Room()
    a, b = room.stable()
    room.join(a)
    request = LeaveGroupRequest("g", "", [MemberIdentity(b)])
    output = room.core.handle(Command(request, "leave", Client("c", "/h")), room.now)
    assert [token for token, _ in output.replies] == [room.asked, "leave"]


def test_the_leader_leaves_and_another_takes_its_place() -> None:
    room = Room()
    a, b, _ = room.stable(count=3)
    batch(room, (a, None))
    assert room.group().leader_id == b


def test_all_at_once_empties_the_group() -> None:
    room = Room()
    a, b = room.stable()
    batch(room, (a, None), (b, None))
    assert (room.group().state, room.group().generation) == (EMPTY, 3)


def test_a_leaver_is_not_missed_later() -> None:
    room = Room()
    a, b, c = room.stable(count=3)
    room.leave(b)
    room.join(a)
    room.join(c)  # also what was waited for in that generation is waited for no longer
    room.leave(c)
    room.join(a)
    room.sync(a)
    for _ in range(6):
        room.advance(9_000)
        assert room.beat(a) == 0
    assert events.MEMBER_REMOVED not in room.kinds()
