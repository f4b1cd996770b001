from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.groups.harness import BOTH, Room


def test_an_id_is_forgotten_after_the_session_timeout_it_asked_for() -> None:
    room = Room()
    new = room.join(needs_id=True, session=600).member_id
    room.advance(599)
    assert list(room.group().pending) == [new]
    room.advance(1)
    assert room.group().pending == {}
    assert room.join(new).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_two_requests_without_an_id_are_two_ids() -> None:
    room = Room()
    room.join(needs_id=True)
    room.join(needs_id=True)
    assert len(room.group().pending) == 2


def test_it_holds_up_a_join_phase_until_it_is_used() -> None:
    room = Room()
    a, b = room.stable()
    new = room.join(needs_id=True).member_id
    assert room.group().state == STABLE
    assert room.join(a) is None
    assert room.join(b) is None
    assert room.join(new).generation_id == 3


def test_or_until_it_is_forgotten() -> None:
    room = Room()
    a, b = room.stable()
    room.join(needs_id=True, session=600)
    room.join(a)
    room.join(b)
    room.advance(600)
    assert room.reply(room.asked).generation_id == 3


def test_or_until_it_leaves() -> None:
    room = Room()
    (a,) = room.stable(count=1)
    new = room.join(needs_id=True).member_id
    room.join(a)
    assert room.group().state == PREPARING
    assert room.leave(new).members[0].error_code == 0
    assert room.group().state == COMPLETING
    assert room.core.state.deadlines.next_ms() is not None


def test_or_until_the_rebalance_timeout() -> None:
    room = Room()
    (a,) = room.stable(count=1)
    new = room.join(needs_id=True, session=600_000).member_id
    room.join(a, protocols=BOTH)
    room.advance(20_000)
    assert room.group().state == COMPLETING
    assert list(room.group().pending) == [new]
    assert room.join(new) is None
    assert room.group().state == PREPARING


def test_it_is_forgotten_in_a_stable_group_without_a_trace() -> None:
    room = Room()
    (a,) = room.stable(count=1)
    room.join(needs_id=True, session=600)
    room.advance(600)
    assert room.group().state == STABLE
    assert room.beat(a) == 0


def test_it_is_no_member() -> None:
    room = Room()
    new = room.join(needs_id=True).member_id
    assert room.beat(new, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.sync(new, generation=0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(new, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.group().state == EMPTY


@pytest.mark.parametrize("session", [600, 600_000])
def test_a_group_with_nothing_but_ids_can_be_deleted(session: int) -> None:
    room = Room()
    new = room.join(needs_id=True, session=session).member_id
    assert room.send(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    assert room.only_retention_is_due()
    assert room.join(new).error_code == ErrorCode.UNKNOWN_MEMBER_ID
